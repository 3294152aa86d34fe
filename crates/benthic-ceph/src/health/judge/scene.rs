//! A snapshot, and what several findings follow from: placement groups by state, and the OSDs that are down.

use crate::cluster_state::{Check, Osd, OsdMap, Pg, StateCount, Tree};
use crate::health::snapshot::Snapshot;
use crate::health::timestamp::unix_s;
use std::collections::{BTreeMap, BTreeSet};

/// How long after an OSD came or went the manager's picture may lag behind the monitors'.
const SETTLE_S: u64 = 30;
/// A snapshot, and what several findings follow from.
pub struct Scene<'a> {
    pub snapshot: &'a Snapshot,
    pub map: Option<&'a OsdMap>,
    pub groups: Groups<'a>,
    pub down: Down,
    /// Whether an OSD came or went so lately that the manager's picture may be older.
    pub is_settling: bool,
}

/// OSDs that are down though data are to be on them.
#[derive(Default)]
pub struct Down {
    pub osds: Vec<i32>,
    /// Whether `noout` covers all of them, and they are in one place, or below nodes that it was set for.
    pub planned: bool,
}

/// Placement groups that are in one state: one of them each if they were asked one by one.
pub struct Group<'a> {
    pub state: &'a str,
    pub count: u64,
    pub pg: Option<&'a Pg>,
}

/// All placement groups.
pub struct Groups<'a>(Option<Vec<Group<'a>>>);

impl Group<'_> {
    pub fn has(&self, words: &[&str]) -> bool {
        self.state.split('+').any(|word| words.contains(&word))
    }

    /// A group that is stale has lost its primary, and one that is laggy does not answer reads.
    pub fn takes_io(&self) -> bool {
        self.has(&["active"]) && !self.has(&["stale", "laggy", "wait"])
    }

    /// Whether it is finding out what it has, and not waiting for an OSD.
    pub fn is_peering(&self) -> bool {
        self.has(&["peering", "activating", "creating", "unknown", "premerge", "laggy", "wait"])
            && !self.has(&["down", "incomplete", "stale"])
    }

    pub fn has_less(&self) -> bool {
        self.has(&["degraded", "undersized"])
    }

    pub fn is_moving(&self) -> bool {
        self.has(&[
            "recovering",
            "recovery_wait",
            "backfilling",
            "backfill_wait",
            "backfill",
            "peering",
            "activating",
        ])
    }
}

impl<'a> Groups<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Groups<'a> {
        if let Some(pgs) = &snapshot.pgs {
            return Groups(Some(
                pgs.iter().map(|pg| Group { state: &pg.state, count: 1, pg: Some(pg) }).collect(),
            ));
        }
        let states = snapshot.digest.as_ref().map(|digest| &digest.pgs_by_state);
        Groups(states.map(|states| {
            let group =
                |state: &'a StateCount| Group { state: &state.state_name, count: state.count, pg: None };
            states.iter().map(group).collect()
        }))
    }

    pub fn all(&self) -> impl Iterator<Item = &Group<'a>> {
        self.0.iter().flatten()
    }

    /// All of them, and those that take I/O.
    pub fn counts(&self) -> Option<(u64, u64)> {
        let groups = self.0.as_ref()?;
        let taking = groups.iter().filter(|group| group.takes_io()).map(|group| group.count).sum();
        Some((groups.iter().map(|group| group.count).sum(), taking))
    }

    /// Whether data are on their way to other OSDs.
    pub fn are_moving(&self) -> bool {
        let words =
            ["recovering", "recovery_wait", "backfilling", "backfill_wait", "backfill_toofull", "backfill"];
        self.all().any(|group| group.has(&words))
    }

    pub fn by_state(&self) -> BTreeMap<String, u64> {
        let mut states = BTreeMap::new();
        for group in self.all() {
            *states.entry(group.state.to_owned()).or_insert(0) += group.count;
        }
        states
    }

    /// `None` if they could not be asked one by one.
    pub fn taking_io_by_pool(&self) -> Option<BTreeMap<i64, u64>> {
        let mut pools = BTreeMap::new();
        for group in self.0.as_ref()? {
            let pool = group.pg?.pool();
            if let Some(pool) = pool.filter(|_| group.takes_io()) {
                *pools.entry(pool).or_insert(0) += 1;
            }
        }
        Some(pools)
    }
}

