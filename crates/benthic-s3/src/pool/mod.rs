//! The driver on pools: an index in one pool, data in another or the same.
//!
//! The index is one object with the records and the list of buckets ([`directory`]), and a number of shards for each bucket,
//! which the class [`bucket`](benthic_classes::bucket) changes. Data are objects that are written once, whole, under a fresh id,
//! and removed whole; so the pool of data may be erasure-coded. No operation here changes two objects at once:
//! docs/design/0006 has the order of the writes and the repair of each.

mod buckets;
mod check;
mod convert;
mod directory;
mod garbage;
mod layout;
mod list;
mod objects;
mod prefetch;
mod reader;
mod reserved_intents;
mod shard_call;
mod uploads;
mod writer;

use benthic_core::{Environment, Pool, Result, WriteOp};
use layout::Names;
use prefetch::Guesses;
use reserved_intents::Reserved;
use std::sync::Arc;

/// The namespace of the index, if nobody says another.
pub const NAMESPACE: &str = "benthic.s3";

/// What a driver is told.
#[derive(Clone)]
pub struct Options {
    /// The namespace of the index. The data of a bucket are in one of their own, with its id behind this and a dot.
    pub namespace: String,
    /// How long a writer may be away: one that makes no call for so long is given up.
    pub lease_ms: u64,
    /// How long what was replaced may still be read.
    pub grace_ms: u64,
    /// How long what a write did is kept, for its repetition.
    pub outcome_ms: u64,
    /// Shards of a bucket for which nobody says a number.
    pub shards: u32,
    /// Data objects that one writer writes at once. It holds one more in memory.
    pub writes_in_flight: usize,
    /// Pieces that one reader reads ahead.
    pub reads_ahead: usize,
    /// Time and random numbers.
    pub environment: Environment,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: NAMESPACE.to_owned(),
            lease_ms: 10 * 60_000,
            grace_ms: 60 * 60_000,
            outcome_ms: 10 * 60_000,
            shards: 16,
            writes_in_flight: 4,
            reads_ahead: 2,
            environment: Environment::default(),
        }
    }
}

/// The driver. A clone is the same driver.
#[derive(Clone)]
pub struct PoolSal {
    index: Arc<dyn Pool>,
    data: Arc<dyn Pool>,
    names: Names,
    options: Options,
    reserved: Arc<Reserved>,
    guesses: Arc<Guesses>,
}

impl PoolSal {
    /// Opens the store in these pools, and makes it where there is none. The pool of the index must have omap and run the class
    /// `bucket`.
    ///
    /// # Errors
    /// As the pool.
    pub async fn open(index: Arc<dyn Pool>, data: Arc<dyn Pool>, options: Options) -> Result<PoolSal> {
        let names = Names { namespace: options.namespace.clone() };
        index.write(&names.directory()?, WriteOp::new().create(false)).await?;
        Ok(PoolSal { index, data, names, options, reserved: Arc::default(), guesses: Arc::default() })
    }

    fn now_ms(&self) -> u64 {
        self.options.environment.unix_ms()
    }

    /// By the clock that never goes back.
    fn monotonic_ms(&self) -> u64 {
        self.options.environment.clock.monotonic_ms()
    }
}
