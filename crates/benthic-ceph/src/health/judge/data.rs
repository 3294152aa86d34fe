//! Findings about flags, pools, rules and space.

use super::scene::{Scene, several};
use crate::cluster_state::Pool;
use crate::health::growth::{self, Growth};
use crate::health::report::{Finding, Severity};
use crate::placement::lint::Check;
use benthic_core::names::shell_word;

/// Flags that operators set during work on a cluster.
const PLANNED_FLAGS: [&str; 11] = [
    "noout",
    "norebalance",
    "nobackfill",
    "norecover",
    "noscrub",
    "nodeep-scrub",
    "noin",
    "noup",
    "nosnaptrim",
    "notieragent",
    "noautoscale",
];
/// The flag that hides failed OSDs.
const BLIND_FLAG: &str = "nodown";
/// Flags that stop clients.
const PAUSE_FLAGS: [&str; 3] = ["pause", "pauserd", "pausewr"];
/// ceph-mixin's prediction looks equally far ahead.
const FULL_DAYS_SOON: f64 = 5.0;
const FULL_DAYS_AHEAD: f64 = 30.0;

pub(super) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let mut findings = flags(scene);
    findings.extend(pools(scene));
    findings.extend(rules(scene));
    findings.extend(full_soon(scene));
    findings
}

fn flags(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(map) = scene.map else { return Vec::new() };
    let mut findings = Vec::new();
    let set = |of: &[&str]| -> Vec<String> {
        map.flags_set.iter().filter(|flag| of.contains(&flag.as_str())).cloned().collect()
    };
    let paused = set(&PAUSE_FLAGS);
    if !paused.is_empty() {
        let what = format!("{} set: clients wait", paused.join(", "));
        let finding = Finding::new("BenthicPaused", Severity::Error, what, "`ceph osd unpause`");
        findings.push(finding.stops_io().check("OSDMAP_FLAGS").of(paused));
    }
    // Flags of a host, a rack, a device class or a single OSD.
    let of_some = |of: &[&str]| -> Vec<String> {
        let nodes = map.crush_node_flags.iter().chain(&map.device_class_flags);
        let nodes = nodes.map(|(node, flags)| (node.clone(), flags));
        let osds = map.osds.iter().map(|osd| (format!("osd.{}", osd.id), &osd.state));
        let of_node = |(node, flags): (String, &Vec<String>)| -> Vec<String> {
            let flags = flags.iter().filter(|flag| of.contains(&flag.as_str()));
            flags.map(|flag| format!("{flag} on {node}")).collect()
        };
        nodes.chain(osds).flat_map(of_node).collect()
    };
    for (blind, check) in [(set(&[BLIND_FLAG]), "OSDMAP_FLAGS"), (of_some(&[BLIND_FLAG]), "OSD_FLAGS")] {
        if !blind.is_empty() {
            let what = format!(
                "{} set: Ceph does not detect failed OSDs, and clients wait for them",
                shorten(&blind)
            );
            let next = "`ceph osd unset nodown`, or `ceph osd unset-group nodown NODE`";
            let finding = Finding::new("BenthicNodown", Severity::Warning, what, next);
            findings.push(finding.check(check).of(blind));
        }
    }
    let mut planned = set(&PLANNED_FLAGS);
    planned.extend(of_some(&PLANNED_FLAGS));
    if !planned.is_empty() {
        let what = format!("{} set: an operator is working on the cluster", shorten(&planned));
        let next = "when the work is done, run `ceph osd unset FLAG`";
        findings.push(
            Finding::new("BenthicFlagsSet", Severity::Info, what, next).check("OSDMAP_FLAGS").of(planned),
        );
    }
    findings
}

fn pools(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(map) = scene.map else { return Vec::new() };
    let names = |of: &dyn Fn(&Pool) -> bool| -> Vec<String> {
        map.pools.iter().filter(|pool| of(pool)).map(|pool| pool.name.clone()).collect()
    };
    let mut findings = Vec::new();
    let single = names(&|pool| pool.is_replicated() && pool.size == 1);
    if !single.is_empty() {
        let what = format!("{} only one replica: a failed disk loses data", have(&single));
        let next = format!("{}, unless the data can be reproduced", command_for(&single, "set", "size 3"));
        let finding = Finding::new("BenthicPoolOneReplica", Severity::Error, what, next).of(single);
        findings.push(finding.check("POOL_NO_REDUNDANCY"));
    }
    let least = |pool: &Pool| match map.erasure_code_profiles.get(&pool.erasure_code_profile) {
        Some(profile) if !pool.is_replicated() => profile.get("k").and_then(|k| k.parse().ok()).unwrap_or(0),
        _ => 1,
    };
    let exposed = names(&|pool| pool.size > least(pool) && pool.min_size > 0 && pool.min_size <= least(pool));
    if !exposed.is_empty() {
        let what = format!(
            "{} a min_size that accepts writes without redundancy: the next failure loses acknowledged writes",
            have(&exposed)
        );
        let next = format!(
            "{}: N is 2 for replicas, k + 1 for an erasure code",
            command_for(&exposed, "set", "min_size N")
        );
        findings.push(Finding::new("BenthicPoolMinSize", Severity::Warning, what, next).of(exposed));
    }
    let resizing = names(&Pool::is_resizing);
    if !resizing.is_empty() {
        let what = format!("{} a number of placement groups that is changing", have(&resizing));
        let next = format!("wait; {} shows the present number", command_for(&resizing, "get", "pg_num"));
        findings.push(Finding::new("BenthicPgNumChanging", Severity::Info, what, next).of(resizing));
    }
    findings
}

