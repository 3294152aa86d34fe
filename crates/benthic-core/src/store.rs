//! The client side of the contract: stores and pools.

use crate::op::{ClassCall, ReadOp, ReadReply, Stat, WriteOp, WriteReply};
use crate::{ClassInfo, Error, ErrorKind, Fetch, ObjectId, Result, limits};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// A store: pools of objects, and the classes that run beside them. The [op](Error::op) of an error about a pool is
/// `create pool`, `remove pool`, `list pools` or `open pool`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a pool.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument`.
    async fn create_pool(&self, name: &str) -> Result<()>;

    /// Removes a pool with all its objects.
    ///
    /// # Errors
    /// `NotFound`.
    async fn remove_pool(&self, name: &str) -> Result<()>;

    /// The names of all pools, sorted.
    async fn list_pools(&self) -> Result<Vec<String>>;

    /// Opens a pool. Operations after the pool was removed are `NotFound`.
    ///
    /// # Errors
    /// `NotFound`.
    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>>;

    /// The classes that run here.
    async fn classes(&self) -> Result<Vec<ClassInfo>>;

    /// Where classes run.
    fn class_host(&self) -> ClassHost;

    /// Returns when every operation that was acknowledged before is durable.
    ///
    /// # Errors
    /// `OutcomeUnknown` if buffered operations may have been lost since the last flush.
    async fn flush(&self) -> Result<()>;

    /// Checks the store's own structures without changing anything.
    ///
    /// # Errors
    /// `Unsupported` where the engine has tools of its own for it.
    async fn fsck(&self) -> Result<FsckReport> {
        Err(Error::new(ErrorKind::Unsupported, "this engine has no fsck of Benthic's"))
    }
}

/// Where the classes of a store run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassHost {
    /// In the process that has the store, on this machine. Bytes of objects need no network.
    Local,
    /// In the servers of a cluster, which load libraries of classes.
    Cluster,
}

/// A pool of objects.
///
/// Operations on one object are atomic and linearizable; nothing is promised between objects. The [op](Error::op) of an error
/// is the method that was called: `read`, `write`, `exec` or `list`.
#[async_trait]
pub trait Pool: Send + Sync {
    /// The pool's name.
    fn name(&self) -> &str;

    /// Runs a read operation: one round trip.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if a guard failed, `Corrupt`, `LimitExceeded`, what a method returned;
    /// `InvalidArgument` for a write method, which [`Pool::exec`] and write operations run.
    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply>;

    /// Runs a write operation: one round trip, all or nothing.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `Conflict`, `LimitExceeded`, what a method returned, and `OutcomeUnknown` if
    /// the store went away before it answered.
    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply>;

    /// Runs one method, whatever its flags, and returns its output (nothing if it writes). Writes are durable.
    ///
    /// # Errors
    /// `Unsupported` for an unknown class or method; what the method returned; as [`Pool::write`] if it writes.
    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes>;

    /// One page of the pool's objects, each object once, in an order that the engine chooses.
    ///
    /// Objects that were created or removed while a listing runs may or may not appear in it; all others do.
    ///
    /// # Errors
    /// `InvalidArgument` for a token that cannot be one of this engine's.
    async fn list(&self, request: ListRequest) -> Result<ListPage>;

    /// Reads and verifies all that the next objects behind `after` have, beside the data.
    ///
    /// # Errors
    /// `Unsupported` where the engine scrubs by itself.
    async fn scrub(&self, after: Option<ListToken>) -> Result<ScrubPage> {
        let _ = after;
        Err(Error::new(ErrorKind::Unsupported, "this engine scrubs by itself"))
    }
}

/// Operations with typed replies, and single steps.
impl dyn Pool + '_ {
    /// Runs a read operation with a typed reply; gives the outputs and the object's version.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub async fn fetch<T: 'static>(&self, object: &ObjectId, fetch: Fetch<T>) -> Result<(T, u64)> {
        let (op, outputs) = fetch.into_parts();
        let reply = self.read(object, op).await?;
        outputs.of(reply).map_err(|error| error.with_op("read").with("object", object))
    }

    /// Size and time of an object, and its version.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub async fn stat(&self, object: &ObjectId) -> Result<(Stat, u64)> {
        self.fetch(object, Fetch::stat()).await
    }

    /// A range of an object's data.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub async fn read_range(&self, object: &ObjectId, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.fetch(object, Fetch::read(offset_bytes, len_bytes)).await.map(|(data, _)| data)
    }

    /// One attribute.
    ///
    /// # Errors
    /// As [`Pool::read`]; `NotFound` also for a missing attribute.
    pub async fn get_xattr(&self, object: &ObjectId, name: &str) -> Result<Bytes> {
        self.fetch(object, Fetch::get_xattr(name)).await.map(|(value, _)| value)
    }

    /// Replaces an object's data, durably.
    ///
    /// # Errors
    /// As [`Pool::write`].
    pub async fn write_full(&self, object: &ObjectId, data: impl Into<Bytes>) -> Result<WriteReply> {
        self.write(object, WriteOp::new().write_full(data)).await
    }

    /// Removes an object, durably.
    ///
    /// # Errors
    /// As [`Pool::write`].
    pub async fn remove(&self, object: &ObjectId) -> Result<()> {
        self.write(object, WriteOp::new().remove()).await.map(|_| ())
    }
}

/// Which namespaces a listing covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// One; the empty name is the default namespace.
    One(String),
    /// All.
    All,
}

/// Where a listing goes on. Opaque; valid for the pool that gave it, also after a restart. What another pool makes of it
/// is not promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListToken(pub Bytes);

/// A request for a page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Which namespaces.
    pub namespaces: Namespaces,
    /// Only names with this prefix.
    pub prefix: String,
    /// Where the last page ended; from the start if absent.
    pub after: Option<ListToken>,
    /// At most so many objects, and never more than [`limits::LIST_PAGE_OBJECTS_MAX`].
    pub objects_max: usize,
}

impl Default for ListRequest {
    fn default() -> ListRequest {
        ListRequest {
            namespaces: Namespaces::One(String::new()),
            prefix: String::new(),
            after: None,
            objects_max: limits::LIST_PAGE_OBJECTS_MAX,
        }
    }
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The objects.
    pub objects: Vec<ObjectId>,
    /// Where to go on; absent after the last page. A page may be empty and yet not the last.
    pub next: Option<ListToken>,
}

/// Damage that a scrub found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The object, if it is known.
    pub object: Option<ObjectId>,
    /// Where in its data, if it is data.
    pub offset_bytes: Option<u64>,
    /// What is wrong.
    pub message: String,
}

/// What one step of a scrub did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPage {
    /// Objects checked.
    pub objects: u64,
    /// Bytes read and verified.
    pub bytes: u64,
    /// What was found.
    pub damage: Vec<Damage>,
    /// Where to go on; absent after the last step.
    pub next: Option<ListToken>,
}

/// Something that is wrong with a store's structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The pool and object that it affects, as an address, if it is known.
    pub object: Option<String>,
    /// What is wrong, and what it means.
    pub message: String,
}

/// What fsck counted and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Pools.
    pub pools: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes of object data, without holes.
    pub data_bytes: u64,
    /// Bytes that the store's files take on the disk.
    pub disk_bytes: u64,
    /// What is wrong; empty if all is well.
    pub findings: Vec<Finding>,
}
