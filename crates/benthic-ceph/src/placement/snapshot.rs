//! A snapshot of pools, OSDs, the CRUSH map and placement groups, from the monitors and the
//! manager.

use super::crush::{CrushMap, Sites};
use crate::cluster_client::{ClusterClient, in_json};
use crate::cluster_state::{OsdMap, Pg, PgDump, Pool};
use benthic_core::{Error, Result};
use serde_json::json;
use std::collections::BTreeSet;

/// Attempts to read the CRUSH map while it keeps changing.
const ATTEMPTS: u32 = 5;

/// A snapshot of a cluster's placement.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub map: OsdMap,
    pub crush: CrushMap,
    pub pgs: Vec<Pg>,
}

impl Snapshot {
    /// Reads a snapshot whose OSD map and CRUSH map have the same CRUSH version.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_monitors`] and [`ClusterClient::ask_manager`]; `Unavailable` if the
    /// manager has just started and does not know all placement groups yet; `Busy` if the CRUSH map
    /// keeps changing.
    pub async fn read(client: &dyn ClusterClient) -> Result<Snapshot> {
        let pgs = read_pgs(client).await?;
        for _ in 0..ATTEMPTS {
            let question = in_json(json!({ "prefix": "osd crush dump" }));
            let (before, dump) = (read_map(client).await?, client.ask_monitors(question).await?);
            let map = read_map(client).await?;
            if before.crush_version == map.crush_version {
                return Ok(Snapshot { map, crush: CrushMap::parse(&dump)?, pgs });
            }
        }
        Err(Error::busy("the CRUSH map keeps changing; try again later"))
    }

    /// Finds a pool by name.
    ///
    /// # Errors
    /// `NotFound` if there is no such pool.
    pub fn pool(&self, name: &str) -> Result<&Pool> {
        self.map.pools.iter().find(|pool| pool.name == name).ok_or_else(|| {
            Error::not_found("no such pool; `benthic pool ls` lists the pools").with("pool", name)
        })
    }

    pub fn pgs_of(&self, pool: &Pool) -> impl Iterator<Item = &Pg> {
        let id = pool.id;
        self.pgs.iter().filter(move |pg| pg.pool() == Some(id))
    }

    /// The sites that a pool's rule can choose from; see [`CrushMap::sites`].
    ///
    /// # Errors
    /// As [`CrushMap::sites`]; `Unsupported` if no single root contains all OSDs of the rule.
    pub fn sites_of(&self, pool: &Pool, domain: Option<&str>) -> Result<Sites> {
        let rule = self.crush.rule(pool.crush_rule);
        let root = rule.and_then(|rule| self.crush.root_of(rule)).ok_or_else(|| {
            let message =
                "the pool's rule takes OSDs of several roots, or none; `ceph osd crush rule dump` shows it";
            Error::unsupported(message).with("pool", &pool.name)
        })?;
        self.crush.sites(root, domain)
    }

    /// The OSDs of a site that are down or out.
    pub fn missing<'a>(&'a self, osds: &'a BTreeSet<i32>) -> impl Iterator<Item = i32> + 'a {
        let serves = |id: i32| self.map.osds.iter().any(|osd| osd.id == id && osd.serves());
        osds.iter().copied().filter(move |id| !serves(*id))
    }
}

async fn read_map(client: &dyn ClusterClient) -> Result<OsdMap> {
    client.monitor_state(json!({ "prefix": "osd dump" })).await
}

/// The present placement groups, as last reported to the manager.
pub(super) async fn read_pgs(client: &dyn ClusterClient) -> Result<Vec<Pg>> {
    check_complete(client.manager_state(json!({ "prefix": "pg dump", "dumpcontents": ["pgs_brief"] })).await?)
}

pub(super) fn check_complete(dump: PgDump) -> Result<Vec<Pg>> {
    if !dump.pg_ready {
        let message =
            "the manager has just started and lacks reports of some placement groups; try again in a minute";
        return Err(Error::unavailable(message));
    }
    Ok(dump.pg_stats)
}
