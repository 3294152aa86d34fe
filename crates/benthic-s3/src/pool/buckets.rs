//! Buckets: creation, changes, deletion, listing.

use super::PoolSal;
use super::directory::{
    BucketRecord, Limbo, Swap, bucket_key, check_name, decode_bucket, limbo_key, name_in, owner_key,
    record_key,
};
use super::shard_call::run_all;
use crate::sal::limits::{BUCKET_ATTRIBUTES_BYTES_MAX, BUCKET_NAME_BYTES_MAX, SHARDS_MAX};
use crate::sal::{Bucket, BucketCheck, Buckets, Id, NewBucket, RecordChange, Usage, Versioning};
use async_trait::async_trait;
use benthic_classes::bucket::codec::Version;
use benthic_classes::bucket::wire::{Gate, Init, check_limit};
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;

fn check_attributes(attributes: &crate::sal::Attributes) -> Result<()> {
    let len_bytes = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    check_limit("the attributes of the bucket are too large", len_bytes, BUCKET_ATTRIBUTES_BYTES_MAX)
}

fn encode(bucket: &Bucket) -> Option<Bytes> {
    Some(BucketRecord::of(bucket).encode())
}

impl PoolSal {
    async fn swap_bucket(&self, old: &Bucket, mut new: Bucket) -> Result<Bucket> {
        new.revision = old.revision + 1;
        let swap = Swap { key: bucket_key(&old.name), expected: encode(old), new: encode(&new) };
        self.directory_swap(&[swap]).await?;
        Ok(new)
    }

    async fn gate_all(&self, bucket: &Bucket, close: bool) -> Result<()> {
        let shards = self.shards(bucket.id, bucket.shards)?;
        let gate = Gate { revision: bucket.revision, close };
        run_all(shards.iter().map(|shard| self.call(shard, "gate", &gate)).collect()).await.map(|_| ())
    }

    /// Deletes a bucket, or continues a deletion that another process left unfinished.
    pub(super) async fn finish_deletion(&self, bucket: Bucket) -> Result<()> {
        let now_ms = self.now_ms();
        // Each deletion has its own revision. So only the process that wrote this record can finish
        // the deletion, and the shards close at this revision even if another process closed or
        // opened them before.
        let deleting = Bucket { deleting_ms: Some(now_ms), ..bucket.clone() };
        let deleting = self.swap_bucket(&bucket, deleting).await.map_err(busy)?;
        if let Err(error) = self.gate_all(&deleting, true).await {
            let restored =
                self.swap_bucket(&deleting, Bucket { deleting_ms: None, ..deleting.clone() }).await;
            if let Ok(restored) = restored {
                // If a shard stays closed, the next writer that needs it opens it.
                let _ = self.gate_all(&restored, false).await;
            }
            return Err(error.with("bucket", &bucket.name));
        }
        let limbo = Limbo { version: Version, shards: bucket.shards, free_at_ms: now_ms };
        let swaps = [
            Swap { key: bucket_key(&bucket.name), expected: encode(&deleting), new: None },
            Swap { key: owner_key(&bucket.owner, &bucket.name), expected: Some(OWNER_VALUE), new: None },
            Swap { key: limbo_key(bucket.id), expected: None, new: Some(limbo.encode()) },
        ];
        self.directory_swap(&swaps).await.map_err(busy)
    }
}

/// The value of an owner entry. It is not empty because a comparison cannot tell an empty value
/// from a missing one.
const OWNER_VALUE: Bytes = Bytes::from_static(&[1]);

/// Bucket records per read operation. Even with the largest attributes they stay well below the
/// size limit of an operation.
const RECORDS_PER_READ: usize = 64;

fn busy(error: Error) -> Error {
    if error.kind() == ErrorKind::Conflict {
        return Error::busy("another process is changing the bucket; try again later").with_source(error);
    }
    error
}

fn no_such_bucket(name: &str) -> Error {
    Error::not_found("no such bucket").with("bucket", name)
}

