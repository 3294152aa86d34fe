//! A cluster at one moment: what the monitors and the manager say of pools, OSDs, CRUSH and placement groups.

use super::crush::{CrushMap, Sites};
use benthic_core::{Error, ErrorKind, Result};
use benthic_rados::RadosStore;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `type` of a replicated pool.
const REPLICATED: u32 = 1;
/// What stands in a placement group for an OSD that is missing.
const NONE: i32 = i32::MAX;

/// How often the CRUSH map may change while it is read.
const ATTEMPTS: u32 = 5;

/// A cluster at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What the monitors know of pools and OSDs.
    pub map: OsdMap,
    /// Where data may be.
    pub crush: CrushMap,
    /// Where data are.
    pub pgs: Vec<Pg>,
}

/// What the monitors know of pools and OSDs.
#[derive(Clone, Debug, Deserialize)]
pub struct OsdMap {
    /// The cluster's identity.
    pub fsid: String,
    /// Grows with every change of the CRUSH map.
    pub crush_version: u64,
    /// All pools.
    pub pools: Vec<Pool>,
    /// All OSDs.
    pub osds: Vec<Osd>,
    /// Placement groups that somebody, usually the balancer, moved away from where CRUSH has them.
    #[serde(default)]
    pub pg_upmap_items: Vec<Value>,
    /// The share of its space from which Ceph warns of an OSD.
    #[serde(default)]
    pub nearfull_ratio: f64,
    /// The share from which an OSD takes no replicas from others.
    #[serde(default)]
    pub backfillfull_ratio: f64,
}

/// A pool.
#[derive(Clone, Debug, Deserialize)]
pub struct Pool {
    /// Its number.
    #[serde(rename = "pool")]
    pub id: i64,
    /// Its name.
    #[serde(rename = "pool_name")]
    pub name: String,
    #[serde(rename = "type")]
    kind: u32,
    /// Replicas, or chunks if it is erasure-coded.
    pub size: usize,
    /// With fewer of them a placement group takes no reads and writes.
    #[serde(default)]
    pub min_size: usize,
    /// The number of its rule.
    pub crush_rule: i64,
    /// Placement groups.
    pub pg_num: u32,
    /// `on` if the autoscaler changes that.
    #[serde(default)]
    pub pg_autoscale_mode: String,
    /// What was set for it, with commas between.
    #[serde(default)]
    pub flags_names: String,
}

/// An OSD.
#[derive(Clone, Debug, Deserialize)]
pub struct Osd {
    /// Its number.
    #[serde(rename = "osd")]
    pub id: i32,
    /// 1 if it runs.
    up: u8,
    /// 0 if it is out; less than 1 if it gets less than CRUSH gives it.
    pub weight: f64,
}

/// A placement group.
#[derive(Clone, Debug, Deserialize)]
pub struct Pg {
    /// `POOL.N`, with N in hexadecimal.
    pub pgid: String,
    /// Such as `active+clean`.
    pub state: String,
    /// The OSDs that are to have it.
    pub up: Vec<i32>,
    /// The OSDs that serve it.
    pub acting: Vec<i32>,
    /// The one that answers clients.
    pub acting_primary: i32,
}

#[derive(Deserialize)]
struct PgDump {
    pg_ready: bool,
    pg_stats: Vec<Pg>,
}

impl Pool {
    /// Whether it keeps replicas, not chunks of a code.
    pub fn is_replicated(&self) -> bool {
        self.kind == REPLICATED
    }
}

impl Osd {
    /// Whether it runs and takes data.
    pub fn serves(&self) -> bool {
        self.up == 1 && self.weight > 0.0
    }
}

impl Pg {
    /// The number of its pool.
    pub fn pool(&self) -> Option<i64> {
        self.pgid.split_once('.')?.0.parse().ok()
    }

    /// The OSDs that serve it, each once.
    pub fn holders(&self) -> BTreeSet<i32> {
        self.acting.iter().copied().filter(|osd| *osd != NONE && *osd >= 0).collect()
    }

    /// Whether one of its OSDs is to hold two of its replicas.
    pub fn repeats(&self) -> bool {
        repeats(&self.acting)
    }
}

/// Whether an OSD is named twice.
pub fn repeats(osds: &[i32]) -> bool {
    let named = || osds.iter().filter(|osd| **osd != NONE);
    named().collect::<BTreeSet<_>>().len() < named().count()
}

