//! Pools of a gateway that dies: after so many operations, counted over both, nothing works any more, or one does not.

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
}

impl Fate {
    pub fn new(dies_after: u64, last: Last) -> Arc<Fate> {
        Arc::new(Fate { done: AtomicU64::new(0), dies_after, last })
    }

    /// Whether it got through all that it was asked to do.
    pub fn is_well(&self) -> bool {
        self.done.load(Ordering::SeqCst) <= self.dies_after
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
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
pub struct Dying {
    inner: Arc<dyn Pool>,
    fate: Arc<Fate>,
}

impl Dying {
    /// Both pools with one fate.
    pub fn pools(pools: &Pools, fate: &Arc<Fate>) -> Pools {
        let dying = |inner: &Arc<dyn Pool>| -> Arc<dyn Pool> {
            Arc::new(Dying { inner: Arc::clone(inner), fate: Arc::clone(fate) })
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
impl Pool for Dying {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        match (self.fate.turn(), self.fate.last) {
            (Turn::Works, _) | (Turn::Last, Last::Unanswered) => self.inner.read(object, op).await,
            _ => Err(Dying::gone()),
        }
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        match self.fate.turn() {
            Turn::Works => self.inner.write(object, op).await,
            Turn::Last => {
                // What comes of it nobody hears.
                let _ = self.inner.write(object, op).await;
                Err(Dying::lost())
            }
            Turn::Fails => Err(Dying::gone()),
        }
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let reads = matches!(call.method.as_str(), "get" | "list");
        match self.fate.turn() {
            Turn::Works => self.inner.exec(object, call).await,
            Turn::Last if reads && self.fate.last == Last::Unanswered => self.inner.exec(object, call).await,
            Turn::Last => {
                let _ = self.inner.exec(object, call).await;
                Err(Dying::lost())
            }
            Turn::Fails => Err(Dying::gone()),
        }
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        match (self.fate.turn(), self.fate.last) {
            (Turn::Works, _) | (Turn::Last, Last::Unanswered) => self.inner.list(request).await,
            _ => Err(Dying::gone()),
        }
    }
}
