//! Brings a cluster up: creates it or starts its stopped daemons.

use super::cluster::{Cluster, OSDS_DEFAULT, OSDS_MAX, Watch};
use super::daemon::{self, Daemon};
use super::layout::{self, Marker};
use super::sites::{self, MBIT_PER_S_MAX, RTT_MS_DEFAULT, RTT_MS_MAX, Sites};
use super::{create, tools, wan};
use crate::classes;
use benthic_core::{Error, ErrorKind, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// The default number of OSDs at each of several sites.
const OSDS_PER_SITE: u32 = 2;

/// The requested properties of a cluster. An unset property keeps its value, or gets the default in
/// a new cluster.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The number of OSDs. The default is 3, or 2 for each site if that is more.
    pub osds: Option<u32>,
    /// Names of sites, each a network namespace, with OSDs at each in turn. By default there are
    /// none, and all daemons are on the loopback interface. The running program must implement
    /// `cluster wan --dir DIR` with [`wan::run`].
    pub sites: Vec<String>,
    /// Round-trip time between two sites, or between a site and the rest of this machine. The
    /// default is [`RTT_MS_DEFAULT`]. It can be changed in an existing cluster.
    pub rtt_ms: Option<u32>,
    /// Limit of the rate at which each site, and the rest of this machine, receives; 0, the
    /// default, for no limit. It can be changed in an existing cluster.
    pub mbit_per_s: Option<u32>,
    /// Class libraries to install. The default is none.
    pub classes: Vec<PathBuf>,
}

/// The work that [`Cluster::up`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpOutcome {
    /// It created a new cluster.
    Created,
    /// It started stopped daemons of an existing cluster.
    Resumed,
    /// All daemons were running already.
    AlreadyRunning,
}

impl Cluster {
    /// Brings a cluster up on the loopback interface: [`up_as`](Cluster::up_as) with only a number
    /// of OSDs.
    ///
    /// # Errors
    /// As [`up_as`](Cluster::up_as).
    pub fn up(dir: &Path, osds: Option<u32>, watch: &mut Watch<'_>) -> Result<(Cluster, UpOutcome)> {
        Cluster::up_as(dir, &Plan { osds, ..Plan::default() }, watch)
    }

