//! Turns a snapshot into a report. This module sends no queries and reads no clock: the report
//! follows from the snapshot alone.
//!
//! Planned work raises no alarm. It includes flags that an operator set, data that move while no
//! replica is missing, a pool whose number of placement groups changes, and an OSD that is down
//! under `noout`. The report lists these as information.

mod availability;
mod client;
mod daemons;
mod data;
mod pgs;
mod scene;

use super::checks;
use super::growth::{self, Growth};
use super::report::{
    Finding, Numbers, OsdNumbers, PoolNumbers, Report, Severity, Source, Sources, Verdict, View,
};
use super::snapshot::Snapshot;
use crate::cluster_state::{Check, Osd, Pg, Pool};
use scene::{Groups, Scene};
use std::collections::BTreeMap;

const DAY_S: f64 = 86_400.0;
const KIB: u64 = 1024;

/// Ceph health checks for which Benthic has more precise findings.
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

/// Ceph health checks about tidiness: the cluster lacks nothing.
const HARMLESS: [&str; 5] = [
    "POOL_APP_NOT_ENABLED",
    "POOL_PG_NUM_NOT_POWER_OF_TWO",
    "POOL_TOO_FEW_PGS",
    "POOL_TOO_MANY_PGS",
    "TELEMETRY_CHANGED",
];

/// Builds the report on a snapshot.
pub fn judge(snapshot: &Snapshot) -> Report {
    let scene = Scene::new(snapshot);
    let mut findings = daemons::findings(&scene);
    findings.extend(pgs::findings(&scene));
    findings.extend(data::findings(&scene));
    findings.extend(client::findings(&scene));
    findings.extend(others(&scene));
    findings.iter_mut().for_each(|finding| apply_mute(&scene, finding));
    let key = |finding: &Finding| (finding.verdict(), finding.severity);
    findings.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    let sources = sources(&scene, &findings);
    Report {
        fsid: snapshot.fsid.clone(),
        unix_s: snapshot.now_unix_s,
        verdict: findings.iter().map(Finding::verdict).max().unwrap_or(Verdict::Healthy),
        ceph: snapshot.health.as_ref().map(|health| health.status.clone()),
        checks: own_checks(snapshot),
        availability_percent: sources.availability_percent(is_stale(snapshot)),
        sources,
        is_stale: is_stale(snapshot),
        findings,
        missing: snapshot.missing.clone(),
        numbers: numbers(&scene),
    }
}

/// Whether recovery or backfill is going on. Then the usage of an OSD does not show how fast it
/// fills.
pub fn is_moving(snapshot: &Snapshot) -> bool {
    Groups::of(snapshot).are_moving()
}

/// Lowers a finding to information if an operator muted the corresponding Ceph health check, unless
/// clients wait because of it.
fn apply_mute(scene: &Scene<'_>, finding: &mut Finding) {
    let check = finding.check.as_ref().and_then(|code| scene.check(code));
    if check.is_some_and(|check| check.muted) && finding.severity > Severity::Info && !finding.stops_io {
        finding.severity = Severity::Info;
        finding.what.push_str(" (muted)");
    }
}

fn is_stale(snapshot: &Snapshot) -> bool {
    let gone = snapshot.manager.as_ref().is_none_or(|manager| !manager.available);
    gone || snapshot.manager_silent.is_some() || snapshot.fsid.is_empty()
}

fn sources(scene: &Scene<'_>, findings: &[Finding]) -> Sources {
    let snapshot = scene.snapshot;
    let worst = |source| {
        let of_source = findings.iter().filter(move |finding| finding.source == source);
        of_source.map(Finding::verdict).max()
    };
    let view = |unix_s: Option<u64>, verdict: Option<Verdict>, availability_percent| View {
        unix_s,
        age_s: unix_s.map(|unix_s| snapshot.now_unix_s.saturating_sub(unix_s)),
        verdict: unix_s.and(verdict.or(Some(Verdict::Healthy))),
        availability_percent,
    };
    let asked = snapshot.osd_answers.as_ref().map(|answers| answers.unix_s);
    let own = worst(Source::Benthic);
    // Information, such as the gaps of the report, shows nothing about the cluster.
    let has_own = own.is_some_and(|own| own > Verdict::Healthy) || snapshot.probe.is_some();
    Sources {
        monitors: view(
            (!snapshot.fsid.is_empty()).then_some(snapshot.monitors_unix_s),
            worst(Source::Monitors),
            availability::by_monitors(scene),
        ),
        benthic: view(
            asked.or(has_own.then_some(snapshot.now_unix_s)),
            own,
            availability::by_requests(scene),
        ),
    }
}

