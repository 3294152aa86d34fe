//! Usage, rates and latency of pools and OSDs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `df`: usage of the cluster and its pools.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Df {
    /// Of the whole cluster.
    #[serde(default)]
    pub stats: DfStats,
    /// By pool.
    pub pools: Vec<PoolDf>,
}

impl Df {
    /// Bytes that each pool takes on all disks, by the number of the pool.
    pub fn used_bytes(&self) -> BTreeMap<i64, u64> {
        self.pools.iter().filter_map(|pool| Some((pool.id, pool.stats.bytes_used?))).collect()
    }
}

/// Raw space of the whole cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DfStats {
    /// All of it.
    pub total_bytes: u64,
    /// Of it used.
    pub total_used_raw_bytes: u64,
}

/// Usage of a pool.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolDf {
    /// Its number.
    pub id: i64,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its contents.
    pub stats: PoolStats,
}

/// Contents of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PoolStats {
    /// Bytes of clients, each counted once.
    pub stored: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes on all disks.
    pub bytes_used: Option<u64>,
}

/// I/O of a pool: an element of `osd pool stats`.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolIo {
    /// Its number.
    pub pool_id: i64,
    /// I/O of clients.
    #[serde(default)]
    pub client_io_rate: Io,
    /// Recovery and backfill.
    #[serde(default)]
    pub recovery_rate: Recovery,
}

/// I/O of clients: rates over the last seconds, as the manager computes them. A rate that it leaves out is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Io {
    /// Bytes read in a second.
    #[serde(rename(deserialize = "read_bytes_sec"))]
    pub read_bytes_per_s: u64,
    /// Bytes written.
    #[serde(rename(deserialize = "write_bytes_sec"))]
    pub write_bytes_per_s: u64,
    /// Operations that read.
    #[serde(rename(deserialize = "read_op_per_sec"))]
    pub read_ops_per_s: u64,
    /// Operations that write.
    #[serde(rename(deserialize = "write_op_per_sec"))]
    pub write_ops_per_s: u64,
}

/// Recovery and backfill by OSDs: rates, as those of [`Io`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Recovery {
    /// Bytes in a second.
    #[serde(rename(deserialize = "recovering_bytes_per_sec"))]
    pub bytes_per_s: u64,
    /// Objects.
    #[serde(rename(deserialize = "recovering_objects_per_sec"))]
    pub objects_per_s: u64,
}

/// `osd df`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OsdDf {
    /// By OSD.
    pub nodes: Vec<OsdUsage>,
}

/// Usage of an OSD.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OsdUsage {
    /// Its number.
    pub id: i32,
    /// Its space.
    #[serde(rename = "kb")]
    pub total_kib: u64,
    /// Of it used.
    #[serde(rename = "kb_used")]
    pub used_kib: u64,
}

impl OsdUsage {
    /// The share that is used, 0 to 1; `None` for an OSD that never reported its size.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn share(&self) -> Option<f64> {
        (self.total_kib > 0).then(|| self.used_kib as f64 / self.total_kib as f64)
    }
}

/// `osd perf`; older and newer releases have the list at different places.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OsdPerf {
    #[serde(default)]
    osdstats: Option<Box<OsdPerf>>,
    #[serde(default)]
    osd_perf_infos: Vec<OsdLatency>,
}

impl OsdPerf {
    /// By OSD.
    pub fn of_osds(self) -> Vec<OsdLatency> {
        match self.osdstats {
            Some(inner) => inner.osd_perf_infos,
            None => self.osd_perf_infos,
        }
    }
}

/// Latency of an OSD.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OsdLatency {
    /// Its number.
    pub id: i32,
    /// Latency of its disk.
    #[serde(rename = "perf_stats")]
    pub stats: LatencyStats,
}

/// Latency of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LatencyStats {
    /// To make a write durable.
    #[serde(default)]
    pub commit_latency_ms: u64,
    /// To make it readable.
    #[serde(default)]
    pub apply_latency_ms: u64,
}
