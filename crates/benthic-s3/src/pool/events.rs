//! Queues of events, in the omap of the shards.

use super::PoolSal;
use super::shard_call::run_all;
use crate::sal::{Bucket, Event, EventState, Events, NewEvent, QueuePlace, QueueState, Settle, VersionId};
use async_trait::async_trait;
use benthic_classes::bucket::{keys, state, wire};
use benthic_core::codec::Wire;
use benthic_core::{Error, Fetch, OptionalExtension, Result, limits};
use bytes::Bytes;

/// Converts the events of a change.
pub(super) fn new_events(events: Vec<NewEvent>) -> Vec<wire::NewEvent> {
    let convert = |event: NewEvent| {
        let NewEvent { change, queue, name, rule, detail } = event;
        wire::NewEvent { change: change.into(), queue, name, rule, detail }
    };
    events.into_iter().map(convert).collect()
}

fn event((key, value): &(Bytes, Bytes)) -> Result<Event> {
    let number = keys::event_number(key);
    let number = number.ok_or_else(|| Error::corrupt("an event has no number"))?;
    let state::Event {
        name,
        rule,
        key,
        seq,
        null,
        write,
        size_bytes,
        etag,
        time_ms,
        queued_ms,
        detail,
        reason,
        ..
    } = state::Event::from_stored(value)?;
    let version = if null { VersionId::Null } else { VersionId::Seq(seq) };
    let write = write.into();
    Ok(Event {
        number,
        name,
        rule,
        key,
        version,
        write,
        size_bytes,
        etag,
        time_ms,
        queued_ms,
        detail,
        reason,
    })
}

#[async_trait]
impl Events for PoolSal {
    async fn queues(&self, bucket: &Bucket) -> Result<Vec<(QueuePlace, QueueState)>> {
        let read = |shard: u32| async move {
            let mut found = Vec::new();
            let object = self.names.shard(bucket.id, shard)?;
            self.for_each_entry(&object, &[keys::QUEUE], |key, value| {
                let state::Queue { waiting, dead, lost, .. } = state::Queue::from_stored(value)?;
                let queue = String::from_utf8_lossy(&key[1..]).into_owned();
                found.push((QueuePlace { queue, shard }, QueueState { waiting, dead, lost }));
                Ok(())
            })
            .await?;
            Ok(found)
        };
        let mut all: Vec<_> =
            run_all((0..bucket.shards).map(read).collect()).await?.into_iter().flatten().collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all)
    }

    async fn events(
        &self,
        bucket: &Bucket,
        place: &QueuePlace,
        kind: EventState,
        after: Option<u64>,
        events_max: usize,
    ) -> Result<(Vec<Event>, bool)> {
        let shard = self.names.shard(bucket.id, place.shard)?;
        let (prefix, key): (_, fn(&str, u64) -> Bytes) = match kind {
            EventState::Waiting => (keys::events_prefix(&place.queue), keys::event),
            EventState::Dead => (keys::dead_events_prefix(&place.queue), keys::dead_event),
        };
        let after = after.map(|number| key(&place.queue, number));
        let entries_max = events_max.clamp(1, limits::OMAP_PAGE_ENTRIES_MAX);
        let range = Fetch::omap_range(after, prefix, entries_max);
        let Some((page, _)) = self.index.fetch(&shard, range).await.optional()? else {
            return Ok((Vec::new(), false));
        };
        Ok((page.entries.iter().map(event).collect::<Result<_>>()?, page.more))
    }

    async fn settle(&self, bucket: &Bucket, place: &QueuePlace, settle: &Settle) -> Result<()> {
        let Settle { done, dead, revived } = settle.clone();
        let dead = dead.into_iter().map(|(number, reason)| wire::FailedEvent { number, reason }).collect();
        let settle = wire::Settle { queue: place.queue.clone(), now_ms: self.now_ms(), done, dead, revived };
        // The bucket is gone, and its events with it.
        self.call(&self.names.shard(bucket.id, place.shard)?, "settle", &settle).await.optional().map(drop)
    }
}
