//! Compares `benthic bench` with `rados bench`, Ceph's own load generator. Both use librados, so
//! the difference is Benthic's own cost. They have the same pool, object size, number of operations
//! in flight and duration, and take turns, so that drift of the machine affects both.

use bench_harness::cluster::Cluster;
use bench_harness::process::output;
use bench_harness::{Outcome, median};
use serde::Serialize;
use std::process::Command;

const SIZES: [usize; 2] = [4 << 10, 4 << 20];
const IN_FLIGHT: &str = "16";
const POOL: &str = "rados-bench";

/// Median rates for one kind of operation and one size, in operations per second.
#[derive(Serialize)]
pub struct Row {
    pub what: &'static str,
    pub size_bytes: usize,
    pub benthic_per_s: f64,
    pub rados_per_s: f64,
    /// The ratio of the two rates; above 1, Benthic is faster.
    pub benthic_by_rados: f64,
}

pub fn run(cluster: &Cluster, rounds: usize, quick: bool) -> Outcome<Vec<Row>> {
    let seconds = if quick { "1" } else { "10" };
    let mut rows = Vec::new();
    for size_bytes in SIZES {
        let size = size_bytes.to_string();
        eprintln!("benthic bench and rados bench: {size} bytes, {rounds} rounds of {seconds} s each");
        // One pool per size: a read benchmark reads any object that the program wrote to the pool,
        // of any size.
        let pool = format!("{POOL}-{size}");
        output(&mut cluster.benthic(["pool", "create", &pool]))?;
        let ours = |what: &str, extra: &[&str]| -> Outcome<f64> {
            let args = ["bench", what, &pool, "--seconds", seconds, "--in-flight", IN_FLIGHT];
            let found = cluster.json(&[&args[..], extra].concat())?;
            found["operations_per_s"].as_f64().ok_or_else(|| "benthic bench gave no rate".into())
        };
        let rados = |what: &str, extra: &[&str]| -> Outcome<f64> {
            let mut command = Command::new("rados");
            command.arg("--conf").arg(cluster.conf()).args(["--pool", &pool, "bench", seconds, what]);
            rate(std::str::from_utf8(&output(command.args(["-t", IN_FLIGHT]).args(extra))?)?)
        };
        let compare =
            |what: &'static str, verb: &str, our_args: &[&str], their_args: &[&str]| -> Outcome<Row> {
                let (mut ours_per_s, mut rados_per_s) = (Vec::new(), Vec::new());
                for _ in 0..rounds {
                    ours_per_s.push(ours(verb, our_args)?);
                    rados_per_s.push(rados(verb, their_args)?);
                }
                let (benthic_per_s, rados_per_s) = (median(ours_per_s), median(rados_per_s));
                Ok(Row {
                    what,
                    size_bytes,
                    benthic_per_s,
                    rados_per_s,
                    benthic_by_rados: benthic_per_s / rados_per_s,
                })
            };
        rows.push(compare("write", "write", &["--size", &size], &["-b", &size])?);
        // Write once more with both programs and keep the objects for the reads.
        ours("write", &["--size", &size, "--keep"])?;
        rados("write", &["-b", &size, "--no-cleanup"])?;
        // `benthic bench` checks lengths, not data, so turn off the verification of `rados bench`.
        rows.push(compare("random read", "rand", &[], &["--no-verify"])?);
        output(&mut cluster.benthic(["pool", "rm", &pool, "--yes", &pool]))?;
    }
    Ok(rows)
}

/// Computes the rate from totals, because the rate that `rados bench` prints is a whole number.
fn rate(text: &str) -> Outcome<f64> {
    let value = |name: &str| -> Outcome<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("rados bench gave no rate")?;
        Ok(line.trim_start_matches(':').trim().parse()?)
    };
    Ok(value("Total writes made").or_else(|_| value("Total reads made"))? / value("Total time run")?)
}
