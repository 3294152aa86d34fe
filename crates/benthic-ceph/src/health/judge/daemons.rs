//! Findings about monitors, the manager and OSDs: which of them run, their versions, and their
//! clocks.

use super::scene::{Group, Scene, osd_names, several};
use crate::health::report::{Finding, Severity};
use crate::health::snapshot::{Library, OSD_ANSWER_LIMIT_S};
use crate::releases;
use std::collections::BTreeSet;

/// Clock skew above which Ceph warns, by default.
const SKEW_S_MAX: f64 = 0.05;
/// The share of OSDs from which ceph-mixin raises a separate alert.
const DOWN_PERCENT_HIGH: usize = 10;
/// A disk with a higher commit latency delays all writers.
const COMMIT_MS_MAX: u64 = 1_000;

pub(super) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let mut findings = monitors(scene);
    findings.extend(clocks(scene));
    findings.extend(manager(scene));
    findings.extend(osds(scene));
    findings.extend(silent(scene));
    findings.extend(hung_osds(scene));
    findings.extend(slow_disks(scene));
    findings.extend(versions(scene));
    findings.extend(unknown_releases(scene));
    findings.extend(scene.snapshot.libraries.iter().flatten().filter_map(library).map(Finding::own));
    findings
}

fn monitors(scene: &Scene<'_>) -> Vec<Finding> {
    if scene.snapshot.fsid.is_empty() {
        let what = "no monitor answers: the cluster's state is unknown, and no client can connect";
        let next = "check the network and the monitors' logs; more than half of the monitors must run";
        return vec![Finding::new("BenthicMonNoAnswer", Severity::Error, what, next).stops_io().own()];
    }
    let Some(quorum) = &scene.snapshot.quorum else { return Vec::new() };
    let all: Vec<&String> = quorum.monmap.mons.iter().map(|mon| &mon.name).collect();
    let absent: Vec<String> = all
        .iter()
        .filter(|name| !quorum.quorum_names.contains(name))
        .map(|name| format!("mon.{name}"))
        .collect();
    if all.len() == 1 {
        let what = "the cluster has only one monitor: if it stops, the cluster stops";
        let next = "use three or five monitors in production";
        return vec![Finding::new("BenthicMonAlone", Severity::Info, what, next)];
    }
    if absent.is_empty() {
        return Vec::new();
    }
    let down = absent.join(", ");
    let next = "start them; if they do not join, check their logs";
    let needed = all.len() / 2 + 1;
    let finding = if all.len() - absent.len() <= needed {
        let what = format!("{down} out of quorum: the loss of another monitor stops the cluster");
        Finding::new("CephMonDownQuorumAtRisk", Severity::Error, what, next)
    } else {
        Finding::new("CephMonDown", Severity::Warning, format!("{down} out of quorum"), next)
    };
    vec![finding.check("MON_DOWN").of(absent)]
}

/// The largest clock skew; `None` if there is nothing to compare.
pub(super) fn clock_skew_s(scene: &Scene<'_>) -> Option<f64> {
    let skews = scene.snapshot.clocks.as_ref()?.time_skew_status.values();
    skews.map(|skew| skew.skew_s.abs()).max_by(f64::total_cmp)
}

pub(super) fn clocks_are_off(scene: &Scene<'_>) -> bool {
    clocks(scene).is_some()
}

fn clocks(scene: &Scene<'_>) -> Option<Finding> {
    let clocks = scene.snapshot.clocks.as_ref()?;
    let off = clocks.time_skew_status.iter().filter(|(_, skew)| {
        skew.skew_s.abs() > SKEW_S_MAX || !(skew.health.is_empty() || skew.health == "HEALTH_OK")
    });
    let off: Vec<String> = off.map(|(name, _)| format!("mon.{name}")).collect();
    if off.is_empty() {
        return None;
    }
    let what = format!(
        "the clocks of {} differ from the leader's by up to {:.0} ms",
        off.join(", "),
        1_000.0 * clock_skew_s(scene).unwrap_or_default()
    );
    let next = "check chrony or ntpd on the monitors' hosts";
    let finding = Finding::new("CephMonClockSkew", Severity::Warning, what, next).of(off);
    Some(finding.check("MON_CLOCK_SKEW"))
}

