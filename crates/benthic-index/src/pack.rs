//! Builds the index entries of a data object, and checks them against its rows.
//!
//! [`pack`] sorts the rows by key and groups rows with equal keys. It writes the groups to pages of
//! about [`PAGE_BYTES`], and lists the pages in a directory. All entries of one build contain the
//! same *stamp*, a checksum of all pages, so that a reader detects a page of another build.

use crate::directory::{Directory, PAGES_MAX, Page};
use crate::elements::Elements;
use crate::key::{Keys, NULL};
use crate::page::{
    self, PAGE_BYTES_MAX, Runs, corrupt, directory_key, frame, page_key, push_group, too_large,
};
use crate::postings::Postings;
use crate::probe::{Definition, IndexKind};
use arrow::array::ArrayRef;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;

/// Target size of a page, unless this would make more than [`PAGES_MAX`] pages.
const PAGE_BYTES: usize = 16 * 1024;

/// Builds the omap entries of an index for one object. `columns` are the columns of the index, in
/// the order of the index.
///
/// Memory: about 16 bytes a row, plus the row's key, plus the entries. For an index of words: about
/// 150 bytes a distinct word, plus the entries. For an index of elements: about 24 bytes an
/// element, plus its key, plus the entries.
///
/// # Errors
/// `LimitExceeded` if the pages would be too large; `Unsupported` for columns that cannot be
/// indexed.
pub fn pack(index: &Definition, columns: &[ArrayRef]) -> Result<Vec<(Bytes, Bytes)>> {
    match index.kind {
        IndexKind::Values => {
            let keys = Keys::of(columns)?;
            let rows = rows_of(keys.len())?;
            let order = sort_rows(&keys, rows);
            entries(index, rows, |page_bytes| split_into_pages(groups(&keys, &order), page_bytes))
        }
        IndexKind::Words => {
            let rows = rows_of(columns.first().map_or(0, |column| column.len()))?;
            let postings = Postings::of(columns)?;
            entries(index, rows, |page_bytes| split_into_pages(postings.groups(), page_bytes))
        }
        IndexKind::Elements => {
            let rows = rows_of(columns.first().map_or(0, |column| column.len()))?;
            let elements = Elements::of(columns)?;
            entries(index, rows, |page_bytes| split_into_pages(elements.groups(), page_bytes))
        }
    }
}

/// A page stores a row number times two plus a flag in 32 bits.
fn rows_of(rows: usize) -> Result<u32> {
    u32::try_from(rows).ok().filter(|rows| i32::try_from(*rows).is_ok()).ok_or_else(|| too_large(rows))
}

fn entries(index: &Definition, rows: u32, split: impl Fn(usize) -> Packed) -> Result<Vec<(Bytes, Bytes)>> {
    let mut page_bytes = PAGE_BYTES;
    let packed = loop {
        let packed = split(page_bytes);
        if packed.bodies.len() <= PAGES_MAX {
            break packed;
        }
        let total_bytes: usize = packed.bodies.iter().map(Vec::len).sum();
        // Increase the page size until the pages are few enough. Keys share prefixes only within a
        // page, so other page boundaries can increase the total size, and the computed size may be
        // too small again. An increase of at least a quarter makes the loop end.
        page_bytes = (total_bytes / (PAGES_MAX - 1) + 1).max(page_bytes + page_bytes / 4);
        if page_bytes > PAGE_BYTES_MAX {
            return Err(too_large(rows as usize));
        }
    };
    let stamp = packed.bodies.iter().fold(0, |crc, body| crc32c::crc32c_append(crc, body));
    let directory = Directory {
        columns: index.columns.clone(),
        rows,
        distinct: packed.distinct,
        stamp,
        pages: packed.pages,
        tokenizer: index.tokenizer().to_owned(),
    };
    let key = directory_key(index.number);
    let mut entries = vec![(key.clone(), directory.encode(&key))];
    for (page, body) in (0..).zip(&packed.bodies) {
        let key = page_key(index.number, page);
        let value = frame(&key, &[stamp.to_le_bytes().as_slice(), body].concat());
        entries.push((key, value));
    }
    Ok(entries)
}

