//! Reports how many placement groups pools have and how many they should have. It considers the
//! replicas per OSD, the pools' shares of the data, the memory that recovery needs, and the plans
//! of Ceph's autoscaler.

use crate::cluster_client::ClusterClient;
use crate::cluster_state::{Df, Pg, Pool};
use crate::placement::snapshot::Snapshot;
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Target range of placement group replicas per OSD.
pub const REPLICAS_PER_OSD: (f64, f64) = (50.0, 100.0);
/// With fewer placement groups, most OSDs hold none.
const PG_NUM_MIN: u32 = 8;
/// A pool has too few placement groups if its share of the data exceeds its share of the replicas
/// by this factor.
const SHARE_RATIO: f64 = 4.0;
/// A pool with a smaller share of the data does not affect the balance of its OSDs.
const SHARE_MIN: f64 = 0.1;
/// With less data, the shares say nothing yet.
const DATA_MIN_BYTES: u64 = 1 << 30;
/// The balancer should be checked if an OSD has this many times the mean, relative to its weight.
const UNEVEN_RATIO: f64 = 1.5;
/// Memory of one entry of a placement group's log in an OSD, with the object's name and its place
/// in an index. The estimate is rather high.
const LOG_ENTRY_BYTES: u64 = 512;

/// The data that the report is based on.
#[derive(Debug)]
pub struct SizingInput {
    pub snapshot: Snapshot,
    /// Bytes that each pool occupies on all of its OSDs together.
    pub used_bytes: BTreeMap<i64, u64>,
    /// The autoscaler's plans, or the error of reading them.
    pub autoscaler: Result<Vec<AutoscalerPlan>>,
    pub settings: Settings,
}

/// The autoscaler's plan for a pool.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct AutoscalerPlan {
    #[serde(rename(deserialize = "pool_name"))]
    pub pool: String,
    /// The number of placement groups that it aims for.
    #[serde(rename(deserialize = "pg_num_final"))]
    pub pg_num: u32,
    /// Whether the difference is large enough for it to act.
    pub would_adjust: bool,
    /// `on`, `warn` or `off`.
    #[serde(rename(deserialize = "pg_autoscale_mode"))]
    pub mode: String,
    /// The share of the space that the plan assumes.
    #[serde(rename(deserialize = "capacity_ratio"))]
    pub share: f64,
}

/// OSD settings that determine the memory of recovery, and the limit of replicas per OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `osd_memory_target`.
    pub memory_target_bytes: u64,
    /// `osd_target_pg_log_entries_per_osd`: log entries that all placement groups of an OSD share.
    pub log_entries_per_osd: u64,
    /// `osd_min_pg_log_entries`: the minimum for each placement group.
    pub log_entries_min: u64,
    /// `osd_max_pg_log_entries`: the maximum for each placement group.
    pub log_entries_max: u64,
    /// `mon_max_pg_per_osd`: above it, the monitors refuse new pools.
    pub replicas_per_osd_max: u64,
}

/// The report on placement groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Pools, grouped by the OSDs that they may use.
    pub groups: Vec<Group>,
    pub findings: Vec<Finding>,
}

/// Pools that may use the same OSDs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// OSDs that are in.
    pub osds: usize,
    /// Mean number of placement group replicas per OSD.
    pub replicas_per_osd: f64,
    pub least: usize,
    pub most: usize,
    /// The highest number of replicas per weight of an OSD, as a multiple of the mean.
    pub uneven: f64,
    /// Memory of the full placement group logs on the OSD with the most replicas.
    pub recovery_bytes: u64,
    pub pools: Vec<PoolShare>,
}

/// A pool and its shares within its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolShare {
    pub pool: String,
    pub pg_num: u32,
    /// Replicas or chunks of each placement group.
    pub replicas: usize,
    /// Bytes that the pool occupies on all of its OSDs together; `None` if unknown.
    pub data_bytes: Option<u64>,
    /// Share of the group's data.
    pub data_share: f64,
    /// The origin of `data_share`.
    pub basis: Basis,
    /// Share of the group's placement group replicas.
    pub replica_share: f64,
    /// The number of placement groups that the pool should have. `None` if there is nothing to base
    /// advice on; `no_advice` gives the reason.
    pub suggested: Option<u32>,
    pub no_advice: Option<&'static str>,
    pub autoscaler: Option<AutoscalerPlan>,
}

/// The origin of a pool's share of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The caller gave it.
    Requested,
    /// The pool's share of the data now.
    Measured,
    /// The pools have so little data that the present shares mean nothing: each pool with data
    /// counts the same.
    Assumed,
    /// The pool is empty, or its usage is unknown.
    Unknown,
}

