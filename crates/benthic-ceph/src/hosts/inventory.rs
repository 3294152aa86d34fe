//! The hosts of a cluster's OSDs, as the cluster knows them: which OSDs run there, and from which
//! directories they load class libraries.

use crate::cluster_client::{ClusterClient, in_json};
use crate::cluster_state::{OsdMap, parse};
use benthic_core::{Error, OptionalExtension, Result};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The setting with the directory.
const CLASS_DIR: &str = "osd_class_dir";
/// The setting with the libraries that an OSD loads.
pub const LOAD_LIST: &str = "osd_class_load_list";
/// The setting with the libraries that clients may call if their caps name none.
pub const DEFAULT_LIST: &str = "osd_class_default_list";
/// Requests to the manager at once.
const REQUESTS_AT_ONCE: usize = 16;

/// A setting of a running OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    pub value: String,
    /// Where the value is from: `default`, `mon` (the monitors' configuration), `file` (`ceph.conf`
    /// on the host), or another word of Ceph.
    #[serde(default)]
    pub source: String,
}

impl Setting {
    /// Whether a list of libraries includes this one.
    pub fn includes(&self, library: &str) -> bool {
        self.value.split_whitespace().any(|word| word == "*" || word == library)
    }

    /// Whether `ceph config set` changes the value. Other sources take precedence over it.
    pub fn is_of_monitors(&self) -> bool {
        ["default", "mon"].contains(&self.source.as_str())
    }
}

/// The settings for class libraries of a running OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    pub class_dir: String,
    pub load_list: Setting,
    pub default_list: Setting,
}

/// An OSD of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOsd {
    /// N of `osd.N`.
    pub id: i32,
    /// Ceph's version, such as `16.2.15`; empty if the OSD reports none.
    pub version: String,
    /// As `uname -m` prints it.
    pub arch: String,
    /// Whether the OSD runs in a container that Ceph's orchestrator or Rook started. Its libraries
    /// are in the container's image.
    pub in_container: bool,
    /// `None` if the OSD is down, because only a running OSD reports its settings.
    pub settings: Option<ClassSettings>,
}

/// A host with OSDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The host's name for itself.
    pub name: String,
    /// By number.
    pub osds: Vec<HostOsd>,
}

impl Host {
    /// The directories from which the host's running OSDs load libraries, each with its OSDs.
    pub fn directories(&self) -> BTreeMap<&str, Vec<i32>> {
        let mut directories: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for osd in &self.osds {
            if let Some(settings) = &osd.settings {
                directories.entry(&settings.class_dir).or_default().push(osd.id);
            }
        }
        directories
    }

    /// The OSDs that are down.
    pub fn down(&self) -> Vec<i32> {
        self.osds.iter().filter(|osd| osd.settings.is_none()).map(|osd| osd.id).collect()
    }
}

/// The hosts of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    pub fsid: String,
    /// By name.
    pub hosts: Vec<Host>,
    /// OSDs that have never run, so that nobody knows their host.
    pub homeless: Vec<i32>,
}

/// An OSD's report of itself, in `osd metadata`.
#[derive(Deserialize)]
struct Metadata {
    id: i32,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    arch: String,
    #[serde(default)]
    ceph_version_short: String,
    /// cephadm and Rook set it. `container_name` says nothing: containers that only look like a
    /// machine set it, too.
    #[serde(default)]
    container_image: String,
    /// Kubernetes sets it.
    #[serde(default)]
    pod_name: String,
}

impl Inventory {
    /// Reads the hosts of a cluster. This takes a request to the manager for each OSD that is up.
    ///
    /// # Errors
    /// `Unavailable` if no monitor or no manager answers in time, `PermissionDenied` if the client
    /// may not ask them.
    pub async fn read(client: &dyn ClusterClient) -> Result<Inventory> {
        let map: OsdMap = client.monitor_state(json!({ "prefix": "osd dump" })).await?;
        let metadata: Vec<Metadata> = client.monitor_state(json!({ "prefix": "osd metadata" })).await?;
        let mut metadata: BTreeMap<i32, Metadata> = metadata.into_iter().map(|osd| (osd.id, osd)).collect();
        let up: Vec<i32> = map.osds.iter().filter(|osd| osd.is_up()).map(|osd| osd.id).collect();
        // An OSD that went down meanwhile is left out.
        let read = up.into_iter().map(async |id| {
            let read = settings(client, id).await.optional()?;
            Ok(read.map(|settings| (id, settings)))
        });
        let read: Vec<Option<(i32, ClassSettings)>> =
            stream::iter(read).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await?;
        let mut settings: BTreeMap<i32, ClassSettings> = read.into_iter().flatten().collect();
        let (mut hosts, mut homeless) = (BTreeMap::<String, Vec<HostOsd>>::new(), Vec::new());
        let ids: BTreeSet<i32> = map.osds.iter().map(|osd| osd.id).collect();
        for id in ids {
            match metadata.remove(&id).filter(|osd| !osd.hostname.is_empty()) {
                Some(osd) => hosts.entry(osd.hostname).or_default().push(HostOsd {
                    id,
                    version: osd.ceph_version_short,
                    arch: osd.arch,
                    in_container: !osd.container_image.is_empty() || !osd.pod_name.is_empty(),
                    settings: settings.remove(&id),
                }),
                None => homeless.push(id),
            }
        }
        let hosts = hosts.into_iter().map(|(name, osds)| Host { name, osds }).collect();
        Ok(Inventory { fsid: map.fsid, hosts, homeless })
    }

    /// Keeps only these hosts.
    ///
    /// # Errors
    /// `NotFound` if the cluster has no such host.
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        if let Some(name) = names.iter().find(|name| !self.hosts.iter().any(|host| host.name == **name)) {
            let known: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            let message = format!("no OSD reports this host; the hosts are {}", known.join(", "));
            return Err(Error::not_found(message).with("host", name));
        }
        self.hosts.retain(|host| names.contains(&host.name));
        Ok(())
    }
}

async fn settings(client: &dyn ClusterClient, osd: i32) -> Result<ClassSettings> {
    #[derive(Deserialize)]
    struct Shown {
        name: String,
        #[serde(flatten)]
        setting: Setting,
    }
    let who = format!("osd.{osd}");
    let shown = client.ask_manager(in_json(json!({ "prefix": "config show", "who": who }))).await?;
    let shown: Vec<Shown> = parse(&shown)?;
    let mut shown: BTreeMap<String, Setting> =
        shown.into_iter().map(|shown| (shown.name, shown.setting)).collect();
    let mut read = async |key: &str| match shown.remove(key) {
        Some(setting) => Ok(setting),
        // The list has no settings with their defaults.
        None => {
            let question = json!({ "prefix": "config show", "who": who, "key": key });
            let value = client.ask_manager(question).await?;
            let value = String::from_utf8_lossy(&value).trim().to_owned();
            Ok::<_, Error>(Setting { value, source: "default".to_owned() })
        }
    };
    Ok(ClassSettings {
        class_dir: read(CLASS_DIR).await?.value,
        load_list: read(LOAD_LIST).await?,
        default_list: read(DEFAULT_LIST).await?,
    })
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
