//! Pools of a gateway that dies, or that another gateway interrupts. A gateway dies after a number
//! of operations, counted over both pools: from then on none works, or one does not. Another
//! gateway interrupts it right after a call with a given number.

use super::Pools;
use async_trait::async_trait;
use benthic_core::{
    ClassCall, Error, ErrorKind, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, Result, WriteOp,
    WriteReply,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What becomes of the operation with which it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// It is not done.
    Refused,
    /// It is done, and the gateway does not hear of it.
    Done,
    /// It is done, the answer is lost, and all works again.
    Unanswered,
    /// It is not done, and all works again.
    Away,
}

/// How far the gateway is.
pub struct Fate {
    done: AtomicU64,
    dies_after: u64,
    last: Last,
    calls: AtomicU64,
    interruption: Option<Interruption>,
}

/// What another gateway does, and right after which call, counted from 1.
type Interruption = (u64, Arc<dyn Fn() + Send + Sync>);

impl Fate {
    pub fn new(dies_after: u64, last: Last) -> Arc<Fate> {
        let (done, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Fate { done, dies_after, last, calls, interruption: None })
    }

    /// The fate of a gateway that lives on, and that another gateway interrupts right after the
    /// call with this number.
    pub fn interrupted(call: u64, interrupt: impl Fn() + Send + Sync + 'static) -> Arc<Fate> {
        let (done, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        let interruption: Option<Interruption> = Some((call, Arc::new(interrupt)));
        Arc::new(Fate { done, dies_after: u64::MAX, last: Last::Refused, calls, interruption })
    }

    /// Whether it got through all that it was asked to do.
    pub fn is_well(&self) -> bool {
        self.done.load(Ordering::SeqCst) <= self.dies_after
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Counts a call that was made, and lets the other gateway interrupt if it is time.
    fn count_call(&self) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((_, interrupt)) = self.interruption.as_ref().filter(|(at, _)| *at == call) {
            let interrupt = Arc::clone(interrupt);
            // A thread of its own, because this one drives a future already.
            std::thread::spawn(move || interrupt()).join().unwrap();
        }
    }

    /// Whether the next operation is the last one, and whether it works.
    fn turn(&self) -> Turn {
        let before = self.done.fetch_add(1, Ordering::SeqCst);
        match (before == self.dies_after, self.last) {
            _ if before < self.dies_after => Turn::Works,
            (false, Last::Unanswered | Last::Away) => Turn::Works,
            (true, Last::Done | Last::Unanswered) => Turn::Last,
            _ => Turn::Fails,
        }
    }
}

enum Turn {
    Works,
    Last,
    Fails,
}

/// A pool of such a gateway.
pub struct FaultyPool {
    inner: Arc<dyn Pool>,
    fate: Arc<Fate>,
}

impl FaultyPool {
    /// Both pools with one fate.
    pub fn pools(pools: &Pools, fate: &Arc<Fate>) -> Pools {
        let dying = |inner: &Arc<dyn Pool>| -> Arc<dyn Pool> {
            Arc::new(FaultyPool { inner: Arc::clone(inner), fate: Arc::clone(fate) })
        };
        Pools { index: dying(&pools.index), data: dying(&pools.data) }
    }

    fn gone() -> Error {
        Error::new(ErrorKind::Unavailable, "the gateway died")
    }

    fn lost() -> Error {
        Error::new(ErrorKind::OutcomeUnknown, "the answer was lost")
    }
}

#[async_trait]
impl Pool for FaultyPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        match (self.fate.turn(), self.fate.last) {
            (Turn::Works, _) | (Turn::Last, Last::Unanswered) => self.inner.read(object, op).await,
            _ => Err(FaultyPool::gone()),
        }
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        match self.fate.turn() {
            Turn::Works => self.inner.write(object, op).await,
            Turn::Last => {
                // What comes of it nobody hears.
                let _ = self.inner.write(object, op).await;
                Err(FaultyPool::lost())
            }
            Turn::Fails => Err(FaultyPool::gone()),
        }
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let reads = matches!(call.method.as_str(), "get" | "list");
        match self.fate.turn() {
            Turn::Works => {
                let result = self.inner.exec(object, call).await;
                self.fate.count_call();
                result
            }
            Turn::Last if reads && self.fate.last == Last::Unanswered => self.inner.exec(object, call).await,
            Turn::Last => {
                let _ = self.inner.exec(object, call).await;
                Err(FaultyPool::lost())
            }
            Turn::Fails => Err(FaultyPool::gone()),
        }
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        match (self.fate.turn(), self.fate.last) {
            (Turn::Works, _) | (Turn::Last, Last::Unanswered) => self.inner.list(request).await,
            _ => Err(FaultyPool::gone()),
        }
    }
}
