//! The omap keys of a shard. Each kind of entry has its own first byte, so that a listing reads one
//! kind in order.
//!
//! An object's key may contain any byte of UTF-8, including zero. If a suffix follows the key, a
//! zero byte inside the key is escaped as `00 ff`, and `00 00` ends the key. This keeps omap keys
//! in the order of the objects' keys.

use super::codec::{Id, corrupt};
use benthic_core::Result;
use bytes::Bytes;

/// The header: one entry.
pub const HEADER: &[u8] = b"h";
/// The current version of a key.
pub const CURRENT: u8 = b'k';
/// Versions that are not current, newest first.
pub const OLDER: u8 = b'v';
/// Uploads that are neither complete nor aborted.
pub const UPLOAD: u8 = b'u';
/// Parts of uploads.
pub const PART: u8 = b'p';
/// The intent of a write, and later its outcome.
pub const WRITE: u8 = b'w';
/// Bodies of versions that are too large for the version's entry.
pub const BODY: u8 = b'b';
/// Groups: data that several versions refer to.
pub const GROUP: u8 = b'g';
/// Tags: the versions that refer to a group.
pub const TAG: u8 = b't';
/// Garbage to collect, in order of time.
pub const GARBAGE: u8 = b'x';
/// The state of a queue of events.
pub const QUEUE: u8 = b'q';
/// Events that wait for delivery.
pub const EVENT: u8 = b'e';
/// Dead events: those that could not be delivered.
pub const DEAD_EVENT: u8 = b'd';

/// Greater than every byte of UTF-8 and of an escaped zero.
const ABOVE_ALL: u8 = 0xff;

/// The escaped key of an object without a terminator, so that it is a prefix of all longer keys.
pub fn escape(key: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 2);
    for byte in key.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out
}

/// Splits an omap key without its first byte into the object's key and the suffix.
pub fn unescape(escaped: &[u8]) -> Result<(String, &[u8])> {
    let mut key = Vec::with_capacity(escaped.len());
    let mut at = 0;
    while let Some(byte) = escaped.get(at) {
        match (byte, escaped.get(at + 1)) {
            (0, Some(0xff)) => at += 1,
            (0, Some(0)) => break,
            (0, _) => return Err(corrupt("an omap key of the index is not valid")),
            _ => {}
        }
        key.push(*byte);
        at += 1;
    }
    let rest = escaped.get(at + 2..).unwrap_or_default();
    let key = String::from_utf8(key).map_err(|_| corrupt("an object's key in the index is not UTF-8"))?;
    Ok((key, rest))
}

fn omap_key(space: u8, parts: &[&[u8]]) -> Bytes {
    let mut out = vec![space];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.into()
}

/// The omap key of a [`CURRENT`] entry.
pub fn current(key: &str) -> Bytes {
    omap_key(CURRENT, &[&escape(key)])
}

/// The prefix of all older versions of a key.
pub fn older_prefix(key: &str) -> Bytes {
    omap_key(OLDER, &[&escape(key), &[0, 0]])
}

/// The omap key of an [`OLDER`] entry. The newest version has the smallest key.
pub fn older(key: &str, seq: u64) -> Bytes {
    omap_key(OLDER, &[&escape(key), &[0, 0], &(!seq).to_be_bytes()])
}

/// The sequence number in the suffix of an [`OLDER`] key.
pub fn seq_of(suffix: &[u8]) -> Option<u64> {
    suffix.try_into().ok().map(|bytes| !u64::from_be_bytes(bytes))
}

/// The omap key of an [`UPLOAD`] entry.
pub fn upload(key: &str, upload: Id) -> Bytes {
    omap_key(UPLOAD, &[&escape(key), &[0, 0], &upload.0])
}

/// The prefix of all parts of an upload.
pub fn parts_prefix(upload: Id) -> Bytes {
    omap_key(PART, &[&upload.0])
}

/// The omap key of a [`PART`] entry.
pub fn part(upload: Id, number: u16) -> Bytes {
    omap_key(PART, &[&upload.0, &number.to_be_bytes()])
}

/// The part number in a [`PART`] key.
pub fn part_number(key: &[u8]) -> Option<u16> {
    key.get(17..)?.try_into().ok().map(u16::from_be_bytes)
}

/// The omap key of a [`WRITE`] entry.
pub fn write(write: Id) -> Bytes {
    omap_key(WRITE, &[&write.0])
}

/// The omap key of a [`BODY`] entry.
pub fn body(seq: u64) -> Bytes {
    omap_key(BODY, &[&seq.to_be_bytes()])
}

/// The omap key of a [`GROUP`] entry.
pub fn group(group: Id) -> Bytes {
    omap_key(GROUP, &[&group.0])
}

/// The prefix of all tags of a group.
pub fn tags_prefix(group: Id) -> Bytes {
    omap_key(TAG, &[&group.0])
}

/// The omap key of a [`TAG`] entry.
pub fn tag(group: Id, tag: Id) -> Bytes {
    omap_key(TAG, &[&group.0, &tag.0])
}

/// The omap key of a [`GARBAGE`] entry.
pub fn garbage(free_at_ms: u64, id: Id) -> Bytes {
    omap_key(GARBAGE, &[&free_at_ms.to_be_bytes(), &id.0])
}

/// The time from which the garbage under this key may be collected.
pub fn garbage_free_at_ms(key: &[u8]) -> Option<u64> {
    key.get(1..9)?.try_into().ok().map(u64::from_be_bytes)
}

/// The omap key of a [`QUEUE`] entry. The name has no NUL.
pub fn queue(name: &str) -> Bytes {
    omap_key(QUEUE, &[name.as_bytes()])
}

/// The prefix of all waiting events of a queue.
pub fn events_prefix(queue: &str) -> Bytes {
    omap_key(EVENT, &[queue.as_bytes(), &[0]])
}

/// The omap key of an [`EVENT`] entry.
pub fn event(queue: &str, number: u64) -> Bytes {
    omap_key(EVENT, &[queue.as_bytes(), &[0], &number.to_be_bytes()])
}

/// The prefix of all dead events of a queue.
pub fn dead_events_prefix(queue: &str) -> Bytes {
    omap_key(DEAD_EVENT, &[queue.as_bytes(), &[0]])
}

/// The omap key of a [`DEAD_EVENT`] entry.
pub fn dead_event(queue: &str, number: u64) -> Bytes {
    omap_key(DEAD_EVENT, &[queue.as_bytes(), &[0], &number.to_be_bytes()])
}

/// The number at the end of the omap key of an event.
pub fn event_number(key: &[u8]) -> Option<u64> {
    let at = key.len().checked_sub(8)?;
    key[at..].try_into().ok().map(u64::from_be_bytes)
}

/// The id at the end of an omap key.
pub fn id_at_end(key: &[u8]) -> Option<Id> {
    let at = key.len().checked_sub(16)?;
    key[at..].try_into().ok().map(Id)
}

/// A key after all omap keys of a kind whose object key begins with `prefix`.
pub fn after_prefix(space: u8, prefix: &str) -> Bytes {
    omap_key(space, &[&escape(prefix), &[ABOVE_ALL]])
}
