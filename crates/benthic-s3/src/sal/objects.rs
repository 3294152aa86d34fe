//! Objects and their versions.

use super::{Attributes, Bucket, Id, List, Listed, VersionId};
use async_trait::async_trait;
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// How many deletions of [`Objects::delete_many`] run at once.
const DELETES_IN_FLIGHT: usize = 16;

/// A version of an object, with all that is known of it but its data.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Which version.
    pub version: VersionId,
    /// Whether it is a delete marker, which has no data.
    pub marker: bool,
    /// Size of the data.
    pub size_bytes: u64,
    /// When it was made, in milliseconds since 1970 (UTC).
    pub modified_ms: u64,
    /// Entity tag, without quotes.
    pub etag: String,
    /// What was given to it: metadata, tags, access control, checksums.
    pub attributes: Attributes,
    /// How often the attributes were changed.
    pub revision: u32,
    /// The write that made it.
    pub write: Id,
    /// Sizes of the pieces in which its data were written: the parts of an upload that are not
    /// empty, or all data at once.
    pub part_bytes: Vec<u64>,
    /// Where its data are, in a form that only its driver reads.
    pub location: Arc<dyn Any + Send + Sync>,
}

/// A prefetch of the first data of an object, which began while the object was looked up.
pub struct Prefetch {
    /// The write that made the data.
    pub write: Id,
    /// How many bytes, from the first byte of the object on.
    pub len_bytes: u64,
    /// The data, when they have arrived.
    pub data: BoxFuture<'static, Result<Bytes>>,
}

/// A condition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// The object is there.
    Exists,
    /// It is not there.
    Absent,
    /// It is there and has this entity tag.
    Matches(String),
    /// It is not there or has another entity tag.
    Differs(String),
}

/// What a written object is to be, as far as that is known only at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// Entity tag, without quotes, at most 128 bytes.
    pub etag: String,
    /// At most 256, of 64 KiB.
    pub attributes: Attributes,
    /// What must hold at the moment when it becomes visible. Of a part nothing.
    pub condition: Condition,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The version; of a part the null version.
    pub version: VersionId,
    /// Size of the data.
    pub size_bytes: u64,
    /// The write.
    pub write: Id,
}

/// The upload and the number of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The upload.
    pub upload: Id,
    /// 1 to 10,000. A part that has it already is replaced.
    pub number: u16,
}

/// A deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// The object.
    pub key: String,
    /// The version to remove for good; absent: the object is deleted as its bucket's versioning says.
    pub version: Option<VersionId>,
    /// What must hold of the version, or else of the object.
    pub condition: Condition,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// The version that was removed, or the delete marker that was made. Absent if there was nothing to delete, and in
    /// a bucket without versions.
    pub version: Option<VersionId>,
    /// Whether that is a delete marker.
    pub marker: bool,
}

/// An object or a part that is being written. One that is dropped is given up, and collected when its lease has ended.
#[async_trait]
pub trait Writer: Send {
    /// Takes more data. Returns when there is room for it; memory is bounded.
    ///
    /// # Errors
    /// As the store; `Unavailable` if the writer took longer than its lease between two calls. Nothing of it will show.
    async fn write(&mut self, data: Bytes) -> Result<()>;

    /// Makes all of it visible, at once.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold, `NotFound` if it demands an object and there is none, or if bucket or upload
    /// are gone; `Unavailable` if the lease ended, `LimitExceeded` over the bucket's quota. Nothing of it shows then.
    /// `OutcomeUnknown`.
    async fn finish(self: Box<Self>, finish: Finish) -> Result<Written>;

    /// Gives it up at once.
    ///
    /// # Errors
    /// As the store; what was written is collected later then.
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// The data of one version. It reads that version to its end, also if it is replaced or deleted meanwhile.
#[async_trait]
pub trait Reader: Send {
    /// The next piece, of at most a few MiB; nothing at the end.
    ///
    /// # Errors
    /// `Corrupt`, as the store; `Unavailable` if the version was removed and the reader took longer than a driver's
    /// promised time.
    async fn next(&mut self) -> Result<Option<Bytes>>;
}

/// Objects.
#[async_trait]
pub trait Objects: Send + Sync {
    /// A version; the current one if none is named. It may be a delete marker.
    ///
    /// # Errors
    /// `NotFound`.
    async fn object(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> Result<Object>;

    /// The current version, for a caller that will read it from its first byte on. A driver that
    /// can guess where its data are prefetches the first of them meanwhile. It returns a prefetch
    /// only of data of this version, and does not wait for them.
    ///
    /// # Errors
    /// As [`Objects::object`].
    async fn object_with_prefetch(&self, bucket: &Bucket, key: &str) -> Result<(Object, Option<Prefetch>)> {
        Ok((self.object(bucket, key, None).await?, None))
    }

    /// Reads a range of an object's data. Prefetched data are not fetched again.
    ///
    /// # Errors
    /// `InvalidArgument` if the range is not within the object.
    async fn read(
        &self,
        bucket: &Bucket,
        object: &Object,
        range: Range<u64>,
        prefetch: Option<Prefetch>,
    ) -> Result<Box<dyn Reader>>;

    /// Begins to write an object, or a part of an upload. With the size, if it is known, the layout is chosen well.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`, as the store.
    async fn write(
        &self,
        bucket: &Bucket,
        key: &str,
        part: Option<PartOf>,
        size_bytes: Option<u64>,
    ) -> Result<Box<dyn Writer>>;

    /// Makes an object of another's data without moving them.
    ///
    /// # Errors
    /// `NotFound` if the source is gone; as [`Writer::finish`].
    async fn copy(
        &self,
        source: (&Bucket, &Object),
        bucket: &Bucket,
        key: &str,
        finish: Finish,
    ) -> Result<Written>;

    /// Replaces the attributes of a version, if they are as they were when `object` was read.
    ///
    /// # Errors
    /// `Conflict` if they were changed, `NotFound` if the version is gone, `LimitExceeded`.
    async fn set_attributes(&self, bucket: &Bucket, object: &Object, attributes: Attributes) -> Result<()>;

    /// Deletes an object or a version. What is not there is deleted already.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold, `NotFound` if it demands an object and there is none.
    async fn delete(&self, bucket: &Bucket, delete: &Delete) -> Result<Deleted>;

    /// Deletes many, each for itself. Answers stand in the order of the deletions.
    async fn delete_many(&self, bucket: &Bucket, deletes: &[Delete]) -> Vec<Result<Deleted>> {
        let deletions: Vec<_> = deletes.iter().map(|delete| self.delete(bucket, delete)).collect();
        futures::stream::iter(deletions).buffered(DELETES_IN_FLIGHT).collect().await
    }

    /// A page of objects, versions or uploads in the order of their keys. A bounded time is spent on a page, so it may be
    /// short, even empty, and not the last: only without `next` it is.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`, `NotFound` if the bucket is gone.
    async fn list(&self, bucket: &Bucket, list: &List) -> Result<Listed>;
}

impl Object {
    /// The whole of its data.
    pub fn all(&self) -> Range<u64> {
        0..self.size_bytes
    }

    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.size_bytes {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidArgument, "the range is not within the object")
            .with("start_bytes", range.start)
            .with("end_bytes", range.end)
            .with("size_bytes", self.size_bytes))
    }
}
