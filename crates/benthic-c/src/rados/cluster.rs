//! A client as librados' API has it: first options, then a connection. The store is that of an
//! environment variable or an option.

use crate::handles::Item;
use crate::rados::completion::Completion;
use crate::rados::conf::{self, FILE_BYTES_MAX, OPTIONS_MAX, STORE};
use crate::rados::fnv;
use crate::rados::order::Order;
use crate::runtime::wait;
use benthic_core::names::{APPLICATIONS_NAMESPACE, check_pool_name};
use benthic_core::{Action, Error, ErrorKind, ListRequest, Namespaces, Random, Result, SystemRandom};
use benthic_program::store::{OpenStore, open};
use benthic_program::uri::StoreUri;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

/// Maximum number of operations of a client that are in flight. A program that starts more waits,
/// as with librados.
const IN_FLIGHT_MAX: usize = 1_024;

/// Ids of pools are positive, and exact as numbers in JSON.
const POOL_ID_MAX: u128 = (1 << 53) - 1;

/// The environment variable that names the store.
const STORE_VARIABLE: &str = "BENTHIC_STORE";

/// A client: its options, and its store while it is connected.
pub struct Cluster {
    /// Such as `client.admin`.
    name: String,
    pub instance: u64,
    options: Mutex<BTreeMap<String, String>>,
    store: Mutex<Option<Connected>>,
    pub order: Arc<Order>,
    in_flight: Arc<InFlight>,
    callbacks: OnceLock<Sender<Arc<Completion>>>,
}

#[derive(Clone)]
struct Connected {
    uri: StoreUri,
    store: Arc<OpenStore>,
}

impl Item for Cluster {
    const TYPE: &str = "rados_t";
}

/// The number of operations in flight.
#[derive(Default)]
pub struct InFlight {
    count: Mutex<usize>,
    changed: Condvar,
}

impl InFlight {
    /// Waits for room.
    pub fn begin(&self, max: usize) {
        let mut count = self.count.lock();
        self.changed.wait_while(&mut count, |count| *count >= max);
        *count += 1;
    }

    pub fn end(&self) {
        *self.count.lock() -= 1;
        self.changed.notify_all();
    }

    pub fn wait_for_all(&self) {
        self.changed.wait_while(&mut self.count.lock(), |count| *count > 0);
    }
}

impl Cluster {
    /// # Errors
    /// `InvalidArgument` if the name is not `TYPE.ID` with a type of Ceph.
    pub fn new(name: &str) -> Result<Cluster> {
        const TYPES: [&str; 6] = ["auth", "mon", "osd", "mds", "mgr", "client"];
        if !name.split_once('.').is_some_and(|(kind, id)| TYPES.contains(&kind) && !id.is_empty()) {
            let error = Error::invalid_argument("a client has a name such as client.admin");
            return Err(error.with("name", name));
        }
        let mut instance = [0; 8];
        SystemRandom.fill(&mut instance)?;
        Ok(Cluster {
            name: name.to_owned(),
            instance: u64::from_le_bytes(instance) >> 1,
            options: Mutex::default(),
            store: Mutex::default(),
            order: Arc::default(),
            in_flight: Arc::default(),
            callbacks: OnceLock::new(),
        })
    }

    /// Sets an option. Options that mean nothing to a store are kept and have no effect.
    ///
    /// # Errors
    /// `LimitExceeded` for too many options.
    pub fn set_option(&self, name: &str, value: &str) -> Result<()> {
        let mut options = self.options.lock();
        if options.len() >= OPTIONS_MAX {
            let error = Error::limit_exceeded("too many options");
            return Err(error.with("options_max", OPTIONS_MAX));
        }
        options.insert(conf::option_name(name), value.to_owned());
        Ok(())
    }

    pub fn option(&self, name: &str) -> Option<String> {
        self.options.lock().get(&conf::option_name(name)).cloned()
    }

