//! A cluster at one moment, as far as it could be seen.

use super::growth::Reading;
use super::limits::Limits;
use crate::cluster_state::{
    Clocks, Health, Manager, OsdLatency, OsdMap, OsdUsage, Pg, PgMapDigest, PoolDf, PoolIo, Quorum, Tree,
    Versions,
};
use crate::placement::lint;
use serde::{Deserialize, Serialize};

/// A cluster at one moment. What is `None` could not be asked; [`missing`](Snapshot::missing) says why.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When, by the clock of this machine.
    pub now_unix_s: u64,
    /// The cluster's identity; empty if no monitor answered.
    pub fsid: String,
    /// What Ceph's own checks say.
    pub health: Option<Health>,
    /// What the manager told the monitors last.
    pub digest: Option<PgMapDigest>,
    /// The monitors.
    pub quorum: Option<Quorum>,
    /// Their clocks.
    pub clocks: Option<Clocks>,
    /// The manager, as the monitors see it.
    pub manager: Option<Manager>,
    /// Why the manager did not answer, if it was asked and did not.
    pub manager_silent: Option<String>,
    /// Pools and OSDs.
    pub map: Option<OsdMap>,
    /// Where OSDs are.
    pub tree: Option<Tree>,
    /// What the daemons run.
    pub versions: Option<Versions>,
    /// What OSDs hold.
    pub usage: Option<Vec<OsdUsage>>,
    /// How fast OSDs are.
    pub latencies: Option<Vec<OsdLatency>>,
    /// The placement groups.
    pub pgs: Option<Vec<Pg>>,
    /// What pools hold, if that is asked.
    pub stored: Option<Vec<PoolDf>>,
    /// What clients do with pools, if that is asked.
    pub pool_io: Option<Vec<PoolIo>>,
    /// What is wrong with CRUSH rules, but for what the placement groups tell themselves.
    pub rules: Option<Vec<lint::Finding>>,
    /// Libraries of classes in the OSDs.
    pub libraries: Option<Vec<Library>>,
    /// A small write and read; `None` if nobody asked for one.
    pub probe: Option<Probe>,
    /// What this process may use.
    pub limits: Option<Limits>,
    /// How full the fullest OSD was earlier, oldest first.
    pub history: Vec<Reading>,
    /// What could not be seen.
    pub missing: Vec<Missing>,
}

/// Something that could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What it is.
    pub what: String,
    /// Why, and the next step where there is one.
    pub why: String,
    /// Whether the cluster, or what this client may do, is the reason; otherwise it is something that is optional.
    pub hurts: bool,
}

/// A library of classes, as the OSDs have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Library {
    /// NAME of `libcls_NAME.so`.
    pub name: String,
    /// What each OSD runs.
    pub builds: Vec<OsdBuild>,
    /// OSDs that do not have it.
    pub without: Vec<i64>,
    /// OSDs that did not answer, or could not be asked.
    pub silent: Vec<i64>,
}

/// A build, and the OSDs that run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OsdBuild {
    /// What the library calls itself.
    pub build: String,
    /// Those OSDs.
    pub osds: Vec<i64>,
}

/// A small object that was written, read and removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// The pool that it was in.
    pub pool: String,
    /// How long the write took.
    pub write_ms: Option<f64>,
    /// How long the read took.
    pub read_ms: Option<f64>,
    /// What went wrong.
    pub error: Option<ProbeError>,
}

/// What went wrong with a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeError {
    /// In which step: `write`, `read` or `remove`, or `open` for the pool.
    pub step: String,
    /// What happened.
    pub message: String,
    /// Whether the cluster is the reason, not what the client may do.
    pub of_cluster: bool,
}
