//! Pools as a program uses them, and the operations that it runs.

use crate::handles::Item;
use crate::rados::cluster::{Cluster, InFlight, pool_id};
use crate::rados::code;
use crate::rados::completion::Completion;
use crate::rados::order::Ordered;
use crate::runtime::{runtime, wait};
use benthic_core::error::errno;
use benthic_core::names::{APPLICATIONS_NAMESPACE, is_reserved_namespace};
use benthic_core::{Error, ListRequest, Namespaces, ObjectId, OptionalExtension, Pool, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// The number of the head, which reads use unless a snapshot is selected.
pub const SNAP_HEAD: u64 = u64::MAX - 1;

/// librados' name of all namespaces.
const ALL_NAMESPACES: &str = "\u{1}";

/// An I/O context.
pub struct Ioctx {
    pub cluster: Arc<Cluster>,
    /// The handle of the cluster.
    pub cluster_handle: u64,
    pub pool: Arc<dyn Pool>,
    settings: Mutex<Settings>,
    /// The version that the last operation read or made.
    version: Arc<AtomicU64>,
    in_flight: Arc<InFlight>,
}

struct Settings {
    namespace: String,
    snap: u64,
}

impl Item for Ioctx {
    const TYPE: &str = "rados_ioctx_t";
}

/// The result of an operation for the program, and the version of the object.
pub struct Done {
    pub result: i32,
    pub version: Option<u64>,
}

impl Done {
    pub fn new(result: i32) -> Done {
        Done { result, version: None }
    }

    /// A number of bytes as a result.
    pub fn bytes(len_bytes: usize, version: u64) -> Done {
        Done { result: i32::try_from(len_bytes).unwrap_or(-errno::EOVERFLOW), version: Some(version) }
    }
}

/// An operation that can run, once, while the program waits or not.
pub struct Work {
    io: Arc<Ioctx>,
    object: ObjectId,
    reads: bool,
    run: BoxFuture<'static, Result<Done>>,
}

impl Ioctx {
    /// # Errors
    /// `NotFound`; `Unavailable`; those of the store.
    pub fn open(cluster: Arc<Cluster>, cluster_handle: u64, name: &str) -> Result<Ioctx> {
        let store = cluster.store()?;
        let pool = wait(store.store.open_pool(name))?;
        let settings = Mutex::new(Settings { namespace: String::new(), snap: SNAP_HEAD });
        Ok(Ioctx {
            cluster,
            cluster_handle,
            pool,
            settings,
            version: Arc::default(),
            in_flight: Arc::default(),
        })
    }

    pub fn id(&self) -> i64 {
        pool_id(self.pool.name())
    }

    pub fn set_namespace(&self, namespace: &str) {
        namespace.clone_into(&mut self.settings.lock().namespace);
    }

    /// Selects a snapshot, of which there is none: reads then find nothing.
    pub fn set_snap(&self, snap: u64) {
        self.settings.lock().snap = snap;
    }

    pub fn last_version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The namespaces that a listing shows.
    pub fn namespaces(&self) -> Namespaces {
        match self.settings.lock().namespace.as_str() {
            ALL_NAMESPACES => Namespaces::All,
            namespace => Namespaces::One(namespace.to_owned()),
        }
    }

    /// Prepares an operation on an object.
    ///
    /// # Errors
    /// `InvalidArgument` and `LimitExceeded` for an invalid name; `NotFound` for a read of a
    /// snapshot; `PermissionDenied` for a write to a namespace that Benthic reserves.
    pub fn work<F>(
        self: &Arc<Ioctx>,
        object: &str,
        reads: bool,
        run: impl FnOnce(Arc<dyn Pool>, ObjectId) -> F,
    ) -> Result<Work>
    where
        F: Future<Output = Result<Done>> + Send + 'static,
    {
        let settings = self.settings.lock();
        if reads && settings.snap != SNAP_HEAD {
            return Err(Error::not_found("a pool has no snapshots"));
        }
        if !reads && is_reserved_namespace(&settings.namespace) {
            let error = Error::permission_denied("this namespace is reserved");
            return Err(error.with("namespace", &settings.namespace));
        }
        let object = ObjectId::in_namespace(settings.namespace.clone(), object)?;
        drop(settings);
        let run = run(Arc::clone(&self.pool), object.clone()).boxed();
        Ok(Work { io: Arc::clone(self), object, reads, run })
    }

    /// Waits until no operation of this context is in flight.
    pub fn flush(&self) {
        self.in_flight.wait_for_all();
    }

    /// The number of objects in all namespaces, and their bytes, without the list of applications.
    /// Reads the size of each object.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn usage(&self) -> Result<(u64, u64)> {
        wait(async {
            let (mut objects, mut bytes) = (0, 0);
            let mut request = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
            loop {
                let page = self.pool.list(request.clone()).await?;
                let counted = |object: &&ObjectId| object.namespace() != APPLICATIONS_NAMESPACE;
                for object in page.objects.iter().filter(counted) {
                    if let Some((stat, _)) = self.pool.stat(object).await.optional()? {
                        (objects, bytes) = (objects + 1, bytes + stat.size_bytes);
                    }
                }
                request.after = page.next;
                if request.after.is_none() {
                    return Ok((objects, bytes));
                }
            }
        })
    }
}

impl Work {
    /// Runs the operation to its end, after those of its object that are in flight. Returns its
    /// result.
    pub fn wait(self) -> Result<i32> {
        let key = (self.io.pool.name().to_owned(), self.object);
        let version = Arc::clone(&self.io.version);
        if !self.io.cluster.order.is_busy(&key) {
            return wait(self.run).map(|done| finish(&version, done));
        }
        let (reply, result) = oneshot::channel();
        let run = self.run;
        let run = async move {
            let done = catch_panic(run).await;
            // The receiver waits below.
            let _ = reply.send(done);
        };
        self.io.cluster.order.start(key, Ordered { reads: self.reads, run: run.boxed() })?;
        let lost = |_| Err(Error::internal("the operation was lost"));
        wait(async { result.await.unwrap_or_else(lost) }).map(|done| finish(&version, done))
    }

    /// Starts the operation.
    ///
    /// # Errors
    /// `InvalidArgument` in a forked process; those of starting a thread.
    pub fn start(self, completion: Arc<Completion>) -> Result<i32> {
        let queue = self.io.cluster.callbacks()?;
        runtime()?;
        let version = Arc::clone(&self.io.version);
        let all = self.io.cluster.begin();
        let own = Arc::clone(&self.io.in_flight);
        own.begin(usize::MAX);
        let run = self.run;
        let run = async move {
            let result = match catch_panic(run).await {
                Ok(done) => finish(&version, done),
                Err(error) => code(&error),
            };
            completion.complete(result);
            all.end();
            own.end();
            // The thread lives while there are queues.
            let _ = queue.send(completion);
        };
        let key = (self.io.pool.name().to_owned(), self.object);
        self.io.cluster.order.start(key, Ordered { reads: self.reads, run: run.boxed() })?;
        Ok(0)
    }
}

async fn catch_panic(run: BoxFuture<'static, Result<Done>>) -> Result<Done> {
    let panicked = |_| Err(Error::internal("the operation panicked"));
    AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(panicked)
}

fn finish(version: &AtomicU64, done: Done) -> i32 {
    if let Some(found) = done.version {
        version.store(found, Ordering::Relaxed);
    }
    done.result
}
