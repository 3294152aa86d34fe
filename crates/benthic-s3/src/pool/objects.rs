//! Objects: lookup, write, copy, deletion, attributes, and the quota check.

use super::convert::{split_lock, with_lock};
use super::events::new_events;
use super::reader::{PoolReader, home, manifest, pieces};
use super::reserved_intents::Intent;
use super::shard_call::{CallFailure, unknown_outcome};
use super::writer::{PoolWriter, check_encryption_attribute};
use super::{PoolSal, layout};
use crate::sal::{
    Bucket, Buckets, DataKey, Delete, DeleteResult, Finish, Id, List, ListPage, Object, Objects, PartId,
    Prefetch, Reader, Transition, VersionId, Versioning, WriteResult, Writer,
};
use async_trait::async_trait;
use benthic_classes::bucket::state::{Body, Group, Head, Manifest, Release, Segment};
use benthic_classes::bucket::wire::{
    self, Append, Begin, Get, Put, Reserve, SetAttributes, Share, Sweep, Unshare,
};
use benthic_core::{Error, ErrorKind, ObjectId, OptionalExtension, Pool, Reason, Result};
use std::ops::Range;
use std::sync::Arc;

impl PoolSal {
    /// Makes the data of a write visible as an object.
    pub(super) async fn put(
        &self,
        bucket: &Bucket,
        key: &str,
        write: Id,
        (class, manifest): (Option<String>, Manifest),
        finish: Finish,
    ) -> Result<WriteResult> {
        let size_bytes = manifest.size_bytes();
        let needs_intent = !manifest.segments.is_empty();
        let shard = self.shard_of(bucket, key)?;
        self.locations.forget(bucket.id, key);
        let begun_ms = self.monotonic_ms();
        let reserve = match needs_intent && self.reserved.should_reserve(&shard, begun_ms) {
            true => Some(Reserve {
                write: Id::draw(&self.options.environment)?.into(),
                expires_ms: self.now_ms().saturating_add(self.options.lease_ms),
            }),
            false => None,
        };
        let put = Put {
            times: self.times(),
            write: write.into(),
            key: key.to_owned(),
            condition: finish.condition.into(),
            mode: bucket.versioning.into(),
            etag: finish.etag,
            class,
            body: Body { manifest, attributes: with_lock(finish.attributes, finish.lock) },
            default_retention: finish.default_retention.map(Into::into),
            reserve,
            events: new_events(finish.events),
        };
        match self.call_open(bucket, &shard, "put", &put).await {
            Err(failure) if needs_intent => return Err(self.explain(&shard, write, failure).await),
            result => result.map_err(CallFailure::into_error)?,
        }
        if let Some(Reserve { write, .. }) = reserve {
            self.reserved.keep(&shard, Intent { write: write.into(), begun_ms });
        }
        let version = self.written_version(bucket, &shard, write).await.map_err(unknown_outcome)?;
        Ok(WriteResult { version, size_bytes, write })
    }

    /// Makes the data of a write visible at the end of an object.
    pub(super) async fn append_segment(
        &self,
        bucket: &Bucket,
        (object, size_bytes): (&Object, u64),
        (write, segment): (Id, Segment),
        finish: Finish,
    ) -> Result<WriteResult> {
        let shard = self.shard_of(bucket, &object.key)?;
        self.locations.forget(bucket.id, &object.key);
        let append = Append {
            times: self.times(),
            write: write.into(),
            key: object.key.clone(),
            seen: wire::Seen { write: object.write.into(), revision: object.revision },
            segment,
            etag: finish.etag,
            attributes: finish.attributes,
            events: new_events(finish.events),
        };
        match self.call_open(bucket, &shard, "append", &append).await {
            Err(failure) => Err(self.explain(&shard, write, failure).await),
            Ok(()) => Ok(WriteResult { version: VersionId::Null, size_bytes, write: object.write }),
        }
    }

