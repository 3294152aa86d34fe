//! The client side of the contract: stores and pools.

use crate::op::{ClassCall, ReadOp, ReadReply, Stat, WriteOp, WriteReply};
use crate::{ClassInfo, Error, Fetch, ObjectId, Result, limits};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A store: pools of objects, and the classes that run beside them.
///
/// Errors of pool management have the [op](Error::op) `create pool`, `remove pool`, `list pools` or
/// `open pool`.
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

    /// Lists the names of all pools, sorted.
    async fn list_pools(&self) -> Result<Vec<String>>;

    /// Opens a pool. After the pool is removed, operations on the handle fail with `NotFound`.
    ///
    /// # Errors
    /// `NotFound`.
    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>>;

    async fn classes(&self) -> Result<Vec<ClassInfo>>;

    fn class_host(&self) -> ClassHost;

    /// Fails if this store accepts no writes because it was opened read-only. Success does not
    /// promise that a write succeeds.
    ///
    /// # Errors
    /// `PermissionDenied`; the message has the reason.
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    /// Waits until every operation acknowledged before this call is durable.
    ///
    /// # Errors
    /// `OutcomeUnknown` if buffered operations may have been lost since the last flush.
    async fn flush(&self) -> Result<()>;

    /// Checks the store's own structures. Changes nothing.
    ///
    /// # Errors
    /// `Unsupported` if the engine has its own tools for this check.
    async fn fsck(&self) -> Result<FsckReport> {
        Err(Error::unsupported("this engine does not support fsck; use its own tools"))
    }

    /// Time for which the oldest operation in flight has waited for another process. `None` if no
    /// operation waits for one.
    fn longest_wait(&self) -> Option<Duration> {
        None
    }

    /// Describes the cause of that operation's wait. Returns within about two seconds, even if
    /// nothing answers.
    async fn describe_wait(&self) -> Option<Wait> {
        None
    }
}

/// The cause of an operation's delay, as a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The process that has to answer, such as `osd.1`. While it stays the same, the operation
    /// waits for the same thing.
    pub whom: String,
    /// Adds the role of the process and the outlook; empty if there is nothing to add.
    pub details: String,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whom)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, ", {}", self.details) }
    }
}

/// Where the classes of a store run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassHost {
    /// In the process that owns the store, on this machine. Object data need not cross a network.
    Local,
    /// In the servers of a cluster, which load class libraries.
    Cluster,
}

/// A pool of objects.
///
/// Operations on one object are atomic and linearizable. There are no guarantees across objects.
/// The [op](Error::op) of an error is the name of the called method: `read`, `write`, `exec` or
/// `list`.
#[async_trait]
pub trait Pool: Send + Sync {
    fn name(&self) -> &str;

    /// Runs a read operation in one round trip.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if a guard failed, `Corrupt`, `LimitExceeded`, and any error of a
    /// called method. `InvalidArgument` if the called method writes; use [`Pool::exec`] or a write
    /// operation for such methods.
    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply>;

    /// Runs a write operation in one round trip. All of it happens, or nothing.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `Conflict`, `LimitExceeded`, and any error of a called method.
    /// `OutcomeUnknown` if the connection to the store broke before the reply arrived.
    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply>;

    /// Runs one method, whether it reads or writes, and returns its output. The output of a method
    /// that writes is empty, and its changes are durable.
    ///
    /// # Errors
    /// `Unsupported` for an unknown class or method, any error of the method, and the errors of
    /// [`Pool::write`] if the method writes.
    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes>;

    /// Lists one page of the pool's objects. A complete listing has each object once, in an order
    /// that the engine chooses.
    ///
    /// Objects that are created or removed during the listing may be missing from it. All other
    /// objects appear.
    ///
    /// # Errors
    /// `InvalidArgument` for a token that this engine cannot have issued.
    async fn list(&self, request: ListRequest) -> Result<ListPage>;