impl Basis {
    /// The assumption behind advice with this basis; `None` without advice.
    pub fn assumption(self) -> Option<&'static str> {
        match self {
            Basis::Requested => Some("the pool will have the share that --share gives"),
            Basis::Measured => Some("the pools keep their present shares of the data"),
            Basis::Assumed => {
                Some("all pools with data will have equal shares: they hold less than 1 GiB together")
            }
            Basis::Unknown => None,
        }
    }
}

/// A deviation from the recommended state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub check: Check,
    pub pools: Vec<String>,
    /// The deviation and the next step.
    pub message: String,
}

/// The checks of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// OSDs have too few replicas: data are spread unevenly.
    Few,
    /// OSDs have too many replicas: peering and recovery take long and need much memory.
    Many,
    /// An OSD has more replicas than the cluster allows.
    Limit,
    /// The pool's number of placement groups is not a power of two: some are twice as large as
    /// others.
    PowerOfTwo,
    /// The pool has much of the data but few of the replicas. Its placement groups are large, and
    /// OSDs fill unevenly.
    Share,
    /// An OSD has many more replicas than the mean.
    Uneven,
    /// The full placement group logs exceed the memory target of an OSD.
    Memory,
    /// The autoscaler will change the pool on its own.
    Autoscaler,
}

impl Settings {
    /// Log entries that each placement group may keep if an OSD has `pgs` of them.
    fn log_entries(&self, pgs: u64) -> u64 {
        let share = self.log_entries_per_osd / pgs.max(1);
        share.clamp(self.log_entries_min.min(self.log_entries_max), self.log_entries_max)
    }
}

impl SizingInput {
    /// Reads the data from the cluster. Changes nothing.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub async fn read(client: &dyn ClusterClient) -> Result<SizingInput> {
        let snapshot = Snapshot::read(client).await?;
        let df: Df = client.monitor_state(json!({ "prefix": "df" })).await?;
        let autoscaler = client.manager_state(json!({ "prefix": "osd pool autoscale-status" })).await;
        let settings = Settings {
            memory_target_bytes: client.setting("osd", "osd_memory_target", 4 << 30).await?,
            log_entries_per_osd: client.setting("osd", "osd_target_pg_log_entries_per_osd", 300_000).await?,
            log_entries_min: client.setting("osd", "osd_min_pg_log_entries", 250).await?,
            log_entries_max: client.setting("osd", "osd_max_pg_log_entries", 10_000).await?,
            replicas_per_osd_max: client.setting("mon", "mon_max_pg_per_osd", 250).await?,
        };
        Ok(SizingInput { snapshot, used_bytes: df.used_bytes(), autoscaler, settings })
    }
}

/// Builds the report. `requested` maps pools to the shares of the data (0 to 1) that they will
/// have. The other pools divide the rest in proportion to their present data.
///
/// # Errors
/// `NotFound` if a pool in `requested` does not exist; `InvalidArgument` if the requested shares of
/// pools with the same OSDs exceed 1.
pub fn judge(input: &SizingInput, requested: &BTreeMap<String, f64>) -> Result<Report> {
    for name in requested.keys() {
        input.snapshot.pool(name)?;
    }
    let mut groups: BTreeMap<BTreeMap<i32, u32>, Vec<&Pool>> = BTreeMap::new();
    for pool in &input.snapshot.map.pools {
        groups.entry(osds_of(&input.snapshot, pool)).or_default().push(pool);
    }
    let mut report = Report { groups: Vec::new(), findings: Vec::new() };
    for (osds, pools) in &groups {
        let group = group(input, osds, pools, requested)?;
        report.findings.extend(findings(&group, &input.settings));
        report.groups.push(group);
    }
    Ok(report)
}

/// The OSDs that a pool's rule can choose and that are in, with their weights.
fn osds_of(snapshot: &Snapshot, pool: &Pool) -> BTreeMap<i32, u32> {
    let crush = &snapshot.crush;
    let is_of = |osd: i32, class: Option<&str>| {
        let device = crush.devices.iter().find(|device| device.id == osd);
        class.is_none_or(|class| device.is_some_and(|device| device.class.as_deref() == Some(class)))
    };
    let is_in = |osd: i32| snapshot.map.osds.iter().any(|found| found.id == osd && found.weight > 0.0);
    let mut osds = BTreeMap::new();
    for (bucket, class) in crush.rule(pool.crush_rule).iter().flat_map(|rule| crush.takes(rule)) {
        let below = crush.osds_below(bucket).into_iter();
        osds.extend(below.filter(|(osd, _)| is_of(*osd, class) && is_in(*osd)));
    }
    osds
}

