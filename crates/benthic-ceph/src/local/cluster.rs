//! A local cluster: opening it, its state, and starting and stopping single daemons.

use super::daemon::{self, Daemon};
use super::hung::restart;
use super::layout::{self, Marker};
use super::sites;
use super::status::{self, DaemonStatus, PoolStatus, Readiness, SiteStatus, Status};
use super::tools;
use super::wan;
use crate::cluster_client::{self, ClusterClient};
use crate::cluster_state::Df;
use crate::pools::is_of_manager;
use benthic_core::{Action, Error, ErrorKind, Result};
use futures::executor::block_on;
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Limit of OSDs in a local cluster: each takes about 1 GiB of memory.
pub const OSDS_MAX: u32 = 32;
/// The default number of OSDs.
pub const OSDS_DEFAULT: u32 = 3;

/// Time limit of a query, and of the connection for it.
const QUERY_LIMIT: Duration = Duration::from_secs(10);
/// An OSD that was killed first checks its disk, which takes minutes on a busy machine.
const LAUNCH_LIMIT: Duration = Duration::from_secs(300);
/// Time that a failed daemon may need to finish its log.
const FINAL_LOG_LIMIT: Duration = Duration::from_secs(2);
/// Bytes at the end of a log to search for its last lines.
const TAIL_BYTES: u64 = 64 * 1024;
const TAIL_LINES: usize = 5;
const TAIL_COLUMNS: usize = 200;

/// A callback that gets a description of the current wait, several times a second. Its error aborts
/// the wait.
pub type Watch<'a> = dyn FnMut(&str) -> Result<()> + 'a;

/// A local cluster, running or not.
#[derive(Debug)]
pub struct Cluster {
    pub(super) dir: PathBuf,
    pub(super) marker: Marker,
}

