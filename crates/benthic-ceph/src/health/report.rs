//! What is told about a cluster: a verdict, the findings that it follows from, and numbers.

use super::limits::Limits;
use super::snapshot::{Library, Missing, Probe};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of OSDs, pools and the like that a finding lists.
const WHICH_MAX: usize = 32;

/// How a cluster is. In order: a worse one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is well, or only what somebody planned is going on.
    Healthy,
    /// It works, with less than it should have: look at it in working hours.
    Degraded,
    /// It works, and the next failure may stop it or lose data: look at it now.
    AtRisk,
    /// Some reads or writes wait, or fail.
    Down,
}

impl Verdict {
    /// Every verdict, the best first.
    pub const ALL: [Verdict; 4] = [Verdict::Healthy, Verdict::Degraded, Verdict::AtRisk, Verdict::Down];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Degraded => "degraded",
            Verdict::AtRisk => "at risk",
            Verdict::Down => "down",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know: planned, or no harm.
    Info,
    /// The cluster has less than it should.
    Warning,
    /// The next failure may stop it, or lose data; or it has stopped.
    Error,
}

impl Severity {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name: that of ceph-mixin's alert where it means the same, `Benthic…` for what only Benthic looks at, or the code of
    /// one of Ceph's checks that nobody has an alert for.
    pub name: String,
    /// How bad it is.
    pub severity: Severity,
    /// Whether reads or writes wait, or fail, because of it.
    pub stops_io: bool,
    /// The code of the check of Ceph's that says the same.
    pub check: Option<String>,
    /// What it is, in a line.
    pub what: String,
    /// What to do next.
    pub next: String,
    /// Of how many.
    pub count: u64,
    /// Which: the first of them.
    pub which: Vec<String>,
}

impl Finding {
    /// A finding about one thing.
    pub fn new(
        name: impl Into<String>,
        severity: Severity,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding {
            name: name.into(),
            severity,
            stops_io: false,
            check: None,
            what: what.into(),
            next: next.into(),
            count: 1,
            which: Vec::new(),
        }
    }

    /// Says of which.
    #[must_use]
    pub fn of(mut self, which: impl IntoIterator<Item = String>) -> Finding {
        let mut all = which.into_iter();
        self.which = all.by_ref().take(WHICH_MAX).collect();
        self.count = (self.which.len() + all.count()) as u64;
        self
    }

    /// Says of how many.
    #[must_use]
    pub fn count(mut self, count: u64) -> Finding {
        self.count = count;
        self
    }

    /// Says which check of Ceph's means the same.
    #[must_use]
    pub fn check(mut self, check: &str) -> Finding {
        self.check = Some(check.to_owned());
        self
    }

    /// Says that I/O waits or fails because of it.
    #[must_use]
    pub fn stops_io(mut self) -> Finding {
        self.stops_io = true;
        self
    }

    /// What it makes of a cluster.
    pub fn verdict(&self) -> Verdict {
        match self.severity {
            _ if self.stops_io => Verdict::Down,
            Severity::Info => Verdict::Healthy,
            Severity::Warning => Verdict::Degraded,
            Severity::Error => Verdict::AtRisk,
        }
    }
}

/// What is told about a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The cluster's identity; empty if no monitor answered.
    pub fsid: String,
    /// When it was looked at.
    pub unix_s: u64,
    /// The verdict of the worst finding.
    pub verdict: Verdict,
    /// What Ceph says of itself, such as `HEALTH_OK`.
    pub ceph: Option<String>,
    /// Ceph's own checks that do not hold, and how bad each is to Ceph.
    pub checks: BTreeMap<String, String>,
    /// 100 if Ceph calls itself healthy, else the share of placement groups that take I/O, as CERN's operators defined it.
    pub availability_percent: Option<f64>,
    /// Whether what the manager reports (placement groups, usage) is old because there is none.
    pub is_stale: bool,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be seen.
    pub missing: Vec<Missing>,
    /// The numbers.
    pub numbers: Numbers,
}

/// The numbers. What is `None` could not be seen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Numbers {
    /// The monitors, and whether each is in the quorum.
    pub monitors: BTreeMap<String, bool>,
    /// The largest difference between monitors' clocks; `None` also where there is only one.
    pub clock_skew_ms_max: Option<f64>,
    /// The active manager.
    pub manager: Option<String>,
    /// Managers that would take over.
    pub managers_standby: u64,
    /// OSDs.
    pub osds: Vec<OsdNumbers>,
    /// Placement groups.
    pub pgs: Option<u64>,
    /// Those that take I/O.
    pub pgs_taking_io: Option<u64>,
    /// Placement groups by state.
    pub pgs_by_state: BTreeMap<String, u64>,
    /// Pools.
    pub pools: Vec<PoolNumbers>,
    /// Objects.
    pub objects: Option<u64>,
    /// Replicas that are missing.
    pub degraded_objects: Option<u64>,
    /// Replicas that are elsewhere than they are to be.
    pub misplaced_objects: Option<u64>,
    /// Objects whose latest version no OSD that is up has.
    pub unfound_objects: Option<u64>,
    /// Raw space.
    pub total_bytes: Option<u64>,
    /// Of it used.
    pub used_bytes: Option<u64>,
    /// The fullest OSD.
    pub fullest_osd: Option<i32>,
    /// How full it is.
    pub fullest_percent: Option<f64>,
    /// When it is full if it goes on as it did.
    pub full_in_days: Option<f64>,
    /// Whether that is `not_known`, whether it is `not_growing`, or `growing`.
    pub growth: &'static str,
    /// Operations that wait for longer than Ceph's complaint time.
    pub slow_operations: Option<u64>,
    /// The slowest disk's time to make a write durable.
    pub commit_latency_ms_max: Option<u64>,
    /// Days since the placement group that waits longest was scrubbed.
    pub scrubbed_days_ago_max: Option<f64>,
    /// The same for reading all its bytes.
    pub deep_scrubbed_days_ago_max: Option<f64>,
    /// How many daemons run which version.
    pub versions: BTreeMap<String, u64>,
    /// Libraries of classes.
    pub libraries: Vec<Library>,
    /// A small write and read.
    pub probe: Option<Probe>,
    /// What this process may use.
    pub client: Option<Limits>,
}

/// An OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OsdNumbers {
    /// N of `osd.N`.
    pub osd: i32,
    /// Whether the monitors take it for running.
    pub up: bool,
    /// Whether data are to be on it.
    #[serde(rename = "in")]
    pub takes_data: bool,
    /// Its space.
    pub total_bytes: Option<u64>,
    /// Of it used.
    pub used_bytes: Option<u64>,
    /// What its disk takes to make a write durable.
    pub commit_latency_ms: Option<u64>,
    /// What its disk takes to make a write readable.
    pub apply_latency_ms: Option<u64>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolNumbers {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub pool: String,
    /// Its placement groups.
    pub pgs: u64,
    /// Those of them that take I/O; `None` if they could not be asked one by one.
    pub pgs_taking_io: Option<u64>,
}

impl Report {
    /// How many findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}
