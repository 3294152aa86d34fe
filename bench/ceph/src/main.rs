//! Benthic's classes and client on a real Ceph cluster, against a plain C++ class, a client that reads everything, and
//! `rados bench`. `make bench-ceph` builds what it needs and runs it.
//!
//! What is compared runs in turns in one run of this program, and the tables have medians. The clusters are its own, on
//! this machine, and are removed at the end.

mod cluster;
mod experiment;
mod pool_digest;
mod rados_bench;
mod report;
mod small_calls;

use bench_report::{machine, tables};
use clap::Parser;
use cluster::Cluster;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

pub use bench_report::Outcome;

/// Round trip between client and OSDs of the far cluster.
const FAR_RTT_MS: &str = "10";

#[derive(Parser)]
struct Args {
    /// The program, with the library of our classes beside it
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic")]
    benthic: PathBuf,
    /// The C++ class
    #[arg(long, value_name = "FILE", default_value = "target/bench-ceph/libcls_plainmd5.so")]
    plain_class: PathBuf,
    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "target/bench-ceph")]
    out: PathBuf,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// A hundredth of the work, to try the benchmark itself
    #[arg(long)]
    quick: bool,
    /// Leave out the cluster with a delay, which takes root
    #[arg(long)]
    no_far: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Outcome {
    std::fs::create_dir_all(&args.out)?;
    let mut report =
        Report::new(machine::describe(&std::env::temp_dir(), "Ceph", "ceph-osd")?, args.rounds, args.quick);
    {
        let near = Cluster::up(&args.benthic, "near", &["--osds", "3"])?;
        near.install(&args.plain_class)?;
        let store = near.connect().await?;
        report.near = experiment::run(&*store, args.rounds, args.quick, true).await?;
        report.pool_digest = pool_digest::run(&*store, args.rounds, args.quick).await?;
        report.small_calls = small_calls::run(&*store, args.quick).await?;
        drop(store);
        report.rados_bench = rados_bench::run(&near, args.rounds, args.quick)?;
    }
    if !args.no_far {
        let sites = ["--osds", "3", "--sites", "far", "--rtt-ms", FAR_RTT_MS];
        let far = Cluster::up(&args.benthic, "far", &sites)?;
        let store = far.connect().await?;
        report.far_round_trip_ms = Some(small_calls::round_trip_ms(&*store).await?);
        report.far = experiment::run(&*store, args.rounds.min(3), args.quick, false).await?;
    }
    let markdown = report.markdown();
    println!("{markdown}");
    tables::write(&args.out, &markdown, &report.to_json(), &report.html())
}
