//! The plan of an installation on hosts: the contents of each directory of libraries, and the
//! change to it.

use crate::commands::class::install::{next_version, with_names};
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::hosts::directory::{Directory, Library};
use benthic_ceph::hosts::inventory::{DEFAULT_LIST, Host, Inventory, LOAD_LIST, Setting};
use benthic_ceph::hosts::ssh::Ssh;
use benthic_ceph::hosts::verify;
use benthic_ceph::releases;
use benthic_core::{Error, Reason, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units::shell_word;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::sync::Arc;

/// Connections at once. Servers of jump hosts refuse many at a time.
const CONNECTIONS_AT_ONCE: usize = 4;
/// Space that an installation leaves free.
const SPARE_BYTES: u64 = 1024 * 1024;
const GUIDE: &str = "docs/guide/class-install.md";

/// The action on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Install,
    /// It has the library.
    Keep,
    /// Return to the previous library.
    Restore,
    /// Remove the library: there was none before.
    Remove,
    /// There is nothing to undo.
    Nothing,
}

impl Action {
    /// Whether the directory changes.
    pub fn changes(self) -> bool {
        matches!(self, Action::Install | Action::Restore | Action::Remove)
    }

    pub fn name(self) -> &'static str {
        match self {
            Action::Install => "install",
            Action::Keep => "keep",
            Action::Restore => "restore",
            Action::Remove => "remove",
            Action::Nothing => "nothing",
        }
    }

    /// The outcome, if it succeeds.
    pub fn done(self) -> &'static str {
        match self {
            Action::Install => "installed",
            Action::Restore => "restored",
            Action::Remove => "removed",
            Action::Keep | Action::Nothing => "unchanged",
        }
    }
}

/// A directory of a host.
pub struct Step {
    pub host: String,
    pub destination: String,
    /// Ceph's versions on the host.
    pub versions: Vec<String>,
    /// The OSDs that load libraries from the directory.
    pub osds: Vec<i32>,
    /// The host's OSDs that are down.
    pub down: Vec<i32>,
    pub found: Directory,
    pub action: Action,
}

/// A setting that does not include the library.
pub struct MissingSetting {
    pub setting: &'static str,
    pub osds: Vec<i32>,
    pub value: Setting,
    /// The command that changes it; `None` if it is in a file on the host, which takes precedence.
    pub command: Option<String>,
}

/// A plan for the hosts of a cluster.
pub struct Plan {
    pub fsid: String,
    pub undo: bool,
    pub library: Arc<Library>,
    /// By host.
    pub steps: Vec<Step>,
    pub settings: Vec<MissingSetting>,
    /// The OSDs whose releases of Ceph are unknown to this program, with their versions.
    pub unknown_releases: Vec<(i32, String)>,
    /// The OSDs that calls reach.
    pub reachable: Vec<i32>,
    /// OSDs that have never run.
    pub homeless: Vec<i32>,
}

impl Plan {
    /// Inspects the cluster and the hosts with these names; all without a name.
    ///
    /// # Errors
    /// Those of the cluster; `Unsupported` for OSDs in containers; [`Failure::Some`] after it has
    /// reported the hosts on which the library cannot be installed.
    pub async fn make(
        client: &dyn ClusterClient,
        only: &[String],
        undo: bool,
        ssh: &Arc<Ssh>,
        library: &Arc<Library>,
        session: &Session,
    ) -> Outcome<Plan> {
        let mut inventory = Inventory::read(client).await?;
        if !only.is_empty() {
            inventory.keep(only)?;
            inventory.homeless.clear();
        }
        refuse(&inventory)?;
        let hosts = inventory
            .hosts
            .iter()
            .map(async |host| (host.name.clone(), inspect(host, undo, ssh, library).await));
        let inspected: Vec<(String, Result<Vec<Step>>)> =
            stream::iter(hosts).buffered(CONNECTIONS_AT_ONCE).collect().await;
        interrupt::check()?;
        let of = inspected.len() as u64;
        let (mut steps, mut failed) = (Vec::new(), 0);
        for (host, inspected) in inspected {
            match inspected {
                Ok(found) => steps.extend(found),
                Err(error) => {
                    failed += 1;
                    session.out.error(&error, Some(&host));
                }
            }
        }
        if failed > 0 {
            session.out.warning("nothing was changed; --hosts=HOST,... selects hosts");
            return Err(Failure::Some { failed, of });
        }
        let reachable = verify::reachable(client).await?;
        let settings = if undo { Vec::new() } else { missing_settings(&inventory, &library.name) };
        // An OSD that ended because of a library must not keep the administrator from removing it.
        let unknown_releases = if undo { Vec::new() } else { unknown_releases(&inventory) };
        let (library, homeless) = (Arc::clone(library), inventory.homeless);
        Ok(Plan {
            fsid: inventory.fsid,
            undo,
            library,
            steps,
            settings,
            unknown_releases,
            reachable,
            homeless,
        })
    }

