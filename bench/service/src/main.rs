//! Primaries near their readers, a site that is lost, and very many tiny objects, on real Ceph clusters by the `benthic` program.
//! `make bench-service` builds what it needs and runs it.
//!
//! The clusters are this program's own, on this machine, and are removed at the end.

mod many;
mod sites;

use bench_report::cluster::Cluster;
use bench_report::sections::{Report, Section};
use bench_report::{machine, tables};
use clap::Parser;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

pub use bench_report::Outcome;

/// What takes longer than this does not come.
const PATIENCE: Duration = Duration::from_secs(3_600);

#[derive(Parser)]
struct Args {
    /// What to measure; all if none is named
    #[arg(value_name = "SECTION", value_parser = ["sites", "many"])]
    sections: Vec<String>,
    /// The program
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic")]
    benthic: PathBuf,
    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "target/bench-service")]
    out: PathBuf,
    /// How often sites are measured, before and after
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Tiny objects on Ceph
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    objects: u64,
    /// Little of the work, to try the benchmark itself
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let mut args = Args::parse();
    if args.quick {
        (args.rounds, args.objects) = (1, args.objects.min(10_000));
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Outcome {
    std::fs::create_dir_all(&args.out)?;
    let conditions = machine::describe(&std::env::temp_dir(), "Ceph", "ceph-osd")?;
    let mut report = Report::new("Running the service", conditions, args.rounds, args.quick);
    let is_wanted =
        |name: &str| args.sections.is_empty() || args.sections.iter().any(|section| section == name);
    let mut add = |name: &'static str, sections: Vec<Section>| {
        for section in sections {
            println!("{}", section.table().markdown());
            report.sections.push((name, section));
        }
    };
    if is_wanted("sites") {
        add("sites", sites::run(args)?);
    }
    if is_wanted("many") {
        add("many", vec![many::run(args)?]);
    }
    tables::write(&args.out, &report.markdown(), &report.to_json(), &report.html())
}

/// Runs a program to its end and returns what it printed.
pub fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What the program prints with `--json`, in its last line.
pub fn ask(cluster: &Cluster, args: &[&str]) -> Outcome<Value> {
    let printed = output(&mut cluster.benthic([&["--json"], args].concat()))?;
    Ok(serde_json::from_str(printed.trim().lines().last().unwrap_or_default())?)
}

/// What Ceph's own program prints.
pub fn ceph(cluster: &Cluster, args: &[&str]) -> Outcome<Value> {
    let printed =
        output(Command::new("ceph").arg("--conf").arg(cluster.conf()).args(args).args(["-f", "json"]))?;
    Ok(serde_json::from_str(printed.trim()).unwrap_or(Value::Null))
}

/// Lets the cluster do by itself what it does in its own time.
#[expect(clippy::disallowed_methods, reason = "nobody tells when it is done")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Makes a pool of three replicas, with the placement groups that it is going to keep.
pub fn create_pool(cluster: &Cluster, name: &str, pg_num: &str) -> Outcome {
    ceph(cluster, &["osd", "pool", "create", name, pg_num])?;
    ceph(cluster, &["osd", "pool", "application", "enable", name, "benthic"])?;
    ceph(cluster, &["osd", "pool", "set", name, "size", "3"])?;
    wait_until_clean(cluster)
}

/// Lets OSDs recover without a pause: for disks that turn, which these are told to be, the default is 0.1 s after each object.
pub fn recover_without_pauses(cluster: &Cluster) -> Outcome {
    ceph(cluster, &["config", "set", "osd", "osd_recovery_sleep_hdd", "0"])?;
    Ok(())
}

/// Waits until all placement groups have all of their replicas where they belong.
pub fn wait_until_clean(cluster: &Cluster) -> Outcome {
    let started_at = Instant::now();
    while started_at.elapsed() < PATIENCE {
        pause(Duration::from_millis(500));
        let stat = ceph(cluster, &["pg", "stat"])?;
        let states = stat["pg_summary"]["num_pg_by_state"].as_array().cloned().unwrap_or_default();
        let is_clean =
            |state: &Value| state["name"].as_str().is_some_and(|name| name.starts_with("active+clean"));
        if !states.is_empty() && states.iter().all(is_clean) {
            return Ok(());
        }
    }
    Err("the placement groups do not get clean".into())
}