/// Findings for Ceph health checks that no other finding covers.
fn others(scene: &Scene<'_>) -> Vec<Finding> {
    let checks = scene.snapshot.health.iter().flat_map(|health| &health.checks);
    let finding = |(code, check): (&String, &Check)| {
        if COVERED.contains(&code.as_str()) || (code == "MON_CLOCK_SKEW" && daemons::clocks_are_off(scene)) {
            return None;
        }
        let known = checks::find(code);
        let planned = code.starts_with("OSD_") && code.ends_with("_DOWN") && scene.down.planned;
        // A muted check that stops clients keeps its severity.
        let stops_io = known.is_some_and(|known| known.stops_io);
        let severity = match known {
            _ if (check.muted && !stops_io) || planned || HARMLESS.contains(&code.as_str()) => Severity::Info,
            Some(known) => known.severity,
            None if check.severity == "HEALTH_ERR" => Severity::Error,
            None => Severity::Warning,
        };
        let next = known.map_or(checks::DETAIL, |known| known.next);
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

#[expect(clippy::cast_precision_loss, reason = "for the eye")]
fn numbers(scene: &Scene<'_>) -> Numbers {
    let snapshot = scene.snapshot;
    let mut numbers = Numbers { unknown: unknown(scene), growth: "not_known", ..Numbers::default() };
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
    numbers.osd_answers = snapshot.osd_answers.clone();
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
    // Ceph drops the check when no manager reports.
    let knows_slow = !is_stale(snapshot) || scene.check("SLOW_OPS").is_some();
    numbers.slow_operations = snapshot.health.as_ref().filter(|_| knows_slow).map(|_| slow_operations(scene));
    numbers.commit_latency_ms_max = snapshot
        .latencies
        .as_ref()
        .and_then(|latencies| latencies.iter().map(|latency| latency.stats.commit_latency_ms).max());
    let oldest = |stamp: fn(&Pg) -> &str| {
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

/// The fields of [`Numbers`] that are unknown and whose value does not show it.
fn unknown(scene: &Scene<'_>) -> Vec<&'static str> {
    let snapshot = scene.snapshot;
    let parts = [
        (snapshot.quorum.is_some(), &["monitors"][..]),
        (snapshot.manager.is_some(), &["manager", "managers_standby"]),
        (scene.map.is_some(), &["osds", "pools"]),
        (scene.groups.counts().is_some(), &["pgs_by_state"]),
        (snapshot.versions.is_some(), &["versions"]),
        (snapshot.libraries.is_some(), &["libraries"]),
    ];
    parts.iter().filter(|(is_known, _)| !is_known).flat_map(|(_, fields)| *fields).copied().collect()
}

/// The number of slow operations. Ceph reports it only in a message: `5 slow ops, oldest one
/// blocked for …`.
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
    let answers = scene.snapshot.osd_answers.as_ref();
    let answers = |osd: i64| {
        let answers = answers?;
        let is_silent = answers.silent.iter().any(|silent| silent.osd == osd);
        (is_silent || answers.answered.contains(&osd)).then_some(!is_silent)
    };
    let numbers = |osd: &Osd| OsdNumbers {
        osd: osd.id,
        up: osd.is_up(),
        takes_data: osd.is_in(),
        answers: answers(osd.id.into()),
        total_bytes: usage.get(&osd.id).map(|usage| usage.total_kib.saturating_mul(KIB)),
        used_bytes: usage.get(&osd.id).map(|usage| usage.used_kib.saturating_mul(KIB)),
        commit_latency_ms: latencies.get(&osd.id).map(|stats| stats.commit_latency_ms),
        apply_latency_ms: latencies.get(&osd.id).map(|stats| stats.apply_latency_ms),
    };
    scene.map.iter().flat_map(|map| &map.osds).map(numbers).collect()
}

fn pools(scene: &Scene<'_>) -> Vec<PoolNumbers> {
    let taking = scene.groups.taking_io_by_pool();
    let numbers = |pool: &Pool| PoolNumbers {
        id: pool.id,
        pool: pool.name.clone(),
        pgs: pool.pg_num.into(),
        pgs_taking_io: taking.as_ref().and_then(|taking| taking.get(&pool.id).copied()),
    };
    scene.map.iter().flat_map(|map| &map.pools).map(numbers).collect()
}

fn own_checks(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let checks = snapshot.health.iter().flat_map(|health| &health.checks);
    checks.map(|(code, check)| (code.clone(), check.severity.clone())).collect()
}
