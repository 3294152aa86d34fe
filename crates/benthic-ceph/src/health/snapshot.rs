//! A snapshot of a cluster's state, with a list of the parts that could not be read.

use super::growth::Reading;
use super::limits::Limits;
use crate::cluster_state::{
    Clocks, Health, Manager, OsdLatency, OsdMap, OsdUsage, Pg, PgMapDigest, PoolDf, PoolIo, Quorum, Tree,
    Versions,
};
use crate::placement::lint;
use serde::{Deserialize, Serialize};

/// A snapshot of a cluster's state. A part that could not be read is `None`;
/// [`missing`](Snapshot::missing) gives the reason.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time of the snapshot, by this machine's clock.
    pub now_unix_s: u64,
    /// Time when the monitors were asked.
    pub monitors_unix_s: u64,
    /// The cluster's identity; empty if no monitor answered.
    pub fsid: String,
    pub health: Option<Health>,
    /// The manager's last report to the monitors.
    pub digest: Option<PgMapDigest>,
    pub quorum: Option<Quorum>,
    pub clocks: Option<Clocks>,
    pub manager: Option<Manager>,
    /// The error, if the manager was queried and did not answer.
    pub manager_silent: Option<String>,
    pub map: Option<OsdMap>,
    /// OSDs that the monitors count as down although their processes accept connections.
    pub hung_osds: Vec<i32>,
    pub tree: Option<Tree>,
    pub versions: Option<Versions>,
    pub usage: Option<Vec<OsdUsage>>,
    pub latencies: Option<Vec<OsdLatency>>,
    pub pgs: Option<Vec<Pg>>,
    /// The usage of pools, if requested.
    pub stored: Option<Vec<PoolDf>>,
    /// The client I/O of pools, if requested.
    pub pool_io: Option<Vec<PoolIo>>,
    /// Faults of CRUSH rules, except those that the placement groups show themselves.
    pub rules: Option<Vec<lint::Finding>>,
    pub libraries: Option<Vec<Library>>,
    /// The OSDs' own answers; `None` if no OSD was asked.
    pub osd_answers: Option<OsdAnswers>,
    /// The result of a small write and read; `None` if no probe was requested.
    pub probe: Option<Probe>,
    pub limits: Option<Limits>,
    /// Earlier readings of the fullest OSD, oldest first.
    pub history: Vec<Reading>,
    pub missing: Vec<Missing>,
}

/// A part of the snapshot that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub what: String,
    /// The reason, and the next step where there is one.
    pub why: String,
    /// Whether the cluster or the permissions of this client are the reason. Otherwise the part is
    /// optional.
    #[serde(rename = "hurts")]
    pub is_problem: bool,
}

/// Which OSDs answered a small read. The monitors may consider an OSD up for minutes after it died.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OsdAnswers {
    /// Time when the last OSD answered, or the time limit ended.
    pub unix_s: u64,
    pub answered: Vec<i64>,
    /// OSDs that did not answer within [`OSD_ANSWER_LIMIT_S`].
    pub silent: Vec<SilentOsd>,
    /// OSDs that no request reaches, because they lead no placement group of a replicated pool.
    pub not_asked: Vec<i64>,
}

/// Time limit of an OSD's answer. A client's read or write that takes longer counts as waiting.
pub const OSD_ANSWER_LIMIT_S: u64 = 10;

/// An OSD that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SilentOsd {
    pub osd: i64,
    /// The placement group of the object that was asked for.
    pub pg: String,
}

/// A class library, and its builds in the OSDs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Library {
    /// NAME of `libcls_NAME.so`.
    pub name: String,
    pub builds: Vec<OsdBuild>,
    /// OSDs that do not have the library.
    pub without: Vec<i64>,
    /// OSDs that did not answer or could not be queried.
    pub silent: Vec<i64>,
}

/// A build of a library, and the OSDs that run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OsdBuild {
    /// The build's description of itself.
    pub build: String,
    pub osds: Vec<i64>,
}

/// The result of a probe: the write, read and removal of a small object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    pub pool: String,
    pub write_ms: Option<f64>,
    pub read_ms: Option<f64>,
    pub error: Option<ProbeError>,
}

/// The failure of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeError {
    /// The step that failed: `open` (of the pool), `write`, `read` or `remove`.
    pub step: String,
    pub message: String,
    /// True if the cluster is the cause. False if the client lacks a permission.
    pub of_cluster: bool,
}
