//! Primaries near their readers, loss of a site, and many tiny objects, measured on real Ceph
//! clusters with the `benthic` program. `make bench-service` builds the programs and runs it.
//!
//! The program starts its own clusters on this machine and removes them at the end.

mod many;
mod sites;

use bench_harness::cluster::Cluster;
use bench_harness::report::Report;
use bench_harness::{Outcome, exit, is_wanted, machine, pause, start};
use clap::Parser;
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const CLEAN_TIMEOUT: Duration = Duration::from_secs(3_600);

#[derive(Parser)]
struct Args {
    /// Sections to measure; all by default
    #[arg(value_name = "SECTION", value_parser = ["sites", "many"])]
    sections: Vec<String>,
    /// The benthic program
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic")]
    benthic: PathBuf,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "target/bench-service")]
    out: PathBuf,
    /// Number of measurements of the sites, before and after the move
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Number of tiny objects
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    objects: u64,
    /// Do only a little of the work, to test the benchmark itself
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let mut args = Args::parse();
    if args.quick {
        (args.rounds, args.objects) = (1, args.objects.min(10_000));
    }
    exit(run(&args))
}

fn run(args: &Args) -> Outcome {
    std::fs::create_dir_all(&args.out)?;
    let conditions = machine::describe(&std::env::temp_dir(), "Ceph", "ceph-osd")?;
    let mut report = Report::new("Running the service", conditions, args.rounds, args.quick);
    if is_wanted(&args.sections, "sites") {
        sites::run(args)?.into_iter().for_each(|section| report.add("sites", section));
    }
    if is_wanted(&args.sections, "many") {
        report.add("many", many::run(args)?);
    }
    report.write(&args.out)
}

/// Creates a pool of three replicas with a final number of placement groups.
pub fn create_pool(cluster: &Cluster, name: &str, pg_num: &str) -> Outcome {
    cluster.ceph(&["osd", "pool", "create", name, pg_num])?;
    cluster.ceph(&["osd", "pool", "application", "enable", name, "benthic"])?;
    cluster.ceph(&["osd", "pool", "set", name, "size", "3"])?;
    wait_until_clean(cluster)
}

/// Removes the pause of recovery. The OSDs treat these disks as rotational, for which the default
/// pause is 0.1 s after each object.
pub fn recover_without_pauses(cluster: &Cluster) -> Outcome {
    cluster.ceph(&["config", "set", "osd", "osd_recovery_sleep_hdd", "0"])?;
    Ok(())
}

/// Waits until all placement groups have all replicas on their intended OSDs.
pub fn wait_until_clean(cluster: &Cluster) -> Outcome {
    let stopwatch = start();
    while stopwatch.elapsed() < CLEAN_TIMEOUT {
        pause(Duration::from_millis(500));
        let stat = cluster.ceph(&["pg", "stat"])?;
        let states = stat["pg_summary"]["num_pg_by_state"].as_array().cloned().unwrap_or_default();
        let is_clean =
            |state: &Value| state["name"].as_str().is_some_and(|name| name.starts_with("active+clean"));
        if !states.is_empty() && states.iter().all(is_clean) {
            return Ok(());
        }
    }
    Err("the placement groups did not become clean in time".into())
}