fn manager(scene: &Scene<'_>) -> Option<Finding> {
    let manager = scene.snapshot.manager.as_ref()?;
    let stale = "the data on placement groups, usage and latency are stale or missing";
    if !manager.available {
        let what = format!("no manager is active: {stale}");
        let next = "start a manager; if it stops again, check its log";
        return Some(Finding::new("BenthicMgrDown", Severity::Error, what, next).check("MGR_DOWN"));
    }
    if scene.snapshot.manager_silent.is_some() {
        let what = format!("mgr.{} does not answer: {stale}", manager.active_name);
        let next = "`ceph mgr fail` lets another manager take over; check the log of this one";
        return Some(Finding::new("BenthicMgrSilent", Severity::Error, what, next).own());
    }
    let what = "there is no standby manager: if the active one stops, statistics stop";
    let next = "start a second manager on another host";
    (manager.num_standby == 0).then(|| Finding::new("BenthicMgrAlone", Severity::Info, what, next))
}

fn osds(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(map) = scene.map else { return Vec::new() };
    let mut findings = Vec::new();
    let (down, all) = (&scene.down.osds, map.osds.len());
    if !down.is_empty() {
        let names = osd_names(down);
        let what = format!("{} of {} down", several(down.len() as u64, "OSD"), all);
        let next = "check the hosts and the OSDs' logs; `ceph osd tree down` shows where the OSDs are";
        let finding = if scene.down.planned {
            let what = format!("{what} while noout is set: this counts as planned work");
            let next = "when the work is done, start the OSDs and run `ceph osd unset noout`";
            Finding::new("CephOSDDown", Severity::Info, what, next)
        } else if 100 * down.len() >= DOWN_PERCENT_HIGH * all {
            Finding::new("CephOSDDownHigh", Severity::Error, what, next)
        } else {
            Finding::new("CephOSDDown", Severity::Warning, what, next)
        };
        findings.push(finding.check("OSD_DOWN").of(names));
    }
    let out: Vec<i32> =
        map.osds.iter().filter(|osd| !osd.is_up() && !osd.is_in()).map(|osd| osd.id).collect();
    if !out.is_empty() {
        let what =
            format!("{} down and out: Ceph rebuilds their data elsewhere", several(out.len() as u64, "OSD"));
        let next = "replace them, or remove them with `ceph osd purge`";
        findings.push(Finding::new("BenthicOSDOut", Severity::Info, what, next).of(osd_names(&out)));
    }
    if map.osds.is_empty() {
        let what = "there are no OSDs";
        findings.push(Finding::new("BenthicNoOSDs", Severity::Error, what, "add some").stops_io());
    }
    findings
}

/// OSDs that do not answer although the manager reports their placement group as active.
fn silent(scene: &Scene<'_>) -> Option<Finding> {
    let is_inactive = |pgid: &str| {
        let of_pg = |group: &&Group<'_>| group.pg.is_some_and(|pg| pg.pgid == pgid);
        scene.groups.all().find(of_pg).is_some_and(|group| !group.takes_io())
    };
    let silent: Vec<_> = scene.silent.iter().filter(|silent| !is_inactive(&silent.pg)).collect();
    let first = silent.first()?;
    let answered = scene.snapshot.osd_answers.as_ref().map_or(0, |answers| answers.answered.len());
    let asked = answered + scene.silent.len();
    let what = format!(
        "{} of {} that the monitors consider up did not answer Benthic within {OSD_ANSWER_LIMIT_S} s: reads and writes wait",
        silent.len(),
        several(asked as u64, "OSD")
    );
    let next = format!(
        "check that the ceph-osd processes run and that the network reaches them (`ceph osd find {}` names the host); if \
         one runs, `ceph pg {} query` shows what it waits for",
        first.osd, first.pg
    );
    let names = silent.iter().map(|silent| format!("osd.{}", silent.osd));
    Some(Finding::new("BenthicOSDNoAnswer", Severity::Error, what, next).of(names).stops_io().own())
}

fn hung_osds(scene: &Scene<'_>) -> Option<Finding> {
    let hung = osd_names(&scene.snapshot.hung_osds);
    let first = scene.snapshot.hung_osds.first()?;
    let what = format!(
        "{} down, but a process accepts connections at the address: the OSD hangs, for example in a class method that \
         never returns, or it is starting, or another program has taken its port",
        hung.join(", ")
    );
    let next = format!(
        "if the process of the OSD runs, kill and start it: `systemctl kill -s KILL ceph-osd@{first}` and `systemctl start ceph-osd@{first}` on its \
         host, or in a local cluster `benthic cluster kill osd.{first}` and `benthic cluster start osd.{first}`"
    );
    Some(Finding::new("BenthicOSDHung", Severity::Info, what, next).of(hung).own())
}

