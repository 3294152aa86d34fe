//! Shares of lineitem, from a few rows to all, pushed, pulled, and decided at run time: `benthic
//! table demo`.

use crate::Args;
use bench_harness::cluster::Cluster;
use bench_harness::process::output;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, median};
use serde_json::Value;
use std::process::Stdio;

/// The choice is made while a query runs, so shorter queries show little of it.
const SECONDS_MIN: f64 = 1.0;

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
    let found: Value = serde_json::from_slice(&output(demo.stderr(Stdio::inherit()))?)?;
    let table_mib = found["table_bytes"].as_f64().ok_or("no size of the table")? / MIB;

    let mut rows = Vec::new();
    let (mut auto, mut ratios) = (Vec::new(), Vec::new());
    for query in found["queries"].as_array().into_iter().flatten() {
        let name = query["name"].as_str().unwrap_or_default();
        let [always, never, chosen] = ["always", "never", "auto"].map(|way| runs(query, way));
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
        let ratio = median(chosen.seconds.clone()) / better_s;
        let counts = better_s >= SECONDS_MIN;
        let aim = if counts { Aim::AtMostOfReference(1.3) } else { Aim::None };
        auto.push(Row::compared(
            format!("{name}: time, auto against the better"),
            "s",
            &chosen.seconds,
            &better.seconds,
            aim,
        ));
        if counts {
            ratios.push(ratio);
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
        rows.push(Row::alone(format!("{name}: moved by auto"), "MiB", chosen.moved_mib, Aim::None));
    }
    rows.extend(auto);
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let what = "geometric mean of auto against the better, queries of a second and more";
        rows.push(Row::alone(what, "times", vec![mean], Aim::AtMost(1.1)));
    }
    Ok(Section {
        title: match is_far {
            false => "Shares of lineitem on a cluster of this machine",
            true => "Shares of lineitem behind a link of 100 Mbit/s and 10 ms",
        },
        note: format!(
            "`benthic table demo`: `SELECT *` of so many of the rows of lineitem, by a filter that no statistics help, and Q1 \
             and Q6 of TPC-H; {} rows in {} objects, {table_mib:.0} MiB of Parquet; three OSDs, loopback, and client share the \
             machine's cores. Always: beside the objects wherever they take it. Never: plain DataFusion on the ranges that it \
             needs. Each run is a session of its own, from the text to the last row. Moved: bytes of objects and answers, \
             before what the network adds.",
            found["table_rows"], found["table_objects"],
        ),
        rows,
    })
}

const MIB: f64 = 1024.0 * 1024.0;

fn runs(query: &Value, way: &str) -> Runs {
    let ways = query["ways"].as_array().into_iter().flatten();
    let numbers = |key: &str, found: &Value| -> Vec<f64> {
        found[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let mut runs = Runs { seconds: Vec::new(), moved_mib: Vec::new() };
    for found in ways.filter(|found| found["pushdown"] == way) {
        runs.seconds = numbers("seconds", found);
        runs.moved_mib = numbers("moved_bytes", found).into_iter().map(|bytes| bytes / MIB).collect();
    }
    runs
}
