//! Garbage collection: removes expired intents and outcomes, removes data that nothing refers to,
//! and completes unfinished creations and deletions of buckets.
//!
//! Every step is idempotent, and several gateways may run it at the same time: ids are never
//! reused, so a removed object does not come back.

use super::PoolSal;
use super::directory::{BUCKET, LIMBO, Limbo, Swap, decode_bucket, limbo_key};
use super::shard_call::{remove_if_exists, run_all, write_with_retries};
use crate::sal::{Bucket, CollectionStats, Garbage, Id, PendingGarbage};
use async_trait::async_trait;
use benthic_classes::bucket::keys;
use benthic_classes::bucket::state::{self, Data, Write};
use benthic_classes::bucket::wire::{SWEEP_MAX, Sweep};
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Fetch, ObjectId, OptionalExtension, Result, WriteOp};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Data objects that are removed in one batch.
const REMOVALS_MAX: u32 = 256;

/// Whether more pages of a shard's omap follow, and after which key.
enum Page {
    More(Bytes),
    Last,
}

/// The failures of a collection of a shard. They do not stop the collection of the rest: the pool
/// of one storage class may be down while the others work.
#[derive(Default)]
struct Failures {
    first: Option<Error>,
    /// The storage classes whose pools did not answer. Their other garbage waits for the next
    /// collection.
    down: BTreeSet<Option<String>>,
}

impl PoolSal {
    async fn collect_shard(
        &self,
        bucket: Id,
        shard: &ObjectId,
        collected: &mut CollectionStats,
    ) -> Result<()> {
        self.expire(shard, collected).await?;
        let mut failures = Failures::default();
        let mut after = None;
        while let Page::More(last) = self.collect_page(bucket, shard, after, &mut failures, collected).await?
        {
            after = Some(last);
        }
        failures.first.map_or(Ok(()), Err)
    }