fn group(
    input: &SizingInput,
    osds: &BTreeMap<i32, u32>,
    pools: &[&Pool],
    requested: &BTreeMap<String, f64>,
) -> Result<Group> {
    // Count the replicas of all pools: pools of other groups may use some of these OSDs too.
    let mut on_osd: BTreeMap<i32, usize> = osds.keys().map(|osd| (*osd, 0)).collect();
    for osd in input.snapshot.pgs.iter().flat_map(Pg::holders) {
        if let Some(count) = on_osd.get_mut(&osd) {
            *count += 1;
        }
    }
    let here = |pool: &Pool| {
        let theirs = osds_of(&input.snapshot, pool);
        let shared = theirs.keys().filter(|osd| osds.contains_key(osd)).count();
        (pool.pg_num as usize * pool.size * shared) as f64 / theirs.len().max(1) as f64
    };
    let replicas: f64 = input.snapshot.map.pools.iter().map(here).sum();
    let replicas_per_osd = replicas / on_osd.len().max(1) as f64;
    let is_fair = (REPLICAS_PER_OSD.0..=REPLICAS_PER_OSD.1).contains(&replicas_per_osd);
    let (least, most) =
        (on_osd.values().min().copied().unwrap_or(0), on_osd.values().max().copied().unwrap_or(0));
    let scaled = |pool: &Pool| {
        let scaled = input.autoscaler.as_ref().ok()?;
        scaled.iter().find(|scaled| scaled.pool == pool.name).cloned()
    };
    let own: usize = pools.iter().map(|pool| pool.pg_num as usize * pool.size).sum();
    let shares = shares(input, pools, requested)?;
    let pools = pools.iter().zip(shares).map(|(pool, (data_share, basis))| {
        let fitting = fitting(on_osd.len(), data_share, pool.size);
        let stays = is_fair && is_near(pool.pg_num, fitting);
        let data_bytes = input.used_bytes.get(&pool.id).copied();
        let no_advice = match basis {
            _ if on_osd.is_empty() => Some("its rule finds no OSD that is in"),
            Basis::Unknown if data_bytes.is_none() => Some("its usage is not known"),
            Basis::Unknown => Some("it is empty"),
            _ => None,
        };
        PoolShare {
            pool: pool.name.clone(),
            pg_num: pool.pg_num,
            replicas: pool.size,
            data_bytes,
            data_share,
            basis,
            replica_share: (pool.pg_num as usize * pool.size) as f64 / own.max(1) as f64,
            suggested: no_advice.is_none().then_some(if stays { pool.pg_num } else { fitting }),
            no_advice,
            autoscaler: scaled(pool),
        }
    });
    Ok(Group {
        osds: on_osd.len(),
        replicas_per_osd,
        least,
        most,
        uneven: uneven(&on_osd, osds),
        recovery_bytes: most as u64 * input.settings.log_entries(most as u64) * LOG_ENTRY_BYTES,
        pools: pools.collect(),
    })
}

/// The highest number of replicas per weight of an OSD, as a multiple of the mean.
fn uneven(on_osd: &BTreeMap<i32, usize>, weights: &BTreeMap<i32, u32>) -> f64 {
    let all: usize = on_osd.values().sum();
    let weight: f64 = weights.values().map(|weight| f64::from(*weight)).sum();
    let ratio = |(osd, count): (&i32, &usize)| {
        let own = f64::from(*weights.get(osd)?);
        (own > 0.0 && all > 0).then(|| *count as f64 / own / (all as f64 / weight))
    };
    on_osd.iter().filter_map(ratio).fold(1.0, f64::max)
}

/// The share of the data of each pool, and its origin. The shares add up to 1, unless all pools are
/// empty.
fn shares(
    input: &SizingInput,
    pools: &[&Pool],
    requested: &BTreeMap<String, f64>,
) -> Result<Vec<(f64, Basis)>> {
    let given = |pool: &Pool| requested.get(&pool.name).copied();
    let sum: f64 = pools.iter().filter_map(|pool| given(pool)).sum();
    if sum > 1.0 + 1e-9 {
        let names: Vec<&str> =
            pools.iter().filter(|pool| given(pool).is_some()).map(|pool| pool.name.as_str()).collect();
        let message =
            format!("pools that share their OSDs cannot have {:.0}% of the data together", sum * 100.0);
        return Err(Error::invalid_argument(message).with("pools", names.join(",")));
    }
    let used = |pool: &Pool| input.used_bytes.get(&pool.id).copied().unwrap_or(0);
    let others: Vec<&&Pool> = pools.iter().filter(|pool| given(pool).is_none() && used(pool) > 0).collect();
    let all: u64 = others.iter().map(|pool| used(pool)).sum();
    let left = (1.0 - sum).max(0.0);
    Ok(pools
        .iter()
        .map(|pool| match given(pool) {
            Some(share) => (share, Basis::Requested),
            None if used(pool) == 0 => (0.0, Basis::Unknown),
            None if all < DATA_MIN_BYTES => (left / others.len() as f64, Basis::Assumed),
            None => (left * used(pool) as f64 / all as f64, Basis::Measured),
        })
        .collect())
}