/// The keys of all omap entries that an index can have in an object.
pub fn entry_keys(index: u32) -> Vec<Bytes> {
    let pages = (0..PAGES_MAX as u16).map(|page| page_key(index, page));
    std::iter::once(directory_key(index)).chain(pages).collect()
}

/// Sorts the row numbers by key. Rows with equal keys stay in order of their numbers.
fn sort_rows(keys: &Keys, rows: u32) -> Vec<u32> {
    // The first bytes of the keys decide most comparisons. Null sorts first, so 0 stands for it.
    let start = |row: u32| {
        let key = keys.get(row as usize);
        if key[0] == NULL {
            return 0;
        }
        let mut start = [0; 8];
        let len = (key.len() - 1).min(8);
        start[..len].copy_from_slice(&key[1..=len]);
        u64::from_be_bytes(start)
    };
    let mut order: Vec<(u64, u32)> = (0..rows).map(|row| (start(row), row)).collect();
    order.sort_unstable_by(|one, other| {
        let whole = || keys.get(one.1 as usize).cmp(keys.get(other.1 as usize));
        one.0.cmp(&other.0).then_with(whole).then(one.1.cmp(&other.1))
    });
    order.into_iter().map(|(_, row)| row).collect()
}

/// The pages of an index: their contents, and the directory's entry for each.
#[derive(Default)]
struct Packed {
    bodies: Vec<Vec<u8>>,
    pages: Vec<Page>,
    /// Number of distinct keys.
    distinct: u32,
}

/// The keys in order, each with the runs of its rows.
fn groups<'a>(
    keys: &'a Keys,
    order: &'a [u32],
) -> impl Iterator<Item = (&'a [u8], impl Iterator<Item = Range<u32>>)> {
    order.chunk_by(|one, next| keys.get(*one as usize) == keys.get(*next as usize)).map(|rows| {
        let runs = rows.chunk_by(|one, next| *one + 1 == *next);
        (keys.get(rows[0] as usize), runs.map(|run| run[0]..run[run.len() - 1] + 1))
    })
}

/// Splits groups of rows with one key into page bodies. A page ends once it has `page_bytes` bytes.
/// The rows of one key may continue in the next page.
fn split_into_pages<'a>(
    groups: impl Iterator<Item = (&'a [u8], impl Iterator<Item = Range<u32>>)>,
    page_bytes: usize,
) -> Packed {
    let mut packed = Packed::default();
    let (mut body, mut page) = (Vec::new(), None::<Page>);
    // A page stores a key without the prefix that it shares with the previous key in the page. The
    // separator of two pages depends on the previous key overall.
    let (mut previous_in_page, mut previous): (&[u8], &[u8]) = (&[], &[]);
    for (key, rows) in groups {
        packed.distinct += 1;
        let mut runs = Runs::default();
        for run in rows {
            let open = page.get_or_insert_with(|| Page { from: separator(previous, key), rows: 0 });
            // The rows of an index of words can be more than 32 bits can count.
            open.rows = open.rows.saturating_add(run.end - run.start);
            runs.push(&run);
            if body.len() + runs.len_bytes() >= page_bytes {
                push_group(previous_in_page, key, &runs, &mut body);
                packed.bodies.push(std::mem::take(&mut body));
                packed.pages.extend(page.take());
                (runs, previous_in_page, previous) = (Runs::default(), &[], key);
            }
        }
        if !runs.is_empty() {
            push_group(previous_in_page, key, &runs, &mut body);
            previous_in_page = key;
        }
        previous = key;
    }
    if !body.is_empty() {
        packed.bodies.push(body);
        packed.pages.extend(page);
    }
    packed
}

/// The boundary between a page that ends with `previous` and a page that starts with `next`: the
/// shortest byte string that is at least `previous` and at most `next`. It may be equal to both,
/// because the rows of one key may be in both pages.
fn separator(previous: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = previous.iter().zip(next).take_while(|(one, other)| one == other).count();
    next[..next.len().min(shared + 1)].to_vec()
}

