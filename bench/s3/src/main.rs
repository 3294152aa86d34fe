//! The S3 gateway compared with others over HTTP: radosgw on the same cluster, versitygw on the
//! same disk, and a client that fetches the objects on which our gateway runs code. `make bench-s3`
//! builds the programs and runs it. The decisions of policies are measured alone, without HTTP.
//!
//! The sides run in turns in one run of this program, and the tables show medians. Our own load
//! generator runs on this machine, sends presigned URLs, and checks every answer.

mod client;
mod far;
mod line;
mod listing;
mod load;
mod memory;
mod objects;
mod policy;
mod servers;
mod sign;

use bench_harness::cluster::Cluster;
use bench_harness::report::{Report, Section};
use bench_harness::{Outcome, exit, is_wanted, machine};
use clap::Parser;
use servers::{Server, create_erasure_coded_pool};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SECTIONS: [&str; 8] =
    ["policy", "far", "disk", "encryption", "listing", "memory", "ceph", "erasure-coded"];

#[derive(Parser)]
struct Args {
    /// Sections to measure; all by default
    #[arg(value_name = "SECTION", value_parser = SECTIONS)]
    sections: Vec<String>,
    /// The gateway program; `benthic` must be in the same directory
    #[arg(long, value_name = "FILE", default_value = "target/release/benthic-s3")]
    benthic_s3: PathBuf,
    /// The versitygw program, the reference on a disk
    #[arg(long, value_name = "FILE", default_value = "target/bench-s3/versitygw")]
    versitygw: PathBuf,
    /// Directory for the results, and for the data during the run
    #[arg(long, value_name = "DIR", default_value = "target/bench-s3")]
    out: PathBuf,
    /// Number of measured rounds
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Object sizes to measure; all by default
    #[arg(long, value_name = "SIZE", value_parser = objects::SIZES.map(|size| size.name))]
    size: Vec<String>,
    /// Number of keys in section "listing"
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    keys: u64,
    /// Do only a little of the work, to test the benchmark itself
    #[arg(long)]
    quick: bool,
}

pub struct Setting {
    pub benthic_s3: PathBuf,
    pub versitygw: PathBuf,
    pub dir: PathBuf,
    pub rounds: usize,
    /// Object sizes to measure; empty for all.
    pub sizes: Vec<String>,
    pub keys: u64,
    pub quick: bool,
    number: Cell<u64>,
}

impl Setting {
    /// A number for a name that must be new.
    pub fn next_number(&self) -> u64 {
        self.number.replace(self.number.get() + 1)
    }

