//! Classes and connections of this benchmark's clusters.

use crate::Outcome;
use bench_report::cluster::{Cluster, run};
use benthic_core::{Pool, Store};
use benthic_rados::{Options, RadosStore};
use std::path::Path;
use std::sync::Arc;

/// Puts a class where the OSDs look for it when it is first called.
pub fn install(cluster: &Cluster, library: &Path) -> Outcome {
    run(cluster.benthic(["class", "install"]).arg(library).arg("--cluster").arg(cluster.dir()))
}

/// Connects with the classes that this build knows.
pub async fn connect(cluster: &Cluster) -> Outcome<Arc<RadosStore>> {
    let options = Options { classes: benthic_classes::registry(), ..Options::default() };
    let conf = cluster.conf();
    Ok(tokio::task::spawn_blocking(move || RadosStore::connect(Some(&conf), None, options)).await??)
}

/// A new pool.
pub async fn new_pool(store: &dyn Store, name: &str) -> Outcome<Arc<dyn Pool>> {
    store.create_pool(name).await?;
    Ok(store.open_pool(name).await?)
}