impl Cluster {
    /// Opens the cluster in a directory.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn open(dir: &Path) -> Result<Cluster> {
        let none = || {
            let message =
                "no cluster here; create one with `benthic cluster up`, or name another directory with --dir";
            Error::new(ErrorKind::NotFound, message).with("dir", dir.display())
        };
        if !dir.is_dir() {
            return Err(none());
        }
        let dir = layout::resolve(dir)?;
        let marker = Marker::read(&dir)?.ok_or_else(none)?;
        Ok(Cluster { dir, marker })
    }

    /// Stops the daemons, OSDs first and the monitor last, and removes the sites' networks. Data
    /// stay. Returns whether a daemon was running.
    ///
    /// # Errors
    /// `Unavailable` if a daemon does not end, `Busy` while another command changes the cluster.
    pub fn down(&self, watch: &mut Watch<'_>) -> Result<bool> {
        let _lock = layout::lock(&self.dir)?;
        self.stop(Signal::TERM, watch)
    }

    /// Stops the daemons and removes the cluster with its data. Returns whether the directory was
    /// removed too. It stays if it contains other files.
    ///
    /// # Errors
    /// As [`down`](Cluster::down).
    pub fn remove(&self, watch: &mut Watch<'_>) -> Result<bool> {
        let _lock = layout::lock(&self.dir)?;
        self.stop(Signal::KILL, watch)?;
        layout::clear(&self.dir, false)?;
        Ok(fs::remove_dir(&self.dir).is_ok())
    }

    /// The name of the cluster's directory.
    pub fn name(&self) -> String {
        self.dir.file_name().unwrap_or(self.dir.as_os_str()).to_string_lossy().into_owned()
    }

    /// The pools, except those that Ceph's manager makes for itself. A pool that the manager does
    /// not report yet counts as empty. A cluster that was never complete has no pools.
    ///
    /// # Errors
    /// `Unavailable` if the monitor does not run or does not answer.
    pub fn pools(&self) -> Result<Vec<PoolStatus>> {
        if !self.marker.complete {
            return Ok(Vec::new());
        }
        if Daemon::Mon.pid(&self.conf())?.is_none() {
            return Err(Error::new(ErrorKind::Unavailable, "the monitor does not run"));
        }
        let client = self.client()?;
        let mut pools = status::pools(ask(&*client, "osd pool ls")?, ask(&*client, "df")?);
        pools.retain(|pool| !is_of_manager(&pool.name));
        Ok(pools)
    }

    /// Kills a daemon (SIGKILL), as a crash would.
    ///
    /// # Errors
    /// `NotFound` if it does not run, `InvalidArgument` if the cluster has no such daemon.
    pub fn kill(&self, daemon: Daemon, watch: &mut Watch<'_>) -> Result<()> {
        self.check(daemon)?;
        let _lock = layout::lock(&self.dir)?;
        if !daemon.signal(&self.conf(), Signal::KILL)? {
            let message = "the daemon does not run; `benthic cluster status` shows the daemons that run";
            return Err(Error::new(ErrorKind::NotFound, message).with("daemon", daemon));
        }
        self.wait_killed(&[daemon], watch)
    }

    /// Starts a daemon and waits until the monitor reports it as running. Returns false if it was
    /// already running.
    ///
    /// # Errors
    /// `Unavailable` if it failed or took too long, `InvalidArgument` if the cluster has no such
    /// daemon.
    pub fn start(&self, daemon: Daemon, watch: &mut Watch<'_>) -> Result<bool> {
        self.check(daemon)?;
        tools::require(self.marker.sites.is_some())?;
        let _lock = layout::lock(&self.dir)?;
        if daemon.pid(&self.conf())?.is_some() {
            return Ok(false);
        }
        self.start_all(&[daemon], watch)?;
        Ok(true)
    }

    /// The state of the cluster. Returns within seconds in any state of the daemons.
    ///
    /// # Errors
    /// Only if this machine's processes cannot be listed.
    pub fn status(&self) -> Result<Status> {
        let running = daemon::running(&self.conf())?;
        let sites = self.marker.sites.as_ref();
        let hung = self.hung(&running);
        let daemon = |daemon| {
            let hangs = hung.iter().find(|(found, _)| *found == daemon);
            let hangs = hangs.map(|(_, symptom)| format!("{symptom}; {}", restart(daemon, &self.dir)));
            DaemonStatus::new(daemon, sites, &running, hangs)
        };
        let daemons: Vec<_> = self.daemons().into_iter().map(daemon).collect();
        let stopped = |health: &str, check: String| Readiness {
            status: health.to_owned(),
            checks: vec![check],
            missing: None,
        };
        let ask_monitor = || -> Result<(Readiness, Option<Df>)> {
            let client = self.client()?;
            Ok((self.readiness(&*client)?, ask(&*client, "df").ok()))
        };
        let (health, df) = if running.iter().any(|(daemon, _)| *daemon == Daemon::Mon) {
            ask_monitor().unwrap_or_else(|error| (stopped("UNKNOWN", error.to_string()), None))
        } else {
            (stopped("DOWN", "the monitor does not run".to_owned()), None)
        };
        let mut checks = health.checks;
        if !self.marker.complete {
            checks.push("the creation was never completed; `benthic cluster up` repeats it".to_owned());
        }
        let (used_bytes, total_bytes, pools) = match df.map(status::usage) {
            Some((used_bytes, total_bytes, pools)) => (Some(used_bytes), Some(total_bytes), Some(pools)),
            None => (None, None, None),
        };
        Ok(Status {
            dir: self.dir.clone(),
            fsid: self.marker.fsid.clone(),
            health: health.status,
            checks,
            sites: sites.map(SiteStatus::all).unwrap_or_default(),
            rtt_ms: sites.map(|sites| sites.rtt_ms),
            mbit_per_s: sites.map(|sites| sites.mbit_per_s).filter(|rate| *rate > 0),
            daemons,
            pools,
            used_bytes,
            total_bytes,
        })
    }

    /// The last lines of a daemon's log; empty if it has none.
    ///
    /// # Errors
    /// `InvalidArgument` if the cluster has no such daemon.
    pub fn log_tail(&self, daemon: Daemon, lines: usize) -> Result<String> {
        self.check(daemon)?;
        let log = self.log(daemon, "log");
        match tail(&log, lines) {
            Ok(text) if text.is_empty() => tail(&self.log(daemon, "stderr"), lines),
            text => text,
        }
        .map_err(|error| Error::io(Action::Read, "cannot read a log", error).with("file", log.display()))
    }

    /// The path of the cluster's `ceph.conf`, which every Ceph client can use.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// The directory from which its OSDs load class libraries.
    pub fn class_dir(&self) -> PathBuf {
        layout::class_dir(&self.dir)
    }

    /// All its daemons, in start order.
    pub fn daemons(&self) -> Vec<Daemon> {
        let links = self.marker.sites.is_some().then_some(Daemon::Wan);
        links.into_iter().chain(self.marker.daemons()).collect()
    }

    pub(super) fn check(&self, daemon: Daemon) -> Result<()> {
        if self.daemons().contains(&daemon) {
            return Ok(());
        }
        if daemon == Daemon::Wan {
            return Err(wan::no_sites());
        }
        let message = format!("the cluster has osd.0 to osd.{}", self.marker.osds - 1);
        Err(Error::new(ErrorKind::InvalidArgument, message).with("daemon", daemon))
    }

    fn log(&self, daemon: Daemon, extension: &str) -> PathBuf {
        self.dir.join("log").join(format!("{daemon}.{extension}"))
    }

    /// Connects at the site of the monitor, so that no link delays a query. Each poll has its own
    /// connection: a monitor that has restarted answers a new one at once.
    pub(super) fn client(&self) -> Result<Arc<dyn ClusterClient>> {
        // CEPH_ARGS may name another cluster.
        let keyring = self.dir.join("keyring").display().to_string();
        let settings = vec![(c"mon_host", self.marker.mon_address()), (c"keyring", keyring)];
        let connect = || cluster_client::connect(&self.conf(), settings, QUERY_LIMIT);
        match self.namespace_of(Daemon::Mon) {
            None => connect(),
            Some(site) => site.run(connect),
        }
    }

    /// Runs a program at the site of a daemon, so that no link delays it.
    pub(super) fn run_beside(
        &self,
        daemon: Daemon,
        command: &mut Command,
        input: Option<&str>,
        limit: Duration,
    ) -> Result<String> {
        sites::run_at(self.namespace_of(daemon).as_ref(), command, input, limit)
    }

    pub(super) fn readiness(&self, client: &dyn ClusterClient) -> Result<Readiness> {
        let cut_off_osds = self.daemons().into_iter().filter(|daemon| self.is_cut_off(*daemon)).count();
        Ok(Readiness::new(ask(client, "status")?, cut_off_osds as u64))
    }

    /// Starts a daemon unless it runs. The daemon detaches itself and becomes the leader of a new
    /// session.
    pub(super) fn launch(&self, daemon: Daemon) -> Result<()> {
        if daemon.pid(&self.conf())?.is_some() {
            return Ok(());
        }
        if daemon == Daemon::Wan {
            return self.launch_links();
        }
        let alone = self.marker.sites.is_none();
        if daemon == Daemon::Mon && alone && !layout::port_is_free(self.marker.mon_port) {
            let message = "another program uses the monitor's port; stop that program first";
            return Err(Error::new(ErrorKind::Busy, message).with("port", self.marker.mon_port));
        }
        if matches!(daemon, Daemon::Osd(_)) {
            layout::link_classes(&self.dir)?;
        }
        let mut command = tools::bare(daemon.program());
        self.prepare(daemon, &mut command)?;
        self.run_beside(daemon, &mut command, None, LAUNCH_LIMIT)
            .map(drop)
            .map_err(|error| self.explain(daemon, error))
    }

    pub(super) fn prepare(&self, daemon: Daemon, command: &mut Command) -> Result<()> {
        let stderr = self.log(daemon, "stderr");
        let file = File::create(&stderr).map_err(|error| {
            Error::io(Action::Write, "cannot create a log", error).with("file", stderr.display())
        })?;
        command.args(daemon.args(&self.conf())).stdout(Stdio::null()).stderr(file).current_dir(&self.dir);
        Ok(())
    }

    /// Adds the last lines of a daemon's output to an error.
    pub(super) fn explain(&self, daemon: Daemon, error: Error) -> Error {
        // The failed daemon may still be writing the reason: to stderr until it detaches, then to
        // its log.
        let _ = self.wait_gone(&[daemon], FINAL_LOG_LIMIT, &mut |_| Ok(()));
        let last =
            ["log", "stderr"].map(|file| tail(&self.log(daemon, file), TAIL_LINES).unwrap_or_default());
        let last: Vec<String> = last
            .iter()
            .flat_map(|text| text.lines())
            .map(|line| line.chars().take(TAIL_COLUMNS).collect())
            .collect();
        let message = format!("{}; last lines of {daemon}:\n{}\n", error.message(), last.join("\n"));
        let explained = Error::new(error.kind(), message).with_op(error.op()).with("daemon", daemon);
        error.context().fold(explained, |explained, (key, value)| explained.with(key, value))
    }
}

/// Sends the monitor a query.
pub(super) fn ask<T: DeserializeOwned>(client: &dyn ClusterClient, query: &str) -> Result<T> {
    block_on(client.monitor_state(json!({ "prefix": query })))
}

fn tail(path: &Path, lines: usize) -> std::io::Result<String> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    let len_bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(len_bytes.saturating_sub(TAIL_BYTES)))?;
    let mut end = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let all: Vec<&str> = end.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| format!("{line}\n")).collect())
}