    /// Reads a configuration file: the named one, or those that Ceph's programs read.
    ///
    /// # Errors
    /// `NotFound` if there is no file and `BENTHIC_STORE` names no store either.
    pub fn read_file(&self, path: Option<&str>) -> Result<()> {
        let paths: Vec<PathBuf> = match path {
            Some(path) => vec![path.into()],
            None => match std::env::var_os("CEPH_CONF").filter(|path| !path.is_empty()) {
                Some(path) => vec![path.into()],
                None => {
                    let home = std::env::home_dir().unwrap_or_default();
                    vec!["/etc/ceph/ceph.conf".into(), home.join(".ceph/ceph.conf"), "ceph.conf".into()]
                }
            },
        };
        for path in &paths {
            match read_limited(path) {
                Ok(text) => {
                    self.options.lock().extend(conf::parse(&text, &self.name));
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.with("path", path.display())),
            }
        }
        if path.is_none() && variable().is_some() {
            return Ok(());
        }
        Err(Error::not_found("there is no configuration file"))
    }

    /// Opens the store that the option `benthic_store` or the variable `BENTHIC_STORE` names, and
    /// creates it if there is none.
    ///
    /// # Errors
    /// `NotFound` if nothing names a store; `Unsupported` for a Ceph cluster, which needs Ceph's
    /// own library; `AlreadyExists` if the client is connected; those of opening a store.
    pub fn connect(&self) -> Result<()> {
        let uri = self.option(STORE).filter(|uri| !uri.is_empty()).or_else(variable).ok_or_else(|| {
            let message =
                "no store; set BENTHIC_STORE or the option benthic_store, such as file:./benthic-data";
            Error::not_found(message)
        })?;
        let parsed: StoreUri = uri.parse()?;
        if parsed.is_cluster() {
            let message = "this library is for the embedded engine; use Ceph's librados for a cluster";
            return Err(Error::unsupported(message).with("store", uri));
        }
        let mut store = self.store.lock();
        if store.is_some() {
            return Err(Error::already_exists("the client is connected already"));
        }
        let opened = wait(open(&uri, true, benthic_classes::registry()))?;
        *store = Some(Connected { uri: parsed, store: Arc::new(opened) });
        Ok(())
    }

    fn connection(&self) -> Result<Connected> {
        let connected = self.store.lock().clone();
        connected.ok_or_else(|| Error::unavailable("the client is not connected"))
    }

    /// # Errors
    /// `Unavailable` if the client is not connected.
    pub fn store(&self) -> Result<Arc<OpenStore>> {
        Ok(self.connection()?.store)
    }

    /// Waits for the operations in flight, and closes the store.
    pub fn shut_down(&self) {
        self.in_flight.wait_for_all();
        let connected = self.store.lock().take();
        if let Some(connected) = connected
            && let Err(error) = wait(connected.store.close())
        {
            tracing::error!(%error, "the store could not be closed cleanly");
        }
    }

    /// # Errors
    /// `Unavailable`; those of the store.
    pub fn pools(&self) -> Result<Vec<String>> {
        wait(self.store()?.store.list_pools())
    }

    /// The id of a pool, which follows from its name.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`; those of the store.
    pub fn pool_id(&self, name: &str) -> Result<i64> {
        let exists = self.pools()?.iter().any(|pool| pool == name);
        exists.then(|| pool_id(name)).ok_or_else(|| no_pool(name))
    }

    /// The name of the pool with this id.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`; those of the store.
    pub fn pool_name(&self, id: i64) -> Result<String> {
        self.pools()?.into_iter().find(|pool| pool_id(pool) == id).ok_or_else(|| no_pool(&id.to_string()))
    }

    /// # Errors
    /// Those of the store.
    pub fn create_pool(&self, name: &str) -> Result<()> {
        let store = self.store()?;
        check_pool_name(name)?;
        wait(store.store.create_pool(name))
    }