    /// Fails if OSDs are of an unknown release. The plan itself only reads, so it is made for any
    /// release.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn check_releases(&self) -> Result<()> {
        match self.unknown_releases.first() {
            Some((osd, version)) => releases::check(version).map_err(|error| error.with("osd", osd)),
            None => Ok(()),
        }
    }

    /// The number of hosts on which a directory changes.
    pub fn changed_hosts(&self) -> u64 {
        let mut hosts: Vec<&str> =
            self.steps.iter().filter(|step| step.action.changes()).map(|step| step.host.as_str()).collect();
        hosts.dedup();
        hosts.len() as u64
    }

    /// The OSDs that have a file of this name open which the plan replaces or removes, or which was
    /// replaced before. To undo, an OSD with an older file does not count: it may be the one that
    /// comes back.
    pub fn restarts(&self) -> Vec<i32> {
        let of_step = |step: &Step| {
            let changes = step.action.changes();
            let is_stale = move |is_older: bool| if is_older { !self.undo } else { changes };
            let stale = step.found.loaded.iter().filter(move |loaded| is_stale(loaded.is_older));
            stale.filter_map(|loaded| loaded.osd).collect::<Vec<_>>()
        };
        let mut osds: Vec<i32> = self.steps.iter().flat_map(of_step).collect();
        osds.sort_unstable();
        osds.dedup();
        osds
    }

    pub fn json(&self) -> Value {
        let step = |step: &Step| {
            let loaded = |is_older: bool| {
                let loaded = step.found.loaded.iter().filter(move |loaded| loaded.is_older == is_older);
                loaded.filter_map(|loaded| loaded.osd).collect::<Vec<_>>()
            };
            json!({
                "host": step.host,
                "ssh": step.destination,
                "ceph": step.versions,
                "dir": step.found.path,
                "osds": step.osds,
                "osds_down": step.down,
                "sha256": step.found.sha256,
                "build": Some(&step.found.build).filter(|build| !build.is_empty()),
                "loaded_by": loaded(false),
                "older_loaded_by": loaded(true),
                "action": step.action.name(),
            })
        };
        let setting = |missing: &MissingSetting| {
            json!({
                "setting": missing.setting,
                "osds": missing.osds,
                "value": missing.value.value,
                "source": missing.value.source,
                "command": missing.command,
            })
        };
        let unknown = |(osd, version): &(i32, String)| json!({ "osd": osd, "ceph": version });
        let is_install = !self.undo;
        json!({ "plan": {
            "cluster": self.fsid,
            "library": self.library.name,
            "sha256": is_install.then_some(&self.library.sha256),
            "size_bytes": is_install.then_some(self.library.content.len()),
            "undo": self.undo,
            "directories": self.steps.iter().map(step).collect::<Vec<_>>(),
            "settings": self.settings.iter().map(setting).collect::<Vec<_>>(),
            "unknown_releases": self.unknown_releases.iter().map(unknown).collect::<Vec<_>>(),
            "restart_osds": self.restarts(),
            "osds_never_up": self.homeless,
        }})
    }
}

/// Refuses clusters for which no installation over ssh is right. Every such check belongs here.
fn refuse(inventory: &Inventory) -> Result<()> {
    let osds = inventory.hosts.iter().flat_map(|host| &host.osds);
    let in_containers: Vec<i32> = osds.filter(|osd| osd.in_container).map(|osd| osd.id).collect();
    if !in_containers.is_empty() {
        let message = format!(
            "the libraries of OSDs in containers are in the containers' image, which the next start restores; {GUIDE} \
             describes how to add a library to the image"
        );
        return Err(Error::unsupported(message).with("osds", super::text::osds(&in_containers)));
    }
    if inventory.hosts.is_empty() {
        return Err(Error::not_found("the cluster has no OSD that has ever run"));
    }
    Ok(())
}

