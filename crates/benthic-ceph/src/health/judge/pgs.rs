//! Placement groups: which take I/O, which have less than they should, and which are only on the move.

use super::{Scene, several};
use crate::health::answers::{Map, Pg, Pool};
use crate::health::report::{Finding, Severity};
use crate::health::snapshot::Snapshot;
use std::collections::BTreeMap;

/// How long a placement group may take to find out what it has, after which it takes no I/O for a reason.
const PEERING_S: u64 = 60;

/// Placement groups that are in one state: one of them each if they were asked one by one.
struct Group<'a> {
    state: &'a str,
    count: u64,
    pg: Option<&'a Pg>,
}

/// All placement groups.
pub(super) struct Groups<'a>(Option<Vec<Group<'a>>>);

impl Group<'_> {
    fn has(&self, words: &[&str]) -> bool {
        self.state.split('+').any(|word| words.contains(&word))
    }

    /// A group that is stale has lost its primary, and one that is laggy does not answer reads.
    fn takes_io(&self) -> bool {
        self.has(&["active"]) && !self.has(&["stale", "laggy", "wait"])
    }

    /// Whether it is finding out what it has, and not waiting for an OSD.
    fn is_peering(&self) -> bool {
        self.has(&["peering", "activating", "creating", "unknown", "premerge", "laggy", "wait"])
            && !self.has(&["down", "incomplete", "stale"])
    }

    fn has_less(&self) -> bool {
        self.has(&["degraded", "undersized"])
    }

    fn is_moving(&self) -> bool {
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
    pub(super) fn of(snapshot: &'a Snapshot) -> Groups<'a> {
        if let Some(pgs) = &snapshot.pgs {
            return Groups(Some(
                pgs.iter().map(|pg| Group { state: &pg.state, count: 1, pg: Some(pg) }).collect(),
            ));
        }
        let states = snapshot.digest.as_ref().map(|digest| &digest.pgs_by_state);
        Groups(states.map(|states| {
            let group = |state: &'a crate::health::answers::StateCount| Group {
                state: &state.state_name,
                count: state.count,
                pg: None,
            };
            states.iter().map(group).collect()
        }))
    }

    fn all(&self) -> impl Iterator<Item = &Group<'a>> {
        self.0.iter().flatten()
    }

    /// All of them, and those that take I/O.
    pub(super) fn counts(&self) -> Option<(u64, u64)> {
        let groups = self.0.as_ref()?;
        let taking = groups.iter().filter(|group| group.takes_io()).map(|group| group.count).sum();
        Some((groups.iter().map(|group| group.count).sum(), taking))
    }

    /// Whether data are on their way to other OSDs.
    pub(super) fn are_moving(&self) -> bool {
        let words =
            ["recovering", "recovery_wait", "backfilling", "backfill_wait", "backfill_toofull", "backfill"];
        self.all().any(|group| group.has(&words))
    }

    pub(super) fn by_state(&self) -> BTreeMap<String, u64> {
        let mut states = BTreeMap::new();
        for group in self.all() {
            *states.entry(group.state.to_owned()).or_insert(0) += group.count;
        }
        states
    }

    /// `None` if they could not be asked one by one.
    pub(super) fn taking_io_by_pool(&self) -> Option<BTreeMap<i64, u64>> {
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

/// Some of the groups: how many, and their numbers as far as they are known.
#[derive(Default)]
struct Chosen<'a> {
    count: u64,
    pgs: Vec<&'a Pg>,
}

impl<'a> Chosen<'a> {
    fn of<'b>(groups: impl Iterator<Item = &'b Group<'a>>) -> Chosen<'a>
    where
        'a: 'b,
    {
        let mut some = Chosen::default();
        for group in groups {
            some.count += group.count;
            some.pgs.extend(group.pg);
        }
        some
    }

    fn told(&self) -> String {
        several(self.count, "placement group")
    }

    fn finding(&self, finding: Finding) -> Finding {
        finding.of(self.pgs.iter().map(|pg| pg.pgid.clone())).count(self.count)
    }
}

pub(super) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(inactive(scene));
    findings.extend(with_less(scene));
    findings.extend(last_copies(scene));
    findings.extend(moving(scene));
    findings.extend(damaged(scene));
    findings.extend(unfound(scene));
    findings
}

