//! The environment of a plan: a bounded memory pool, one empty object store, no disk.
//!
//! DataFusion's defaults would spill to disk, and could open `file://` addresses in the OSD.

use super::envelope::{Envelope, OBJECT_URL};
use super::stop::Stop;
use datafusion_common::{Result, not_impl_err};
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion_execution::object_store::ObjectStoreRegistry;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use url::Url;

/// Maximum memory that the operators of one fragment may reserve.
pub const POOL_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The default configuration queries the machine's number of processors. That is slow, and no
/// operator here uses the number.
static CONFIG: LazyLock<SessionConfig> = LazyLock::new(|| SessionConfig::new().with_target_partitions(1));

/// The environment of one run of a fragment.
pub struct Runtime {
    task: Arc<TaskContext>,
    pool: Arc<Pool>,
}

impl Runtime {
    pub fn new(envelope: &Envelope) -> Result<Runtime, Stop> {
        let pool = Arc::new(Pool { inner: GreedyMemoryPool::new(POOL_BYTES_MAX), most: AtomicU64::new(0) });
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
            .with_object_store_registry(Arc::new(OneObject))
            .build_arc()?;
        let task = TaskContext::new(
            None,
            String::new(),
            CONFIG.clone().with_batch_size(envelope.batch_rows as usize),
            HashMap::default(),
            HashMap::default(),
            HashMap::default(),
            HashMap::default(),
            runtime,
        );
        Ok(Runtime { task: Arc::new(task), pool })
    }

    pub fn task(&self) -> Arc<TaskContext> {
        Arc::clone(&self.task)
    }

    pub fn reserved_bytes_max(&self) -> u64 {
        self.pool.most.load(Ordering::Relaxed)
    }
}

/// An object store registry that contains only the object's address. The store is empty because the
/// scan reads through its own reader.
#[derive(Debug)]
struct OneObject;

impl ObjectStoreRegistry for OneObject {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.as_str() == OBJECT_URL {
            return Ok(Arc::new(InMemory::new()));
        }
        not_impl_err!("a fragment can only read its object")
    }
}

/// A bounded memory pool that records its peak.
#[derive(Debug)]
struct Pool {
    inner: GreedyMemoryPool,
    most: AtomicU64,
}

impl Pool {
    fn note(&self) {
        self.most.fetch_max(self.inner.reserved() as u64, Ordering::Relaxed);
    }
}

impl std::fmt::Display for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("fragment")
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "fragment"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
        self.note();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}
