//! A snapshot together with data that several findings need: placement groups by state, and the
//! OSDs that are down.

use crate::cluster_state::{Check, Osd, OsdMap, Pg, StateCount, Tree};
use crate::health::snapshot::{SilentOsd, Snapshot};
use crate::health::timestamp::unix_s;
use std::collections::{BTreeMap, BTreeSet};

/// How long the manager's data may lag behind the monitors' after an OSD goes up, down, in or out.
const SETTLE_S: u64 = 30;
/// A snapshot together with data that several findings need.
pub struct Scene<'a> {
    pub snapshot: &'a Snapshot,
    pub map: Option<&'a OsdMap>,
    pub groups: Groups<'a>,
    pub down: DownOsds,
    /// OSDs that the monitors consider up and that did not answer.
    pub silent: Vec<&'a SilentOsd>,
    /// Whether an OSD changed state so recently that the manager's data may be older.
    pub is_settling: bool,
}

/// OSDs that are down but in.
#[derive(Default)]
pub struct DownOsds {
    pub osds: Vec<i32>,
    /// Whether the outage is planned: `noout` covers all of these OSDs, and they share a parent in
    /// the CRUSH tree or are below nodes for which `noout` was set.
    pub planned: bool,
}

/// Placement groups in the same state. If the snapshot lists placement groups one by one, there is
/// one `Group` for each.
pub struct Group<'a> {
    pub state: &'a str,
    pub count: u64,
    pub pg: Option<&'a Pg>,
}

/// All placement groups; `None` if they are unknown.
pub struct Groups<'a>(Option<Vec<Group<'a>>>);

impl Group<'_> {
    pub fn has(&self, words: &[&str]) -> bool {
        self.state.split('+').any(|word| words.contains(&word))
    }

    /// A stale placement group has lost its primary, and a laggy one does not answer reads.
    pub fn takes_io(&self) -> bool {
        self.has(&["active"]) && !self.has(&["stale", "laggy", "wait"])
    }

    /// Whether the placement group is peering and does not wait for an OSD.
    pub fn is_peering(&self) -> bool {
        self.has(&["peering", "activating", "creating", "unknown", "premerge", "laggy", "wait"])
            && !self.has(&["down", "incomplete", "stale"])
    }

    pub fn is_degraded(&self) -> bool {
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

    /// The number of all placement groups, and of those that take I/O.
    pub fn counts(&self) -> Option<(u64, u64)> {
        let groups = self.0.as_ref()?;
        let taking = groups.iter().filter(|group| group.takes_io()).map(|group| group.count).sum();
        Some((groups.iter().map(|group| group.count).sum(), taking))
    }

    /// Whether recovery or backfill is going on.
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

    /// Placement groups that take I/O, by pool; `None` if the snapshot has only sums. It lacks
    /// pools that the manager does not know yet.
    pub fn taking_io_by_pool(&self) -> Option<BTreeMap<i64, u64>> {
        let mut pools = BTreeMap::new();
        for group in self.0.as_ref()? {
            if let Some(pool) = group.pg?.pool() {
                *pools.entry(pool).or_insert(0) += u64::from(group.takes_io());
            }
        }
        Some(pools)
    }
}

impl<'a> Scene<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Scene<'a> {
        let map = snapshot.map.as_ref();
        let down = map.map(|map| down(map, snapshot.tree.as_ref())).unwrap_or_default();
        let is_down = |silent: &&SilentOsd| {
            map.is_some_and(|map| map.osds.iter().any(|osd| i64::from(osd.id) == silent.osd && !osd.is_up()))
        };
        let silent = snapshot.osd_answers.iter().flat_map(|answers| &answers.silent);
        Scene {
            snapshot,
            map,
            groups: Groups::of(snapshot),
            down,
            silent: silent.filter(|silent| !is_down(silent)).collect(),
            is_settling: is_settling(snapshot),
        }
    }

    /// A Ceph health check, if it fails.
    pub fn check(&self, code: &str) -> Option<&'a Check> {
        self.snapshot.health.as_ref()?.checks.get(code)
    }

    /// Whether all OSDs that are in are up.
    pub fn all_up(&self) -> bool {
        self.map.is_some() && self.down.osds.is_empty()
    }

    /// Whether all OSDs are up, including those that are out.
    pub fn none_down(&self) -> bool {
        self.map.is_some_and(|map| map.osds.iter().all(|osd| osd.is_up()))
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.map.is_some_and(|map| map.flags_set.iter().any(|set| set == flag))
    }

    /// Seconds since a time stamp of Ceph's; `None` for never. A time stamp in the future of this
    /// machine's clock has age 0.
    pub fn age_s(&self, stamp: &str) -> Option<u64> {
        Some(self.snapshot.now_unix_s.saturating_sub(unix_s(stamp)?))
    }
}

fn is_settling(snapshot: &Snapshot) -> bool {
    let Some(map) = &snapshot.map else { return false };
    let lately = |stamp: &str| {
        // The clocks of different machines differ a little.
        unix_s(stamp).is_some_and(|then| then.abs_diff(snapshot.now_unix_s) < SETTLE_S)
    };
    lately(&map.last_up_change) || lately(&map.last_in_change)
}

fn down(map: &OsdMap, tree: Option<&Tree>) -> DownOsds {
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
        // CRUSH has fewer levels than this. The limit ends a loop in a malformed answer.
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
    DownOsds {
        // An operator who sets `noout` for a host, a rack or a site names the OSDs that will be
        // down.
        planned: !gone.is_empty()
            && (gone.iter().all(|osd| below_one(osd))
                || (in_one_place && gone.iter().all(|osd| covered(osd)))),
        osds: gone.iter().map(|osd| osd.id).collect(),
    }
}

/// Names such as `osd.3`.
pub fn osd_names<'a>(osds: impl IntoIterator<Item = &'a i32>) -> Vec<String> {
    osds.into_iter().map(|osd| format!("osd.{osd}")).collect()
}

/// Text such as `1 OSD` or `2 OSDs`.
pub fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
