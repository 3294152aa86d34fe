//! Findings about placement groups: inactive, degraded, on their last copy, moving, or damaged.

use super::scene::{Group, Scene, several};
use crate::cluster_state::{OsdMap, Pg, Pool};
use crate::health::report::{Finding, Severity};
use std::collections::BTreeMap;

/// How long a placement group may peer before it counts as stuck.
const PEERING_S: u64 = 60;

/// A set of placement groups: their number, and their details where they are known.
#[derive(Default)]
struct GroupSet<'a> {
    count: u64,
    pgs: Vec<&'a Pg>,
}

impl<'a> GroupSet<'a> {
    fn of<'b>(groups: impl Iterator<Item = &'b Group<'a>>) -> GroupSet<'a>
    where
        'a: 'b,
    {
        let mut some = GroupSet::default();
        for group in groups {
            some.count += group.count;
            some.pgs.extend(group.pg);
        }
        some
    }

    fn summary(&self) -> String {
        several(self.count, "placement group")
    }

    fn finding(&self, finding: Finding) -> Finding {
        finding.of(self.pgs.iter().map(|pg| pg.pgid.clone())).count(self.count)
    }
}

pub(super) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let others = [degraded(scene), last_copies(scene), moving(scene), damaged(scene), unfound(scene)];
    inactive(scene).into_iter().chain(others.into_iter().flatten()).collect()
}

fn inactive(scene: &Scene<'_>) -> Vec<Finding> {
    let is_passing = |group: &Group<'_>| match group.pg {
        _ if scene.is_settling && scene.none_down() => true,
        // A placement group is stale from the moment its primary goes down until the next primary
        // reports.
        Some(_) if group.has(&["stale"]) => scene.is_settling,
        Some(pg) => group.is_peering() && scene.age_s(&pg.last_change).is_none_or(|age_s| age_s < PEERING_S),
        None => group.is_peering() && (scene.is_settling || scene.check("PG_AVAILABILITY").is_none()),
    };
    // With sums only, the start of peering is unknown. Placement groups peer after OSDs or pools
    // change. If the last such change is long ago, they are stuck.
    let changed_lately = scene.map.is_some_and(|map| changed_lately(scene, map));
    let may_pass = |group: &Group<'_>| group.pg.is_none() && group.is_peering() && changed_lately;
    let not_taking = || scene.groups.all().filter(|group| !group.takes_io());
    let passing = GroupSet::of(not_taking().filter(|group| is_passing(group) || may_pass(group)));
    let stuck = GroupSet::of(not_taking().filter(|group| !is_passing(group) && !may_pass(group)));
    let is_sure = not_taking().all(is_passing);
    let mut findings = Vec::new();
    if stuck.count > 0 {
        let what = format!("{} without I/O: reads and writes wait", stuck.summary());
        let next = "bring the OSDs that are down back (`ceph osd tree down`); `ceph pg PG query` shows why a group is inactive";
        let finding = Finding::new("CephPGsInactive", Severity::Error, what, next);
        findings.push(stuck.finding(finding).stops_io().check("PG_AVAILABILITY"));
    } else if passing.count > 0 {
        let (severity, what, next) = if is_sure {
            (
                Severity::Info,
                format!("{} peering: no I/O for a moment", passing.summary()),
                "wait; peering takes some seconds after a change of OSDs or pools",
            )
        } else {
            (
                Severity::Warning,
                format!("{} peering: no I/O, at most since OSDs or pools last changed", passing.summary()),
                "check again in a minute; a cluster of this size reports only sums of placement groups",
            )
        };
        findings.push(passing.finding(Finding::new("BenthicPGsPeering", severity, what, next)));
    }
    findings
}

/// Whether OSDs or pools changed recently in a way that makes placement groups peer. The map's own
/// time of change does not tell: in a busy cluster, snapshots and the balancer change the map every
/// few seconds.
fn changed_lately(scene: &Scene<'_>, map: &OsdMap) -> bool {
    let lately = |stamp: &str| scene.age_s(stamp).is_some_and(|age_s| age_s < PEERING_S);
    let of_pool = |pool: &Pool| {
        // The map has no time stamp for splitting and merging a pool's placement groups.
        lately(&pool.create_time) || (pool.is_resizing() && lately(&map.modified))
    };
    lately(&map.last_up_change) || lately(&map.last_in_change) || map.pools.iter().any(of_pool)
}

fn pools<'a>(scene: &Scene<'a>) -> BTreeMap<i64, &'a Pool> {
    scene.map.into_iter().flat_map(|map| &map.pools).map(|pool| (pool.id, pool)).collect()
}

