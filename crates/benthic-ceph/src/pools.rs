//! The contents of a pool, and the other users of the cluster that it serves.

use crate::cluster_client::ClusterClient;
use crate::cluster_state::{Df, PoolStats};
use benthic_core::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The application with which Benthic marks its pools.
const APPLICATION: &str = "benthic";

/// Returns true for the pools that Ceph's manager makes for itself.
pub fn is_of_manager(pool: &str) -> bool {
    [".mgr", "device_health_metrics"].contains(&pool)
}

/// The reason why a pool is not Benthic's; `None` if nothing indicates another user. A pool without
/// any application counts as Benthic's, because an interrupted creation leaves such a pool.
///
/// # Errors
/// `NotFound` for a missing pool; as [`ClusterClient::ask_monitors`].
pub async fn foreign_use(client: &dyn ClusterClient, pool: &str) -> Result<Option<String>> {
    let question = json!({ "prefix": "osd pool application get", "pool": pool });
    let applications: BTreeMap<String, Value> = client.monitor_state(question).await?;
    let others: Vec<&str> =
        applications.keys().map(String::as_str).filter(|name| *name != APPLICATION).collect();
    Ok(if is_of_manager(pool) {
        Some("a pool of Ceph's manager".to_owned())
    } else if !others.is_empty() {
        Some(format!("used by {}", others.join(", ")))
    } else if pool.starts_with('.') {
        Some("a name that Ceph reserves".to_owned())
    } else {
        None
    })
}

/// The contents of a pool in the manager's last report, which is seconds old. A pool that it does
/// not contain yet is empty.
///
/// # Errors
/// As [`ClusterClient::ask_monitors`].
pub async fn usage(client: &dyn ClusterClient, pool: &str) -> Result<PoolStats> {
    let df: Df = client.monitor_state(json!({ "prefix": "df" })).await?;
    Ok(df.pools.into_iter().find(|found| found.name == pool).map(|found| found.stats).unwrap_or_default())
}
