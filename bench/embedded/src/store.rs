//! The store as its users get it, and operations on it.

use bench_report::Outcome;
use bench_report::stats::seconds;
use benthic_core::{ObjectId, Pool, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use bytes::Bytes;
use futures::executor::block_on;
use futures::future;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Requests in flight where only the result counts.
pub const MANY_IN_FLIGHT: usize = 64;

/// Opens a store, or makes one, with what the program gives it.
pub fn open(dir: &Path) -> Outcome<Arc<EmbeddedStore>> {
    let options = Options::default().with_classes(benthic_classes::registry());
    Ok(EmbeddedStore::open(dir, true, options)?)
}

/// Makes and opens a pool.
pub fn new_pool(store: &dyn Store, name: &str) -> Outcome<Arc<dyn Pool>> {
    Ok(block_on(async {
        store.create_pool(name).await?;
        store.open_pool(name).await
    })?)
}

/// Runs an operation with each number below `count`, so many in flight, all from this thread, as a client does that waits for
/// its answers. Answers the seconds that it took.
pub fn run<F>(count: u64, in_flight: usize, op: impl Fn(u64) -> F) -> Outcome<f64>
where
    F: Future<Output = benthic_core::Result<()>>,
{
    let started_at = Instant::now();
    block_on(async {
        if in_flight > 1 {
            let ops = stream::iter(0..count).map(&op).buffer_unordered(in_flight);
            return ops.try_for_each(|()| future::ready(Ok(()))).await;
        }
        for index in 0..count {
            op(index).await?;
        }
        Ok::<_, benthic_core::Error>(())
    })?;
    Ok(seconds(started_at))
}

/// Makes everything durable. Answers the seconds that it took.
pub fn flush(store: &dyn Store) -> Outcome<f64> {
    let started_at = Instant::now();
    block_on(store.flush())?;
    Ok(seconds(started_at))
}

/// Objects with a common start of their names.
pub fn objects(prefix: &str, count: u64) -> Outcome<Vec<ObjectId>> {
    Ok((0..count).map(|index| ObjectId::new(format!("{prefix}-{index:08}"))).collect::<Result<_, _>>()?)
}

/// Writes all objects whole, buffered. Object `i` gets what `data` answers for it.
pub fn fill(pool: &dyn Pool, objects: &[ObjectId], data: impl Fn(usize) -> Bytes) -> Outcome {
    // Few at a time: what waits in the store takes memory.
    run(objects.len() as u64, 8, |index| {
        let index = index as usize;
        let op = WriteOp::new().write_full(data(index)).buffered();
        async move { pool.write(&objects[index], op).await.map(|_| ()) }
    })
    .map(|_| ())
}

/// Removes all objects, buffered.
pub fn remove(pool: &dyn Pool, objects: &[ObjectId]) -> Outcome {
    run(objects.len() as u64, MANY_IN_FLIGHT, |index| {
        let op = WriteOp::new().remove().buffered();
        async move { pool.write(&objects[index as usize], op).await.map(|_| ()) }
    })
    .map(|_| ())
}

/// Numbers that look random and are the same in every run.
pub struct Random(u64);

impl Random {
    /// Another sequence for every seed.
    pub fn new(seed: u64) -> Random {
        let mut random = Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next one, below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
