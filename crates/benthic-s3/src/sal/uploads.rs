//! Multipart uploads. [`Objects::write`](super::Objects::write) writes their parts.

use super::{Attributes, Bucket, Finish, Id, Lock, Object, VersionId};
use async_trait::async_trait;
use benthic_core::Result;

/// An upload that is neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub begun_ms: u64,
    /// Attributes of the object that the upload will create.
    pub attributes: Attributes,
    /// The lock that its creator requested for the object.
    pub lock: Lock,
    /// Storage class of the parts and of the object.
    pub class: Option<String>,
}

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub write: Id,
    pub size_bytes: u64,
    pub modified_ms: u64,
    pub etag: String,
    pub attributes: Attributes,
}

/// A reference to a part that becomes a piece of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRef {
    pub number: u16,
    pub write: Id,
}

/// Operations on multipart uploads.
#[async_trait]
pub trait Uploads: Send + Sync {
    /// Begins an upload and returns its id.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`, `NotFound` if the bucket is gone.
    async fn create_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        attributes: Attributes,
        lock: Lock,
        class: Option<&str>,
    ) -> Result<Id>;

    /// Looks up an upload.
    ///
    /// # Errors
    /// `NotFound`.
    async fn upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<Upload>;

    /// Lists at most `parts_max` parts in the order of their numbers, starting after `after`. The
    /// flag says whether there are more.
    ///
    /// # Errors
    /// `NotFound`.
    async fn list_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        after: u16,
        parts_max: usize,
    ) -> Result<(Vec<(u16, Part)>, bool)>;

    /// The object that [`Uploads::complete_upload`] would create, to read its data before it is
    /// visible. It has no version and no entity tag.
    ///
    /// # Errors
    /// `InvalidArgument` if a part is missing or was replaced.
    async fn preview_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        attributes: &Attributes,
    ) -> Result<Object>;

    /// Creates an object from at least one part, given in the order of their numbers, and returns
    /// its version. Parts that are not named are dropped. A repeated call succeeds and changes
    /// nothing while the outcome is kept or the object is still the current version.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument` if a part is missing or was replaced; those of
    /// [`Writer::finish`](super::Writer::finish).
    async fn complete_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        finish: Finish,
    ) -> Result<VersionId>;

    /// Drops an upload and its parts. Writers that still write a part fail.
    ///
    /// # Errors
    /// `NotFound`.
    async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<()>;
}
