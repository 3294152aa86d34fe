//! Lists entries in the order of their keys. A delimiter groups keys into one entry. The listing
//! seeks past the rest of a large group in the omap, and reads that of a small one, because a
//! search costs as much as reading some ten entries.

use super::codec::{Id, corrupt};
use super::keys;
use super::shard::Shard;
use super::state::{Current, Head, Upload};
use super::wire::{
    Entry, KeyPosition, List, ListKind, ListOutput, ListPosition, ListedUpload, ListedVersion,
};
use benthic_core::codec::Wire;
use benthic_core::{MethodContext, Result};
use bytes::Bytes;
use std::collections::VecDeque;

/// Limit of entries read per call; the next call continues.
const READ_MAX: usize = 4_096;
/// Limit of ranges read per call; each costs a search.
const RANGES_MAX: usize = 1_024;
/// Smallest and largest number of entries per range. After a seek the range is short, because the
/// next seek may be near.
const RANGE_ENTRIES: [usize; 2] = [16, 512];
/// Entries of a group that are read before the listing seeks past the rest.
const LARGE_GROUP_ENTRIES: usize = 16;

pub(super) fn list(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = List::from_input(input)?;
    input.check()?;
    let mut shard = Shard::open(context)?;
    Listing::new(&input).run(&mut shard).map(|listed| listed.encode().to_vec())
}

struct Listing<'i> {
    input: &'i List,
    cursors: Vec<Cursor>,
    read: usize,
    ranges: usize,
}

struct Cursor {
    space: u8,
    prefix: Bytes,
    after: Bytes,
    buffered: VecDeque<(Bytes, Bytes)>,
    at_end: bool,
    range_entries: usize,
    /// Entries before this key belong to a group that is listed already.
    behind: Bytes,
    /// Entries of that group that were read.
    group_entries: usize,
    /// Whether the last group was so large that the listing sought past it. The next one may be,
    /// too.
    has_large_groups: bool,
}

impl<'i> Listing<'i> {
    fn new(input: &'i List) -> Listing<'i> {
        let spaces: &[u8] = match input.kind {
            ListKind::Objects => &[keys::CURRENT],
            ListKind::Versions => &[keys::CURRENT, keys::OLDER],
            ListKind::Uploads => &[keys::UPLOAD],
        };
        let cursors = spaces.iter().map(|space| Cursor::new(*space, input)).collect();
        Listing { input, cursors, read: 0, ranges: 0 }
    }

    fn run(mut self, shard: &mut Shard<'_, '_>) -> Result<ListOutput> {
        let mut entries: Vec<Entry> = Vec::new();
        // The position after the last entry examined.
        let mut next = self.input.after.clone();
        loop {
            if entries.len() >= self.input.entries_max as usize
                || self.read >= READ_MAX
                || self.ranges >= RANGES_MAX
            {
                return Ok(ListOutput { entries, next });
            }
            let Some((key, stored)) = self.pop(shard)? else {
                if self.cursors.iter().all(|cursor| cursor.at_end) {
                    return Ok(ListOutput { entries, next: None });
                }
                // All that was read belongs to a group that is listed.
                continue;
            };
            let Some(entry) = self.listed_entry(&key, &stored)? else {
                if self.input.kind == ListKind::Objects {
                    next = Some(ListPosition { key, within: Some(KeyPosition::Hidden) });
                }
                continue;
            };
            // Only after the entry is known to be listed: a prefix that covers only delete markers
            // is not listed.
            if let Some(prefix) = common_prefix(&key, &self.input.prefix, &self.input.delimiter) {
                self.cursors.iter_mut().for_each(|cursor| cursor.jump(&prefix));
                entries.push(Entry::Prefix(prefix));
            } else {
                entries.push(entry);
            }
            next = entries.last().map(|entry| entry.position_after(self.input.kind));
        }
    }

    /// The smallest entry of all cursors; `None` if one must be filled again, or all are at their
    /// end. For equal keys the current version comes first, because its cursor does.
    fn pop(&mut self, shard: &mut Shard<'_, '_>) -> Result<Option<(String, (Bytes, Bytes))>> {
        let mut least: Option<(String, usize)> = None;
        for (at, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.buffered.is_empty() && !cursor.at_end {
                self.ranges += 1;
                self.read += cursor.fill(shard)?;
                if cursor.buffered.is_empty() && !cursor.at_end {
                    return Ok(None);
                }
            }
            if let Some((key, _)) = cursor.buffered.front() {
                let (key, _) = keys::unescape(&key[1..])?;
                if least.as_ref().is_none_or(|(least, _)| key < *least) {
                    least = Some((key, at));
                }
            }
        }
        let Some((key, at)) = least else { return Ok(None) };
        Ok(self.cursors[at].buffered.pop_front().map(|entry| (key, entry)))
    }

    /// The listing's form of a stored entry; `None` if the entry is not listed.
    fn listed_entry(&self, name: &str, (key, value): &(Bytes, Bytes)) -> Result<Option<Entry>> {
        let (current, mut head) = match key[0] {
            keys::UPLOAD => {
                let (_, suffix) = keys::unescape(&key[1..])?;
                let id = suffix
                    .try_into()
                    .map(Id)
                    .map_err(|_| corrupt("an omap key of the index is not valid"))?;
                let Upload { begun_ms, class, .. } = Upload::from_stored(value)?;
                let listed = ListedUpload { key: name.to_owned(), upload: id, begun_ms, class };
                return Ok(Some(Entry::Upload(listed)));
            }
            keys::OLDER => (false, Head::from_stored(value)?),
            _ => (true, Current::from_stored(value)?.head),
        };
        let within =
            self.input.after.as_ref().filter(|after| after.key == name).and_then(|after| after.within);
        // The key of the current version does not contain its sequence number.
        let seen = matches!(within, Some(KeyPosition::Version(seq)) if head.seq >= seq);
        if seen || (self.input.kind == ListKind::Objects && head.marker) {
            return Ok(None);
        }
        head.body = None;
        Ok(Some(Entry::Version(ListedVersion { key: name.to_owned(), current, head })))
    }
}

impl Cursor {
    fn new(space: u8, input: &List) -> Cursor {
        let mut prefix = vec![space];
        prefix.extend(keys::escape(&input.prefix));
        let after = if let Some(after) = &input.after { start(space, input, after) } else { Bytes::new() };
        let [least, most] = RANGE_ENTRIES;
        // Read the entries of one page and few more: reading is the largest cost in an OSD.
        let range_entries =
            if input.delimiter.is_empty() { (input.entries_max as usize).clamp(least, most) } else { least };
        Cursor {
            space,
            prefix: prefix.into(),
            after,
            buffered: VecDeque::new(),
            at_end: false,
            range_entries,
            behind: Bytes::new(),
            group_entries: 0,
            has_large_groups: false,
        }
    }