    /// Turns expired intents into garbage, and removes expired outcomes.
    async fn expire(&self, shard: &ObjectId, collected: &mut CollectionStats) -> Result<()> {
        let now_ms = self.now_ms();
        let mut after = None;
        loop {
            let page = self.index_page(shard, after, &[keys::WRITE]).await?;
            let mut expired = Vec::new();
            for (key, value) in &page.entries {
                let (expires_ms, count) = match Write::from_stored(value)? {
                    Write::Intent(intent) => (intent.expires_ms, &mut collected.expired_writes),
                    Write::Outcome(outcome) => (outcome.expires_ms, &mut collected.forgotten_outcomes),
                };
                if expires_ms <= now_ms {
                    expired.push(keys::id_at_end(key).ok_or_else(malformed_key)?);
                    *count += 1;
                }
            }
            for writes in expired.chunks(SWEEP_MAX) {
                let sweep = Sweep { now_ms, writes: writes.to_vec(), given_up: false };
                self.call(shard, "sweep", &sweep).await?;
            }
            match page.entries.last() {
                Some((last, _)) if page.more => after = Some(last.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Collects one page of garbage entries. Those that cannot be removed stay.
    async fn collect_page(
        &self,
        bucket: Id,
        shard: &ObjectId,
        after: Option<Bytes>,
        failures: &mut Failures,
        collected: &mut CollectionStats,
    ) -> Result<Page> {
        let now_ms = self.now_ms();
        let page = self.index_page(shard, after, &[keys::GARBAGE]).await?;
        let mut done = Vec::new();
        let mut all = true;
        for (key, value) in &page.entries {
            // The entries are in the order of time. If one is not due, none of the following is.
            if keys::garbage_free_at_ms(key).ok_or_else(malformed_key)? > now_ms {
                all = false;
                break;
            }
            match self.remove_garbage(bucket, value, &mut failures.down).await {
                Ok(Some(data_objects)) => {
                    collected.data_objects += data_objects;
                    done.push(key.clone());
                }
                Ok(None) => {}
                Err(error) => failures.first = failures.first.take().or(Some(error)),
            }
        }
        let next = page.entries.last().map(|(key, _)| key.clone()).filter(|_| all && page.more);
        if !done.is_empty() {
            collected.entries += done.len() as u64;
            write_with_retries(self.index.as_ref(), shard, WriteOp::new().omap_remove(done)).await?;
        }
        Ok(next.map_or(Page::Last, Page::More))
    }

    /// Removes the data that an entry names. Returns the number of data objects; `None` if it has
    /// not tried.
    async fn remove_garbage(
        &self,
        bucket: Id,
        value: &Bytes,
        down: &mut BTreeSet<Option<String>>,
    ) -> Result<Option<u64>> {
        let data = match state::Garbage::from_stored(value)? {
            state::Garbage::Data(data) => data,
            state::Garbage::Release(release) => return self.release(&release).await.map(|()| Some(0)),
        };
        if down.contains(&data.class) {
            return Ok(None);
        }
        let removed = self.remove_data(bucket, &data).await;
        if removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
            down.insert(data.class);
        }
        removed.map(Some)
    }

    /// Removes data objects that exist, and returns their number.
    pub(super) async fn remove_data(&self, bucket: Id, data: &Data) -> Result<u64> {
        let pool = self.pool_of(data.class.as_deref()).await?;
        let mut removed = 0;
        for chunks in &data.chunks {
            let mut number = 0;
            while number < chunks.count {
                let end = chunks.count.min(number.saturating_add(REMOVALS_MAX));
                let objects: Vec<ObjectId> = (number..end)
                    .map(|number| self.names.chunk(bucket, chunks.write, number))
                    .collect::<Result<_>>()?;
                let removals = objects.iter().map(|object| remove_if_exists(pool.as_ref(), object));
                removed +=
                    run_all(removals.collect()).await?.into_iter().filter(|removed| *removed).count() as u64;
                number = end;
            }
        }
        Ok(removed)
    }

    async fn collect_bucket(&self, bucket: Bucket, collected: &mut CollectionStats) -> Result<()> {
        let mut failed = None;
        for shard in self.shards(bucket.id, bucket.shards)? {
            match self.collect_shard(bucket.id, &shard, collected).await {
                Ok(()) => {}
                // The bucket was deleted during the collection.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let lease_ms = self.options.lease_ms;
        if bucket.deleting_ms.is_none_or(|began_ms| began_ms.saturating_add(lease_ms) > self.now_ms()) {
            return Ok(());
        }
        match self.finish_deletion(bucket).await {
            // The bucket is not empty and stays, or another process is deleting it.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Busy) => Ok(()),
            result => result,
        }
    }

    /// Collects the shards of a bucket in limbo, and removes the shards that are empty.
    async fn collect_limbo(&self, id: Id, limbo: Limbo, collected: &mut CollectionStats) -> Result<()> {
        // After this swap, a creator of the bucket that is still running cannot finish.
        let taken = Limbo { free_at_ms: 0, ..limbo };
        if !self.swap_limbo(id, limbo, Some(taken)).await? {
            return Ok(());
        }
        let (mut left, mut failed) = (false, None);
        for shard in self.shards(id, limbo.shards)? {
            self.abort_all(&shard).await?;
            match self.collect_shard(id, &shard, collected).await {
                Ok(()) => left |= !self.remove_empty_shard(&shard).await?,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if !left && self.swap_limbo(id, taken, None).await? {
            collected.buckets += 1;
        }
        Ok(())
    }

    /// Returns whether the entry had the expected value.
    async fn swap_limbo(&self, id: Id, expected: Limbo, new: Option<Limbo>) -> Result<bool> {
        let (expected, new) = (Some(expected.encode()), new.map(|new| new.encode()));
        match self.directory_swap(&[Swap { key: limbo_key(id), expected, new }]).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            result => result.map(|()| true),
        }
    }

    async fn abort_all(&self, shard: &ObjectId) -> Result<()> {
        loop {
            let page = self.index_page(shard, None, &[keys::UPLOAD]).await?;
            for (key, _) in &page.entries {
                let (name, _) = keys::unescape(&key[1..])?;
                let upload = keys::id_at_end(key).ok_or_else(malformed_key)?;
                self.abort_in(shard, name, upload.into()).await.optional()?;
            }
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Removes a shard that has no entries except outcomes. Returns whether the shard is gone.
    async fn remove_empty_shard(&self, shard: &ObjectId) -> Result<bool> {
        let kinds =
            [keys::CURRENT, keys::OLDER, keys::UPLOAD, keys::PART, keys::GROUP, keys::TAG, keys::GARBAGE];
        let ranges = Fetch::all(kinds.map(|kind| Fetch::omap_range(None, vec![kind], 1)));
        let Some((pages, version)) = self.index.fetch(shard, ranges).await.optional()? else {
            return Ok(true);
        };
        if pages.iter().any(|page| !page.entries.is_empty()) || self.has_intents(shard).await? {
            return Ok(false);
        }
        // If another process changed the shard since the read, the version differs and the shard
        // stays.
        match self.index.write(shard, WriteOp::new().assert_version(version).remove()).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn has_intents(&self, shard: &ObjectId) -> Result<bool> {
        let mut pending = PendingGarbage::default();
        self.count_writes(shard, &mut pending).await?;
        Ok(pending.writes > 0)
    }

    async fn count_writes(&self, shard: &ObjectId, pending: &mut PendingGarbage) -> Result<()> {
        let count = |_: &Bytes, value: &Bytes| {
            match Write::from_stored(value)? {
                Write::Intent(_) => pending.writes += 1,
                Write::Outcome(_) => pending.outcomes += 1,
            }
            Ok(())
        };
        self.for_each_entry(shard, &[keys::WRITE], count).await
    }

    async fn count_garbage(&self, shard: &ObjectId, pending: &mut PendingGarbage) -> Result<()> {
        let now_ms = self.now_ms();
        let count = |key: &Bytes, _: &Bytes| {
            pending.entries += 1;
            let due = keys::garbage_free_at_ms(key).ok_or_else(malformed_key)? <= now_ms;
            pending.due_entries += u64::from(due);
            Ok(())
        };
        self.for_each_entry(shard, &[keys::GARBAGE], count).await
    }

    async fn all_buckets(&self) -> Result<Vec<Bucket>> {
        let entries = self.all_entries(BUCKET).await?;
        entries.iter().map(|(key, value)| decode_bucket(key, value)).collect()
    }

    async fn all_limbo(&self) -> Result<Vec<(Id, Limbo)>> {
        let entries = self.all_entries(LIMBO).await?;
        let decoded = entries.iter().map(|(key, value)| {
            Ok((keys::id_at_end(key).ok_or_else(malformed_key)?.into(), Limbo::from_stored(value)?))
        });
        decoded.collect()
    }

    async fn all_entries(&self, kind: u8) -> Result<Vec<(Bytes, Bytes)>> {
        let mut entries = Vec::new();
        let push = |key: &Bytes, value: &Bytes| {
            entries.push((key.clone(), value.clone()));
            Ok(())
        };
        self.for_each_entry(&self.names.directory()?, &[kind], push).await?;
        Ok(entries)
    }
}

fn malformed_key() -> Error {
    Error::corrupt("an index key is malformed")
}

#[async_trait]
impl Garbage for PoolSal {
    async fn collect(&self) -> Result<CollectionStats> {
        let mut collected = CollectionStats::default();
        // An error in one bucket does not stop the collection of the others.
        let mut failed = None;
        for bucket in self.all_buckets().await? {
            let id = bucket.id;
            if let Err(error) = self.collect_bucket(bucket, &mut collected).await {
                failed = Some(error.with("bucket", id));
            }
        }
        for (id, limbo) in self.all_limbo().await? {
            if limbo.free_at_ms > self.now_ms() {
                continue;
            }
            if let Err(error) = self.collect_limbo(id, limbo, &mut collected).await {
                failed = Some(error.with("bucket", id));
            }
        }
        failed.map_or(Ok(collected), Err)
    }

    async fn pending(&self) -> Result<PendingGarbage> {
        let mut pending = PendingGarbage::default();
        let limbo = self.all_limbo().await?;
        pending.buckets = limbo.len() as u64;
        let buckets = self.all_buckets().await?;
        let alive = buckets.iter().map(|bucket| (bucket.id, bucket.shards));
        for (id, shards) in alive.chain(limbo.iter().map(|(id, limbo)| (*id, limbo.shards))) {
            for shard in self.shards(id, shards)? {
                self.count_writes(&shard, &mut pending).await?;
                self.count_garbage(&shard, &mut pending).await?;
            }
        }
        Ok(pending)
    }
}
