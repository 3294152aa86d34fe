//! What a call of a method costs over a plain read of the same object.

use crate::Outcome;
use crate::cluster::new_pool;
use bench_report::stats::{median, seconds};
use benthic_core::{ClassCall, ObjectId, Store};
use serde_json::{Value, json};
use std::time::Instant;

const CALLS: usize = 5_000;
const ROUND_TRIPS: usize = 101;

/// Medians, in ms.
pub struct SmallCalls {
    pub calls: usize,
    pub read_ms: f64,
    /// `hello.say`, which does not look at the object's data.
    pub say_ms: f64,
    /// `digest.compute` of an object of one byte: stat and read beside the object.
    pub compute_ms: f64,
}

impl SmallCalls {
    pub fn to_json(&self) -> Value {
        json!({
            "calls": self.calls,
            "read_ms": self.read_ms,
            "hello_say_ms": self.say_ms,
            "digest_compute_ms": self.compute_ms,
        })
    }
}

/// Runs it: one operation at a time, in turns.
pub async fn run(store: &dyn Store, quick: bool) -> Outcome<SmallCalls> {
    let pool = new_pool(store, "small-calls").await?;
    let object = ObjectId::new("one-byte")?;
    pool.write_full(&object, "x").await?;
    let calls = if quick { CALLS / 100 } else { CALLS };
    eprintln!("small calls: {calls} of each");
    let call = |class: &str, method: &str, input: &'static str| ClassCall {
        class: class.to_owned(),
        method: method.to_owned(),
        input: input.into(),
    };
    let (say, compute) = (call("hello", "say", "Ada"), call("digest", "compute", "crc32c"));
    let (mut read_ms, mut say_ms, mut compute_ms) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..calls {
        let started_at = Instant::now();
        pool.read_range(&object, 0, 1).await?;
        read_ms.push(seconds(started_at) * 1e3);
        for (call, times) in [(&say, &mut say_ms), (&compute, &mut compute_ms)] {
            let started_at = Instant::now();
            pool.exec(&object, call.clone()).await?;
            times.push(seconds(started_at) * 1e3);
        }
    }
    Ok(SmallCalls { calls, read_ms: median(read_ms), say_ms: median(say_ms), compute_ms: median(compute_ms) })
}

/// The median time of a `stat`.
pub async fn round_trip_ms(store: &dyn Store) -> Outcome<f64> {
    let pool = new_pool(store, "round-trips").await?;
    let object = ObjectId::new("one-byte")?;
    pool.write_full(&object, "x").await?;
    let mut times = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let started_at = Instant::now();
        pool.stat(&object).await?;
        times.push(seconds(started_at) * 1e3);
    }
    Ok(median(times))
}
