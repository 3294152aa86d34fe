//! A store as a user sees it: reading, and only the pools that the user may read.

use async_trait::async_trait;
use benthic_core::{ClassHost, ClassInfo, Error, Pool, Result, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Hides pools. Other pools seem not to exist.
pub struct VisibleStore {
    pub store: Arc<dyn Store>,
    pub pools: BTreeSet<String>,
}

fn refusal() -> Error {
    Error::permission_denied("the server only reads")
}

#[async_trait]
impl Store for VisibleStore {
    async fn create_pool(&self, _name: &str) -> Result<()> {
        Err(refusal())
    }

    async fn remove_pool(&self, _name: &str) -> Result<()> {
        Err(refusal())
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        let mut pools = self.store.list_pools().await?;
        pools.retain(|pool| self.pools.contains(pool));
        Ok(pools)
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        if self.pools.contains(name) {
            return self.store.open_pool(name).await;
        }
        Err(Error::not_found("no such pool").with("pool", name))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        self.store.classes().await
    }

    fn class_host(&self) -> ClassHost {
        self.store.class_host()
    }

    fn check_writable(&self) -> Result<()> {
        Err(refusal())
    }

    async fn flush(&self) -> Result<()> {
        self.store.flush().await
    }
}
