//! A pool that fails after a number of operations. The outcome of its last write is unknown.

use async_trait::async_trait;
use benthic_core::{
    ClassCall, Error, ErrorKind, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, Result, WriteOp,
    WriteReply,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The effect of the first failing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedWrite {
    /// The operation is not applied.
    NotApplied,
    /// A write is applied, but its answer is lost.
    Applied,
}

pub struct FaultyPool {
    inner: Arc<dyn Pool>,
    left: AtomicU64,
    last: FailedWrite,
    /// Whether the pool recovers after the one failure.
    recovers: bool,
}

impl FaultyPool {
    /// Fails permanently after `operations` operations.
    pub fn new(inner: &Arc<dyn Pool>, operations: u64, last: FailedWrite) -> Arc<FaultyPool> {
        let left = AtomicU64::new(operations);
        Arc::new(FaultyPool { inner: Arc::clone(inner), left, last, recovers: false })
    }

    /// Fails only one operation, after `operations` operations.
    pub fn failing_once(inner: &Arc<dyn Pool>, operations: u64, last: FailedWrite) -> Arc<FaultyPool> {
        let left = AtomicU64::new(operations);
        Arc::new(FaultyPool { inner: Arc::clone(inner), left, last, recovers: true })
    }

    /// Whether the fault has not been triggered.
    pub fn is_well(&self) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        left > 0 && left != u64::MAX
    }

    /// Whether the fault is triggered now, and whether it was triggered before.
    fn next_fault(&self) -> (bool, bool) {
        let before = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            u64::MAX => None,
            0 => Some(u64::MAX),
            left => Some(left - 1),
        });
        (before == Ok(0), before.is_err() && !self.recovers)
    }

    fn gone() -> Error {
        Error::new(ErrorKind::Unavailable, "the pool went away")
    }
}

#[async_trait]
impl Pool for FaultyPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        match self.next_fault() {
            (false, false) => self.inner.read(object, op).await,
            _ => Err(FaultyPool::gone()),
        }
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        match self.next_fault() {
            (false, false) => self.inner.write(object, op).await,
            (true, _) if self.last == FailedWrite::Applied => {
                // The caller never sees the pool's answer.
                let _ = self.inner.write(object, op).await;
                Err(Error::new(ErrorKind::OutcomeUnknown, "the answer was lost"))
            }
            (true, _) if self.recovers => Err(Error::new(ErrorKind::OutcomeUnknown, "the request was lost")),
            _ => Err(FaultyPool::gone()),
        }
    }

    async fn exec(&self, _: &ObjectId, _: ClassCall) -> Result<Bytes> {
        Err(Error::new(ErrorKind::Unsupported, "no methods here"))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        match self.next_fault() {
            (false, false) => self.inner.list(request).await,
            _ => Err(FaultyPool::gone()),
        }
    }
}