fn unknown_releases(inventory: &Inventory) -> Vec<(i32, String)> {
    let osds = inventory.hosts.iter().flat_map(|host| &host.osds);
    let unknown = osds.filter(|osd| !osd.version.is_empty() && releases::check(&osd.version).is_err());
    unknown.map(|osd| (osd.id, osd.version.clone())).collect()
}

/// Inspects the directories of a host.
async fn inspect(host: &Host, undo: bool, ssh: &Arc<Ssh>, library: &Arc<Library>) -> Result<Vec<Step>> {
    let destination = ssh.destination(&host.name)?.to_owned();
    let directories = host.directories();
    if directories.is_empty() {
        let message = "no OSD of the host is up, and only a running OSD reports its osd_class_dir; start one";
        return Err(Error::unavailable(message));
    }
    let mut versions: Vec<String> = host.osds.iter().map(|osd| osd.version.clone()).collect();
    versions.sort();
    versions.dedup();
    let mut steps = Vec::new();
    for (dir, osds) in directories {
        let (dir, name) = (dir.to_owned(), host.name.clone());
        let (ssh, library) = (Arc::clone(ssh), Arc::clone(library));
        let step_library = Arc::clone(&library);
        let found =
            blocking(move || Directory::inspect(&ssh, &name, &dir, &library, &interrupt::is_set)).await?;
        let action = if undo { undo_action(&found) } else { install_action(&found, &step_library) };
        let action = action.map_err(|error| error.with("dir", &found.path))?;
        let (host, down) = (host.name.clone(), host.down());
        let (destination, versions) = (destination.clone(), versions.clone());
        steps.push(Step { host, destination, versions, osds, down, found, action });
    }
    Ok(steps)
}

fn install_action(found: &Directory, library: &Library) -> Result<Action> {
    if let Some(arch) = library.arch().filter(|arch| *arch != found.arch) {
        let message = format!("the library is built for {arch}, and the host is {}", found.arch);
        return Err(Error::invalid_argument(message));
    }
    if found.sha256.as_ref() == Some(&library.sha256) {
        return Ok(Action::Keep);
    }
    check_writable(found)?;
    let needed_bytes = library.content.len() as u64 + SPARE_BYTES;
    if found.free_bytes < needed_bytes {
        return Err(Error::because(Reason::StoreFull, "the disk of the directory is full")
            .with("free_bytes", found.free_bytes)
            .with("needed_bytes", needed_bytes));
    }
    Ok(Action::Install)
}

fn undo_action(found: &Directory) -> Result<Action> {
    let Some(record) = &found.record else { return Ok(Action::Nothing) };
    check_writable(found)?;
    if found.sha256 != record.old && found.sha256.as_ref() != Some(&record.new) {
        let message = "the library in the directory is not the one that was installed last, so there is nothing to return to";
        return Err(Error::conflict(message));
    }
    Ok(if record.old.is_some() { Action::Restore } else { Action::Remove })
}

fn check_writable(found: &Directory) -> Result<()> {
    if found.is_writable {
        return Ok(());
    }
    Err(Error::permission_denied("the directory is read-only"))
}

/// The settings that do not include the library, with equal values together.
fn missing_settings(inventory: &Inventory, library: &str) -> Vec<MissingSetting> {
    let next = next_version(library);
    let mut missing: Vec<MissingSetting> = Vec::new();
    let osds = inventory.hosts.iter().flat_map(|host| &host.osds);
    for (id, settings) in osds.filter_map(|osd| Some((osd.id, osd.settings.as_ref()?))) {
        for (setting, value) in [(LOAD_LIST, &settings.load_list), (DEFAULT_LIST, &settings.default_list)] {
            if value.includes(library) {
                continue;
            }
            let same = missing.iter_mut().find(|found| found.setting == setting && found.value == *value);
            if let Some(found) = same {
                found.osds.push(id);
                continue;
            }
            let list = with_names(&value.value, &[library, &next]).filter(|_| value.is_of_monitors());
            let command = list.map(|list| format!("ceph config set osd {setting} {}", shell_word(&list)));
            missing.push(MissingSetting { setting, osds: vec![id], value: value.clone(), command });
        }
    }
    missing.iter_mut().for_each(|found| found.osds.sort_unstable());
    missing
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
