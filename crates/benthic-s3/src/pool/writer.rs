//! Writing: stores an intent, then writes data objects under a unique id, then makes them visible
//! in one call.

use super::convert::object_before;
use super::shard_call::{CallFailure, write_with_retries};
use super::{PoolSal, layout};
use crate::sal::encryption;
use crate::sal::{
    Attributes, Bucket, Condition, DataKey, Finish, Id, Lock, Object, PartId, VersionId, WriteResult, Writer,
};
use async_trait::async_trait;
use benthic_classes::bucket::state::{Chunks, Data, Manifest, Segment};
use benthic_classes::bucket::wire::{Begin, CHUNKS_MAX, PutPart};
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result, WriteOp};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::mem::take;
use std::sync::Arc;

/// Number of data objects that the first intent covers if the size is unknown. The number doubles
/// when it does not suffice.
const CHUNKS_FIRST: u32 = 16;

pub(super) struct PoolWriter {
    sal: PoolSal,
    bucket: Bucket,
    key: String,
    part: Option<PartId>,
    /// The object at whose end the data go.
    end_of: Option<Object>,
    shard: ObjectId,
    write: Id,
    chunk_bytes: u32,
    size_bytes_known: Option<u64>,
    class: Option<String>,
    /// The pool of the class, once it is known.
    pool: Option<Arc<dyn Pool>>,
    data_key: Option<DataKey>,
    /// Expiry and number of data objects of the stored intent. `None` before the intent is stored.
    lease: Option<Lease>,
    buffer: BytesMut,
    chunks: u32,
    size_bytes: u64,
    /// Whether all data are stored, and none may follow.
    is_complete: bool,
    in_flight: FuturesUnordered<BoxFuture<'static, Result<()>>>,
}

struct Lease {
    /// By the monotonic clock.
    begun_ms: u64,
    chunks: u32,
}

impl PoolWriter {
    pub fn new(
        sal: PoolSal,
        bucket: Bucket,
        key: &str,
        part: Option<PartId>,
        size_bytes: Option<u64>,
        class: Option<String>,
        data_key: Option<DataKey>,
    ) -> Result<PoolWriter> {
        Ok(PoolWriter {
            shard: sal.shard_of(&bucket, key)?,
            write: Id::draw(&sal.options.environment)?,
            key: key.to_owned(),
            part,
            end_of: None,
            chunk_bytes: layout::chunk_bytes(size_bytes),
            size_bytes_known: size_bytes,
            class,
            pool: None,
            data_key,
            lease: None,
            buffer: BytesMut::new(),
            chunks: 0,
            size_bytes: 0,
            is_complete: false,
            in_flight: FuturesUnordered::new(),
            sal,
            bucket,
        })
    }

    pub fn id(&self) -> Id {
        self.write
    }

    /// Lets the data go to the end of an object.
    pub fn at_end_of(self, object: &Object) -> PoolWriter {
        PoolWriter { end_of: Some(object.clone()), ..self }
    }

    /// Makes sure that the intent is stored, covers this many data objects, and does not expire
    /// soon.
    async fn ensure_lease(&mut self, chunks: u32) -> Result<()> {
        let now_ms = self.sal.monotonic_ms();
        let lease_ms = self.sal.options.lease_ms;
        let known = self.size_bytes_known.map(|size| size.div_ceil(u64::from(self.chunk_bytes)));
        let known = known.and_then(|known| u32::try_from(known).ok());
        let (method, intent_chunks) = match &self.lease {
            None => {
                let intent_chunks = chunks.max(known.unwrap_or(CHUNKS_FIRST));
                if intent_chunks == 1
                    && self.class.is_none()
                    && let Some(intent) = self.sal.reserved.take(&self.shard, now_ms, lease_ms / 4)
                {
                    self.write = intent.write;
                    self.lease = Some(Lease { begun_ms: intent.begun_ms, chunks: 1 });
                    return Ok(());
                }
                ("begin", intent_chunks)
            }
            Some(lease) => {
                let age_ms = now_ms.saturating_sub(lease.begun_ms);
                if age_ms >= lease_ms {
                    return Err(Error::unavailable("the lease of the writer expired; start the write again")
                        .with("lease_ms", lease_ms));
                }
                if chunks <= lease.chunks && age_ms < lease_ms / 2 {
                    return Ok(());
                }
                let more = if chunks > lease.chunks {
                    lease.chunks.saturating_mul(2).max(chunks)
                } else {
                    lease.chunks
                };
                ("renew", more)
            }
        };
        let intent_chunks = intent_chunks.min(CHUNKS_MAX.max(chunks));
        let expires_ms = self.sal.now_ms().saturating_add(lease_ms);
        let (write, class) = (self.write.into(), self.class.clone());
        let begin = Begin { write, expires_ms, chunks: intent_chunks, class, shared: None };
        let result = self.sal.call_open(&self.bucket, &self.shard, method, &begin).await;
        result.map_err(CallFailure::into_error).map_err(|error| match error.kind() {
            ErrorKind::Conflict => error.with_kind(ErrorKind::Unavailable),
            _ => error,
        })?;
        self.lease = Some(Lease { begun_ms: now_ms, chunks: intent_chunks });
        Ok(())
    }

