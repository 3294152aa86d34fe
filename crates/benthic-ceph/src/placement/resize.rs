//! Predicts a change of a pool's number of replicas: the placement of the new replicas, the limits
//! of the cluster, and the space on its OSDs.

use super::preview::{Mapping, Mappings, Preview};
use super::snapshot::Snapshot;
use crate::cluster_client::ClusterClient;
use crate::cluster_state::{Df, OsdDf, OsdUsage, Pool};
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Ceph's limit of replicas per pool.
const REPLICAS_MAX: usize = 10;
/// The monitors' limit of placement groups assumes at least this many OSDs.
const OSDS_MIN: u64 = 3;
const KIB: f64 = 1_024.0;

/// A change of a pool's number of replicas (`size`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    pub replicas: usize,
    /// `min_size` before the change, and after an undo: a placement group with fewer replicas takes
    /// no I/O.
    pub old_min_size: usize,
    /// `min_size` after the change: the old value, or the number of replicas if that is smaller.
    pub min_size: usize,
    /// Bytes of the pool on all disks before the change.
    pub disk_bytes: u64,
    /// Bytes of the pool on all disks after the change.
    pub new_disk_bytes: u64,
    /// The fullest OSD of the pool after the change; -1 if the manager reported no usage.
    pub fullest_osd: i32,
    /// The used share of that OSD after the change, 0 to 1.
    pub fullest_share: f64,
}

/// The monitors' limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Placement group replicas per OSD that is in (`mon_max_pg_per_osd`).
    pub pgs_per_osd: u64,
    /// The `min_size` that Ceph sets (`osd_pool_default_min_size`); 0 if Ceph derives it from the
    /// number of replicas.
    pub min_size: usize,
}

/// The usage of the OSDs, and the part of the pool in it.
#[derive(Clone, Debug)]
pub(super) struct Space {
    usages: Vec<OsdUsage>,
    /// Bytes of all replicas of the pool on all disks.
    pool_bytes: u64,
}

/// The number of replicas that a pool will have.
///
/// # Errors
/// `InvalidArgument` for fewer than two; `LimitExceeded` for more than Ceph supports.
pub(super) fn target_replicas(pool: &Pool, requested: Option<usize>) -> Result<usize> {
    match requested {
        None => Ok(pool.size),
        Some(count @ ..2) => {
            let message = "one replica has no copy: a failed disk loses data; request two or more";
            Err(Error::invalid_argument(message).with("replicas", count))
        }
        Some(count) if count > REPLICAS_MAX => {
            Err(Error::limit_exceeded("Ceph does not support so many replicas; request fewer")
                .with("replicas", count)
                .with("replicas_max", REPLICAS_MAX))
        }
        Some(count) => Ok(count),
    }
}

impl Limits {
    pub(super) async fn read(client: &dyn ClusterClient) -> Result<Limits> {
        let min_size = client.setting("mon", "osd_pool_default_min_size", 0).await?;
        Ok(Limits {
            pgs_per_osd: client.setting("mon", "mon_max_pg_per_osd", 250).await?,
            min_size: usize::try_from(min_size).unwrap_or(0),
        })
    }