/// Placement groups that take I/O with fewer replicas than they should have.
fn degraded(scene: &Scene<'_>) -> Option<Finding> {
    let less = || scene.groups.all().filter(|group| group.takes_io() && group.is_degraded());
    let all = GroupSet::of(less());
    if all.count == 0 {
        return None;
    }
    let stands_still = scene.has_flag("norecover") || scene.has_flag("nobackfill");
    let pools = pools(scene);
    let begins = |group: &Group<'_>| {
        // A placement group for which CRUSH finds too few OSDs stays degraded. All others start to
        // recover within moments.
        let Some(pg) = group.pg else { return false };
        let pool = pg.pool().and_then(|id| pools.get(&id));
        pool.is_some_and(|pool| pg.crush_osds().len() >= pool.size)
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
            format!("{} with too few OSDs while noout is set{missing}", all.summary()),
            "when the work is done, start the OSDs and run `ceph osd unset noout`",
        )
    } else if scene.all_up() && on_its_way && !stands_still {
        // An OSD that is down and out has probably failed: an operator who removes an OSD on
        // purpose first lets its data move.
        let severity = if scene.none_down() { Severity::Info } else { Severity::Warning };
        (
            severity,
            format!("{} recovering, and all OSDs that are in are up{missing}", all.summary()),
            "wait; `benthic health --watch` shows the progress",
        )
    } else if scene.all_up() && stands_still {
        (
            Severity::Warning,
            format!("{} not recovering because norecover or nobackfill is set{missing}", all.summary()),
            "`ceph osd unset norecover` and `ceph osd unset nobackfill`",
        )
    } else if scene.all_up() && silent {
        (
            Severity::Warning,
            format!("{} with too few OSDs, though Ceph calls itself healthy", all.summary()),
            "`benthic placement lint` finds rules that choose too few OSDs, or the same OSD twice",
        )
    } else if scene.all_up() {
        (
            Severity::Warning,
            format!("{} with too few OSDs though all are up{missing}", all.summary()),
            "`benthic placement lint` finds rules that choose too few OSDs",
        )
    } else {
        (
            Severity::Warning,
            format!("{} with too few OSDs{missing}", all.summary()),
            "bring the OSDs that are down back, or let Ceph rebuild the data elsewhere",
        )
    };
    let finding = all.finding(Finding::new("BenthicPGsDegraded", severity, what, next));
    Some(if scene.check("PG_DEGRADED").is_some() { finding.check("PG_DEGRADED") } else { finding })
}

/// Placement groups that would lose data with the next OSD failure.
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
            needed(pool).is_some_and(|needed| pool.size > needed && pg.holders().len() == needed)
        })
    };
    let last = scene.groups.all().filter(|group| group.takes_io() && group.is_degraded()).filter(is_last);
    let last = GroupSet::of(last);
    // An OSD that just came back still has its copies: the manager's data are merely older. This
    // does not hold for an OSD that is down and out.
    if last.count == 0 || (scene.is_settling && scene.none_down()) {
        return None;
    }
    let severity = if scene.down.planned { Severity::Warning } else { Severity::Error };
    let what = format!("{} with one copy left: the next OSD failure loses data", last.summary());
    let next = "bring the OSDs that are down back before anything else";
    Some(last.finding(Finding::new("BenthicPGsLastCopy", severity, what, next)))
}

fn moving(scene: &Scene<'_>) -> Option<Finding> {
    let is_moving = |group: &&Group<'_>| {
        group.takes_io()
            && !group.is_degraded()
            && !group.has(&["clean"])
            && (group.is_moving() || group.has(&["remapped"]))
    };
    let moving = GroupSet::of(scene.groups.all().filter(is_moving));
    if moving.count == 0 {
        return None;
    }
    let misplaced = scene.snapshot.digest.as_ref().map_or(0, |digest| digest.misplaced_objects);
    let what = format!("{} moving to other OSDs, {} to go", moving.summary(), several(misplaced, "replica"));
    let next = "wait; each old replica stays until the new one is complete";
    Some(moving.finding(Finding::new("BenthicPGsMoving", Severity::Info, what, next)))
}

fn damaged(scene: &Scene<'_>) -> Option<Finding> {
    let words = ["inconsistent", "snaptrim_error", "failed_repair"];
    let damaged = GroupSet::of(scene.groups.all().filter(|group| group.has(&words)));
    let check = ["PG_DAMAGED", "OSD_SCRUB_ERRORS"].into_iter().find(|code| scene.check(code).is_some());
    // Ceph counts unfound objects as damage, but they have a finding of their own.
    let is_unfound = scene.check("OBJECT_UNFOUND").is_some() && scene.check("OSD_SCRUB_ERRORS").is_none();
    if damaged.count == 0 && (check.is_none() || is_unfound) {
        return None;
    }
    let what = match damaged.count {
        0 => "scrub found replicas that differ".to_owned(),
        _ => format!("scrub found replicas that differ in {}", damaged.summary()),
    };
    let next = "`rados list-inconsistent-obj PG` lists the objects; `ceph pg repair PG` restores them from intact replicas";
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
        "no OSD that is up has the latest version of {}: their readers wait",
        several(count, "object")
    );
    let next = "bring back the OSDs that went down last; `ceph pg PG list_unfound` names the objects";
    let finding = Finding::new("CephObjectMissing", Severity::Error, what, next).count(count);
    Some(finding.stops_io().check("OBJECT_UNFOUND"))
}
