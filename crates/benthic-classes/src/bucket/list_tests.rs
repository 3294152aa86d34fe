//! How much a listing reads, which callers cannot see, and that it lists the right entries.

use super::super::state::{Current, Head, Header, Usage};
use super::super::wire::{Entry, List, ListKind, ListOutput, ListPosition};
use super::super::{codec, keys};
use super::list;
use benthic_core::codec::Wire;
use benthic_core::{
    Error, ErrorKind, LogLevel, Method, MethodFlags, MethodLimits, MethodResult, ObjectAccess, OmapPage,
    Result, Stat, SystemClock, call_method,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A shard that counts the reads.
#[derive(Default)]
struct CountedShard {
    omap: BTreeMap<Bytes, Bytes>,
    ranges: usize,
    read: usize,
}

fn refused<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "a listing does not need this"))
}

impl ObjectAccess for CountedShard {
    fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        Ok(keys.iter().filter_map(|key| Some((key.clone(), self.omap.get(key)?.clone()))).collect())
    }

    fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(Bytes::copy_from_slice(after)),
            _ => Bound::Included(Bytes::copy_from_slice(prefix)),
        };
        let mut found = self.omap.range((start, Bound::Unbounded));
        let entries: Vec<_> = found
            .by_ref()
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(entries_max)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        self.ranges += 1;
        self.read += entries.len();
        let more = entries.len() == entries_max;
        Ok(OmapPage { entries, more })
    }

    fn stat(&mut self) -> Result<Stat> {
        refused()
    }

    fn read(&mut self, _: u64, _: u64) -> Result<Bytes> {
        refused()
    }

    fn get_xattr(&mut self, _: &str) -> Result<Bytes> {
        refused()
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        refused()
    }

    fn create(&mut self, _: bool) -> Result<()> {
        refused()
    }

    fn write(&mut self, _: u64, _: Bytes) -> Result<()> {
        refused()
    }

    fn write_full(&mut self, _: Bytes) -> Result<()> {
        refused()
    }

    fn truncate(&mut self, _: u64) -> Result<()> {
        refused()
    }

    fn zero(&mut self, _: u64, _: u64) -> Result<()> {
        refused()
    }

    fn remove(&mut self) -> Result<()> {
        refused()
    }

    fn set_xattr(&mut self, _: &str, _: Bytes) -> Result<()> {
        refused()
    }

    fn omap_set(&mut self, _: BTreeMap<Bytes, Bytes>) -> Result<()> {
        refused()
    }

    fn omap_remove(&mut self, _: &[Bytes]) -> Result<()> {
        refused()
    }

    fn omap_clear(&mut self) -> Result<()> {
        refused()
    }

    fn log(&mut self, _: LogLevel, _: &str) {}
}

impl CountedShard {
    fn new(names: impl Iterator<Item = String>) -> CountedShard {
        let id = codec::Id([7; 16]);
        let header = Header {
            version: codec::Version,
            bucket: id,
            shard: 0,
            gate: 0,
            closed: false,
            next_seq: 1,
            usage: Usage::default(),
        };
        let head = Head {
            version: codec::Version,
            seq: 1,
            null: true,
            marker: false,
            write: id,
            size_bytes: 0,
            modified_ms: 0,
            revision: 0,
            etag: "e".to_owned(),
            class: None,
            body: None,
        };
        let current = Current { null_seq: 0, head }.encode();
        let mut omap: BTreeMap<_, _> = names.map(|name| (keys::current(&name), current.clone())).collect();
        omap.insert(Bytes::from_static(keys::HEADER), header.encode());
        CountedShard { omap, ..CountedShard::default() }
    }

    fn call(&mut self, after: Option<ListPosition>, entries_max: u32) -> ListOutput {
        let method = Method {
            name: "list",
            flags: MethodFlags::READ,
            run: list,
            result: MethodResult::Output,
            summary: "",
            input: "",
            output: "",
            examples: &[],
        };
        let kind = ListKind::Objects;
        let input = List { kind, prefix: String::new(), delimiter: "/".to_owned(), after, entries_max };
        let clock = SystemClock;
        let limits = MethodLimits::default();
        let output = call_method(&method, self, &clock, limits, &input.encode()).expect("the call succeeds");
        ListOutput::decode(&output).expect("the output is valid")
    }

    /// Lists everything; the names and the number of calls.
    fn all(&mut self, entries_max: u32) -> (Vec<String>, usize) {
        let (mut names, mut calls, mut after) = (Vec::new(), 0, None);
        loop {
            let output = self.call(after, entries_max);
            calls += 1;
            names.extend(output.entries.iter().map(|entry| match entry {
                Entry::Prefix(prefix) => prefix.clone(),
                Entry::Version(version) => version.key.clone(),
                Entry::Upload(upload) => upload.key.clone(),
            }));
            after = output.next;
            if after.is_none() {
                return (names, calls);
            }
        }
    }
}

fn directories(count: usize, keys_each: impl Fn(usize) -> usize) -> Vec<String> {
    let keys =
        |directory: usize| (0..keys_each(directory)).map(move |key| format!("{directory:05}/{key:06}"));
    (0..count).flat_map(keys).collect()
}

fn prefixes(count: usize) -> Vec<String> {
    (0..count).map(|directory| format!("{directory:05}/")).collect()
}

#[test]
fn one_call_passes_large_groups_without_reading_them() {
    let mut shard = CountedShard::new(directories(50, |_| 5_000).into_iter());
    assert_eq!(shard.all(1_000), (prefixes(50), 1));
    assert!(shard.read <= 50 * 16 + 32 && shard.ranges <= 60, "{} {}", shard.read, shard.ranges);
}

#[test]
fn small_groups_are_read_in_long_ranges() {
    // A bucket with 100 keys in each directory has about six of them in each of its shards.
    let mut shard = CountedShard::new(directories(600, |_| 6).into_iter());
    assert_eq!(shard.all(1_000), (prefixes(600), 1));
    assert!(shard.read <= 3_600 && shard.ranges <= 16, "{} {}", shard.read, shard.ranges);
}

#[test]
fn groups_of_every_size_follow_each_other() {
    let sizes = [1, 2_000, 3, 15, 16, 17, 18, 31, 32, 33, 511, 512, 513, 1, 1, 700, 6, 6, 6, 40, 40, 40];
    let keys = directories(sizes.len() * 4, |directory| sizes[directory % sizes.len()]);
    for entries_max in [1, 2, 7, 1_000] {
        let mut shard = CountedShard::new(keys.iter().cloned());
        assert_eq!(shard.all(entries_max).0, prefixes(sizes.len() * 4), "{entries_max}");
        // The last group is read up to the end of a range.
        assert!(entries_max == 1 || shard.read < keys.len(), "{}", shard.read);
    }
}

#[test]
fn a_group_at_the_end_ends_the_listing() {
    for size in [1, 15, 16, 17, 100, 1_000, 5_000] {
        let mut keys = vec!["a".to_owned()];
        keys.extend((0..size).map(|key| format!("b/{key:05}")));
        assert_eq!(CountedShard::new(keys.into_iter()).all(1_000).0, ["a", "b/"], "{size}");
    }
}
