//! A connection to a cluster: its settings, what the store and its pools share, and commands to the monitors.

use crate::blocking::Blocking;
use crate::errors::{self, c_string, no_such_pool};
use crate::ffi::{Cluster, Daemons, IoCtx};
use crate::in_flight::InFlight;
use crate::libraries::Libraries;
use benthic_core::error::errno;
use benthic_core::{Action, ClassRegistry, Clock, Error, ErrorKind, Result, SystemClock};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Connections of this process that may be in the making at once. One to a monitor that does not answer may take longer
/// than its caller waits.
const CONNECTING_MAX: usize = 64;

/// How a store talks to its cluster.
#[derive(Clone)]
pub struct Options {
    /// The classes that the library [`CLASS_LIBRARY`](crate::CLASS_LIBRARY) in the OSDs holds. Any other class `x` is that
    /// of the library `x_1`, or `x_2` that of the library `x_2`, if the OSDs have it; else it is one of Ceph's and goes
    /// to the OSDs as it is.
    pub classes: ClassRegistry,
    /// After so long without an answer an operation on an object ends: a read as `Unavailable`, a write as
    /// `OutcomeUnknown`. Rounded up to whole seconds; at least one.
    pub osd_timeout_ms: u64,
    /// The same for connecting and for what is asked of the monitors, which ends as `Unavailable`, and as `OutcomeUnknown`
    /// if a pool may have been created or removed.
    pub mon_timeout_ms: u64,
    /// Placement groups of a pool that this store creates.
    pub pool_pgs: u32,
    /// Whether reads go to the nearest replica (by `crush_location`) instead of the primary.
    pub localized_reads: bool,
    /// Measures time-outs and the age of cache entries.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            classes: ClassRegistry::new(),
            osd_timeout_ms: 60_000,
            mon_timeout_ms: 30_000,
            pool_pgs: 32,
            localized_reads: false,
            clock: Arc::new(SystemClock),
        }
    }
}

impl Options {
    pub(crate) fn mon_timeout(&self) -> Duration {
        Duration::from_millis(self.mon_timeout_ms)
    }

    pub(crate) fn osd_timeout(&self) -> Duration {
        Duration::from_millis(self.osd_timeout_ms)
    }
}

/// A connection: what the store and its pools share.
pub(crate) struct Shared {
    pub blocking: Blocking,
    pub in_flight: Arc<InFlight>,
    pub cluster: Arc<Cluster>,
    pub class_names: BTreeSet<String>,
    pub libraries: Libraries,
    pub options: Options,
}

impl Shared {
    /// Connects to a cluster; see [`RadosStore::connect`](crate::RadosStore::connect).
    pub fn connect(conf: Option<&Path>, id: Option<&str>, options: Options) -> Result<Shared> {
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
        // librados' own limit mostly comes first; then nothing is left behind.
        let limit = options.mon_timeout() + Duration::from_secs(1);
        let cluster = within(limit, cluster)?.map_err(failed)?;
        let class_names = options.classes.describe().into_iter().map(|class| class.name).collect();
        let clock = || Arc::clone(&options.clock);
        Ok(Shared {
            blocking: Blocking::start(clock())?,
            in_flight: InFlight::new(options.osd_timeout(), clock()),
            cluster: Arc::new(cluster),
            class_names,
            libraries: Libraries::new(clock()),
            options,
        })
    }

    /// Runs what blocks and changes nothing, for `mon_timeout_ms` at most.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(self);
        self.blocking.run(self.options.mon_timeout(), move |_| job(&shared)).await
    }

    /// Opens a namespace of a pool. Waits for the newest map, without a limit, if the pool is not in the one that is here.
    pub fn open_context(&self, pool_id: i64, namespace: &CStr) -> Result<Arc<IoCtx>> {
        IoCtx::open(&self.cluster, pool_id, namespace)
            .map_err(|number| errors::of_operation(number, Action::Read))
    }
}

/// Connects on a thread of its own, which is left behind if it takes longer than `limit`. The inner error is an errno.
fn within(limit: Duration, cluster: Cluster) -> Result<std::result::Result<Cluster, i32>> {
    static CONNECTING: AtomicUsize = AtomicUsize::new(0);
    let taken = CONNECTING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |connecting| {
        (connecting < CONNECTING_MAX).then_some(connecting + 1)
    });
    if taken.is_err() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "too many connections are waiting for monitors that do not answer",
        )
        .with("connections_max", CONNECTING_MAX));
    }
    let (sender, receiver) = mpsc::channel();
    let connect = move || {
        let connected = cluster.connect().map(|()| cluster);
        CONNECTING.fetch_sub(1, Ordering::Relaxed);
        // A caller that waited too long gets nothing; the connection ends here.
        drop(sender.send(connected));
    };
    std::thread::Builder::new().name("rados-connect".to_owned()).spawn(connect).map_err(|error| {
        CONNECTING.fetch_sub(1, Ordering::Relaxed);
        Error::new(ErrorKind::Unavailable, "no thread").with_source(error)
    })?;
    Ok(receiver.recv_timeout(limit).unwrap_or(Err(errno::ETIMEDOUT)))
}

fn settings(options: &Options) -> [(&'static CStr, String); 7] {
    let seconds = |timeout_ms: u64| timeout_ms.div_ceil(1_000).max(1).to_string();
    [
        (c"rados_osd_op_timeout", seconds(options.osd_timeout_ms)),
        (c"rados_mon_op_timeout", seconds(options.mon_timeout_ms)),
        (c"client_mount_timeout", seconds(options.mon_timeout_ms)),
        // At these librados would block the thread that sends; `in_flight` bounds both, far below.
        (c"objecter_inflight_ops", (1_u64 << 30).to_string()),
        (c"objecter_inflight_op_bytes", (1_u64 << 40).to_string()),
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

/// The number of a pool. librados asks for the newest map, without a limit, if its own has no such pool.
pub(crate) fn pool_id(shared: &Shared, name: &str) -> Result<i64> {
    shared.cluster.pool_id(&c_string(name)?).map_err(|number| match number {
        errno::ENOENT => no_such_pool(name),
        number => errors::of_command(number, "").with("pool", name),
    })
}

/// Waits for the newest map, without a time limit.
pub(crate) fn wait_for_map(shared: &Shared) -> Result<()> {
    shared.cluster.wait_for_map().map_err(|number| errors::of_command(number, ""))
}

/// Runs a monitor command and gives its output and its status line.
pub(crate) fn command(shared: &Shared, command: &Value) -> Result<(Vec<u8>, String)> {
    let (result, status) = shared.cluster.command(Daemons::Monitors, &c_string(command.to_string())?, &[]);
    let output = result.map_err(|number| errors::of_command(number, &status))?;
    Ok((output, status))
}

/// Runs a monitor command that answers in JSON.
pub(crate) fn ask<T: for<'de> Deserialize<'de>>(shared: &Shared, question: &Value) -> Result<T> {
    let (answer, _) = command(shared, question)?;
    serde_json::from_slice(&answer).map_err(|error| {
        Error::new(ErrorKind::Internal, "the monitors' answer is not understood").with_source(error)
    })
}
