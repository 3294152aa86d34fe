//! Measurement functions that `benthic bench`, the demos and the benchmarks in `bench/` share.
//!
//! A load keeps several operations in flight from one task. A reply then wakes one thread, as in a
//! client that waits for its replies. With a task per operation, each reply would cost a thread
//! switch, which on a busy machine takes longer than the operation.

use benthic_core::{ObjectId, Pool, Result, Stopwatch, SystemClock};
use futures::stream::{FuturesUnordered, StreamExt};
use hdrhistogram::Histogram;
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::time::Duration;

/// Largest latency that the histogram records: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Starts a stopwatch on the system clock.
pub fn start() -> Stopwatch<'static> {
    Stopwatch::start(&SystemClock)
}

/// Seconds since the stopwatch started.
pub fn seconds(since: Stopwatch) -> f64 {
    since.elapsed().as_secs_f64()
}

/// The median (for an even count, the upper middle value); the default value for an empty vector.
pub fn median<T: PartialOrd + Default>(mut values: Vec<T>) -> T {
    values.sort_by(|left, right| left.partial_cmp(right).unwrap_or(Ordering::Equal));
    let middle = values.len() / 2;
    values.into_iter().nth(middle).unwrap_or_default()
}

/// The median latency of `count` consecutive `stat` calls, in milliseconds.
pub async fn round_trip_ms(pool: &dyn Pool, object: &ObjectId, count: usize) -> Result<f64> {
    let mut times_ms = Vec::with_capacity(count);
    for _ in 0..count {
        let stopwatch = start();
        pool.stat(object).await?;
        times_ms.push(seconds(stopwatch) * 1e3);
    }
    Ok(median(times_ms))
}

/// A histogram of operation latencies with three significant digits.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Latencies(histogram.expect("the constant bounds are valid"))
    }
}

impl Latencies {
    /// Records the latency of one operation.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean latency in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.0.mean() / 1e6
    }

    /// The maximum latency in milliseconds.
    pub fn max_ms(&self) -> f64 {
        ms(self.0.max())
    }

    /// The latency in milliseconds that the fraction `quantile` of the operations does not exceed;
    /// 0.5 gives the median.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        ms(self.0.value_at_quantile(quantile))
    }
}

fn ms(latency_ns: u64) -> f64 {
    Duration::from_nanos(latency_ns).as_secs_f64() * 1e3
}

/// Lets every worker run operations until `is_over` returns true; its argument is the number of
/// operations started so far. All workers share one numbering of operations: 0, 1, 2, … A worker
/// stops when its operation returns `Break`; the others continue. Returns the number of operations
/// started.
///
/// # Errors
/// The first error of an operation. The operations in flight are then dropped.
pub async fn in_flight<W, E>(
    workers: impl IntoIterator<Item = W>,
    is_over: impl Fn(u64) -> bool,
    operation: impl AsyncFn(&mut W, u64) -> std::result::Result<ControlFlow<()>, E>,
) -> std::result::Result<u64, E> {
    let started = Cell::new(0);
    let run = async |mut worker: W| {
        while !is_over(started.get()) {
            let number = started.replace(started.get() + 1);
            if operation(&mut worker, number).await?.is_break() {
                break;
            }
        }
        Ok(())
    };
    let mut running: FuturesUnordered<_> = workers.into_iter().map(run).collect();
    while let Some(ended) = running.next().await {
        ended?;
    }
    Ok(started.get())
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
