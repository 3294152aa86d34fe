//! The directory of an index: the omap entry that lists the pages of one object, and the lookup of
//! rows through it.

use crate::key::{COLUMNS_MAX, KEY_BYTES_MAX};
use crate::page::{self, Reader, body, corrupt, frame, push_number};
use crate::probe::{Definition, Probe};
use crate::ranges::is_within;
use crate::rows::Rows;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Maximum number of pages that an index has in one object. Eight indexes then have at most 1,000
/// entries, directories included.
pub const PAGES_MAX: usize = 124;
/// Maximum number of pages that one probe reads.
pub const PAGES_READ_MAX: usize = 32;
/// A full scan is faster if an index finds more than one row in this many.
const ROWS_PER_FOUND_MIN: u64 = 5;
/// Maximum number of row runs to find. A scan decodes the rows between two runs, or pays to skip
/// them.
const RUNS_MAX: usize = 64 * 1024;

/// Result of a search in the pages.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// All rows that may match.
    Rows(Rows),
    /// Too many rows: a full scan is better.
    TooMany,
}

/// The pages of an index in one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub columns: Vec<u32>,
    pub rows: u32,
    pub distinct: u32,
    /// Identifies the pages that were written together.
    pub(crate) stamp: u32,
    pub(crate) pages: Vec<Page>,
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
        let sum: u64 = pages.iter().map(|page| u64::from(page.rows)).sum();
        let in_order = pages.is_sorted_by(|one, next| one.from <= next.from);
        if !reader.is_empty() || !in_order || sum != u64::from(rows) || rows > i32::MAX as u32 {
            return Err(corrupt("its pages do not cover all rows in order"));
        }
        Ok(Directory { columns, rows, distinct, stamp, pages })
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
        frame(key, &body)
    }

    pub fn pages(&self) -> u16 {
        // At most `PAGES_MAX`.
        self.pages.len() as u16
    }

    /// The pages that a probe must read, in ascending order, or `None` if a full scan is better.
    pub fn pages_of(&self, probe: &Probe) -> Option<Vec<u16>> {
        let mut pages = BTreeSet::new();
        let mut rows_min = 0;
        for range in &probe.ranges {
            let Some(among) = self.page_range(&range.low, &range.high) else { continue };
            // All rows of the pages between the first and the last match.
            let inner = self.pages[*among.start()..=*among.end()].iter().skip(1).rev().skip(1);
            rows_min += inner.map(|page| u64::from(page.rows)).sum::<u64>();
            if among.end() - among.start() >= PAGES_READ_MAX {
                return None;
            }
            pages.extend(among.map(|page| page as u16));
        }
        (pages.len() <= PAGES_READ_MAX && self.are_few(rows_min)).then(|| pages.into_iter().collect())
    }

    /// The pages that may contain keys of a range.
    fn page_range(&self, low: &[u8], high: &[u8]) -> Option<RangeInclusive<usize>> {
        let end = self.pages.partition_point(|page| is_within(&page.from, high)).checked_sub(1)?;
        // The last key of a page may also be the first key of the next page.
        let start = self.pages.partition_point(|page| *page.from < *low).saturating_sub(1);
        (start <= end).then_some(start..=end)
    }

    fn are_few(&self, rows: u64) -> bool {
        rows.saturating_mul(ROWS_PER_FOUND_MIN) <= u64::from(self.rows)
    }

    /// Finds the rows that match, in the pages that [`pages_of`](Directory::pages_of) returned.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn find(&self, probe: &Probe, pages: impl IntoIterator<Item = (u16, Bytes)>) -> Result<Found> {
        let (mut found, mut count) = (Vec::new(), 0);
        for (number, value) in pages {
            let key = probe.page_key(number);
            page::read(&key, &value, self.stamp, self.rows, |key, runs| {
                // Once there are too many rows, only check the rest of the page.
                if probe.contains(key) && self.are_few(count) && found.len() <= RUNS_MAX {
                    count += runs.iter().map(|run| u64::from(run.end - run.start)).sum::<u64>();
                    found.extend_from_slice(runs);
                }
                Ok(())
            })?;
        }
        if !self.are_few(count) || found.len() > RUNS_MAX {
            return Ok(Found::TooMany);
        }
        Ok(Found::Rows(Rows::new(found, self.rows)))
    }
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
    /// Whether an omap entry is the directory of this index. A directory that cannot be read is an
    /// error.
    ///
    /// # Errors
    /// Errors of [`Directory::decode`].
    pub fn matches_entry(&self, entry: Option<&Bytes>) -> Result<bool> {
        let Some(value) = entry else { return Ok(false) };
        let key = page::directory_key(self.number);
        Ok(Directory::decode(&key, value)?.columns == self.columns)
    }
}
