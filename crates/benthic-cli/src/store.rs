//! From a store URI to a store: the one place that names an engine.

use crate::output::Output;
use benthic_core::{ClassInfo, ClassRegistry, Error, ErrorKind, Pool, Result, Store, StoreUri};
use benthic_embedded::{EmbeddedStore, MemStore, Options, Salvaged};
use benthic_rados::RadosStore;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use strsim::levenshtein;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// The store if the user names none.
pub const DEFAULT_URI: &str = "file:./benthic-data";

/// Where `benthic cluster` keeps its cluster if the user names no directory.
pub const CLUSTER_DIR: &str = "./benthic-cluster";

/// What a command works with: the store that the user named, opened when it is first needed, and the output.
pub struct Session {
    uri: String,
    classes: ClassRegistry,
    opened: OnceCell<Opened>,
    /// Whether a cluster was used beside it.
    beside_ceph: AtomicBool,
    /// Where results go.
    pub out: Output,
}

/// A store that was opened.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The same store, if it must be closed.
    embedded: Option<Arc<EmbeddedStore>>,
    /// The same store, if it is a Ceph cluster.
    rados: Option<Arc<RadosStore>>,
}

impl Opened {
    /// Whether the store is a Ceph cluster.
    pub fn is_ceph(&self) -> bool {
        self.rados.is_some()
    }

    /// Hands the store over: what was acknowledged is then on the disk and the directory is free.
    ///
    /// # Errors
    /// Those of [`EmbeddedStore::close`].
    pub async fn close(&self) -> Result<()> {
        let Some(embedded) = self.embedded.clone() else {
            return Ok(());
        };
        blocking(move || embedded.close()).await
    }
}

impl Session {
    /// A session on the store with this URI, in which these classes run unless it is a cluster.
    pub fn new(mut uri: String, out: Output, classes: ClassRegistry) -> Session {
        // A variable that is set to nothing counts as not set.
        if uri.is_empty() && std::env::var_os("BENTHIC_STORE").is_some_and(|value| value.is_empty()) {
            DEFAULT_URI.clone_into(&mut uri);
        }
        Session { uri, classes, opened: OnceCell::new(), beside_ceph: AtomicBool::new(false), out }
    }

    /// A session on another store, with the same classes.
    pub fn beside(&self, uri: String) -> Session {
        let session = Session::new(uri, Output::new(self.out.is_json()), self.classes.clone());
        self.beside_ceph.fetch_or(session.is_ceph(), Ordering::Relaxed);
        session
    }

    /// Whether librados may have been used.
    pub fn used_ceph(&self) -> bool {
        self.is_ceph() || self.beside_ceph.load(Ordering::Relaxed)
    }

    /// The URI as the user gave it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The store, which must exist.
    pub async fn store(&self) -> Result<Arc<dyn Store>> {
        self.open(false).await
    }

    /// The store; it is made if it does not exist.
    pub async fn store_or_create(&self) -> Result<Arc<dyn Store>> {
        self.open(true).await
    }

    async fn open(&self, create: bool) -> Result<Arc<dyn Store>> {
        let opened = self.opened.get_or_try_init(|| open(&self.uri, create, self.classes.clone())).await?;
        Ok(Arc::clone(&opened.store))
    }

    /// The Ceph cluster that the store is in, if it is in one.
    pub async fn rados(&self) -> Result<Option<Arc<RadosStore>>> {
        if !self.is_ceph() {
            return Ok(None);
        }
        self.store().await?;
        Ok(self.opened.get().and_then(|opened| opened.rados.clone()))
    }

    /// Whether the store is a Ceph cluster.
    pub fn is_ceph(&self) -> bool {
        self.uri.starts_with("ceph:")
    }

    /// Opens a pool. If there is none with this name, the error says which one may be meant.
    pub async fn pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let store = self.store().await?;
        match store.open_pool(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(no_such_pool(name, &store.list_pools().await?))
            }
            opened => opened,
        }
    }

    /// Opens a pool; it is made, and the store too, if `create` and it does not exist.
    pub async fn pool_or_create(&self, name: &str, create: bool) -> Result<Arc<dyn Pool>> {
        if create {
            match self.store_or_create().await?.create_pool(name).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        self.pool(name).await
    }

    /// The classes of the store; where there is no store yet, those that it would have.
    pub async fn classes(&self) -> Result<Vec<ClassInfo>> {
        match self.store().await {
            Ok(store) => store.classes().await,
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.classes.describe()),
            Err(error) => Err(error),
        }
    }

    /// Hands over what was opened: what was acknowledged is then on the disk and the directory is free.
    pub async fn close(&self) -> Result<()> {
        match self.opened.get() {
            Some(opened) => opened.close().await,
            None => Ok(()),
        }
    }
}

