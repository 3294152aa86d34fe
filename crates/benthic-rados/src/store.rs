//! The store: the pools of a cluster.

use crate::blocking::Progress;
use crate::connection::{MONITOR, Options, Shared, ask, command, pool_id, wait_for_map};
use crate::errors::{self, c_string};
use crate::ffi::IoCtx;
use crate::pool::RadosPool;
use async_trait::async_trait;
use benthic_core::{
    ClassHost, ClassInfo, Clock, Error, ErrorKind, OptionalExtension, Pool, Result, Store, Wait, names,
};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A store in a Ceph cluster.
pub struct RadosStore {
    shared: Arc<Shared>,
}

impl RadosStore {
    /// Connects to a cluster. Blocks for at most `mon_timeout_ms` plus one second.
    ///
    /// `conf` is a file such as `/etc/ceph/ceph.conf`; without it, librados reads the files that
    /// Ceph's programs read (`CEPH_CONF` first). `id` is `client.x` or `x`; without it,
    /// `client.admin`.
    ///
    /// # Errors
    /// `Unsupported` without librados, `NotFound` for a missing configuration or key,
    /// `PermissionDenied` for a key that the cluster does not accept, `Unavailable` if no monitor
    /// answers.
    pub fn connect(conf: Option<&Path>, id: Option<&str>, options: Options) -> Result<Arc<RadosStore>> {
        let shared = Shared::connect(conf, id, options).map_err(|error| error.with_op("connect"))?;
        Ok(Arc::new(RadosStore { shared: Arc::new(shared) }))
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.shared.options.clock
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) async fn namespace(&self, pool: &str, namespace: &str) -> Result<Arc<IoCtx>> {
        let (name, namespace) = (pool.to_owned(), c_string(namespace)?);
        self.run(move |shared| shared.open_context(pool_id(&shared.cluster, &name)?, &name, &namespace))
            .await
            .map_err(|error| error.with("pool", pool))
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shared.run(job).await
    }

    pub(crate) async fn run_at<T: Send + 'static>(
        &self,
        whom: &'static str,
        job: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shared.run_at(whom, job).await
    }

    /// Like `run`, for a job that may change the cluster and reports when the change begins.
    pub(crate) async fn run_change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shared, &Progress) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        let job = move |progress: &Progress| job(&shared, progress).map_err(|error| progress.classify(error));
        self.shared.blocking.run(MONITOR, self.shared.options.mon_timeout(), job).await
    }

    async fn change(
        &self,
        name: &str,
        job: fn(&Shared, &Progress, &str) -> Result<()>,
        op: &'static str,
    ) -> Result<()> {
        let pool = name.to_owned();
        let done = self.run_change(move |shared, progress| job(shared, progress, &pool)).await;
        done.map_err(|error| error.with_op(op).with("pool", name))
    }
}

#[async_trait]
impl Store for RadosStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        names::check_pool_name(name).map_err(|error| error.with_op("create pool"))?;
        self.change(name, create_pool, "create pool").await
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        self.change(name, remove_pool, "remove pool").await
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

    /// Opens a pool without a round trip if the pool is in the client's map. The map may be stale:
    /// operations on a pool that no longer exists then fail with `NotFound`, as they do if the pool
    /// is removed after the open.
    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let pool = name.to_owned();
        let open = move |shared: &Shared| {
            let id = pool_id(&shared.cluster, &pool)?;
            Ok((id, shared.open_context(id, &pool, c"")?))
        };
        let opened = self.run(open).await;
        let (id, context) = opened.map_err(|error| error.with_op("open pool").with("pool", name))?;
        Ok(Arc::new(RadosPool::new(Arc::clone(&self.shared), name.to_owned(), id, context)))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        Ok(self.shared.options.classes.describe())
    }

    fn class_host(&self) -> ClassHost {
        ClassHost::Cluster
    }

    /// Does nothing: a cluster acknowledges only durable writes.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn longest_wait(&self) -> Option<Duration> {
        self.shared.longest_wait()
    }

    async fn describe_wait(&self) -> Option<Wait> {
        self.shared.describe_wait().await
    }
}

fn create_pool(shared: &Shared, progress: &Progress, name: &str) -> Result<()> {
    // The monitors report success for the creation of an existing pool.
    if pool_id(&shared.cluster, name).optional()?.is_some() {
        return refuse_existing(shared, progress, name);
    }
    let pgs = shared.options.pool_pgs;
    progress.begin_change()?;
    let create = json!({
        "prefix": "osd pool create", "pool": name, "pg_num": pgs, "pgp_num": pgs, "pool_type": "replicated",
    });
    let (_, status) = command(shared, &create)?;
    if status.contains("already exists") {
        return refuse_existing(shared, progress, name);
    }
    enable_application(shared, name)?;
    wait_for_map(shared)
}

/// Refuses to create an existing pool. If an earlier creation stopped before the pool had an
/// application, finishes that creation first.
fn refuse_existing(shared: &Shared, progress: &Progress, name: &str) -> Result<()> {
    let question = json!({ "prefix": "osd pool application get", "pool": name, "format": "json" });
    let applications: Map<String, Value> = ask(shared, &question)?;
    if applications.is_empty() {
        progress.begin_change()?;
        enable_application(shared, name)?;
    }
    Err(Error::already_exists("the pool already exists"))
}

fn enable_application(shared: &Shared, name: &str) -> Result<()> {
    let enable = json!({ "prefix": "osd pool application enable", "pool": name, "app": "benthic" });
    command(shared, &enable).map(|_| ())
}

fn remove_pool(shared: &Shared, progress: &Progress, name: &str) -> Result<()> {
    wait_for_map(shared)?;
    pool_id(&shared.cluster, name)?;
    progress.begin_change()?;
    let remove = json!({
        "prefix": "osd pool delete", "pool": name, "pool2": name, "yes_i_really_really_mean_it": true,
    });
    match command(shared, &remove) {
        // This includes the answer that there is no such pool. The pool existed a moment ago, and a
        // command that is resent after an election or a lost connection finds its own work done. So
        // two concurrent removals may both succeed.
        Ok(_) => wait_for_map(shared),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::permission_denied("the monitors refuse to remove pools; `ceph config set mon mon_allow_pool_delete true` allows it, and the \
             client's mon caps need `allow rw`",
        )
        .with_source(error)),
        Err(error) => Err(error),
    }
}
