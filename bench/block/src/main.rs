//! Block images compared with other NBD servers and with other clients of RBD, and snapshots of a
//! large image. `make bench-block` runs it.

mod ceph;
mod fio;
mod servers;
mod snapshots;

use bench_harness::report::Report;
use bench_harness::{Outcome, exit, is_wanted, machine};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
struct Args {
    /// Sections to measure: servers, snapshots, ceph; all by default
    #[arg(value_name = "SECTION", value_parser = ["servers", "snapshots", "ceph"])]
    sections: Vec<String>,
    /// Do only a little of the work, to test the benchmark itself
    #[arg(long)]
    quick: bool,
    /// Number of measured rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The benthic program
    #[arg(long, value_name = "FILE")]
    benthic: PathBuf,
    /// Directory for the results; its subdirectory "work" holds the data and is removed before and
    /// after
    #[arg(long, value_name = "DIR", default_value = "target/bench-block")]
    dir: PathBuf,
}

struct Setting {
    benthic: PathBuf,
    /// Directory for the data, on the file system under test.
    dir: PathBuf,
    rounds: usize,
    quick: bool,
}

fn main() -> ExitCode {
    exit(run(Args::parse()))
}

fn run(args: Args) -> Outcome {
    std::fs::create_dir_all(&args.dir)?;
    let mut conditions = machine::describe(&args.dir, "fio", "fio")?;
    conditions.push(("qemu-nbd", servers::version("qemu-nbd")?));
    conditions.push(("nbdkit", servers::version("nbdkit")?));
    let rounds = args.rounds as usize;
    let mut report = Report::new("Block images against other NBD servers", conditions, rounds, args.quick);
    let dir = std::fs::canonicalize(&args.dir)?.join("work");
    let setting = Setting { benthic: args.benthic, dir, rounds, quick: args.quick };
    if is_wanted(&args.sections, "servers") {
        for (name, section) in servers::run(&setting)? {
            report.add(name, section);
        }
    }
    if is_wanted(&args.sections, "snapshots") {
        report.add("snapshots", snapshots::run(&setting)?);
    }
    if is_wanted(&args.sections, "ceph") {
        for (name, section) in ceph::run(&setting)? {
            report.add(name, section);
        }
    }
    report.write(&args.dir)
}

/// An empty directory for a part of the work.
fn fresh(setting: &Setting) -> Outcome {
    if setting.dir.exists() {
        std::fs::remove_dir_all(&setting.dir)?;
    }
    Ok(std::fs::create_dir_all(&setting.dir)?)
}