/// Opens the store with this URI, in which these classes run unless it is a cluster; with `create`, a directory that is no
/// store yet becomes one.
///
/// # Errors
/// `InvalidArgument` for what is no URI; `NotFound`; those of the engines.
pub async fn open(uri: &str, create: bool, classes: ClassRegistry) -> Result<Opened> {
    let options = |classes| Options::default().with_classes(classes);
    match parse(uri)? {
        StoreUri::Mem => Ok(Opened { store: MemStore::new(options(classes)), embedded: None, rados: None }),
        StoreUri::File(dir) => {
            let store = blocking(move || EmbeddedStore::open(&dir, create, options(classes)))
                .await
                .map_err(|error| explain_open(error, uri, create))?;
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Store>, embedded: Some(store), rados: None })
        }
        StoreUri::Ceph { conf, id, read_near } => {
            let options = benthic_rados::Options {
                classes,
                localized_reads: read_near,
                ..benthic_rados::Options::default()
            };
            let conf = conf.or_else(local_conf);
            let store = blocking(move || RadosStore::connect(conf.as_deref(), id.as_deref(), options))
                .await
                .map_err(|error| error.with("store", uri))?;
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Store>, embedded: None, rados: Some(store) })
        }
    }
}

/// The cluster of `benthic cluster up` in this directory, where Ceph's programs would find no configuration.
fn local_conf() -> Option<PathBuf> {
    let named = ["CEPH_CONF", "CEPH_ARGS"].iter().any(|name| std::env::var_os(name).is_some());
    let home = std::env::home_dir().unwrap_or_default();
    let usual = ["/etc/ceph/ceph.conf".into(), home.join(".ceph/ceph.conf"), "ceph.conf".into()];
    let here = PathBuf::from(CLUSTER_DIR).join("ceph.conf");
    (!named && !usual.iter().any(|conf: &PathBuf| conf.exists()) && here.exists()).then_some(here)
}

/// Saves what is whole of a damaged store into a new one.
///
/// # Errors
/// `Unsupported` if one of them is no directory; those of [`benthic_embedded::salvage`].
pub async fn salvage(from: &str, into: &str) -> Result<Salvaged> {
    let (StoreUri::File(from), StoreUri::File(into)) = (parse(from)?, parse(into)?) else {
        let message = "only a store in a directory is saved into another; a cluster repairs itself";
        return Err(Error::new(ErrorKind::Unsupported, message).with("store", from).with("into", into));
    };
    blocking(move || benthic_embedded::salvage(&from, &into, &Options::default())).await
}

/// Parses a URI; the error names only what this build has.
fn parse(uri: &str) -> Result<StoreUri> {
    let message = match uri.split_once(':') {
        Some(("file" | "ceph", _) | ("mem", "")) => return uri.parse(),
        None if !uri.is_empty() => format!("a store is file:DIR, ceph: or mem:; did you mean file:{uri}?"),
        _ => "a store is file:DIR, ceph: or mem:".to_owned(),
    };
    Err(Error::new(ErrorKind::InvalidArgument, message).with("store", uri))
}

fn explain_open(error: Error, uri: &str, create: bool) -> Error {
    if create || error.kind() != ErrorKind::NotFound {
        return error.with("store", uri);
    }
    Error::new(
        ErrorKind::NotFound,
        "there is no store here; `benthic pool create POOL` makes one, --store names another",
    )
    .with("store", uri)
}

/// Runs what blocks: file work, hashing, closing.
///
/// # Errors
/// What the work returned; `Internal` if it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Error::new(ErrorKind::Internal, "a task panicked").with_source(panic)),
    }
}

fn no_such_pool(name: &str, pools: &[String]) -> Error {
    let nearest = nearest(name, pools.iter().map(String::as_str));
    let message = match nearest {
        Some(pool) => format!("no such pool; did you mean {pool:?}?"),
        None if pools.is_empty() => format!("no such pool; `benthic pool create {name}` makes it"),
        None => {
            format!(
                "no such pool; `benthic pool ls` shows what is there, `benthic pool create {name}` makes it"
            )
        }
    };
    Error::new(ErrorKind::NotFound, message).with("pool", name)
}

/// The name that is at most a third of its length away from the one typed.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= name.chars().count().div_ceil(3))
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;
    use strsim::levenshtein;

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(levenshtein("kitten", "sitting"), 3);
        assert_eq!(levenshtein("", "abc"), 3);
        assert_eq!(nearest("dta", ["data", "logs"].into_iter()), Some("data"));
        assert_eq!(nearest("photos", ["data", "logs"].into_iter()), None);
    }
}