    pub(super) async fn written_version(
        &self,
        bucket: &Bucket,
        shard: &ObjectId,
        write: Id,
    ) -> Result<VersionId> {
        if bucket.versioning != Versioning::Enabled {
            return Ok(VersionId::Null);
        }
        let outcome = self.outcome(shard, write).await?;
        let outcome = outcome
            .ok_or_else(|| Error::internal("the outcome of a write expired at once; increase outcome_ms"))?;
        Ok(VersionId::from(&outcome))
    }

    /// Refines the error of a write that requires an intent: a conflict means that the condition
    /// does not hold, or that the lease expired and the intent was swept.
    pub(super) async fn explain(&self, shard: &ObjectId, write: Id, failure: CallFailure) -> Error {
        let was_retried = failure.was_retried;
        let error = failure.into_error();
        if error.kind() != ErrorKind::Conflict {
            return error;
        }
        match self.stored_write(shard, write).await {
            // The attempt whose answer was lost may have succeeded, and its outcome may have been
            // swept since.
            Ok(None) if was_retried => error.with_kind(ErrorKind::OutcomeUnknown),
            Ok(None) => error.with_kind(ErrorKind::Unavailable),
            _ => error,
        }
    }

    /// Abandons a write that is not visible. If this fails, garbage collection abandons the write
    /// after its lease.
    pub(super) async fn give_up(&self, shard: &ObjectId, write: Id) {
        let sweep = Sweep { now_ms: self.now_ms(), writes: vec![write.into()], given_up: true };
        if let Err(error) = self.call(shard, "sweep", &sweep).await {
            tracing::debug!(%error, "cannot abandon a write; garbage collection will remove it");
        }
    }

    /// Checks that this many more objects and bytes fit into the bucket's quota.
    ///
    /// # Errors
    /// `LimitExceeded` if they do not.
    pub(super) async fn check_quota(&self, bucket: &Bucket, objects: u64, bytes: u64) -> Result<()> {
        let quota = bucket.quota;
        if quota.objects_max.is_none() && quota.bytes_max.is_none() {
            return Ok(());
        }
        let usage = self.usage(bucket).await?;
        let bytes = usage.bytes.saturating_add(usage.part_bytes).saturating_add(bytes);
        let objects = usage.versions.saturating_add(objects);
        let over = |max: Option<u64>, wanted| max.is_some_and(|max| wanted > max);
        if over(quota.objects_max, objects) || over(quota.bytes_max, bytes) {
            return Err(Error::because(Reason::QuotaExceeded, "the write would exceed the bucket's quota")
                .with("bucket", &bucket.name)
                .with("objects", objects)
                .with("bytes", bytes));
        }
        Ok(())
    }

    /// Adds a reference of a write to the data of an object.
    async fn share(&self, group: Group, write: Id, object: &Object) -> Result<()> {
        let share = Share {
            group: group.write,
            tag: write.into(),
            key: object.key.clone(),
            version: object.version.into(),
        };
        self.call(&self.names.shard(group.bucket, group.shard)?, "share", &share).await
    }

    /// Refines the error of a copy whose source no longer has its data.
    async fn explain_source(&self, bucket: &Bucket, source: &Object, error: Error) -> Error {
        match self.object(bucket, &source.key, Some(source.version)).await {
            Ok(now) if now.write == source.write => {
                let message = "the data of the source were moved during the copy; try again";
                Error::unavailable(message).with_source(error)
            }
            _ => error,
        }
    }

    pub(super) async fn release(&self, release: &Release) -> Result<()> {
        let Release { group, tag } = *release;
        let free_at_ms = self.now_ms().saturating_add(self.options.grace_ms);
        let unshare = Unshare { group: group.write, tag, free_at_ms };
        // The shard and all of its entries are gone.
        self.call(&self.names.shard(group.bucket, group.shard)?, "release", &unshare)
            .await
            .optional()
            .map(drop)
    }
}

fn object(key: &str, head: Head) -> Result<Object> {
    let version = head.version_ref().into();
    let Body { manifest, attributes } = head.body.unwrap_or_default();
    let (attributes, lock) = split_lock(attributes)?;
    Ok(Object {
        key: key.to_owned(),
        version,
        marker: head.marker,
        size_bytes: head.size_bytes,
        modified_ms: head.modified_ms,
        etag: head.etag,
        attributes,
        lock,
        revision: head.revision,
        class: head.class,
        write: head.write.into(),
        part_bytes: manifest.segments.iter().map(|segment| segment.len_bytes).collect(),
        location: Arc::new(manifest),
    })
}

