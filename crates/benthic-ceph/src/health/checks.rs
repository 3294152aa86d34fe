//! Ceph's own health checks: the name of the ceph-mixin alert for each, its severity here, and the
//! next step for the operator.

use super::report::Severity;

/// A Ceph health check that has an alert in ceph-mixin.
pub struct CephCheck {
    /// Ceph's code of the check.
    pub code: &'static str,
    /// The name of the alert.
    pub alert: &'static str,
    pub severity: Severity,
    /// Whether reads or writes wait or fail.
    pub stops_io: bool,
    /// The next step for the operator.
    pub next: &'static str,
}

const fn alert(code: &'static str, alert: &'static str, severity: Severity, next: &'static str) -> CephCheck {
    CephCheck { code, alert, severity, stops_io: false, next }
}

const fn outage(code: &'static str, alert: &'static str, next: &'static str) -> CephCheck {
    CephCheck { code, alert, severity: Severity::Error, stops_io: true, next }
}

const DETAIL: &str = "`ceph health detail` says more";
const SPACE: &str = "`ceph osd df` shows which; add OSDs, bring those that are down back, or remove data";
const SCRUB: &str =
    "`ceph pg scrub PG` and `ceph pg deep-scrub PG` start one; a window or `noscrub` may be in the way";

use Severity::{Error, Warning};

/// The checks for which Benthic has no finding of its own.
pub const CEPH_CHECKS: [CephCheck; 33] = [
    alert("MON_DISK_CRIT", "CephMonDiskspaceCritical", Error, "make room on that monitor's disk"),
    alert("MON_DISK_LOW", "CephMonDiskspaceLow", Warning, "make room on that monitor's disk"),
    alert("MON_CLOCK_SKEW", "CephMonClockSkew", Warning, "look at chrony or ntpd on the monitors' hosts"),
    alert(
        "OSD_HOST_DOWN",
        "CephOSDHostDown",
        Warning,
        "look at the host; `ceph osd tree down` shows what is down",
    ),
    alert("OSD_NEARFULL", "CephOSDNearFull", Warning, SPACE),
    alert("OSD_BACKFILLFULL", "CephOSDBackfillFull", Warning, SPACE),
    outage("OSD_FULL", "CephOSDFull", SPACE),
    alert(
        "OSD_TOO_MANY_REPAIRS",
        "CephOSDTooManyRepairs",
        Warning,
        "the disk may be failing: look at its SMART values",
    ),
    alert(
        "OSD_SLOW_PING_TIME_FRONT",
        "CephOSDTimeoutsPublicNetwork",
        Warning,
        "look for loss and load on the public network",
    ),
    alert(
        "OSD_SLOW_PING_TIME_BACK",
        "CephOSDTimeoutsClusterNetwork",
        Warning,
        "look for loss and load on the cluster network",
    ),
    alert("BLUESTORE_DISK_SIZE_MISMATCH", "CephOSDInternalDiskSizeMismatch", Warning, "make the OSD anew"),
    alert(
        "BLUESTORE_SPURIOUS_READ_ERRORS",
        "CephOSDReadErrors",
        Warning,
        "the disk may be failing: look at its SMART values",
    ),
    alert(
        "DEVICE_HEALTH",
        "CephDeviceFailurePredicted",
        Warning,
        "take the OSD out, let it drain, replace the disk",
    ),
    alert(
        "DEVICE_HEALTH_TOOMANY",
        "CephDeviceFailurePredictionTooHigh",
        Error,
        "add OSDs, then replace the disks one by one",
    ),
    alert(
        "DEVICE_HEALTH_IN_USE",
        "CephDeviceFailureRelocationIncomplete",
        Warning,
        "make room for what is to leave the disk",
    ),
    alert("MDS_DAMAGE", "CephFilesystemDamaged", Error, DETAIL),
    outage("MDS_ALL_DOWN", "CephFilesystemOffline", "start a metadata server"),
    alert("FS_DEGRADED", "CephFilesystemDegraded", Error, "`ceph fs status` shows which rank failed"),
    alert("MDS_UP_LESS_THAN_MAX", "CephFilesystemMDSRanksLow", Warning, "start more metadata servers"),
    alert(
        "MDS_INSUFFICIENT_STANDBY",
        "CephFilesystemInsufficientStandby",
        Warning,
        "start more metadata servers",
    ),
    alert("FS_WITH_FAILED_MDS", "CephFilesystemFailureNoStandby", Error, "start a metadata server"),
    outage("MDS_HEALTH_READ_ONLY", "CephFilesystemReadOnly", DETAIL),
    alert(
        "RECENT_MGR_MODULE_CRASH",
        "CephMgrModuleCrash",
        Warning,
        "`ceph crash ls` names it, `ceph crash archive ID` acknowledges it",
    ),
    alert(
        "RECENT_CRASH",
        "CephDaemonCrash",
        Warning,
        "`ceph crash ls` names it, `ceph crash archive ID` acknowledges it",
    ),
    alert("PG_RECOVERY_FULL", "CephPGRecoveryAtRisk", Error, SPACE),
    alert("PG_BACKFILL_FULL", "CephPGBackfillAtRisk", Error, SPACE),
    alert("PG_NOT_SCRUBBED", "CephPGNotScrubbed", Warning, SCRUB),
    alert("PG_NOT_DEEP_SCRUBBED", "CephPGNotDeepScrubbed", Warning, SCRUB),
    alert(
        "TOO_MANY_PGS",
        "CephPGsHighPerOSD",
        Warning,
        "`ceph osd pool autoscale-status` shows which pools have too many",
    ),
    outage("POOL_FULL", "CephPoolFull", "raise the pool's quota, add OSDs, or remove data"),
    alert("POOL_BACKFILLFULL", "CephPoolBackfillFull", Warning, SPACE),
    alert("POOL_NEAR_FULL", "CephPoolNearFull", Warning, "raise the pool's quota, add OSDs, or remove data"),
    alert(
        "SLOW_OPS",
        "CephSlowOps",
        Warning,
        "`ceph daemon osd.N dump_ops_in_flight` on the host of an OSD that is named tells what they wait for",
    ),
];

/// Finds a check by its code.
pub fn find(code: &str) -> Option<&'static CephCheck> {
    CEPH_CHECKS.iter().find(|check| check.code == code)
}