#[async_trait]
impl Buckets for PoolSal {
    async fn create_bucket(&self, new: NewBucket) -> Result<Bucket> {
        check_name(&new.name, BUCKET_NAME_BYTES_MAX)?;
        check_name(&new.owner, BUCKET_NAME_BYTES_MAX)?;
        check_attributes(&new.attributes)?;
        let shards = new.shards.unwrap_or(self.options.shards);
        if !(1..=SHARDS_MAX).contains(&shards) {
            return Err(Error::invalid_argument("the number of shards must be between 1 and shards_max")
                .with("shards", shards)
                .with("shards_max", SHARDS_MAX));
        }
        let bucket = Bucket {
            id: Id::draw(&self.options.environment)?,
            created_ms: self.now_ms(),
            shards,
            revision: 1,
            deleting_ms: None,
            versioning: new.versioning,
            name: new.name,
            owner: new.owner,
            quota: new.quota,
            attributes: new.attributes,
        };
        let free_at_ms = bucket.created_ms.saturating_add(self.options.lease_ms);
        let limbo = Limbo { version: Version, shards, free_at_ms };
        let already_exists = |error: Error| {
            if error.kind() == ErrorKind::Conflict {
                return Error::already_exists("a bucket with this name exists already").with_source(error);
            }
            error
        };
        let name = Swap { key: bucket_key(&bucket.name), expected: None, new: None };
        let limbo_entry = Swap { key: limbo_key(bucket.id), expected: None, new: Some(limbo.encode()) };
        self.directory_swap(&[name, limbo_entry]).await.map_err(already_exists)?;
        let objects = self.shards(bucket.id, shards)?;
        let inits: Vec<Init> = (0..shards).map(|shard| Init { bucket: bucket.id.into(), shard }).collect();
        let calls = objects.iter().zip(&inits).map(|(object, init)| self.call(object, "init", init));
        run_all(calls.collect()).await?;
        let mut swaps = vec![
            Swap { key: bucket_key(&bucket.name), expected: None, new: encode(&bucket) },
            Swap { key: owner_key(&bucket.owner, &bucket.name), expected: None, new: Some(OWNER_VALUE) },
            Swap { key: limbo_key(bucket.id), expected: Some(limbo.encode()), new: None },
        ];
        swaps.extend(new.record.map(|record| {
            let RecordChange { kind, name, expected, new } = record;
            Swap { key: record_key(kind, &name), expected, new }
        }));
        match self.directory_swap(&swaps).await {
            Err(error) if error.kind() == ErrorKind::Conflict => match self.bucket(&bucket.name).await {
                Ok(_) => Err(already_exists(error)),
                Err(_) => Err(error.with_kind(ErrorKind::Unavailable)),
            },
            result => result.map(|()| bucket),
        }
    }

    async fn bucket(&self, name: &str) -> Result<Bucket> {
        check_name(name, BUCKET_NAME_BYTES_MAX)?;
        let found = self.directory_get(vec![bucket_key(name)]).await?;
        let (key, value) = found.first().ok_or_else(|| no_such_bucket(name))?;
        decode_bucket(key, value)
    }

    async fn update_bucket(&self, old: &Bucket, new: &Bucket) -> Result<Bucket> {
        check_attributes(&new.attributes)?;
        if new.versioning == Versioning::Off && old.versioning != Versioning::Off {
            return Err(Error::invalid_argument("versioning cannot be turned off, only suspended"));
        }
        let bucket = Bucket {
            versioning: new.versioning,
            quota: new.quota,
            attributes: new.attributes.clone(),
            ..old.clone()
        };
        self.swap_bucket(old, bucket).await
    }

    async fn delete_bucket(&self, name: &str) -> Result<()> {
        let bucket = self.bucket(name).await?;
        self.finish_deletion(bucket).await
    }

    async fn list_buckets(
        &self,
        owner: &str,
        after: Option<&str>,
        buckets_max: usize,
    ) -> Result<(Vec<Bucket>, bool)> {
        check_name(owner, BUCKET_NAME_BYTES_MAX)?;
        let prefix = owner_key(owner, "");
        let mut page = self.directory_page(after.map(|after| owner_key(owner, after)), &prefix).await?;
        let more = page.more || page.entries.len() > buckets_max;
        page.entries.truncate(buckets_max);
        let names = page.entries.iter().map(|(key, _)| name_in(key, prefix.len()));
        let keys: Vec<Bytes> = names.map(|name| name.map(|name| bucket_key(&name))).collect::<Result<_>>()?;
        let mut buckets = Vec::new();
        for keys in keys.chunks(RECORDS_PER_READ) {
            for (key, value) in self.directory_get(keys.to_vec()).await? {
                buckets.push(decode_bucket(&key, &value)?);
            }
        }
        // A bucket that was deleted and created again during the listing may belong to another
        // owner now.
        buckets.retain(|bucket| bucket.owner == owner);
        Ok((buckets, more))
    }

    async fn usage(&self, bucket: &Bucket) -> Result<Usage> {
        let shards = self.shards(bucket.id, bucket.shards)?;
        let headers = run_all(shards.iter().map(|shard| self.header(shard)).collect()).await?;
        let mut usage = benthic_classes::bucket::state::Usage::default();
        headers.iter().for_each(|header| usage.add(&header.usage));
        Ok(Usage::from(&usage))
    }

    async fn check_bucket(&self, bucket: &Bucket) -> Result<BucketCheck> {
        self.check(bucket).await
    }
}