    /// The token with which a listing of a namespace continues after a name, whether or not there
    /// is an object of that name. `None` if the engine does not list a namespace in the byte order
    /// of the names.
    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        let _ = object;
        None
    }

    /// Reads and verifies everything stored for the next objects after `after`, in the process that
    /// stores the data.
    ///
    /// # Errors
    /// `Unsupported` if the engine scrubs by itself.
    async fn scrub(&self, after: Option<ListToken>) -> Result<ScrubPage> {
        let _ = after;
        Err(Error::unsupported("this engine does not support scrub commands; it scrubs by itself"))
    }
}

/// Operations with typed replies, and single-step operations. Their errors are those of
/// [`Pool::read`] and [`Pool::write`].
impl dyn Pool + '_ {
    /// Runs a read operation with a typed reply. Returns the outputs and the object's version.
    pub async fn fetch<T: 'static>(&self, object: &ObjectId, fetch: Fetch<T>) -> Result<(T, u64)> {
        let (op, outputs) = fetch.into_parts();
        let reply = self.read(object, op).await?;
        outputs.of(reply).map_err(|error| error.with_op("read").with("object", object))
    }

    /// Returns size and modification time of an object, and its version.
    pub async fn stat(&self, object: &ObjectId) -> Result<(Stat, u64)> {
        self.fetch(object, Fetch::stat()).await
    }

    /// Reads a range of an object's data.
    pub async fn read_range(&self, object: &ObjectId, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.fetch(object, Fetch::read(offset_bytes, len_bytes)).await.map(|(data, _)| data)
    }

    /// Reads one attribute. A missing attribute is `NotFound`.
    pub async fn get_xattr(&self, object: &ObjectId, name: &str) -> Result<Bytes> {
        self.fetch(object, Fetch::get_xattr(name)).await.map(|(value, _)| value)
    }

    /// Replaces an object's data. The write is durable.
    pub async fn write_full(&self, object: &ObjectId, data: impl Into<Bytes>) -> Result<WriteReply> {
        self.write(object, WriteOp::new().write_full(data)).await
    }

    /// Removes an object. The removal is durable.
    pub async fn remove(&self, object: &ObjectId) -> Result<()> {
        self.write(object, WriteOp::new().remove()).await.map(|_| ())
    }
}

/// The namespaces that a listing covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// One namespace. The empty name is the default namespace.
    One(String),
    All,
}

/// The position at which a listing continues. It is opaque. It stays valid for the pool that issued
/// it, also after a restart. Its meaning to another pool is unspecified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListToken(pub Bytes);

/// A request for a page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    pub namespaces: Namespaces,
    /// List only names with this prefix.
    pub prefix: String,
    /// End of the previous page. None starts at the beginning.
    pub after: Option<ListToken>,
    /// Upper limit of the page size. [`limits::LIST_PAGE_OBJECTS_MAX`] also applies.
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
    pub objects: Vec<ObjectId>,
    /// Start of the next page. None means that this page is the last. A page that is not the last
    /// may be empty.
    pub next: Option<ListToken>,
}

/// Damage that a scrub found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// None if unknown.
    pub object: Option<ObjectId>,
    /// Offset in the object's data, if data is damaged.
    pub offset_bytes: Option<u64>,
    pub message: String,
}

/// The result of one scrub step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPage {
    pub objects: u64,
    /// Number of bytes read and verified.
    pub bytes: u64,
    pub damage: Vec<Damage>,
    /// Start of the next step. None means that the scrub is complete.
    pub next: Option<ListToken>,
}

/// An inconsistency in a store's structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Address of the affected pool and object, if known.
    pub object: Option<String>,
    /// Describes the fault and its consequence.
    pub message: String,
}

/// The counts and findings of fsck.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    pub pools: u64,
    pub objects: u64,
    /// Bytes of object data, without holes.
    pub data_bytes: u64,
    /// Space that the store's files occupy on disk, in bytes.
    pub disk_bytes: u64,
    /// Empty if the store is consistent.
    pub findings: Vec<Finding>,
}
