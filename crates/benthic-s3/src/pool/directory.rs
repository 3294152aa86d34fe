//! The directory: one object with everything that is in no shard of a bucket. Its omap holds the
//! accounts, users, access keys and tasks, the buckets, and the *limbo* entries of buckets that are
//! being created or were deleted.
//!
//! Some changes concern several entries: a new bucket, for example, adds its record and an entry of
//! its owner, and removes a limbo entry. All entries are in one object, so one operation changes
//! them atomically, with a guard for each: the compare-and-swap [`PoolSal::directory_swap`].
//!
//! | key | value |
//! | --- | --- |
//! | `a` and a name | the record of an account |
//! | `u` and a name | the record of a user |
//! | `k` and a name | the record of an access key |
//! | `t` and a bucket's name | the record of its lifecycle |
//! | `b` and a bucket's name | [BucketRecord] |
//! | `o`, an owner, NUL, a bucket's name | one byte: the owner owns this bucket |
//! | `l` and a bucket's id | [Limbo]: shards that no bucket name refers to |

use super::PoolSal;
use crate::sal::limits::{RECORD_BYTES_MAX, RECORD_CHANGES_MAX, RECORD_NAME_BYTES_MAX};
use crate::sal::{Attributes, Bucket, Id, Quota, RecordChange, RecordKind, Records};
use async_trait::async_trait;
use benthic_classes::bucket::codec::{self, Version};
use benthic_classes::bucket::wire::{Mode, check_limit};
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Fetch, Result, WriteOp};
use bytes::Bytes;

pub(super) const BUCKET: u8 = b'b';
pub(super) const OWNER: u8 = b'o';
pub(super) const LIMBO: u8 = b'l';

benthic_classes::wire! {
    /// A bucket's record, stored under the bucket's name.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BucketRecord {
        pub version: Version,
        pub id: codec::Id,
        pub owner: String,
        pub created_ms: u64,
        pub shards: u32,
        pub revision: u64,
        pub deleting_ms: Option<u64>,
        pub versioning: Mode,
        pub objects_max: Option<u64>,
        pub bytes_max: Option<u64>,
        pub attributes: Attributes,
    }

    /// Shards that no bucket name refers to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Limbo {
        pub version: Version,
        /// Number of shards that may exist.
        pub shards: u32,
        /// When collection may remove them, in milliseconds since 1970 (UTC). Before that time the
        /// bucket may still be under creation.
        pub free_at_ms: u64,
    }
}

impl BucketRecord {
    pub(super) fn of(bucket: &Bucket) -> BucketRecord {
        BucketRecord {
            version: Version,
            id: bucket.id.into(),
            owner: bucket.owner.clone(),
            created_ms: bucket.created_ms,
            shards: bucket.shards,
            revision: bucket.revision,
            deleting_ms: bucket.deleting_ms,
            versioning: bucket.versioning.into(),
            objects_max: bucket.quota.objects_max,
            bytes_max: bucket.quota.bytes_max,
            attributes: bucket.attributes.clone(),
        }
    }

    pub(super) fn into_bucket(self, name: String) -> Bucket {
        Bucket {
            name,
            id: self.id.into(),
            owner: self.owner,
            created_ms: self.created_ms,
            shards: self.shards,
            revision: self.revision,
            deleting_ms: self.deleting_ms,
            versioning: self.versioning.into(),
            quota: Quota { objects_max: self.objects_max, bytes_max: self.bytes_max },
            attributes: self.attributes,
        }
    }
}

/// A compare-and-swap of one entry. `None` stands for a missing entry. Values are never empty.
pub(super) struct Swap {
    pub key: Bytes,
    pub expected: Option<Bytes>,
    pub new: Option<Bytes>,
}

pub(super) fn bucket_key(name: &str) -> Bytes {
    key(BUCKET, name.as_bytes())
}

pub(super) fn owner_key(owner: &str, name: &str) -> Bytes {
    key(OWNER, &[owner.as_bytes(), &[0], name.as_bytes()].concat())
}

pub(super) fn limbo_key(bucket: Id) -> Bytes {
    key(LIMBO, &bucket.0)
}

pub(super) fn record_key(kind: RecordKind, name: &str) -> Bytes {
    let prefix = match kind {
        RecordKind::Account => b'a',
        RecordKind::User => b'u',
        RecordKind::Group => b'g',
        RecordKind::Role => b'r',
        RecordKind::Policy => b'p',
        RecordKind::Key => b'k',
        RecordKind::KmsKey => b'e',
        RecordKind::Task => b't',
        RecordKind::Delivery => b'd',
        RecordKind::EventTarget => b'n',
        RecordKind::StorageClass => b's',
        RecordKind::OidcProvider => b'i',
    };
    key(prefix, name.as_bytes())
}

