//! From what was seen to what is told. Asks nobody, and has no clock: all follows from the snapshot.
//!
//! What somebody planned is no alarm: flags that were set, data that move without anything missing, a pool whose number of
//! placement groups changes, an OSD that is down while `noout` says that this is meant. It is told as information.

mod client;
mod daemons;
mod data;
mod pgs;

use super::answers::{Check, Map, Tree};
use super::checks;
use super::growth::{self, Growth};
use super::report::{Finding, Numbers, OsdNumbers, PoolNumbers, Report, Severity, Verdict};
use super::snapshot::Snapshot;
use super::stamp::unix_s;
use pgs::Groups;
use std::collections::{BTreeMap, BTreeSet};

/// How long after an OSD came or went the manager's picture may lag behind the monitors'.
const SETTLE_S: u64 = 30;
const DAY_S: f64 = 86_400.0;
const KIB: u64 = 1024;

/// Checks of Ceph's that are looked at more closely here.
const COVERED: [&str; 13] = [
    "MGR_DOWN",
    "MON_DOWN",
    "OBJECT_MISPLACED",
    "OBJECT_UNFOUND",
    "OSD_DOWN",
    "OSD_FLAGS",
    "OSD_SCRUB_ERRORS",
    "OSDMAP_FLAGS",
    "PG_AVAILABILITY",
    "PG_DAMAGED",
    "PG_DEGRADED",
    "POOL_NO_REDUNDANCY",
    "DAEMON_OLD_VERSION",
];

/// Checks of Ceph's that are about tidiness: nothing is lacking.
const HARMLESS: [&str; 5] = [
    "POOL_APP_NOT_ENABLED",
    "POOL_PG_NUM_NOT_POWER_OF_TWO",
    "POOL_TOO_FEW_PGS",
    "POOL_TOO_MANY_PGS",
    "TELEMETRY_CHANGED",
];

/// A snapshot, and what several findings follow from.
struct Scene<'a> {
    snapshot: &'a Snapshot,
    map: Option<&'a Map>,
    groups: Groups<'a>,
    down: Down,
    /// Whether an OSD came or went so lately that the manager's picture may be older.
    is_settling: bool,
}

/// OSDs that are down though data are to be on them.
#[derive(Default)]
struct Down {
    osds: Vec<i32>,
    /// Whether `noout` covers all of them, and they are in one place, or below nodes that it was set for.
    planned: bool,
}

/// Judges a cluster.
pub fn judge(snapshot: &Snapshot) -> Report {
    let map = snapshot.map.as_ref();
    let down = map.map(|map| down(map, snapshot.tree.as_ref())).unwrap_or_default();
    let groups = Groups::of(snapshot);
    let scene = Scene { snapshot, map, groups, down, is_settling: is_settling(snapshot) };
    let mut findings = daemons::findings(&scene);
    findings.extend(pgs::findings(&scene));
    findings.extend(data::findings(&scene));
    findings.extend(client::findings(&scene));
    findings.extend(others(&scene));
    findings.iter_mut().for_each(|finding| heed_mute(&scene, finding));
    let key = |finding: &Finding| (finding.verdict(), finding.severity);
    findings.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    let verdict = findings.iter().map(Finding::verdict).max().unwrap_or(Verdict::Healthy);
    Report {
        fsid: snapshot.fsid.clone(),
        unix_s: snapshot.now_unix_s,
        verdict,
        ceph: snapshot.health.as_ref().map(|health| health.status.clone()),
        checks: own_checks(snapshot),
        availability_percent: availability(&scene),
        is_stale: is_stale(snapshot),
        findings,
        missing: snapshot.missing.clone(),
        numbers: numbers(&scene),
    }
}

/// Whether data are on their way to other OSDs, so that how full an OSD is tells nothing of how fast it fills.
pub fn is_moving(snapshot: &Snapshot) -> bool {
    Groups::of(snapshot).are_moving()
}

impl<'a> Scene<'a> {
    /// One of Ceph's checks, if it does not hold.
    fn check(&self, code: &str) -> Option<&'a Check> {
        self.snapshot.health.as_ref()?.checks.get(code)
    }

    /// Whether every OSD runs that data are to be on.
    fn all_up(&self) -> bool {
        self.map.is_some() && self.down.osds.is_empty()
    }

    /// Whether every OSD that there is runs, also those that data are on no more.
    fn none_down(&self) -> bool {
        self.map.is_some_and(|map| map.osds.iter().all(|osd| osd.is_up()))
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.map.is_some_and(|map| map.flags_set.iter().any(|set| set == flag))
    }

    /// Seconds since a time that Ceph wrote; `None` for never. Where this machine's clock is behind it was just now.
    fn age_s(&self, stamp: &str) -> Option<u64> {
        Some(self.snapshot.now_unix_s.saturating_sub(unix_s(stamp)?))
    }
}