/// The largest power of two with which OSDs have at most the upper target of replicas, but no less
/// than [`PG_NUM_MIN`]. Above that minimum, OSDs have more than half of the upper target.
fn fitting(osds: usize, share: f64, replicas: usize) -> u32 {
    let ideal = osds as f64 * REPLICAS_PER_OSD.1 * share / replicas.max(1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "cut off, and within the bounds"
    )]
    let ideal = ideal.min(f64::from(1_u32 << 30)) as u32;
    (1 << ideal.max(1).ilog2()).max(PG_NUM_MIN)
}

/// Whether a change from `pg_num` to `fitting` would move more data than it is worth.
fn is_near(pg_num: u32, fitting: u32) -> bool {
    pg_num.is_power_of_two() && pg_num <= fitting * 2 && fitting <= pg_num * 2
}

fn findings(group: &Group, settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    let all = || group.pools.iter().map(|pool| pool.pool.clone()).collect::<Vec<_>>();
    let mut add = |check, pools, message| found.push(Finding { check, pools, message });
    let (few, many) = REPLICAS_PER_OSD;
    let per_osd = group.replicas_per_osd;
    if group.most as u64 > settings.replicas_per_osd_max {
        let message = format!(
            "an OSD has {} placement group replicas, but the limit is {} (mon_max_pg_per_osd): the monitors refuse new pools, and \
             placement groups may stay inactive after a failure",
            group.most, settings.replicas_per_osd_max
        );
        add(Check::Limit, all(), message);
    } else if per_osd > many {
        let message = format!(
            "{per_osd:.0} replicas per OSD, but {many:.0} are enough: more take memory and slow down recovery; \
             `benthic pgs suggest` shows which pools have too many"
        );
        add(Check::Many, all(), message);
    }
    if per_osd < few && group.osds > 0 {
        let next = match group.pools.iter().all(|pool| pool.suggested.is_none()) {
            true => "the pools are empty, so `benthic pgs suggest` needs their expected shares (--share)",
            false => "`benthic pgs suggest` shows which pools have too few",
        };
        let message =
            format!("{per_osd:.0} replicas per OSD, but {few:.0} to {many:.0} spread the data well; {next}");
        add(Check::Few, all(), message);
    }
    if group.uneven > UNEVEN_RATIO {
        let message = format!(
            "an OSD has {:.1} times the replicas for its size: it will be full first; `ceph balancer on` evens this out",
            group.uneven
        );
        add(Check::Uneven, all(), message);
    }
    if group.recovery_bytes > settings.memory_target_bytes {
        let message = format!(
            "the logs of {} placement groups take up to {} MiB of an OSD's memory, more than osd_memory_target ({} MiB); use fewer \
             placement groups or a lower osd_min_pg_log_entries",
            group.most,
            group.recovery_bytes >> 20,
            settings.memory_target_bytes >> 20
        );
        add(Check::Memory, all(), message);
    }
    for pool in &group.pools {
        let name = || vec![pool.pool.clone()];
        if !pool.pg_num.is_power_of_two() {
            let message = format!(
                "{} placement groups: some are twice as large as others; use a power of two, such as {}",
                pool.pg_num,
                pool.pg_num.next_power_of_two()
            );
            add(Check::PowerOfTwo, name(), message);
        }
        let is_known = matches!(pool.basis, Basis::Measured | Basis::Requested);
        let is_large = is_known && pool.data_share >= SHARE_MIN && group.pools.len() > 1;
        if is_large && pool.replica_share * SHARE_RATIO < pool.data_share {
            let message = format!(
                "{:.0}% of the data are in {:.0}% of the replicas: the pool's placement groups are large, and OSDs fill \
                 unevenly; use {}",
                pool.data_share * 100.0,
                pool.replica_share * 100.0,
                pool.suggested.unwrap_or(pool.pg_num)
            );
            add(Check::Share, name(), message);
        }
        if let Some(scaled) =
            pool.autoscaler.as_ref().filter(|scaled| scaled.would_adjust && scaled.mode == "on")
        {
            let message = format!(
                "the autoscaler will change {} placement groups to {}, because the pool uses {:.1}% of the space; with \
                 pg_autoscale_mode `warn` it only warns",
                pool.pg_num,
                scaled.pg_num,
                scaled.share * 100.0
            );
            add(Check::Autoscaler, name(), message);
        }
    }
    found
}

#[cfg(test)]
#[path = "pgs_tests.rs"]
mod tests;
