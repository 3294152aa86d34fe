//! `benthic cluster`: a real Ceph cluster on this machine.

mod show;
mod sites;
mod up;

use benthic_ceph::local::{Cluster, Daemon};
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::confirm::{Deletion, named, unknown};
use benthic_program::exit::Outcome;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::{CLUSTER_DIR, blocking};
use benthic_program::uri::StoreUri;
use benthic_program::{interrupt, units};
use clap::{Args, Subcommand};
use serde_json::json;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const EXAMPLES: &str = "The cluster is a real Ceph cluster of plain processes, with all files in one directory. \
    It runs on the loopback interface, or at several sites with a delay between them. It is only for development and \
    tests, because its data do not survive the loss of this machine. The daemons continue to run after the command \
    ends. In a shell with the variables of `cluster env`, the other commands use that cluster.\n\nExamples:\n  benthic cluster up\n  eval \"$(benthic cluster env)\"\n  \
    benthic cluster status\n  benthic cluster down";

/// Selects a cluster to work on.
#[derive(Args)]
pub struct ClusterDir {
    /// Directory of the cluster; by default, the one that `cluster env` named
    #[arg(long, value_name = "DIR", default_value_os_t = default_dir())]
    dir: PathBuf,
}

/// Selects a cluster to create or to name. The one that `cluster env` named does not count: a shell
/// that knows one cluster can so create another one, and switch to it.
#[derive(Args)]
pub struct NewClusterDir {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = CLUSTER_DIR)]
    dir: PathBuf,
}

/// The directory of the local cluster that the variables of `cluster env` name, or else the usual
/// one.
pub fn default_dir() -> PathBuf {
    let store = env::var("BENTHIC_STORE").ok().and_then(|uri| match uri.parse() {
        Ok(StoreUri::Ceph { conf, .. }) => conf,
        _ => None,
    });
    let named = store.into_iter().chain(env::var_os("CEPH_CONF").map(PathBuf::from));
    // The configuration for clients at a site is in a directory of its own.
    let dirs =
        named.flat_map(|conf| conf.ancestors().skip(1).take(2).map(Path::to_owned).collect::<Vec<_>>());
    dirs.into_iter().find(|dir| Cluster::open(dir).is_ok()).unwrap_or_else(|| CLUSTER_DIR.into())
}

#[derive(Args)]
pub struct DaemonArgs {
    /// mon.a, mgr.a, osd.N or wan (the links between sites)
    daemon: Daemon,
    #[command(flatten)]
    place: ClusterDir,
}

#[derive(Args)]
pub struct SiteArgs {
    /// The site
    site: String,
    #[command(flatten)]
    place: ClusterDir,
}

#[derive(Args)]
#[command(
    after_help = "With --remove, the command lists the pools that it deletes and asks for the name of the cluster, which is the \
    last part of its directory's path; --yes NAME answers without a terminal. A cluster without pools is removed without a \
    question. A cluster whose monitor does not answer has unknown contents.\n\n\
    Examples:\n  benthic cluster down\n  benthic cluster down --remove --yes benthic-cluster"
)]
pub struct DownArgs {
    /// Remove the cluster with all its data
    #[arg(long)]
    remove: bool,
    /// Confirm the removal: the name of the cluster's directory, such as benthic-cluster
    #[arg(long, value_name = "NAME", requires = "remove")]
    yes: Option<String>,
    #[command(flatten)]
    place: ClusterDir,
}

#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Create a cluster or start a stopped one, and wait until it is healthy; for development and
    /// tests
    #[command(after_help = up::EXAMPLES)]
    Up(up::UpArgs),
    /// Show health, daemons, pools and usage
    #[command(after_help = "Example:\n  benthic cluster status --json")]
    Status(ClusterDir),
    /// Stop the daemons and keep the data
    Down(DownArgs),
    /// Show the end of the daemons' logs
    #[command(after_help = "Examples:\n  benthic cluster logs\n  benthic cluster logs osd.0 --lines 100")]
    Logs {
        /// mon.a, mgr.a, osd.N or wan (the links between sites) [default: all]
        daemon: Option<Daemon>,
        /// Number of lines of each log
        #[arg(long, value_name = "N", default_value_t = 20)]
        lines: usize,
        #[command(flatten)]
        place: ClusterDir,
    },
    /// Print shell variables for clients of the cluster
    #[command(after_help = "Example:\n  eval \"$(benthic cluster env)\"")]
    Env(NewClusterDir),
    /// Kill a daemon, as a crash would
    #[command(after_help = "Example:\n  benthic cluster kill osd.2")]
    Kill(DaemonArgs),
    /// Start a stopped daemon
    #[command(after_help = "Example:\n  benthic cluster start osd.2")]
    Start(DaemonArgs),
    /// Cut a site off: drop all packets between it and the rest
    #[command(after_help = "Example:\n  benthic cluster cut msu")]
    Cut(SiteArgs),
    /// Reconnect a site that was cut off
    #[command(after_help = "Example:\n  benthic cluster heal msu")]
    Heal(SiteArgs),
    /// Run a command at a site, close to the site's OSDs
    #[command(after_help = sites::EXAMPLES)]
    At {
        #[command(flatten)]
        site: SiteArgs,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Simulate the links between the sites; `cluster up` starts this command
    #[command(hide = true, after_help = "Example:\n  benthic cluster wan --dir /tmp/c")]
    Wan(ClusterDir),
}

