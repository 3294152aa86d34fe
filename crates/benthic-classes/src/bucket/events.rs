//! Queues of events. The call that makes a change also stores its events, so no crash separates
//! them. A gateway delivers them, and then removes them with `settle`.
//!
//! A shard has one queue per name, with a state, events that *wait*, and *dead* ones, which could
//! not be delivered. Their numbers, which come from the sequence of the shard, give the order. All
//! changes of a key are in one shard, so the events of a key are in the order of its changes.
//!
//! Queues have limits, because a target may be down for a long time. A full queue must not stop
//! writers, so it loses events, and counts them.

use super::codec::{Id, Version};
use super::keys;
use super::shard::{Shard, add, subtract};
use super::state::{Event, Head, Queue};
use super::wire::{
    Change, DETAIL_BYTES_MAX, EVENT_TEXT_BYTES_MAX, EVENTS_MAX, NewEvent, QUEUE_NAME_BYTES_MAX, SETTLE_MAX,
    Settle, check_limit,
};
use benthic_core::codec::Wire;
use benthic_core::{Error, MethodContext, Result};
use bytes::Bytes;

/// Limit of the waiting events of a queue in one shard. A full queue loses new events.
const WAITING_MAX: u64 = if cfg!(test) { 8 } else { 50_000 };
/// Limit of the dead events of a queue in one shard. A full queue loses the oldest ones.
const DEAD_MAX: u64 = if cfg!(test) { 4 } else { 10_000 };
/// Limit of the bytes of all events of a queue in one shard. A full queue loses new events.
const BYTES_MAX: u64 = if cfg!(test) { 4 * 1024 } else { 32 << 20 };

/// Checks the name of a queue, which is part of omap keys.
fn check_queue_name(name: &str) -> Result<()> {
    check_limit("the name of a queue is too long", name.len(), QUEUE_NAME_BYTES_MAX)?;
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Error::invalid_argument("the name of a queue is not valid"))
}

/// Checks the events of a change.
pub(super) fn check_events(events: &[NewEvent]) -> Result<()> {
    check_limit("the change has too many events", events.len(), EVENTS_MAX)?;
    events.iter().try_for_each(|event| {
        check_queue_name(&event.queue)?;
        check_limit("the name of an event is too long", event.name.len(), EVENT_TEXT_BYTES_MAX)?;
        check_limit("the rule of an event is too long", event.rule.len(), EVENT_TEXT_BYTES_MAX)?;
        check_limit("the details of an event are too long", event.detail.len(), DETAIL_BYTES_MAX)
    })
}

/// Stores the events of a change of a version. `write` is the id of the change.
pub(super) fn enqueue(
    shard: &mut Shard<'_, '_>,
    events: &[NewEvent],
    (change, write): (Change, Id),
    key: &str,
    head: &Head,
    now_ms: u64,
) -> Result<()> {
    for new in events.iter().filter(|new| new.change == change) {
        let mut queue: Queue = shard.get(&keys::queue(&new.queue))?.unwrap_or_default();
        let event = Event {
            version: Version,
            name: new.name.clone(),
            rule: new.rule.clone(),
            key: key.to_owned(),
            seq: head.seq,
            null: head.null,
            write,
            size_bytes: head.size_bytes,
            etag: head.etag.clone(),
            time_ms: now_ms,
            queued_ms: shard.later_time_ms(now_ms),
            detail: new.detail.clone(),
            reason: String::new(),
        };
        let bytes = queue.bytes.saturating_add(len_bytes(&event));
        if queue.waiting >= WAITING_MAX || bytes > BYTES_MAX {
            add(&mut queue.lost, 1)?;
        } else {
            let number = shard.next_seq()?;
            shard.set(keys::event(&new.queue, number), &event);
            queue.bytes = bytes;
            add(&mut queue.waiting, 1)?;
        }
        shard.set(keys::queue(&new.queue), &queue);
    }
    Ok(())
}

