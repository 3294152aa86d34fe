//! The driver on pools: the index in one pool, the data in the same or another one.
//!
//! The index consists of one object with the records and the list of buckets ([`directory`]), and a
//! number of shards per bucket, which the class [`bucket`](benthic_classes::bucket) changes. Data
//! objects are written once and whole under a new id, and removed whole, so the data pool may be
//! erasure-coded. No operation changes two objects at once: docs/design/0006 describes the order of
//! the writes and the repair after each.

mod buckets;
mod check;
mod classes;
mod convert;
mod directory;
mod events;
mod garbage;
mod layout;
mod list;
mod objects;
mod prefetch;
mod reader;
mod reserved_intents;
mod shard_call;
mod transition;
mod uploads;
mod writer;

use benthic_core::names::S3_NAMESPACE;
pub use classes::{STANDARD, StorageClass};

use benthic_core::{Environment, Pool, Result, Store, WriteOp};
use classes::ClassPools;
use layout::Names;
use prefetch::LocationCache;
use reserved_intents::ReservedIntents;
use std::sync::Arc;

/// Settings of the driver.
#[derive(Clone)]
pub struct Options {
    /// Namespace of the index. The data of each bucket have their own namespace: this name, a dot
    /// and the bucket's id.
    pub namespace: String,
    /// Lease of a writer: a write without any call for this long is abandoned.
    pub lease_ms: u64,
    /// How long replaced and deleted data stay readable.
    pub grace_ms: u64,
    /// How long the outcome of a write is kept for a retry.
    pub outcome_ms: u64,
    /// Default number of index shards of a new bucket.
    pub shards: u32,
    /// Data objects that one writer writes concurrently. It holds one more in memory.
    pub writes_in_flight: usize,
    /// Pieces that one reader prefetches.
    pub reads_ahead: usize,
    pub environment: Environment,
    /// The store with the pools of the storage classes. Without it, there is only the standard
    /// class.
    pub store: Option<Arc<dyn Store>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: S3_NAMESPACE.to_owned(),
            lease_ms: 10 * 60_000,
            grace_ms: 60 * 60_000,
            outcome_ms: 10 * 60_000,
            shards: 16,
            writes_in_flight: 4,
            reads_ahead: 4,
            environment: Environment::default(),
            store: None,
        }
    }
}

/// The driver on pools. Clones share their state.
#[derive(Clone)]
pub struct PoolSal {
    index: Arc<dyn Pool>,
    data: Arc<dyn Pool>,
    names: Names,
    options: Options,
    reserved: Arc<ReservedIntents>,
    locations: Arc<LocationCache>,
    class_pools: Arc<ClassPools>,
}

impl PoolSal {
    /// Opens the store in these pools, and creates it if there is none. The index pool must support
    /// omap and run the class `bucket`.
    ///
    /// # Errors
    /// Those of the pool.
    pub async fn open(index: Arc<dyn Pool>, data: Arc<dyn Pool>, options: Options) -> Result<PoolSal> {
        let names = Names { namespace: options.namespace.clone() };
        index.write(&names.directory()?, WriteOp::new().create(false)).await?;
        Ok(PoolSal {
            index,
            data,
            names,
            options,
            reserved: Arc::default(),
            locations: Arc::default(),
            class_pools: Arc::default(),
        })
    }

    fn now_ms(&self) -> u64 {
        self.options.environment.unix_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.options.environment.clock.monotonic_ms()
    }
}
