//! What the monitors and the manager answer, as far as health needs it. What a release may lack has a default.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What stands in a placement group for an OSD that is missing.
const NONE: i32 = i32::MAX;
/// `type` of a replicated pool.
const REPLICATED: u32 = 1;

/// `status`: what the monitors heard from the manager.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    /// The cluster's identity.
    pub fsid: String,
    /// What the manager told last.
    #[serde(default)]
    pub pgmap: Digest,
}

/// A summary of placement groups and usage, as old as the manager's last word.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Digest {
    /// Placement groups by state.
    pub pgs_by_state: Vec<StateCount>,
    /// All placement groups.
    pub num_pgs: u64,
    /// All objects.
    pub num_objects: u64,
    /// Replicas that are missing.
    pub degraded_objects: u64,
    /// Replicas that are elsewhere than they are to be.
    pub misplaced_objects: u64,
    /// Objects whose latest version no OSD that is up has.
    pub unfound_objects: u64,
    /// Raw space.
    pub bytes_total: u64,
    /// Of it used.
    pub bytes_used: u64,
    /// Of it free.
    pub bytes_avail: u64,
    /// What clients do.
    #[serde(flatten)]
    pub io: Io,
    /// What is made anew or moved.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// What clients do: rates over the last seconds, as the manager reckons them. What is not told is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Io {
    /// Bytes read in a second.
    #[serde(rename(deserialize = "read_bytes_sec"))]
    pub read_bytes_per_s: u64,
    /// Bytes written.
    #[serde(rename(deserialize = "write_bytes_sec"))]
    pub write_bytes_per_s: u64,
    /// Operations that read.
    #[serde(rename(deserialize = "read_op_per_sec"))]
    pub read_ops_per_s: u64,
    /// Operations that write.
    #[serde(rename(deserialize = "write_op_per_sec"))]
    pub write_ops_per_s: u64,
}

/// What OSDs make anew or move because something is missing or elsewhere than it is to be: rates, as those of [`Io`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Recovery {
    /// Bytes in a second.
    #[serde(rename(deserialize = "recovering_bytes_per_sec"))]
    pub bytes_per_s: u64,
    /// Objects.
    #[serde(rename(deserialize = "recovering_objects_per_sec"))]
    pub objects_per_s: u64,
}

/// `df`: what pools hold.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Stored {
    /// By pool.
    pub pools: Vec<PoolStored>,
}

/// What a pool holds.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolStored {
    /// Its number.
    pub id: i64,
    /// What it holds.
    pub stats: PoolStats,
}

/// What a pool holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PoolStats {
    /// Bytes of clients, each counted once.
    pub stored: u64,
    /// Objects.
    pub objects: u64,
}

/// What clients do with a pool: an element of `osd pool stats`.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolIo {
    /// Its number.
    pub pool_id: i64,
    /// What they do.
    #[serde(default)]
    pub client_io_rate: Io,
    /// What is made anew or moved.
    #[serde(default)]
    pub recovery_rate: Recovery,
}

/// How many placement groups are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StateCount {
    /// Such as `active+clean`.
    pub state_name: String,
    /// How many.
    pub count: u64,
}

/// `health detail`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Health {
    /// `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`.
    pub status: String,
    /// Ceph's own checks that do not hold, by their code.
    #[serde(default)]
    pub checks: BTreeMap<String, Check>,
}

/// One of Ceph's checks.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Check {
    /// `HEALTH_WARN` or `HEALTH_ERR`.
    pub severity: String,
    /// What it is.
    pub summary: Summary,
    /// Of whom.
    #[serde(default)]
    pub detail: Vec<Message>,
    /// Whether somebody silenced it.
    #[serde(default)]
    pub muted: bool,
}

/// What a check says in a line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Summary {
    /// For people.
    pub message: String,
    /// Of how many.
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
    /// The monitors that agree.
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

/// `time-sync-status`; a single monitor has nobody to compare with.
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
    /// `HEALTH_OK` if Ceph can live with it.
    #[serde(default)]
    pub health: String,
}

/// `mgr stat`.
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
    /// Those that would take over.
    #[serde(default)]
    pub num_standby: u64,
}

/// `osd dump`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Map {
    /// Grows with every change of the CRUSH map.
    #[serde(default)]
    pub crush_version: u64,
    /// What somebody set, such as `noout`, and what always is.
    #[serde(default)]
    pub flags_set: Vec<String>,
    /// When anything last changed.
    #[serde(default)]
    pub modified: String,
    /// When an OSD last went up or down.
    #[serde(default)]
    pub last_up_change: String,
    /// When an OSD last went in or out.
    #[serde(default)]
    pub last_in_change: String,
    /// At which share of its space an OSD takes no writes.
    #[serde(default)]
    pub full_ratio: f64,
    /// All pools.
    pub pools: Vec<Pool>,
    /// All OSDs.
    pub osds: Vec<Osd>,
    /// Flags of CRUSH nodes, by their names.
    #[serde(default)]
    pub crush_node_flags: BTreeMap<String, Vec<String>>,
    /// Flags of device classes, by their names.
    #[serde(default)]
    pub device_class_flags: BTreeMap<String, Vec<String>>,
    /// Profiles of erasure-coded pools.
    #[serde(default)]
    pub erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
}

