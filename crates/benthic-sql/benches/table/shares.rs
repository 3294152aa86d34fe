//! The pushdown modes of SQL, compared on queries that select a growing share of the rows of
//! TPC-H's table lineitem, from 0.001% to 100%, and on TPC-H's queries Q1 and Q6.
//!
//! `benthic table demo` runs each query in three modes. `always` runs fragments beside the objects,
//! `never` reads the objects in the client, and `auto` chooses while the query runs. This file
//! turns the command's JSON report into rows of the benchmark's report. It checks that pushdown
//! moves few bytes, and that `auto` is about as fast as the better of the other two modes.

use crate::Args;
use bench_harness::cluster::Cluster;
use bench_harness::process::output;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, median};
use serde_json::Value;
use std::process::Stdio;

/// Minimum duration of a query that has an aim for `auto`. This mode chooses while the query runs,
/// so a shorter query ends before the choice has much effect.
const AUTO_SECONDS_MIN: f64 = 1.0;

/// The runs of a query with one pushdown mode.
struct Runs {
    seconds: Vec<f64>,
    moved_mib: Vec<f64>,
}

pub fn run(args: &Args, cluster: &Cluster, is_far: bool) -> Outcome<Section> {
    let mut demo =
        cluster.benthic(["--json", "table", "demo", "--scale", &args.scale.to_string(), "--rounds"]);
    demo.arg(args.rounds.to_string()).arg("--report");
    demo.arg(args.out.join(if is_far { "far.html" } else { "near.html" }));
    let report: Value = serde_json::from_slice(&output(demo.stderr(Stdio::inherit()))?)?;
    let table_mib = report["table_bytes"].as_f64().ok_or("no size of the table")? / MIB;

    let mut rows = Vec::new();
    let (mut auto_rows, mut auto_ratios) = (Vec::new(), Vec::new());
    for query in report["queries"].as_array().into_iter().flatten() {
        let name = query["name"].as_str().unwrap_or_default();
        let [always, never, auto] = ["always", "never", "auto"].map(|mode| runs_in_mode(query, mode));
        let is_one_percent = name.starts_with("1%");
        let aim = if is_far && is_one_percent { Aim::AtMostOfReference(0.1) } else { Aim::None };
        rows.push(Row::compared(
            format!("{name}: time, always against never"),
            "s",
            &always.seconds,
            &never.seconds,
            aim,
        ));
        let better = match median(always.seconds.clone()) < median(never.seconds.clone()) {
            true => &always,
            false => &never,
        };
        let better_s = median(better.seconds.clone());
        let ratio = median(auto.seconds.clone()) / better_s;
        let is_long_enough = better_s >= AUTO_SECONDS_MIN;
        let aim = if is_long_enough { Aim::AtMostOfReference(1.3) } else { Aim::None };
        auto_rows.push(Row::compared(
            format!("{name}: time, auto against the better"),
            "s",
            &auto.seconds,
            &better.seconds,
            aim,
        ));
        if is_long_enough {
            auto_ratios.push(ratio);
        }
        let table = vec![table_mib; always.moved_mib.len()];
        let aim = if is_far && is_one_percent { Aim::AtMostOfReference(0.015) } else { Aim::None };
        rows.push(Row::compared(
            format!("{name}: moved by always, of the table"),
            "MiB",
            &always.moved_mib,
            &table,
            aim,
        ));
        rows.push(Row::alone(format!("{name}: moved by auto"), "MiB", auto.moved_mib, Aim::None));
    }
    rows.extend(auto_rows);
    if !auto_ratios.is_empty() {
        let mean = (auto_ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / auto_ratios.len() as f64).exp();
        let what = "geometric mean of auto against the better, queries of a second and more";
        rows.push(Row::alone(what, "times", vec![mean], Aim::AtMost(1.1)));
    }
    Ok(Section {
        title: match is_far {
            false => "Shares of lineitem on a cluster of this machine",
            true => "Shares of lineitem behind a link of 100 Mbit/s and 10 ms",
        },
        note: format!(
            "`benthic table demo`: `SELECT *` with a filter that keeps the given share of lineitem's rows and that no \
             statistics can prune, and Q1 and Q6 of TPC-H; {} rows in {} objects, {table_mib:.0} MiB of Parquet; three OSDs, \
             the loopback network and the client share the machine's cores. Always: every fragment that the OSD accepts runs \
             beside its object. Never: plain DataFusion in the client reads the byte ranges that it needs. Each run has its \
             own session and is timed from the SQL text to the last row. Moved: bytes of objects and answers, without the \
             network's own overhead.",
            report["table_rows"], report["table_objects"],
        ),
        rows,
    })
}

const MIB: f64 = 1024.0 * 1024.0;

/// The runs of one query of the report in one pushdown mode.
fn runs_in_mode(query: &Value, mode: &str) -> Runs {
    let modes = query["ways"].as_array().into_iter().flatten();
    let numbers = |key: &str, found: &Value| -> Vec<f64> {
        found[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let mut runs = Runs { seconds: Vec::new(), moved_mib: Vec::new() };
    for found in modes.filter(|found| found["pushdown"] == mode) {
        runs.seconds = numbers("seconds", found);
        runs.moved_mib = numbers("moved_bytes", found).into_iter().map(|bytes| bytes / MIB).collect();
    }
    runs
}