/// Removes events that were delivered, and moves events to and from the dead ones. A repeated call
/// finds the events in their new place, and changes nothing.
pub(super) fn settle(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Settle { queue: name, now_ms, done, dead, revived } = Settle::from_input(input)?;
    check_queue_name(&name)?;
    check_limit("too many events for one call", done.len() + dead.len() + revived.len(), SETTLE_MAX)?;
    let mut shard = Shard::open(context)?;
    let Some(mut queue) = shard.get::<Queue>(&keys::queue(&name))? else { return Ok(Vec::new()) };
    for number in done {
        let (waiting, dead) = (keys::event(&name, number), keys::dead_event(&name, number));
        if let Some(event) = shard.get::<Event>(&waiting)? {
            shard.remove(waiting);
            subtract(&mut queue.waiting, 1)?;
            subtract(&mut queue.bytes, len_bytes(&event))?;
        } else if let Some(event) = shard.get::<Event>(&dead)? {
            shard.remove(dead);
            subtract(&mut queue.dead, 1)?;
            subtract(&mut queue.bytes, len_bytes(&event))?;
        }
    }
    let revived_count = revived.len();
    for number in revived {
        let (at, to) = (keys::dead_event(&name, number), keys::event(&name, number));
        let Some(event) = shard.get::<Event>(&at)? else { continue };
        if queue.waiting >= WAITING_MAX {
            return Err(Error::limit_exceeded("the queue is full").with("queue", name));
        }
        shard.remove(at);
        subtract(&mut queue.bytes, len_bytes(&event))?;
        let event = Event { queued_ms: shard.later_time_ms(now_ms), reason: String::new(), ..event };
        add(&mut queue.bytes, len_bytes(&event))?;
        shard.set(to, &event);
        subtract(&mut queue.dead, 1)?;
        add(&mut queue.waiting, 1)?;
    }
    let mut newly_dead = Vec::new();
    for failed in dead {
        check_limit("the reason is too long", failed.reason.len(), EVENT_TEXT_BYTES_MAX)?;
        let at = keys::event(&name, failed.number);
        let Some(event) = shard.get::<Event>(&at)? else { continue };
        shard.remove(at);
        subtract(&mut queue.bytes, len_bytes(&event))?;
        let event = Event { reason: failed.reason, ..event };
        add(&mut queue.bytes, len_bytes(&event))?;
        shard.set(keys::dead_event(&name, failed.number), &event);
        subtract(&mut queue.waiting, 1)?;
        newly_dead.push(keys::dead_event(&name, failed.number));
    }
    add(&mut queue.dead, newly_dead.len() as u64)?;
    drop_oldest_dead(&mut shard, &name, &mut queue, newly_dead, revived_count)?;
    shard.set(keys::queue(&name), &queue);
    shard.finish()
}

/// Drops the oldest dead events until the others are within their limit.
fn drop_oldest_dead(
    shard: &mut Shard<'_, '_>,
    name: &str,
    queue: &mut Queue,
    newly_dead: Vec<Bytes>,
    revived_count: usize,
) -> Result<()> {
    let over = queue.dead.saturating_sub(DEAD_MAX) as usize;
    if over == 0 {
        return Ok(());
    }
    // The range is as before the call, so it still has the revived events, and lacks the new ones.
    let before = shard.range(None, &keys::dead_events_prefix(name), over + revived_count)?;
    for key in before.entries.into_iter().map(|(key, _)| key).chain(newly_dead) {
        if queue.dead <= DEAD_MAX {
            break;
        }
        if let Some(event) = shard.get::<Event>(&key)? {
            shard.remove(key);
            subtract(&mut queue.dead, 1)?;
            subtract(&mut queue.bytes, len_bytes(&event))?;
            add(&mut queue.lost, 1)?;
        }
    }
    Ok(())
}

fn len_bytes(event: &Event) -> u64 {
    event.encode().len() as u64
}
