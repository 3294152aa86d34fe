//! The report on a cluster: a verdict, the findings behind it, and numbers.

use super::limits::Limits;
use super::snapshot::{Library, Missing, OsdAnswers, Probe};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of OSDs, pools and the like that a finding lists.
const WHICH_MAX: usize = 32;

/// The overall state of a cluster. A worse verdict compares as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is well, or only planned work is going on.
    Healthy,
    /// The cluster serves with reduced redundancy or resources: look at it in working hours.
    Degraded,
    /// The cluster serves, but the next failure may stop it or lose data: act now.
    AtRisk,
    /// Some reads or writes wait or fail.
    Down,
}

impl Verdict {
    pub const ALL: [Verdict; 4] = [Verdict::Healthy, Verdict::Degraded, Verdict::AtRisk, Verdict::Down];

    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Degraded => "degraded",
            Verdict::AtRisk => "at risk",
            Verdict::Down => "down",
        }
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know: planned or harmless.
    Info,
    /// The cluster has less than it should.
    Warning,
    /// The next failure may stop the cluster or lose data, or the cluster has stopped.
    Error,
}

impl Severity {
    /// The severity in a word.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// The origin of a statement about the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The monitors and the manager report it. They may not have noticed a failure yet.
    Monitors,
    /// Benthic's own requests to the daemons show it.
    Benthic,
}

/// The verdict of one source alone. `None` means that it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct View {
    pub unix_s: Option<u64>,
    /// Age at the time of the report.
    pub age_s: Option<u64>,
    pub verdict: Option<Verdict>,
    pub availability_percent: Option<f64>,
}

/// The verdict of each source. The report has the worse of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sources {
    pub monitors: View,
    pub benthic: View,
}

/// A finding of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name: that of ceph-mixin's alert if it means the same, `Benthic…` for a check that
    /// only Benthic makes, or the code of a Ceph health check that has no alert.
    pub name: String,
    pub severity: Severity,
    pub source: Source,
    /// Whether reads or writes wait or fail because of it.
    pub stops_io: bool,
    /// The code of the Ceph health check that reports the same.
    pub check: Option<String>,
    /// The fault, in one line.
    pub what: String,
    pub next: String,
    /// How many OSDs, pools and so on are affected.
    pub count: u64,
    /// Names of the affected items: at most the first 32.
    pub which: Vec<String>,
}

impl Finding {
    pub fn new(
        name: impl Into<String>,
        severity: Severity,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding {
            name: name.into(),
            severity,
            source: Source::Monitors,
            stops_io: false,
            check: None,
            what: what.into(),
            next: next.into(),
            count: 1,
            which: Vec::new(),
        }
    }

    /// Sets the affected items, and with them the count.
    #[must_use]
    pub fn of(mut self, which: impl IntoIterator<Item = String>) -> Finding {
        let mut all = which.into_iter();
        self.which = all.by_ref().take(WHICH_MAX).collect();
        self.count = (self.which.len() + all.count()) as u64;
        self
    }

    #[must_use]
    pub fn count(mut self, count: u64) -> Finding {
        self.count = count;
        self
    }

    /// Sets the code of the Ceph health check that reports the same.
    #[must_use]
    pub fn check(mut self, check: &str) -> Finding {
        self.check = Some(check.to_owned());
        self
    }

    /// Marks that reads or writes wait or fail because of it.
    #[must_use]
    pub fn stops_io(mut self) -> Finding {
        self.stops_io = true;
        self
    }

    /// Marks that it follows from Benthic's own requests.
    #[must_use]
    pub fn own(mut self) -> Finding {
        self.source = Source::Benthic;
        self
    }

    /// The verdict that this finding alone leads to.
    pub fn verdict(&self) -> Verdict {
        match self.severity {
            _ if self.stops_io => Verdict::Down,
            Severity::Info => Verdict::Healthy,
            Severity::Warning => Verdict::Degraded,
            Severity::Error => Verdict::AtRisk,
        }
    }
}

