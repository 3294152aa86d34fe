//! Finds faults of rules and placements, including faults that Ceph's health status does not show.

use super::crush::{CrushMap, Rule};
use super::preview::Preview;
use super::snapshot::Snapshot;
use crate::cluster_state::{Pool, has_duplicates};
use benthic_core::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Inputs to test each rule with: enough to find a fault that affects one input in a hundred.
const INPUTS: u32 = 1_024;
/// The number of replicas to test unused rules with.
const REPLICAS_USUAL: usize = 3;

/// The possible faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The rule chooses an OSD twice: two replicas are on the same disk.
    RepeatsOsd,
    /// The rule finds fewer OSDs than replicas.
    TooFewOsds,
    /// Placement groups of the pool have fewer OSDs than replicas at present.
    Undersized,
    /// Two roots that pools use share OSDs, so the autoscaler ignores these pools.
    OverlappingRoots,
}

/// A fault of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: Check,
    pub rule: String,
    pub pools: Vec<String>,
    /// The fault and the next step.
    pub message: String,
}

/// Tests all rules of replicated pools with their numbers of replicas, and all unused rules with
/// three replicas.
///
/// # Errors
/// As the methods of [`Preview`].
pub fn lint(snapshot: &Snapshot, preview: &Preview) -> Result<Vec<Finding>> {
    let reduced: Vec<(i32, f64)> =
        snapshot.map.osds.iter().filter(|osd| osd.weight < 1.0).map(|osd| (osd.id, osd.weight)).collect();
    let mut findings = Vec::new();
    for rule in &snapshot.crush.rules {
        // Skip rules for erasure coding: Ceph makes them, and their results have gaps where they
        // find no OSD.
        if rule.steps.iter().any(|step| step.op.ends_with("_indep")) {
            continue;
        }
        for (replicas, pools) in users(snapshot, rule.rule_id) {
            let chosen = preview.try_rule(rule.rule_id, replicas, INPUTS, &reduced)?;
            let finding = |check, message| Finding {
                check,
                rule: rule.rule_name.clone(),
                pools: pools.iter().map(|pool| pool.name.clone()).collect(),
                message,
            };
            let share = |count: usize| format!("{:.0}%", 100.0 * count as f64 / chosen.len().max(1) as f64);
            let repeating = chosen.iter().filter(|osds| has_duplicates(osds)).count();
            if repeating > 0 {
                findings.push(finding(
                    Check::RepeatsOsd,
                    format!(
                        "with {replicas} replicas, {} of placement groups have two of them on one OSD, which Ceph's health status \
                         does not show; the rule must take separate trees: `benthic placement plan` makes such a rule",
                        share(repeating)
                    ),
                ));
            }
            let short = chosen.iter().filter(|osds| osds.len() < replicas).count();
            if short > 0 {
                findings.push(finding(
                    Check::TooFewOsds,
                    format!(
                        "{} of placement groups would have fewer OSDs than {replicas} replicas; the failure domain has too few \
                         buckets: add some, or use a smaller failure domain",
                        share(short)
                    ),
                ));
            }
            findings.extend(
                pools
                    .iter()
                    .filter_map(|pool| undersized(snapshot, pool))
                    .map(|message| finding(Check::Undersized, message)),
            );
        }
    }
    findings.extend(overlaps(snapshot));
    Ok(findings)
}

/// The replicated pools that use a rule, by number of replicas.
fn users(snapshot: &Snapshot, rule: i64) -> BTreeMap<usize, Vec<&Pool>> {
    let mut users: BTreeMap<usize, Vec<&Pool>> = BTreeMap::new();
    for pool in snapshot.map.pools.iter().filter(|pool| pool.crush_rule == rule && pool.is_replicated()) {
        users.entry(pool.size).or_default().push(pool);
    }
    if users.is_empty() {
        users.insert(REPLICAS_USUAL, Vec::new());
    }
    users
}

fn undersized(snapshot: &Snapshot, pool: &Pool) -> Option<String> {
    let short = snapshot.pgs_of(pool).filter(|pg| pg.holders().len() < pool.size).count();
    (short > 0).then(|| {
        format!(
            "{short} of {} placement groups of {} have fewer than {} OSDs now; `benthic placement show --pool {}` shows where",
            snapshot.pgs_of(pool).count(),
            pool.name,
            pool.size,
            pool.name
        )
    })
}

/// Finds rules of pools whose trees overlap without being the same.
fn overlaps(snapshot: &Snapshot) -> Vec<Finding> {
    let crush = &snapshot.crush;
    let pools_of = |rule: i64| {
        let pools = snapshot.map.pools.iter().filter(move |pool| pool.crush_rule == rule);
        pools.map(|pool| pool.name.clone()).collect::<Vec<_>>()
    };
    let rules: Vec<_> = crush.rules.iter().filter(|rule| !pools_of(rule.rule_id).is_empty()).collect();
    let mut findings = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        // The autoscaler considers only the first bucket that a rule takes.
        let trees = |rule| tree(crush, rule);
        let other = rules[..at].iter().find(|other| {
            let (mine, others) = (trees(rule), trees(other));
            mine.0 != others.0 && !mine.1.is_disjoint(&others.1)
        });
        if let Some(other) = other {
            findings.push(Finding {
                check: Check::OverlappingRoots,
                rule: rule.rule_name.clone(),
                pools: pools_of(rule.rule_id),
                message: format!(
                    "this rule and {} take some of the same OSDs from different buckets: the autoscaler ignores such pools, so \
                     choose their pg_num by hand",
                    other.rule_name
                ),
            });
        }
    }
    findings
}

/// The first bucket that a rule takes, and the OSDs below it.
fn tree<'a>(crush: &'a CrushMap, rule: &'a Rule) -> (&'a str, BTreeSet<i32>) {
    match crush.takes(rule).next() {
        Some((bucket, _)) => (&bucket.name, crush.osds_below(bucket).into_keys().collect()),
        None => ("", BTreeSet::new()),
    }
}
