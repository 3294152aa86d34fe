//! Objects and their versions.

use super::encryption::is_encrypted;
use super::{Attributes, Bucket, DataKey, DefaultRetention, Id, List, ListPage, Lock, NewEvent, VersionId};
use async_trait::async_trait;
use benthic_core::{Error, ObjectId, Pool, Result};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Concurrent deletions of [`Objects::delete_many`].
const DELETES_IN_FLIGHT: usize = 16;

/// A version of an object: everything except its data.
#[derive(Clone, Debug)]
pub struct Object {
    pub key: String,
    pub version: VersionId,
    /// Whether this is a delete marker, which has no data.
    pub marker: bool,
    pub size_bytes: u64,
    pub modified_ms: u64,
    pub etag: String,
    /// Metadata, tags, access control and checksums.
    pub attributes: Attributes,
    pub lock: Lock,
    /// Number of times the attributes or the lock were changed.
    pub revision: u32,
    /// Storage class of the data.
    pub class: Option<String>,
    pub write: Id,
    /// Sizes of the pieces in which the data were written: the non-empty parts of an upload, or a
    /// single piece.
    pub part_bytes: Vec<u64>,
    /// Where the data are stored, in a form that only the driver interprets.
    pub location: Arc<dyn Any + Send + Sync>,
}

/// A prefetch of the beginning of an object's data, started while the object was looked up.
pub struct Prefetch {
    /// The write that stored the data.
    pub write: Id,
    /// Number of bytes, from the start of the object.
    pub len_bytes: u64,
    /// Completes when the data have arrived.
    pub data: BoxFuture<'static, Result<Bytes>>,
}

/// A condition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    Always,
    Exists,
    Absent,
    /// The object exists and has this entity tag.
    Matches(String),
    /// The object does not exist, or has another entity tag.
    Differs(String),
    /// The version has not changed, and is the current one. It may be a delete marker.
    Current(Seen),
    /// The version has not changed, and is not the current one.
    Replaced(Seen),
}

/// A version as a caller has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub write: Id,
    /// Number of changes of its attributes and its lock.
    pub revision: u32,
}

/// The properties of a written object that are known only at the end of the write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// Entity tag, at most 128 bytes.
    pub etag: String,
    /// At most 256 attributes of together at most 64 KiB.
    pub attributes: Attributes,
    /// The lock of the object. A part takes none.
    pub lock: Lock,
    /// The retention period of an object whose lock has none.
    pub default_retention: Option<DefaultRetention>,
    /// Checked at the moment when the object becomes visible. A part takes no condition.
    pub condition: Condition,
    /// At most 200 events of the change. A part takes none.
    pub events: Vec<NewEvent>,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// The null version if a part was written.
    pub version: VersionId,
    pub size_bytes: u64,
    pub write: Id,
}

/// The upload and the number of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId {
    pub upload: Id,
    /// 1 to 10,000. A new part replaces an existing part with the same number.
    pub number: u16,
}

/// A deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    pub key: String,
    /// The version to remove permanently. If absent, the bucket's versioning decides how the object
    /// is deleted.
    pub version: Option<VersionId>,
    /// Applies to the named version, else to the object.
    pub condition: Condition,
    /// Whether to remove a version that is retained in governance mode.
    pub bypass_governance: bool,
    /// Time from which the deletion is allowed, in milliseconds since 1970 (UTC), on the clocks of
    /// the gateway and of the store. Before, it fails with `Conflict`.
    pub due_ms: Option<u64>,
    /// At most 200 events of the change.
    pub events: Vec<NewEvent>,
}

/// A move of the data of a version to another storage class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub key: String,
    pub version: VersionId,
    /// Applies to the version.
    pub condition: Condition,
    /// The class that the version had when the move was decided. A version that has moved to
    /// another one since fails with `Conflict`.
    pub from: Option<String>,
    /// The new class.
    pub class: Option<String>,
    /// Time from which the move is allowed, in milliseconds since 1970 (UTC), on the clocks of the
    /// gateway and of the store. Before, it fails with `Conflict`.
    pub due_ms: Option<u64>,
    /// At most 200 events of the change.
    pub events: Vec<NewEvent>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteResult {
    /// The removed version, or the delete marker that was created. Absent if there was nothing to
    /// delete, and in a bucket without versions.
    pub version: Option<VersionId>,
    /// Whether `version` is a delete marker.
    pub marker: bool,
}

