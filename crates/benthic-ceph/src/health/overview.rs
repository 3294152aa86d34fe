//! The data that the status page shows beside the report: the CRUSH tree, pool usage and client
//! I/O.

use super::report::{OsdNumbers, Report};
use super::snapshot::Snapshot;
use crate::cluster_state::{Io, Node, Pg, Pool, Recovery};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Depth limit, against loops in the tree. CRUSH has about a dozen bucket types, so a deeper tree
/// is invalid.
const DEPTH_MAX: usize = 32;

/// The data that the status page shows beside the report. `None` means not available.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// Client I/O; `None` also if the manager's data are stale.
    pub io: Option<Io>,
    /// Recovery and backfill; `None` also if the manager's data are stale.
    pub recovery: Option<Recovery>,
    /// The roots of the CRUSH tree, the oldest first.
    pub places: Vec<BucketOverview>,
    pub pools: Vec<PoolOverview>,
}

/// A bucket of the CRUSH tree. Its numbers cover all OSDs below it, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BucketOverview {
    pub name: String,
    /// The bucket type, such as `host`.
    #[serde(rename = "type")]
    pub kind: String,
    pub osds: usize,
    /// OSDs that the monitors consider up; `None` if the OSD map could not be read.
    pub osds_up: Option<usize>,
    /// OSDs that are in: CRUSH places data on them.
    pub osds_in: Option<usize>,
    /// OSDs that did not answer Benthic.
    pub osds_silent: usize,
    /// `None` if the size of some OSD is unknown.
    pub total_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    /// Whether the bucket is already listed under another root. If so, its contents are not
    /// repeated.
    pub is_repeated: bool,
    pub places: Vec<BucketOverview>,
    pub own_osds: Vec<OwnOsd>,
}

/// An OSD in a bucket. The report has its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnOsd {
    /// N of `osd.N`.
    pub osd: i32,
    /// The device class, such as `ssd`.
    pub device_class: Option<String>,
}

/// The overview of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolOverview {
    pub id: i64,
    pub pool: String,
    /// Replicas, or chunks of an erasure code.
    pub size: usize,
    /// A placement group with fewer replicas or chunks takes no I/O.
    pub min_size: usize,
    /// Data chunks of the erasure code; `None` for a replicated pool.
    pub data_chunks: Option<usize>,
    pub pgs: u64,
    pub pgs_taking_io: Option<u64>,
    /// Bytes that clients stored, without replication.
    pub stored_bytes: Option<u64>,
    pub objects: Option<u64>,
    pub io: Option<Io>,
    pub recovery: Option<Recovery>,
    /// How many primaries each site holds. The sites are the buckets of the highest level below the
    /// first root that has more than one bucket. Empty if there are no sites, or if the snapshot
    /// has only sums of placement groups.
    pub primaries: BTreeMap<String, u64>,
}

/// Builds the overview of a cluster.
pub fn overview(snapshot: &Snapshot, report: &Report) -> Overview {
    let tree = Tree::of(snapshot, report);
    let sites = tree.sites();
    let primaries = primaries(snapshot.pgs.as_deref().unwrap_or_default(), &sites);
    let pools = snapshot.map.iter().flat_map(|map| &map.pools);
    let pools = pools.map(|pool| of_pool(pool, snapshot, report, &primaries)).collect();
    let digest = snapshot.digest.as_ref().filter(|_| !report.is_stale);
    Overview {
        io: digest.map(|digest| digest.io),
        recovery: digest.map(|digest| digest.recovery),
        places: tree.places(),
        pools,
    }
}

fn of_pool(
    pool: &Pool,
    snapshot: &Snapshot,
    report: &Report,
    primaries: &BTreeMap<i64, BTreeMap<String, u64>>,
) -> PoolOverview {
    let stored = snapshot.stored.iter().flatten().find(|stored| stored.id == pool.id);
    let rates =
        snapshot.pool_io.iter().flatten().find(|io| io.pool_id == pool.id).filter(|_| !report.is_stale);
    let numbers = report.numbers.pools.iter().find(|numbers| numbers.id == pool.id);
    let profiles = snapshot.map.as_ref().map(|map| &map.erasure_code_profiles);
    let profile = profiles.and_then(|profiles| profiles.get(&pool.erasure_code_profile));
    let data_chunks =
        profile.filter(|_| !pool.is_replicated()).and_then(|profile| profile.get("k")?.parse().ok());
    PoolOverview {
        id: pool.id,
        pool: pool.name.clone(),
        size: pool.size,
        min_size: pool.min_size,
        data_chunks,
        pgs: pool.pg_num.into(),
        pgs_taking_io: numbers.and_then(|numbers| numbers.pgs_taking_io),
        stored_bytes: stored.map(|stored| stored.stats.stored),
        objects: stored.map(|stored| stored.stats.objects),
        io: rates.map(|rates| rates.client_io_rate),
        recovery: rates.map(|rates| rates.recovery_rate),
        primaries: primaries.get(&pool.id).cloned().unwrap_or_default(),
    }
}

