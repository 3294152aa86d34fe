//! What is asked of this benchmark's clusters.

use bench_report::Outcome;
use bench_report::cluster::Cluster;
use benthic_core::{ErrorKind, Pool, Store};
use benthic_rados::{Options, RadosStore};
use std::fs;
use std::sync::Arc;

/// Connects, with the classes that its OSDs have in the library of this build.
pub async fn connect(cluster: &Cluster) -> Outcome<Arc<dyn Store>> {
    let conf = cluster.conf();
    let options = Options { classes: benthic_classes::registry(), ..Options::default() };
    Ok(tokio::task::spawn_blocking(move || RadosStore::connect(Some(&conf), None, options)).await??)
}

/// Resident memory of its OSDs, on average.
pub fn osd_mib(cluster: &Cluster) -> Outcome<f64> {
    let output = cluster.benthic(["--json", "cluster", "status", "--dir"]).arg(cluster.dir()).output()?;
    let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mut all_mib = Vec::new();
    for daemon in status["daemons"].as_array().into_iter().flatten() {
        if daemon["name"].as_str().is_some_and(|name| name.starts_with("osd")) {
            let process = fs::read_to_string(format!("/proc/{}/status", daemon["pid"]))?;
            let resident = process.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
            all_mib.push(kib.ok_or("an OSD has no resident memory")? / 1024.0);
        }
    }
    Ok(all_mib.iter().sum::<f64>() / all_mib.len().max(1) as f64)
}

/// Makes and opens a pool.
pub async fn pool(store: &Arc<dyn Store>, name: &str) -> Outcome<Arc<dyn Pool>> {
    match store.create_pool(name).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(store.open_pool(name).await?),
    }
}
