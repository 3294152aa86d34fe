//! Buckets of another S3 service, the *upstream*, with a cache in a directory: a gateway near the
//! reader.
//!
//! Objects are at the upstream. Reads go through the cache ([`blocks`]), and the upstream's ETag
//! tells whether an entry is current. Writes go through to the upstream, and are acknowledged when
//! the upstream has them, or, on request, when they are durable in the directory of the cache
//! ([`write_back`]).
//!
//! S3 has no owners of Benthic, no policies of its accounts and no attributes of uploads and parts.
//! These stay in the gateway's own store, under the driver of that store: accounts and keys, the
//! record of each bucket, and uploads without their data. Rejected: a second format for them in the
//! directory of the cache, which may be deleted at any time.
//!
//! A call that the upstream cannot express (locks, encryption by the gateway, events, quotas,
//! methods) fails with `Unsupported` and changes nothing.

mod blocks;
mod buckets;
mod cache;
mod client;
mod credentials;
mod head;
mod listing;
mod metrics;
mod objects;
pub(crate) mod sign;
mod spool;
mod uploads;
mod write_back;
mod xml;

pub use client::Endpoint;
pub use credentials::Credentials;
pub use metrics::UpstreamMetrics;
pub use write_back::{PendingStatus, pending_status};

use crate::sal::{
    Bucket, CollectionStats, Events, Garbage, Object, PendingGarbage, RecordChange, RecordKind, Records, Sal,
    VersionId, Versioning,
};
use async_trait::async_trait;
use benthic_core::{Environment, Error, ErrorKind, Result};
use blocks::{Blocks, Located};
use bytes::Bytes;
use cache::Cache;
use client::Client;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use write_back::{Drain, WriteBack};

/// The operation in errors of this driver. Clients see their messages.
pub(crate) const UPSTREAM: &str = "upstream";
/// Maximum number of remembered names of versions.
const VERSIONS_MAX: usize = 100_000;

/// When the gateway asks the upstream whether an object in the cache is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// At each request.
    #[default]
    Always,
    /// If the last answer is older than this, in milliseconds.
    After(u64),
    /// Not at all: objects never change under their keys.
    Never,
}

impl FromStr for Validate {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Validate, String> {
        match text {
            "always" => Ok(Validate::Always),
            "never" => Ok(Validate::Never),
            _ => match text.parse::<u32>() {
                Ok(seconds) if seconds > 0 => Ok(Validate::After(u64::from(seconds) * 1_000)),
                _ => Err("pass always, never, or a number of seconds of at least 1".to_owned()),
            },
        }
    }
}

/// The parameters of the driver.
#[derive(Clone, Debug)]
pub struct Options {
    pub endpoint: Endpoint,
    /// Directory of the cache.
    pub cache: PathBuf,
    /// Limit on the size of the cache, in bytes.
    pub cache_bytes: u64,
    /// Size of the ranges in which data are fetched and stored, in bytes.
    pub block_bytes: u64,
    pub validate: Validate,
    /// Whether writes are acknowledged when they are in the directory of the cache.
    pub write_back: bool,
    /// Owner of buckets that the gateway has not created.
    pub owner: String,
    /// Precedes the names of buckets at the upstream.
    pub bucket_prefix: String,
    /// How long the driver relies on a lookup of a bucket, in milliseconds.
    pub bucket_ms: u64,
}

impl Options {
    /// The defaults for an upstream and a cache.
    pub fn new(endpoint: Endpoint, cache: PathBuf, cache_bytes: u64) -> Options {
        Options {
            endpoint,
            cache,
            cache_bytes,
            block_bytes: 1 << 20,
            validate: Validate::Always,
            write_back: false,
            owner: crate::identity::FIRST_ACCOUNT.to_owned(),
            bucket_prefix: String::new(),
            bucket_ms: 10_000,
        }
    }
}

/// The driver of the buckets of an upstream over the driver of the gateway's own store.
pub struct UpstreamSal {
    sal: Arc<dyn Sal>,
    blocks: Arc<Blocks>,
    write_back: Arc<WriteBack>,
    environment: Environment,
    options: Options,
    buckets: Mutex<HashMap<String, buckets::CachedBucket>>,
    /// The names of versions at the upstream.
    version_names: Mutex<BTreeMap<VersionId, String>>,
    /// Where listings continue after the null version of a key, by bucket and key.
    null_markers: Mutex<HashMap<(String, String), String>>,
}