fn slow_disks(scene: &Scene<'_>) -> Option<Finding> {
    let latencies = scene.snapshot.latencies.iter().flatten();
    let slow = latencies.filter(|latency| latency.stats.commit_latency_ms > COMMIT_MS_MAX);
    let slow: Vec<i32> = slow.map(|latency| latency.id).collect();
    let what = format!(
        "{} longer than {COMMIT_MS_MAX} ms to make a write durable",
        match slow.len() {
            1 => "1 OSD takes".to_owned(),
            count => format!("{count} OSDs take"),
        }
    );
    let next = "check the disks (iostat, SMART values); `ceph osd perf` shows all";
    (!slow.is_empty())
        .then(|| Finding::new("BenthicOSDSlowDisk", Severity::Warning, what, next).of(osd_names(&slow)))
}

/// Versions differ during every upgrade, so this is information. If an upgrade stops half-way, Ceph
/// warns after a week (`mon_warn_older_version_delay`); from then on it is a warning.
fn versions(scene: &Scene<'_>) -> Option<Finding> {
    let versions = scene.snapshot.versions.as_ref()?;
    let by_kind = || versions.iter().filter(|(kind, _)| *kind != "overall");
    let all: BTreeSet<&String> = by_kind().flat_map(|(_, counts)| counts.keys()).collect();
    if all.len() < 2 {
        return None;
    }
    let each: Vec<String> = by_kind()
        .flat_map(|(kind, counts)| counts.iter().map(move |(version, count)| (kind, version, count)))
        .map(|(kind, version, count)| format!("{count} {kind} {}", number(version)))
        .collect();
    let what = format!("daemons run {} versions: {}", all.len(), each.join(", "));
    let next = "finish the upgrade; `ceph versions` counts the versions, `ceph tell osd.N version` shows that of one OSD";
    let finding = |severity| Finding::new("BenthicVersionsDiffer", severity, what, next).of(each);
    Some(match scene.check("DAEMON_OLD_VERSION") {
        Some(_) => finding(Severity::Warning).check("DAEMON_OLD_VERSION"),
        None => finding(Severity::Info),
    })
}

/// A release that Benthic's tests do not cover. The answers that arrived were understood, so this
/// is information.
fn unknown_releases(scene: &Scene<'_>) -> Option<Finding> {
    let versions = scene.snapshot.versions.as_ref()?;
    let is_unknown = |version: &&String| releases::parse(version).is_none_or(releases::is_unknown);
    let unknown: BTreeSet<&str> = versions
        .values()
        .flat_map(|counts| counts.keys())
        .filter(is_unknown)
        .map(|version| number(version))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let unknown: Vec<String> = unknown.into_iter().map(str::to_owned).collect();
    let what = format!(
        "daemons run Ceph {}, with which Benthic was not tested (tested: {})",
        unknown.join(", "),
        releases::tested()
    );
    let next = "read and write as usual; try class libraries on a test cluster of this release before you install them here";
    Some(Finding::new("BenthicReleaseUnknown", Severity::Info, what, next).of(unknown))
}

/// The number in a version text: `16.2.15` of `ceph version 16.2.15 (…) pacific (stable)`.
pub(super) fn number(version: &str) -> &str {
    version.split(' ').nth(2).unwrap_or(version)
}

fn library(library: &Library) -> Option<Finding> {
    let name = &library.name;
    if library.builds.len() > 1 {
        let each = library.builds.iter().map(|build| format!("{} in {}", build.build, ids(&build.osds)));
        let each: Vec<String> = each.collect();
        let what =
            format!("OSDs run different builds of {name} and may answer differently: {}", each.join("; "));
        let next = "`benthic class install` installs one build; an OSD loads it when it starts";
        return Some(Finding::new("BenthicClassBuildsDiffer", Severity::Warning, what, next).of(each));
    }
    if library.builds.is_empty() || library.without.is_empty() {
        return None;
    }
    let what = format!(
        "the library {name} is not in {}: calls to objects there fail or run on the client",
        ids(&library.without)
    );
    let next = "`benthic class install --print` prints the commands that install it";
    let which = library.without.iter().map(|osd| format!("osd.{osd}"));
    Some(Finding::new("BenthicClassMissing", Severity::Warning, what, next).of(which))
}

fn ids(osds: &[i64]) -> String {
    const SHOWN_MAX: usize = 8;
    let shown: Vec<String> = osds.iter().take(SHOWN_MAX).map(|osd| format!("osd.{osd}")).collect();
    let more =
        if osds.len() > SHOWN_MAX { format!(" and {} more", osds.len() - SHOWN_MAX) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
