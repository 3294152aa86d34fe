//! Ceph's own health checks: the name of the ceph-mixin alert for each, its severity here, and the
//! next step for the operator.

use super::report::Severity;

/// A Ceph health check that has an alert in ceph-mixin.
pub struct CephCheck {
    pub code: &'static str,
    pub alert: &'static str,
    pub severity: Severity,
    pub stops_io: bool,
    pub next: &'static str,
}

const fn alert(code: &'static str, alert: &'static str, severity: Severity, next: &'static str) -> CephCheck {
    CephCheck { code, alert, severity, stops_io: false, next }
}

const fn outage(code: &'static str, alert: &'static str, next: &'static str) -> CephCheck {
    CephCheck { code, alert, severity: Severity::Error, stops_io: true, next }
}

pub(super) const DETAIL: &str = "`ceph health detail` shows more";
const SPACE: &str = "`ceph osd df` shows the usage; add OSDs, start those that are down, or remove data";
const SCRUB: &str =
    "`ceph pg scrub PG` and `ceph pg deep-scrub PG` start a scrub; a time window or `noscrub` may prevent it";
const DISK: &str = "the disk may be failing: check its SMART values";
const CRASH: &str = "`ceph crash ls` names it, `ceph crash archive ID` acknowledges it";
const QUOTA: &str = "raise the pool's quota, add OSDs, or remove data";
const NETWORK: &str = "check the network for loss and load";
const MDS: &str = "start more metadata servers";
const ROOM: &str = "make room on that monitor's disk";

use Severity::{Error, Warning};

/// The checks for which Benthic has no finding of its own.
pub const CEPH_CHECKS: [CephCheck; 33] = [
    alert("MON_DISK_CRIT", "CephMonDiskspaceCritical", Error, ROOM),
    alert("MON_DISK_LOW", "CephMonDiskspaceLow", Warning, ROOM),
    alert("MON_CLOCK_SKEW", "CephMonClockSkew", Warning, "check chrony or ntpd on the monitors' hosts"),
    alert("OSD_HOST_DOWN", "CephOSDHostDown", Warning, "check the host; `ceph osd tree down` shows it"),
    alert("OSD_NEARFULL", "CephOSDNearFull", Warning, SPACE),
    alert("OSD_BACKFILLFULL", "CephOSDBackfillFull", Warning, SPACE),
    outage("OSD_FULL", "CephOSDFull", SPACE),
    alert("OSD_TOO_MANY_REPAIRS", "CephOSDTooManyRepairs", Warning, DISK),
    alert("OSD_SLOW_PING_TIME_FRONT", "CephOSDTimeoutsPublicNetwork", Warning, NETWORK),
    alert("OSD_SLOW_PING_TIME_BACK", "CephOSDTimeoutsClusterNetwork", Warning, NETWORK),
    alert("BLUESTORE_DISK_SIZE_MISMATCH", "CephOSDInternalDiskSizeMismatch", Warning, "recreate the OSD"),
    alert("BLUESTORE_SPURIOUS_READ_ERRORS", "CephOSDReadErrors", Warning, DISK),
    alert("DEVICE_HEALTH", "CephDeviceFailurePredicted", Warning, "drain the OSD and replace the disk"),
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
        "make room on other OSDs for the data of the disk",
    ),
    alert("MDS_DAMAGE", "CephFilesystemDamaged", Error, DETAIL),
    outage("MDS_ALL_DOWN", "CephFilesystemOffline", "start a metadata server"),
    alert("FS_DEGRADED", "CephFilesystemDegraded", Error, "`ceph fs status` shows which rank failed"),
    alert("MDS_UP_LESS_THAN_MAX", "CephFilesystemMDSRanksLow", Warning, MDS),
    alert("MDS_INSUFFICIENT_STANDBY", "CephFilesystemInsufficientStandby", Warning, MDS),
    alert("FS_WITH_FAILED_MDS", "CephFilesystemFailureNoStandby", Error, "start a metadata server"),
    outage("MDS_HEALTH_READ_ONLY", "CephFilesystemReadOnly", DETAIL),
    alert("RECENT_MGR_MODULE_CRASH", "CephMgrModuleCrash", Warning, CRASH),
    alert("RECENT_CRASH", "CephDaemonCrash", Warning, CRASH),
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
    outage("POOL_FULL", "CephPoolFull", QUOTA),
    alert("POOL_BACKFILLFULL", "CephPoolBackfillFull", Warning, SPACE),
    alert("POOL_NEAR_FULL", "CephPoolNearFull", Warning, QUOTA),
    alert(
        "SLOW_OPS",
        "CephSlowOps",
        Warning,
        "`ceph daemon osd.N dump_ops_in_flight` on the host of a named OSD shows the cause",
    ),
];

/// Finds a check by its code.
pub fn find(code: &str) -> Option<&'static CephCheck> {
    CEPH_CHECKS.iter().find(|check| check.code == code)
}
