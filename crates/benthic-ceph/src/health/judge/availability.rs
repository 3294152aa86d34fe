//! The availability of the cluster, by each source.

use super::scene::{Group, Scene};
use crate::cluster_state::Pg;
use crate::health::report::Sources;
use crate::health::snapshot::Probe;

/// The step of a probe whose failure delays no client.
const REMOVE: &str = "remove";

impl Sources {
    /// The lower availability of the two sources. Stale data alone say nothing.
    pub(super) fn availability_percent(&self, is_stale: bool) -> Option<f64> {
        let own = self.benthic.availability_percent;
        let both = [self.monitors.availability_percent.filter(|_| !is_stale || own.is_some()), own];
        both.into_iter().flatten().min_by(f64::total_cmp)
    }
}

/// 100 if Ceph's status is `HEALTH_OK`, else the share of placement groups that take I/O.
pub(super) fn by_monitors(scene: &Scene<'_>) -> Option<f64> {
    if scene.snapshot.health.as_ref()?.status == "HEALTH_OK" {
        return Some(100.0);
    }
    let (all, taking) = scene.groups.counts()?;
    Some(percent(taking, all))
}

/// The share of placement groups whose primary OSD answers. A failed probe counts as one placement
/// group without I/O.
pub(super) fn by_requests(scene: &Scene<'_>) -> Option<f64> {
    let failed =
        |probe: &&Probe| probe.error.as_ref().is_some_and(|error| error.of_cluster && error.step != REMOVE);
    let probe = scene.snapshot.probe.as_ref();
    let answered = scene.snapshot.osd_answers.as_ref().map_or(0, |answers| answers.answered.len() as u64);
    let asked = answered + scene.silent.len() as u64;
    let (all, lost) = match asked {
        0 => (scene.groups.counts().map_or(0, |(all, _)| all), 0),
        _ => lost(scene).unwrap_or((asked, scene.silent.len() as u64)),
    };
    match probe.filter(failed) {
        Some(_) if lost == 0 => Some(percent(all.saturating_sub(1), all.max(1))),
        None if asked == 0 => probe.filter(|probe| probe.error.is_none()).map(|_| 100.0),
        _ => Some(percent(all - lost, all)),
    }
}

/// The number of placement groups, and of those whose primary OSD does not answer; `None` if the
/// snapshot has only sums. If some OSD does not answer, those that take no I/O anyway count too, so
/// that OSDs that are down do not hide in the lower of two values.
fn lost(scene: &Scene<'_>) -> Option<(u64, u64)> {
    let pgs = scene.snapshot.pgs.as_ref()?;
    let all = pgs.len() as u64;
    if scene.silent.is_empty() {
        return Some((all, 0));
    }
    let is_silent = |osd: i32| scene.silent.iter().any(|silent| silent.osd == i64::from(osd));
    let of_silent = |group: &&Group<'_>| group.pg.and_then(Pg::primary).is_some_and(is_silent);
    // The manager's list is older if it has no placement group of a silent OSD.
    scene.groups.all().find(of_silent)?;
    Some((all, scene.groups.all().filter(|group| of_silent(group) || !group.takes_io()).count() as u64))
}

/// Rounds down to two decimals.
#[expect(clippy::cast_precision_loss, reason = "a share")]
fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 100.0 } else { (10_000.0 * part as f64 / of as f64).floor() / 100.0 }
}