    /// The store URI for the embedded engine, and a directory for the other gateway.
    pub fn embedded(&self, dir: &Path) -> (String, PathBuf) {
        (format!("file:{}", dir.join("store").display()), dir.join("files"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let all = async { run(Args::parse()).await };
    exit(tokio::task::LocalSet::new().run_until(all).await)
}

async fn run(args: Args) -> Outcome {
    fs::create_dir_all(&args.out)?;
    let dir = fs::canonicalize(&args.out)?.join("work");
    new_directory(&dir)?;
    let setting = Setting {
        benthic_s3: fs::canonicalize(&args.benthic_s3)?,
        versitygw: fs::canonicalize(&args.versitygw)?,
        dir,
        rounds: if args.quick { 1 } else { args.rounds as usize },
        sizes: args.size,
        keys: if args.quick { 10_000 } else { args.keys },
        quick: args.quick,
        number: Cell::new(std::process::id().into()),
    };
    let conditions = machine::describe(&setting.dir, "Ceph", "radosgw")?;
    let mut report = Report::new("The S3 gateway against others", conditions, setting.rounds, setting.quick);
    for name in SECTIONS {
        if !is_wanted(&args.sections, name) {
            continue;
        }
        eprintln!("==> {name}");
        for section in sections(&setting, name).await.map_err(|error| format!("{name}: {error}"))? {
            report.add(name, section);
        }
    }
    fs::remove_dir_all(&setting.dir)?;
    report.write(&args.out)
}

/// Creates a directory, and first removes the remains of a killed run. Process IDs repeat in the
/// namespace of a release.
fn new_directory(dir: &Path) -> Outcome {
    let _ = fs::remove_dir_all(dir);
    Ok(fs::create_dir_all(dir)?)
}

async fn sections(setting: &Setting, name: &str) -> Outcome<Vec<Section>> {
    let (store, files) = setting.embedded(&setting.dir);
    match name {
        "policy" => Ok(vec![policy::run(setting)?]),
        "far" => Ok(vec![far::run(setting, &Server::benthic(setting, &store).await?).await?]),
        "disk" => {
            let ours = async || Server::benthic(setting, &store).await;
            let others = async || Server::versitygw(setting, &files).await;
            let note = "An embedded store against versitygw on a directory of the same disk. What we acknowledge survives a power cut; \
                versitygw syncs nothing.";
            let mut sections = objects::run(setting, objects::ON_A_DIRECTORY, note, ours, others).await?;
            // Compare again where a sync costs nothing, because then both give the same guarantee.
            let memory = Path::new("/dev/shm").join(format!("benthic-bench-s3-{}", setting.next_number()));
            let (store, files) = setting.embedded(&memory);
            new_directory(&memory)?;
            let ours = async || Server::benthic(setting, &store).await;
            let others = async || Server::versitygw(setting, &files).await;
            let note = "The same on a file system in memory, where a sync costs nothing: both keep the same promise.";
            let measured = objects::run(setting, objects::IN_MEMORY, note, ours, others).await;
            fs::remove_dir_all(&memory)?;
            sections.extend(measured?);
            Ok(sections)
        }
        "encryption" => {
            let memory = Path::new("/dev/shm").join(format!("benthic-bench-s3-{}", setting.next_number()));
            new_directory(&memory)?;
            // Of two gateways on one store, the second goes through the first.
            let [(encrypted, _), (plain, _)] =
                ["encrypted", "plain"].map(|name| setting.embedded(&memory.join(name)));
            let ours = async || Server::benthic(setting, &encrypted).await?.enable_encryption().await;
            let others = async || Server::benthic(setting, &plain).await;
            let note = "A bucket with SSE-S3 by default against one without, on a file system in memory.";
            let measured = objects::run(setting, objects::ENCRYPTED, note, ours, others).await;
            fs::remove_dir_all(&memory)?;
            measured
        }
        "listing" => Ok(vec![listing::run(setting, &Server::benthic(setting, &store).await?).await?]),
        "memory" => {
            // A store of its own, because a gateway cleans up what other sections have left.
            let dir = setting.dir.join("memory");
            new_directory(&dir)?;
            let (store, files) = setting.embedded(&dir);
            let ours = async || Server::benthic_serving(setting, &store, &memory::SERVE).await;
            let others = async || Server::versitygw(setting, &files).await;
            Ok(vec![memory::run(setting, ours, others).await?])
        }
        _ => {
            let benthic = setting.benthic_s3.with_file_name("benthic");
            let cluster = Cluster::up(&benthic, "s3", &["--osds", "3"])?;
            let (store, conf) = (cluster.store(), cluster.conf());
            let others = async || Server::radosgw(setting, &conf).await;
            if name == "erasure-coded" {
                // radosgw takes a pool of this name if it exists.
                create_erasure_coded_pool(&cluster, "default.rgw.buckets.data")?;
                let ours = async || Server::benthic_erasure_coded(setting, &cluster).await;
                let note = "On one cluster of three OSDs, the data in erasure-coded pools of two data chunks and a coding chunk, on both sides.";
                return objects::run(setting, objects::ERASURE_CODED, note, ours, others).await;
            }
            let ours = async || Server::benthic(setting, &store).await;
            let note = "On one cluster of three OSDs, pools of the same number of copies. What is acknowledged is on all of its OSDs, \
                on both sides.";
            objects::run(setting, objects::ON_CEPH, note, ours, others).await
        }
    }
}