    /// Writes the next data object.
    pub async fn write_next(&mut self, data: Bytes) -> Result<()> {
        let pool = match &self.pool {
            Some(pool) => Arc::clone(pool),
            None => Arc::clone(self.pool.insert(self.sal.pool_of(self.class.as_deref()).await?)),
        };
        self.ensure_lease(self.chunks + 1).await?;
        while self.in_flight.len() >= self.sal.options.writes_in_flight.max(1) {
            self.in_flight.next().await.unwrap_or(Ok(()))?;
        }
        self.size_bytes += data.len() as u64;
        let object = self.sal.names.chunk(self.bucket.id, self.write, self.chunks)?;
        let data = match &self.data_key {
            Some(key) => key.write_key(self.write)?.seal(self.chunks, data)?,
            None => data,
        };
        self.chunks += 1;
        self.in_flight.push(Box::pin(write_chunk(pool, object, data)));
        // Poll once to start the write; the engine continues without further polls.
        if let Some(Some(result)) = futures::FutureExt::now_or_never(self.in_flight.next()) {
            result?;
        }
        Ok(())
    }

    /// Expected size of the next data object as it is stored, to reserve memory; 0 if unknown.
    fn next_bytes(&self) -> usize {
        let left = self.size_bytes_known.map(|known| known.saturating_sub(self.size_bytes));
        let chunk_bytes = u64::from(self.chunk_bytes);
        let next = left.unwrap_or(if self.chunks > 0 { chunk_bytes } else { 0 }).min(chunk_bytes);
        let stored = if self.data_key.is_some() { encryption::stored_len(next) } else { next };
        usize::try_from(stored).unwrap_or(0)
    }

    /// Waits until all data are stored.
    pub async fn finish_data(&mut self) -> Result<Option<Segment>> {
        if !self.buffer.is_empty() {
            let data = take(&mut self.buffer).freeze();
            self.write_next(data).await?;
        }
        while let Some(result) = self.in_flight.next().await {
            result?;
        }
        self.is_complete = true;
        let (len_bytes, chunk_bytes) = (self.size_bytes, self.chunk_bytes);
        Ok((len_bytes > 0).then_some(Segment { write: self.write.into(), len_bytes, chunk_bytes }))
    }

    async fn try_finish(&mut self, finish: Finish) -> Result<WriteResult> {
        check_encryption_attribute(&finish, self.data_key.is_some())?;
        let segment = self.finish_data().await?;
        if self.size_bytes_known.is_none_or(|known| known < self.size_bytes) {
            let is_new = self.part.is_none() && self.end_of.is_none();
            self.sal.check_quota(&self.bucket, u64::from(is_new), self.size_bytes).await?;
        }
        if let Some(object) = self.end_of.take() {
            return self.try_append(&object, segment, finish).await;
        }
        let Some(PartId { upload, number }) = self.part else {
            let manifest = Manifest { segments: segment.into_iter().collect(), ..Manifest::default() };
            let class = self.class.clone();
            return self.sal.put(&self.bucket, &self.key, self.write, (class, manifest), finish).await;
        };
        if finish.condition != Condition::Always || !finish.events.is_empty() {
            return Err(Error::invalid_argument("the write of a part takes no condition and no events"));
        }
        self.ensure_lease(self.chunks).await?;
        let part = PutPart {
            times: self.sal.times(),
            upload: upload.into(),
            key: self.key.clone(),
            number,
            write: self.write.into(),
            class: self.class.clone(),
            segment,
            etag: finish.etag,
            attributes: finish.attributes,
        };
        match self.sal.call_open(&self.bucket, &self.shard, "part", &part).await {
            Err(failure) => Err(self.sal.explain(&self.shard, self.write, failure).await),
            Ok(()) => {
                Ok(WriteResult { version: VersionId::Null, size_bytes: self.size_bytes, write: self.write })
            }
        }
    }