    /// Checks that the monitors accept the number of replicas, and that I/O continues during the
    /// change and during an undo.
    ///
    /// # Errors
    /// `LimitExceeded`; `Unsupported` if the pool forbids the change or has one replica.
    pub(super) fn check(&self, snapshot: &Snapshot, pool: &Pool, replicas: usize) -> Result<()> {
        if pool.flags_names.split(',').any(|flag| flag == "nosizechange") {
            let message = "the pool's flag nosizechange forbids a change of the replicas; `ceph osd pool set POOL \
                nosizechange false` allows it";
            return Err(Error::unsupported(message).with("pool", &pool.name));
        }
        if pool.size < 2 {
            let message = "the pool has one replica, so the plan could not be undone; run `ceph osd pool set POOL size 2` first";
            return Err(Error::unsupported(message).with("pool", &pool.name));
        }
        let (fewer, more) = (pool.size.min(replicas), pool.size.max(replicas));
        // The monitors set `min_size` together with the number of replicas, before the new copies
        // exist.
        let min_size = if self.min_size == 0 { more - more / 2 } else { self.min_size.min(more) };
        if min_size > fewer {
            let message = "Ceph would at first require more copies than exist, and I/O would stop; change the replicas in \
                two plans";
            return Err(Error::limit_exceeded(message).with("replicas", fewer).with("min_size", min_size));
        }
        let of = |other: &Pool| if other.id == pool.id { replicas } else { other.size };
        let all: u64 =
            snapshot.map.pools.iter().map(|other| u64::from(other.pg_num) * of(other) as u64).sum();
        let osds = snapshot.map.osds.iter().filter(|osd| osd.weight > 0.0).count() as u64;
        let max = self.pgs_per_osd.saturating_mul(osds.max(OSDS_MIN));
        if replicas > pool.size && all > max {
            let message = "the monitors would refuse so many placement group replicas; `benthic pgs suggest` shows which \
                pools have too many; more OSDs or a higher mon_max_pg_per_osd allow them";
            return Err(Error::limit_exceeded(message)
                .with("pg_replicas", all)
                .with("pg_replicas_max", max)
                .with("mon_max_pg_per_osd", self.pgs_per_osd));
        }
        Ok(())
    }
}

/// Predicts the placement of a pool with another number of replicas. `then` is the placement of the
/// compiled map with the present number: Ceph's tool computes no other.
///
/// # Errors
/// As [`Preview::try_compiled`]; `Unavailable` if the rule does not predict the placement.
pub(super) fn predict(
    snapshot: &Snapshot,
    preview: &mut Preview,
    compiled: &[u8],
    pool: &Pool,
    replicas: usize,
    mut then: Mappings,
) -> Result<Mappings> {
    if replicas < pool.size {
        then.values_mut().for_each(|osds| osds.truncate(replicas));
        return Ok(then);
    }
    let osds = snapshot.map.osds.iter().filter(|osd| osd.weight < 1.0);
    let reduced: Vec<(i32, f64)> = osds.map(|osd| (osd.id, osd.weight)).collect();
    let chosen = preview.try_compiled(compiled, pool, replicas, &reduced)?;
    extend(then, &chosen, pool, snapshot.map.upmaps_of(pool))
}

/// Extends the placement of each placement group by the further OSDs that the rule chooses. `moved`
/// is the number of placement groups that the balancer moved. Only their first OSDs may differ from
/// the rule's choice.
pub(super) fn extend(mut then: Mappings, chosen: &Mapping, pool: &Pool, moved: usize) -> Result<Mappings> {
    let mut unlike = 0;
    for (pgid, osds) in &mut then {
        let seed = pgid.split_once('.').and_then(|(_, seed)| usize::from_str_radix(seed, 16).ok());
        let found = seed.and_then(|seed| chosen.get(seed)).map_or(&[][..], Vec::as_slice);
        let (first, more) = found.split_at(pool.size.min(found.len()));
        let same = first.len() == osds.len() && first.iter().all(|osd| osds.contains(osd));
        unlike += usize::from(!same);
        if more.iter().any(|osd| osds.contains(osd)) {
            *osds = found.to_vec();
        } else {
            osds.extend(more);
        }
    }
    if unlike > moved {
        let message = "the pool is changing, so the new replicas cannot be predicted; wait until `ceph -s` shows its \
            placement groups active and clean, and pg_num and pgp_num are equal";
        return Err(Error::unavailable(message).with("pool", &pool.name).with("pgs", unlike));
    }
    Ok(then)
}

