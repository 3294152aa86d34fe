//! Placement groups, one by one and as the manager sums them up.

use super::usage::{Io, Recovery};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Stands in a placement group for an OSD that is missing.
const NONE: i32 = i32::MAX;

/// A summary of placement groups and usage, as old as the manager's last report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PgMapDigest {
    /// Placement groups by state.
    pub pgs_by_state: Vec<StateCount>,
    /// All placement groups.
    pub num_pgs: u64,
    /// All objects.
    pub num_objects: u64,
    /// Replicas that are missing.
    pub degraded_objects: u64,
    /// Replicas that are not on the OSDs that CRUSH chooses.
    pub misplaced_objects: u64,
    /// Objects whose latest version no OSD that is up has.
    pub unfound_objects: u64,
    /// Raw space.
    pub bytes_total: u64,
    /// Of it used.
    pub bytes_used: u64,
    /// Of it free.
    pub bytes_avail: u64,
    /// I/O of clients.
    #[serde(flatten)]
    pub io: Io,
    /// Recovery and backfill.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// How many placement groups are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StateCount {
    /// Such as `active+clean`.
    pub state_name: String,
    /// How many placement groups.
    pub count: u64,
}

/// `pg dump` or `pg ls-by-pool`: placement groups.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PgDump {
    /// Whether the manager has heard of all.
    #[serde(default)]
    pub pg_ready: bool,
    /// Each of them.
    #[serde(default)]
    pub pg_stats: Vec<Pg>,
}

/// A placement group.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pg {
    /// `POOL.N`, with N in hexadecimal.
    pub pgid: String,
    /// Such as `active+clean`.
    pub state: String,
    /// The OSDs that CRUSH chooses for it.
    #[serde(default)]
    pub up: Vec<i32>,
    /// The OSDs that serve it.
    #[serde(default)]
    pub acting: Vec<i32>,
    /// The one of them that answers clients.
    #[serde(default)]
    pub acting_primary: Option<i32>,
    /// Sums over its objects.
    #[serde(default)]
    pub stat_sum: PgSums,
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

    /// The OSDs that serve it, each once.
    pub fn holders(&self) -> BTreeSet<i32> {
        distinct(&self.acting)
    }

    /// The OSDs that CRUSH chooses for it, each once.
    pub fn crush_osds(&self) -> BTreeSet<i32> {
        distinct(&self.up)
    }

    /// The OSD that answers clients.
    pub fn primary(&self) -> Option<i32> {
        self.acting_primary.or(self.acting.first().copied())
    }
}

/// Sums over the objects of a placement group.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct PgSums {
    /// Bytes of clients, each counted once.
    #[serde(default)]
    pub num_bytes: u64,
}

/// Whether an OSD is named twice.
pub fn has_duplicates(osds: &[i32]) -> bool {
    distinct(osds).len() < osds.iter().filter(|osd| (0..NONE).contains(*osd)).count()
}

fn distinct(osds: &[i32]) -> BTreeSet<i32> {
    osds.iter().copied().filter(|osd| (0..NONE).contains(osd)).collect()
}
