//! The entry that says which pages an index has in an object, and the way from there to rows.

use crate::key::{COLUMNS_MAX, KEY_BYTES_MAX};
use crate::page::{self, Reader, body, corrupt, frame, push_number};
use crate::probe::{Definition, Probe};
use crate::ranges::is_within;
use crate::rows::Rows;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Most pages that an index has in one object: eight indexes make at most 1,000 entries, with their directories.
pub const PAGES_MAX: usize = 124;
/// Most pages that one probe reads.
pub const PAGES_READ_MAX: usize = 32;
/// Reading all rows is better than looking up more than one in so many.
const ROWS_PER_FOUND_MIN: u64 = 5;
/// Runs of rows that are found: what is between them is decoded too, or skipped at a price.
const RUNS_MAX: usize = 64 * 1024;

/// What a look-up gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// All rows that may match.
    Rows(Rows),
    /// So many that all should be read.
    TooMany,
}

/// Which pages an index has in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The columns of the index.
    pub columns: Vec<u32>,
    /// Rows of the object.
    pub rows: u32,
    /// Different keys.
    pub distinct: u32,
    /// Tells pages that were made together.
    pub(crate) stamp: u32,
    pub(crate) pages: Vec<Page>,
}

/// What is known of a page without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// No key of this page is less, and none of the page before is greater.
    pub from: Vec<u8>,
    pub rows: u32,
}

impl Directory {
    /// Reads the entry with this key.
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
            return Err(corrupt("its pages are not those of all rows"));
        }
        Ok(Directory { columns, rows, distinct, stamp, pages })
    }

    pub(crate) fn encode(&self, key: &[u8]) -> Bytes {
        let mut body = Vec::new();
        for word in [self.stamp, self.rows, self.distinct] {
            body.extend(word.to_le_bytes());
        }
        // Both are bounded where they are made.
        body.extend([self.columns.len() as u8, self.pages.len() as u8]);
        self.columns.iter().for_each(|column| push_number(u64::from(*column), &mut body));
        for page in &self.pages {
            push_number(u64::from(page.rows), &mut body);
            push_number(page.from.len() as u64, &mut body);
            body.extend(&page.from);
        }
        frame(key, &body)
    }

    /// How many pages there are.
    pub fn pages(&self) -> u16 {
        // At most PAGES_MAX.
        self.pages.len() as u16
    }

    /// Whether the pages are those of an index over the columns of this one.
    pub fn is_of(&self, columns: &[u32]) -> bool {
        self.columns == columns
    }

    /// The pages that a probe needs, ascending; nothing if reading them is worse than reading all rows.
    pub fn pages_of(&self, probe: &Probe) -> Option<Vec<u16>> {
        let mut pages = BTreeSet::new();
        let mut rows_min = 0;
        for range in &probe.ranges {
            let Some(among) = self.among(&range.low, &range.high) else { continue };
            // Those between the first and the last are wanted with all their rows.
            let inner = self.pages[*among.start()..=*among.end()].iter().skip(1).rev().skip(1);
            rows_min += inner.map(|page| u64::from(page.rows)).sum::<u64>();
            if among.end() - among.start() >= PAGES_READ_MAX {
                return None;
            }
            pages.extend(among.map(|page| page as u16));
        }
        (pages.len() <= PAGES_READ_MAX && self.are_few(rows_min)).then(|| pages.into_iter().collect())
    }

    /// The pages that may have keys of a range.
    fn among(&self, low: &[u8], high: &[u8]) -> Option<RangeInclusive<usize>> {
        let end = self.pages.partition_point(|page| is_within(&page.from, high)).checked_sub(1)?;
        // A page may end with the key that the next begins with.
        let start = self.pages.partition_point(|page| *page.from < *low).saturating_sub(1);
        (start <= end).then_some(start..=end)
    }

    fn are_few(&self, rows: u64) -> bool {
        rows.saturating_mul(ROWS_PER_FOUND_MIN) <= u64::from(self.rows)
    }

    /// The rows whose keys are wanted, given the pages that [`pages_of`](Directory::pages_of) named.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn find(&self, probe: &Probe, pages: impl IntoIterator<Item = (u16, Bytes)>) -> Result<Found> {
        let (mut found, mut count) = (Vec::new(), 0);
        for (number, value) in pages {
            let key = probe.page_key(number);
            page::read(&key, &value, self.stamp, self.rows, |key, runs| {
                // Once there are too many, the rest is only checked.
                if probe.wants(key) && self.are_few(count) && found.len() <= RUNS_MAX {
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
        return Err(corrupt("a page without rows, or a key that is too long"));
    }
    Ok(Page { from: reader.bytes(len_bytes)?.to_vec(), rows })
}

impl Definition {
    /// Whether an entry of an object is the directory of this index; what cannot be read is damaged.
    ///
    /// # Errors
    /// As [`Directory::decode`].
    pub fn is_there(&self, entry: Option<&Bytes>) -> Result<bool> {
        match entry {
            None => Ok(false),
            Some(value) => {
                let key = page::directory_key(self.number);
                Ok(Directory::decode(&key, value)?.is_of(&self.columns))
            }
        }
    }
}
