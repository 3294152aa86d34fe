//! The embedded engine compared with references that do the same work: fio, pread with the same
//! checksum, the bare key-value crate, md5sum, and the engine itself without the socket. `make
//! bench` runs it.
//!
//! The sides run in turns in one run of this program, on one file system, and the tables show
//! medians.

mod child;
mod digest;
mod files;
mod fio;
mod many;
mod omap;
mod overwrites;
mod reads;
mod reference_kv;
mod rounds;
mod scale;
mod socket;
mod space;
mod store;
mod writes;

use bench_harness::report::{Report, Section};
use bench_harness::{Outcome, exit, is_wanted, machine};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const MIB: f64 = 1_048_576.0;

type Run = fn(&Setting) -> Outcome<Section>;

const SECTIONS: [(&str, &str, Run); 9] = [
    ("writes", "durable writes of new objects, against fio", writes::run),
    ("reads", "cached reads, against pread and the same checksum", reads::run),
    ("overwrites", "4 KiB overwrites in large objects, against fio", overwrites::run),
    ("omap", "omap inserts and scans, against the bare key-value crate", omap::run),
    ("many", "a million tiny objects: rates, bytes, memory, open times", many::run),
    ("scale", "growth of every operation with the number of objects, and sparse data", scale::run),
    ("digest", "digest of a whole pool, against md5sum", digest::run),
    ("space", "bytes on the disk after overwriting and removing", space::run),
    ("socket", "through the socket, against in-process", socket::run),
];

#[derive(Parser)]
struct Args {
    /// Sections to measure; all by default
    #[arg(value_name = "SECTION", value_parser = SECTIONS.map(|(name, ..)| name))]
    sections: Vec<String>,
    /// Do only a little of the work, to test the benchmark itself
    #[arg(long)]
    quick: bool,
    /// Number of measured rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Directory for the results; its subdirectory "work" holds the data and is removed before and
    /// after
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    dir: PathBuf,
    /// Let the sections "many" and "scale" continue to ten million objects
    #[arg(long)]
    ten_million: bool,
    /// List the sections
    #[arg(long)]
    list: bool,
}

pub struct Setting {
    /// Directory for the section's data, on the file system under test.
    pub dir: PathBuf,
    pub rounds: usize,
    /// Do only a little of the work, to test the benchmark itself.
    pub quick: bool,
    /// Whether the sections "many" and "scale" go on to ten million objects.
    pub ten_million: bool,
    pub cores: usize,
}

impl Setting {
    /// Returns `full`, or a hundredth of it in a quick run, but at least 16.
    pub fn count(&self, full: u64) -> u64 {
        if self.quick { (full / 100).max(16) } else { full }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    exit(match args.next() {
        Some(first) if first == child::MARK => child::run(args),
        _ => run(Args::parse()),
    })
}

fn run(args: Args) -> Outcome {
    if args.list {
        SECTIONS.iter().for_each(|(name, what, _)| println!("{name:12}{what}"));
        return Ok(());
    }
    std::fs::create_dir_all(&args.dir)?;
    let conditions = machine::describe(&args.dir, "fio", "fio")?;
    let rounds = args.rounds as usize;
    let mut report =
        Report::new("The embedded engine against its references", conditions, rounds, args.quick);
    let work = std::fs::canonicalize(&args.dir)?.join("work");
    let cores = std::thread::available_parallelism()?.get();
    for (name, what, section) in SECTIONS {
        if !is_wanted(&args.sections, name) {
            continue;
        }
        eprintln!("==> {name}: {what}");
        let setting =
            Setting { dir: work.join(name), rounds, quick: args.quick, ten_million: args.ten_million, cores };
        remove(&setting.dir)?;
        std::fs::create_dir_all(&setting.dir)?;
        let section = section(&setting);
        remove(&work)?;
        report.add(name, section.map_err(|error| format!("{name}: {error}"))?);
    }
    report.write(&args.dir)
}

fn remove(dir: &Path) -> Outcome {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
