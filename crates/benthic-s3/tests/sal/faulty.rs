//! Pools of a gateway that dies or is interrupted. It dies after a number of operations, counted
//! over both pools: from then on every operation fails, or only one does. Another gateway can
//! interrupt it right after the call with a given number.

use super::Pools;
use async_trait::async_trait;
use benthic_core::{
    ClassCall, ClassHost, ClassInfo, Error, ErrorKind, ListPage, ListRequest, ObjectId, Pool, ReadOp,
    ReadReply, Result, Store, WriteOp, WriteReply,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The outcome of the operation with which the gateway dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// The operation is not done, and all later ones fail.
    Refused,
    /// The operation is done, but the gateway gets no answer, and all later ones fail.
    Done,
    /// The operation is done, its answer is lost, and all later ones work.
    Unanswered,
    /// The operation is not done, and all later ones work.
    Away,
}

/// Progress of a gateway, and the point at which it dies or is interrupted.
pub struct FaultPlan {
    done: AtomicU64,
    dies_after: u64,
    last: Last,
    calls: AtomicU64,
    interruption: Option<Interruption>,
}

/// Number of a call, counted from 1, and the work of the other gateway right after it.
type Interruption = (u64, Arc<dyn Fn() + Send + Sync>);

impl FaultPlan {
    pub fn new(dies_after: u64, last: Last) -> Arc<FaultPlan> {
        let (done, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(FaultPlan { done, dies_after, last, calls, interruption: None })
    }

    /// A gateway that does not die; another gateway interrupts it right after the call with this
    /// number.
    pub fn interrupted(call: u64, interrupt: impl Fn() + Send + Sync + 'static) -> Arc<FaultPlan> {
        let (done, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        let interruption: Option<Interruption> = Some((call, Arc::new(interrupt)));
        Arc::new(FaultPlan { done, dies_after: u64::MAX, last: Last::Refused, calls, interruption })
    }

    /// Whether all operations were done before the point of death.
    pub fn has_survived(&self) -> bool {
        self.done.load(Ordering::SeqCst) <= self.dies_after
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Counts a completed call, and runs the interruption if it is due.
    fn count_call(&self) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((_, interrupt)) = self.interruption.as_ref().filter(|(at, _)| *at == call) {
            let interrupt = Arc::clone(interrupt);
            // Use another thread, because this thread is already blocked on a future.
            std::thread::spawn(move || interrupt()).join().unwrap();
        }
    }

    /// Counts an operation and decides its outcome.
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
    plan: Arc<FaultPlan>,
}

impl FaultyPool {
    /// Wraps all pools with a shared plan.
    pub fn pools(pools: &Pools, plan: &Arc<FaultPlan>) -> Pools {
        let dying = |inner: &Arc<dyn Pool>| -> Arc<dyn Pool> {
            Arc::new(FaultyPool { inner: Arc::clone(inner), plan: Arc::clone(plan) })
        };
        let store = FaultyStore { inner: Arc::clone(&pools.store), plan: Arc::clone(plan) };
        Pools {
            index: dying(&pools.index),
            data: dying(&pools.data),
            cold: dying(&pools.cold),
            store: Arc::new(store),
        }
    }

    fn gone() -> Error {
        Error::new(ErrorKind::Unavailable, "the gateway died")
    }

    fn lost() -> Error {
        Error::new(ErrorKind::OutcomeUnknown, "the answer was lost")
    }
}

/// A store that opens such pools.
struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Arc<FaultPlan>,
}

#[async_trait]
impl Store for FaultyStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        self.inner.create_pool(name).await
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        self.inner.remove_pool(name).await
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        self.inner.list_pools().await
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let inner = self.inner.open_pool(name).await?;
        Ok(Arc::new(FaultyPool { inner, plan: Arc::clone(&self.plan) }))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        self.inner.classes().await
    }

    fn class_host(&self) -> ClassHost {
        self.inner.class_host()
    }

    async fn flush(&self) -> Result<()> {
        self.inner.flush().await
    }
}

#[async_trait]
impl Pool for FaultyPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        match (self.plan.turn(), self.plan.last) {
            (Turn::Works, _) | (Turn::Last, Last::Unanswered) => self.inner.read(object, op).await,
            _ => Err(FaultyPool::gone()),
        }
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        match self.plan.turn() {
            Turn::Works => self.inner.write(object, op).await,
            Turn::Last => {
                // The write happens, but its result is lost.
                let _ = self.inner.write(object, op).await;
                Err(FaultyPool::lost())
            }
            Turn::Fails => Err(FaultyPool::gone()),
        }
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let reads = matches!(call.method.as_str(), "get" | "list");
        match self.plan.turn() {
            Turn::Works => {
                let result = self.inner.exec(object, call).await;
                self.plan.count_call();
                result
            }
            Turn::Last if reads && self.plan.last == Last::Unanswered => self.inner.exec(object, call).await,
            Turn::Last => {
                let _ = self.inner.exec(object, call).await;
                Err(FaultyPool::lost())
            }
            Turn::Fails => Err(FaultyPool::gone()),
        }
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        match (self.plan.turn(), self.plan.last) {
            (Turn::Works, _) | (Turn::Last, Last::Unanswered) => self.inner.list(request).await,
            _ => Err(FaultyPool::gone()),
        }
    }
}
