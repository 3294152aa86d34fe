//! Repeats one operation with a fixed number in flight, and measures each.

use crate::places::Places;
use benthic_core::{Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::measure::{Latencies, in_flight, seconds, start};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use clap::Args;
use serde_json::json;
use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

/// Number of errors after which the measurement stops.
const ERRORS_MAX: u64 = 100;

/// How much to measure.
#[derive(Args)]
pub struct Amount {
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Measure this number of operations instead of a time
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub count: Option<u64>,
    /// Operations in flight
    #[arg(
        long,
        value_name = "N",
        visible_alias = "depth",
        default_value = "16",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    in_flight: u16,
}

#[derive(Args)]
pub struct Load {
    /// The pool; the objects are in its namespace benthic-bench
    pub pool: String,
    #[command(flatten)]
    pub amount: Amount,
    /// Put this label into the names of written objects, and read only objects with this label
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = label)]
    pub label: String,
    #[command(flatten)]
    pub places: Places,
}

/// Checks a label. Object names are split at hyphens, so a label cannot contain one.
fn label(text: &str) -> std::result::Result<String, String> {
    if text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Ok(text.to_owned())
    } else {
        Err("a label has up to 64 letters and digits".to_owned())
    }
}

impl Amount {
    pub fn in_flight(&self) -> usize {
        self.in_flight.into()
    }
}

impl Load {
    /// The arguments that run the same load at one place.
    pub fn args(&self, label: &str) -> Vec<String> {
        let Amount { seconds, count, in_flight } = &self.amount;
        let (how, much) = match count {
            Some(count) => ("--count", count.to_string()),
            None => ("--seconds", seconds.to_string()),
        };
        let in_flight = in_flight.to_string();
        [&self.pool, how, &much, "--in-flight", &in_flight, "--label", label].map(ToOwned::to_owned).into()
    }
}

/// The result of a measurement.
#[derive(Default)]
pub struct Measurement {
    /// Of the operations that succeeded.
    pub latencies: Latencies,
    pub bytes: u64,
    /// Number of operations started, including failed ones.
    pub started: u64,
    pub errors: u64,
    pub first_error: Option<Error>,
    /// Time from the first start to the last end, including `finish`.
    pub seconds: f64,
}

/// Runs `op` with 0, 1, 2, … until the time or count is reached. `op` returns the number of bytes
/// moved, or `None` if it has no operation with this number.
pub async fn measure(
    name: &'static str,
    amount: &Amount,
    op: impl AsyncFn(u64) -> Result<Option<u64>>,
    finish: impl AsyncFnOnce() -> Result<()>,
) -> Outcome<Measurement> {
    let measured = RefCell::new(Measurement::default());
    let stopwatch = start();
    let is_over = |started| {
        let is_done = match amount.count {
            Some(count) => started >= count,
            None => stopwatch.elapsed() >= Duration::from_secs(amount.seconds.into()),
        };
        is_done || interrupt::is_set() || measured.borrow().errors >= ERRORS_MAX
    };
    let operation = async |(): &mut (), number| {
        let stopwatch = start();
        let moved = op(number).await;
        let mut measured = measured.borrow_mut();
        match moved {
            Ok(Some(bytes)) => {
                measured.latencies.record(stopwatch.elapsed());
                measured.bytes += bytes;
            }
            Ok(None) => return Ok::<_, Infallible>(ControlFlow::Break(())),
            Err(error) => {
                measured.errors += 1;
                measured.first_error.get_or_insert(error);
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    let workers = std::iter::repeat_n((), amount.in_flight());
    let mut running = pin!(in_flight(workers, is_over, operation));
    let progress = Progress::objects(name);
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    let (mut second, mut seen_operations, mut seen_bytes) = (0, 0, 0);
    let started = loop {
        tokio::select! {
            Ok(started) = &mut running => break started,
            _ = every_second.tick() => {
                let (operations, bytes) = (measured.borrow().latencies.count(), measured.borrow().bytes);
                progress.advance(operations - seen_operations);
                if second > 0 {
                    progress.print_line(format!(
                        "{second:>4} s  {:>9} operations  {:>9.1} MiB/s  {operations:>10} in total",
                        operations - seen_operations,
                        units::mib_per_s(bytes - seen_bytes, 1.0),
                    ));
                }
                (second, seen_operations, seen_bytes) = (second + 1, operations, bytes);
            }
        }
    };
    finish().await?;
    Ok(Measurement { started, seconds: seconds(stopwatch), ..measured.take() })
}

/// Prints the result of measuring `target`, whose key in JSON is `kind`.
pub fn print_result(
    name: &str,
    (kind, target): (&str, &str),
    amount: &Amount,
    measured: &Measurement,
    session: &Session,
    size_bytes: u64,
    buffered: bool,
) -> Outcome {
    let latencies = &measured.latencies;
    let operations = latencies.count();
    let (mib_per_s, operations_per_s) =
        (units::mib_per_s(measured.bytes, measured.seconds), units::per_s(operations, measured.seconds));
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| latencies.quantile_ms(quantile));
    let (average, max) = (latencies.mean_ms(), latencies.max_ms());
    let text = format!(
        "{name}: {} of {} in {:.3} s, {} in flight{}\n\
         throughput  {mib_per_s:.1} MiB/s\n\
         iops        {operations_per_s:.1}\n\
         latency_ms  avg {average:.3}  p50 {p50:.3}  p95 {p95:.3}  p99 {p99:.3}  max {max:.3}\n\
         errors      {}",
        units::count(operations, "operation"),
        units::size(size_bytes),
        measured.seconds,
        amount.in_flight(),
        if buffered { ", buffered" } else { "" },
        measured.errors
    );
    session.out.result(text, || {
        json!({
            "bench": name,
            kind: target,
            "size_bytes": size_bytes,
            "in_flight": amount.in_flight(),
            "buffered": buffered,
            "operations": operations,
            "errors": measured.errors,
            "bytes": measured.bytes,
            "seconds": measured.seconds,
            "mib_per_s": mib_per_s,
            "operations_per_s": operations_per_s,
            "latency_ms_avg": average,
            "latency_ms_p50": p50,
            "latency_ms_p95": p95,
            "latency_ms_p99": p99,
            "latency_ms_max": max,
        })
    })?;
    if let Some(error) = &measured.first_error {
        session.out.error(error, Some("first error"));
        return Err(Failure::Some { failed: measured.errors, of: measured.errors + operations });
    }
    Ok(())
}
