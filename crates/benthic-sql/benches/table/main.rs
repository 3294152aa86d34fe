//! Tables and SQL compared with references that do the same work. On a real cluster, near and
//! behind a slow link, pushed fragments compete with pulled ones; on Parquet files, the embedded
//! engine competes with plain DataFusion. `make bench-table` runs it.
//!
//! The sides run in turns in one run of this program, and the tables show medians. The program
//! starts its own clusters on this machine and removes them at the end.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a benchmark speaks to whoever started it")]

mod calls;
mod load;
mod points;
mod rows;
mod shares;
mod texts;
mod tpch;

use bench_harness::cluster::Cluster;
use bench_harness::report::Report;
use bench_harness::{Outcome, exit, machine};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// The link of the far cluster.
const FAR: [&str; 6] = ["--sites", "far", "--rtt-ms", "10", "--mbit-per-s", "100"];

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Shares of lineitem on a cluster of this machine
    Near,
    /// The same behind a link of 100 Mbit/s and 10 ms
    Far,
    /// Queries of TPC-H, embedded, against plain DataFusion
    Tpch,
    /// Single rows of a table of a thousand objects
    Points,
    /// A table of a hundred thousand objects
    Many,
    /// Single calls of a fragment, and the memory of OSDs
    Calls,
    /// Loading files
    Load,
    /// Searches for words, with and without a text index
    Texts,
}

/// How it is measured.
#[derive(Parser)]
pub struct Args {
    /// What to measure; all if nothing is named
    what: Vec<What>,
    /// The programs, with the libraries of our classes beside them
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic")]
    benthic: PathBuf,
    /// A Python that has duckdb and polars; without it they are left out
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "target/bench-table")]
    out: PathBuf,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// The scale of TPC-H
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Little of the work, to try the benchmark itself
    #[arg(long)]
    quick: bool,
    /// Runs TPC-H queries of stdin over this store, for a measurement of memory
    #[arg(long, hide = true)]
    queries_of: Option<PathBuf>,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = Args::parse();
    if args.quick {
        (args.scale, args.rounds) = (args.scale.min(0.02), args.rounds.min(2));
    }
    exit(match &args.queries_of {
        Some(store) => tpch::answer(store).await,
        None => run(&args).await,
    })
}

async fn run(args: &Args) -> Outcome {
    std::fs::create_dir_all(&args.out)?;
    let mut conditions = machine::describe(&std::env::temp_dir(), "Ceph", "ceph-osd")?;
    conditions.push(("scale of TPC-H", args.scale.to_string()));
    let mut report =
        Report::new("Tables and SQL against their references", conditions, args.rounds, args.quick);
    let is_wanted = |what: What| bench_harness::is_wanted(&args.what, &what);
    if is_wanted(What::Tpch) {
        report.add("tpch", tpch::run(args).await?);
    }
    if is_wanted(What::Load) {
        report.add("load", load::run(args)?);
    }
    if is_wanted(What::Texts) {
        report.add("texts", texts::run(args).await?);
    }
    if is_wanted(What::Many) {
        report.add("many", points::many(args).await?);
    }
    if [What::Near, What::Points, What::Calls].into_iter().any(is_wanted) {
        let near = Cluster::up(&args.benthic, "near", &["--osds", "3"])?;
        if is_wanted(What::Calls) {
            report.add("calls", calls::run(args, &near).await?);
        }
        if is_wanted(What::Points) {
            report.add("points", points::run(args, &near).await?);
        }
        if is_wanted(What::Near) {
            report.add("near", shares::run(args, &near, false)?);
        }
    }
    if is_wanted(What::Far) {
        let far = Cluster::up(&args.benthic, "far", &[&["--osds", "3"], &FAR[..]].concat())?;
        report.add("far", shares::run(args, &far, true)?);
    }
    report.write(&args.out)
}
