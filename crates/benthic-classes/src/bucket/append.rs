//! Adds data at the end of the current version of a key.
//!
//! The version keeps its sequence number and the id of its write, by which copies know its data;
//! its revision grows, as with a change of its attributes. So nobody who has seen the version
//! before takes it for unchanged.

use super::events::{check_events, enqueue};
use super::keys;
use super::locks::Lock;
use super::shard::{Shard, add, conflict, not_found};
use super::state::{Current, Data};
use super::versions::{check_condition, place_body};
use super::wire::{ATTRIBUTES_BYTES_MAX, Append, Change, Condition, check_attributes, check_etag, check_key};
use benthic_core::codec::Wire;
use benthic_core::{Error, MethodContext, Result};

pub(super) fn append(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Append::from_input(input)?;
    check_key(&input.key)?;
    check_etag(&input.etag)?;
    check_attributes(&input.attributes, ATTRIBUTES_BYTES_MAX)?;
    check_events(&input.events)?;
    let mut shard = Shard::open(context)?;
    if shard.is_done(input.write, true)? {
        return Ok(Vec::new());
    }
    shard.check_open()?;
    let current = shard.current(&input.key)?;
    let seen = Condition::Current(input.seen);
    check_condition(&seen, current.as_ref().map(|current| &current.head), true)?;
    let current = current.filter(|current| !current.head.marker);
    let Some(Current { null_seq, mut head }) = current else {
        return Err(not_found("the object does not exist"));
    };
    if !head.null {
        // The bucket got versions after the append began.
        let message = "only the null version takes data; a version with an id does not change";
        return Err(Error::unsupported(message));
    }
    let mut body = shard.body(&head)?;
    if Lock::of(&body.attributes)? != Lock::default() {
        return Err(Error::permission_denied("an object with a lock does not change"));
    }
    if body.manifest.shared.is_some() || body.manifest.moved.is_some() || head.class.is_some() {
        let message = "the version shares the data of another one, or was not written to the class STANDARD";
        return Err(Error::unsupported(message));
    }
    body.manifest.segments.push(input.segment);
    body.manifest.check()?;
    // Copies share the older data. The new data stay as long as these.
    let group = keys::group(head.write);
    if let Some(mut data) = shard.get::<Data>(&group)? {
        data.chunks.push(input.segment.chunks());
        shard.set(group, &data);
    }
    add(&mut shard.header.usage.bytes, input.segment.len_bytes)?;
    head.size_bytes = body.manifest.size_bytes();
    head.modified_ms = input.times.now_ms;
    head.etag = input.etag;
    head.revision =
        head.revision.checked_add(1).ok_or_else(|| conflict("the version was changed too often"))?;
    body.attributes = input.attributes;
    if head.body.take().is_none() {
        shard.remove(keys::body(head.seq));
    }
    place_body(&mut shard, &mut head, body);
    let change = (Change::Created, input.write);
    enqueue(&mut shard, &input.events, change, &input.key, &head, input.times.now_ms)?;
    shard.note_outcome(input.write, &input.times, &head);
    shard.set(keys::current(&input.key), &Current { null_seq, head });
    shard.finish()
}
