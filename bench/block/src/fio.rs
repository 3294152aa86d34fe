//! Runs fio and reads its result.

use bench_harness::Outcome;
use bench_harness::process::output;
use serde_json::Value;
use std::process::Command;

/// The rate in operations per second, and the 99th percentile of the latency.
pub struct Measured {
    pub iops: f64,
    pub p99_us: f64,
}

/// Runs a job; the command has the engine and the workload.
pub fn measure(command: &mut Command) -> Outcome<Measured> {
    let printed = output(command.arg("--output-format=json"))?;
    // fio may print notes before the JSON.
    let begin = printed.iter().position(|byte| *byte == b'{').ok_or("fio printed no JSON")?;
    let found: Value = serde_json::from_slice(&printed[begin..])?;
    let job = &found["jobs"][0];
    if job["error"] != 0 {
        return Err(format!("fio failed: {}", job["error"]).into());
    }
    let directions = [&job["read"], &job["write"]];
    let iops = directions.iter().filter_map(|direction| direction["iops"].as_f64()).sum();
    let p99 = |direction: &&Value| direction["clat_ns"]["percentile"]["99.000000"].as_f64();
    let p99_ns = directions.iter().filter_map(p99).fold(0.0, f64::max);
    Ok(Measured { iops, p99_us: p99_ns / 1e3 })
}
