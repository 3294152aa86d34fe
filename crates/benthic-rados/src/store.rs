//! The store: a connection to a cluster, and its pools.

use crate::blocking::Blocking;
use crate::errors::{self, c_string, no_such_pool};
use crate::ffi::Cluster;
use crate::pool::RadosPool;
use async_trait::async_trait;
use benthic_core::error::errno;
use benthic_core::{ClassInfo, ClassRegistry, Error, ErrorKind, Pool, Result, Store, names};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// How a store talks to its cluster.
#[derive(Clone)]
pub struct Options {
    /// The classes that the library [`CLASS_LIBRARY`](crate::CLASS_LIBRARY) in the OSDs holds. Any other name is that of
    /// a native class of Ceph and goes to the OSDs as it is.
    pub classes: ClassRegistry,
    /// After so long without an answer an operation on an object ends: a read as `Unavailable`, a write as
    /// `OutcomeUnknown`. Rounded up to whole seconds; at least one.
    pub osd_timeout_ms: u64,
    /// The same for connecting and for commands to the monitors, which end as `Unavailable`.
    pub mon_timeout_ms: u64,
    /// Placement groups of a pool that this store creates.
    pub pool_pgs: u32,
    /// Whether reads go to the nearest replica (by `crush_location`) instead of the primary.
    pub localized_reads: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            classes: ClassRegistry::new(),
            osd_timeout_ms: 60_000,
            mon_timeout_ms: 30_000,
            pool_pgs: 32,
            localized_reads: false,
        }
    }
}

/// What pools share.
pub(crate) struct Shared {
    pub blocking: Blocking,
    pub cluster: Arc<Cluster>,
    pub class_names: BTreeSet<String>,
    pub options: Options,
}

/// A store in a Ceph cluster.
pub struct RadosStore {
    shared: Arc<Shared>,
}

impl RadosStore {
    /// Connects to a cluster. Blocks, `mon_timeout_ms` at most.
    ///
    /// `conf` is a file such as `/etc/ceph/ceph.conf`; without it those that Ceph's programs read (`CEPH_CONF` first).
    /// `id` is `client.x` or `x`; without it `client.admin`.
    ///
    /// # Errors
    /// `Unsupported` without librados, `NotFound` for a missing configuration or key, `PermissionDenied` for a key that
    /// the cluster does not accept, `Unavailable` if no monitor answers.
    pub fn connect(conf: Option<&Path>, id: Option<&str>, options: Options) -> Result<Arc<RadosStore>> {
        connect(conf, id, options).map_err(|error| error.with_op("connect"))
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        self.shared.blocking.run(move || job(&shared)).await
    }
}

fn connect(conf: Option<&Path>, id: Option<&str>, options: Options) -> Result<Arc<RadosStore>> {
    let name = match id {
        None => "client.admin".to_owned(),
        Some(id) if id.contains('.') => id.to_owned(),
        Some(id) => format!("client.{id}"),
    };
    let failed = |number| errors::of_connect(number, &name);
    let cluster = Cluster::create(&c_string(name.as_str())?)?.map_err(failed)?;
    let path = conf.map(|path| c_string(path.as_os_str().as_bytes())).transpose()?;
    cluster.read_conf(path.as_deref()).map_err(|number| no_conf(number, conf))?;
    for (key, value) in settings(&options) {
        let value = c_string(value)?;
        cluster.set_conf(key, &value).map_err(|number| {
            Error::new(ErrorKind::Internal, "librados does not know a setting")
                .with("setting", format_args!("{key:?}"))
                .with("errno", number)
        })?;
    }
    cluster.connect().map_err(failed)?;
    let class_names = options.classes.describe().into_iter().map(|class| class.name).collect();
    let shared = Shared { blocking: Blocking::start()?, cluster: Arc::new(cluster), class_names, options };
    Ok(Arc::new(RadosStore { shared: Arc::new(shared) }))
}

