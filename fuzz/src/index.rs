//! Fuzzes the pages of an index, look-ups in them, distributions of values, and the words of texts.

use benthic_core::ErrorKind;
use benthic_index::{
    Distribution, LookupStep, PAGES_READ_MAX, PROBES_MAX, Probe, Probes, Ranges, ReadEntries, Search,
    TextQuery, frame, words,
};
use bytes::Bytes;
use prost::Message;

/// The input holds one probe or several, then the entries that they request. Each has a length of
/// two bytes in front, and entries get a valid checksum.
pub fn index(input: &[u8]) {
    distribution(input);
    let mut rest = input;
    let first = part(&mut rest);
    if let Ok(probe) = Probe::decode(first) {
        look_up(&probe.into(), rest);
    }
    if let Ok(probes) = Probes::decode(first) {
        look_up(&probes, rest);
    }
    search(first, &String::from_utf8_lossy(rest));
}

/// The distribution of a column's values, as a file list has it.
fn distribution(input: &[u8]) {
    match Distribution::decode(input) {
        Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}"),
        Ok(found) => {
            for ranges in [Ranges::null(), Ranges::prefix(input), Ranges::prefix(b"a")] {
                let share = found.share(&ranges);
                assert!(
                    (0.0..=1.0).contains(&share) && (0.0..=1.0).contains(&found.repeat(share)),
                    "{share}"
                );
            }
            assert_eq!(Distribution::decode(&found.encode()).expect("an encoded one can be decoded"), found);
        }
    }
}

fn look_up(probes: &Probes, mut input: &[u8]) {
    if probes.check().is_err() {
        return;
    }
    let mut known = ReadEntries::default();
    // A look-up reads the directories, then the pages, then ends.
    for _ in 0..3 {
        match probes.look_up(&known) {
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
                assert!(keys.len() <= PAGES_READ_MAX.max(2 * PROBES_MAX));
                let entry = |key: &Bytes| (key.clone(), frame(key, part(&mut input)));
                let entries = keys.iter().map(entry).collect();
                known.add(keys, entries);
            }
        }
    }
    panic!("a look-up took more than two reads");
}

/// A text contains its own words, and each of them as a phrase.
fn search(query: &[u8], text: &str) {
    let query = String::from_utf8_lossy(query);
    for kind in [Search::Words, Search::Phrase, Search::Prefixes] {
        TextQuery::new(kind, &query).matches(text);
        assert_eq!(TextQuery::new(kind, text).matches(text), words(text).next().is_some());
    }
}

fn part<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let (len, rest) = input
        .split_first_chunk()
        .map_or((0, &input[input.len()..]), |(len, rest)| (usize::from(u16::from_le_bytes(*len)), rest));
    let (part, rest) = rest.split_at(len.min(rest.len()));
    *input = rest;
    part
}
