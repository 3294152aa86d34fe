//! Buckets.

use super::{Attributes, Id};
use async_trait::async_trait;
use benthic_core::Result;

/// A bucket as its record says. A gateway may keep one for a bounded time: what changes in it holds for others later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Its id: a bucket that is made anew under the same name has another.
    pub id: Id,
    /// Who owns it.
    pub owner: String,
    /// When it was made, in milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Into how many parts its index is divided.
    pub shards: u32,
    /// Grows with every change of the record.
    pub revision: u64,
    /// When its deletion began, in milliseconds since 1970 (UTC). It goes on or is taken back.
    pub deleting_ms: Option<u64>,
    /// What becomes of versions that are replaced.
    pub versioning: Versioning,
    /// How much may be in it.
    pub quota: Quota,
    /// What the gateway keeps with it: access control, CORS, tags.
    pub attributes: Attributes,
}

/// The fate of the current version of a key when a new version comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// The bucket never had versions: the current version is removed.
    #[default]
    Off,
    /// It is kept.
    Enabled,
    /// It is kept unless it is the null version: the new version is the null version.
    Suspended,
}

/// Exact sums over a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys whose current version is an object.
    pub objects: u64,
    /// Versions that are objects, the current ones among them.
    pub versions: u64,
    /// Versions that are delete markers.
    pub markers: u64,
    /// Bytes of all versions. Data that several versions share count for each.
    pub bytes: u64,
    /// Uploads that are neither complete nor aborted.
    pub uploads: u64,
    /// Parts of these uploads.
    pub parts: u64,
    /// Bytes of these parts.
    pub part_bytes: u64,
}

/// How much may be in a bucket. It is checked before a write and not while it becomes visible: writers at the same time may
/// together exceed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Most versions that are objects.
    pub objects_max: Option<u64>,
    /// Most bytes in them and in the parts of uploads.
    pub bytes_max: Option<u64>,
}

/// A bucket to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBucket {
    /// Its name.
    pub name: String,
    /// Who owns it.
    pub owner: String,
    /// What becomes of versions that are replaced.
    pub versioning: Versioning,
    /// Into how many parts its index is divided, for good: one for every 100,000 keys that are in mind. The driver's
    /// default if absent.
    pub shards: Option<u32>,
    /// How much may be in it.
    pub quota: Quota,
    /// Attributes.
    pub attributes: Attributes,
}

/// What a check of a bucket found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCheck {
    /// The sums, counted anew.
    pub usage: Usage,
    /// Data objects that were looked at.
    pub data_objects: u64,
    /// What is wrong; empty if all is well.
    pub findings: Vec<String>,
}

/// Buckets.
#[async_trait]
pub trait Buckets: Send + Sync {
    /// Makes a bucket.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument`, `LimitExceeded`.
    async fn create_bucket(&self, new: NewBucket) -> Result<Bucket>;

    /// A bucket.
    ///
    /// # Errors
    /// `NotFound`.
    async fn bucket(&self, name: &str) -> Result<Bucket>;

    /// Replaces versioning, quota and attributes of a bucket by those of `new`, if its record still is `old`.
    ///
    /// # Errors
    /// `Conflict` if the record was changed, `InvalidArgument` for turning versioning off, `LimitExceeded`.
    async fn update_bucket(&self, old: &Bucket, new: &Bucket) -> Result<Bucket>;

    /// Deletes a bucket that has no versions. Its uploads are aborted.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if it is not empty, `Busy` if somebody else changes it.
    async fn delete_bucket(&self, name: &str) -> Result<()>;

    /// Buckets of an owner in the order of their names: those behind `after`, at most `buckets_max`, and whether there
    /// are more. A bucket that is made or deleted meanwhile may or may not be among them.
    ///
    /// # Errors
    /// As the store.
    async fn list_buckets(
        &self,
        owner: &str,
        after: Option<&str>,
        buckets_max: usize,
    ) -> Result<(Vec<Bucket>, bool)>;

    /// What is in a bucket. Exact when nobody writes.
    ///
    /// # Errors
    /// `NotFound`.
    async fn usage(&self, bucket: &Bucket) -> Result<Usage>;

    /// Compares all that the index of a bucket says with itself and with the data. Changes nothing. Writes that happen
    /// meanwhile may be reported.
    ///
    /// # Errors
    /// `NotFound`.
    async fn check_bucket(&self, bucket: &Bucket) -> Result<BucketCheck>;
}
