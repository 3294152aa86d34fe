//! The monitors' reports on the cluster as a whole: status, health, quorum, clocks, manager and
//! versions.

use super::pgs::PgMapDigest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `status`: the monitors' summary of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    pub fsid: String,
    #[serde(default)]
    pub health: Health,
    #[serde(default)]
    pub osdmap: OsdCounts,
    #[serde(default)]
    pub mgrmap: Manager,
    /// The manager's last report.
    #[serde(default)]
    pub pgmap: PgMapDigest,
}

/// The number of OSDs.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OsdCounts {
    pub num_osds: u64,
    pub num_up_osds: u64,
}

/// `health detail`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Health {
    /// `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`.
    #[serde(default)]
    pub status: String,
    /// The failing health checks, by code.
    #[serde(default)]
    pub checks: BTreeMap<String, Check>,
}

/// A Ceph health check.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Check {
    /// `HEALTH_WARN` or `HEALTH_ERR`.
    pub severity: String,
    pub summary: Summary,
    #[serde(default)]
    pub detail: Vec<Message>,
    #[serde(default)]
    pub muted: bool,
}

/// A health check in one line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Summary {
    pub message: String,
    /// The number of affected daemons, placement groups and so on.
    #[serde(default)]
    pub count: u64,
}

/// A line of a health check.
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    pub message: String,
}

/// `quorum_status`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Quorum {
    #[serde(default)]
    pub quorum_names: Vec<String>,
    pub monmap: MonMap,
}

/// All monitors.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MonMap {
    pub mons: Vec<Mon>,
}

/// A monitor.
#[derive(Clone, Debug, Deserialize)]
pub struct Mon {
    pub name: String,
}

/// `time-sync-status`; empty for a single monitor.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Clocks {
    /// By monitor.
    #[serde(default)]
    pub time_skew_status: BTreeMap<String, Skew>,
}

/// The difference of a monitor's clock from the leader's.
#[derive(Clone, Debug, Deserialize)]
pub struct Skew {
    /// In seconds; negative if the clock is behind.
    #[serde(rename = "skew", default)]
    pub skew_s: f64,
    /// `HEALTH_OK` if Ceph tolerates it.
    #[serde(default)]
    pub health: String,
}

/// `mgr stat`, `mgr dump`, or the part of `status` about the manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Manager {
    /// Grows when an active manager takes over or disappears.
    #[serde(default)]
    pub epoch: u64,
    /// Whether a manager is active and reports to the monitors.
    #[serde(default)]
    pub available: bool,
    #[serde(default)]
    pub active_name: String,
    /// A number that changes when the active manager restarts.
    #[serde(default)]
    pub active_gid: u64,
    #[serde(default)]
    pub num_standby: u64,
}

/// `versions`: the number of daemons by kind and version.
pub type Versions = BTreeMap<String, BTreeMap<String, u64>>;
