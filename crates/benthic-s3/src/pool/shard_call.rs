//! Method calls on shards, with retries.

use super::{PoolSal, layout};
use crate::sal::{Bucket, Buckets, Id};
use benthic_classes::bucket::keys;
use benthic_classes::bucket::state::{Header, Outcome, Write};
use benthic_classes::bucket::wire::{self, Gate, Times};
use benthic_core::codec::Wire;
use benthic_core::{
    Error, ErrorKind, Fetch, ObjectId, OmapPage, OptionalExtension, Pool, Result, WriteOp, limits,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

/// Retries of a call whose answer was lost. The methods detect that they have already run.
const RETRIES: usize = 2;

const CALLS_IN_FLIGHT: usize = 16;

/// A failed call of a write method.
pub(super) struct CallFailure {
    pub error: Error,
    /// Whether the call was retried after a lost answer, so that an earlier attempt may have
    /// succeeded.
    pub was_retried: bool,
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> CallFailure {
        CallFailure { error, was_retried: false }
    }
}

impl CallFailure {
    pub(super) fn into_error(self) -> Error {
        if self.was_retried { self.error.with("retried", true) } else { self.error }
    }
}

impl PoolSal {
    pub(super) fn times(&self) -> Times {
        let options = &self.options;
        Times { now_ms: self.now_ms(), grace_ms: options.grace_ms, outcome_ms: options.outcome_ms }
    }

    pub(super) fn shard_of(&self, bucket: &Bucket, key: &str) -> Result<ObjectId> {
        self.names.shard(bucket.id, layout::shard_of(key, bucket.shards))
    }

    /// Like [`PoolSal::call_with_retries`], for callers that need not know whether the call was
    /// retried.
    pub(super) async fn call(&self, shard: &ObjectId, method: &str, input: &impl Wire) -> Result<()> {
        self.call_with_retries(shard, method, input).await.map_err(CallFailure::into_error)
    }

    /// Calls a write method, and retries if the answer was lost.
    pub(super) async fn call_with_retries(
        &self,
        shard: &ObjectId,
        method: &str,
        input: &impl Wire,
    ) -> Result<(), CallFailure> {
        let call = wire::call(method, input);
        let mut retries = 0;
        loop {
            let Err(error) = self.index.exec(shard, call.clone()).await else { return Ok(()) };
            if error.kind() == ErrorKind::OutcomeUnknown && retries < RETRIES {
                retries += 1;
                continue;
            }
            let was_retried = retries > 0;
            let is_unknown = was_retried && !is_outcome_certain(error.kind());
            let error = if is_unknown { error.with_kind(ErrorKind::OutcomeUnknown) } else { error };
            return Err(CallFailure { error, was_retried });
        }
    }

    /// Like [`PoolSal::call_with_retries`], but reopens a shard that an abandoned deletion has
    /// closed.
    pub(super) async fn call_open(
        &self,
        bucket: &Bucket,
        shard: &ObjectId,
        method: &str,
        input: &impl Wire,
    ) -> Result<(), CallFailure> {
        match self.call_with_retries(shard, method, input).await {
            Err(failure) if failure.error.kind() == ErrorKind::Busy => {}
            result => return result,
        }
        let current = self.bucket(&bucket.name).await?;
        let refused = match &current {
            Bucket { id, .. } if *id != bucket.id => Some((ErrorKind::NotFound, "the bucket was deleted")),
            Bucket { deleting_ms: Some(_), .. } => Some((ErrorKind::Busy, "the bucket is being deleted")),
            _ => None,
        };
        if let Some((kind, message)) = refused {
            return Err(Error::new(kind, message).with("bucket", &bucket.name).into());
        }
        // The record says at this revision that nothing is deleting the bucket. The revision is
        // greater than the one that closed the shard, so the shard may open.
        let open = Gate { revision: current.revision, close: false };
        self.call_with_retries(shard, "gate", &open).await?;
        self.call_with_retries(shard, method, input).await
    }

    pub(super) async fn call_read<T: Wire>(
        &self,
        shard: &ObjectId,
        method: &str,
        input: &impl Wire,
    ) -> Result<T> {
        let output = self.index.exec(shard, wire::call(method, input)).await?;
        T::decode(&output).map_err(|_| Error::internal("the answer of the class `bucket` cannot be decoded"))
    }

    /// Reads and decodes one omap value of a shard.
    pub(super) async fn shard_value<T: Wire>(&self, shard: &ObjectId, key: Bytes) -> Result<Option<T>> {
        let (page, _) = self.index.fetch(shard, Fetch::omap_get([key])).await?;
        page.entries.first().map(|(_, value)| T::from_stored(value)).transpose()
    }

    pub(super) async fn header(&self, shard: &ObjectId) -> Result<Header> {
        let header = self.shard_value(shard, Bytes::from_static(keys::HEADER)).await?;
        header.ok_or_else(|| Error::not_found("the object is not a shard of a bucket"))
    }

    /// The stored intent or outcome of a write, if there is one.
    pub(super) async fn stored_write(&self, shard: &ObjectId, write: Id) -> Result<Option<Write>> {
        self.shard_value(shard, keys::write(write.into())).await
    }

    /// The outcome of a write that was just acknowledged.
    pub(super) async fn outcome(&self, shard: &ObjectId, write: Id) -> Result<Option<Outcome>> {
        let known = self.stored_write(shard, write).await?;
        Ok(known.and_then(|known| match known {
            Write::Outcome(outcome) => Some(outcome),
            Write::Intent(_) => None,
        }))
    }

    /// Reads a page of omap entries of an index object; an empty page if the object does not exist.
    pub(super) async fn index_page(
        &self,
        object: &ObjectId,
        after: Option<Bytes>,
        prefix: &[u8],
    ) -> Result<OmapPage> {
        let prefix = Bytes::copy_from_slice(prefix);
        let range = Fetch::omap_range(after, prefix, limits::OMAP_PAGE_ENTRIES_MAX);
        Ok(self.index.fetch(object, range).await.optional()?.unwrap_or_default().0)
    }

    /// Calls `visit` with all omap entries of an index object that have this prefix, in key order.
    pub(super) async fn for_each_entry(
        &self,
        object: &ObjectId,
        prefix: &[u8],
        mut visit: impl FnMut(&Bytes, &Bytes) -> Result<()>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.index_page(object, after, prefix).await?;
            for (key, value) in &page.entries {
                visit(key, value)?;
            }
            match page.entries.last() {
                Some((last, _)) if page.more => after = Some(last.clone()),
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn shards(&self, bucket: Id, shards: u32) -> Result<Vec<ObjectId>> {
        (0..shards).map(|shard| self.names.shard(bucket, shard)).collect()
    }
}

/// Whether the outcome is certain after a retry failed with this kind: the method first checks
/// whether it has already run.
fn is_outcome_certain(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Busy | ErrorKind::InvalidArgument)
}

/// Marks an error after an acknowledged call as an unknown outcome: the write itself has succeeded.
pub(super) fn unknown_outcome(error: Error) -> Error {
    error.with_kind(ErrorKind::OutcomeUnknown)
}

/// Performs an idempotent write, and retries if the answer was lost.
pub(super) async fn write_with_retries(pool: &dyn Pool, object: &ObjectId, op: WriteOp) -> Result<()> {
    let mut retries = RETRIES;
    loop {
        match pool.write(object, op.clone()).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown && retries > 0 => retries -= 1,
            result => return result.map(|_| ()),
        }
    }
}

/// Removes an object that may be gone already. Returns whether it existed, as far as known.
pub(super) async fn remove_if_exists(pool: &dyn Pool, object: &ObjectId) -> Result<bool> {
    Ok(write_with_retries(pool, object, WriteOp::new().remove()).await.optional()?.is_some())
}

/// Runs the calls with limited concurrency. The results are in the order of the calls.
pub(super) async fn run_all<T>(calls: Vec<impl Future<Output = Result<T>> + Send>) -> Result<Vec<T>> {
    futures::stream::iter(calls).buffered(CALLS_IN_FLIGHT).try_collect().await
}
