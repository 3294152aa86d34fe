//! What is asked of this benchmark's clusters.

use bench_report::Outcome;
use bench_report::cluster::Cluster;
use benthic_core::{ErrorKind, Pool, Store};
use benthic_rados::{Options, RadosStore};
use std::sync::Arc;

/// Connects, with the classes that its OSDs have in the library of this build.
pub async fn connect(cluster: &Cluster) -> Outcome<Arc<dyn Store>> {
    let conf = cluster.conf();
    let options = Options { classes: benthic_classes::registry(), ..Options::default() };
    Ok(tokio::task::spawn_blocking(move || RadosStore::connect(Some(&conf), None, options)).await??)
}

/// Makes and opens a pool.
pub async fn pool(store: &Arc<dyn Store>, name: &str) -> Outcome<Arc<dyn Pool>> {
    match store.create_pool(name).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(store.open_pool(name).await?),
    }
}
