//! The command line: global options and the list of commands. Each command's own arguments are in
//! its file.

use crate::commands::{
    bench, class, cluster, completions, cp, demo, exec, exporter, fsck, get, health, ls, omap, other, pgs,
    placement, pool, put, rm, scrub, stat, status, xattr,
};
use benthic_program::{Global, exit};
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "An object is POOL/OBJECT, or POOL:NAMESPACE/OBJECT.\n\n\
    Examples:\n  \
    benthic pool create photos\n  \
    benthic put photos/cat.jpg cat.jpg\n  \
    benthic exec photos/cat.jpg digest sha256";

/// Verbs that other programs use, with Benthic's name for each.
const OTHER_VERBS: [(&str, &str); 9] = [
    ("delete", "rm"),
    ("del", "rm"),
    ("remove", "rm"),
    ("list", "ls"),
    ("copy", "cp"),
    ("upload", "put"),
    ("download", "get"),
    ("cat", "get"),
    ("info", "stat"),
];

/// Adds Benthic's verb to the error about an unknown verb.
pub fn suggest_verb(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    if let Some((_, verb)) = OTHER_VERBS.iter().find(|(other, _)| other == typed) {
        let suggested = ContextValue::Strings(vec![(*verb).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, suggested);
    }
}

/// Programmable object storage: objects with attributes and ordered keys, and code that runs beside them.
#[derive(Parser)]
#[command(
    name = "benthic",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::statuses_help())
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Create, list and remove pools
    #[command(subcommand, after_help = pool::EXAMPLES)]
    Pool(pool::PoolCommand),
    /// Store a file as an object
    Put(put::PutArgs),
    /// Fetch an object into a file
    Get(get::GetArgs),
    /// List the objects of a pool
    Ls(ls::LsArgs),
    /// Show size, time and version of an object
    Stat(stat::StatArgs),
    /// Remove objects
    Rm(rm::RmArgs),
    /// Copy files and directories to objects, and back
    Cp(cp::CpArgs),
    /// Work with the attributes of an object
    #[command(subcommand, after_help = xattr::EXAMPLES)]
    Xattr(xattr::XattrCommand),
    /// Work with the ordered keys and values of an object
    #[command(subcommand, after_help = omap::EXAMPLES)]
    Omap(omap::OmapCommand),
    /// Run a method of a class beside one object, or beside every object of a pool
    Exec(exec::ExecArgs),
    /// List, describe, create and install classes, which run beside the objects
    #[command(subcommand, after_help = class::EXAMPLES)]
    Class(class::ClassCommand),
    /// Run a Ceph cluster on this machine, for development and tests
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterCommand),
    /// Show where a Ceph cluster keeps its pools, and move their primaries to a site
    #[command(subcommand, after_help = placement::EXAMPLES)]
    Placement(placement::PlacementCommand),
    /// Check and suggest the number of placement groups of a Ceph cluster's pools
    #[command(subcommand, after_help = pgs::EXAMPLES)]
    Pgs(pgs::PgsCommand),
    /// Report the health of a Ceph cluster, the causes of problems, and the next steps
    Health(health::HealthArgs),
    /// Serve the health of a Ceph cluster to Prometheus
    Exporter(exporter::ExporterArgs),
    /// Serve a status page of a Ceph cluster
    #[command(subcommand, after_help = status::EXAMPLES)]
    Status(status::StatusCommand),
    /// Measure throughput and latency
    #[command(subcommand, after_help = bench::EXAMPLES)]
    Bench(bench::BenchCommand),
    /// Verify all stored data and report damage
    Scrub(scrub::ScrubArgs),
    /// Check the store's own structures
    Fsck(fsck::FsckArgs),
    /// Query tables, Parquet objects and local files with SQL
    #[command(after_help = other::SQL_EXAMPLES)]
    Sql(other::ProgramArgs),
    /// Create, load, inspect and remove tables
    #[command(after_help = other::TABLE_EXAMPLES)]
    Table(other::ProgramArgs),
    /// Serve S3, and administer its accounts, keys and buckets
    #[command(after_help = other::S3_EXAMPLES)]
    S3(other::ProgramArgs),
    /// Run the active-storage experiment on real files
    Demo(demo::DemoArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}
