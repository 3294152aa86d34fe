//! The omap keys of a shard. Every kind of entry has a first byte of its own, so a listing reads one kind in order.
//!
//! The key of an object may have any bytes that UTF-8 has, zero too. Where something stands behind it, a zero in it is
//! written as `00 ff`, and `00 00` ends it: the order of omap keys then is the order of the object's keys.

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
/// What a write intends, and then what it did.
pub const WRITE: u8 = b'w';
/// The bodies of versions that are too large to stand in the version's entry.
pub const BODY: u8 = b'b';
/// Data that several versions refer to.
pub const GROUP: u8 = b'g';
/// Who refers to such data.
pub const TAG: u8 = b't';
/// What is to be collected, in the order of time.
pub const GARBAGE: u8 = b'x';

/// Above every byte of UTF-8 and of an escaped zero.
const ABOVE_ALL: u8 = 0xff;

/// The key of an object, escaped; without an end, so it stands for all that begin with it.
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

/// The object's key in an omap key behind its first byte, and what stands behind it.
///
/// # Errors
/// `Corrupt`.
pub fn unescape(escaped: &[u8]) -> Result<(String, &[u8])> {
    let mut key = Vec::with_capacity(escaped.len());
    let mut at = 0;
    while let Some(byte) = escaped.get(at) {
        match (byte, escaped.get(at + 1)) {
            (0, Some(0xff)) => at += 1,
            (0, Some(0)) => break,
            (0, _) => return Err(corrupt("a key of the index makes no sense")),
            _ => {}
        }
        key.push(*byte);
        at += 1;
    }
    let rest = escaped.get(at + 2..).unwrap_or_default();
    let key = String::from_utf8(key).map_err(|_| corrupt("a key of the index is no UTF-8"))?;
    Ok((key, rest))
}

fn of(space: u8, parts: &[&[u8]]) -> Bytes {
    let mut out = vec![space];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.into()
}

/// Of [`CURRENT`].
pub fn current(key: &str) -> Bytes {
    of(CURRENT, &[&escape(key)])
}

/// What all older versions of a key begin with.
pub fn older_of(key: &str) -> Bytes {
    of(OLDER, &[&escape(key), &[0, 0]])
}

/// Of [`OLDER`]: the newest has the least key.
pub fn older(key: &str, seq: u64) -> Bytes {
    of(OLDER, &[&escape(key), &[0, 0], &(!seq).to_be_bytes()])
}

/// What stands behind the key in an omap key of [`OLDER`].
pub fn seq_of(suffix: &[u8]) -> Option<u64> {
    suffix.try_into().ok().map(|bytes| !u64::from_be_bytes(bytes))
}

/// Of [`UPLOAD`].
pub fn upload(key: &str, upload: Id) -> Bytes {
    of(UPLOAD, &[&escape(key), &[0, 0], &upload.0])
}

/// What all parts of an upload begin with.
pub fn parts_of(upload: Id) -> Bytes {
    of(PART, &[&upload.0])
}

/// Of [`PART`].
pub fn part(upload: Id, number: u16) -> Bytes {
    of(PART, &[&upload.0, &number.to_be_bytes()])
}

/// The number in an omap key of [`PART`].
pub fn part_number(key: &[u8]) -> Option<u16> {
    key.get(17..)?.try_into().ok().map(u16::from_be_bytes)
}

/// Of [`WRITE`].
pub fn write(write: Id) -> Bytes {
    of(WRITE, &[&write.0])
}

/// Of [`BODY`].
pub fn body(seq: u64) -> Bytes {
    of(BODY, &[&seq.to_be_bytes()])
}

/// Of [`GROUP`].
pub fn group(group: Id) -> Bytes {
    of(GROUP, &[&group.0])
}

/// What all tags of a group begin with.
pub fn tags_of(group: Id) -> Bytes {
    of(TAG, &[&group.0])
}

/// Of [`TAG`].
pub fn tag(group: Id, tag: Id) -> Bytes {
    of(TAG, &[&group.0, &tag.0])
}

/// Of [`GARBAGE`].
pub fn garbage(free_at_ms: u64, id: Id) -> Bytes {
    of(GARBAGE, &[&free_at_ms.to_be_bytes(), &id.0])
}

/// When the garbage under this key may be collected.
pub fn garbage_free_at_ms(key: &[u8]) -> Option<u64> {
    key.get(1..9)?.try_into().ok().map(u64::from_be_bytes)
}

/// The id in an omap key of one, which ends with it.
pub fn id_at_end(key: &[u8]) -> Option<Id> {
    let at = key.len().checked_sub(16)?;
    key[at..].try_into().ok().map(Id)
}

/// Behind every omap key of a kind whose object key begins with `prefix`.
pub fn behind_all(space: u8, prefix: &str) -> Bytes {
    of(space, &[&escape(prefix), &[ABOVE_ALL]])
}
