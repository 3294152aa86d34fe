//! The OSD map: pools, OSDs and the CRUSH tree.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// `type` of a replicated pool.
const REPLICATED: u32 = 1;

/// `osd dump`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OsdMap {
    /// The cluster's identity.
    #[serde(default)]
    pub fsid: String,
    /// Grows with every change of the CRUSH map.
    #[serde(default)]
    pub crush_version: u64,
    /// Flags of the cluster, such as `noout`.
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
    /// The share of its space from which Ceph warns of an OSD.
    #[serde(default)]
    pub nearfull_ratio: f64,
    /// The share from which an OSD takes no replicas from others.
    #[serde(default)]
    pub backfillfull_ratio: f64,
    /// The share from which an OSD takes no writes.
    #[serde(default)]
    pub full_ratio: f64,
    /// All pools.
    pub pools: Vec<Pool>,
    /// All OSDs.
    pub osds: Vec<Osd>,
    /// Placement groups that an operator or the balancer moved away from where CRUSH has them.
    #[serde(default)]
    pub pg_upmap_items: Vec<Value>,
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
    /// With fewer of them a placement group takes no reads and writes.
    #[serde(default)]
    pub min_size: usize,
    /// The number of its rule.
    #[serde(default)]
    pub crush_rule: i64,
    /// Placement groups now.
    pub pg_num: u32,
    /// The number of placement groups that it is on its way to.
    #[serde(default)]
    pub pg_num_target: Option<u32>,
    /// Of the placement groups, those that CRUSH places separately (`pgp_num`).
    #[serde(default)]
    pub pg_placement_num: Option<u32>,
    /// The target of `pg_placement_num`.
    #[serde(default)]
    pub pg_placement_num_target: Option<u32>,
    /// `on` if the autoscaler changes the number of placement groups.
    #[serde(default)]
    pub pg_autoscale_mode: String,
    /// Flags of the pool, with commas between.
    #[serde(default)]
    pub flags_names: String,
    /// The profile of an erasure-coded pool.
    #[serde(default)]
    pub erasure_code_profile: String,
    /// When it was created.
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
        let differs = |now: Option<u32>, target: Option<u32>| {
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
    /// 0 if it is out; less than 1 if it gets less than CRUSH gives it.
    #[serde(default)]
    pub weight: f64,
    /// The epoch in which it last came up: a number that changes when it is started again.
    #[serde(default)]
    pub up_from: u64,
    /// Flags such as `exists` and `noout`.
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

    /// Whether it runs and takes data.
    pub fn serves(&self) -> bool {
        self.is_up() && self.weight > 0.0
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
    /// The nodes below a bucket.
    #[serde(default)]
    pub children: Vec<i32>,
}
