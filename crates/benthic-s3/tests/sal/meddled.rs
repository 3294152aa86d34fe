//! Pools of a gateway in whose way somebody comes.

use super::Pools;
use async_trait::async_trait;
use benthic_core::{
    ClassCall, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, Result, WriteOp, WriteReply,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Meddle = Arc<dyn Fn() + Send + Sync>;

/// Such a pool of the index.
pub struct Meddled {
    inner: Arc<dyn Pool>,
    calls: AtomicU64,
    at: u64,
    meddle: Meddle,
}

impl Meddled {
    /// Does something right after the call with this number, of a method that writes or reads; the first is 1.
    pub fn pools(pools: &Pools, at: u64, meddle: impl Fn() + Send + Sync + 'static) -> Pools {
        let (inner, calls) = (Arc::clone(&pools.index), AtomicU64::new(0));
        let index = Arc::new(Meddled { inner, calls, at, meddle: Arc::new(meddle) });
        Pools { index, data: Arc::clone(&pools.data) }
    }
}

#[async_trait]
impl Pool for Meddled {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.inner.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.inner.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let result = self.inner.exec(object, call).await;
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            let meddle = Arc::clone(&self.meddle);
            // A thread of its own, because this one drives a future already.
            std::thread::spawn(move || meddle()).join().unwrap();
        }
        result
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.inner.list(request).await
    }
}
