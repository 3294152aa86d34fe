//! `benthic cluster up|status|down|logs|env|kill|start`.

use crate::exit::Outcome;
use crate::store::{Session, blocking};
use crate::{interrupt, units};
use benthic_ceph::local::{Cluster, Daemon, DaemonStatus, OSDS_MAX, Started, Status};
use benthic_core::{Error, ErrorKind, Result, StoreUri};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub const EXAMPLES: &str = "A real Ceph cluster as plain processes on the loopback interface, in one directory. \
    For development and tests: nothing protects it from the loss of this machine. The daemons run on when the \
    command has ended.\n\nExamples:\n  benthic cluster up\n  eval \"$(benthic cluster env)\"\n  \
    benthic cluster status\n  benthic cluster down";

/// Where the cluster is.
#[derive(Args)]
pub struct Place {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = "./benthic-cluster")]
    dir: PathBuf,
}

/// The commands on a local cluster.
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Make a cluster, or start one that was stopped, and wait until it is healthy
    #[command(after_help = "Examples:\n  benthic cluster up\n  benthic cluster up --osds 1 --dir /tmp/c")]
    Up {
        /// Number of OSDs of a new cluster, 3 if not given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(OSDS_MAX)))]
        osds: Option<u32>,
        #[command(flatten)]
        place: Place,
    },
    /// Show health, daemons, pools and usage
    #[command(after_help = "Example:\n  benthic cluster status --json")]
    Status(Place),
    /// Stop the daemons; the data stay
    #[command(after_help = "Examples:\n  benthic cluster down\n  benthic cluster down --remove")]
    Down {
        /// Remove the cluster with all its data
        #[arg(long)]
        remove: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Show the end of the daemons' logs
    #[command(after_help = "Examples:\n  benthic cluster logs\n  benthic cluster logs osd.0 --lines 100")]
    Logs {
        /// mon.a, mgr.a or osd.N; all if none is given
        daemon: Option<Daemon>,
        /// How many lines of each
        #[arg(long, value_name = "N", default_value_t = 20)]
        lines: usize,
        #[command(flatten)]
        place: Place,
    },
    /// Print the shell's variables for clients of the cluster
    #[command(after_help = "Example:\n  eval \"$(benthic cluster env)\"")]
    Env(Place),
    /// End a daemon as a crash would
    #[command(after_help = "Example:\n  benthic cluster kill osd.2")]
    Kill {
        /// mon.a, mgr.a or osd.N
        daemon: Daemon,
        #[command(flatten)]
        place: Place,
    },
    /// Start a daemon that does not run
    #[command(after_help = "Example:\n  benthic cluster start osd.2")]
    Start {
        /// mon.a, mgr.a or osd.N
        daemon: Daemon,
        #[command(flatten)]
        place: Place,
    },
}

pub async fn run(command: ClusterCommand, session: &Session) -> Outcome {
    match command {
        ClusterCommand::Up { osds, place } => up(osds, place, session).await,
        ClusterCommand::Status(place) => status(place, session).await,
        ClusterCommand::Down { remove, place } => down(remove, place, session).await,
        ClusterCommand::Logs { daemon, lines, place } => logs(daemon, lines, place, session).await,
        ClusterCommand::Env(place) => env(place, session).await,
        ClusterCommand::Kill { daemon, place } => {
            watched(place, move |cluster, watch| cluster.kill(daemon, watch)).await?;
            session.out.result(format_args!("{daemon} is killed"), || json!({ "killed": daemon.to_string() }))
        }
        ClusterCommand::Start { daemon, place } => {
            let started = watched(place, move |cluster, watch| cluster.start(daemon, watch)).await?;
            let text = if started { "is up" } else { "was up already" };
            session.out.result(
                format_args!("{daemon} {text}"),
                || json!({ "daemon": daemon.to_string(), "started": started }),
            )
        }
    }
}