fn key(prefix: u8, name: &[u8]) -> Bytes {
    [&[prefix], name].concat().into()
}

/// Checks that a name is not empty, contains no NUL and is not too long.
pub(super) fn check_name(name: &str, len_bytes_max: usize) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::invalid_argument("a name must not be empty or contain NUL"));
    }
    check_limit("the name is too long", name.len(), len_bytes_max)
}

impl PoolSal {
    /// Reads entries by their keys. The result contains only those that exist.
    pub(super) async fn directory_get(&self, keys: Vec<Bytes>) -> Result<Vec<(Bytes, Bytes)>> {
        let (page, _) = self.index.fetch(&self.names.directory()?, Fetch::omap_get(keys)).await?;
        Ok(page.entries)
    }

    /// Changes all of the entries, or none.
    ///
    /// # Errors
    /// `Conflict` if an entry does not have its expected value.
    pub(super) async fn directory_swap(&self, swaps: &[Swap]) -> Result<()> {
        let mut op = WriteOp::new();
        let mut removed = Vec::new();
        let mut set = Vec::new();
        for Swap { key, expected, new } in swaps {
            // The guard treats a missing entry as an empty value.
            op = op.cmp_omap(key.clone(), expected.clone().unwrap_or_default());
            match new {
                Some(value) => set.push((key.clone(), value.clone())),
                None => removed.push(key.clone()),
            }
        }
        if !set.is_empty() {
            op = op.omap_set(set);
        }
        if !removed.is_empty() {
            op = op.omap_remove(removed);
        }
        match self.index.write(&self.names.directory()?, op).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                // Every change contains an id or a revision that no other change has. So if the
                // directory has all new values, this operation has succeeded.
                let keys = swaps.iter().map(|swap| swap.key.clone()).collect();
                let stored = self.directory_get(keys).await?;
                let is_new = |swap: &Swap| {
                    let found = stored.iter().find(|(key, _)| *key == swap.key).map(|(_, value)| value);
                    found == swap.new.as_ref()
                };
                if swaps.iter().all(is_new) { Ok(()) } else { Err(error) }
            }
            result => result.map(|_| ()),
        }
    }

    /// Reads a page of the entries whose keys have this prefix, starting after `after`.
    pub(super) async fn directory_page(
        &self,
        after: Option<Bytes>,
        prefix: &[u8],
    ) -> Result<benthic_core::OmapPage> {
        self.index_page(&self.names.directory()?, after, prefix).await
    }
}

#[async_trait]
impl Records for PoolSal {
    async fn record(&self, kind: RecordKind, name: &str) -> Result<Option<Bytes>> {
        check_name(name, RECORD_NAME_BYTES_MAX)?;
        let found = self.directory_get(vec![record_key(kind, name)]).await?;
        Ok(found.into_iter().next().map(|(_, value)| value))
    }

    async fn swap_records(&self, changes: &[RecordChange]) -> Result<()> {
        check_limit("one change contains too many records", changes.len(), RECORD_CHANGES_MAX)?;
        let mut swaps: Vec<Swap> = Vec::new();
        for RecordChange { kind, name, expected, new } in changes {
            check_name(name, RECORD_NAME_BYTES_MAX)?;
            for value in expected.iter().chain(new) {
                if value.is_empty() {
                    return Err(Error::invalid_argument("a record must not be empty"));
                }
                check_limit("the record is too large", value.len(), RECORD_BYTES_MAX)?;
            }
            let key = record_key(*kind, name);
            if swaps.iter().any(|swap| swap.key == key) {
                return Err(Error::invalid_argument("one change must not contain a record twice"));
            }
            swaps.push(Swap { key, expected: expected.clone(), new: new.clone() });
        }
        if swaps.is_empty() { Ok(()) } else { self.directory_swap(&swaps).await }
    }

    async fn list_records(
        &self,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        records_max: usize,
    ) -> Result<(Vec<(String, Bytes)>, bool)> {
        let after = after.map(|after| record_key(kind, after));
        let mut page = self.directory_page(after, &record_key(kind, prefix)).await?;
        let more = page.more || page.entries.len() > records_max;
        page.entries.truncate(records_max);
        let named = page.entries.into_iter().map(|(key, value)| Ok((name_in(&key, 1)?, value)));
        Ok((named.collect::<Result<_>>()?, more))
    }
}

/// The name that a directory key contains from this position on.
pub(super) fn name_in(key: &[u8], from: usize) -> Result<String> {
    let name = key.get(from..).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| Error::corrupt("a directory key contains no valid name"))?;
    Ok(name.to_owned())
}

pub(super) fn decode_bucket(key: &[u8], value: &[u8]) -> Result<Bucket> {
    Ok(BucketRecord::from_stored(value)?.into_bucket(name_in(key, 1)?))
}
