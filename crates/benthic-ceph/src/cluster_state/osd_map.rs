//! The OSD map: pools, OSDs and the CRUSH tree.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The `type` of a replicated pool.
const REPLICATED: u32 = 1;

/// `osd dump`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OsdMap {
    #[serde(default)]
    pub fsid: String,
    /// The version of the CRUSH map, which grows with every change.
    #[serde(default)]
    pub crush_version: u64,
    #[serde(default)]
    pub flags_set: Vec<String>,
    #[serde(default)]
    pub modified: String,
    /// Time when an OSD last went up or down.
    #[serde(default)]
    pub last_up_change: String,
    /// Time when an OSD last went in or out.
    #[serde(default)]
    pub last_in_change: String,
    /// The used share at which Ceph warns about an OSD.
    #[serde(default)]
    pub nearfull_ratio: f64,
    /// The used share at which an OSD accepts no backfill.
    #[serde(default)]
    pub backfillfull_ratio: f64,
    /// The used share at which an OSD rejects writes.
    #[serde(default)]
    pub full_ratio: f64,
    pub pools: Vec<Pool>,
    pub osds: Vec<Osd>,
    /// Placement groups that an operator or the balancer moved away from the OSDs that CRUSH
    /// chooses.
    #[serde(default)]
    pub pg_upmap_items: Vec<Value>,
    /// Flags of CRUSH nodes, by node name.
    #[serde(default)]
    pub crush_node_flags: BTreeMap<String, Vec<String>>,
    /// Flags of device classes, by class name.
    #[serde(default)]
    pub device_class_flags: BTreeMap<String, Vec<String>>,
    /// Profiles of erasure-coded pools, by name.
    #[serde(default)]
    pub erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
}

impl OsdMap {
    /// The number of placement groups of a pool in [`pg_upmap_items`](OsdMap::pg_upmap_items).
    pub fn upmaps_of(&self, pool: &Pool) -> usize {
        let prefix = format!("{}.", pool.id);
        let is_of_pool = |item: &&Value| item["pgid"].as_str().is_some_and(|pgid| pgid.starts_with(&prefix));
        self.pg_upmap_items.iter().filter(is_of_pool).count()
    }
}

/// A pool.
#[derive(Clone, Debug, Deserialize)]
pub struct Pool {
    #[serde(rename = "pool")]
    pub id: i64,
    #[serde(rename = "pool_name")]
    pub name: String,
    #[serde(rename = "type")]
    kind: u32,
    /// Replicas, or chunks.
    pub size: usize,
    /// A placement group with fewer replicas or chunks takes no I/O.
    #[serde(default)]
    pub min_size: usize,
    #[serde(default)]
    pub crush_rule: i64,
    pub pg_num: u32,
    #[serde(default)]
    pub pg_num_target: Option<u32>,
    /// The number of placement groups that CRUSH places separately (`pgp_num`).
    #[serde(default)]
    pub pg_placement_num: Option<u32>,
    #[serde(default)]
    pub pg_placement_num_target: Option<u32>,
    /// `on` if the autoscaler may change the number of placement groups.
    #[serde(default)]
    pub pg_autoscale_mode: String,
    /// Flags of the pool, separated by commas.
    #[serde(default)]
    pub flags_names: String,
    #[serde(default)]
    pub erasure_code_profile: String,
    #[serde(default)]
    pub create_time: String,
}

impl Pool {
    pub fn is_replicated(&self) -> bool {
        self.kind == REPLICATED
    }

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
    #[serde(rename = "osd")]
    pub id: i32,
    up: u8,
    #[serde(rename = "in")]
    takes_data: u8,
    /// The reweight: 0 if the OSD is out, less than 1 if it gets less data than its CRUSH weight
    /// implies.
    #[serde(default)]
    pub weight: f64,
    /// The epoch in which the OSD last came up. It changes when the OSD restarts.
    #[serde(default)]
    pub up_from: u64,
    /// The last addresses for clients. librados connects to the first, which is that of msgr2.
    #[serde(default)]
    public_addrs: Addresses,
    /// The last address for clients that do not use msgr2, such as `10.0.0.1:6801/1234`.
    #[serde(default)]
    public_addr: String,
    /// Flags such as `exists` and `noout`.
    #[serde(default)]
    pub state: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Addresses {
    #[serde(default)]
    addrvec: Vec<Address>,
}

#[derive(Clone, Debug, Deserialize)]
struct Address {
    /// Such as `10.0.0.1:6800`.
    #[serde(default)]
    addr: String,
}

impl Osd {
    pub fn is_up(&self) -> bool {
        self.up == 1
    }

    /// The last address for clients; `None` if the OSD has never been up.
    pub fn address(&self) -> Option<SocketAddr> {
        let first = self.public_addrs.addrvec.first().and_then(|first| first.addr.parse().ok());
        first.or_else(|| self.public_addr.rsplit_once('/')?.0.parse().ok())
    }

    /// Whether the OSD is in: CRUSH places data on it.
    pub fn is_in(&self) -> bool {
        self.takes_data == 1
    }

    /// Whether the OSD is up and has a reweight above 0.
    pub fn serves(&self) -> bool {
        self.is_up() && self.weight > 0.0
    }
}

/// `osd tree`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

/// A node of the CRUSH tree.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// The node's number; negative for a bucket.
    pub id: i32,
    pub name: String,
    /// The bucket type, such as `host`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The device class of an OSD, such as `ssd`.
    #[serde(default)]
    pub device_class: Option<String>,
    #[serde(default)]
    pub children: Vec<i32>,
}
