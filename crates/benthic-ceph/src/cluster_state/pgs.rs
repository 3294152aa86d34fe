//! Placement groups: single ones, and the manager's sums.

use super::usage::{Io, Recovery};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Marks a missing OSD in a placement group.
const NONE: i32 = i32::MAX;

/// A summary of placement groups and usage, from the manager's last report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PgMapDigest {
    pub pgs_by_state: Vec<StateCount>,
    pub num_pgs: u64,
    pub num_objects: u64,
    /// Missing replicas.
    pub degraded_objects: u64,
    /// Replicas that are not on the OSDs that CRUSH chooses.
    pub misplaced_objects: u64,
    /// Objects whose latest version is on no OSD that is up.
    pub unfound_objects: u64,
    /// Raw space.
    pub bytes_total: u64,
    /// Raw space in use.
    pub bytes_used: u64,
    #[serde(flatten)]
    pub io: Io,
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// The number of placement groups in a state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StateCount {
    /// The state, such as `active+clean`.
    pub state_name: String,
    pub count: u64,
}

/// `pg dump` or `pg ls-by-pool`: placement groups.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PgDump {
    /// Whether the manager has reports on all placement groups.
    #[serde(default)]
    pub pg_ready: bool,
    #[serde(default)]
    pub pg_stats: Vec<Pg>,
}

/// A placement group.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pg {
    /// `POOL.N`, with N in hexadecimal.
    pub pgid: String,
    /// The state, such as `active+clean`.
    pub state: String,
    /// The OSDs that CRUSH chooses.
    #[serde(default)]
    pub up: Vec<i32>,
    /// The OSDs that serve the placement group.
    #[serde(default)]
    pub acting: Vec<i32>,
    #[serde(default)]
    pub acting_primary: Option<i32>,
    #[serde(default)]
    pub stat_sum: PgSums,
    #[serde(default)]
    pub last_change: String,
    #[serde(default)]
    pub last_scrub_stamp: String,
    /// Time of the last deep scrub, which reads all bytes.
    #[serde(default)]
    pub last_deep_scrub_stamp: String,
}

impl Pg {
    pub fn pool(&self) -> Option<i64> {
        self.pgid.split_once('.')?.0.parse().ok()
    }

    /// The different OSDs that serve the placement group.
    pub fn holders(&self) -> BTreeSet<i32> {
        distinct(&self.acting)
    }

    /// The different OSDs that CRUSH chooses.
    pub fn crush_osds(&self) -> BTreeSet<i32> {
        distinct(&self.up)
    }

    pub fn primary(&self) -> Option<i32> {
        self.acting_primary.or(self.acting.first().copied())
    }
}

/// Sums over the objects of a placement group.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct PgSums {
    /// Bytes of clients, without replication.
    #[serde(default)]
    pub num_bytes: u64,
}

/// Whether a list contains an OSD twice.
pub fn has_duplicates(osds: &[i32]) -> bool {
    distinct(osds).len() < osds.iter().filter(|osd| (0..NONE).contains(*osd)).count()
}

fn distinct(osds: &[i32]) -> BTreeSet<i32> {
    osds.iter().copied().filter(|osd| (0..NONE).contains(osd)).collect()
}
