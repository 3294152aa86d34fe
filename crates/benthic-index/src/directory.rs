//! The directory of an index: the omap entry that lists the pages of one object, and the lookup of
//! rows through it.

use crate::key::{COLUMNS_MAX, KEY_BYTES_MAX};
use crate::page::{self, Reader, body, corrupt, frame, push_number};
use crate::probe::{Definition, Probe, TOKENIZER_BYTES_MAX};
use crate::ranges::is_within;
use crate::rows::Rows;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Maximum number of pages that an index has in one object. Eight indexes then have at most 1,000
/// entries, directories included.
pub const PAGES_MAX: usize = 124;
/// Maximum number of pages that one lookup reads.
pub const PAGES_READ_MAX: usize = 32;
/// Maximum number of row runs to find. A scan decodes the rows between two runs, or pays to skip
/// them.
pub(crate) const RUNS_MAX: usize = 64 * 1024;

/// The pages of an index in one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub columns: Vec<u32>,
    pub rows: u32,
    pub distinct: u32,
    /// Identifies the pages that were written together.
    pub(crate) stamp: u32,
    pub(crate) pages: Vec<Page>,
    /// The rules by which an index of words was built; empty for an index of values.
    pub tokenizer: String,
}

/// The pages that a probe must read in one object.
#[derive(Debug)]
pub(crate) struct PagesOfProbe {
    pub numbers: BTreeSet<u16>,
    /// An estimate of the rows that the probe finds.
    pub rows: u64,
    /// The rows that the probe finds at least.
    pub rows_min: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Lower bound of this page's keys and upper bound of the previous page's keys, both inclusive.
    pub from: Vec<u8>,
    pub rows: u32,
}

