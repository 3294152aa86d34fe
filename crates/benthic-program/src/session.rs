//! A command's session: the store that the user named, and the output. The store is opened on first
//! use, so commands that need none work without one. The session also knows the cause of the
//! command's wait, in every store that it has opened.

use crate::collect::OtherObject;
use crate::deploy::Deployment;
use crate::exec::PreparedCall;
use crate::local;
use crate::output::Output;
use crate::store::{DEFAULT_URI, OpenStore, describe_opening, nearest, open};
use crate::uri::StoreUri;
use benthic_core::{
    ClassCall, ClassInfo, ClassRegistry, Clock, Error, ErrorKind, ObjectId, Pool, Result, Store, SystemClock,
    Wait, names,
};
use benthic_rados::RadosStore;
use benthic_wasm::deployed::DeployedClass;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::OnceCell;

/// A store that is opened on first use, and the output for results.
pub struct Session {
    uri: String,
    classes: ClassRegistry,
    opened: OnceCell<OpenStore>,
    /// True if librados may have been used, by this session or by [another
    /// one](Session::for_store).
    used_ceph: Arc<AtomicBool>,
    state: Arc<StoreState>,
    /// The states of the stores of this session and of [other ones](Session::for_store).
    states: Arc<Mutex<Vec<Arc<StoreState>>>>,
    pub out: Output,
}

/// Whether a session has opened its store.
#[derive(Default)]
struct StoreState(Mutex<OpenState>);

#[derive(Clone, Default)]
enum OpenState {
    #[default]
    Closed,
    Opening {
        uri: String,
        since: Duration,
    },
    Open(Weak<dyn Store>),
}

impl StoreState {
    fn get(&self) -> OpenState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: OpenState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn longest_wait(&self) -> Option<Duration> {
        match self.get() {
            OpenState::Closed => None,
            OpenState::Opening { since, .. } => Some(SystemClock.monotonic().saturating_sub(since)),
            OpenState::Open(store) => store.upgrade()?.longest_wait(),
        }
    }

    async fn describe_wait(&self) -> Option<Wait> {
        match self.get() {
            OpenState::Closed => None,
            OpenState::Opening { uri, .. } => describe_opening(&uri),
            OpenState::Open(store) => store.upgrade()?.describe_wait().await,
        }
    }
}

impl Session {
    /// Creates a session for the store with this URI. On embedded and memory stores `classes` run
    /// in this process; a cluster runs its own.
    pub fn new(mut uri: String, out: Output, classes: ClassRegistry) -> Session {
        // An environment variable with an empty value counts as unset.
        if uri.is_empty() && std::env::var_os("BENTHIC_STORE").is_some_and(|value| value.is_empty()) {
            DEFAULT_URI.clone_into(&mut uri);
        }
        let state = Arc::<StoreState>::default();
        let states = Arc::new(Mutex::new(vec![Arc::clone(&state)]));
        Session { uri, classes, opened: OnceCell::new(), used_ceph: Arc::default(), state, states, out }
    }

    /// Creates a session for another store with the same classes.
    pub fn for_store(&self, uri: String) -> Session {
        let out = Output::new(self.out.is_json());
        let (used_ceph, states) = (Arc::clone(&self.used_ceph), Arc::clone(&self.states));
        let other = Session { used_ceph, states, ..Session::new(uri, out, self.classes.clone()) };
        self.states().push(Arc::clone(&other.state));
        other
    }

    /// Returns true if librados may have been used.
    pub fn used_ceph(&self) -> bool {
        self.used_ceph.load(Ordering::Relaxed)
    }

