//! How a cluster is.

use super::daemon::{Daemon, uptime_s};
use super::sites::Sites;
use benthic_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// How a cluster is. What the monitor did not tell is empty or zero.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The cluster's directory.
    pub dir: PathBuf,
    /// Its identity.
    pub fsid: String,
    /// `HEALTH_OK`, `HEALTH_WARN`, `HEALTH_ERR`; `DOWN` without a monitor, `UNKNOWN` if it does not answer.
    pub health: String,
    /// What is wrong, a line each.
    pub checks: Vec<String>,
    /// Its sites; none if all is in one place.
    pub sites: Vec<SiteStatus>,
    /// A round trip between two sites.
    pub rtt_ms: Option<u32>,
    /// What each site receives at most; none if there is no limit.
    pub mbit_per_s: Option<u32>,
    /// All daemons that the cluster should have.
    pub daemons: Vec<DaemonStatus>,
    /// The pools.
    pub pools: Vec<PoolStatus>,
    /// Disk space that is in use.
    pub used_bytes: u64,
    /// Disk space that the OSDs may take.
    pub total_bytes: u64,
}

/// One site.
#[derive(Debug, Serialize)]
pub struct SiteStatus {
    /// Its name.
    pub name: String,
    /// Of all daemons at the site.
    pub address: Ipv4Addr,
    /// Whether it is cut off from all others.
    pub cut: bool,
}

/// One daemon.
#[derive(Debug, Serialize)]
pub struct DaemonStatus {
    /// Such as `osd.0`.
    pub name: String,
    /// Where it is, if the cluster has sites.
    pub site: Option<String>,
    /// Its process; none if it does not run.
    pub pid: Option<u32>,
    /// Seconds since it started.
    pub uptime_s: Option<u64>,
}

/// One pool.
#[derive(Debug, Serialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Objects in it, as last reported by the OSDs.
    pub objects: u64,
    /// Bytes in them, each counted once.
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
    pub(super) fn new(daemon: Daemon, sites: Option<&Sites>, running: &[(Daemon, u32)]) -> DaemonStatus {
        let pid = running.iter().find(|(found, _)| *found == daemon).map(|(_, pid)| *pid);
        let site = sites.and_then(|sites| Some(sites.names[sites.site_of(daemon)?].clone()));
        DaemonStatus { name: daemon.to_string(), site, pid, uptime_s: pid.and_then(uptime_s) }
    }
}

/// What `ceph status` says.
#[derive(Debug)]
pub struct Health {
    /// `HEALTH_OK` and so on.
    pub status: String,
    /// What is wrong, a line each.
    pub checks: Vec<String>,
    /// What keeps the cluster from serving: nothing if it is ready.
    pub missing: Option<String>,
}

impl Health {
    /// Reads the JSON of `ceph status`. A cluster serves without the OSDs that are cut off, of which there are so many.
    pub fn parse(json: &str, cut_off_osds: u64) -> Result<Health> {
        let value = parse(json)?;
        let status = value["health"]["status"].as_str().ok_or_else(|| strange("health"))?.to_owned();
        let checks = value["health"]["checks"].as_object().into_iter().flatten();
        let line = |(code, check): (&String, &Value)| {
            format!("{code}: {}", check["summary"]["message"].as_str().unwrap_or("no details"))
        };
        let checks = checks.map(line).collect();
        let missing = missing(&value, cut_off_osds);
        Ok(Health { status, checks, missing })
    }
}

fn missing(status: &Value, cut_off_osds: u64) -> Option<String> {
    let up = count(&status["osdmap"]["num_up_osds"]);
    let all = count(&status["osdmap"]["num_osds"]).saturating_sub(cut_off_osds);
    let groups = count(&status["pgmap"]["num_pgs"]);
    let states = status["pgmap"]["pgs_by_state"].as_array().map_or(&[][..], Vec::as_slice);
    let clean = |state: &&Value| {
        let name = state["state_name"].as_str().unwrap_or_default();
        name.split('+').any(|word| word == "active") && name.split('+').any(|word| word == "clean")
    };
    let clean: u64 = states.iter().filter(clean).map(|state| count(&state["count"])).sum();
    if status["mgrmap"]["available"] != true {
        Some("the manager".to_owned())
    } else if up < all {
        Some(format!("OSDs: {up} of {all} up"))
    } else if clean < groups && cut_off_osds == 0 {
        Some(format!("placement groups: {clean} of {groups} clean"))
    } else {
        None
    }
}

/// Reads the JSON of `ceph df`: used and total bytes, and the pools.
pub fn usage(json: &str) -> Result<(u64, u64, Vec<PoolStatus>)> {
    let value = parse(json)?;
    let pool = |pool: &Value| PoolStatus {
        name: pool["name"].as_str().unwrap_or_default().to_owned(),
        objects: count(&pool["stats"]["objects"]),
        stored_bytes: count(&pool["stats"]["stored"]),
    };
    let pools = value["pools"].as_array().ok_or_else(|| strange("pools"))?.iter().map(pool).collect();
    let stats = &value["stats"];
    Ok((count(&stats["total_used_raw_bytes"]), count(&stats["total_bytes"]), pools))
}

/// Reads the JSON of `ceph osd dump` and `ceph mgr dump`: the daemons that the monitor takes for running, each with
/// a number that changes when it is started again.
pub fn lives(osd_dump: &str, mgr_dump: &str) -> Result<Vec<(Daemon, u64)>> {
    let (osds, mgr) = (parse(osd_dump)?, parse(mgr_dump)?);
    let osds = osds["osds"].as_array().ok_or_else(|| strange("osds"))?;
    let life = |osd: &Value| {
        let number = u32::try_from(osd["osd"].as_u64()?).ok()?;
        (osd["up"] == 1).then(|| (Daemon::Osd(number), count(&osd["up_from"])))
    };
    let mut lives: Vec<_> = osds.iter().filter_map(life).collect();
    if mgr["available"] == true {
        lives.push((Daemon::Mgr, count(&mgr["active_gid"])));
    }
    Ok(lives)
}

fn parse(json: &str) -> Result<Value> {
    serde_json::from_str(json).map_err(|error| {
        Error::new(ErrorKind::Internal, "what a program of Ceph's printed is no JSON").with_source(error)
    })
}

fn strange(field: &str) -> Error {
    Error::new(ErrorKind::Internal, "what a program of Ceph's printed lacks a field").with("field", field)
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
