//! Operations of a cluster on its sites and the links between them.

use super::cluster::Cluster;
use super::daemon::Daemon;
use super::layout::{self, Marker};
use super::sites::{self, Namespace};
use super::{tools, wan};
use benthic_core::{Action, Error, ErrorKind, Result, Stopwatch, SystemClock};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const LINKS_LIMIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(20);

impl Cluster {
    /// Cuts a site off from all other sites and from the rest of this machine: the links drop every
    /// packet, including queued ones. Returns false if it was already cut off.
    ///
    /// # Errors
    /// `InvalidArgument` if the cluster has no sites, `NotFound` if none has this name,
    /// `Unavailable` if the links do not answer.
    pub fn cut(&self, site: &str) -> Result<bool> {
        self.set_cut(site, true)
    }

    /// Reconnects a site. Returns false if it was not cut off.
    ///
    /// # Errors
    /// As [`cut`](Cluster::cut); also `Unavailable` if the links are down: the change takes effect
    /// when they start.
    pub fn heal(&self, site: &str) -> Result<bool> {
        self.set_cut(site, false)
    }

    fn set_cut(&self, site: &str, cut: bool) -> Result<bool> {
        let _lock = layout::lock(&self.dir)?;
        // Read the marker again: another command may have changed it before this one got the lock.
        let mut marker = Marker::read(&self.dir)?.ok_or_else(wan::no_sites)?;
        let sites = marker.sites.as_mut().ok_or_else(wan::no_sites)?;
        let name = sites.names[sites.find(site)?].clone();
        let changed = sites.cut.contains(&name) != cut;
        sites.cut.retain(|other| *other != name);
        if cut {
            sites.cut.push(name);
        }
        marker.write(&self.dir)?;
        // Without running links, all sites are cut off already.
        if cut { self.reload_links() } else { wan::reload(&self.dir) }?;
        Ok(changed)
    }

    /// Moves the calling thread, and all processes that it will start, to a site. Returns the path
    /// of the `ceph.conf` for clients there, which includes their CRUSH location.
    ///
    /// # Errors
    /// `InvalidArgument` if the cluster has no sites, `NotFound` if none has this name,
    /// `Unavailable` if the cluster is down, `PermissionDenied` without root.
    pub fn enter(&self, site: &str) -> Result<PathBuf> {
        let sites = self.marker.sites.as_ref().ok_or_else(wan::no_sites)?;
        sites.namespace(sites.find(site)?, &self.marker.fsid).enter()?;
        Ok(layout::site_conf(&self.dir, site))
    }

    /// The path of the configuration for clients at a site, which includes their CRUSH location.
    ///
    /// # Errors
    /// `NotFound` if there is no such site, `InvalidArgument` if the cluster has no sites.
    pub fn conf_at(&self, site: &str) -> Result<PathBuf> {
        let sites = self.marker.sites.as_ref().ok_or_else(wan::no_sites)?;
        sites.find(site)?;
        Ok(layout::site_conf(&self.dir, site))
    }

    /// The index and the network namespace of each site.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = (usize, Namespace)> {
        let namespaces =
            |site| self.marker.sites.as_ref().map(|sites| (site, sites.namespace(site, &self.marker.fsid)));
        let sites = self.marker.sites.as_ref().map_or(0, |sites| sites.names.len());
        (0..sites).filter_map(namespaces)
    }

    pub(super) fn namespace_of(&self, daemon: Daemon) -> Option<Namespace> {
        let sites = self.marker.sites.as_ref()?;
        Some(sites.namespace(sites.site_of(daemon)?, &self.marker.fsid))
    }

    /// Whether a daemon is at a site that is cut off.
    pub(super) fn is_cut_off(&self, daemon: Daemon) -> bool {
        self.marker.sites.as_ref().is_some_and(|sites| {
            sites.site_of(daemon).is_some_and(|site| sites.cut.contains(&sites.names[site]))
        })
    }

    /// Makes the links apply the settings of the marker, if they run.
    pub(super) fn reload_links(&self) -> Result<()> {
        let is_up = Daemon::Wan.pid(&self.conf())?.is_some();
        if is_up { wan::reload(&self.dir) } else { Ok(()) }
    }

    /// Whether a device of the links exists. The devices outlive their process for a moment.
    pub(super) fn has_device(&self) -> bool {
        Path::new("/sys/class/net").join(wan::device_name(&self.marker.fsid)).exists()
    }

    /// Creates the networks of the sites and starts the links between them.
    pub(super) fn launch_links(&self) -> Result<()> {
        let sites = self.marker.sites.as_ref().ok_or_else(wan::no_sites)?;
        sites::require()?;
        sites.check_block()?;
        for (site, namespace) in self.namespaces() {
            namespace.make(sites.address(Some(site)))?;
        }
        // The program that is running now, even if its file has been replaced since the start.
        let mut command = tools::bare("/proc/self/exe");
        command.arg0(Daemon::Wan.program());
        self.prepare(Daemon::Wan, &mut command)?;
        let mut child = tools::spawn(&mut command)?;
        let stopwatch = Stopwatch::start(&SystemClock);
        while let Err(error) = wan::reload(&self.dir) {
            let ended = child
                .try_wait()
                .map_err(|error| Error::io(Action::Admin, "cannot wait for the links", error))?;
            if ended.is_some() || stopwatch.elapsed() > LINKS_LIMIT {
                let error = Error::new(ErrorKind::Unavailable, "the links do not come up").with_source(error);
                return Err(self.explain(Daemon::Wan, error));
            }
            thread::park_timeout(TICK);
        }
        Ok(())
    }
}
