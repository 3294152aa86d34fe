//! Moves the data of a version to another storage class.
//!
//! The data objects are copied as they are stored, under a new id, into the pool of the class. Then
//! one call makes them the data of the version and turns the old ones into garbage. An intent
//! guards the copy like any other write. The segments keep their ids, because the keys of encrypted
//! data derive from them, so a move needs no key.

use super::PoolSal;
use super::reader::{home, manifest};
use super::shard_call::CallFailure;
use super::writer::PoolWriter;
use crate::sal::encryption::stored_len;
use crate::sal::{Bucket, Id, Object, Objects, Transition};
use benthic_classes::bucket::state::Manifest;
use benthic_classes::bucket::wire;
use benthic_core::{Error, ErrorKind, ObjectId, Result};

/// The id of the data of a version.
fn data_id(object: &Object) -> Result<Id> {
    Ok(manifest(object)?.data_id(object.write.into()).into())
}

impl PoolSal {
    /// The data objects of a manifest, in order, and their lengths.
    pub(super) fn stored_chunks<'a>(
        &'a self,
        home: Id,
        manifest: &'a Manifest,
        is_encrypted: bool,
    ) -> impl Iterator<Item = Result<(ObjectId, u64)>> + Send + 'a {
        let all = manifest
            .segments
            .iter()
            .flat_map(|segment| (0..segment.chunks().count).map(move |number| (segment, number)));
        all.zip(0..).map(move |((segment, number), total): (_, u32)| {
            let chunk_bytes = u64::from(segment.chunk_bytes);
            let len_bytes = (segment.len_bytes - u64::from(number) * chunk_bytes).min(chunk_bytes);
            let len_bytes = if is_encrypted { stored_len(len_bytes) } else { len_bytes };
            let object = match manifest.moved {
                Some(write) => self.names.chunk(home, write, total)?,
                None => self.names.chunk(home, segment.write, number)?,
            };
            Ok((object, len_bytes))
        })
    }

    pub(super) async fn move_data(&self, bucket: &Bucket, transition: &Transition) -> Result<()> {
        let Transition { key, version, from, class, .. } = transition;
        let object = self.object(bucket, key, Some(*version)).await?;
        if object.marker {
            return Err(Error::not_found("a delete marker has no data"));
        }
        if object.class == *class {
            return Ok(());
        }
        // The call that switches the data checks that they are those of `object`.
        if object.class != *from {
            return Err(Error::conflict("the version has moved to another storage class"));
        }
        if let Some(class) = class
            && !self.has_storage_class(class).await?
        {
            let message = "the storage class is not offered; `benthic s3 storage-class ls` lists the classes";
            return Err(Error::invalid_argument(message).with("class", class));
        }
        let size_bytes = Some(object.size_bytes);
        let mut writer =
            PoolWriter::new(self.clone(), bucket.clone(), key, None, size_bytes, class.clone(), None)?;
        let moved = self.copy_and_switch(bucket, &object, transition, &mut writer).await;
        if let Err(error) = &moved {
            writer.clean_up(error.kind()).await;
        }
        moved
    }

    /// The error of a move that has not found a data object. The data of a version that was written
    /// again, moved or removed since the move began may be collected.
    async fn missing_data(&self, bucket: &Bucket, object: &Object, error: Error) -> Error {
        let now = match self.object(bucket, &object.key, Some(object.version)).await {
            Ok(now) => now,
            Err(error) => return error,
        };
        match (data_id(object), data_id(&now)) {
            (Ok(before), Ok(now)) if before == now => error.with_kind(ErrorKind::Corrupt),
            (Ok(_), Ok(_)) => Error::conflict("the version has got other data"),
            (Err(error), _) | (_, Err(error)) => error,
        }
    }

    async fn copy_and_switch(
        &self,
        bucket: &Bucket,
        object: &Object,
        transition: &Transition,
        writer: &mut PoolWriter,
    ) -> Result<()> {
        let manifest = manifest(object)?;
        let pool = self.pool_of(object.class.as_deref()).await?;
        for chunk in self.stored_chunks(home(bucket, manifest), manifest, object.is_encrypted()) {
            let (name, len_bytes) = chunk?;
            let data = match pool.read_range(&name, 0, len_bytes).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let error = error.with("object", name.name());
                    return Err(self.missing_data(bucket, object, error).await);
                }
                data => data?,
            };
            if data.len() as u64 != len_bytes {
                return Err(Error::corrupt("a data object is too short")
                    .with("object", name.name())
                    .with("len_bytes", data.len())
                    .with("len_bytes_wanted", len_bytes));
            }
            writer.write_next(data).await?;
        }
        writer.finish_data().await?;
        self.locations.forget(bucket.id, &transition.key);
        let input = wire::Transition {
            times: self.times(),
            write: writer.id().into(),
            key: transition.key.clone(),
            version: transition.version.into(),
            condition: transition.condition.clone().into(),
            data: manifest.data_id(object.write.into()),
            size_bytes: object.size_bytes,
            class: transition.class.clone(),
            due_ms: transition.due_ms,
            events: super::events::new_events(transition.events.clone()),
        };
        let shard = self.shard_of(bucket, &transition.key)?;
        match self.call_open(bucket, &shard, "transition", &input).await {
            Err(failure) if !manifest.segments.is_empty() => {
                Err(self.explain(&shard, writer.id(), failure).await)
            }
            result => result.map_err(CallFailure::into_error),
        }
    }
}
