//! Uploads of objects in parts. A part is written by [`Objects::write`](super::Objects::write).

use super::{Attributes, Bucket, Finish, Id, Part, PartRef, Upload, VersionId};
use async_trait::async_trait;
use benthic_core::Result;

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
