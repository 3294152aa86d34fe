//! What the monitors report about the cluster as a whole: status, health, quorum, clocks, manager and versions.

use super::pgs::PgMapDigest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `status`: a summary of the cluster by the monitors.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    /// The cluster's identity.
    pub fsid: String,
    /// The state of Ceph's own checks, without details.
    #[serde(default)]
    pub health: Health,
    /// How many OSDs there are.
    #[serde(default)]
    pub osdmap: OsdCounts,
    /// The active manager.
    #[serde(default)]
    pub mgrmap: Manager,
    /// The last report of the manager.
    #[serde(default)]
    pub pgmap: PgMapDigest,
}

/// How many OSDs there are.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OsdCounts {
    /// All OSDs.
    pub num_osds: u64,
    /// OSDs that run.
    pub num_up_osds: u64,
}

/// `health detail`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Health {
    /// `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`.
    #[serde(default)]
    pub status: String,
    /// Ceph's own checks that fail, by their code.
    #[serde(default)]
    pub checks: BTreeMap<String, Check>,
}

/// One of Ceph's checks.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Check {
    /// `HEALTH_WARN` or `HEALTH_ERR`.
    pub severity: String,
    /// The check in a line.
    pub summary: Summary,
    /// The lines below the summary.
    #[serde(default)]
    pub detail: Vec<Message>,
    /// Whether an operator muted it.
    #[serde(default)]
    pub muted: bool,
}

/// A check in a line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Summary {
    /// For people.
    pub message: String,
    /// How many daemons, placement groups and so on the check is about.
    #[serde(default)]
    pub count: u64,
}

/// A line of a check.
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    /// For people.
    pub message: String,
}

/// `quorum_status`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Quorum {
    /// The monitors in the quorum.
    #[serde(default)]
    pub quorum_names: Vec<String>,
    /// All monitors.
    pub monmap: MonMap,
}

/// All monitors.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MonMap {
    /// Each of them.
    pub mons: Vec<Mon>,
}

/// A monitor.
#[derive(Clone, Debug, Deserialize)]
pub struct Mon {
    /// Its name.
    pub name: String,
}

/// `time-sync-status`; empty for a single monitor.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Clocks {
    /// By monitor.
    #[serde(default)]
    pub time_skew_status: BTreeMap<String, Skew>,
}

/// How far a monitor's clock is from the leader's.
#[derive(Clone, Debug, Deserialize)]
pub struct Skew {
    /// Seconds; negative if it is behind.
    #[serde(rename = "skew", default)]
    pub skew_s: f64,
    /// `HEALTH_OK` if Ceph tolerates it.
    #[serde(default)]
    pub health: String,
}

/// `mgr stat`, `mgr dump`, or the part of `status` about the manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Manager {
    /// Grows when another manager takes over, and when one goes.
    #[serde(default)]
    pub epoch: u64,
    /// Whether one is active and the monitors hear of it.
    #[serde(default)]
    pub available: bool,
    /// Its name.
    #[serde(default)]
    pub active_name: String,
    /// A number that changes when it is started again.
    #[serde(default)]
    pub active_gid: u64,
    /// How many managers stand by.
    #[serde(default)]
    pub num_standby: u64,
}

/// `versions`: how many daemons of each kind run which version.
pub type Versions = BTreeMap<String, BTreeMap<String, u64>>;