impl Space {
    pub(super) async fn read(client: &dyn ClusterClient, pool: &Pool) -> Result<Space> {
        let usages: OsdDf = client.manager_state(json!({ "prefix": "osd df" })).await?;
        let df: Df = client.monitor_state(json!({ "prefix": "df" })).await?;
        Ok(Space::new(usages.nodes, df.used_bytes().get(&pool.id).copied().unwrap_or(0)))
    }

    pub(super) fn new(usages: Vec<OsdUsage>, pool_bytes: u64) -> Space {
        Space { usages, pool_bytes }
    }
}

impl Resize {
    /// Predicts the usage with another number of replicas. `bytes` has the size of each placement
    /// group.
    ///
    /// # Errors
    /// `LimitExceeded` if an OSD would be too full for its new replicas.
    pub(super) fn new(
        snapshot: &Snapshot,
        pool: &Pool,
        replicas: usize,
        space: &Space,
        (before, after): (&Mappings, &Mappings),
        bytes: &BTreeMap<String, u64>,
    ) -> Result<Resize> {
        let all = bytes.values().sum::<u64>() as f64 * pool.size as f64;
        // On disk, small objects take more than their size, and compressed objects take less.
        let on_disk = if all > 0.0 && space.pool_bytes > 0 { space.pool_bytes as f64 / all } else { 1.0 };
        let disk_bytes = (all * on_disk) as u64;
        let mut more: BTreeMap<i32, f64> = BTreeMap::new();
        for (mappings, sign) in [(before, -1.0), (after, 1.0)] {
            for (pgid, osds) in mappings {
                let bytes = bytes.get(pgid).copied().unwrap_or(0) as f64 * on_disk;
                for osd in osds {
                    *more.entry(*osd).or_default() += sign * bytes;
                }
            }
        }
        let holders: BTreeSet<i32> = after.values().flatten().copied().collect();
        let holders = space.usages.iter().filter(|usage| holders.contains(&usage.id) && usage.total_kib > 0);
        let shares = holders.map(|usage| {
            let more = more.get(&usage.id).copied().unwrap_or_default();
            (usage.id, ((usage.used_kib as f64 * KIB + more) / (usage.total_kib as f64 * KIB)).max(0.0))
        });
        let fullest = shares.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((-1, 0.0));
        let max = snapshot.map.backfillfull_ratio;
        if replicas > pool.size && max > 0.0 && fullest.1 > max {
            let message = "an OSD would be too full for the new replicas; add OSDs, let the balancer even out the usage, or \
                remove data";
            return Err(Error::limit_exceeded(message)
                .with("osd", fullest.0)
                .with("used_percent", format_args!("{:.0}", 100.0 * fullest.1))
                .with("used_percent_max", format_args!("{:.0}", 100.0 * max)));
        }
        Ok(Resize {
            replicas,
            old_min_size: pool.min_size,
            min_size: pool.min_size.min(replicas),
            disk_bytes,
            new_disk_bytes: (disk_bytes as f64 / pool.size.max(1) as f64 * replicas as f64) as u64,
            fullest_osd: fullest.0,
            fullest_share: fullest.1,
        })
    }

    pub(super) fn warnings(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut warnings = Vec::new();
        let stays = if self.min_size == self.old_min_size { "stays" } else { "becomes" };
        if self.min_size == 1 {
            warnings.push(format!(
                "min_size {stays} 1: a write is acknowledged with one copy; `ceph osd pool set POOL min_size 2` requires two"
            ));
        } else if self.min_size == self.replicas {
            warnings.push(format!(
                "min_size {stays} {}, the number of replicas: placement groups with an OSD that is down take no I/O",
                self.min_size
            ));
        }
        let near = snapshot.map.nearfull_ratio;
        if near > 0.0 && self.fullest_share > near {
            warnings.push(format!(
                "osd.{} will be {:.0}% full, and the cluster warns from {:.0}%",
                self.fullest_osd,
                100.0 * self.fullest_share,
                100.0 * near
            ));
        }
        warnings
    }
}
