//! A connection to a cluster: its settings, the state that the store and its pools share, and
//! monitor commands.

use crate::blocking::Blocking;
use crate::call_timeouts::{self, CallTimeouts};
use crate::errors::{self, c_string, no_such_pool};
use crate::ffi::{Cluster, Daemons, ErrnoResult, IoCtx};
use crate::in_flight::InFlight;
use crate::key_types;
use crate::libraries::Libraries;
use crate::wait::Primaries;
use benthic_core::error::errno;
use benthic_core::{Action, ClassRegistry, Clock, Error, ErrorKind, Result, SystemClock};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Limit of connection attempts at once in this process. An attempt to reach a monitor that does
/// not answer may outlast its caller's wait.
const CONNECTING_MAX: usize = 64;

/// Settings of a connection to a cluster.
#[derive(Clone)]
pub struct Options {
    /// The classes in the OSDs' library [`CLASS_LIBRARY`](crate::CLASS_LIBRARY). Any other class
    /// `x` belongs to the library `x_1`, and `x_2` to the library `x_2`, if the OSDs have that
    /// library. Otherwise the class is one of Ceph's, and the name goes to the OSDs unchanged.
    pub classes: ClassRegistry,
    /// Time-out of an operation on an object. A read that exceeds it fails with `Unavailable`, a
    /// write with `OutcomeUnknown`. Rounded up to whole seconds; at least 3 s.
    pub osd_timeout_ms: u64,
    /// Time-out of a call of a class that is not in `classes`. A call that exceeds it is cancelled
    /// and fails with `OutcomeUnknown`. It must be shorter than the time after which the cluster
    /// replaces a hung OSD, so that a method that never returns takes down only one OSD.
    pub call_timeout_ms: u64,
    /// Time-out for connecting and for requests to the monitors, which fail with `Unavailable`, or
    /// with `OutcomeUnknown` if a pool may have been created or removed.
    pub mon_timeout_ms: u64,
    /// Number of placement groups of a pool that this store creates.
    pub pool_pgs: u32,
    /// Whether reads go to the nearest replica (by `crush_location`) instead of the primary.
    pub localized_reads: bool,
    /// Settings of librados that win over the configuration and over `CEPH_ARGS`.
    pub settings: Vec<(&'static CStr, String)>,
    /// Measures time-outs and the age of cache entries.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            classes: ClassRegistry::new(),
            osd_timeout_ms: 60_000,
            call_timeout_ms: call_timeouts::TIMEOUT_MS,
            mon_timeout_ms: 30_000,
            pool_pgs: 32,
            localized_reads: false,
            settings: Vec::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl Options {
    pub(crate) fn mon_timeout(&self) -> Duration {
        Duration::from_millis(self.mon_timeout_ms)
    }

    pub(crate) fn osd_timeout(&self) -> Duration {
        Duration::from_millis(self.osd_timeout_ms())
    }

    /// With a shorter time-out, no operation would become old enough for `objecter_timeout`, and
    /// the client would never find an OSD that has restarted.
    fn osd_timeout_ms(&self) -> u64 {
        self.osd_timeout_ms.max(OSD_TIMEOUT_MS_MIN)
    }
}

/// Describes the monitors to a user who waits for them.
pub(crate) const MONITOR: &str = "a monitor of the cluster";

/// A connection: the state that the store and its pools share.
pub(crate) struct Shared {
    pub blocking: Blocking,
    pub in_flight: Arc<InFlight>,
    pub cluster: Arc<Cluster>,
    pub login: Login,
    pub class_names: BTreeSet<String>,
    pub libraries: Libraries,
    pub primaries: Primaries,
    pub calls: CallTimeouts,
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
        let login = Login { conf: conf.map(Path::to_owned), name, settings: options.settings.clone() };
        let cluster = login.connect(options.osd_timeout_ms(), options.mon_timeout_ms)?;
        let class_names = options.classes.describe().into_iter().map(|class| class.name).collect();
        let clock = || Arc::clone(&options.clock);
        Ok(Shared {
            blocking: Blocking::start(clock())?,
            in_flight: InFlight::new(options.osd_timeout(), clock()),
            cluster: Arc::new(cluster),
            login,
            class_names,
            libraries: Libraries::new(clock()),
            primaries: Primaries::default(),
            calls: CallTimeouts::start(Duration::from_millis(options.call_timeout_ms), clock())?,
            options,
        })
    }

    /// Runs a blocking job that changes nothing, for at most `mon_timeout_ms`.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_at(MONITOR, job).await
    }

    /// Like `run`, for a job that waits for `whom`.
    pub async fn run_at<T: Send + 'static>(
        self: &Arc<Self>,
        whom: &'static str,
        job: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(self);
        self.blocking.run(whom, self.options.mon_timeout(), move |_| job(&shared)).await
    }

    /// Opens a namespace of a pool. If the pool is not in the client's map, librados waits for the
    /// newest map, without a time limit.
    pub fn open_context(&self, pool_id: i64, pool: &str, namespace: &CStr) -> Result<Arc<IoCtx>> {
        IoCtx::open(&self.cluster, pool_id, pool, namespace)
            .map_err(|number| errors::of_operation(number, Action::Read))
    }
}