    async fn try_append(
        &mut self,
        object: &Object,
        segment: Option<Segment>,
        finish: Finish,
    ) -> Result<WriteResult> {
        if finish.condition != Condition::Always || finish.lock != Lock::default() {
            return Err(Error::invalid_argument(
                "data at the end of an object take no condition and no lock",
            ));
        }
        let Some(segment) = segment else {
            return Err(Error::invalid_argument("there are no data to append"));
        };
        let all = (object, object.size_bytes.saturating_add(self.size_bytes));
        self.sal.append_segment(&self.bucket, all, (self.write, segment), finish).await
    }

    /// Waits for the writes in flight and abandons the write.
    async fn give_up(&mut self) {
        while self.in_flight.next().await.is_some() {}
        if self.lease.is_some() {
            self.sal.give_up(&self.shard, self.write).await;
        }
    }

    /// Abandons a write that has failed with this kind of error.
    pub async fn clean_up(&mut self, kind: ErrorKind) {
        if kind == ErrorKind::OutcomeUnknown {
            return;
        }
        self.give_up().await;
        if kind == ErrorKind::Unavailable {
            self.sal.reserved.forget(&self.shard);
            self.remove_chunks().await;
        }
    }

    /// Removes data objects that were written after the intent was swept, and perhaps after its
    /// data were collected. Nothing in the index refers to them.
    async fn remove_chunks(&mut self) {
        let chunks = vec![Chunks { write: self.write.into(), count: self.chunks }];
        let data = Data { class: self.class.clone(), chunks };
        if let Err(error) = self.sal.remove_data(self.bucket.id, &data).await {
            tracing::warn!(%error, write = %self.write, "cannot remove the data of an abandoned write");
        }
    }
}

/// Checks that the attributes of a write say whether its data are encrypted.
pub(super) fn check_encryption_attribute(finish: &Finish, is_encrypted: bool) -> Result<()> {
    if encryption::is_encrypted(&finish.attributes) == is_encrypted {
        return Ok(());
    }
    let message = "encrypted data need the attribute `encryption`, and other data must not have it";
    Err(Error::invalid_argument(message))
}

/// Writes a data object. Only this writer writes it, and always with the same data, so retries are
/// safe.
async fn write_chunk(pool: Arc<dyn Pool>, object: ObjectId, data: Bytes) -> Result<()> {
    write_with_retries(pool.as_ref(), &object, WriteOp::new().write_full(data)).await
}

#[async_trait]
impl Writer for PoolWriter {
    async fn write(&mut self, mut data: Bytes) -> Result<()> {
        if self.is_complete && !data.is_empty() {
            // The last data object may be shorter than the others.
            return Err(Error::internal("data follow the end of an object"));
        }
        // Renew the lease even if the data are only buffered: a writer that makes calls is alive.
        if self.lease.is_some() {
            self.ensure_lease(self.chunks).await?;
        }
        while !data.is_empty() {
            let chunk_bytes = self.chunk_bytes as usize;
            if self.buffer.is_empty() && data.len() >= chunk_bytes {
                self.write_next(data.split_to(chunk_bytes)).await?;
                continue;
            }
            if self.buffer.is_empty() {
                self.buffer.reserve(self.next_bytes());
            }
            let room = chunk_bytes - self.buffer.len();
            self.buffer.extend_from_slice(&data.split_to(room.min(data.len())));
            if self.buffer.len() == chunk_bytes {
                let data = take(&mut self.buffer).freeze();
                self.write_next(data).await?;
            }
        }
        Ok(())
    }

    async fn preview(&mut self, attributes: &Attributes) -> Result<Object> {
        if self.end_of.is_some() {
            return Err(Error::unsupported("an object cannot be read before data are appended to it"));
        }
        let segment = self.finish_data().await?;
        let manifest = Manifest { segments: segment.into_iter().collect(), ..Manifest::default() };
        let class = self.class.clone();
        Ok(object_before(&self.key, self.write, manifest, class, attributes, self.sal.now_ms()))
    }

    async fn finish(mut self: Box<Self>, finish: Finish) -> Result<WriteResult> {
        let result = self.try_finish(finish).await;
        if let Err(error) = &result {
            self.clean_up(error.kind()).await;
        }
        result
    }

    async fn abort(mut self: Box<Self>) -> Result<()> {
        self.give_up().await;
        Ok(())
    }
}