fn inactive(scene: &Scene<'_>) -> Vec<Finding> {
    let is_passing = |group: &Group<'_>| match group.pg {
        _ if scene.is_settling && scene.none_down() => true,
        // A group is stale from the moment when its primary is down until the next one has told of it.
        Some(_) if group.has(&["stale"]) => scene.is_settling,
        Some(pg) => group.is_peering() && scene.age_s(&pg.last_change).is_none_or(|age_s| age_s < PEERING_S),
        None => group.is_peering() && (scene.is_settling || scene.check("PG_AVAILABILITY").is_none()),
    };
    // Of sums nobody knows since when. What peers does so because OSDs or pools have changed, and if that is long ago it is stuck.
    let changed_lately = scene.map.is_some_and(|map| changed_lately(scene, map));
    let may_pass = |group: &Group<'_>| group.pg.is_none() && group.is_peering() && changed_lately;
    let not_taking = || scene.groups.all().filter(|group| !group.takes_io());
    let passing = Chosen::of(not_taking().filter(|group| is_passing(group) || may_pass(group)));
    let stuck = Chosen::of(not_taking().filter(|group| !is_passing(group) && !may_pass(group)));
    let is_sure = not_taking().all(is_passing);
    let mut findings = Vec::new();
    if stuck.count > 0 {
        let what = format!("{} without reads and writes", stuck.told());
        let next = "bring the OSDs back that are down (`ceph osd tree down`); `ceph pg PG query` tells what a group waits for";
        let finding = Finding::new("CephPGsInactive", Severity::Error, what, next);
        findings.push(stuck.finding(finding).stops_io().check("PG_AVAILABILITY"));
    } else if passing.count > 0 {
        let (severity, what, next) = if is_sure {
            (
                Severity::Info,
                format!("{} peering: without I/O for a moment", passing.told()),
                "nothing; this is what a change of OSDs or pools looks like for some seconds",
            )
        } else {
            (
                Severity::Warning,
                format!(
                    "{} peering: without I/O since OSDs or pools changed, or a shorter time",
                    passing.told()
                ),
                "look again in a minute; of so many placement groups only sums are known",
            )
        };
        findings.push(passing.finding(Finding::new("BenthicPGsPeering", severity, what, next)));
    }
    findings
}

/// Whether OSDs or pools changed so that placement groups peer. That the map did says little: snapshots and the balancer change the
/// map of a busy cluster every few seconds.
fn changed_lately(scene: &Scene<'_>, map: &Map) -> bool {
    let lately = |stamp: &str| scene.age_s(stamp).is_some_and(|age_s| age_s < PEERING_S);
    let of_pool = |pool: &Pool| {
        // Of a pool that is split or merged the map tells no time.
        lately(&pool.create_time) || (pool.is_resizing() && lately(&map.modified))
    };
    lately(&map.last_up_change) || lately(&map.last_in_change) || map.pools.iter().any(of_pool)
}

fn pools<'a>(scene: &Scene<'a>) -> BTreeMap<i64, &'a Pool> {
    scene.map.into_iter().flat_map(|map| &map.pools).map(|pool| (pool.id, pool)).collect()
}

/// Those that take I/O with fewer replicas than they should have.
fn with_less(scene: &Scene<'_>) -> Option<Finding> {
    let less = || scene.groups.all().filter(|group| group.takes_io() && group.has_less());
    let all = Chosen::of(less());
    if all.count == 0 {
        return None;
    }
    let stands_still = scene.has_flag("norecover") || scene.has_flag("nobackfill");
    let pools = pools(scene);
    let begins = |group: &Group<'_>| {
        // What CRUSH finds too few OSDs for stays as it is; the rest begins to move in a moment.
        let Some(pg) = group.pg else { return false };
        let pool = pg.pool().and_then(|id| pools.get(&id));
        pool.is_some_and(|pool| pg.chosen() >= pool.size)
            && scene.age_s(&pg.last_change).is_none_or(|age_s| age_s < PEERING_S)
    };
    let on_its_way = scene.is_settling || less().all(|group| group.is_moving() || begins(group));
    let missing = match scene.snapshot.digest.as_ref().map_or(0, |digest| digest.degraded_objects) {
        0 => String::new(),
        objects => format!("; {} missing", several(objects, "replica")),
    };
    let silent = scene.snapshot.health.as_ref().is_some_and(|health| health.status == "HEALTH_OK");
    let (severity, what, next) = if scene.down.planned && !scene.down.osds.is_empty() {
        (
            Severity::Info,
            format!("{} with too few OSDs while noout is set{missing}", all.told()),
            "start the OSDs again and `ceph osd unset noout` when the work is done",
        )
    } else if scene.all_up() && on_its_way && !stands_still {
        // An OSD that is down and out was most likely lost: who takes one away on purpose lets its data move first.
        let severity = if scene.none_down() { Severity::Info } else { Severity::Warning };
        (
            severity,
            format!("{} being made whole, with all OSDs up that data are to be on{missing}", all.told()),
            "nothing; `benthic health --watch` shows how it goes on",
        )
    } else if scene.all_up() && stands_still {
        (
            Severity::Warning,
            format!("{} not made whole because norecover or nobackfill is set{missing}", all.told()),
            "`ceph osd unset norecover` and `ceph osd unset nobackfill`",
        )
    } else if scene.all_up() && silent {
        (
            Severity::Warning,
            format!("{} with too few OSDs, though Ceph calls itself healthy", all.told()),
            "`benthic placement lint` looks for a rule that finds too few OSDs, or one of them twice",
        )
    } else if scene.all_up() {
        (
            Severity::Warning,
            format!("{} with too few OSDs though all are up{missing}", all.told()),
            "`benthic placement lint` looks for a rule that finds too few OSDs",
        )
    } else {
        (
            Severity::Warning,
            format!("{} with too few OSDs{missing}", all.told()),
            "bring the OSDs back that are down, or let Ceph make the data anew elsewhere",
        )
    };
    let finding = all.finding(Finding::new("BenthicPGsDegraded", severity, what, next));
    Some(if scene.check("PG_DEGRADED").is_some() { finding.check("PG_DEGRADED") } else { finding })
}