/// How a client finds a cluster, and the name under which it logs in.
#[derive(Clone)]
pub(crate) struct Login {
    conf: Option<PathBuf>,
    /// `client.x`.
    name: String,
    settings: Vec<(&'static CStr, String)>,
}

impl Login {
    /// Connects. Operations on objects have no time-out if `osd_timeout_ms` is 0.
    pub fn connect(&self, osd_timeout_ms: u64, mon_timeout_ms: u64) -> Result<Cluster> {
        let failed = |number| errors::of_connect(number, &self.name, &[]);
        let cluster = Cluster::create(&c_string(self.name.as_str())?)?.map_err(failed)?;
        let path = self.conf.as_ref().map(|path| c_string(path.as_os_str().as_bytes())).transpose()?;
        cluster.read_conf(path.as_deref()).map_err(|number| no_conf(number, self.conf.as_deref()))?;
        let own = settings(osd_timeout_ms, mon_timeout_ms);
        for (key, value) in own.into_iter().chain(self.settings.clone()) {
            let value = c_string(value)?;
            cluster.set_conf(key, &value).map_err(|number| {
                Error::internal("librados does not know a setting")
                    .with("setting", key.to_string_lossy())
                    .with("errno", number)
            })?;
        }
        // librados' own time-out usually fires first; then no thread is left behind.
        let limit = Duration::from_millis(mon_timeout_ms) + Duration::from_secs(1);
        let keyring = cluster.conf(c"keyring").unwrap_or_default();
        connect_within(limit, cluster)?
            .map_err(|number| errors::of_connect(number, &self.name, &key_types::in_files(&keyring)))
    }
}

/// Connects on a separate thread, and abandons the thread after `limit`. The inner error is an
/// errno.
fn connect_within(limit: Duration, cluster: Cluster) -> Result<ErrnoResult<Cluster>> {
    static CONNECTING: AtomicUsize = AtomicUsize::new(0);
    let taken = CONNECTING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |connecting| {
        (connecting < CONNECTING_MAX).then_some(connecting + 1)
    });
    if taken.is_err() {
        let message = "too many connections wait for monitors that do not answer; try again later";
        return Err(Error::unavailable(message).with("connections_max", CONNECTING_MAX));
    }
    let (sender, receiver) = mpsc::channel();
    let connect = move || {
        let connected = cluster.connect().map(|()| cluster);
        CONNECTING.fetch_sub(1, Ordering::Relaxed);
        // If the caller has given up, the send fails and the connection is dropped here.
        drop(sender.send(connected));
    };
    std::thread::Builder::new().name("rados-connect".to_owned()).spawn(connect).map_err(|error| {
        CONNECTING.fetch_sub(1, Ordering::Relaxed);
        Error::unavailable("cannot start a thread").with_source(error)
    })?;
    Ok(receiver.recv_timeout(limit).unwrap_or(Err(errno::ETIMEDOUT)))
}

/// `objecter_timeout`, `objecter_tick_interval` and a second for the answer of the monitors.
const OSD_TIMEOUT_MS_MIN: u64 = 3_000;

fn settings(osd_timeout_ms: u64, mon_timeout_ms: u64) -> [(&'static CStr, String); 9] {
    let seconds = |timeout_ms: u64| timeout_ms.div_ceil(1_000).to_string();
    let mon_timeout_s = seconds(mon_timeout_ms.max(1));
    [
        (c"rados_osd_op_timeout", seconds(osd_timeout_ms)),
        (c"rados_mon_op_timeout", mon_timeout_s.clone()),
        (c"client_mount_timeout", mon_timeout_s),
        // If an OSD dies, the monitors often know it within a second. librados asks them for the
        // newest map when an operation is this old, and by default only after 10 to 15 s.
        (c"objecter_timeout", "1".to_owned()),
        (c"objecter_tick_interval", "1".to_owned()),
        // At these limits librados would block the sending thread; `in_flight` limits both far
        // below them.
        (c"objecter_inflight_ops", (1_u64 << 30).to_string()),
        (c"objecter_inflight_op_bytes", (1_u64 << 40).to_string()),
        // A library must not print.
        (c"log_to_stderr", "false".to_owned()),
        (c"err_to_stderr", "false".to_owned()),
    ]
}

fn no_conf(number: i32, conf: Option<&Path>) -> Error {
    let (kind, message) = match number {
        errno::ENOENT => (
            ErrorKind::NotFound,
            "there is no Ceph configuration; name one with ceph:?conf=FILE, or put it at /etc/ceph/ceph.conf",
        ),
        errno::EACCES | errno::EPERM => {
            (ErrorKind::PermissionDenied, "this user may not read the Ceph configuration")
        }
        _ => (ErrorKind::InvalidArgument, "librados cannot parse the Ceph configuration"),
    };
    let error = Error::new(kind, message).with("errno", number);
    if let Some(path) = conf { error.with("conf", path.display()) } else { error }
}

/// The id of a pool. If the client's map has no such pool, librados requests the newest map,
/// without a time limit.
pub(crate) fn pool_id(cluster: &Cluster, name: &str) -> Result<i64> {
    cluster.pool_id(&c_string(name)?).map_err(|number| match number {
        errno::ENOENT => no_such_pool(name),
        number => errors::of_command(number, "").with("pool", name),
    })
}

/// Waits for the newest map, without a time limit.
pub(crate) fn wait_for_map(shared: &Shared) -> Result<()> {
    shared.cluster.wait_for_map().map_err(|number| errors::of_command(number, ""))
}

/// Runs a monitor command and returns its output and its status line.
pub(crate) fn command(shared: &Shared, command: &Value) -> Result<(Vec<u8>, String)> {
    let (result, status) = shared.cluster.command(Daemons::Monitors, &c_string(command.to_string())?, &[]);
    let output = result.map_err(|number| errors::of_command(number, &status))?;
    Ok((output, status))
}

pub(crate) fn ask<T: for<'de> Deserialize<'de>>(shared: &Shared, question: &Value) -> Result<T> {
    let (answer, _) = command(shared, question)?;
    serde_json::from_slice(&answer)
        .map_err(|error| Error::internal("cannot parse the monitors' answer").with_source(error))
}
