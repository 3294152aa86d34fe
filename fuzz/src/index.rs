//! Fuzzes the pages of an index and look-ups in them.

use benthic_core::ErrorKind;
use benthic_index::{LookupStep, PAGES_READ_MAX, Probe, ReadEntries, frame};
use bytes::Bytes;
use prost::Message;

/// The input holds a probe, then the entries that the probe requests. Each has a length of two
/// bytes in front, and entries get a valid checksum.
pub fn index(input: &[u8]) {
    let mut input = input;
    let Ok(probe) = Probe::decode(part(&mut input)) else { return };
    if probe.check().is_err() {
        return;
    }
    let mut known = ReadEntries::default();
    // A look-up reads the directory, then the pages, then ends.
    for _ in 0..3 {
        match probe.look_up(&known) {
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
                return;
            }
            Ok(LookupStep::Done(found)) => {
                let rows = found.rows.unwrap_or_default();
                let ranges = rows.ranges();
                assert!(ranges.iter().all(|range| range.start < range.end && range.end <= rows.of()));
                assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                return;
            }
            Ok(LookupStep::Read(keys)) => {
                assert!(keys.len() <= PAGES_READ_MAX);
                let entry = |key: &Bytes| (key.clone(), frame(key, part(&mut input)));
                let entries = keys.iter().map(entry).collect();
                known.add(keys, entries);
            }
        }
    }
    panic!("a look-up took more than two reads");
}

fn part<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let (len, rest) = input
        .split_first_chunk()
        .map_or((0, &input[input.len()..]), |(len, rest)| (usize::from(u16::from_le_bytes(*len)), rest));
    let (part, rest) = rest.split_at(len.min(rest.len()));
    *input = rest;
    part
}