/// Whoever muted a check of Ceph's knows of it, unless clients wait.
fn heed_mute(scene: &Scene<'_>, finding: &mut Finding) {
    let check = finding.check.as_ref().and_then(|code| scene.check(code));
    if check.is_some_and(|check| check.muted) && finding.severity > Severity::Info && !finding.stops_io {
        finding.severity = Severity::Info;
        finding.what.push_str(" (muted)");
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

fn is_stale(snapshot: &Snapshot) -> bool {
    let gone = snapshot.manager.as_ref().is_some_and(|manager| !manager.available);
    gone || snapshot.manager_silent.is_some() || snapshot.fsid.is_empty()
}

/// 100 if Ceph calls itself healthy, else the share of placement groups that take I/O, rounded down.
#[expect(clippy::cast_precision_loss, reason = "a share")]
fn availability(scene: &Scene<'_>) -> Option<f64> {
    if scene.snapshot.health.as_ref()?.status == "HEALTH_OK" {
        return Some(100.0);
    }
    let (all, taking) = scene.groups.counts()?;
    Some(if all == 0 { 100.0 } else { (10_000.0 * taking as f64 / all as f64).floor() / 100.0 })
}

fn down(map: &Map, tree: Option<&Tree>) -> Down {
    let parents: BTreeMap<i32, (i32, &str)> = tree
        .into_iter()
        .flat_map(|tree| &tree.nodes)
        .flat_map(|node| node.children.iter().map(move |child| (*child, (node.id, node.name.as_str()))))
        .collect();
    let class_of = |osd: i32| {
        tree.and_then(|tree| tree.nodes.iter().find(|node| node.id == osd)?.device_class.as_deref())
    };
    let noout = |flags: &[String]| flags.iter().any(|flag| flag == "noout");
    let below_one = |osd: &super::answers::Osd| {
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
    let covered = |osd: &super::answers::Osd| {
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

/// What Ceph tells and nobody here has looked at.
fn others(scene: &Scene<'_>) -> Vec<Finding> {
    let checks = scene.snapshot.health.iter().flat_map(|health| &health.checks);
    let finding = |(code, check): (&String, &Check)| {
        if COVERED.contains(&code.as_str()) || (code == "MON_CLOCK_SKEW" && daemons::clocks_are_off(scene)) {
            return None;
        }
        let known = checks::find(code);
        let planned = code.starts_with("OSD_") && code.ends_with("_DOWN") && scene.down.planned;
        // Clients wait, whoever does not want to hear of it.
        let stops_io = known.is_some_and(|known| known.stops_io);
        let severity = match known {
            _ if (check.muted && !stops_io) || planned || HARMLESS.contains(&code.as_str()) => Severity::Info,
            Some(known) => known.severity,
            None if check.severity == "HEALTH_ERR" => Severity::Error,
            None => Severity::Warning,
        };
        let next = known.map_or("`ceph health detail` says more", |known| known.next);
        let name = known.map_or(code.as_str(), |known| known.alert);
        let muted = if check.muted { " (muted)" } else { "" };
        let what = format!("{}{muted}", check.summary.message);
        let mut finding = Finding::new(name, severity, what, next).count(check.summary.count).check(code);
        finding.stops_io = stops_io;
        finding.which = check.detail.iter().take(8).map(|line| line.message.clone()).collect();
        Some(finding)
    };
    checks.filter_map(finding).collect()
}

/// `osd.3`.
fn osd_names<'a>(osds: impl IntoIterator<Item = &'a i32>) -> Vec<String> {
    osds.into_iter().map(|osd| format!("osd.{osd}")).collect()
}

/// `1 OSD`, `2 OSDs`.
fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[expect(clippy::cast_precision_loss, reason = "for the eye")]
fn numbers(scene: &Scene<'_>) -> Numbers {
    let snapshot = scene.snapshot;
    let mut numbers = Numbers { growth: "not_known", ..Numbers::default() };
    if let Some(quorum) = &snapshot.quorum {
        let names = quorum.monmap.mons.iter().map(|mon| mon.name.clone());
        numbers.monitors = names.map(|name| (name.clone(), quorum.quorum_names.contains(&name))).collect();
    }
    numbers.clock_skew_ms_max = daemons::clock_skew_s(scene).map(|skew_s| 1_000.0 * skew_s);
    if let Some(manager) = &snapshot.manager {
        numbers.manager = manager.available.then(|| manager.active_name.clone());
        numbers.managers_standby = manager.num_standby;
    }
    numbers.osds = osds(scene);
    if let Some((all, taking)) = scene.groups.counts() {
        (numbers.pgs, numbers.pgs_taking_io) = (Some(all), Some(taking));
    }
    numbers.pgs_by_state = scene.groups.by_state();
    numbers.pools = pools(scene);
    if let Some(digest) = &snapshot.digest {
        numbers.objects = Some(digest.num_objects);
        numbers.degraded_objects = Some(digest.degraded_objects);
        numbers.misplaced_objects = Some(digest.misplaced_objects);
        numbers.unfound_objects = Some(digest.unfound_objects);
        numbers.total_bytes = Some(digest.bytes_total);
        numbers.used_bytes = Some(digest.bytes_used);
    }
    if let Some(fullest) =
        snapshot.usage.as_ref().and_then(|usage| growth::fullest(usage, snapshot.now_unix_s))
    {
        numbers.fullest_osd = Some(fullest.osd);
        numbers.fullest_percent = Some(100.0 * fullest.used);
    }
    match data::growth(scene) {
        Growth::Unknown => {}
        Growth::None => numbers.growth = "not_growing",
        Growth::Days(days) => {
            numbers.growth = "growing";
            numbers.full_in_days = Some(days);
        }
    }
    numbers.slow_operations = snapshot.health.as_ref().map(|_| slow_operations(scene));
    numbers.commit_latency_ms_max = snapshot
        .latencies
        .as_ref()
        .and_then(|latencies| latencies.iter().map(|latency| latency.stats.commit_latency_ms).max());
    let oldest = |stamp: fn(&super::answers::Pg) -> &str| {
        let ages = snapshot.pgs.iter().flatten().filter_map(|pg| scene.age_s(stamp(pg)));
        ages.max().map(|age_s| age_s as f64 / DAY_S)
    };
    numbers.scrubbed_days_ago_max = oldest(|pg| &pg.last_scrub_stamp);
    numbers.deep_scrubbed_days_ago_max = oldest(|pg| &pg.last_deep_scrub_stamp);
    numbers.versions =
        snapshot.versions.as_ref().and_then(|versions| versions.get("overall")).cloned().unwrap_or_default();
    numbers.libraries = snapshot.libraries.clone().unwrap_or_default();
    numbers.probe = snapshot.probe.clone();
    numbers.client = snapshot.limits.clone();
    numbers
}

/// Ceph tells it in words only: `5 slow ops, oldest one blocked for …`.
fn slow_operations(scene: &Scene<'_>) -> u64 {
    let Some(check) = scene.check("SLOW_OPS") else { return 0 };
    let number = check.summary.message.split(' ').next().and_then(|word| word.parse().ok());
    number.unwrap_or(check.summary.count.max(1))
}

fn osds(scene: &Scene<'_>) -> Vec<OsdNumbers> {
    let usage =
        scene.snapshot.usage.iter().flatten().map(|usage| (usage.id, usage)).collect::<BTreeMap<_, _>>();
    let latencies = scene.snapshot.latencies.iter().flatten();
    let latencies: BTreeMap<_, _> = latencies.map(|latency| (latency.id, &latency.stats)).collect();
    let numbers = |osd: &super::answers::Osd| OsdNumbers {
        osd: osd.id,
        up: osd.is_up(),
        takes_data: osd.is_in(),
        total_bytes: usage.get(&osd.id).map(|usage| usage.total_kib.saturating_mul(KIB)),
        used_bytes: usage.get(&osd.id).map(|usage| usage.used_kib.saturating_mul(KIB)),
        commit_latency_ms: latencies.get(&osd.id).map(|stats| stats.commit_latency_ms),
        apply_latency_ms: latencies.get(&osd.id).map(|stats| stats.apply_latency_ms),
    };
    scene.map.iter().flat_map(|map| &map.osds).map(numbers).collect()
}

fn pools(scene: &Scene<'_>) -> Vec<PoolNumbers> {
    let taking = scene.groups.taking_io_by_pool();
    let numbers = |pool: &super::answers::Pool| PoolNumbers {
        id: pool.id,
        pool: pool.name.clone(),
        pgs: pool.pg_num,
        pgs_taking_io: taking.as_ref().map(|taking| taking.get(&pool.id).copied().unwrap_or(0)),
    };
    scene.map.iter().flat_map(|map| &map.pools).map(numbers).collect()
}

fn own_checks(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let checks = snapshot.health.iter().flat_map(|health| &health.checks);
    checks.map(|(code, check)| (code.clone(), check.severity.clone())).collect()
}