/// How many primaries each site holds, by pool. Sites without primaries are listed with 0.
fn primaries(pgs: &[Pg], sites: &BTreeMap<i32, &str>) -> BTreeMap<i64, BTreeMap<String, u64>> {
    let none: BTreeMap<String, u64> = sites.values().map(|site| ((*site).to_owned(), 0)).collect();
    let mut counts = BTreeMap::new();
    for pg in pgs {
        let site = pg.primary().and_then(|primary| sites.get(&primary));
        if let (Some(pool), Some(site)) = (pg.pool(), site) {
            let of_pool = counts.entry(pool).or_insert_with(|| none.clone());
            *of_pool.entry((*site).to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The CRUSH tree, and the numbers of its OSDs.
struct Tree<'a> {
    nodes: BTreeMap<i32, &'a Node>,
    /// Buckets that are in no other bucket.
    roots: Vec<&'a Node>,
    osds: BTreeMap<i32, &'a OsdNumbers>,
    knows_osds: bool,
}

impl<'a> Tree<'a> {
    fn of(snapshot: &'a Snapshot, report: &'a Report) -> Tree<'a> {
        let all: Vec<&Node> = snapshot.tree.iter().flat_map(|tree| &tree.nodes).collect();
        let inner: BTreeSet<i32> = all.iter().flat_map(|node| &node.children).copied().collect();
        let mut roots: Vec<&Node> =
            all.iter().copied().filter(|node| node.id < 0 && !inner.contains(&node.id)).collect();
        // CRUSH numbers buckets downward from -1, so the oldest root has the greatest number.
        roots.sort_by_key(|root| std::cmp::Reverse(root.id));
        Tree {
            nodes: all.into_iter().map(|node| (node.id, node)).collect(),
            roots,
            osds: report.numbers.osds.iter().map(|osd| (osd.osd, osd)).collect(),
            knows_osds: report.numbers.knows("osds"),
        }
    }

    fn buckets(&self, node: &Node) -> Vec<&'a Node> {
        let buckets = node.children.iter().filter(|child| **child < 0);
        buckets.filter_map(|child| self.nodes.get(child).copied()).collect()
    }

    /// The site of each OSD; empty if no level below the first root has several buckets.
    fn sites(&self) -> BTreeMap<i32, &'a str> {
        let mut above = self.roots.first().copied();
        for _ in 0..DEPTH_MAX {
            let Some(node) = above else { break };
            let buckets = self.buckets(node);
            if buckets.len() > 1 {
                let osds =
                    |site: &'a Node| self.below(site).into_iter().map(move |osd| (osd, site.name.as_str()));
                return buckets.into_iter().flat_map(osds).collect();
            }
            above = buckets.first().copied();
        }
        BTreeMap::new()
    }

    fn below(&self, node: &Node) -> BTreeSet<i32> {
        let mut ahead = vec![node.id];
        let mut met = BTreeSet::new();
        // Skip nodes that were visited before, so that a loop ends.
        while let Some(id) = ahead.pop() {
            if met.insert(id) && id < 0 {
                ahead.extend(self.nodes.get(&id).into_iter().flat_map(|node| &node.children));
            }
        }
        met.into_iter().filter(|id| *id >= 0).collect()
    }

    fn places(&self) -> Vec<BucketOverview> {
        let mut shown = BTreeSet::new();
        self.roots.iter().map(|root| self.place(root, 0, &mut shown)).collect()
    }

    /// Lists sites that are linked under several roots only once.
    fn place(&self, node: &Node, depth: usize, shown: &mut BTreeSet<i32>) -> BucketOverview {
        let below = self.below(node);
        let osds: Vec<&OsdNumbers> = below.iter().filter_map(|osd| self.osds.get(osd).copied()).collect();
        let mut place = BucketOverview {
            name: node.name.clone(),
            kind: node.kind.clone(),
            osds: below.len(),
            osds_up: self.knows_osds.then(|| osds.iter().filter(|osd| osd.up).count()),
            osds_in: self.knows_osds.then(|| osds.iter().filter(|osd| osd.takes_data).count()),
            osds_silent: osds.iter().filter(|osd| osd.answers == Some(false)).count(),
            total_bytes: self.knows_osds.then(|| sum(osds.iter().map(|osd| osd.total_bytes))).flatten(),
            used_bytes: self.knows_osds.then(|| sum(osds.iter().map(|osd| osd.used_bytes))).flatten(),
            is_repeated: !shown.insert(node.id) || depth >= DEPTH_MAX,
            ..BucketOverview::default()
        };
        if place.is_repeated {
            return place;
        }
        place.places =
            self.buckets(node).into_iter().map(|node| self.place(node, depth + 1, shown)).collect();
        let own = node.children.iter().filter(|child| **child >= 0);
        let own = own.map(|osd| OwnOsd {
            osd: *osd,
            device_class: self.nodes.get(osd).and_then(|node| node.device_class.clone()),
        });
        place.own_osds = own.collect();
        place
    }
}

/// `None` if one of the numbers is unknown.
fn sum(mut bytes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    bytes.try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)))
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
