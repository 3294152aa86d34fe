//! Uploads.

use super::PoolSal;
use super::call::{done_anyway, omap_range};
use crate::environment::draw_id;
use crate::sal::{Attributes, Bucket, Finish, Id, Part, PartRef, Upload, Uploads, VersionId, Versioning};
use async_trait::async_trait;
use benthic_classes::bucket::keys;
use benthic_classes::bucket::state::Head;
use benthic_classes::bucket::wire::{self, Abort, Complete, Get, NewUpload};
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, ObjectId, Result};
use bytes::Bytes;

fn no_such_upload(upload: Id) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such upload; it was completed or aborted")
        .with("upload", upload)
}

impl PoolSal {
    pub(super) async fn abort_in(&self, shard: &ObjectId, key: String, upload: Id) -> Result<()> {
        let abort = Abort { times: self.times(), upload, key };
        match self.call_again(shard, "abort", &abort).await {
            (true, Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
            (_, result) => result,
        }
    }

    /// The object that a completed upload became; its version if it can still be told.
    async fn completed(&self, bucket: &Bucket, key: &str, shard: &ObjectId, upload: Id) -> Result<VersionId> {
        if bucket.versioning != Versioning::Enabled {
            return Ok(VersionId::Null);
        }
        if let Some(outcome) = self.outcome(shard, upload).await? {
            return Ok(if outcome.null { VersionId::Null } else { VersionId::Seq(outcome.seq) });
        }
        // Completed long ago: then it is the current version, or the class had refused.
        let head: Head = self.ask(shard, "get", &Get { key: key.to_owned(), version: None }).await?;
        if head.write == upload { Ok(head.version_ref()) } else { Err(no_such_upload(upload)) }
    }
}

#[async_trait]
impl Uploads for PoolSal {
    async fn create_upload(&self, bucket: &Bucket, key: &str, attributes: Attributes) -> Result<Id> {
        wire::check_key(key)?;
        let upload = draw_id(&self.options.environment)?;
        let input = NewUpload { upload, key: key.to_owned(), now_ms: self.now_ms(), attributes };
        self.call_open(bucket, &self.shard_of(bucket, key)?, "upload", &input).await?;
        Ok(upload)
    }

    async fn upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<Upload> {
        wire::check_key(key)?;
        let shard = self.shard_of(bucket, key)?;
        self.shard_value(&shard, keys::upload(key, upload)).await?.ok_or_else(|| no_such_upload(upload))
    }

    async fn list_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        after: u16,
        parts_max: usize,
    ) -> Result<(Vec<(u16, Part)>, bool)> {
        self.upload(bucket, key, upload).await?;
        let shard = self.shard_of(bucket, key)?;
        let prefix = keys::parts_of(upload);
        let page = omap_range(self.index.as_ref(), &shard, Some(keys::part(upload, after)), &prefix).await?;
        let more = page.more || page.entries.len() > parts_max;
        let parts = page.entries.iter().take(parts_max).map(|(key, value): &(Bytes, Bytes)| {
            let number = keys::part_number(key);
            let number = number.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a part has no number"))?;
            Ok((number, Part::from_stored(value)?))
        });
        Ok((parts.collect::<Result<_>>()?, more))
    }

    async fn complete_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        finish: Finish,
    ) -> Result<VersionId> {
        wire::check_key(key)?;
        let shard = self.shard_of(bucket, key)?;
        self.guesses.forget(bucket.id, key);
        let input = Complete {
            times: self.times(),
            upload,
            key: key.to_owned(),
            condition: finish.condition,
            mode: bucket.versioning,
            etag: finish.etag,
            attributes: finish.attributes,
            parts: parts.to_vec(),
        };
        self.call_open(bucket, &shard, "complete", &input).await?;
        let version = self.completed(bucket, key, &shard, upload).await;
        version.map_err(|error| if error.kind() == ErrorKind::NotFound { error } else { done_anyway(error) })
    }

    async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<()> {
        wire::check_key(key)?;
        self.abort_in(&self.shard_of(bucket, key)?, key.to_owned(), upload).await
    }
}
