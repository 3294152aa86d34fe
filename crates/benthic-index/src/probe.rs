//! What is looked up in an index.

use crate::key::{COLUMNS_MAX, KEY_BYTES_MAX};
use crate::page;
use crate::ranges::{RANGES_MAX, Ranges, is_within};
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its number, never given to another index of the table.
    pub number: u32,
    /// The numbers of its columns, 1 to [`COLUMNS_MAX`].
    pub columns: Vec<u32>,
}

/// Which keys of an index are wanted. It is the same for all objects of a table, and sent as it is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Probe {
    /// The index.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Its columns, of which an object's pages are too.
    #[prost(uint32, repeated, tag = "2")]
    pub columns: Vec<u32>,
    /// The keys, ascending.
    #[prost(message, repeated, tag = "3")]
    pub ranges: Vec<KeyRange>,
}

/// A range of keys.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyRange {
    /// No key is less.
    #[prost(bytes = "bytes", tag = "1")]
    pub low: Bytes,
    /// No key is greater that does not begin with this.
    #[prost(bytes = "bytes", tag = "2")]
    pub high: Bytes,
}

impl KeyRange {
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        *key >= *self.low && is_within(key, &self.high)
    }
}

impl Probe {
    /// Looks up what is known of the first columns of an index.
    ///
    /// # Errors
    /// `LimitExceeded` for too many ranges, `InvalidArgument` for more columns than the index has.
    pub fn new(index: &Definition, columns: &[Ranges]) -> Result<Probe> {
        if columns.is_empty() || columns.len() > index.columns.len() {
            return Err(Error::new(ErrorKind::InvalidArgument, "the index has not so many columns")
                .with("columns", columns.len()));
        }
        let range = |(low, high): (Vec<u8>, Vec<u8>)| KeyRange { low: low.into(), high: high.into() };
        let ranges = Ranges::join(columns)?.into_iter().map(range).collect();
        Ok(Probe { index: index.number, columns: index.columns.clone(), ranges })
    }

    /// Checks a probe that somebody else made.
    ///
    /// # Errors
    /// Why it is none.
    pub fn check(&self) -> std::result::Result<(), &'static str> {
        let is_long = |key: &Bytes| key.len() > KEY_BYTES_MAX;
        if self.ranges.len() > RANGES_MAX || self.columns.len() > COLUMNS_MAX {
            return Err("a probe of too many ranges or columns");
        }
        if self.ranges.iter().any(|range| is_long(&range.low) || is_long(&range.high)) {
            return Err("a probe of keys that are too long");
        }
        match self.ranges.is_sorted_by(|one, next| one.low < next.low && !is_within(&next.low, &one.high)) {
            true => Ok(()),
            false => Err("a probe whose ranges are not in order"),
        }
    }

    /// The omap key of the entry that says which pages there are.
    pub fn directory_key(&self) -> Bytes {
        page::directory_key(self.index)
    }

    /// The omap key of a page.
    pub fn page_key(&self, page: u16) -> Bytes {
        page::page_key(self.index, page)
    }

    /// Whether a key is wanted.
    pub fn wants(&self, key: &[u8]) -> bool {
        let after = self.ranges.partition_point(|range| *range.low <= *key);
        after > 0 && self.ranges[after - 1].has(key)
    }
}
