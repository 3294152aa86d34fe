//! Usage, I/O rates and latency of pools and OSDs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `df`: usage of the cluster and its pools.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Df {
    #[serde(default)]
    pub stats: DfStats,
    pub pools: Vec<PoolDf>,
}

impl Df {
    /// Bytes of each pool on all disks, by pool number.
    pub fn used_bytes(&self) -> BTreeMap<i64, u64> {
        self.pools.iter().filter_map(|pool| Some((pool.id, pool.stats.bytes_used?))).collect()
    }
}

/// Raw space of the whole cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DfStats {
    pub total_bytes: u64,
    pub total_used_raw_bytes: u64,
}

/// Usage of a pool.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolDf {
    pub id: i64,
    #[serde(default)]
    pub name: String,
    pub stats: PoolStats,
}

/// The contents of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PoolStats {
    /// Bytes of clients, without replication.
    pub stored: u64,
    pub objects: u64,
    /// Bytes on all disks.
    pub bytes_used: Option<u64>,
}

/// I/O rates of a pool: an element of `osd pool stats`.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolIo {
    pub pool_id: i64,
    #[serde(default)]
    pub client_io_rate: Io,
    #[serde(default)]
    pub recovery_rate: Recovery,
}

/// Client I/O: rates over the last seconds, as computed by the manager. A rate that it omits is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Io {
    #[serde(rename(deserialize = "read_bytes_sec"))]
    pub read_bytes_per_s: u64,
    #[serde(rename(deserialize = "write_bytes_sec"))]
    pub write_bytes_per_s: u64,
    #[serde(rename(deserialize = "read_op_per_sec"))]
    pub read_ops_per_s: u64,
    #[serde(rename(deserialize = "write_op_per_sec"))]
    pub write_ops_per_s: u64,
}

/// Recovery and backfill: rates as in [`Io`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Recovery {
    #[serde(rename(deserialize = "recovering_bytes_per_sec"))]
    pub bytes_per_s: u64,
    #[serde(rename(deserialize = "recovering_objects_per_sec"))]
    pub objects_per_s: u64,
}

/// `osd df`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OsdDf {
    pub nodes: Vec<OsdUsage>,
}

/// Usage of an OSD.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OsdUsage {
    pub id: i32,
    #[serde(rename = "kb")]
    pub total_kib: u64,
    #[serde(rename = "kb_used")]
    pub used_kib: u64,
}

impl OsdUsage {
    /// The used share, 0 to 1; `None` for an OSD that never reported its size.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn share(&self) -> Option<f64> {
        (self.total_kib > 0).then(|| self.used_kib as f64 / self.total_kib as f64)
    }
}

/// `osd perf`. The place of the list depends on the release.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OsdPerf {
    #[serde(default)]
    osdstats: Option<Box<OsdPerf>>,
    #[serde(default)]
    osd_perf_infos: Vec<OsdLatency>,
}

impl OsdPerf {
    pub fn of_osds(self) -> Vec<OsdLatency> {
        if let Some(inner) = self.osdstats { inner.osd_perf_infos } else { self.osd_perf_infos }
    }
}

/// Latency of an OSD.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OsdLatency {
    pub id: i32,
    #[serde(rename = "perf_stats")]
    pub stats: LatencyStats,
}

/// Latency of an OSD's disk.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LatencyStats {
    /// The time until a write is durable.
    #[serde(default)]
    pub commit_latency_ms: u64,
    /// The time until a write is readable.
    #[serde(default)]
    pub apply_latency_ms: u64,
}
