//! What a cluster does with its sites and the links between them.

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
    /// Cuts a site off from all others and from the rest of this machine: every packet is lost, also those on their way.
    /// Returns false if it was already.
    ///
    /// # Errors
    /// `InvalidArgument` if the cluster has no sites, `NotFound` if none has this name, `Unavailable` if the links do
    /// not answer.
    pub fn cut(&self, site: &str) -> Result<bool> {
        self.set_cut(site, true)
    }

    /// Connects a site again. Returns false if it was not cut off.
    ///
    /// # Errors
    /// As [`cut`](Cluster::cut), and `Unavailable` if the links are down: it holds when they are up again.
    pub fn heal(&self, site: &str) -> Result<bool> {
        self.set_cut(site, false)
    }

    fn set_cut(&self, site: &str, cut: bool) -> Result<bool> {
        let _lock = layout::lock(&self.dir)?;
        // Another command may have changed it before the lock was ours.
        let mut marker = Marker::read(&self.dir)?.ok_or_else(wan::no_sites)?;
        let sites = marker.sites.as_mut().ok_or_else(wan::no_sites)?;
        let name = sites.names[sites.find(site)?].clone();
        let changed = sites.cut.contains(&name) != cut;
        sites.cut.retain(|other| *other != name);
        if cut {
            sites.cut.push(name);
        }
        marker.write(&self.dir)?;
        // Links that are down cut everything off already.
        if cut { self.reload_links() } else { wan::reload(&self.dir) }?;
        Ok(changed)
    }

    /// Moves the calling thread, and all that it will start, to a site. Returns the `ceph.conf` for clients there, which
    /// tells them where they are.
    ///
    /// # Errors
    /// `InvalidArgument` if the cluster has no sites, `NotFound` if none has this name, `Unavailable` if the cluster is
    /// down, `PermissionDenied` without root.
    pub fn enter(&self, site: &str) -> Result<PathBuf> {
        let sites = self.marker.sites.as_ref().ok_or_else(wan::no_sites)?;
        sites.namespace(sites.find(site)?, &self.marker.fsid).enter()?;
        Ok(layout::site_conf(&self.dir, site))
    }

    /// The configuration of clients at a site, which says where they are.
    ///
    /// # Errors
    /// `NotFound` if there is no such site, `InvalidArgument` if there are none.
    pub fn conf_at(&self, site: &str) -> Result<PathBuf> {
        let sites = self.marker.sites.as_ref().ok_or_else(wan::no_sites)?;
        sites.find(site)?;
        Ok(layout::site_conf(&self.dir, site))
    }

    /// The networks of all sites, and the numbers of these.
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

    /// Lets links that are up take over what the marker says.
    pub(super) fn reload_links(&self) -> Result<()> {
        let is_up = Daemon::Wan.pid(&self.conf())?.is_some();
        if is_up { wan::reload(&self.dir) } else { Ok(()) }
    }

    /// Whether a device of the links is there: they outlive their process for a moment.
    pub(super) fn has_device(&self) -> bool {
        Path::new("/sys/class/net").join(wan::device_name(&self.marker.fsid)).exists()
    }

    /// Makes the sites' networks and starts what connects them.
    pub(super) fn launch_links(&self) -> Result<()> {
        let sites = self.marker.sites.as_ref().ok_or_else(wan::no_sites)?;
        sites::require()?;
        sites.check_block()?;
        for (site, namespace) in self.namespaces() {
            namespace.make(sites.address(Some(site)))?;
        }
        // This program, even if its file was replaced since it started.
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
