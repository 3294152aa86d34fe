use super::{PAGES_MAX, check, entry_keys, pack};
use crate::directory::Directory;
use crate::lookup::{LookupStep, ReadEntries};
use crate::page::{directory_key, page_key};
use crate::postings::ROW_WORDS_MAX;
use crate::probe::{Definition, IndexKind, Probe};
use crate::probes::{PAGES_PART, Probes, RUN_ROWS, RUNS_FREE};
use crate::ranges::Ranges;
use crate::words::{Search, TextQuery};
use arrow::array::{ArrayRef, Int64Array, StringArray};
use benthic_core::{ErrorKind, limits};
use bytes::Bytes;
use proptest::prelude::prop;
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::collections::HashMap;
use std::sync::Arc;

const INDEX: u32 = 5;

fn index() -> Definition {
    Definition { number: INDEX, columns: vec![1], kind: IndexKind::Values }
}

fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values))
}

fn packed(column: &ArrayRef) -> HashMap<Bytes, Bytes> {
    let entries = pack(&index(), std::slice::from_ref(column)).unwrap();
    let known = entry_keys(INDEX);
    for (key, value) in &entries {
        assert!(known.contains(key) && value.len() <= limits::OMAP_VALUE_BYTES_MAX);
    }
    entries.into_iter().collect()
}

fn directory(entries: &HashMap<Bytes, Bytes>) -> Directory {
    let key = directory_key(INDEX);
    Directory::decode(&key, &entries[&key]).unwrap()
}

/// The rows that a range finds, or `None` if there are too many.
fn found(entries: &HashMap<Bytes, Bytes>, low: i64, high: i64) -> Option<Vec<u32>> {
    let bound = |value| numbers([Some(value)]);
    let probe =
        Probe::new(&index(), &[Ranges::between(Some(&bound(low)), Some(&bound(high))).unwrap()]).unwrap();
    look_up(&probe.into(), entries)
}

/// The rows that probes find, or `None` if there are too many.
pub fn look_up(probes: &Probes, entries: &HashMap<Bytes, Bytes>) -> Option<Vec<u32>> {
    probes.check().unwrap();
    let mut known = ReadEntries::default();
    for _ in 0..3 {
        match probes.look_up(&known).unwrap() {
            LookupStep::Done(found) => return Some(found.rows?.ranges().iter().cloned().flatten().collect()),
            LookupStep::Read(keys) => {
                let there = |key: &Bytes| Some((key.clone(), entries.get(key)?.clone()));
                let there = keys.iter().filter_map(there).collect();
                known.add(keys, there);
            }
        }
    }
    panic!("a lookup took more than two reads");
}

proptest! {
    #[test]
    fn a_look_up_finds_the_rows_and_no_others(
        values in prop::collection::vec(prop::option::of(-20_i64..20), 0..400),
        low in -25_i64..25,
        width in 0_i64..4,
    ) {
        let column = numbers(values.iter().copied());
        let entries = packed(&column);
        let is_wanted = |value: &Option<i64>| value.is_some_and(|value| (low..=low + width).contains(&value));
        let expected: Vec<u32> = (0..).zip(&values).filter(|(_, value)| is_wanted(value)).map(|(row, _)| row).collect();
        match found(&entries, low, low + width) {
            Some(rows) => prop_assert_eq!(rows, expected),
            None => {
                let runs = expected.chunk_by(|one, next| one + 1 == *next).count() as u64;
                // A lookup ends if it finds more than a fifth of the rows, or if a scan of its runs
                // takes longer.
                let (rows, all) = (expected.len() as u64, values.len() as u64);
                let pays = runs <= RUNS_FREE || rows + RUN_ROWS * runs <= all - all / PAGES_PART;
                prop_assert!(rows * 5 > all || !pays, "{} of {} rows in {} runs", rows, all, runs);
            }
        }
        prop_assert_eq!(check(&index(), &[column], &entries).unwrap(), directory(&entries).pages());
    }
}

/// Has enough rows for many pages, so that keys lie at the ends of pages.
#[test]
fn look_ups_hold_over_many_pages() {
    // Half of the rows have one value. The others repeat each value about 7 times, far apart.
    let values = |row: i64| if row % 2 == 0 { 1_000_000 } else { row % 20_011 };
    let rows = 280_000_i64;
    let column = numbers((0..rows).map(|row| Some(values(row))));
    let entries = packed(&column);
    let pages = directory(&entries).pages();
    assert!((20..=PAGES_MAX as u16).contains(&pages), "{pages}");
    for wanted in (0..20_011).step_by(97).chain([20_010]) {
        let expected: Vec<u32> =
            (0..rows).filter(|row| values(*row) == wanted).map(|row| row as u32).collect();
        assert_eq!(found(&entries, wanted, wanted), Some(expected), "{wanted}");
    }
    assert_eq!(found(&entries, 1_000_000, 1_000_000), None, "half of the rows are too many");
    assert_eq!(found(&entries, 1_000_001, i64::MAX), Some(Vec::new()));
    assert_eq!(check(&index(), &[column], &entries).unwrap(), pages);
}