/// A pool.
#[derive(Clone, Debug, Deserialize)]
pub struct Pool {
    /// Its number.
    #[serde(rename = "pool")]
    pub id: i64,
    /// Its name.
    #[serde(rename = "pool_name")]
    pub name: String,
    #[serde(rename = "type")]
    kind: u32,
    /// Replicas, or chunks.
    pub size: usize,
    /// With fewer of them a placement group takes no writes.
    #[serde(default)]
    pub min_size: usize,
    /// The number of its rule.
    #[serde(default)]
    pub crush_rule: i64,
    /// Placement groups now.
    pub pg_num: u64,
    /// Placement groups that there are to be.
    #[serde(default)]
    pub pg_num_target: Option<u64>,
    /// Of the placement groups, those that are placed by themselves now.
    #[serde(default)]
    pub pg_placement_num: Option<u64>,
    /// The same as it is to be.
    #[serde(default)]
    pub pg_placement_num_target: Option<u64>,
    /// The profile of an erasure-coded pool.
    #[serde(default)]
    pub erasure_code_profile: String,
    /// When it was made.
    #[serde(default)]
    pub create_time: String,
}

impl Pool {
    /// Whether it keeps replicas, not chunks of a code.
    pub fn is_replicated(&self) -> bool {
        self.kind == REPLICATED
    }

    /// Whether its number of placement groups is being changed.
    pub fn is_resizing(&self) -> bool {
        let differs = |now: Option<u64>, target: Option<u64>| {
            now.zip(target).is_some_and(|(now, target)| now != target)
        };
        differs(Some(self.pg_num), self.pg_num_target)
            || differs(self.pg_placement_num, self.pg_placement_num_target)
            || differs(Some(self.pg_num), self.pg_placement_num)
    }
}

/// An OSD.
#[derive(Clone, Debug, Deserialize)]
pub struct Osd {
    /// Its number.
    #[serde(rename = "osd")]
    pub id: i32,
    up: u8,
    #[serde(rename = "in")]
    takes_data: u8,
    /// Words such as `exists` and `noout`.
    #[serde(default)]
    pub state: Vec<String>,
}

impl Osd {
    /// Whether the monitors take it for running.
    pub fn is_up(&self) -> bool {
        self.up == 1
    }

    /// Whether data are to be on it.
    pub fn is_in(&self) -> bool {
        self.takes_data == 1
    }
}

/// `osd tree`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Tree {
    /// OSDs and what is above them.
    pub nodes: Vec<Node>,
}

/// A node of the CRUSH tree.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// Its number; negative for a bucket.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Such as `host`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Such as `ssd`, of an OSD.
    #[serde(default)]
    pub device_class: Option<String>,
    /// What is below a bucket.
    #[serde(default)]
    pub children: Vec<i32>,
}

/// `versions`: how many daemons of each kind run which version.
pub type Versions = BTreeMap<String, BTreeMap<String, u64>>;

/// `osd df`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Usages {
    /// By OSD.
    pub nodes: Vec<Usage>,
}

/// What an OSD holds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Usage {
    /// Its number.
    pub id: i32,
    /// Its space.
    #[serde(rename = "kb")]
    pub total_kib: u64,
    /// Of it used.
    #[serde(rename = "kb_used")]
    pub used_kib: u64,
}

impl Usage {
    /// The share that is used, 0 to 1; `None` for an OSD that never told its size.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn share(&self) -> Option<f64> {
        (self.total_kib > 0).then(|| self.used_kib as f64 / self.total_kib as f64)
    }
}

/// `osd perf`; older and newer releases have the list at different places.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Latencies {
    #[serde(default)]
    osdstats: Option<Box<Latencies>>,
    #[serde(default)]
    osd_perf_infos: Vec<Latency>,
}

impl Latencies {
    /// By OSD.
    pub fn of_osds(self) -> Vec<Latency> {
        match self.osdstats {
            Some(inner) => inner.osd_perf_infos,
            None => self.osd_perf_infos,
        }
    }
}

/// How fast an OSD is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Latency {
    /// Its number.
    pub id: i32,
    /// What its disk takes.
    #[serde(rename = "perf_stats")]
    pub stats: LatencyStats,
}

/// What a disk takes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LatencyStats {
    /// To make a write durable.
    #[serde(default)]
    pub commit_latency_ms: u64,
    /// To make it readable.
    #[serde(default)]
    pub apply_latency_ms: u64,
}

/// `pg dump` of the placement groups.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pgs {
    /// Whether the manager has heard of all.
    #[serde(default)]
    pub pg_ready: bool,
    /// Each of them.
    #[serde(default)]
    pub pg_stats: Vec<Pg>,
}

/// A placement group.
#[derive(Clone, Debug, Deserialize)]
pub struct Pg {
    /// `POOL.N`, with N in hexadecimal.
    pub pgid: String,
    /// Such as `active+clean`.
    pub state: String,
    /// The OSDs that are to have it.
    #[serde(default)]
    pub up: Vec<i32>,
    /// The OSDs that serve it.
    #[serde(default)]
    pub acting: Vec<i32>,
    /// The one of them that answers clients.
    #[serde(default)]
    pub acting_primary: Option<i32>,
    /// When its state changed.
    #[serde(default)]
    pub last_change: String,
    /// When it was last scrubbed.
    #[serde(default)]
    pub last_scrub_stamp: String,
    /// When all its bytes were last read.
    #[serde(default)]
    pub last_deep_scrub_stamp: String,
}

impl Pg {
    /// The number of its pool.
    pub fn pool(&self) -> Option<i64> {
        self.pgid.split_once('.')?.0.parse().ok()
    }

    /// The OSDs that serve it, each counted once.
    pub fn holders(&self) -> usize {
        distinct(&self.acting)
    }

    /// The OSDs that CRUSH finds for it, each counted once.
    pub fn chosen(&self) -> usize {
        distinct(&self.up)
    }
}

fn distinct(osds: &[i32]) -> usize {
    let mut osds: Vec<i32> = osds.iter().copied().filter(|osd| (0..NONE).contains(osd)).collect();
    osds.sort_unstable();
    osds.dedup();
    osds.len()
}