pub async fn run(command: ClusterCommand, session: &Session) -> Outcome {
    match command {
        ClusterCommand::Up(args) => up::run(args, session).await,
        ClusterCommand::Status(place) => show::status(place, session).await,
        ClusterCommand::Down(args) => down(args, session).await,
        ClusterCommand::Logs { daemon, lines, place } => show::logs(daemon, lines, place, session).await,
        ClusterCommand::Env(place) => show::env(place, session).await,
        ClusterCommand::Kill(DaemonArgs { daemon, place }) => {
            with_cluster(place, move |cluster, progress| cluster.kill(daemon, progress)).await?;
            session.out.result(format_args!("{daemon} is killed"), || json!({ "killed": daemon.to_string() }))
        }
        ClusterCommand::Start(DaemonArgs { daemon, place }) => {
            let started =
                with_cluster(place, move |cluster, progress| cluster.start(daemon, progress)).await?;
            let text = if started { "is up" } else { "was up already" };
            session.out.result(
                format_args!("{daemon} {text}"),
                || json!({ "daemon": daemon.to_string(), "started": started }),
            )
        }
        ClusterCommand::Cut(args) => sites::set_cut(args, true, session).await,
        ClusterCommand::Heal(args) => sites::set_cut(args, false, session).await,
        ClusterCommand::At { site, command } => sites::at(site, command).await,
        ClusterCommand::Wan(place) => sites::wan(place).await,
    }
}

async fn down(DownArgs { remove, yes, place }: DownArgs, session: &Session) -> Outcome {
    if !remove {
        let ran = with_cluster(place, |cluster, progress| cluster.down(progress)).await?;
        let text = if ran { "the cluster is down; its data stay" } else { "the cluster was down already" };
        return session.out.result(text, || json!({ "stopped": ran, "removed": false }));
    }
    let dir = place.dir.clone();
    let cluster = Arc::new(blocking(move || Cluster::open(&place.dir)).await?);
    let name = cluster.name();
    let deletion = Deletion { noun: "cluster", name: &name, yes: yes.as_deref(), missing: None };
    deletion.confirm(&session.out, async || contents(Arc::clone(&cluster)).await).await?;
    let gone = blocking(move || cluster.remove(&mut progress())).await?;
    let text = if gone { "the cluster is removed" } else { "the cluster is removed; other files stay in" };
    session
        .out
        .result(format_args!("{text} {}", dir.display()), || json!({ "stopped": true, "removed": true }))
}

/// Describes the pools of a cluster; empty if it has none.
async fn contents(cluster: Arc<Cluster>) -> Outcome<Vec<String>> {
    let pools = blocking(move || {
        let mut watch = progress();
        watch("the monitor to list the pools")?;
        cluster.pools()
    });
    let pools = match pools.await {
        Ok(pools) => pools,
        Err(error) => return Ok(vec![unknown(error.message())]),
    };
    let names: Vec<String> = pools.iter().map(|pool| pool.name.clone()).collect();
    let Some(names) = named("pool", &names, false) else { return Ok(Vec::new()) };
    let objects = pools.iter().map(|pool| pool.objects).sum();
    let bytes = pools.iter().map(|pool| pool.stored_bytes).sum();
    let usage = format!("about {} with about {}", units::count(objects, "object"), units::size(bytes));
    Ok(vec![names, usage + " in the cluster's last statistics"])
}

async fn with_cluster<T: Send + 'static>(
    place: ClusterDir,
    work: impl FnOnce(&Cluster, &mut dyn FnMut(&str) -> Result<()>) -> Result<T> + Send + 'static,
) -> Result<T> {
    blocking(move || work(&Cluster::open(&place.dir)?, &mut progress())).await
}

/// Returns a callback that shows the current wait on a terminal, and fails after Ctrl-C to end the
/// wait.
fn progress() -> impl FnMut(&str) -> Result<()> {
    let spinner = Progress::waiting();
    move |step| {
        if interrupt::is_set() {
            return Err(Error::new(ErrorKind::Busy, "interrupted; repeat the command to continue"));
        }
        spinner.set_message(&format!("waiting: {}", units::one_line(step)));
        Ok(())
    }
}