impl Directory {
    /// Decodes the directory stored under this key.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Directory> {
        let mut reader = Reader(body(key, value)?);
        let stamp = u32::from_le_bytes(reader.word()?);
        let rows = u32::from_le_bytes(reader.word()?);
        let distinct = u32::from_le_bytes(reader.word()?);
        let [columns, pages] = reader.word()?;
        if !(1..=COLUMNS_MAX).contains(&columns.into()) || usize::from(pages) > PAGES_MAX {
            return Err(corrupt("too many columns or pages"));
        }
        let columns = (0..columns).map(|_| reader.number()).collect::<Result<_>>()?;
        let pages = (0..pages).map(|_| page_of(&mut reader)).collect::<Result<Vec<Page>>>()?;
        let tokenizer = if reader.is_empty() { String::new() } else { tokenizer_of(&mut reader)? };
        // A row has one value, but any number of words.
        let sum: u64 = pages.iter().map(|page| u64::from(page.rows)).sum();
        let covers_all_rows = !tokenizer.is_empty() || sum == u64::from(rows);
        let is_in_order = pages.is_sorted_by(|one, next| one.from <= next.from);
        if !reader.is_empty() || !is_in_order || !covers_all_rows || rows > i32::MAX as u32 {
            return Err(corrupt("its pages do not cover all rows in order"));
        }
        Ok(Directory { columns, rows, distinct, stamp, pages, tokenizer })
    }

    pub(crate) fn encode(&self, key: &[u8]) -> Bytes {
        let mut body = Vec::new();
        for word in [self.stamp, self.rows, self.distinct] {
            body.extend(word.to_le_bytes());
        }
        // Both counts are limited when an index and its pages are built.
        body.extend([self.columns.len() as u8, self.pages.len() as u8]);
        self.columns.iter().for_each(|column| push_number(u64::from(*column), &mut body));
        for page in &self.pages {
            push_number(u64::from(page.rows), &mut body);
            push_number(page.from.len() as u64, &mut body);
            body.extend(&page.from);
        }
        if !self.tokenizer.is_empty() {
            push_number(self.tokenizer.len() as u64, &mut body);
            body.extend(self.tokenizer.as_bytes());
        }
        frame(key, &body)
    }

    pub fn pages(&self) -> u16 {
        // At most `PAGES_MAX`.
        self.pages.len() as u16
    }

    /// Whether these are the pages of this index, built by the rules of this build.
    pub fn is_of(&self, index: &Definition) -> bool {
        self.columns == index.columns && self.tokenizer == index.tokenizer()
    }

    /// The pages that a probe must read. `None` if the probe finds more than `rows_max` rows or
    /// reads too many pages.
    pub(crate) fn pages_of(&self, probe: &Probe, rows_max: u64) -> Option<PagesOfProbe> {
        let (mut pages, mut inner_rows, mut points) = (BTreeSet::new(), 0, 0);
        for range in &probe.ranges {
            let Some(among) = self.page_range(&range.low, &range.high) else { continue };
            // All rows of the pages between the first and the last match.
            let inner = self.pages[*among.start()..=*among.end()].iter().skip(1).rev().skip(1);
            inner_rows += inner.map(|page| u64::from(page.rows)).sum::<u64>();
            if among.end() - among.start() >= PAGES_READ_MAX {
                return None;
            }
            points += u64::from(range.low == range.high);
            pages.extend(among.map(|page| page as u16));
        }
        let (rows, rows_min) = if self.tokenizer.is_empty() {
            let per_key = u64::from(self.rows) / u64::from(self.distinct).max(1);
            let all: u64 = pages.iter().map(|page| u64::from(self.pages[usize::from(*page)].rows)).sum();
            let are_points = points == probe.ranges.len() as u64;
            (inner_rows.max(if are_points { points * per_key.max(1) } else { all / 2 }), inner_rows)
        } else {
            // Two words may be in the same rows, so their number says little. Assume the middle of
            // the numbers of rows that a listed word can have.
            (u64::from(self.rows) / 10, 0)
        };
        let found = PagesOfProbe { numbers: pages, rows, rows_min };
        (found.numbers.len() <= PAGES_READ_MAX && rows_min <= rows_max).then_some(found)
    }

    /// The pages that may contain keys of a range.
    fn page_range(&self, low: &[u8], high: &[u8]) -> Option<RangeInclusive<usize>> {
        let end = self.pages.partition_point(|page| is_within(&page.from, high)).checked_sub(1)?;
        // The last key of a page may also be the first key of the next page.
        let start = self.pages.partition_point(|page| *page.from < *low).saturating_sub(1);
        (start <= end).then_some(start..=end)
    }

    /// Finds the rows that match, in the pages that [`pages_of`](Directory::pages_of) returned.
    /// `None` for more than `rows_max` rows.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub(crate) fn find(
        &self,
        probe: &Probe,
        pages: impl IntoIterator<Item = (u16, Bytes)>,
        rows_max: u64,
    ) -> Result<Option<Rows>> {
        let mut found = Vec::new();
        for (number, value) in pages {
            let key = probe.page_key(number);
            page::read(&key, &value, self.stamp, self.rows, |key, runs| {
                // Once there are too many runs, only check the rest of the page.
                if probe.contains(key) && found.len() <= RUNS_MAX {
                    found.extend_from_slice(runs);
                }
                Ok(())
            })?;
        }
        if found.len() > RUNS_MAX {
            return Ok(None);
        }
        Ok(Some(Rows::new(found, self.rows)).filter(|rows| rows.count() <= rows_max))
    }
}

fn tokenizer_of(reader: &mut Reader<'_>) -> Result<String> {
    let len_bytes = reader.number()? as usize;
    if !(1..=TOKENIZER_BYTES_MAX).contains(&len_bytes) {
        return Err(corrupt("the name of its tokenizer is too long"));
    }
    let name = reader.bytes(len_bytes)?.to_vec();
    String::from_utf8(name).map_err(|_| corrupt("the name of its tokenizer is not text"))
}

fn page_of(reader: &mut Reader<'_>) -> Result<Page> {
    let rows = reader.number()?;
    let len_bytes = reader.number()? as usize;
    if rows == 0 || len_bytes > KEY_BYTES_MAX {
        return Err(corrupt("a page has no rows, or a key is too long"));
    }
    Ok(Page { from: reader.bytes(len_bytes)?.to_vec(), rows })
}

impl Definition {
    /// Whether an omap entry is the directory of this index, built by the rules of this build. A
    /// directory that cannot be read is an error.
    ///
    /// # Errors
    /// Errors of [`Directory::decode`].
    pub fn matches_entry(&self, entry: Option<&Bytes>) -> Result<bool> {
        let Some(value) = entry else { return Ok(false) };
        let key = page::directory_key(self.number);
        Ok(Directory::decode(&key, value)?.is_of(self))
    }
}
