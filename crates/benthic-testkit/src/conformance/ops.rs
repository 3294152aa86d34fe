//! A wrapper around the engine under test. It checks that every error names the operation that
//! failed.

use async_trait::async_trait;
use benthic_core::{
    ClassCall, ClassHost, ClassInfo, ListPage, ListRequest, ListToken, ObjectId, Pool, ReadOp, ReadReply,
    Result, Store, WriteOp, WriteReply,
};
use bytes::Bytes;
use std::sync::Arc;

/// A store that checks the [op](benthic_core::Error::op) of its errors.
pub(super) struct CheckedStore(pub(super) Arc<dyn Store>);

pub(super) struct CheckedPool(pub(super) Arc<dyn Pool>);

fn check<T>(op: &str, result: Result<T>) -> Result<T> {
    if let Err(error) = &result {
        assert_eq!(error.op(), op, "the op of an error: {error:?}");
    }
    result
}

#[async_trait]
impl Store for CheckedStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        check("create pool", self.0.create_pool(name).await)
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        check("remove pool", self.0.remove_pool(name).await)
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        check("list pools", self.0.list_pools().await)
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let pool = check("open pool", self.0.open_pool(name).await)?;
        Ok(Arc::new(CheckedPool(pool)))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        self.0.classes().await
    }

    fn class_host(&self) -> ClassHost {
        self.0.class_host()
    }

    async fn flush(&self) -> Result<()> {
        self.0.flush().await
    }
}

#[async_trait]
impl Pool for CheckedPool {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        check("read", self.0.read(object, op).await)
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        check("write", self.0.write(object, op).await)
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        check("exec", self.0.exec(object, call).await)
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        check("list", self.0.list(request).await)
    }

    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        self.0.token_after(object)
    }
}