/// Checks that `entries` are a complete and ordered index of an object's rows: every key is there
/// with exactly its rows. `columns` are the columns of the index. Returns the number of pages.
///
/// # Errors
/// `Corrupt` with the damage; `Unsupported` for a format newer than this build's; errors of
/// [`pack`] except those of the pages' size.
pub fn check(index: &Definition, columns: &[ArrayRef], entries: &HashMap<Bytes, Bytes>) -> Result<u16> {
    match index.kind {
        IndexKind::Values => check_values(index, &Keys::of(columns)?, entries),
        IndexKind::Words => {
            let postings = Postings::of(columns)?;
            check_groups(index, columns, || postings.groups(), entries)
        }
        IndexKind::Elements => {
            let elements = Elements::of(columns)?;
            check_groups(index, columns, || elements.groups(), entries)
        }
    }
}

fn check_values(index: &Definition, keys: &Keys, entries: &HashMap<Bytes, Bytes>) -> Result<u16> {
    let mut seen = vec![false; keys.len()];
    let (mut previous, mut distinct): (Vec<u8>, u32) = (Vec::new(), 0);
    let directory = read_all(index, keys.len(), entries, |key, runs| {
        distinct += u32::from(previous != key);
        previous = key.to_vec();
        for row in runs.iter().cloned().flatten().map(|row| row as usize) {
            if std::mem::replace(&mut seen[row], true) {
                return Err(corrupt("a row occurs twice"));
            }
            if keys.get(row) != key {
                return Err(corrupt("a row has another key"));
            }
        }
        Ok(())
    })?;
    if seen.contains(&false) || distinct != directory.distinct {
        return Err(corrupt("rows are missing"));
    }
    Ok(directory.pages())
}

/// Checks an index whose rows have several keys.
fn check_groups<'a, Groups, Runs>(
    index: &Definition,
    columns: &[ArrayRef],
    groups: impl Fn() -> Groups,
    entries: &HashMap<Bytes, Bytes>,
) -> Result<u16>
where
    Groups: Iterator<Item = (&'a [u8], Runs)>,
    Runs: Iterator<Item = Range<u32>>,
{
    // A key may continue in the next page, so compare run by run.
    let mut expected = groups().flat_map(|(key, runs)| runs.map(move |run| (key, run)));
    let rows = columns.first().map_or(0, |column| column.len());
    let directory = read_all(index, rows, entries, |key, runs| {
        let is_expected = |run: &Range<u32>| expected.next().is_some_and(|next| next == (key, run.clone()));
        if runs.iter().all(is_expected) { Ok(()) } else { Err(corrupt("a key has other rows")) }
    })?;
    if expected.next().is_some() || directory.distinct as usize != groups().count() {
        return Err(corrupt("keys are missing"));
    }
    Ok(directory.pages())
}

/// Reads all pages of an object that has `rows` rows, and checks them against their directory.
fn read_all(
    index: &Definition,
    rows: usize,
    entries: &HashMap<Bytes, Bytes>,
    mut take: impl FnMut(&[u8], &[Range<u32>]) -> Result<()>,
) -> Result<Directory> {
    let entry = |key: &Bytes| entries.get(key).ok_or_else(|| corrupt("it is missing"));
    let key = directory_key(index.number);
    let directory = Directory::decode(&key, entry(&key)?)?;
    if !directory.is_of(index) || directory.rows as usize != rows {
        return Err(corrupt("it covers other rows or columns"));
    }
    let mut last: Vec<u8> = Vec::new();
    for (number, page) in (0..).zip(&directory.pages) {
        let key = page_key(index.number, number);
        let value = entry(&key)?;
        let end_of_page_before = std::mem::take(&mut last);
        let summary = page::read(&key, value, directory.stamp, directory.rows, |key, runs| {
            last.clear();
            last.extend_from_slice(key);
            take(key, runs)
        })?;
        let listed_rows = summary.rows.min(u64::from(u32::MAX));
        if listed_rows != u64::from(page.rows) || summary.first < page.from || end_of_page_before > page.from
        {
            return Err(corrupt("it does not match its directory"));
        }
    }
    Ok(directory)
}

#[cfg(test)]
#[path = "pack_tests.rs"]
pub(crate) mod tests;