/// Those that the next failure of an OSD would lose data of.
fn last_copies(scene: &Scene<'_>) -> Option<Finding> {
    let pools = pools(scene);
    let needed = |pool: &Pool| match scene.map?.erasure_code_profiles.get(&pool.erasure_code_profile) {
        Some(profile) if !pool.is_replicated() => profile.get("k")?.parse::<usize>().ok(),
        _ => Some(1),
    };
    let is_last = |group: &&Group<'_>| {
        let Some(pg) = group.pg else { return false };
        let pool = pg.pool().and_then(|id| pools.get(&id));
        pool.is_some_and(|pool| {
            needed(pool).is_some_and(|needed| pool.size > needed && pg.holders() == needed)
        })
    };
    let last = scene.groups.all().filter(|group| group.takes_io() && group.has_less()).filter(is_last);
    let last = Chosen::of(last);
    // Who comes back has its copies; who was marked out while it was down has not.
    if last.count == 0 || (scene.is_settling && scene.none_down()) {
        return None;
    }
    let severity = if scene.down.planned { Severity::Warning } else { Severity::Error };
    let what = format!("{} with one copy left: the next OSD that is lost takes data with it", last.told());
    let next = "bring the OSDs back that are down, before anything else";
    Some(last.finding(Finding::new("BenthicPGsLastCopy", severity, what, next)))
}

fn moving(scene: &Scene<'_>) -> Option<Finding> {
    let is_moving = |group: &&Group<'_>| {
        group.takes_io()
            && !group.has_less()
            && !group.has(&["clean"])
            && (group.is_moving() || group.has(&["remapped"]))
    };
    let moving = Chosen::of(scene.groups.all().filter(is_moving));
    if moving.count == 0 {
        return None;
    }
    let misplaced = scene.snapshot.digest.as_ref().map_or(0, |digest| digest.misplaced_objects);
    let what = format!("{} moving to other OSDs, {} to go", moving.told(), several(misplaced, "replica"));
    let next = "nothing; every replica is there until its new one is";
    Some(moving.finding(Finding::new("BenthicPGsMoving", Severity::Info, what, next)))
}

fn damaged(scene: &Scene<'_>) -> Option<Finding> {
    let words = ["inconsistent", "snaptrim_error", "failed_repair"];
    let damaged = Chosen::of(scene.groups.all().filter(|group| group.has(&words)));
    let check = ["PG_DAMAGED", "OSD_SCRUB_ERRORS"].into_iter().find(|code| scene.check(code).is_some());
    // An object that is not found counts as damage to Ceph; it has a finding of its own.
    let is_unfound = scene.check("OBJECT_UNFOUND").is_some() && scene.check("OSD_SCRUB_ERRORS").is_none();
    if damaged.count == 0 && (check.is_none() || is_unfound) {
        return None;
    }
    let what = match damaged.count {
        0 => "scrub has found replicas that differ".to_owned(),
        _ => format!("scrub has found replicas that differ in {}", damaged.told()),
    };
    let next =
        "`rados list-inconsistent-obj PG` tells which, `ceph pg repair PG` takes the replicas that are whole";
    let finding = damaged.finding(Finding::new("CephPGsDamaged", Severity::Error, what, next));
    Some(finding.check(check.unwrap_or("PG_DAMAGED")))
}

fn unfound(scene: &Scene<'_>) -> Option<Finding> {
    let objects = scene.snapshot.digest.as_ref().map_or(0, |digest| digest.unfound_objects);
    let check = scene.check("OBJECT_UNFOUND");
    if objects == 0 && check.is_none() {
        return None;
    }
    let count = objects.max(1);
    let what = format!(
        "no OSD that is up has the latest version of {}: whoever reads waits",
        several(count, "object")
    );
    let next = "bring back the OSDs that were up last; `ceph pg PG list_unfound` names the objects";
    let finding = Finding::new("CephObjectMissing", Severity::Error, what, next).count(count);
    Some(finding.stops_io().check("OBJECT_UNFOUND"))
}