    /// The URI as the user typed it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Opens the store, which must exist.
    pub async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::clone(&self.open(false).await?.store))
    }

    /// Opens the store and creates it if it does not exist.
    pub async fn store_or_create(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::clone(&self.open(true).await?.store))
    }

    async fn open(&self, create: bool) -> Result<&OpenStore> {
        let open = async || {
            // A failed connection may have started librados threads, too.
            self.used_ceph.fetch_or(self.is_cluster()?, Ordering::Relaxed);
            self.state.set(OpenState::Opening { uri: self.uri.clone(), since: SystemClock.monotonic() });
            let opened = open(&self.uri, create, self.classes.clone()).await;
            self.state.set(match &opened {
                Ok(opened) => OpenState::Open(Arc::downgrade(&opened.store)),
                Err(_) => OpenState::Closed,
            });
            opened
        };
        self.opened.get_or_try_init(open).await
    }

    fn states(&self) -> MutexGuard<'_, Vec<Arc<StoreState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true while the command opens its first store, and so has done nothing yet.
    pub fn is_opening(&self) -> bool {
        let states: Vec<_> = self.states().iter().map(|state| state.get()).collect();
        states.iter().any(|state| matches!(state, OpenState::Opening { .. }))
            && !states.iter().any(|state| matches!(state, OpenState::Open(_)))
    }

    /// Time for which the command has waited for another process: to open a store, or for the
    /// oldest operation in flight.
    pub fn longest_wait(&self) -> Option<Duration> {
        self.states().iter().filter_map(|state| state.longest_wait()).max()
    }

    /// Describes the cause of the command's longest wait. Returns within about two seconds.
    pub async fn describe_wait(&self) -> Option<Wait> {
        let longest = self.states().iter().max_by_key(|state| state.longest_wait()).cloned();
        longest?.describe_wait().await
    }

    /// Returns whether the store is a Ceph cluster, without opening it.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid URI.
    pub fn is_cluster(&self) -> Result<bool> {
        self.uri.parse().map(|uri: StoreUri| uri.is_cluster())
    }

    /// Returns whether both sessions use the same store.
    ///
    /// # Errors
    /// Those of opening the stores, if both are clusters.
    pub async fn is_same_store(&self, other: &Session) -> Result<bool> {
        match (self.uri.parse()?, other.uri.parse()?) {
            (StoreUri::File(ours), StoreUri::File(theirs)) => {
                let ours = local::identity(&ours);
                Ok(ours.is_some() && ours == local::identity(&theirs))
            }
            (StoreUri::Ceph { .. }, StoreUri::Ceph { .. }) => Ok(self.fsid().await? == other.fsid().await?),
            _ => Ok(self.uri == other.uri),
        }
    }

    /// The directory of the store, without symbolic links. `None` for other stores, and if there is
    /// none.
    pub fn directory(&self) -> Option<PathBuf> {
        match self.uri.parse() {
            Ok(StoreUri::File(directory)) => directory.canonicalize().ok(),
            _ => None,
        }
    }

    /// Names the store: the path of its directory, or the identifier of its cluster. Another URI of
    /// the same store gives the same name.
    ///
    /// # Errors
    /// Those of opening a cluster.
    pub async fn store_name(&self) -> Result<String> {
        if let Some(directory) = self.directory() {
            return Ok(directory.display().to_string());
        }
        let fsid = self.fsid().await?.map(|fsid| String::from_utf8_lossy(&fsid).trim().to_owned());
        Ok(fsid.unwrap_or_else(|| self.uri.clone()))
    }

    /// The identifier of the cluster; `None` for other stores.
    async fn fsid(&self) -> Result<Option<Vec<u8>>> {
        let Some(cluster) = self.rados().await? else { return Ok(None) };
        Ok(Some(cluster.ask_monitors(json!({ "prefix": "fsid" })).await?))
    }

    /// The Ceph cluster behind the store; `None` for other stores.
    pub async fn rados(&self) -> Result<Option<Arc<RadosStore>>> {
        // Do not create a store in a directory that has none.
        if self.is_cluster()? { Ok(self.open(false).await?.rados.clone()) } else { Ok(None) }
    }

    /// Opens a pool. If no pool has this name, the error suggests a similar one.
    pub async fn pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let store = self.store().await?;
        match store.open_pool(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(no_such_pool(name, &store.list_pools().await?, true))
            }
            opened => opened,
        }
    }

    /// Like [`Session::pool`], but to remove the pool or something in it: the error does not
    /// suggest to create the pool. The pool may have any name, because other programs create pools,
    /// too.
    pub async fn pool_for_removal(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let store = self.store().await?;
        match store.open_pool(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                names::check_pool_name(name)?;
                Err(no_such_pool(name, &store.list_pools().await?, false))
            }
            opened => opened,
        }
    }

    /// Opens a pool. With `create`, it creates the pool and the store if they do not exist.
    pub async fn pool_or_create(&self, name: &str, create: bool) -> Result<Arc<dyn Pool>> {
        if create {
            match self.store_or_create().await?.create_pool(name).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        self.pool(name).await
    }

    /// As [`Store::check_writable`]. A command that writes to many objects calls this first, so
    /// that it reports once that writes are disabled.
    pub async fn check_writable(&self) -> Result<()> {
        self.store().await?.check_writable()
    }

    /// The classes of the store. If the store does not exist yet, returns the classes that it would
    /// have.
    pub async fn classes(&self) -> Result<Vec<ClassInfo>> {
        match self.store().await {
            Ok(store) => store.classes().await,
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.classes.describe()),
            Err(error) => Err(error),
        }
    }

    /// Prepares a call, as [`OpenStore::prepare_call`] does.
    pub async fn prepare_call(
        &self,
        pool: &dyn Pool,
        object: Option<&ObjectId>,
        call: ClassCall,
        others: Vec<OtherObject>,
    ) -> Result<(PreparedCall, Vec<ClassInfo>)> {
        self.open(false).await?.prepare_call(pool, object, call, others).await
    }

    /// As [`OpenStore::deploy`].
    ///
    /// # Errors
    /// Those of [`OpenStore::deploy`] and of opening the store.
    pub async fn deploy(&self, pool: &dyn Pool, deployment: Deployment) -> Result<DeployedClass> {
        self.open(false).await?.deploy(pool, deployment).await
    }

    /// Checks that the store runs modules, as [`OpenStore::check_runs_modules`] does.
    pub async fn check_runs_modules(&self, pool: &dyn Pool, object: Option<&ObjectId>) -> Result<()> {
        self.open(false).await?.check_runs_modules(pool, object).await
    }

    /// Closes the store if it was opened. Afterwards all acknowledged writes are on disk, and other
    /// processes can own the directory.
    pub async fn close(&self) -> Result<()> {
        if let Some(opened) = self.opened.get() { opened.close().await } else { Ok(()) }
    }
}

fn no_such_pool(name: &str, pools: &[String], may_create: bool) -> Error {
    let hint = match nearest(name, pools.iter().map(String::as_str)) {
        Some(pool) => format!("did you mean {pool:?}?"),
        None if !may_create => "`benthic pool ls` lists the pools".to_owned(),
        None if pools.is_empty() => format!("`benthic pool create {name}` creates it"),
        None => format!("`benthic pool ls` lists the pools, `benthic pool create {name}` creates this one"),
    };
    Error::not_found(format!("no such pool; {hint}")).with("pool", name)
}