#[test]
fn pages_of_few_distinct_values_are_small() {
    let one = packed(&numbers((0..1_000_000).map(|_| Some(1))));
    assert!(one.values().map(Bytes::len).sum::<usize>() < 200);
    // Two keys alternate, so there are no runs. A key does not fit into one page and is split.
    let scattered = packed(&numbers((0..1_000_000).map(|row| Some(row % 2))));
    assert!(directory(&scattered).pages() > 2 && scattered.values().all(|page| page.len() < 64 * 1024));
}

#[test]
fn large_objects_have_larger_pages_and_no_more_of_them() {
    let noise = |row: i64| row.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 4;
    let column = numbers((0..1_000_000).map(|row| Some(noise(row))));
    let entries = packed(&column);
    assert!((100..=PAGES_MAX as u16).contains(&directory(&entries).pages()));
    let row = 777_777;
    assert_eq!(found(&entries, noise(row), noise(row)), Some(vec![row as u32]));
}

#[test]
fn pack_refuses_an_index_that_would_be_too_large() {
    let text =
        |row: u32| format!("{:064}", row.wrapping_mul(2_654_435_761)).chars().rev().collect::<String>();
    let column: ArrayRef = Arc::new(StringArray::from_iter_values((0..150_000).map(text)));
    let columns = [column.clone(), column.clone(), column.clone(), column];
    let index = Definition { number: 1, columns: vec![1, 2, 3, 4], kind: IndexKind::Values };
    assert_eq!(pack(&index, &columns).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn check_detects_missing_swapped_and_foreign_pages() {
    let rows = 50_000;
    let column = numbers((0..rows).map(|row| Some(row * 7 % 1_013)));
    let entries = packed(&column);
    let check = |column: &ArrayRef, entries: &HashMap<Bytes, Bytes>| {
        check(&index(), std::slice::from_ref(column), entries).map_err(|error| error.kind())
    };
    assert!(check(&column, &entries).unwrap() > 2);
    // Remove an entry, put a page in another's place, and mix pages of two builds.
    for key in entries.keys() {
        let mut missing = entries.clone();
        missing.remove(key);
        assert_eq!(check(&column, &missing), Err(ErrorKind::Corrupt));
    }
    let mut swapped = entries.clone();
    swapped.insert(page_key(INDEX, 0), entries[&page_key(INDEX, 1)].clone());
    assert_eq!(check(&column, &swapped), Err(ErrorKind::Corrupt));
    let shifted = packed(&numbers((0..rows).map(|row| Some((row + 1) * 7 % 1_013))));
    let mut mixed = entries.clone();
    mixed.insert(page_key(INDEX, 1), shifted[&page_key(INDEX, 1)].clone());
    assert_eq!(check(&column, &mixed), Err(ErrorKind::Corrupt));
    // A complete index, but of other rows.
    assert_eq!(check(&column, &shifted), Err(ErrorKind::Corrupt));
    assert_eq!(
        check(&numbers((0..rows - 1).map(|row| Some(row * 7 % 1_013))), &entries),
        Err(ErrorKind::Corrupt)
    );
}

/// Each group of keys is about as long as a page, and its keys differ only at the end. A page that
/// begins within a group must repeat the shared prefix, so a new split can need more pages than the
/// total size suggests.
#[test]
fn an_index_has_no_more_pages_than_its_directory_can_name() {
    const GROUPS: usize = 126;
    let index = Definition { columns: vec![1, 2, 3, 4], ..index() };
    for group_rows in [2_025, 2_030, 2_035] {
        let rows = GROUPS * group_rows;
        let text = |row: usize| Some(format!("{:>64}", row / group_rows));
        let texts: ArrayRef = Arc::new(StringArray::from_iter((0..rows).map(text)));
        let ids = numbers((0..rows).map(|row| Some(row as i64)));
        let columns = [Arc::clone(&texts), Arc::clone(&texts), texts, ids];
        let entries: HashMap<Bytes, Bytes> = pack(&index, &columns).unwrap().into_iter().collect();
        assert!(directory(&entries).pages() as usize <= PAGES_MAX);
        check(&index, &columns, &entries).unwrap();
    }
}

fn words_index() -> Definition {
    Definition { kind: IndexKind::Words, ..index() }
}

fn texts(texts: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from_iter(texts))
}

fn packed_words(column: &ArrayRef) -> HashMap<Bytes, Bytes> {
    let entries: HashMap<Bytes, Bytes> =
        pack(&words_index(), std::slice::from_ref(column)).unwrap().into_iter().collect();
    check(&words_index(), std::slice::from_ref(column), &entries).unwrap();
    entries
}

fn find_words(entries: &HashMap<Bytes, Bytes>, query: &TextQuery) -> Option<Vec<u32>> {
    look_up(&Probe::words(&words_index(), query).unwrap(), entries)
}

proptest! {
    /// Rows whose text matches are always among those that the index finds, and for one word the
    /// index finds no others.
    #[test]
    fn an_index_of_words_misses_no_row(
        rows in prop::collection::vec(prop::option::of("([abAB]{1,3}[ .,'-]){0,6}"), 0..120),
        query in "[ab]{1,2}( [ab]{1,2}){0,2}",
        search in prop::sample::select(vec![Search::Words, Search::Phrase, Search::Prefixes]),
    ) {
        let column = texts(rows.iter().cloned());
        let entries = packed_words(&column);
        let query = TextQuery::new(search, &query);
        let matches = |row: &&u32| rows[**row as usize].as_ref().is_some_and(|text| query.matches(text));
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let expected: Vec<u32> = all.iter().filter(matches).copied().collect();
        if let Some(found) = find_words(&entries, &query) {
            prop_assert!(expected.iter().all(|row| found.contains(row)), "{expected:?} {found:?}");
            if query.keys().len() == 1 && search != Search::Phrase {
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn common_words_take_no_space_and_words_of_many_pages_are_found() {
    let rows = 60_000;
    // Each third row of the first tenth has the word "third"; every row has "the".
    let text = |row: usize| {
        let third = if row % 7 == 3 { "third" } else { "other" };
        Some(format!("the {third} number {row}"))
    };
    let column = texts((0..rows).map(text));
    let entries = packed_words(&column);
    let directory = directory(&entries);
    assert!(directory.pages() > 8, "{}", directory.pages());
    let find = |words: &str| find_words(&entries, &TextQuery::new(Search::Words, words));
    assert_eq!(find("the"), None);
    assert_eq!(find("absent"), Some(Vec::new()));
    assert_eq!(find("THE 777"), Some(vec![777]));
    assert_eq!(find("third 777"), Some(Vec::new()));
    assert_eq!(find("third 780"), Some(vec![780]));
    assert_eq!(find("third").unwrap().len(), rows / 7);
    let prefix = find_words(&entries, &TextQuery::new(Search::Prefixes, "5999"));
    assert_eq!(prefix, Some([5_999].into_iter().chain(59_990..60_000).collect()));
    let bytes: usize = entries.values().map(Bytes::len).sum();
    assert!(bytes < 12 * rows, "{bytes}");
}

#[test]
fn a_row_of_very_many_or_very_long_words_is_always_found() {
    let many: String = (0..ROW_WORDS_MAX + 1).map(|n| format!("w{n} ")).collect();
    let million = "again ".repeat(1_000_000);
    let long = "x".repeat(1_000_000);
    let mut rows = vec![Some("small".to_owned()); 40];
    (rows[7], rows[8], rows[9], rows[11]) = (Some(many), Some(million), Some(long.clone()), None);
    let entries = packed_words(&texts(rows.iter().cloned()));
    let bytes: usize = entries.values().map(Bytes::len).sum();
    assert!(bytes < 1_000, "{bytes}");
    let find = |words: &str| find_words(&entries, &TextQuery::new(Search::Words, words));
    // Row 7 may contain any word.
    assert_eq!(find("w17"), Some(vec![7]));
    assert_eq!(find("absent"), Some(vec![7]));
    assert_eq!(find("again"), Some(vec![7, 8]));
    // Only the start of a long word is in the index.
    assert_eq!(find(&long), Some(vec![7, 9]));
    assert_eq!(find(&long[1..]), Some(vec![7, 9]));
    assert_eq!(find("xx"), Some(vec![7]));
}

#[test]
fn an_index_of_words_of_other_rows_or_rules_is_detected() {
    let column = texts((0..50).map(|row| Some(format!("word{row}"))));
    let entries = packed_words(&column);
    let refused = |index: &Definition, column: &ArrayRef, entries: &HashMap<Bytes, Bytes>| {
        check(index, std::slice::from_ref(column), entries).unwrap_err().kind()
    };
    let other = texts((0..50).map(|row| Some(format!("word{}", row + 1))));
    assert_eq!(refused(&words_index(), &other, &entries), ErrorKind::Corrupt);
    let fewer = texts((0..50).map(|row| (row > 0).then(|| format!("word{row}"))));
    assert_eq!(refused(&words_index(), &fewer, &entries), ErrorKind::Corrupt);
    assert_eq!(refused(&index(), &column, &entries), ErrorKind::Corrupt);
    // An index by other rules stays unused, because its words are other ones.
    let mut old = directory(&entries);
    "1 0.0.0 0.0.0".clone_into(&mut old.tokenizer);
    let key = directory_key(INDEX);
    let mut stale = entries.clone();
    stale.insert(key.clone(), old.encode(&key));
    assert_eq!(find_words(&stale, &TextQuery::new(Search::Words, "word7")), None);
    assert!(!words_index().matches_entry(stale.get(&key)).unwrap());
    // An index of values of the same column is another index.
    assert!(!index().matches_entry(entries.get(&key)).unwrap());
    assert_eq!(pack(&words_index(), &[numbers([Some(1)])]).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(
        pack(&words_index(), &[column.clone(), column]).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}