    /// # Errors
    /// Those of the store.
    pub fn remove_pool(&self, name: &str) -> Result<()> {
        wait(self.store()?.store.remove_pool(name))
    }

    /// An identifier of the store in the form of a UUID. It follows from the store's place.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn fsid(&self) -> Result<String> {
        let place = match self.connection()?.uri {
            StoreUri::File(directory) => directory.canonicalize().unwrap_or(directory).display().to_string(),
            other => format!("{other} {}", std::process::id()),
        };
        let hash = format!("{:032x}", fnv(place.as_bytes()));
        let (parts, _) = [8, 4, 4, 4, 12].iter().fold((Vec::new(), 0), |(mut parts, at), len| {
            parts.push(&hash[at..at + len]);
            (parts, at + len)
        });
        Ok(parts.join("-"))
    }

    /// The space of the store's file system, and the number of objects, which takes a listing of
    /// all pools.
    ///
    /// # Errors
    /// `Unavailable`; those of the store.
    pub fn space(&self) -> Result<Space> {
        let connected = self.connection()?;
        let (kib, free_kib) = match &connected.uri {
            StoreUri::File(directory) => {
                let space = rustix::fs::statvfs(directory)
                    .map_err(|error| Error::io(Action::Admin, "cannot read the free space", error.into()))?;
                let kib = |blocks: u64| (u128::from(blocks) * u128::from(space.f_frsize) / 1024) as u64;
                (kib(space.f_blocks), kib(space.f_bavail))
            }
            _ => (0, 0),
        };
        let objects = wait(async {
            let mut objects = 0;
            for pool in connected.store.store.list_pools().await? {
                let pool = connected.store.store.open_pool(&pool).await?;
                let mut request = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
                loop {
                    let page = pool.list(request.clone()).await?;
                    let counted =
                        page.objects.iter().filter(|object| object.namespace() != APPLICATIONS_NAMESPACE);
                    objects += counted.count() as u64;
                    request.after = page.next;
                    if request.after.is_none() {
                        break;
                    }
                }
            }
            Ok(objects)
        })?;
        Ok(Space { kib, used_kib: kib - free_kib, free_kib, objects })
    }

    /// The count of the client's operations in flight, after waiting for room for one more.
    pub fn begin(&self) -> Arc<InFlight> {
        self.in_flight.begin(IN_FLIGHT_MAX);
        Arc::clone(&self.in_flight)
    }

    /// The queue of the thread that runs callbacks.
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn callbacks(&self) -> Result<Sender<Arc<Completion>>> {
        if let Some(queue) = self.callbacks.get() {
            return Ok(queue.clone());
        }
        let (queue, completions) = channel::<Arc<Completion>>();
        let run = move || completions.into_iter().for_each(|completion| completion.call_back());
        let thread = std::thread::Builder::new().name("benthic-callback".to_owned()).spawn(run);
        thread.map_err(|error| Error::io(Action::Admin, "cannot start a thread for callbacks", error))?;
        Ok(self.callbacks.get_or_init(|| queue).clone())
    }
}

/// The result of `rados_cluster_stat`.
pub struct Space {
    pub kib: u64,
    pub used_kib: u64,
    pub free_kib: u64,
    pub objects: u64,
}

/// The id of a pool with this name.
pub fn pool_id(name: &str) -> i64 {
    (fnv(name.as_bytes()) % POOL_ID_MAX) as i64 + 1
}

fn no_pool(name: &str) -> Error {
    Error::not_found("no such pool").with("pool", name)
}

fn variable() -> Option<String> {
    std::env::var(STORE_VARIABLE).ok().filter(|uri| !uri.is_empty())
}

fn read_limited(path: &Path) -> Result<String> {
    let failed = |error| Error::io(Action::Admin, "cannot read the configuration file", error);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 <= FILE_BYTES_MAX {
        return Ok(text);
    }
    let error = Error::limit_exceeded("the configuration file is too large");
    Err(error.with("len_bytes_max", FILE_BYTES_MAX))
}
