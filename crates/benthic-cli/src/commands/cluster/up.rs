//! `benthic cluster up`: creates a local cluster or starts a stopped one.

use super::{NewClusterDir, progress};
use benthic_ceph::local::{Cluster, Daemon, MBIT_PER_S_MAX, OSDS_MAX, Plan, RTT_MS_MAX, UpOutcome};
use benthic_core::{Stopwatch, SystemClock};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

pub const EXAMPLES: &str = "The cluster is only for development and tests: its data do not survive the loss of this \
    machine.\n\nExamples:\n  \
    benthic cluster up\n  \
    benthic cluster up --osds 1 --dir /tmp/c\n  \
    benthic cluster up --sites um,msu,wsu --rtt-ms 10 --osds 6\n  \
    benthic cluster up --sites far --rtt-ms 10 --mbit-per-s 100";

/// The library with the built-in classes.
const LIBRARY: &str = "libcls_benthic_1.so";
/// The libraries with the classes of arrays and of tables. They are separate because they take
/// longer to build.
const OTHER_LIBRARIES: [&str; 2] = ["libcls_array_1.so", "libcls_table_1.so"];

#[derive(Args)]
pub struct UpArgs {
    /// Number of OSDs of a new cluster [default: 3, or 2 per site if that is more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(OSDS_MAX)))]
    osds: Option<u32>,
    /// Sites of a new cluster, each in a network namespace; needs root
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    sites: Vec<String>,
    /// Round-trip time in milliseconds between two sites, or between a site and this machine
    /// [default: 10]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=i64::from(RTT_MS_MAX)))]
    rtt_ms: Option<u32>,
    /// Limit in Mbit/s on what each site, and this machine, receives; 0 for no limit [default: no
    /// limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MBIT_PER_S_MAX)))]
    mbit_per_s: Option<u32>,
    /// Class libraries to install [default: libcls_benthic_1.so, libcls_array_1.so and
    /// libcls_table_1.so beside this program or of its package]
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    classes: Vec<PathBuf>,
    #[command(flatten)]
    place: NewClusterDir,
}

pub async fn run(args: UpArgs, session: &Session) -> Outcome {
    let began = Stopwatch::start(&SystemClock);
    let classes = match args.classes.is_empty() {
        true => [LIBRARY].into_iter().chain(OTHER_LIBRARIES).filter_map(beside_this_program).collect(),
        false => args.classes,
    };
    let plan = Plan {
        osds: args.osds,
        sites: args.sites,
        rtt_ms: args.rtt_ms,
        mbit_per_s: args.mbit_per_s,
        classes: classes.clone(),
    };
    let (status, started, older) = blocking(move || {
        let (cluster, started) = Cluster::up_as(&args.place.dir, &plan, &mut progress())?;
        let mut older = Vec::new();
        for library in &plan.classes {
            let of_library = cluster.running_older(library)?;
            older.extend(of_library.into_iter().filter(|daemon| !older.contains(daemon)).collect::<Vec<_>>());
        }
        Ok((cluster.status()?, started, older))
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    let (word, text) = match started {
        UpOutcome::Created => ("created", "a new cluster is up"),
        UpOutcome::Resumed => ("resumed", "the cluster is up again"),
        UpOutcome::AlreadyRunning => ("already", "the cluster was up already"),
    };
    let older: Vec<String> = older.iter().map(Daemon::to_string).collect();
    session.out.result(
        format_args!("{text}: {} with {} daemons, {seconds:.1} s", status.health, status.daemons.len()),
        || {
            json!({
                "up": word, "health": status.health, "dir": status.dir, "seconds": seconds,
                "classes": classes, "older_classes": older,
            })
        },
    )?;
    for check in &status.checks {
        session.out.note(units::one_line(&format!("  {check}")))?;
    }
    print_classes(&classes, &older, session)?;
    session.out.note("only for development and tests: its data do not survive the loss of this machine")?;
    session
        .out
        .note("`eval \"$(benthic cluster env)\"` points benthic, ceph and rados to it (with the same --dir)")
}

fn print_classes(libraries: &[PathBuf], older: &[String], session: &Session) -> Outcome {
    if libraries.is_empty() {
        let message = format!(
            "no classes installed: there is no {LIBRARY} beside this program; the package benthic-classes has it, `make ceph` builds it, and --classes \
             selects another"
        );
        return session.out.note(message);
    }
    let paths: Vec<String> = libraries.iter().map(|library| library.display().to_string()).collect();
    session.out.note(format_args!("classes installed: {}", paths.join(", ")))?;
    if let Some(first) = older.first() {
        session.out.warning(format_args!(
            "{} run an older build of these classes until they restart: `benthic cluster kill {first}`, `benthic \
             cluster start {first}`",
            older.join(", ")
        ));
    }
    Ok(())
}

/// The path of a library in this program's directory, in cargo's `deps` below it, or where packages
/// and archives put class libraries.
fn beside_this_program(library: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let dir = program.parent()?;
    let installed = format!("../lib/{}-linux-gnu/rados-classes", std::env::consts::ARCH);
    let dirs = ["", "deps", "../lib/rados-classes", &installed].map(|place| dir.join(place));
    let found = dirs.iter().map(|dir| dir.join(library)).find(|library| library.is_file())?;
    found.canonicalize().ok()
}
