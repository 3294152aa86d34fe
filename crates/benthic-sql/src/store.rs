//! From a store URI to a store.

use benthic_core::{Error, ErrorKind, Result, Store, StoreUri};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_fragment::Table;
use benthic_rados::RadosStore;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The store if the user names none.
pub const DEFAULT_URI: &str = "file:./benthic-data";

/// Where `benthic cluster` keeps its cluster if the user names no directory.
const CLUSTER_CONF: &str = "./benthic-cluster/ceph.conf";

/// A store that is open.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Whether its objects are on other machines.
    pub is_remote: bool,
    /// The same store, if it must be closed.
    embedded: Option<Arc<EmbeddedStore>>,
}

impl Opened {
    /// Hands the directory over.
    pub async fn close(self) -> Result<()> {
        match self.embedded {
            Some(embedded) => blocking(move || embedded.close()).await,
            None => Ok(()),
        }
    }
}

/// Opens a store, which must exist.
pub async fn open(uri: &str) -> Result<Opened> {
    // A variable that is set to nothing counts as not set.
    let uri = if uri.is_empty() { DEFAULT_URI } else { uri };
    let parsed: StoreUri = uri.parse()?;
    match parsed {
        StoreUri::Mem => Ok(Opened { store: MemStore::new(options()), is_remote: false, embedded: None }),
        StoreUri::File(dir) => {
            let store = blocking(move || EmbeddedStore::open(&dir, false, options()))
                .await
                .map_err(|error| error.with("store", uri))?;
            Ok(Opened {
                store: Arc::clone(&store) as Arc<dyn Store>,
                is_remote: false,
                embedded: Some(store),
            })
        }
        StoreUri::Ceph { conf, id, read_near } => {
            let options = benthic_rados::Options {
                classes: benthic_classes::registry(),
                localized_reads: read_near,
                ..benthic_rados::Options::default()
            };
            let conf = conf.or_else(local_conf);
            let store = blocking(move || RadosStore::connect(conf.as_deref(), id.as_deref(), options))
                .await
                .map_err(|error| error.with("store", uri))?;
            Ok(Opened { store, is_remote: true, embedded: None })
        }
    }
}

/// The classes of an embedded store run in this process, so the one for fragments is there.
fn options() -> Options {
    Options::default().with_classes(benthic_classes::registry().with(Table))
}

/// The cluster of `benthic cluster up` in this directory, where Ceph's programs would find no configuration.
fn local_conf() -> Option<PathBuf> {
    let named = ["CEPH_CONF", "CEPH_ARGS"].iter().any(|name| std::env::var_os(name).is_some());
    let home = std::env::home_dir().unwrap_or_default();
    let usual = ["/etc/ceph/ceph.conf".into(), home.join(".ceph/ceph.conf"), "ceph.conf".into()];
    let here = PathBuf::from(CLUSTER_CONF);
    (!named && !usual.iter().any(|conf: &PathBuf| conf.exists()) && here.exists()).then_some(here)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Error::new(ErrorKind::Internal, "a task panicked").with_source(panic)),
    }
}
