//! The command line: global options and the list of commands. Each command's own arguments are in
//! its file.

use crate::commands::{
    bench, cat, class, cluster, completions, console, cp, demo, du, exec, exporter, find, fsck, get, health,
    image, ls, map, mirror, mv, omap, other, pgs, placement, pool, put, rm, scrub, stat, status, tree, xattr,
};
use benthic_program::man::ManArgs;
use benthic_program::{Global, exit};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};

const EXAMPLES: &str = "An object is POOL/OBJECT, or POOL:NAMESPACE/OBJECT.\n\n\
    Examples:\n  \
    benthic pool create photos\n  \
    benthic put photos/cat.jpg cat.jpg\n  \
    benthic exec photos/cat.jpg digest sha256";

/// Verbs that other programs use, with Benthic's name for each.
const OTHER_VERBS: [(&str, &str); 11] = [
    ("delete", "rm"),
    ("del", "rm"),
    ("remove", "rm"),
    ("list", "ls"),
    ("copy", "cp"),
    ("upload", "put"),
    ("download", "get"),
    ("info", "stat"),
    ("move", "mv"),
    ("rename", "mv"),
    ("sync", "mirror"),
];

/// The headings under which `--help` lists the commands. clap itself has only one heading for all.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "pools and objects",
        &[
            "pool", "put", "get", "cat", "ls", "find", "tree", "du", "stat", "cp", "mv", "mirror", "rm",
            "xattr", "omap",
        ],
    ),
    ("classes", &["exec", "map", "class"]),
    ("virtual disks", &["image", "csi"]),
    ("tables, SQL, arrays and S3", &["sql", "table", "array", "catalog", "s3"]),
    ("Ceph clusters", &["cluster", "placement", "pgs", "health", "exporter", "status"]),
    ("measuring and checking", &["bench", "demo", "scrub", "fsck"]),
    ("the web console", &["console"]),
    ("shells", &["completions", "man", "help"]),
];

/// The command line, with its commands under the headings of [`GROUPS`].
pub fn command() -> clap::Command {
    let command = Cli::command();
    let styles = command.get_styles();
    let (heading, literal) = (*styles.get_header(), *styles.get_literal());
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        template.push_str(&format!("\n{heading}Commands for {group}:{heading:#}\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or("Print the help of a command".to_owned(), ToString::to_string);
            template.push_str(&format!("  {literal}{name:<11}{literal:#}  {about}\n"));
        }
    }
    template.push_str(&format!("\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"));
    command.help_template(template)
}

/// Adds Benthic's verb to the error about an unknown verb.
pub fn suggest_verb(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    if let Some((_, verb)) = OTHER_VERBS.iter().find(|(other, _)| other == typed) {
        let suggested = ContextValue::Strings(vec![(*verb).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, suggested);
    }
}

/// Programmable object storage: objects with attributes and ordered keys, and code that runs beside
/// them.
#[derive(Parser)]
#[command(
    name = "benthic",
    version = benthic_core::build(),
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
    /// Print the data of objects
    Cat(cat::CatArgs),
    /// List the objects of a pool
    Ls(ls::LsArgs),
    /// List objects by name, size and age
    Find(find::FindArgs),
    /// Draw the names of objects as a tree
    Tree(tree::TreeArgs),
    /// Count objects and bytes by prefix
    Du(du::DuArgs),
    /// Show size, time and version of an object
    Stat(stat::StatArgs),
    /// Remove objects
    Rm(rm::RmArgs),
    /// Copy files and directories to objects, objects to files, and objects to objects
    Cp(cp::CpArgs),
    /// Move objects to other names, pools or stores
    Mv(mv::MvArgs),
    /// Make a prefix of objects equal to a directory or another prefix, or a directory to a prefix
    Mirror(mirror::MirrorArgs),
    /// Work with the attributes of an object
    #[command(subcommand, after_help = xattr::EXAMPLES)]
    Xattr(xattr::XattrCommand),
    /// Work with the ordered keys and values of an object
    #[command(subcommand, after_help = omap::EXAMPLES)]
    Omap(omap::OmapCommand),
    /// Run a method of a class beside one object, or beside every object of a pool
    Exec(exec::ExecArgs),
    /// Run a method beside every object of a pool, and merge the results into one
    Map(map::MapArgs),
    /// Create, serve, snapshot and copy block images, which are virtual disks
    #[command(subcommand, after_help = image::EXAMPLES)]
    Image(image::ImageCommand),
    /// Serve volumes to Kubernetes with the Container Storage Interface
    #[command(after_help = other::CSI_EXAMPLES)]
    Csi(other::ProgramArgs),
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
    /// Serve a web page to inspect the store and to try things
    #[command(subcommand, after_help = console::EXAMPLES)]
    Console(console::ConsoleCommand),
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
    /// Create, read, reduce, check and export arrays in Zarr's format
    #[command(after_help = other::ARRAY_EXAMPLES)]
    Array(other::ProgramArgs),
    /// Serve tables to programs that read Iceberg
    #[command(after_help = other::CATALOG_EXAMPLES)]
    Catalog(other::ProgramArgs),
    /// Serve S3, and administer its accounts, keys and buckets
    #[command(after_help = other::S3_EXAMPLES)]
    S3(other::ProgramArgs),
    /// Run the active-storage experiment on real files
    Demo(demo::DemoArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
