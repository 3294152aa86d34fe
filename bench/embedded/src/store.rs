//! A store with the options of the `benthic` program, and operations on it.

use bench_harness::{self as harness, Outcome, seconds, start};
use benthic_core::{ObjectId, Pool, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use bytes::Bytes;
use futures::executor::block_on;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Operations in flight for phases that are not timed one by one.
pub const MANY_IN_FLIGHT: usize = 64;

/// Opens or creates a store with the options of the `benthic` program.
pub fn open(dir: &Path) -> Outcome<Arc<EmbeddedStore>> {
    let options = Options::default().with_classes(benthic_classes::registry());
    Ok(EmbeddedStore::open(dir, true, options)?)
}

pub fn pool(store: &dyn Store, name: &str) -> Outcome<Arc<dyn Pool>> {
    Ok(block_on(harness::pool(store, name))?)
}

/// Runs an operation with each number below `count`, with `in_flight` at a time, all from this
/// thread, like a client that waits for its replies. Returns the seconds that it took.
pub fn run<F>(count: u64, in_flight: usize, op: impl Fn(u64) -> F) -> Outcome<f64>
where
    F: Future<Output = benthic_core::Result<()>>,
{
    let stopwatch = start();
    block_on(async {
        if in_flight > 1 {
            let workers = std::iter::repeat_n((), in_flight);
            let op = async |(): &mut (), index| op(index).await.map(|()| ControlFlow::Continue(()));
            return harness::in_flight(workers, |started| started >= count, op).await.map(drop);
        }
        for index in 0..count {
            op(index).await?;
        }
        Ok::<_, benthic_core::Error>(())
    })?;
    Ok(seconds(stopwatch))
}

/// Makes all writes durable; returns the seconds that it took.
pub fn flush(store: &dyn Store) -> Outcome<f64> {
    let stopwatch = start();
    block_on(store.flush())?;
    Ok(seconds(stopwatch))
}

pub fn objects(prefix: &str, count: u64) -> Outcome<Vec<ObjectId>> {
    Ok((0..count).map(|index| ObjectId::new(format!("{prefix}-{index:08}"))).collect::<Result<_, _>>()?)
}

/// Writes all objects whole, buffered. `data` returns the data of object `i`.
pub fn fill(pool: &dyn Pool, objects: &[ObjectId], data: impl Fn(usize) -> Bytes) -> Outcome {
    // Keep few writes in flight, because the store holds their data in memory.
    run(objects.len() as u64, 8, |index| {
        let index = index as usize;
        let op = WriteOp::new().write_full(data(index)).buffered();
        async move { pool.write(&objects[index], op).await.map(|_| ()) }
    })
    .map(|_| ())
}

pub fn remove(pool: &dyn Pool, objects: &[ObjectId]) -> Outcome {
    run(objects.len() as u64, MANY_IN_FLIGHT, |index| {
        let op = WriteOp::new().remove().buffered();
        async move { pool.write(&objects[index as usize], op).await.map(|_| ()) }
    })
    .map(|_| ())
}
