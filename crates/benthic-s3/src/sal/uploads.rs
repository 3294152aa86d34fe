//! Uploads of objects in parts. A part is written by [`Objects::write`](super::Objects::write).

use super::{Attributes, Bucket, Finish, Id, VersionId};
use async_trait::async_trait;
use benthic_core::Result;

/// An upload that is neither complete nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// When it was begun, in milliseconds since 1970 (UTC).
    pub begun_ms: u64,
    /// Attributes for its object.
    pub attributes: Attributes,
}

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The write that made it.
    pub write: Id,
    /// Size of its data.
    pub size_bytes: u64,
    /// When it was written, in milliseconds since 1970 (UTC).
    pub modified_ms: u64,
    /// Entity tag, without quotes.
    pub etag: String,
    /// Attributes, such as checksums.
    pub attributes: Attributes,
}

/// A part that is to become a piece of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRef {
    /// Its number.
    pub number: u16,
    /// The write that made it.
    pub write: Id,
}

/// Uploads.
#[async_trait]
pub trait Uploads: Send + Sync {
    /// Begins an upload.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`, `NotFound` if the bucket is gone.
    async fn create_upload(&self, bucket: &Bucket, key: &str, attributes: Attributes) -> Result<Id>;

    /// What an upload was begun with.
    ///
    /// # Errors
    /// `NotFound`.
    async fn upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<Upload>;

    /// Parts in the order of their numbers: those behind `after`, at most `parts_max`, and whether there are more.
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

    /// Makes an object of parts and gives its version. The parts stand in the order of their numbers, one at
    /// least. Parts that are not named are dropped.
    /// Completing what is complete succeeds and changes nothing, for as long as its outcome is kept or the object is
    /// the current one.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument` if a part is not there or was replaced; as
    /// [`Writer::finish`](super::Writer::finish).
    async fn complete_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        finish: Finish,
    ) -> Result<VersionId>;

    /// Drops an upload and its parts. Writers of parts will fail.
    ///
    /// # Errors
    /// `NotFound`.
    async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<()>;
}