impl Snapshot {
    /// Asks the cluster.
    ///
    /// # Errors
    /// As [`RadosStore::ask_monitors`] and [`RadosStore::ask_manager`]; `Unavailable` if the manager has just started and does
    /// not know the placement groups yet; `Busy` if the CRUSH map changes all the time.
    pub async fn read(store: &RadosStore) -> Result<Snapshot> {
        let pgs = read_pgs(store).await?;
        for _ in 0..ATTEMPTS {
            let question = json!({ "prefix": "osd crush dump", "format": "json" });
            let (before, dump) = (read_map(store).await?, store.ask_monitors(question).await?);
            let map = read_map(store).await?;
            if before.crush_version == map.crush_version {
                return Ok(Snapshot { map, crush: CrushMap::parse(&dump.output)?, pgs });
            }
        }
        Err(Error::new(ErrorKind::Busy, "somebody is changing the CRUSH map; try again when that is done"))
    }

    /// The pool with this name.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn pool(&self, name: &str) -> Result<&Pool> {
        self.map.pools.iter().find(|pool| pool.name == name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no such pool; `benthic pool ls` shows what is there")
                .with("pool", name)
        })
    }

    /// The placement groups of a pool.
    pub fn pgs_of(&self, pool: &Pool) -> impl Iterator<Item = &Pg> {
        let id = pool.id;
        self.pgs.iter().filter(move |pg| pg.pool() == Some(id))
    }

    /// The sites that a pool's rule can choose from; see [`CrushMap::sites`].
    ///
    /// # Errors
    /// As there; `Unsupported` if no root has all of the rule's OSDs.
    pub fn sites_of(&self, pool: &Pool, domain: Option<&str>) -> Result<Sites> {
        let rule = self.crush.rule(pool.crush_rule);
        let root = rule.and_then(|rule| self.crush.root_of(rule)).ok_or_else(|| {
            let message =
                "the pool's rule takes OSDs of several roots, or none; `ceph osd crush rule dump` shows it";
            Error::new(ErrorKind::Unsupported, message).with("pool", &pool.name)
        })?;
        self.crush.sites(root, domain)
    }

    /// The OSDs of a site that do not run or take no data.
    pub fn missing<'a>(&'a self, osds: &'a BTreeSet<i32>) -> impl Iterator<Item = i32> + 'a {
        let serves = |id: i32| self.map.osds.iter().any(|osd| osd.id == id && osd.serves());
        osds.iter().copied().filter(move |id| !serves(*id))
    }
}

/// What the monitors know now of pools and OSDs.
///
/// # Errors
/// As [`RadosStore::ask_monitors`].
pub async fn read_map(store: &RadosStore) -> Result<OsdMap> {
    parse(&store.ask_monitors(json!({ "prefix": "osd dump", "format": "json" })).await?.output)
}

/// Where the placement groups are now, as far as the manager has heard.
///
/// # Errors
/// As [`Snapshot::read`].
pub async fn read_pgs(store: &RadosStore) -> Result<Vec<Pg>> {
    let question = json!({ "prefix": "pg dump", "dumpcontents": ["pgs_brief"], "format": "json" });
    parse_pgs(&store.ask_manager(question).await?.output)
}

/// What a number in the monitors' configuration is. Who may not read it is told of the usual one.
///
/// # Errors
/// `Unavailable` if no monitor answers.
pub(crate) async fn setting(store: &RadosStore, who: &str, key: &str, default: u64) -> Result<u64> {
    let question = json!({ "prefix": "config get", "who": who, "key": key });
    match store.ask_monitors(question).await {
        Ok(answer) => Ok(String::from_utf8_lossy(&answer.output).trim().parse().unwrap_or(default)),
        Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
        Err(_) => Ok(default),
    }
}

pub(super) fn parse_pgs(dump: &[u8]) -> Result<Vec<Pg>> {
    let dump: PgDump = parse(dump)?;
    if !dump.pg_ready {
        let message =
            "the manager has just started and has not heard of all placement groups; try again in a minute";
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    Ok(dump.pg_stats)
}

pub(crate) fn parse<T: DeserializeOwned>(answer: &[u8]) -> Result<T> {
    serde_json::from_slice(answer).map_err(|error| {
        Error::new(ErrorKind::Unsupported, "the cluster's answer is not understood").with_source(error)
    })
}