#[async_trait]
impl Objects for PoolSal {
    async fn object(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> Result<Object> {
        wire::check_key(key)?;
        let get = Get { key: key.to_owned(), version: version.map(Into::into) };
        let head: Head = self.call_read(&self.shard_of(bucket, key)?, "get", &get).await?;
        object(key, head)
    }

    async fn object_with_prefetch(&self, bucket: &Bucket, key: &str) -> Result<(Object, Option<Prefetch>)> {
        self.look_up_and_prefetch(bucket, key).await
    }

    async fn read(
        &self,
        bucket: &Bucket,
        object: &Object,
        range: Range<u64>,
        prefetch: Option<Prefetch>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Reader>> {
        object.check_range(&range)?;
        if object.is_encrypted() != data_key.is_some() {
            let message = match data_key {
                Some(_) => "the data are not encrypted",
                None => "the data are encrypted, and there is no key",
            };
            return Err(Error::invalid_argument(message).with("key", &object.key));
        }
        let (pool, names) = (self.pool_of(object.class.as_deref()).await?, self.names.clone());
        let manifest = manifest(object)?;
        let home = home(bucket, manifest);
        let pieces = pieces(manifest, range, object.is_encrypted());
        Ok(Box::new(PoolReader::new(pool, names, home, pieces, prefetch, data_key.cloned(), &self.options)))
    }

    async fn whole_data(
        &self,
        bucket: &Bucket,
        object: &Object,
    ) -> Result<Option<(Arc<dyn Pool>, ObjectId)>> {
        let manifest = manifest(object)?;
        match manifest.segments[..] {
            [segment] if segment.len_bytes <= u64::from(segment.chunk_bytes) && !object.is_encrypted() => {
                let write = manifest.moved.unwrap_or(segment.write);
                let data = self.names.chunk(home(bucket, manifest), write, 0)?;
                Ok(Some((self.pool_of(object.class.as_deref()).await?, data)))
            }
            _ => Ok(None),
        }
    }

    async fn write(
        &self,
        bucket: &Bucket,
        key: &str,
        part: Option<PartId>,
        size_bytes: Option<u64>,
        class: Option<&str>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        wire::check_key(key)?;
        if let Some(part) = part {
            wire::check_part_number(part.number)?;
        }
        self.check_quota(bucket, u64::from(part.is_none()), size_bytes.unwrap_or(0)).await?;
        let (class, data_key) = (class.map(str::to_owned), data_key.cloned());
        Ok(Box::new(PoolWriter::new(self.clone(), bucket.clone(), key, part, size_bytes, class, data_key)?))
    }

    async fn has_storage_class(&self, class: &str) -> Result<bool> {
        if self.options.store.is_none() || wire::check_class(Some(class)).is_err() {
            return Ok(false);
        }
        Ok(self.storage_class(class).await?.is_some_and(|class| class.offered))
    }

    async fn transition(&self, bucket: &Bucket, transition: &Transition) -> Result<()> {
        self.move_data(bucket, transition).await
    }

    async fn append(
        &self,
        bucket: &Bucket,
        object: &Object,
        size_bytes: Option<u64>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        if bucket.versioning != Versioning::Off {
            return Err(Error::unsupported("a bucket with versions cannot append to objects"));
        }
        let stored = manifest(object)?;
        if stored.shared.is_some() {
            let message = "the object is a copy that shares its data; write it anew to append to it";
            return Err(Error::unsupported(message));
        }
        if stored.moved.is_some() || object.class.is_some() {
            let message = "the object was not written to the class STANDARD; write it anew to append to it";
            return Err(Error::unsupported(message));
        }
        self.check_quota(bucket, 0, size_bytes.unwrap_or(0)).await?;
        let key = &object.key;
        let writer =
            PoolWriter::new(self.clone(), bucket.clone(), key, None, size_bytes, None, data_key.cloned())?;
        Ok(Box::new(writer.at_end_of(object)))
    }

    async fn copy(
        &self,
        (from, source): (&Bucket, &Object),
        bucket: &Bucket,
        key: &str,
        finish: Finish,
    ) -> Result<WriteResult> {
        wire::check_key(key)?;
        if source.marker {
            return Err(Error::not_found("a delete marker cannot be copied"));
        }
        check_encryption_attribute(&finish, source.is_encrypted())?;
        self.check_quota(bucket, 1, source.size_bytes).await?;
        let write = Id::draw(&self.options.environment)?;
        let manifest = manifest(source)?;
        let class = source.class.clone();
        if manifest.segments.is_empty() {
            return self.put(bucket, key, write, (class, Manifest::default()), finish).await;
        }
        let group = manifest.shared.unwrap_or(Group {
            bucket: from.id.into(),
            shard: layout::shard_of(&source.key, from.shards),
            write: manifest.data_id(source.write.into()),
        });
        let shard = self.shard_of(bucket, key)?;
        let expires_ms = self.now_ms().saturating_add(self.options.lease_ms);
        let begin = Begin { write: write.into(), expires_ms, chunks: 0, class: None, shared: Some(group) };
        self.call_open(bucket, &shard, "begin", &begin).await.map_err(CallFailure::into_error)?;
        let copied = Manifest { shared: Some(group), ..manifest.clone() };
        let result = match self.share(group, write, source).await {
            Ok(()) => self.put(bucket, key, write, (class, copied), finish).await,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(self.explain_source(from, source, error).await)
            }
            Err(error) => Err(error),
        };
        if result.as_ref().is_err_and(|error| error.kind() != ErrorKind::OutcomeUnknown) {
            self.give_up(&shard, write).await;
            // If the lease expired before `share` stored the reference, collection has processed
            // the release already, so the reference must be removed here.
            if let Err(error) = self.release(&Release { group, tag: write.into() }).await {
                tracing::warn!(%error, %write, "cannot remove the reference of a failed copy");
            }
        }
        result
    }

    async fn update_object(
        &self,
        bucket: &Bucket,
        old: &Object,
        new: &Object,
        bypass_governance: bool,
    ) -> Result<()> {
        let input = SetAttributes {
            key: old.key.clone(),
            version: old.version.into(),
            write: old.write.into(),
            revision: old.revision,
            attributes: with_lock(new.attributes.clone(), new.lock),
            now_ms: self.now_ms(),
            bypass_governance,
        };
        let shard = self.shard_of(bucket, &old.key)?;
        self.call_open(bucket, &shard, "set_attributes", &input).await.map_err(|failure| {
            let was_retried = failure.was_retried;
            // The first attempt may have succeeded, and another gateway may have changed the
            // attributes since.
            let error = failure.into_error();
            if was_retried { unknown_outcome(error) } else { error }
        })
    }

    async fn delete(&self, bucket: &Bucket, delete: &Delete) -> Result<DeleteResult> {
        wire::check_key(&delete.key)?;
        let write = Id::draw(&self.options.environment)?;
        let shard = self.shard_of(bucket, &delete.key)?;
        self.locations.forget(bucket.id, &delete.key);
        let input = wire::Delete {
            times: self.times(),
            write: write.into(),
            key: delete.key.clone(),
            version: delete.version.map(Into::into),
            condition: delete.condition.clone().into(),
            mode: bucket.versioning.into(),
            bypass_governance: delete.bypass_governance,
            due_ms: delete.due_ms,
            events: new_events(delete.events.clone()),
        };
        self.call_open(bucket, &shard, "delete", &input).await.map_err(CallFailure::into_error)?;
        if delete.version.is_none() && bucket.versioning == Versioning::Off {
            return Ok(DeleteResult::default());
        }
        let outcome = self.outcome(&shard, write).await.map_err(unknown_outcome)?;
        Ok(outcome.map_or(DeleteResult::default(), |outcome| DeleteResult {
            version: Some(VersionId::from(&outcome)),
            marker: outcome.marker,
        }))
    }

    async fn list(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        self.list_shards(bucket, list).await
    }
}
