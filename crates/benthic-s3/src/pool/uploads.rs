//! Multipart uploads in pools: each upload and its parts have entries in the shard of the key.

use super::PoolSal;
use super::convert::{object_before, with_lock};
use super::events::new_events;
use super::shard_call::{CallFailure, unknown_outcome};
use crate::sal::{
    Attributes, Bucket, Finish, Id, Lock, Object, Part, PartRef, Upload, Uploads, VersionId, Versioning,
};
use async_trait::async_trait;
use benthic_classes::bucket::keys;
use benthic_classes::bucket::state::{self, Head, Manifest};
use benthic_classes::bucket::wire::{self, Abort, Complete, Get, NewUpload};
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, ObjectId, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

fn no_such_upload(upload: Id) -> Error {
    Error::not_found("there is no such upload; it was completed or aborted").with("upload", upload)
}

impl PoolSal {
    pub(super) async fn abort_in(&self, shard: &ObjectId, key: String, upload: Id) -> Result<()> {
        let abort = Abort { times: self.times(), upload: upload.into(), key };
        match self.call_with_retries(shard, "abort", &abort).await {
            Err(failure) if failure.was_retried && failure.error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.map_err(CallFailure::into_error),
        }
    }

    /// The version that a completed upload created, if it can still be determined.
    async fn version_of(
        &self,
        bucket: &Bucket,
        key: &str,
        shard: &ObjectId,
        upload: Id,
    ) -> Result<VersionId> {
        if bucket.versioning != Versioning::Enabled {
            return Ok(VersionId::Null);
        }
        if let Some(outcome) = self.outcome(shard, upload).await? {
            return Ok(VersionId::from(&outcome));
        }
        // The outcome is gone, so the class accepted this call because the object was the current
        // version. Another write may have replaced it since.
        let head: Head = self.call_read(shard, "get", &Get { key: key.to_owned(), version: None }).await?;
        if Id::from(head.write) == upload {
            Ok(head.version_ref().into())
        } else {
            Err(no_such_upload(upload))
        }
    }
}

#[async_trait]
impl Uploads for PoolSal {
    async fn create_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        attributes: Attributes,
        lock: Lock,
        class: Option<&str>,
    ) -> Result<Id> {
        wire::check_key(key)?;
        let upload = Id::draw(&self.options.environment)?;
        let input = NewUpload {
            upload: upload.into(),
            key: key.to_owned(),
            now_ms: self.now_ms(),
            class: class.map(str::to_owned),
            attributes: with_lock(attributes, lock),
        };
        let shard = self.shard_of(bucket, key)?;
        self.call_open(bucket, &shard, "upload", &input).await.map_err(CallFailure::into_error)?;
        Ok(upload)
    }

    async fn upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<Upload> {
        wire::check_key(key)?;
        let shard = self.shard_of(bucket, key)?;
        let found: Option<state::Upload> = self.shard_value(&shard, keys::upload(key, upload.into())).await?;
        found.ok_or_else(|| no_such_upload(upload))?.try_into()
    }

    async fn list_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        after: u16,
        parts_max: usize,
    ) -> Result<(Vec<(u16, Part)>, bool)> {
        let shard = self.shard_of(bucket, key)?;
        let prefix = keys::parts_prefix(upload.into());
        let page = self.index_page(&shard, Some(keys::part(upload.into(), after)), &prefix).await?;
        // Read after the parts: if another client ended the upload in between, this fails, and the
        // upload does not look as if it had no parts.
        self.upload(bucket, key, upload).await?;
        let more = page.more || page.entries.len() > parts_max;
        let parts = page.entries.iter().take(parts_max).map(|(key, value): &(Bytes, Bytes)| {
            let number = keys::part_number(key);
            let number = number.ok_or_else(|| Error::corrupt("a part has no number"))?;
            Ok((number, state::Part::from_stored(value)?.into()))
        });
        Ok((parts.collect::<Result<_>>()?, more))
    }

    async fn preview_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        attributes: &Attributes,
    ) -> Result<Object> {
        let shard = self.shard_of(bucket, key)?;
        let mut stored: BTreeMap<u16, state::Part> = BTreeMap::new();
        self.for_each_entry(&shard, &keys::parts_prefix(upload.into()), |key, value| {
            let number = keys::part_number(key);
            let number = number.ok_or_else(|| Error::corrupt("a part has no number"))?;
            stored.insert(number, state::Part::from_stored(value)?);
            Ok(())
        })
        .await?;
        // Read after the parts, as in `list_parts`.
        let class = self.upload(bucket, key, upload).await?.class;
        let mut segments = Vec::new();
        for part in parts {
            let found = stored.get(&part.number).filter(|found| Id::from(found.write) == part.write);
            let found = found.ok_or_else(|| {
                Error::invalid_argument("a part is missing or was replaced").with("number", part.number)
            })?;
            segments.extend(found.segment);
        }
        let manifest = Manifest { segments, ..Manifest::default() };
        Ok(object_before(key, upload, manifest, class, attributes, self.now_ms()))
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
        self.locations.forget(bucket.id, key);
        let input = Complete {
            times: self.times(),
            upload: upload.into(),
            key: key.to_owned(),
            condition: finish.condition.into(),
            mode: bucket.versioning.into(),
            etag: finish.etag,
            attributes: with_lock(finish.attributes, finish.lock),
            default_retention: finish.default_retention.map(Into::into),
            parts: parts.iter().map(Into::into).collect(),
            events: new_events(finish.events),
        };
        self.call_open(bucket, &shard, "complete", &input).await.map_err(CallFailure::into_error)?;
        let version = self.version_of(bucket, key, &shard, upload).await;
        version
            .map_err(|error| if error.kind() == ErrorKind::NotFound { error } else { unknown_outcome(error) })
    }

    async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<()> {
        wire::check_key(key)?;
        self.abort_in(&self.shard_of(bucket, key)?, key.to_owned(), upload).await
    }
}
