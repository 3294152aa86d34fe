//! `benthic bench` against `rados bench`: same pool, same object size, same number of operations in flight, same time.

use crate::Outcome;
use bench_report::cluster::Cluster;
use bench_report::stats::median;
use serde_json::{Value, json};
use std::process::Command;

const SIZES: [usize; 2] = [4 << 10, 4 << 20];
const IN_FLIGHT: &str = "16";
const POOL: &str = "rados-bench";

/// Medians for one kind of operation and size.
pub struct Row {
    pub what: &'static str,
    pub size_bytes: usize,
    /// Operations a second.
    pub benthic_per_s: f64,
    pub rados_per_s: f64,
}

impl Row {
    pub fn ratio(&self) -> f64 {
        self.benthic_per_s / self.rados_per_s
    }

    pub fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "size_bytes": self.size_bytes,
            "benthic_per_s": self.benthic_per_s,
            "rados_per_s": self.rados_per_s,
            "benthic_by_rados": self.ratio(),
        })
    }
}

/// Runs it.
pub fn run(cluster: &Cluster, rounds: usize, quick: bool) -> Outcome<Vec<Row>> {
    let seconds = if quick { "1" } else { "10" };
    let mut rows = Vec::new();
    for size_bytes in SIZES {
        let size = size_bytes.to_string();
        eprintln!("benthic bench and rados bench: {size} bytes, {rounds} rounds of {seconds} s each");
        // A pool a size: neither program tells the objects of several sizes apart.
        let pool = format!("{POOL}-{size}");
        output(&mut cluster.benthic(["pool", "create", &pool]))?;
        let ours = |what: &str, extra: &[&str]| -> Outcome<f64> {
            let args = ["--json", "bench", what, &pool, "--seconds", seconds, "--in-flight", IN_FLIGHT];
            let found: Value = serde_json::from_str(&output(cluster.benthic(args).args(extra))?)?;
            found["operations_per_s"].as_f64().ok_or_else(|| "benthic bench gave no rate".into())
        };
        let rados = |what: &str, extra: &[&str]| -> Outcome<f64> {
            let mut command = Command::new("rados");
            command.arg("--conf").arg(cluster.conf()).args(["--pool", &pool, "bench", seconds, what]);
            rate(&output(command.args(["-t", IN_FLIGHT]).args(extra))?)
        };
        let (mut ours_per_s, mut rados_per_s) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours_per_s.push(ours("write", &["--size", &size])?);
            rados_per_s.push(rados("write", &["-b", &size])?);
        }
        rows.push(Row {
            what: "write",
            size_bytes,
            benthic_per_s: median(ours_per_s),
            rados_per_s: median(rados_per_s),
        });
        // What both read: left by one more write each.
        ours("write", &["--size", &size, "--keep"])?;
        rados("write", &["-b", &size, "--no-cleanup"])?;
        let (mut ours_per_s, mut rados_per_s) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours_per_s.push(ours("rand", &[])?);
            // Ours compares lengths, not bytes.
            rados_per_s.push(rados("rand", &["--no-verify"])?);
        }
        rows.push(Row {
            what: "random read",
            size_bytes,
            benthic_per_s: median(ours_per_s),
            rados_per_s: median(rados_per_s),
        });
        output(&mut cluster.benthic(["pool", "rm", &pool]))?;
    }
    Ok(rows)
}

/// Operations a second; the rate that it prints itself is a whole number.
fn rate(text: &str) -> Outcome<f64> {
    let value = |name: &str| -> Outcome<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("rados bench gave no rate")?;
        Ok(line.trim_start_matches(':').trim().parse()?)
    };
    Ok(value("Total writes made").or_else(|_| value("Total reads made"))? / value("Total time run")?)
}

fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?} failed: {}\n{stderr}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
