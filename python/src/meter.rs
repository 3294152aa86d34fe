//! Wraps a store and counts the operations and bytes that cross the engine's boundary.

use async_trait::async_trait;
use benthic_core::{ClassHost, ClassInfo, FsckReport, Meter, Pool, Result, Store};
use std::sync::Arc;

/// A store whose pools count into a meter.
pub struct MeteredStore {
    pub store: Arc<dyn Store>,
    pub meter: Arc<Meter>,
}

#[async_trait]
impl Store for MeteredStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        self.store.create_pool(name).await
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        self.store.remove_pool(name).await
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        self.store.list_pools().await
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        Ok(self.meter.pool(self.store.open_pool(name).await?))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        self.store.classes().await
    }

    fn class_host(&self) -> ClassHost {
        self.store.class_host()
    }

    async fn flush(&self) -> Result<()> {
        self.store.flush().await
    }

    async fn fsck(&self) -> Result<FsckReport> {
        self.store.fsck().await
    }
}
