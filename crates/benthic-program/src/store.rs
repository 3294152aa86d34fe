//! Opens a store from its URI. Programs choose an engine only here.

use crate::uri::StoreUri;
use benthic_core::{ClassRegistry, Error, ErrorKind, Result, Store, Wait};
use benthic_embedded::{EmbeddedStore, MemStore, Options, SalvageReport};
use benthic_rados::RadosStore;
use benthic_wasm::Wasm;
use std::path::PathBuf;
use std::sync::Arc;
use strsim::levenshtein;
use tokio::task::spawn_blocking;

/// The store to use if the user names none.
pub const DEFAULT_URI: &str = "file:./benthic-data";

/// Directory of the local cluster of `benthic cluster` if the user names none.
pub const CLUSTER_DIR: &str = "./benthic-cluster";

/// An open store.
pub struct OpenStore {
    pub store: Arc<dyn Store>,
    /// The same store if it must be closed.
    embedded: Option<Arc<EmbeddedStore>>,
    /// The same store if it is a Ceph cluster.
    pub(crate) rados: Option<Arc<RadosStore>>,
}

impl OpenStore {
    /// Closes the store. Afterwards all acknowledged writes are on disk, and other processes can
    /// own the directory.
    pub async fn close(&self) -> Result<()> {
        let Some(embedded) = self.embedded.clone() else { return Ok(()) };
        blocking(move || embedded.close()).await
    }
}

/// Opens the store with this URI. With `create`, it creates a store in a directory that has none.
/// `classes` and WebAssembly modules run in this process. A cluster runs its own class libraries,
/// one of which has the built-in classes.
///
/// # Errors
/// `InvalidArgument` for an invalid URI; `NotFound` if the store does not exist; those of the
/// engines.
pub async fn open(uri: &str, create: bool, classes: ClassRegistry) -> Result<OpenStore> {
    let options = |classes: ClassRegistry| {
        let wasm = Wasm::new().with_callees(classes.clone());
        Options::default().with_classes(classes.with(wasm))
    };
    match uri.parse()? {
        StoreUri::Mem => {
            Ok(OpenStore { store: MemStore::new(options(classes)), embedded: None, rados: None })
        }
        StoreUri::File(dir) => {
            let store = blocking(move || EmbeddedStore::open(&dir, create, options(classes)))
                .await
                .map_err(|error| explain_open(error, uri, create))?;
            Ok(OpenStore { store: Arc::clone(&store) as Arc<dyn Store>, embedded: Some(store), rados: None })
        }
        StoreUri::Ceph { conf, id, read_near } => {
            // Methods of a query that run in this process call the same classes as in the OSDs.
            let _ = Wasm::new().with_callees(benthic_classes::registry());
            let options = benthic_rados::Options {
                classes: benthic_classes::registry(),
                localized_reads: read_near,
                ..benthic_rados::Options::default()
            };
            let conf = conf.or_else(local_conf);
            let store = blocking(move || RadosStore::connect(conf.as_deref(), id.as_deref(), options))
                .await
                .map_err(|error| error.with("store", uri))?;
            Ok(OpenStore { store: Arc::clone(&store) as Arc<dyn Store>, embedded: None, rados: Some(store) })
        }
    }
}

/// The process for which opening the store with this URI waits. `None` if it waits for no other
/// process.
pub(crate) fn describe_opening(uri: &str) -> Option<Wait> {
    match uri.parse().ok()? {
        StoreUri::Mem => None,
        StoreUri::File(dir) => benthic_embedded::wait_for_owner(&dir),
        StoreUri::Ceph { .. } => {
            let details = "to connect; `ceph -s` shows whether the monitors answer".to_owned();
            Some(Wait { whom: format!("a monitor of {uri}"), details })
        }
    }
}

/// The configuration of the local cluster that `benthic cluster up` started in the current
/// directory. `None` if Ceph's own programs would find a configuration elsewhere.
fn local_conf() -> Option<PathBuf> {
    let named = ["CEPH_CONF", "CEPH_ARGS"].iter().any(|name| std::env::var_os(name).is_some());
    let home = std::env::home_dir().unwrap_or_default();
    let usual = ["/etc/ceph/ceph.conf".into(), home.join(".ceph/ceph.conf"), "ceph.conf".into()];
    let here = PathBuf::from(CLUSTER_DIR).join("ceph.conf");
    (!named && !usual.iter().any(|conf: &PathBuf| conf.exists()) && here.exists()).then_some(here)
}

/// Copies the intact data of a damaged store into a new store.
///
/// # Errors
/// `Unsupported` if one of the stores is not a directory; those of [`benthic_embedded::salvage`].
pub async fn salvage(from: &str, into: &str) -> Result<SalvageReport> {
    let (StoreUri::File(from), StoreUri::File(into)) = (from.parse()?, into.parse()?) else {
        let message = "both stores must be directories, as file:DIR; a Ceph cluster repairs itself";
        return Err(Error::unsupported(message).with("store", from).with("into", into));
    };
    blocking(move || benthic_embedded::salvage(&from, &into, &Options::default())).await
}

fn explain_open(error: Error, uri: &str, create: bool) -> Error {
    if create || error.kind() != ErrorKind::NotFound {
        return error.with("store", uri);
    }
    Error::not_found(
        "there is no store here; `benthic pool create POOL` creates one, --store selects another",
    )
    .with("store", uri)
}

/// Runs blocking work, such as file access, hashing or closing, on a thread of its own.
///
/// # Errors
/// Those of `work`; `Internal` if it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    // Boxed, so that the runtime's code is compiled once for each type of result, and not for each
    // closure.
    let work: Box<dyn FnOnce() -> Result<T> + Send> = Box::new(work);
    match spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Error::internal("a task panicked").with_source(panic)),
    }
}

/// The name closest to `typed` by Levenshtein distance, if the distance is at most a third of the
/// name's length, rounded up.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= name.chars().count().div_ceil(3))
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