impl UpstreamSal {
    /// Opens the cache. `sal` is the driver of the gateway's own store. Requests to the upstream
    /// run on the current runtime.
    ///
    /// # Errors
    /// `InvalidArgument`; `Busy` if another process uses the cache; those of the file system.
    pub fn open(sal: Arc<dyn Sal>, options: Options, environment: Environment) -> Result<UpstreamSal> {
        let metrics = Arc::new(UpstreamMetrics::default());
        let cache = Cache::open(&options.cache, options.cache_bytes, environment.clone())?;
        let client = Client::new(options.endpoint.clone(), Arc::clone(&metrics), environment.clone())?;
        let origin = options.endpoint.url.to_string();
        let blocks = Blocks::new(
            client,
            cache,
            metrics,
            environment.clone(),
            origin.clone(),
            options.validate,
            options.block_bytes,
        );
        let blocks = Arc::new(blocks);
        // Without write-back, the changes of an earlier run still go to the upstream.
        let write_back = WriteBack::open(&options.cache, origin, Arc::clone(&blocks), environment.clone())?;
        Ok(UpstreamSal {
            sal,
            blocks,
            write_back,
            environment,
            options,
            buckets: Mutex::default(),
            version_names: Mutex::default(),
            null_markers: Mutex::default(),
        })
    }

    pub fn metrics(&self) -> Arc<UpstreamMetrics> {
        Arc::clone(&self.blocks.metrics)
    }

    /// Ends the uploads of pending changes, which stay in the directory of the cache.
    pub async fn stop(&self) {
        self.write_back.stop().await;
    }

    /// Waits until there are no pending changes.
    ///
    /// # Errors
    /// `Busy` if that takes longer than ten seconds.
    pub async fn drain_all(&self) -> Result<()> {
        self.write_back.drain(Drain::All).await
    }

    /// The queue of changes, if changes of this bucket may wait in it. The upstream numbers the
    /// versions of a bucket, so its answer is needed there.
    fn write_back(&self, bucket: &Bucket) -> Option<&Arc<WriteBack>> {
        let takes = self.options.write_back && bucket.versioning == Versioning::Off;
        takes.then_some(&self.write_back)
    }

    /// Bytes that the cache takes on disk.
    pub fn cached_bytes(&self) -> u64 {
        self.blocks.cache.bytes()
    }

    /// Remembers the name of a version. Without it, a read of the version looks it up.
    fn remember_version(&self, name: &str) {
        let mut names = self.version_names.lock();
        if names.len() >= VERSIONS_MAX {
            names.clear();
        }
        names.entry(head::version_of(Some(name))).or_insert_with(|| name.to_owned());
    }

    fn client(&self) -> &Client {
        &self.blocks.client
    }

    /// The name of a bucket at the upstream.
    fn upstream_name(&self, bucket: &str) -> String {
        format!("{}{bucket}", self.options.bucket_prefix)
    }
}

/// Whether an object comes from the cache because the upstream could not be asked, so that it may
/// be out of date.
pub fn is_stale(object: &Object) -> bool {
    object.location.downcast_ref::<Located>().is_some_and(|located| located.is_stale)
}

fn objects_error(kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, message).with_op(UPSTREAM)
}

fn unsupported(message: &str) -> Error {
    objects_error(ErrorKind::Unsupported, message)
}

/// No change has events, because no rule can be set.
impl Events for UpstreamSal {}

/// Only the gateway's own store has garbage.
#[async_trait]
impl Garbage for UpstreamSal {
    async fn collect(&self) -> Result<CollectionStats> {
        self.sal.collect().await
    }

    async fn pending(&self) -> Result<PendingGarbage> {
        self.sal.pending().await
    }
}

#[async_trait]
impl Records for UpstreamSal {
    async fn record(&self, kind: RecordKind, name: &str) -> Result<Option<Bytes>> {
        self.sal.record(kind, name).await
    }

    async fn swap_records(&self, changes: &[RecordChange]) -> Result<()> {
        self.sal.swap_records(changes).await
    }

    async fn list_records(
        &self,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        records_max: usize,
    ) -> Result<(Vec<(String, Bytes)>, bool)> {
        self.sal.list_records(kind, prefix, after, records_max).await
    }
}
