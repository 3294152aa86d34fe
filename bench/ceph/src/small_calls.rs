//! Measures the cost of a method call over a plain read of the same object.

use bench_harness::{self as harness, Outcome, median, pool, seconds, start};
use benthic_core::{ClassCall, ObjectId, Store};
use serde::Serialize;

const CALLS: usize = 5_000;
const ROUND_TRIPS: usize = 101;

/// Median times in ms.
#[derive(Serialize)]
pub struct SmallCalls {
    pub calls: usize,
    pub read_ms: f64,
    /// `hello.say`, which does not read the object's data.
    pub hello_say_ms: f64,
    /// `digest.compute` on an object of one byte: stat and read in the OSD.
    pub digest_compute_ms: f64,
}

pub async fn run(store: &dyn Store, quick: bool) -> Outcome<SmallCalls> {
    let pool = pool(store, "small-calls").await?;
    let object = ObjectId::new("one-byte")?;
    pool.write_full(&object, "x").await?;
    let calls = if quick { CALLS / 100 } else { CALLS };
    eprintln!("small calls: {calls} of each");
    let say = ClassCall::new("hello", "say", "Ada");
    let compute = ClassCall::new("digest", "compute", "crc32c");
    let (mut read_ms, mut say_ms, mut compute_ms) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..calls {
        let stopwatch = start();
        pool.read_range(&object, 0, 1).await?;
        read_ms.push(seconds(stopwatch) * 1e3);
        for (call, times) in [(&say, &mut say_ms), (&compute, &mut compute_ms)] {
            let stopwatch = start();
            pool.exec(&object, call.clone()).await?;
            times.push(seconds(stopwatch) * 1e3);
        }
    }
    Ok(SmallCalls {
        calls,
        read_ms: median(read_ms),
        hello_say_ms: median(say_ms),
        digest_compute_ms: median(compute_ms),
    })
}

pub async fn round_trip_ms(store: &dyn Store) -> Outcome<f64> {
    let pool = pool(store, "round-trips").await?;
    let object = ObjectId::new("one-byte")?;
    pool.write_full(&object, "x").await?;
    Ok(harness::round_trip_ms(&*pool, &object, ROUND_TRIPS).await?)
}