    /// Reads the next range, and returns the number of entries read.
    fn fill(&mut self, shard: &mut Shard<'_, '_>) -> Result<usize> {
        let after = (!self.after.is_empty()).then_some(self.after.as_ref());
        let page = shard.range(after, &self.prefix, self.range_entries)?;
        self.range_entries = (2 * self.range_entries).min(RANGE_ENTRIES[1]);
        if let Some((last, _)) = page.entries.last() {
            self.after = Bytes::copy_from_slice(last);
        }
        self.at_end = !page.more;
        let read = page.entries.len();
        self.buffered = page.entries.into();
        self.drop_group();
        Ok(read)
    }

    /// Skips all keys with this prefix, of which the listing has one.
    fn jump(&mut self, prefix: &str) {
        self.behind = keys::after_prefix(self.space, prefix);
        self.group_entries = 1;
        self.drop_group();
    }

    /// Drops the entries of the group that is listed. If it may have many more, the next range
    /// begins behind it.
    fn drop_group(&mut self) {
        while self.buffered.front().is_some_and(|(key, _)| *key < self.behind) {
            self.buffered.pop_front();
            self.group_entries += 1;
        }
        if !self.buffered.is_empty() {
            self.has_large_groups = false;
        } else if self.after < self.behind
            && (self.has_large_groups || self.group_entries >= LARGE_GROUP_ENTRIES)
        {
            self.after = self.behind.clone();
            self.range_entries = RANGE_ENTRIES[0];
            self.has_large_groups = true;
        }
    }
}

fn start(space: u8, input: &List, after: &ListPosition) -> Bytes {
    if after.within != Some(KeyPosition::Hidden)
        && let Some(prefix) = common_prefix(&after.key, &input.prefix, &input.delimiter)
    {
        return keys::after_prefix(space, &prefix);
    }
    match (space, after.within) {
        // If a newer version was removed, the current version of this key may now come after the
        // last listed one.
        (keys::CURRENT, Some(KeyPosition::Version(_))) => before(keys::current(&after.key)),
        (keys::CURRENT, _) => keys::current(&after.key),
        (keys::OLDER, Some(KeyPosition::Version(seq))) => keys::older(&after.key, seq),
        (keys::UPLOAD, Some(KeyPosition::Upload(upload))) => keys::upload(&after.key, upload),
        // After all entries of the key itself: the key ends with `00 00`, and a zero in a longer
        // key is `00 ff`.
        (space, _) => {
            let mut key = vec![space];
            key.extend(keys::escape(&after.key));
            key.extend([0, 1]);
            key.into()
        }
    }
}

/// An omap key just before this one: a listing after it begins with this one, if it exists.
fn before(key: Bytes) -> Bytes {
    let mut key = key.to_vec();
    // Decrement the last byte, and append bytes that no key with that prefix exceeds. The last byte
    // is not zero: in a key, `ff` follows each zero.
    if let Some(last @ 1..) = key.pop() {
        key.extend([last - 1, 0xff, 0xff]);
    }
    key.into()
}

/// The key up to and including the first delimiter after the prefix.
fn common_prefix(key: &str, prefix: &str, delimiter: &str) -> Option<String> {
    if delimiter.is_empty() {
        return None;
    }
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    Some(key[..prefix.len() + at + delimiter.len()].to_owned())
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
