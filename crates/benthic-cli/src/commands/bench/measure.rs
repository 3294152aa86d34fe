//! Running one operation again and again, a fixed number at once, and timing each.

use crate::places::Places;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::units;
use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A store that fails this often is not measured any further.
const ERRORS_MAX: u64 = 100;
/// Longest latency that is told apart: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// What is asked of the store, and for how long.
#[derive(Args)]
pub struct Load {
    /// The pool; the objects are in its namespace benthic-bench
    pub pool: String,
    /// How long to measure
    #[arg(long, value_name = "S", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How many operations to measure, however long they take
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    count: Option<u64>,
    /// Operations at once
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..))]
    in_flight: u16,
    /// Write objects, or read only those, whose names have this in them: apart from what others write
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = label)]
    pub label: String,
    /// Where it runs.
    #[command(flatten)]
    pub places: Places,
}

/// Names of objects are taken apart at their hyphens.
fn label(text: &str) -> std::result::Result<String, String> {
    if text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Ok(text.to_owned())
    } else {
        Err("a label has up to 64 letters and digits".to_owned())
    }
}

impl Load {
    /// Operations at once.
    pub fn in_flight(&self) -> usize {
        self.in_flight.into()
    }

    /// The arguments that ask for the same of one place.
    pub fn args(&self, label: &str) -> Vec<String> {
        let (how, much) = match self.count {
            Some(count) => ("--count", count.to_string()),
            None => ("--seconds", self.seconds.to_string()),
        };
        let in_flight = self.in_flight.to_string();
        [&self.pool, how, &much, "--in-flight", &in_flight, "--label", label].map(ToOwned::to_owned).into()
    }
}

/// What was measured.
pub struct Measured {
    /// A latency for every operation that succeeded.
    pub latencies_ns: Histogram<u64>,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Operations that were started, failed ones included.
    pub started: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<Error>,
    /// From the first start to the last end, what `finish` did included.
    pub seconds: f64,
}

#[derive(Default)]
struct Shared {
    started: AtomicU64,
    done: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

struct Worker {
    latencies_ns: Histogram<u64>,
    first_error: Option<Error>,
}

/// Runs `op` with 0, 1, 2, … until time or count is over or it answers nothing; otherwise it answers how many
/// bytes it moved.
pub async fn measure<F>(
    what: &'static str,
    load: &Load,
    op: impl Fn(u64) -> F,
    finish: impl AsyncFnOnce() -> Result<()>,
) -> Outcome<Measured>
where
    F: Future<Output = Result<Option<u64>>>,
{
    let shared = Shared::default();
    let started_at = Instant::now();
    let ends_at = match load.count {
        Some(_) => None,
        None => started_at.checked_add(Duration::from_secs(load.seconds.into())),
    };
    let count = load.count.unwrap_or(u64::MAX);
    // All in this task: an answer then wakes one thread, as in a client that waits for its answers. On other threads each
    // would cost a switch, which on a busy machine is more than the operation.
    let mut workers: FuturesUnordered<_> =
        (0..load.in_flight()).map(|_| work(&op, &shared, count, ends_at)).collect();
    let mut total = Worker { latencies_ns: histogram()?, first_error: None };
    let progress = Progress::objects(what);
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    let (mut second, mut seen_operations, mut seen_bytes) = (0, 0, 0);
    loop {
        tokio::select! {
            worker = workers.next() => {
                let Some(worker) = worker else { break };
                let worker = worker?;
                total.latencies_ns += worker.latencies_ns;
                total.first_error = total.first_error.or(worker.first_error);
            }
            _ = every_second.tick() => {
                let (operations, bytes) =
                    (shared.done.load(Ordering::Relaxed), shared.bytes.load(Ordering::Relaxed));
                progress.advance(operations - seen_operations);
                if second > 0 {
                    progress.line(format!(
                        "{second:>4} s  {:>9} operations  {:>9.1} MiB/s  {operations:>10} in all",
                        operations - seen_operations,
                        units::mib_per_s(bytes - seen_bytes, 1.0),
                    ));
                }
                (second, seen_operations, seen_bytes) = (second + 1, operations, bytes);
            }
        }
    }
    finish().await?;
    Ok(Measured {
        latencies_ns: total.latencies_ns,
        bytes: shared.bytes.load(Ordering::Relaxed),
        started: shared.started.load(Ordering::Relaxed),
        errors: shared.errors.load(Ordering::Relaxed),
        first_error: total.first_error,
        seconds: started_at.elapsed().as_secs_f64(),
    })
}

async fn work<F>(
    op: &impl Fn(u64) -> F,
    shared: &Shared,
    count: u64,
    ends_at: Option<Instant>,
) -> Result<Worker>
where
    F: Future<Output = Result<Option<u64>>>,
{
    let mut worker = Worker { latencies_ns: histogram()?, first_error: None };
    loop {
        let over = ends_at.is_some_and(|ends_at| Instant::now() >= ends_at);
        if over || interrupt::is_set() || shared.errors.load(Ordering::Relaxed) >= ERRORS_MAX {
            return Ok(worker);
        }
        let taken = shared.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |started| {
            (started < count).then_some(started + 1)
        });
        let Ok(index) = taken else { return Ok(worker) };
        let started_at = Instant::now();
        match op(index).await {
            Ok(Some(bytes)) => {
                let latency_ns = u64::try_from(started_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
                worker.latencies_ns.saturating_record(latency_ns);
                shared.done.fetch_add(1, Ordering::Relaxed);
                shared.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Ok(None) => return Ok(worker),
            Err(error) => {
                shared.errors.fetch_add(1, Ordering::Relaxed);
                worker.first_error.get_or_insert(error);
            }
        }
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot count latencies").with_source(error))
}
