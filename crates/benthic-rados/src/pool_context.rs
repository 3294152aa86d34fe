//! Pools for other C libraries of Ceph, such as librbd, which work on a context of librados.

use crate::connection::{MONITOR, Shared, pool_id};
use crate::errors;
use crate::ffi::IoCtx;
use crate::store::RadosStore;
use benthic_core::{Action, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// A pool that another library of Ceph can use.
pub struct PoolContext(Arc<IoCtx>);

impl PoolContext {
    /// A `rados_ioctx_t`, valid for as long as this value lives. Any thread may use it.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// Blocks until the callbacks have ended that librados runs now. Callbacks must not call this.
    pub fn wait_for_callbacks(&self) {
        self.0.wait_for_callbacks();
    }
}

impl RadosStore {
    /// Opens a pool on this store's connection.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable` if no monitor answers.
    pub async fn pool_context(&self, pool: &str) -> Result<PoolContext> {
        Ok(PoolContext(self.namespace(pool, "").await?))
    }

    /// Opens a pool on a new connection, whose operations on objects have no time-out: as with a
    /// disk that does not answer, they wait. The cluster can block this connection without
    /// affecting others of this process.
    ///
    /// # Errors
    /// As [`RadosStore::connect`] and [`RadosStore::pool_context`].
    pub async fn separate_pool_context(&self, pool: &str) -> Result<PoolContext> {
        let name = pool.to_owned();
        let open = move |shared: &Shared| {
            let cluster = Arc::new(shared.login.connect(0, shared.options.mon_timeout_ms)?);
            let id = pool_id(&cluster, &name)?;
            IoCtx::open(&cluster, id, &name, c"").map_err(|number| errors::of_operation(number, Action::Read))
        };
        let opened = self.run_at(MONITOR, open).await;
        Ok(PoolContext(opened.map_err(|error| error.with("pool", pool))?))
    }
}
