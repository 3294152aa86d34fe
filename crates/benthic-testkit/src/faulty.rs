//! A pool that injects faults into writes, for tests.

use async_trait::async_trait;
use benthic_core::{
    ClassCall, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, Result, Store, WriteOp, WriteReply,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the write operation to perform, or an error, for the operation with the given number. It
/// may access the pool without faults.
type Fault = Box<dyn Fn(usize, WriteOp, &dyn Pool) -> Result<WriteOp> + Send + Sync>;

/// A pool that changes or refuses write operations before they reach the engine.
pub struct FaultyPool {
    /// The same pool without injected faults.
    pub inner: Arc<dyn Pool>,
    writes: AtomicUsize,
    fault: Fault,
}

impl FaultyPool {
    /// Creates an empty pool in this store. `fault` receives the number of the write operation,
    /// counted from 0, and the operation.
    pub async fn create(
        store: Arc<dyn Store>,
        fault: impl Fn(usize, WriteOp, &dyn Pool) -> Result<WriteOp> + Send + Sync + 'static,
    ) -> FaultyPool {
        store.create_pool("p").await.expect("an empty store takes a pool");
        FaultyPool::over(store.open_pool("p").await.expect("the pool was just created"), fault)
    }

    /// Adds faults to a pool.
    pub fn over(
        inner: Arc<dyn Pool>,
        fault: impl Fn(usize, WriteOp, &dyn Pool) -> Result<WriteOp> + Send + Sync + 'static,
    ) -> FaultyPool {
        FaultyPool { inner, writes: AtomicUsize::new(0), fault: Box::new(fault) }
    }
}

#[async_trait]
impl Pool for FaultyPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.inner.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        let op = (self.fault)(self.writes.fetch_add(1, Ordering::SeqCst), op, &*self.inner)?;
        self.inner.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.inner.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.inner.list(request).await
    }
}
