//! The status of a local cluster.

use super::daemon::{Daemon, uptime_s};
use super::sites::Sites;
use crate::cluster_state::{self, Df, Manager, Osd, OsdMap, PoolDf, StateCount};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The status of a local cluster. `None` means that the monitor did not report it.
#[derive(Debug, Serialize)]
pub struct Status {
    pub dir: PathBuf,
    pub fsid: String,
    /// `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`; `DOWN` without a monitor, `UNKNOWN` if it does
    /// not answer.
    pub health: String,
    pub checks: Vec<String>,
    /// The sites; empty if there is only one place.
    pub sites: Vec<SiteStatus>,
    pub rtt_ms: Option<u32>,
    /// Limit of the rate at which each site receives; `None` for no limit.
    pub mbit_per_s: Option<u32>,
    /// All daemons of the cluster, running or not.
    pub daemons: Vec<DaemonStatus>,
    pub pools: Option<Vec<PoolStatus>>,
    pub used_bytes: Option<u64>,
    /// Disk space that the OSDs may use.
    pub total_bytes: Option<u64>,
}

/// The status of a site.
#[derive(Debug, Serialize)]
pub struct SiteStatus {
    pub name: String,
    /// The address of all daemons at the site.
    pub address: Ipv4Addr,
    /// Whether it is cut off from all others.
    pub cut: bool,
}

/// The status of a daemon.
#[derive(Debug, Serialize)]
pub struct DaemonStatus {
    /// The name, such as `osd.0`.
    pub name: String,
    pub site: Option<String>,
    /// `None` if the daemon does not run.
    pub pid: Option<u32>,
    pub uptime_s: Option<u64>,
    /// The symptom and the next step, if the daemon runs and hangs.
    pub hangs: Option<String>,
}

/// The status of a pool.
#[derive(Debug, Serialize)]
pub struct PoolStatus {
    pub name: String,
    /// Objects in the last report of the OSDs.
    pub objects: u64,
    /// Bytes of the objects, without replication.
    pub stored_bytes: u64,
}

impl SiteStatus {
    pub(super) fn all(sites: &Sites) -> Vec<SiteStatus> {
        let status = |(site, name): (usize, &String)| SiteStatus {
            name: name.clone(),
            address: sites.address(Some(site)),
            cut: sites.cut.contains(name),
        };
        sites.names.iter().enumerate().map(status).collect()
    }
}

impl DaemonStatus {
    pub(super) fn new(
        daemon: Daemon,
        sites: Option<&Sites>,
        running: &[(Daemon, u32)],
        hangs: Option<String>,
    ) -> DaemonStatus {
        let pid = running.iter().find(|(found, _)| *found == daemon).map(|(_, pid)| *pid);
        let site = sites.and_then(|sites| Some(sites.names[sites.site_of(daemon)?].clone()));
        DaemonStatus { name: daemon.to_string(), site, pid, uptime_s: pid.and_then(uptime_s), hangs }
    }
}

/// Whether a cluster serves, and the results of Ceph's health checks.
#[derive(Debug)]
pub struct Readiness {
    pub status: String,
    /// Without those that are muted.
    pub checks: Vec<String>,
    /// The condition that keeps the cluster from serving; `None` if it serves.
    pub missing: Option<String>,
}

impl Readiness {
    /// Interprets the answer to `status`. A cluster serves without the `cut_off_osds` OSDs that are
    /// cut off.
    pub fn new(status: cluster_state::Status, cut_off_osds: u64) -> Readiness {
        let checks = status.health.checks.iter().filter(|(_, check)| !check.muted);
        Readiness {
            checks: checks.map(|(code, check)| format!("{code}: {}", check.summary.message)).collect(),
            missing: missing(&status, cut_off_osds),
            status: status.health.status,
        }
    }
}

fn missing(status: &cluster_state::Status, cut_off_osds: u64) -> Option<String> {
    let up = status.osdmap.num_up_osds;
    let all = status.osdmap.num_osds.saturating_sub(cut_off_osds);
    let pgs = status.pgmap.num_pgs;
    let clean = |state: &&StateCount| {
        let has = |flag| state.state_name.split('+').any(|word| word == flag);
        has("active") && has("clean")
    };
    let clean: u64 = status.pgmap.pgs_by_state.iter().filter(clean).map(|state| state.count).sum();
    if !status.mgrmap.available {
        Some("the manager".to_owned())
    } else if up < all {
        Some(format!("OSDs: {up} of {all} up"))
    } else if clean < pgs && cut_off_osds == 0 {
        Some(format!("placement groups: {clean} of {pgs} clean"))
    } else {
        None
    }
}

/// Used bytes, total bytes, and the pools.
pub fn usage(df: Df) -> (u64, u64, Vec<PoolStatus>) {
    let pool = |pool: PoolDf| PoolStatus {
        name: pool.name,
        objects: pool.stats.objects,
        stored_bytes: pool.stats.stored,
    };
    (df.stats.total_used_raw_bytes, df.stats.total_bytes, df.pools.into_iter().map(pool).collect())
}

/// All pools. `df` lacks pools that no OSD has reported yet.
pub fn pools(names: Vec<String>, df: Df) -> Vec<PoolStatus> {
    let (_, _, mut reported) = usage(df);
    let is_new = |name: &String| !reported.iter().any(|pool| pool.name == *name);
    let new: Vec<String> = names.into_iter().filter(is_new).collect();
    reported.extend(new.into_iter().map(|name| PoolStatus { name, objects: 0, stored_bytes: 0 }));
    reported
}

/// The daemons that the monitor considers running, each with a number that changes when the daemon
/// restarts.
pub fn incarnations(map: &OsdMap, manager: &Manager) -> Vec<(Daemon, u64)> {
    let of_osd = |osd: &Osd| Some((Daemon::Osd(u32::try_from(osd.id).ok()?), osd.up_from));
    let mut running: Vec<_> = map.osds.iter().filter(|osd| osd.is_up()).filter_map(of_osd).collect();
    if manager.available {
        running.push((Daemon::Mgr, manager.active_gid));
    }
    running
}
