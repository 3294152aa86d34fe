//! fio as a reference: one process, plain system calls.

use bench_harness::Outcome;
use bench_harness::process::output;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Options of every run: one job of plain writes, with all data on the disk before the clock stops.
pub const COMMON: &str = "--ioengine=psync --fallocate=none --end_fsync=1";

/// Runs fio on a file; returns the seconds of its job. Laying out a file is not part of them.
pub fn seconds(file: &Path, options: &str) -> Outcome<f64> {
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--output-format=json"]).args(COMMON.split(' ')).args(options.split(' '));
    let printed = output(command.arg(format!("--filename={}", file.display())))
        .map_err(|error| format!("{error}\ninstall fio, or run `make bench`, which installs it"))?;
    // fio may print notes before the JSON.
    let start = printed.iter().position(|byte| *byte == b'{').ok_or("fio printed no JSON")?;
    let found: Value = serde_json::from_slice(&printed[start..])?;
    let job = &found["jobs"][0];
    if job["error"] != 0 {
        return Err(format!("fio failed: {}", job["error"]).into());
    }
    let ms = job["write"]["runtime"].as_f64().ok_or("fio reported no time")?;
    Ok(ms.max(1.0) / 1e3)
}