/// A command for the first of some pools, in backticks.
fn command_for(pools: &[String], action: &str, words: &str) -> String {
    let first = pools.first().map(String::as_str).unwrap_or_default();
    let others = if pools.len() > 1 { " (and for the other pools)" } else { "" };
    format!("`ceph osd pool {action} {} {words}`{others}", shell_word(first))
}

fn have(pools: &[String]) -> String {
    let verb = if pools.len() == 1 { "has" } else { "have" };
    format!("{} ({}) {verb}", several(pools.len() as u64, "pool"), shorten(pools))
}

fn shorten(names: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    let shown = names[..names.len().min(SHOWN_MAX)].join(", ");
    if names.len() > SHOWN_MAX { format!("{shown} and {} more", names.len() - SHOWN_MAX) } else { shown }
}

/// Findings of rules that were tested with Ceph's tools, independent of the current state of the
/// placement groups.
fn rules(scene: &Scene<'_>) -> Vec<Finding> {
    let finding = |found: &crate::placement::lint::Finding| {
        let (name, severity) = match found.check {
            Check::RepeatsOsd => ("BenthicRuleRepeatsOSD", Severity::Error),
            Check::TooFewOsds => ("BenthicRuleTooFewOSDs", Severity::Warning),
            Check::OverlappingRoots => ("BenthicRuleOverlappingRoots", Severity::Info),
            Check::Undersized => return None,
        };
        // A rule without pools places no data.
        let severity = if found.pools.is_empty() { Severity::Info } else { severity };
        let pools = if found.pools.is_empty() { "no pool".to_owned() } else { shorten(&found.pools) };
        let what = format!("rule {} ({pools}): {}", found.rule, found.message);
        let another = match found.pools.is_empty() {
            true => "no pool uses the rule".to_owned(),
            false => format!("{} selects another rule", command_for(&found.pools, "set", "crush_rule RULE")),
        };
        let next = format!("`benthic placement lint` shows all faults; {another}");
        Some(Finding::new(name, severity, what, next).of(found.pools.clone()))
    };
    scene.snapshot.rules.iter().flatten().filter_map(finding).collect()
}

/// The growth of the fullest OSD. It is unknown during recovery and backfill: the movement itself
/// changes the usage, and a line through the readings predicts nothing.
pub(super) fn growth(scene: &Scene<'_>) -> Growth {
    if scene.groups.are_moving() {
        return Growth::Unknown;
    }
    let usage = scene.snapshot.usage.as_ref();
    let now = usage.and_then(|usage| growth::fullest(usage, scene.snapshot.now_unix_s));
    match (now, scene.map) {
        (Some(now), Some(map)) if map.full_ratio > 0.0 => {
            growth::growth(&scene.snapshot.history, now, map.full_ratio)
        }
        _ => Growth::Unknown,
    }
}

fn full_soon(scene: &Scene<'_>) -> Option<Finding> {
    let Growth::Days(days) = growth(scene) else { return None };
    let now = growth::fullest(scene.snapshot.usage.as_ref()?, scene.snapshot.now_unix_s)?;
    if days > FULL_DAYS_AHEAD {
        return None;
    }
    let severity = if days <= FULL_DAYS_SOON { Severity::Warning } else { Severity::Info };
    let what = format!(
        "osd.{} is the fullest with {:.1}%; at this growth it rejects writes in {days:.1} days, and all pools on it stop",
        now.osd,
        100.0 * now.used
    );
    let next = "add OSDs, remove data, or let the balancer even out the usage (`ceph balancer status`)";
    let which = [format!("osd.{}", now.osd)];
    Some(Finding::new("BenthicOSDFullSoon", severity, what, next).of(which))
}