    /// Brings a cluster up and waits until it serves. Creates it in a new or empty directory, or
    /// starts the stopped daemons of an existing cluster. A cluster whose creation was interrupted
    /// before it served is created again.
    ///
    /// # Errors
    /// `Unavailable` if packages or kernel features for sites are missing, or a daemon failed,
    /// hangs or took too long; `PermissionDenied` for sites without root; `InvalidArgument` if the
    /// directory holds something else, its cluster differs from the plan, or the plan is
    /// impossible; `Busy` while another command changes the cluster.
    pub fn up_as(dir: &Path, plan: &Plan, watch: &mut Watch<'_>) -> Result<(Cluster, UpOutcome)> {
        plan.check()?;
        tools::require(!plan.sites.is_empty())?;
        layout::check_path(dir)?;
        let of_links = plan.rtt_ms.or(plan.mbit_per_s);
        if plan.sites.is_empty() && of_links.is_some() && Marker::read(dir)?.is_none() {
            return Err(wan::no_sites());
        }
        layout::make(dir)?;
        let dir = layout::resolve(dir)?;
        if Marker::read(&dir)?.is_none() && !layout::is_unused(&dir)? {
            let message = "the directory contains something else, not a cluster; name another with --dir";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with("dir", dir.display()));
        }
        let _lock = layout::lock(&dir)?;
        let (mut cluster, started) = match Marker::read(&dir)? {
            Some(marker) if marker.complete => {
                let mut cluster = Cluster { dir, marker };
                cluster.reconfigure(plan)?;
                cluster.install(&plan.classes)?;
                cluster.wait_progress(watch)?;
                let running = daemon::running(&cluster.conf())?;
                let stopped = |daemon: &Daemon| running.iter().all(|(found, _)| found != daemon);
                let stopped: Vec<Daemon> = cluster.daemons().into_iter().filter(stopped).collect();
                if stopped.is_empty() {
                    return Ok((cluster, UpOutcome::AlreadyRunning));
                }
                cluster.start_all(&stopped, watch)?;
                (cluster, UpOutcome::Resumed)
            }
            unfinished => (Cluster::make(dir, unfinished, plan, watch)?, UpOutcome::Created),
        };
        cluster.wait_ready(started == UpOutcome::Created, watch)?;
        Ok((cluster, started))
    }

    /// Records that the cluster serves. From now on it may hold data and is never created again.
    pub(super) fn complete(&mut self) -> Result<()> {
        if self.marker.complete {
            return Ok(());
        }
        self.marker.complete = true;
        self.marker.write(&self.dir)?;
        self.reload_links()
    }

    /// Creates a cluster, in place of an incomplete one if there is one.
    fn make(dir: PathBuf, old: Option<Marker>, plan: &Plan, watch: &mut Watch<'_>) -> Result<Cluster> {
        let mut plan = plan.clone();
        if let Some(marker) = old {
            if plan.sites.is_empty() {
                plan.osds = plan.osds.or(Some(marker.osds));
                plan.rtt_ms = plan.rtt_ms.or(marker.sites.as_ref().map(|sites| sites.rtt_ms));
                plan.mbit_per_s = plan.mbit_per_s.or(marker.sites.as_ref().map(|sites| sites.mbit_per_s));
                plan.sites = marker.sites.as_ref().map(|sites| sites.names.clone()).unwrap_or_default();
            }
            Cluster { dir: dir.clone(), marker }.stop(Signal::KILL, watch)?;
            layout::clear(&dir, true)?;
        }
        let rtt_ms = plan.rtt_ms.unwrap_or(RTT_MS_DEFAULT);
        let mbit_per_s = plan.mbit_per_s.unwrap_or(0);
        let cluster = Cluster { dir, marker: Marker::new(plan.osds(), &plan.sites, rtt_ms, mbit_per_s)? };
        cluster.marker.write(&cluster.dir)?;
        create::create(&cluster, &plan.classes, watch)?;
        Ok(cluster)
    }

    /// Applies the changeable settings of a plan. Fails if the other settings differ from the
    /// cluster's.
    fn reconfigure(&mut self, plan: &Plan) -> Result<()> {
        let have = &self.marker;
        let names = have.sites.as_ref().map_or(&[][..], |sites| &sites.names);
        let differs = if plan.osds.is_some_and(|osds| osds != have.osds) {
            format!("has {} OSDs", have.osds)
        } else if plan.sites.is_empty() || plan.sites == names {
            return self.set_links(plan);
        } else if names.is_empty() {
            "has no sites".to_owned()
        } else {
            format!("has the sites {}", names.join(", "))
        };
        let message =
            format!("the cluster here {differs}; `benthic cluster down --remove` removes it with its data");
        Err(Error::new(ErrorKind::InvalidArgument, message).with("dir", self.dir.display()))
    }

    fn set_links(&mut self, plan: &Plan) -> Result<()> {
        if plan.rtt_ms.or(plan.mbit_per_s).is_none() {
            return Ok(());
        }
        let sites = self.marker.sites.as_mut().ok_or_else(wan::no_sites)?;
        let links = |sites: &Sites| (sites.rtt_ms, sites.mbit_per_s);
        let before = links(sites);
        sites.rtt_ms = plan.rtt_ms.unwrap_or(sites.rtt_ms);
        sites.mbit_per_s = plan.mbit_per_s.unwrap_or(sites.mbit_per_s);
        if links(sites) == before {
            return Ok(());
        }
        self.marker.write(&self.dir)?;
        self.reload_links()
    }

    /// Installs class libraries in the directory from which the OSDs load them.
    pub(super) fn install(&self, libraries: &[PathBuf]) -> Result<()> {
        libraries.iter().try_for_each(|library| classes::install(library, &self.class_dir()).map(drop))
    }

    /// The OSDs that still run an older file of a library. They load the installed file when they
    /// restart.
    ///
    /// # Errors
    /// Only if this machine's processes cannot be listed.
    pub fn running_older(&self, library: &Path) -> Result<Vec<Daemon>> {
        let Some(name) = library.file_name() else { return Ok(Vec::new()) };
        let installed = self.class_dir().join(name);
        // A library that comes with a package is a link.
        let older = classes::running_older(&installed.canonicalize().unwrap_or(installed))?;
        let running = daemon::running(&self.conf())?;
        Ok(running.into_iter().filter(|(_, pid)| older.contains(pid)).map(|(daemon, _)| daemon).collect())
    }
}

impl Plan {
    fn osds(&self) -> u32 {
        let by_sites = (self.sites.len() as u32).saturating_mul(OSDS_PER_SITE);
        self.osds.unwrap_or(by_sites.clamp(OSDS_DEFAULT, OSDS_MAX))
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: &str| Err(Error::new(ErrorKind::InvalidArgument, message));
        if self.osds.is_some_and(|osds| osds == 0 || osds > OSDS_MAX) {
            return invalid("a local cluster has 1 to 32 OSDs");
        }
        if self.rtt_ms.is_some_and(|rtt_ms| rtt_ms > RTT_MS_MAX) {
            return invalid("a round trip takes 0 to 1000 ms");
        }
        if self.mbit_per_s.is_some_and(|rate| rate > MBIT_PER_S_MAX) {
            return invalid("a link has up to 10000 Mbit/s, or 0 for no limit");
        }
        for library in &self.classes {
            classes::library_name(library)?;
            classes::read_library(library)?;
        }
        if self.sites.is_empty() {
            return Ok(());
        }
        sites::check_names(&self.sites)?;
        if (self.osds() as usize) < self.sites.len() {
            return invalid("each site needs an OSD; use more --osds or fewer --sites");
        }
        sites::require()
    }
}