/// The report on a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The cluster's identity; empty if no monitor answered.
    pub fsid: String,
    pub unix_s: u64,
    /// The verdict of the worst finding.
    pub verdict: Verdict,
    /// Ceph's own health status, such as `HEALTH_OK`.
    pub ceph: Option<String>,
    /// The failing Ceph health checks, and Ceph's severity of each.
    pub checks: BTreeMap<String, String>,
    /// The lower availability of the two [`sources`](Report::sources); `None` if neither knows it.
    ///
    /// By the monitors, it is 100 if Ceph's status is `HEALTH_OK`, else the share of placement
    /// groups that take I/O; CERN's operators defined it so. By Benthic's own requests, it is the
    /// share of placement groups whose primary OSD answers.
    pub availability_percent: Option<f64>,
    pub sources: Sources,
    /// Whether the manager's data (placement groups, usage) are stale because no manager answers.
    pub is_stale: bool,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// The gaps of the snapshot.
    pub missing: Vec<Missing>,
    pub numbers: Numbers,
}

/// The numbers of a report. `None` means not available.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Numbers {
    /// Fields that are unknown, so that their empty list, their 0 or their `None` means nothing.
    pub unknown: Vec<&'static str>,
    /// The monitors, and whether each is in the quorum.
    pub monitors: BTreeMap<String, bool>,
    /// The largest difference between monitors' clocks; `None` also for a single monitor.
    pub clock_skew_ms_max: Option<f64>,
    /// The active manager.
    pub manager: Option<String>,
    pub managers_standby: u64,
    pub osds: Vec<OsdNumbers>,
    pub osd_answers: Option<OsdAnswers>,
    pub pgs: Option<u64>,
    pub pgs_taking_io: Option<u64>,
    pub pgs_by_state: BTreeMap<String, u64>,
    pub pools: Vec<PoolNumbers>,
    pub objects: Option<u64>,
    /// Missing replicas.
    pub degraded_objects: Option<u64>,
    /// Replicas that are not on the OSDs that CRUSH chooses.
    pub misplaced_objects: Option<u64>,
    /// Objects whose latest version is on no OSD that is up.
    pub unfound_objects: Option<u64>,
    /// Raw space.
    pub total_bytes: Option<u64>,
    /// Raw space in use.
    pub used_bytes: Option<u64>,
    pub fullest_osd: Option<i32>,
    pub fullest_percent: Option<f64>,
    /// Days until the fullest OSD is full, if the trend continues.
    pub full_in_days: Option<f64>,
    /// The trend: `not_known`, `not_growing` or `growing`.
    pub growth: &'static str,
    /// Operations that wait for longer than Ceph's complaint time.
    pub slow_operations: Option<u64>,
    /// The commit latency of the slowest disk.
    pub commit_latency_ms_max: Option<u64>,
    /// Days since the last scrub of the placement group that has waited longest.
    pub scrubbed_days_ago_max: Option<f64>,
    /// Days since the last deep scrub of the placement group that has waited longest.
    pub deep_scrubbed_days_ago_max: Option<f64>,
    /// How many daemons run each version.
    pub versions: BTreeMap<String, u64>,
    pub libraries: Vec<Library>,
    pub probe: Option<Probe>,
    pub client: Option<Limits>,
}

/// The numbers of an OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OsdNumbers {
    /// N of `osd.N`.
    pub osd: i32,
    /// Whether the monitors consider it up.
    pub up: bool,
    /// Whether CRUSH places data on it.
    #[serde(rename = "in")]
    pub takes_data: bool,
    /// Whether it answered Benthic; `None` if it was not asked.
    pub answers: Option<bool>,
    pub total_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    /// The time until the disk has made a write durable.
    pub commit_latency_ms: Option<u64>,
    /// The time until a write is readable.
    pub apply_latency_ms: Option<u64>,
}

/// The numbers of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolNumbers {
    pub id: i64,
    pub pool: String,
    pub pgs: u64,
    /// Placement groups that take I/O; `None` if the snapshot has only sums, or if the manager does
    /// not know the pool yet.
    pub pgs_taking_io: Option<u64>,
}

impl Numbers {
    /// Whether a field is known. See [`unknown`](Numbers::unknown).
    pub fn knows(&self, field: &str) -> bool {
        !self.unknown.contains(&field)
    }
}

impl Report {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}
