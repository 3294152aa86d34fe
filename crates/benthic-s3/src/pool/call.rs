//! Calls of shards.

use super::{PoolSal, layout};
use crate::sal::{Bucket, Buckets};
use benthic_classes::bucket::codec::Id;
use benthic_classes::bucket::keys;
use benthic_classes::bucket::state::{Header, Outcome, Write};
use benthic_classes::bucket::wire::{self, Gate, Times};
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Fetch, ObjectId, OmapPage, Pool, Result, WriteOp, limits};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

/// How often a call is made again whose answer was lost. Methods find out that they ran already.
const REPETITIONS: usize = 2;

/// The key in an error's context that says that the call was made again because an answer was lost.
pub(super) const REPEATED: &str = "repeated";

/// Calls that are made at once.
const CALLS_IN_FLIGHT: usize = 16;

impl PoolSal {
    pub(super) fn times(&self) -> Times {
        let options = &self.options;
        Times { now_ms: self.now_ms(), grace_ms: options.grace_ms, outcome_ms: options.outcome_ms }
    }

    pub(super) fn shard_of(&self, bucket: &Bucket, key: &str) -> Result<ObjectId> {
        self.names.shard(bucket.id, layout::shard_of(key, bucket.shards))
    }

    /// Calls a method that writes, again if the answer was lost.
    pub(super) async fn call(&self, shard: &ObjectId, method: &str, input: &impl Wire) -> Result<()> {
        match self.call_again(shard, method, input).await {
            (true, Err(error)) => Err(error.with(REPEATED, true)),
            (_, result) => result,
        }
    }

    /// As [`PoolSal::call`]; says also whether an answer was lost, and so an earlier call may have done it.
    pub(super) async fn call_again(
        &self,
        shard: &ObjectId,
        method: &str,
        input: &impl Wire,
    ) -> (bool, Result<()>) {
        let call = wire::call(method, input);
        let mut repetition = 0;
        loop {
            match self.index.exec(shard, call.clone()).await {
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown && repetition < REPETITIONS => {
                    repetition += 1;
                }
                Err(error) if repetition > 0 && !says_what_is(error.kind()) => {
                    return (true, Err(error.with_kind(ErrorKind::OutcomeUnknown)));
                }
                Err(error) => return (repetition > 0, Err(error)),
                Ok(_) => return (repetition > 0, Ok(())),
            }
        }
    }

    /// As [`PoolSal::call`], for a bucket: a shard that somebody closed and did not delete is opened again.
    pub(super) async fn call_open(
        &self,
        bucket: &Bucket,
        shard: &ObjectId,
        method: &str,
        input: &impl Wire,
    ) -> Result<()> {
        match self.call(shard, method, input).await {
            Err(error) if error.kind() == ErrorKind::Busy => {}
            result => return result,
        }
        let current = self.bucket(&bucket.name).await?;
        if current.id != bucket.id {
            return Err(
                Error::new(ErrorKind::NotFound, "the bucket was deleted").with("bucket", &bucket.name)
            );
        }
        if current.deleting_ms.is_some() {
            return Err(
                Error::new(ErrorKind::Busy, "the bucket is being deleted").with("bucket", &bucket.name)
            );
        }
        // The record says since this revision that nobody deletes the bucket, so a shard that was closed before may open.
        self.call(shard, "gate", &Gate { revision: current.revision, close: false }).await?;
        self.call(shard, method, input).await
    }

    /// Calls a method that reads.
    pub(super) async fn ask<T: Wire>(&self, shard: &ObjectId, method: &str, input: &impl Wire) -> Result<T> {
        let output = self.index.exec(shard, wire::call(method, input)).await?;
        T::decode(&output).map_err(|_| {
            Error::new(ErrorKind::Internal, "the answer of the class `bucket` cannot be decoded")
        })
    }

    /// An omap value of a shard.
    pub(super) async fn shard_value<T: Wire>(&self, shard: &ObjectId, key: Bytes) -> Result<Option<T>> {
        let (page, _) = self.index.fetch(shard, Fetch::omap_get([key])).await?;
        page.entries.first().map(|(_, value)| T::from_stored(value)).transpose()
    }

    pub(super) async fn header(&self, shard: &ObjectId) -> Result<Header> {
        let header = self.shard_value(shard, Bytes::from_static(keys::HEADER)).await?;
        header.ok_or_else(|| Error::new(ErrorKind::NotFound, "this is no shard of a bucket"))
    }

    /// What is known of a write.
    pub(super) async fn known_write(&self, shard: &ObjectId, write: Id) -> Result<Option<Write>> {
        self.shard_value(shard, keys::write(write)).await
    }

    /// What a write did that was just acknowledged.
    pub(super) async fn outcome(&self, shard: &ObjectId, write: Id) -> Result<Option<Outcome>> {
        let known = self.known_write(shard, write).await?;
        Ok(known.and_then(|known| match known {
            Write::Outcome(outcome) => Some(outcome),
            Write::Intent(_) => None,
        }))
    }

    /// All shards of a bucket.
    pub(super) fn shards(&self, bucket: Id, shards: u32) -> Result<Vec<ObjectId>> {
        (0..shards).map(|shard| self.names.shard(bucket, shard)).collect()
    }
}

/// Whether a method that ran says so: it looked first whether it had run before.
fn says_what_is(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Busy | ErrorKind::InvalidArgument)
}

/// Of what failed behind a call that was acknowledged: that is done.
pub(super) fn done_anyway(error: Error) -> Error {
    error.with_kind(ErrorKind::OutcomeUnknown)
}

/// Writes what can be written again: the answer to it may get lost.
pub(super) async fn write_again(pool: &dyn Pool, object: &ObjectId, op: WriteOp) -> Result<()> {
    let mut repetitions = REPETITIONS;
    loop {
        match pool.write(object, op.clone()).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown && repetitions > 0 => repetitions -= 1,
            result => return result.map(|_| ()),
        }
    }
}

/// Removes an object that may be gone already. Gives whether it was there, as far as is known.
pub(super) async fn remove_if_there(pool: &dyn Pool, object: &ObjectId) -> Result<bool> {
    match write_again(pool, object, WriteOp::new().remove()).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits for all, of which so many run at once; the answers in order.
pub(super) async fn all<T>(calls: Vec<impl Future<Output = Result<T>> + Send>) -> Result<Vec<T>> {
    futures::stream::iter(calls).buffered(CALLS_IN_FLIGHT).try_collect().await
}

/// Entries of an object's omap with a prefix, a page; none if the object is missing.
pub(super) async fn omap_range(
    pool: &dyn Pool,
    object: &ObjectId,
    after: Option<Bytes>,
    prefix: &[u8],
) -> Result<OmapPage> {
    let prefix = Bytes::copy_from_slice(prefix);
    let range = Fetch::omap_range(after, prefix, limits::OMAP_PAGE_ENTRIES_MAX);
    match pool.fetch(object, range).await {
        Ok((page, _)) => Ok(page),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(OmapPage::default()),
        Err(error) => Err(error),
    }
}
