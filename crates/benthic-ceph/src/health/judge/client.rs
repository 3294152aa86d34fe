//! Findings about this client: the result of the probe, the process limits, and the parts of the
//! snapshot that could not be read.

use super::scene::Scene;
use crate::health::report::{Finding, Severity};
use benthic_core::names::shell_word;

/// Above this latency, users notice the delay.
const PROBE_MS_MAX: f64 = 1_000.0;
/// Threads that librados and its application start, with room to spare.
const THREADS_NEEDED: u64 = 256;
/// Files that a client opens besides its connections.
const FILES_NEEDED: u64 = 256;

pub(super) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    [probe(scene), limits(scene), missing(scene)].into_iter().flatten().map(Finding::own).collect()
}

fn probe(scene: &Scene<'_>) -> Option<Finding> {
    let probe = scene.snapshot.probe.as_ref()?;
    let pool = &probe.pool;
    if let Some(error) = &probe.error {
        let what = format!("the probe in pool {pool} failed ({}): {}", error.step, error.message);
        let which = [pool.clone()];
        return Some(if error.of_cluster {
            let next =
                format!("check the pool's placement groups: `ceph pg ls-by-pool {}`", shell_word(pool));
            let finding = Finding::new("BenthicProbeFailed", Severity::Error, what, next).of(which);
            if error.step == "remove" { finding } else { finding.stops_io() }
        } else {
            let next = format!(
                "give the client the OSD caps `allow rwx pool={pool}`, or omit --probe-pool; hosts with the same name need \
                 separate pools"
            );
            Finding::new("BenthicProbeRefused", Severity::Warning, what, next).of(which)
        });
    }
    let slowest = [probe.write_ms, probe.read_ms].into_iter().flatten().max_by(f64::total_cmp)?;
    if slowest <= PROBE_MS_MAX {
        return None;
    }
    let what = format!("a write or read of 4 KiB in pool {pool} took {slowest:.0} ms");
    let next =
        "`ceph osd perf` shows slow disks, and `ceph health detail` shows slow operations and networks";
    Some(Finding::new("BenthicProbeSlow", Severity::Warning, what, next).of([pool.clone()]))
}

/// A client of a large cluster has two connections to each OSD. It stalls if it cannot open one.
fn limits(scene: &Scene<'_>) -> Option<Finding> {
    let limits = scene.snapshot.limits.as_ref()?;
    let osds = scene.map.map_or(0, |map| map.osds.len() as u64);
    let needed = 2 * osds + FILES_NEEDED;
    let mut low = Vec::new();
    if let Some(max) = limits.open_files_max.filter(|max| *max < needed) {
        low.push(format!("{max} open files, but a client of {osds} OSDs may need {needed}"));
    }
    if let Some(max) = limits.threads_max.filter(|max| *max < limits.threads.saturating_add(THREADS_NEEDED)) {
        low.push(format!("{max} threads, of which {} are in use", limits.threads));
    }
    let what = format!("this user's limits here are too low for a client: {}", low.join("; "));
    let next = "raise `ulimit -n` and `ulimit -u`, or the service's LimitNOFILE and LimitNPROC";
    (!low.is_empty()).then(|| Finding::new("BenthicClientLimits", Severity::Warning, what, next).of(low))
}

fn missing(scene: &Scene<'_>) -> Option<Finding> {
    let missing = &scene.snapshot.missing;
    if missing.is_empty() || scene.snapshot.fsid.is_empty() {
        return None;
    }
    let severity =
        if missing.iter().any(|part| part.is_problem) { Severity::Warning } else { Severity::Info };
    let which: Vec<String> = missing.iter().map(|part| part.what.clone()).collect();
    let what = format!("this report lacks: {}", which.join("; "));
    let next = missing.iter().map(|part| part.why.as_str()).collect::<Vec<_>>().join("; ");
    Some(Finding::new("BenthicNotSeen", severity, what, next).of(which))
}