async fn up(osds: Option<u32>, place: Place, session: &Session) -> Outcome {
    let began = Instant::now();
    let (status, started) = blocking(move || {
        let (cluster, started) = Cluster::up(&place.dir, osds, &mut watch())?;
        Ok((cluster.status()?, started))
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    let (word, what) = match started {
        Started::Created => ("created", "a new cluster is up"),
        Started::Resumed => ("resumed", "the cluster is up again"),
        Started::Already => ("already", "the cluster was up already"),
    };
    session.out.result(
        format_args!("{what}: {} with {} daemons, {seconds:.1} s", status.health, status.daemons.len()),
        || json!({ "up": word, "health": status.health, "dir": status.dir, "seconds": seconds }),
    )?;
    for check in &status.checks {
        session.out.note(units::one_line(&format!("  {check}")))?;
    }
    session.out.note("`eval \"$(benthic cluster env)\"` points benthic, ceph and rados to it (--dir as here)")
}

async fn status(place: Place, session: &Session) -> Outcome {
    let status = blocking(move || Cluster::open(&place.dir)?.status()).await?;
    session.out.result(describe(&status), || json!(status))
}

fn describe(status: &Status) -> String {
    let mut lines = vec![format!("cluster  {}", status.dir.display()), format!("health   {}", status.health)];
    lines.extend(status.checks.iter().map(|check| format!("         {}", units::one_line(check))));
    lines.extend(status.daemons.iter().map(|DaemonStatus { name, pid, uptime_s }| match (pid, uptime_s) {
        (Some(pid), Some(uptime_s)) => format!("{name:8} up {uptime_s} s, pid {pid}"),
        _ => format!("{name:8} down"),
    }));
    lines.extend(status.pools.iter().map(|pool| {
        format!("pool     {}: {} objects, {}", pool.name, pool.objects, units::size(pool.stored_bytes))
    }));
    if status.total_bytes > 0 {
        let (used, total) = (units::size(status.used_bytes), units::size(status.total_bytes));
        lines.push(format!("usage    {used} of {total}"));
    }
    lines.join("\n")
}

async fn down(remove: bool, place: Place, session: &Session) -> Outcome {
    if !remove {
        let ran = watched(place, |cluster, watch| cluster.down(watch)).await?;
        let text = if ran { "the cluster is down; its data stay" } else { "the cluster was down already" };
        return session.out.result(text, || json!({ "stopped": ran, "removed": false }));
    }
    let dir = place.dir.clone();
    let gone = blocking(move || Cluster::open(&place.dir)?.remove(&mut watch())).await?;
    let text = if gone { "the cluster is removed" } else { "the cluster is removed; other files stay in" };
    session
        .out
        .result(format_args!("{text} {}", dir.display()), || json!({ "stopped": true, "removed": true }))
}

async fn logs(daemon: Option<Daemon>, lines: usize, place: Place, session: &Session) -> Outcome {
    let tails = blocking(move || {
        let cluster = Cluster::open(&place.dir)?;
        let daemons = daemon.map_or_else(|| cluster.daemons(), |daemon| vec![daemon]);
        daemons
            .into_iter()
            .map(|daemon| Ok((daemon, cluster.log_tail(daemon, lines)?)))
            .collect::<Result<Vec<_>>>()
    })
    .await?;
    for (daemon, text) in tails {
        let text = text.trim_end();
        session.out.result(
            format_args!("==> {daemon}\n{text}"),
            || json!({ "daemon": daemon.to_string(), "lines": text.lines().collect::<Vec<_>>() }),
        )?;
    }
    Ok(())
}

async fn env(place: Place, session: &Session) -> Outcome {
    let conf = blocking(move || Ok(Cluster::open(&place.dir)?.conf())).await?;
    let store = StoreUri::Ceph { conf: Some(conf.clone()), id: None, read_near: false };
    // The path holds no quote: a cluster's directory is refused otherwise.
    session.out.result(
        format_args!("export CEPH_CONF='{}'\nexport BENTHIC_STORE='{store}'", conf.display()),
        || json!({ "CEPH_CONF": conf, "BENTHIC_STORE": store.to_string() }),
    )
}

async fn watched<T: Send + 'static>(
    place: Place,
    work: impl FnOnce(&Cluster, &mut dyn FnMut(&str) -> Result<()>) -> Result<T> + Send + 'static,
) -> Result<T> {
    blocking(move || work(&Cluster::open(&place.dir)?, &mut watch())).await
}

/// Shows what is being waited for, on a terminal only, and ends the wait after Ctrl-C.
fn watch() -> impl FnMut(&str) -> Result<()> {
    let spinner = ProgressBar::new_spinner();
    if !spinner.is_hidden() {
        spinner.enable_steady_tick(Duration::from_millis(200));
    }
    let spinner = Spinner(spinner);
    move |what| {
        if interrupt::is_set() {
            return Err(Error::new(ErrorKind::Busy, "interrupted; the same command can be repeated"));
        }
        spinner.0.set_message(format!("waiting: {}", units::one_line(what)));
        Ok(())
    }
}

struct Spinner(ProgressBar);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