fn settings(options: &Options) -> [(&'static std::ffi::CStr, String); 5] {
    let seconds = |timeout_ms: u64| timeout_ms.div_ceil(1_000).max(1).to_string();
    [
        (c"rados_osd_op_timeout", seconds(options.osd_timeout_ms)),
        (c"rados_mon_op_timeout", seconds(options.mon_timeout_ms)),
        (c"client_mount_timeout", seconds(options.mon_timeout_ms)),
        // A library does not print.
        (c"log_to_stderr", "false".to_owned()),
        (c"err_to_stderr", "false".to_owned()),
    ]
}

fn no_conf(number: i32, conf: Option<&Path>) -> Error {
    let (kind, message) = match number {
        errno::ENOENT => (
            ErrorKind::NotFound,
            "no Ceph configuration; name one with ceph:?conf=FILE, or put it at /etc/ceph/ceph.conf",
        ),
        errno::EACCES | errno::EPERM => {
            (ErrorKind::PermissionDenied, "the Ceph configuration is not readable")
        }
        _ => (ErrorKind::InvalidArgument, "the Ceph configuration cannot be used"),
    };
    let error = Error::new(kind, message).with("errno", number);
    match conf {
        Some(path) => error.with("conf", path.display()),
        None => error,
    }
}

#[async_trait]
impl Store for RadosStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        names::check_pool_name(name)?;
        let name = name.to_owned();
        self.run(move |shared| create_pool(shared, &name).map_err(|error| error.with("pool", &name)))
            .await
            .map_err(|error| error.with_op("create pool"))
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.run(move |shared| remove_pool(shared, &name).map_err(|error| error.with("pool", &name)))
            .await
            .map_err(|error| error.with_op("remove pool"))
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        self.run(|shared| {
            wait_for_map(shared)?;
            let pools = shared.cluster.pools().map_err(|number| errors::of_command(number, ""))?;
            let mut names: Vec<_> =
                pools.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            names.sort();
            Ok(names)
        })
        .await
        .map_err(|error| error.with_op("list pools"))
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let pool_name = name.to_owned();
        let id = self
            .run(move |shared| pool_id(shared, &pool_name))
            .await
            .map_err(|error| error.with_op("open pool"))?;
        Ok(Arc::new(RadosPool::new(Arc::clone(&self.shared), name.to_owned(), id)))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        Ok(self.shared.options.classes.describe())
    }

    /// Nothing to do: a cluster acknowledges what is durable.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }
}

fn create_pool(shared: &Shared, name: &str) -> Result<()> {
    let there_already = || Error::new(ErrorKind::AlreadyExists, "the pool is there already");
    // The monitors call the creation of a pool that is there a success.
    match pool_id(shared, name) {
        Ok(_) => return Err(there_already()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let pgs = shared.options.pool_pgs;
    let quoted = json_string(name);
    let status = command(
        shared,
        &format!(
            r#"{{"prefix":"osd pool create","pool":{quoted},"pg_num":{pgs},"pgp_num":{pgs},"pool_type":"replicated"}}"#
        ),
    )?;
    if status.contains("already exists") {
        return Err(there_already());
    }
    command(
        shared,
        &format!(r#"{{"prefix":"osd pool application enable","pool":{quoted},"app":"benthic"}}"#),
    )?;
    wait_for_map(shared)
}

fn remove_pool(shared: &Shared, name: &str) -> Result<()> {
    pool_id(shared, name)?;
    let quoted = json_string(name);
    let removed = command(
        shared,
        &format!(
            r#"{{"prefix":"osd pool delete","pool":{quoted},"pool2":{quoted},"yes_i_really_really_mean_it":true}}"#
        ),
    );
    match removed {
        Ok(_) => wait_for_map(shared),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::new(
            ErrorKind::PermissionDenied,
            "the monitors refuse to remove pools; `ceph config set mon mon_allow_pool_delete true` allows it, and the \
             client's mon caps need `allow rw`",
        )
        .with_source(error)),
        Err(error) => Err(error),
    }
}

/// The number of a pool in the cluster's present map.
fn pool_id(shared: &Shared, name: &str) -> Result<i64> {
    let c_name = c_string(name)?;
    wait_for_map(shared)?;
    shared.cluster.pool_id(&c_name).map_err(|number| match number {
        errno::ENOENT => no_such_pool(name),
        number => errors::of_command(number, "").with("pool", name),
    })
}

fn wait_for_map(shared: &Shared) -> Result<()> {
    shared.cluster.wait_for_map().map_err(|number| errors::of_command(number, ""))
}

/// Runs a monitor command and gives its status line.
fn command(shared: &Shared, json: &str) -> Result<String> {
    let json: CString = c_string(json)?;
    let (result, status) = shared.cluster.mon_command(&json);
    result.map_err(|number| errors::of_command(number, &status))?;
    Ok(status)
}

/// A pool's name in JSON; pool names have no control characters.
fn json_string(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
