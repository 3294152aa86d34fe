//! Listings: entries in the order of their keys, those that a delimiter makes one skipped where they are stored.

use super::codec::{Id, corrupt};
use super::keys;
use super::shard::Shard;
use super::state::{Current, Head, Upload};
use super::wire::{After, Entry, List, Listed, ListedUpload, ListedVersion, What, Within};
use benthic_core::codec::Wire;
use benthic_core::{MethodContext, Result};
use bytes::Bytes;
use std::collections::VecDeque;

/// Most entries that one call reads. What it leaves the next call finds.
const READ_MAX: usize = 4_096;
/// Most ranges that one call reads: each costs a search.
const RANGES_MAX: usize = 1_024;
/// Entries of a range, at least and at most. After a jump it is short, for the next jump may be near.
const RANGE_ENTRIES: [usize; 2] = [16, 512];

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

/// One kind of entries, read in order.
struct Cursor {
    space: u8,
    prefix: Bytes,
    after: Bytes,
    buffered: VecDeque<(Bytes, Bytes)>,
    at_end: bool,
    range_entries: usize,
}

impl<'i> Listing<'i> {
    fn new(input: &'i List) -> Listing<'i> {
        let spaces: &[u8] = match input.what {
            What::Objects => &[keys::CURRENT],
            What::Versions => &[keys::CURRENT, keys::OLDER],
            What::Uploads => &[keys::UPLOAD],
        };
        let cursors = spaces.iter().map(|space| Cursor::new(*space, input)).collect();
        Listing { input, cursors, read: 0, ranges: 0 }
    }

    fn run(mut self, shard: &mut Shard<'_, '_>) -> Result<Listed> {
        let mut entries: Vec<Entry> = Vec::new();
        // Behind what was looked at last.
        let mut next = self.input.after.clone();
        loop {
            if entries.len() >= self.input.entries_max as usize
                || self.read >= READ_MAX
                || self.ranges >= RANGES_MAX
            {
                return Ok(Listed { entries, next });
            }
            let Some((key, stored)) = self.pop(shard)? else {
                return Ok(Listed { entries, next: None });
            };
            let Some(entry) = self.what_is(&stored)? else {
                if self.input.what == What::Objects {
                    next = Some(After { key, within: Some(Within::Hidden) });
                }
                continue;
            };
            // After what is shown: a prefix with nothing but delete markers in it is none.
            if let Some(prefix) = common_prefix(&key, &self.input.prefix, &self.input.delimiter) {
                self.cursors.iter_mut().for_each(|cursor| cursor.jump(&prefix));
                entries.push(Entry::Prefix(prefix));
            } else {
                entries.push(entry);
            }
            next = entries.last().map(|entry| entry.place(self.input.what));
        }
    }

    /// The least entry of all cursors. Of one key the current version comes first: its kind does.
    fn pop(&mut self, shard: &mut Shard<'_, '_>) -> Result<Option<(String, (Bytes, Bytes))>> {
        let mut least: Option<(String, usize)> = None;
        for (at, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.buffered.is_empty() && !cursor.at_end {
                self.ranges += 1;
                self.read += cursor.fill(shard)?;
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

    /// What the listing shows of an entry; nothing of what does not belong into it.
    fn what_is(&self, (key, value): &(Bytes, Bytes)) -> Result<Option<Entry>> {
        let (name, suffix) = keys::unescape(&key[1..])?;
        let (current, mut head) = match key[0] {
            keys::UPLOAD => {
                let id =
                    suffix.try_into().map(Id).map_err(|_| corrupt("a key of the index makes no sense"))?;
                let begun_ms = Upload::from_stored(value)?.begun_ms;
                return Ok(Some(Entry::Upload(ListedUpload { key: name, upload: id, begun_ms })));
            }
            keys::OLDER => (false, Head::from_stored(value)?),
            _ => (true, Current::from_stored(value)?.head),
        };
        let within =
            self.input.after.as_ref().filter(|after| after.key == name).and_then(|after| after.within);
        // The current version's key says nothing of its number.
        let seen = matches!(within, Some(Within::Version(seq)) if head.seq >= seq);
        if seen || (self.input.what == What::Objects && head.marker) {
            return Ok(None);
        }
        head.body = None;
        Ok(Some(Entry::Version(ListedVersion { key: name, current, head })))
    }
}

impl Cursor {
    fn new(space: u8, input: &List) -> Cursor {
        let mut prefix = vec![space];
        prefix.extend(keys::escape(&input.prefix));
        let after = match &input.after {
            None => Bytes::new(),
            Some(after) => start(space, input, after),
        };
        let [least, most] = RANGE_ENTRIES;
        // Mostly all that is asked for, and nothing that is not: what is read costs an OSD more than anything else here.
        let range_entries =
            if input.delimiter.is_empty() { (input.entries_max as usize).clamp(least, most) } else { least };
        Cursor {
            space,
            prefix: prefix.into(),
            after,
            buffered: VecDeque::new(),
            at_end: false,
            range_entries,
        }
    }

    /// Reads more. Gives the number of entries.
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
        Ok(read)
    }

    /// Goes on behind all keys that begin so.
    fn jump(&mut self, prefix: &str) {
        let behind = keys::behind_all(self.space, prefix);
        while self.buffered.front().is_some_and(|(key, _)| *key < behind) {
            self.buffered.pop_front();
        }
        if self.buffered.is_empty() && self.after < behind {
            self.after = behind;
            self.range_entries = RANGE_ENTRIES[0];
        }
    }
}

/// Behind which omap key a listing goes on.
fn start(space: u8, input: &List, after: &After) -> Bytes {
    if after.within != Some(Within::Hidden)
        && let Some(prefix) = common_prefix(&after.key, &input.prefix, &input.delimiter)
    {
        return keys::behind_all(space, &prefix);
    }
    match (space, after.within) {
        // The current version of this key may be behind the one that came last: a newer one was removed.
        (keys::CURRENT, Some(Within::Version(_))) => before(keys::current(&after.key)),
        (keys::CURRENT, _) => keys::current(&after.key),
        (keys::OLDER, Some(Within::Version(seq))) => keys::older(&after.key, seq),
        (keys::UPLOAD, Some(Within::Upload(upload))) => keys::upload(&after.key, upload),
        // Behind all that the key itself has: its end is `00 00`, and a zero in a longer key is `00 ff`.
        (space, _) => {
            let mut key = vec![space];
            key.extend(keys::escape(&after.key));
            key.extend([0, 1]);
            key.into()
        }
    }
}

/// An omap key right before this one: a listing behind it begins with this one, if that is there.
fn before(key: Bytes) -> Bytes {
    let mut key = key.to_vec();
    // Less by one in the last byte, and then more than any key that goes on from there. The last byte is no zero: a zero in
    // a key is followed by `ff`.
    if let Some(last @ 1..) = key.pop() {
        key.extend([last - 1, 0xff, 0xff]);
    }
    key.into()
}

/// What of a key stands before the first delimiter behind the prefix, the delimiter with it.
fn common_prefix(key: &str, prefix: &str, delimiter: &str) -> Option<String> {
    if delimiter.is_empty() {
        return None;
    }
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    Some(key[..prefix.len() + at + delimiter.len()].to_owned())
}
