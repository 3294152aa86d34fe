//! Events: changes of objects that wait for delivery.
//!
//! The call that makes a change also stores its events, so no crash loses one. A gateway delivers
//! them and then removes them. If it crashes in between, another one delivers them again.

use super::{Bucket, Id, VersionId};
use async_trait::async_trait;
use benthic_core::Result;
use bytes::Bytes;

/// A change to which events belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A version was created.
    Created,
    /// A delete marker was created.
    MarkerCreated,
    /// A version or a delete marker was removed. Replacing an object removes none.
    Removed,
    /// The data of a version were moved to another storage class.
    Moved,
}

/// An event to store with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The event is stored only if the call makes this change.
    pub change: Change,
    /// 1 to 256 visible ASCII characters.
    pub queue: String,
    /// The name of the event, as the protocol has it, at most 512 bytes.
    pub name: String,
    /// The rule that asks for the event, at most 512 bytes.
    pub rule: String,
    /// Further facts about the change, which only the gateway interprets, at most 2 KiB.
    pub detail: Bytes,
}

/// The place of a queue. A bucket has several places, and all events of a key are in one. Within a
/// place, the events of a queue are in the order of the changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePlace {
    pub queue: String,
    pub shard: u32,
}

/// The state of a queue in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Events that wait for delivery, at most 50,000.
    pub waiting: u64,
    /// Events that are delivered only after an operator wants it, at most 10,000.
    pub dead: u64,
    /// Events that were lost because the queue was full.
    pub lost: u64,
}

/// Events of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    Waiting,
    Dead,
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Grows from event to event of a place, and so from event to event of a key.
    pub number: u64,
    pub name: String,
    pub rule: String,
    pub key: String,
    pub version: VersionId,
    /// The change.
    pub write: Id,
    pub size_bytes: u64,
    pub etag: String,
    /// Time of the change.
    pub time_ms: u64,
    /// Since when it waits.
    pub queued_ms: u64,
    pub detail: Bytes,
    /// Why a dead event was not delivered.
    pub reason: String,
}

/// Moves events of one place, at most 1,000. Numbers of other events are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settle {
    /// Events to remove, waiting or dead.
    pub done: Vec<u64>,
    /// Waiting events that become dead, and why, in at most 512 bytes.
    pub dead: Vec<(u64, String)>,
    /// Dead events that wait again.
    pub revived: Vec<u64>,
}

/// Queues of events. A driver whose changes have no events needs none of the methods.
#[async_trait]
pub trait Events: Send + Sync {
    /// The state of all queues of a bucket that ever had an event, by place.
    ///
    /// # Errors
    /// Those of the store.
    async fn queues(&self, _bucket: &Bucket) -> Result<Vec<(QueuePlace, QueueState)>> {
        Ok(Vec::new())
    }

    /// At most `events_max` events of a place, in order, after the number `after`. The flag says
    /// whether there are more.
    ///
    /// # Errors
    /// `Corrupt`; those of the store.
    async fn events(
        &self,
        _bucket: &Bucket,
        _place: &QueuePlace,
        _kind: EventState,
        _after: Option<u64>,
        _events_max: usize,
    ) -> Result<(Vec<Event>, bool)> {
        Ok((Vec::new(), false))
    }

    /// Removes events, and moves them to and from the dead ones. A repeated call changes nothing.
    ///
    /// # Errors
    /// `LimitExceeded` if more than 50,000 events would wait; those of the store.
    async fn settle(&self, _bucket: &Bucket, _place: &QueuePlace, _settle: &Settle) -> Result<()> {
        Ok(())
    }
}
