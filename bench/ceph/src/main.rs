//! Benthic's classes and client on a real Ceph cluster, compared with a plain C++ class, a client
//! that reads all data, and `rados bench`. `make bench-ceph` builds the programs and runs it.
//!
//! The sides run in turns in one run of this program, and the tables show medians. The program
//! starts its own clusters on this machine and removes them at the end.

mod experiment;
mod pool_digest;
mod rados_bench;
mod report;
mod small_calls;

use bench_harness::cluster::Cluster;
use bench_harness::process::run as run_program;
use bench_harness::{Outcome, exit, machine, tables};
use bytes::Bytes;
use clap::Parser;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// Round trip between client and OSDs of the far cluster.
const FAR_RTT_MS: &str = "10";

#[derive(Parser)]
struct Args {
    /// The benthic program; the class library must be in the same directory
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic")]
    benthic: PathBuf,
    /// Library of the C++ class
    #[arg(long, value_name = "FILE", default_value = "target/bench-ceph/libcls_plainmd5.so")]
    plain_class: PathBuf,
    /// The WebAssembly module of `bench/wasm`
    #[arg(long, value_name = "FILE", default_value = "bench/wasm/guest/kernels.wasm")]
    guest: PathBuf,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "target/bench-ceph")]
    out: PathBuf,
    /// Number of measured rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Do a hundredth of the work, to test the benchmark itself
    #[arg(long)]
    quick: bool,
    /// Skip the cluster with a network delay, which needs root
    #[arg(long)]
    no_far: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(Args::parse()).await)
}

async fn run(Args { benthic, plain_class, guest, out, rounds, quick, no_far }: Args) -> Outcome {
    let guest = Bytes::from(std::fs::read(&guest)?);
    std::fs::create_dir_all(&out)?;
    let mut conditions = machine::describe(&std::env::temp_dir(), "Ceph", "ceph-osd")?;
    conditions.push(("cluster", "1 monitor, 3 OSDs on this machine, pools of 3 replicas".to_owned()));
    conditions.push(("rounds", format!("{rounds}, medians")));
    if quick {
        conditions.push(("quick", "a hundredth of the work; these numbers are not results".to_owned()));
    }
    let near = Cluster::up(&benthic, "near", &["--osds", "3"])?;
    // OSDs look for a class at its first call, so install it before.
    for library in [&plain_class, &benthic.with_file_name("libcls_wasm_1.so")] {
        run_program(near.benthic(["class", "install"]).arg(library).arg("--cluster").arg(near.dir()))?;
    }
    let store = near.connect().await?;
    let experiment = experiment::run(&*store, rounds, quick, Some(&guest)).await?;
    let pool_digest = pool_digest::run(&*store, rounds, quick).await?;
    let small_calls = small_calls::run(&*store, quick).await?;
    drop(store);
    let bench = rados_bench::run(&near, rounds, quick)?;
    drop(near);
    let (far_round_trip_ms, far_experiment) = (None, Vec::new());
    let mut report =
        Report { conditions, experiment, pool_digest, small_calls, bench, far_round_trip_ms, far_experiment };
    if !no_far {
        let sites = ["--osds", "3", "--sites", "far", "--rtt-ms", FAR_RTT_MS];
        let far = Cluster::up(&benthic, "far", &sites)?;
        let store = far.connect().await?;
        report.far_round_trip_ms = Some(small_calls::round_trip_ms(&*store).await?);
        report.far_experiment = experiment::run(&*store, rounds.min(3), quick, None).await?;
    }
    let markdown = report.markdown();
    println!("{markdown}");
    tables::write(&out, &markdown, &serde_json::to_value(&report)?, &report.html())
}