impl<'a> Scene<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Scene<'a> {
        let map = snapshot.map.as_ref();
        let down = map.map(|map| down(map, snapshot.tree.as_ref())).unwrap_or_default();
        Scene { snapshot, map, groups: Groups::of(snapshot), down, is_settling: is_settling(snapshot) }
    }

    /// One of Ceph's checks, if it does not hold.
    pub fn check(&self, code: &str) -> Option<&'a Check> {
        self.snapshot.health.as_ref()?.checks.get(code)
    }

    /// Whether every OSD runs that data are to be on.
    pub fn all_up(&self) -> bool {
        self.map.is_some() && self.down.osds.is_empty()
    }

    /// Whether every OSD that there is runs, also those that data are on no more.
    pub fn none_down(&self) -> bool {
        self.map.is_some_and(|map| map.osds.iter().all(|osd| osd.is_up()))
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.map.is_some_and(|map| map.flags_set.iter().any(|set| set == flag))
    }

    /// Seconds since a time that Ceph wrote; `None` for never. Where this machine's clock is behind it was just now.
    pub fn age_s(&self, stamp: &str) -> Option<u64> {
        Some(self.snapshot.now_unix_s.saturating_sub(unix_s(stamp)?))
    }
}

fn is_settling(snapshot: &Snapshot) -> bool {
    let Some(map) = &snapshot.map else { return false };
    let lately = |stamp: &str| {
        // Clocks of different machines differ a little.
        unix_s(stamp).is_some_and(|then| then.abs_diff(snapshot.now_unix_s) < SETTLE_S)
    };
    lately(&map.last_up_change) || lately(&map.last_in_change)
}

fn down(map: &OsdMap, tree: Option<&Tree>) -> Down {
    let parents: BTreeMap<i32, (i32, &str)> = tree
        .into_iter()
        .flat_map(|tree| &tree.nodes)
        .flat_map(|node| node.children.iter().map(move |child| (*child, (node.id, node.name.as_str()))))
        .collect();
    let class_of = |osd: i32| {
        tree.and_then(|tree| tree.nodes.iter().find(|node| node.id == osd)?.device_class.as_deref())
    };
    let noout = |flags: &[String]| flags.iter().any(|flag| flag == "noout");
    let below_one = |osd: &Osd| {
        let mut above = parents.get(&osd.id);
        // A tree has no more levels than CRUSH has types, and a loop in an answer must not hang us.
        for _ in 0..64 {
            let Some((id, name)) = above else { break };
            if map.crush_node_flags.get(*name).is_some_and(|flags| noout(flags)) {
                return true;
            }
            above = parents.get(id);
        }
        false
    };
    let covered = |osd: &Osd| {
        let of_class = class_of(osd.id).and_then(|class| map.device_class_flags.get(class));
        below_one(osd)
            || noout(&map.flags_set)
            || noout(&osd.state)
            || of_class.is_some_and(|flags| noout(flags))
    };
    let gone: Vec<_> = map.osds.iter().filter(|osd| !osd.is_up() && osd.is_in()).collect();
    let places: BTreeSet<_> = gone.iter().map(|osd| parents.get(&osd.id).map(|(id, _)| *id)).collect();
    let in_one_place = gone.len() == 1 || (places.len() == 1 && !places.contains(&None));
    Down {
        // Who set it for a host, a rack or a site said what is going to be down.
        planned: !gone.is_empty()
            && (gone.iter().all(|osd| below_one(osd))
                || (in_one_place && gone.iter().all(|osd| covered(osd)))),
        osds: gone.iter().map(|osd| osd.id).collect(),
    }
}

/// `osd.3`.
pub fn osd_names<'a>(osds: impl IntoIterator<Item = &'a i32>) -> Vec<String> {
    osds.into_iter().map(|osd| format!("osd.{osd}")).collect()
}

/// `1 OSD`, `2 OSDs`.
pub fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