/// A writer of one object or part. If the writer is dropped, its write is abandoned, and garbage
/// collection removes the data after the lease has expired.
#[async_trait]
pub trait Writer: Send {
    /// Accepts more data. Returns when there is room for them, so memory is bounded.
    ///
    /// # Errors
    /// Those of the store; `Unavailable` if the lease expired between two calls. In both cases none
    /// of the write becomes visible.
    async fn write(&mut self, data: Bytes) -> Result<()>;

    /// Waits until all data are stored, and returns the object as it will be with these attributes,
    /// to read its data before it is visible. It has no version and no entity tag. No more data may
    /// follow.
    ///
    /// # Errors
    /// Those of [`Writer::write`].
    async fn preview(&mut self, attributes: &Attributes) -> Result<Object>;

    /// Makes all data visible at once.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold; `NotFound` if the condition requires an object
    /// and there is none, or if the bucket or the upload is gone; `Unavailable` if the lease
    /// expired; `LimitExceeded` over the bucket's quota; `PermissionDenied` if a lock protects the
    /// version that would be replaced. In all these cases none of the write becomes visible.
    /// `OutcomeUnknown`.
    async fn finish(self: Box<Self>, finish: Finish) -> Result<WriteResult>;

    /// Abandons the write at once.
    ///
    /// # Errors
    /// Those of the store; then garbage collection removes the data later.
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// Reads the data of one version to the end, even if that version is replaced or deleted meanwhile.
#[async_trait]
pub trait Reader: Send {
    /// The next piece, at most a few MiB; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt`; those of the store; `Unavailable` if the version was removed and the reader took
    /// longer than the driver keeps removed data readable.
    async fn next(&mut self) -> Result<Option<Bytes>>;
}

/// Operations on objects.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Looks up a version of an object; the current version if none is named. The result may be a
    /// delete marker.
    ///
    /// # Errors
    /// `NotFound`.
    async fn object(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> Result<Object>;

    /// Looks up the current version for a caller that will read it from the first byte. A driver
    /// that can guess where the data are prefetches the beginning during the lookup. It returns a
    /// prefetch only if it belongs to this version, and does not wait for its data.
    ///
    /// # Errors
    /// As [`Objects::object`].
    async fn object_with_prefetch(&self, bucket: &Bucket, key: &str) -> Result<(Object, Option<Prefetch>)> {
        Ok((self.object(bucket, key, None).await?, None))
    }

    /// Reads a range of an object's data. Prefetched data are not fetched again. Encrypted data
    /// need their key.
    ///
    /// # Errors
    /// `InvalidArgument` if the range is not within the object, if the data are encrypted and there
    /// is no key, or if there is a key and they are not.
    async fn read(
        &self,
        bucket: &Bucket,
        object: &Object,
        range: Range<u64>,
        prefetch: Option<Prefetch>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Reader>>;

    /// The object of a pool that has all data of an object and nothing else, so that code can run
    /// beside them; `None` if there is none, as for encrypted data. It exists as long as a reader
    /// could read the version.
    ///
    /// # Errors
    /// `InvalidArgument` if the object comes from another driver.
    async fn whole_data(
        &self,
        _bucket: &Bucket,
        _object: &Object,
    ) -> Result<Option<(Arc<dyn Pool>, ObjectId)>> {
        Ok(None)
    }

    /// Begins to write an object, or a part of an upload. If the size is known, the driver chooses
    /// a layout for it. With a key, the driver encrypts the data, and the object or the part must
    /// get the attribute [`ENCRYPTION`](super::encryption::ENCRYPTION). The data get a storage
    /// class, for a part that of its upload.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`, those of the store.
    async fn write(
        &self,
        bucket: &Bucket,
        key: &str,
        part: Option<PartId>,
        size_bytes: Option<u64>,
        class: Option<&str>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>>;

    /// Whether new data may have this storage class.
    ///
    /// # Errors
    /// Those of the store.
    async fn has_storage_class(&self, _class: &str) -> Result<bool> {
        Ok(false)
    }

    /// Moves the data of a version to another storage class. Nothing else of the version changes,
    /// not even its revision, and readers in progress continue. A lock does not forbid it.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold, or the data were moved at the same time;
    /// `NotFound` if the version is gone; `Corrupt` if the data cannot be read; `Unsupported`.
    async fn transition(&self, _bucket: &Bucket, _transition: &Transition) -> Result<()> {
        Err(Error::unsupported("the driver has no storage classes"))
    }

    /// Begins to add data at the end of an object, which must be the current one, in a bucket
    /// without versions. The attributes of [`Finish`] replace those of the object; it takes no lock
    /// and no condition. Encrypted objects need their key. The object keeps its id of the write,
    /// and counts as changed.
    ///
    /// # Errors
    /// `Unsupported` if the driver cannot append to this object. [`Writer::finish`] fails with
    /// `Conflict` if the object has changed or is gone, and with `LimitExceeded` if it would have
    /// more than 10,000 pieces.
    async fn append(
        &self,
        _bucket: &Bucket,
        _object: &Object,
        _size_bytes: Option<u64>,
        _data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        Err(Error::unsupported("this bucket cannot append to objects"))
    }

    /// Creates an object that shares the data of another, and so has its storage class. No data are
    /// copied. If they are encrypted, both have the same key.
    ///
    /// # Errors
    /// `InvalidArgument` if only the source or only the copy has the attribute
    /// [`ENCRYPTION`](super::encryption::ENCRYPTION);
    /// `NotFound` if the source is gone; `Unavailable` if its data were moved to another storage
    /// class at the same time; those of [`Writer::finish`].
    async fn copy(
        &self,
        source: (&Bucket, &Object),
        bucket: &Bucket,
        key: &str,
        finish: Finish,
    ) -> Result<WriteResult>;

    /// Replaces the attributes and the lock of a version with those of `new`, if they have not
    /// changed since `old` was read. A retention period can be extended in the same mode. With
    /// `bypass_governance`, a period in governance mode can be changed in every way.
    ///
    /// # Errors
    /// `Conflict` if the attributes or the lock have changed, `NotFound` if the version is gone,
    /// `PermissionDenied` if the retention period forbids the change, `LimitExceeded`.
    async fn update_object(
        &self,
        bucket: &Bucket,
        old: &Object,
        new: &Object,
        bypass_governance: bool,
    ) -> Result<()>;

    /// Deletes an object or a version. Succeeds if there is nothing to delete.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold, `NotFound` if it requires an object and there is
    /// none, `PermissionDenied` if a lock protects the version to remove.
    async fn delete(&self, bucket: &Bucket, delete: &Delete) -> Result<DeleteResult>;

    /// Deletes several objects or versions, each in its own operation. The results are in the order
    /// of `deletes`.
    async fn delete_many(&self, bucket: &Bucket, deletes: &[Delete]) -> Vec<Result<DeleteResult>> {
        let deletions: Vec<_> = deletes.iter().map(|delete| self.delete(bucket, delete)).collect();
        futures::stream::iter(deletions).buffered(DELETES_IN_FLIGHT).collect().await
    }

    /// Lists a page of objects, versions or uploads in key order. The driver spends a bounded time
    /// on a page, so a page may be short or even empty without being the last: only the last page
    /// has no `next`.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`, `NotFound` if the bucket is gone.
    async fn list(&self, bucket: &Bucket, list: &List) -> Result<ListPage>;
}

impl Object {
    /// The range of all data.
    pub fn all(&self) -> Range<u64> {
        0..self.size_bytes
    }

    /// Whether the data are encrypted.
    pub fn is_encrypted(&self) -> bool {
        is_encrypted(&self.attributes)
    }

    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.size_bytes {
            return Ok(());
        }
        Err(Error::invalid_argument("the range is not within the object")
            .with("start_bytes", range.start)
            .with("end_bytes", range.end)
            .with("size_bytes", self.size_bytes))
    }
}
