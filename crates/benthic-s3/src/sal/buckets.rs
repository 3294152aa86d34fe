//! Buckets: their records, usage and quotas, and the operations on them.

use super::{Attributes, Id, RecordChange};
use async_trait::async_trait;
use benthic_core::Result;

/// A bucket, as its record in the store describes it. A gateway may cache a record for a bounded
/// time, so it may notice a change late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    /// A bucket that is deleted and created again under the same name gets a new id.
    pub id: Id,
    pub owner: String,
    pub created_ms: u64,
    pub shards: u32,
    /// Grows with every change of the record.
    pub revision: u64,
    /// Start of the deletion while the bucket is being deleted. The deletion either finishes or is
    /// reverted.
    pub deleting_ms: Option<u64>,
    pub versioning: Versioning,
    pub quota: Quota,
    /// Data that only the gateway interprets: access control, CORS, tags.
    pub attributes: Attributes,
}

/// The fate of the current version of a key when a new version is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// The bucket never had versions. The current version is removed.
    #[default]
    Off,
    /// The current version is kept.
    Enabled,
    /// The new version becomes the null version. The current version is kept, unless it is the null
    /// version itself.
    Suspended,
}

/// Exact sums over a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys whose current version is an object.
    pub objects: u64,
    /// Versions that are objects, including current ones.
    pub versions: u64,
    pub markers: u64,
    /// Bytes of all versions. Data that several versions share count once per version.
    pub bytes: u64,
    /// Uploads that are neither completed nor aborted.
    pub uploads: u64,
    pub parts: u64,
    pub part_bytes: u64,
}

/// Limits on the content of a bucket. The driver checks them before a write and not when the write
/// becomes visible, so concurrent writers may together exceed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Limit on the versions that are objects.
    pub objects_max: Option<u64>,
    /// Limit on the bytes of these versions and of the parts of uploads.
    pub bytes_max: Option<u64>,
}

/// The parameters of a bucket to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBucket {
    pub name: String,
    pub owner: String,
    pub versioning: Versioning,
    /// Number of index shards, which cannot change later. Plan one shard per 100,000 expected keys.
    /// If absent, the driver's default applies.
    pub shards: Option<u32>,
    pub quota: Quota,
    pub attributes: Attributes,
    /// A change of a record that is made together with the bucket, or not at all. With it, the
    /// caller makes sure that the account of the owner still exists.
    pub record: Option<RecordChange>,
}

/// The result of [`Buckets::check_bucket`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCheck {
    pub usage: Usage,
    /// Number of data objects that were checked.
    pub data_objects: u64,
    /// Inconsistencies; empty if the bucket is sound.
    pub findings: Vec<String>,
}

/// Operations on buckets.
#[async_trait]
pub trait Buckets: Send + Sync {
    /// Creates a bucket.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument`, `LimitExceeded`; `Unavailable` if the record of the new
    /// bucket does not have its expected value.
    async fn create_bucket(&self, new: NewBucket) -> Result<Bucket>;

    /// Reads a bucket's record.
    ///
    /// # Errors
    /// `NotFound`.
    async fn bucket(&self, name: &str) -> Result<Bucket>;

    /// Replaces a bucket's versioning, quota and attributes with those of `new`, if its record
    /// still equals `old`.
    ///
    /// # Errors
    /// `Conflict` if the record has changed, `InvalidArgument` if `new` turns versioning off,
    /// `LimitExceeded`.
    async fn update_bucket(&self, old: &Bucket, new: &Bucket) -> Result<Bucket>;

    /// Deletes a bucket that has no versions, and aborts its uploads.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if the bucket is not empty; `Busy` if another caller is changing it.
    async fn delete_bucket(&self, name: &str) -> Result<()>;

    /// Lists at most `buckets_max` buckets of an owner in name order, starting after `after`. The
    /// flag says whether there are more. A bucket that is created or deleted during the call may or
    /// may not be listed.
    async fn list_buckets(
        &self,
        owner: &str,
        after: Option<&str>,
        buckets_max: usize,
    ) -> Result<(Vec<Bucket>, bool)>;

    /// Returns a bucket's sums. They are exact while there are no concurrent writes.
    ///
    /// # Errors
    /// `NotFound`.
    async fn usage(&self, bucket: &Bucket) -> Result<Usage>;

    /// Compares all entries of a bucket's index with each other and with the data objects. Changes
    /// nothing. The findings may include writes that were in progress during the check.
    ///
    /// # Errors
    /// `NotFound`.
    async fn check_bucket(&self, bucket: &Bucket) -> Result<BucketCheck>;
}
