//! What a page for people shows beside the report: where OSDs are, what pools hold, and what clients do.

use super::report::{OsdNumbers, Report};
use super::snapshot::Snapshot;
use crate::cluster_state::{Io, Node, Pg, Pool, Recovery};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// CRUSH has about a dozen types of buckets; a tree that is deeper is no tree.
const DEPTH_MAX: usize = 32;

/// What is shown beside the report. What is `None` could not be seen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// What clients do; `None` also if the manager's last word on it is old.
    pub io: Option<Io>,
    /// What is made anew or moved; `None` as for clients.
    pub recovery: Option<Recovery>,
    /// The roots of the CRUSH tree; the one that was made first comes first.
    pub places: Vec<BucketOverview>,
    /// Pools.
    pub pools: Vec<PoolOverview>,
}

/// A bucket of the CRUSH tree. Its numbers are of all OSDs below it, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BucketOverview {
    /// Its name.
    pub name: String,
    /// Such as `host`.
    #[serde(rename = "type")]
    pub kind: String,
    /// OSDs.
    pub osds: usize,
    /// Those that run.
    pub osds_up: usize,
    /// Those that data are to be on.
    pub osds_in: usize,
    /// Their space, as far as it is known.
    pub total_bytes: u64,
    /// Of it used.
    pub used_bytes: u64,
    /// Whether it was listed with all that is in it under another root already, and is not again.
    pub is_repeated: bool,
    /// The buckets in it.
    pub places: Vec<BucketOverview>,
    /// The OSDs in it that are in none of those.
    pub own_osds: Vec<OwnOsd>,
}

/// An OSD in a bucket. The report has its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnOsd {
    /// N of `osd.N`.
    pub osd: i32,
    /// Such as `ssd`.
    pub device_class: Option<String>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolOverview {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub pool: String,
    /// Replicas, or chunks of an erasure code.
    pub size: usize,
    /// With fewer of them a placement group takes no writes.
    pub min_size: usize,
    /// Of the chunks those that hold data; `None` if the pool keeps replicas.
    pub data_chunks: Option<usize>,
    /// Its placement groups.
    pub pgs: u64,
    /// Those of them that take I/O.
    pub pgs_taking_io: Option<u64>,
    /// Bytes of clients, each counted once.
    pub stored_bytes: Option<u64>,
    /// Objects.
    pub objects: Option<u64>,
    /// What clients do with it.
    pub io: Option<Io>,
    /// What of it is made anew or moved.
    pub recovery: Option<Recovery>,
    /// How many of its placement groups have their primary at which site: the places where the first root first has several. Empty
    /// where there are none, or the placement groups were not asked one by one.
    pub primaries: BTreeMap<String, u64>,
}

/// What is shown of a cluster beside the report on it.
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

/// By pool, how many primaries each site has; sites without any are named too.
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

/// The CRUSH tree, and what OSDs are like.
struct Tree<'a> {
    nodes: BTreeMap<i32, &'a Node>,
    /// Buckets that are in no other.
    roots: Vec<&'a Node>,
    osds: BTreeMap<i32, &'a OsdNumbers>,
}

impl<'a> Tree<'a> {
    fn of(snapshot: &'a Snapshot, report: &'a Report) -> Tree<'a> {
        let all: Vec<&Node> = snapshot.tree.iter().flat_map(|tree| &tree.nodes).collect();
        let inner: BTreeSet<i32> = all.iter().flat_map(|node| &node.children).copied().collect();
        let mut roots: Vec<&Node> =
            all.iter().copied().filter(|node| node.id < 0 && !inner.contains(&node.id)).collect();
        // Numbers of buckets go down from -1.
        roots.sort_by_key(|root| std::cmp::Reverse(root.id));
        Tree {
            nodes: all.into_iter().map(|node| (node.id, node)).collect(),
            roots,
            osds: report.numbers.osds.iter().map(|osd| (osd.osd, osd)).collect(),
        }
    }

    fn buckets(&self, node: &Node) -> Vec<&'a Node> {
        let buckets = node.children.iter().filter(|child| **child < 0);
        buckets.filter_map(|child| self.nodes.get(child).copied()).collect()
    }

    /// The site of each OSD; empty if no bucket has several.
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

    /// The OSDs below a node.
    fn below(&self, node: &Node) -> BTreeSet<i32> {
        let mut ahead = vec![node.id];
        let mut met = BTreeSet::new();
        // What was met is not looked at again, so a loop ends.
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

    /// Sites that are linked under several roots are listed once.
    fn place(&self, node: &Node, depth: usize, shown: &mut BTreeSet<i32>) -> BucketOverview {
        let below = self.below(node);
        let osds: Vec<&OsdNumbers> = below.iter().filter_map(|osd| self.osds.get(osd).copied()).collect();
        let mut place = BucketOverview {
            name: node.name.clone(),
            kind: node.kind.clone(),
            osds: below.len(),
            osds_up: osds.iter().filter(|osd| osd.up).count(),
            osds_in: osds.iter().filter(|osd| osd.takes_data).count(),
            total_bytes: sum(osds.iter().filter_map(|osd| osd.total_bytes)),
            used_bytes: sum(osds.iter().filter_map(|osd| osd.used_bytes)),
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

fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
