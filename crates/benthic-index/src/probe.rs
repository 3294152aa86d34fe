//! Probes: the keys that a query looks up in an index.

use crate::key::{self, COLUMNS_MAX, KEY_BYTES_MAX};
use crate::page;
use crate::probes::Probes;
use crate::ranges::{RANGES_MAX, Ranges, is_within};
use crate::words::{TextQuery, tokenizer};
use benthic_core::{Error, Result};
use bytes::Bytes;

/// The key of rows that may contain any word, in an index of words. No word has it.
pub(crate) const ANY_WORD: &[u8] = &[key::NULL];

/// The name of the rules of an index of elements, in the place of a tokenizer's.
pub(crate) const ELEMENTS: &str = "elements";

/// Maximum length of the name of a tokenizer.
pub(crate) const TOKENIZER_BYTES_MAX: usize = 64;

/// The kind of an index's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// The values of the columns: a row has one key.
    #[default]
    Values,
    /// The words of one column of strings: a row has the keys of its words.
    Words,
    /// The elements of one column of lists: a row has the keys of its elements.
    Elements,
}

/// Definition of an index of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// A table never reuses this number for another index.
    pub number: u32,
    /// Column numbers, 1 to [`COLUMNS_MAX`] of them; one for an index of words or elements.
    pub columns: Vec<u32>,
    pub kind: IndexKind,
}

impl Definition {
    /// The rules by which this build finds several keys in a row; empty for an index of values.
    pub(crate) fn tokenizer(&self) -> &'static str {
        match self.kind {
            IndexKind::Values => "",
            IndexKind::Words => tokenizer(),
            IndexKind::Elements => ELEMENTS,
        }
    }
}

/// The key ranges that a query looks up in one index. The same bytes go to every object of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Probe {
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Columns of the index. A lookup skips pages that were built for other columns.
    #[prost(uint32, repeated, tag = "2")]
    pub columns: Vec<u32>,
    /// Key ranges, in ascending order.
    #[prost(message, repeated, tag = "3")]
    pub ranges: Vec<KeyRange>,
    /// The rules by which an index of words or elements was built; empty for an index of values. A
    /// lookup skips pages that were built by other rules.
    #[prost(string, tag = "4")]
    pub tokenizer: String,
}

/// A range of keys.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyRange {
    /// Lower bound, inclusive.
    #[prost(bytes = "bytes", tag = "1")]
    pub low: Bytes,
    /// Upper bound, inclusive. All keys that begin with these bytes are in the range too.
    #[prost(bytes = "bytes", tag = "2")]
    pub high: Bytes,
}

impl KeyRange {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *key >= *self.low && is_within(key, &self.high)
    }
}

impl Probe {
    /// Builds a probe from the ranges of the first columns of an index.
    ///
    /// # Errors
    /// `LimitExceeded` for too many ranges; `InvalidArgument` for more columns than the index has.
    pub fn new(index: &Definition, columns: &[Ranges]) -> Result<Probe> {
        if columns.is_empty() || columns.len() > index.columns.len() {
            return Err(Error::invalid_argument("the index has fewer columns").with("columns", columns.len()));
        }
        let range = |(low, high): (Vec<u8>, Vec<u8>)| KeyRange { low: low.into(), high: high.into() };
        let ranges = Ranges::join(columns)?.into_iter().map(range).collect();
        Ok(Probe { ranges, ..Probe::of(index) })
    }

    fn of(index: &Definition) -> Probe {
        let (columns, tokenizer) = (index.columns.clone(), index.tokenizer().to_owned());
        Probe { index: index.number, columns, ranges: Vec::new(), tokenizer }
    }

    /// Builds the probes of a search in an index of words: one for each word of the query, longest
    /// words first, since those are usually rare. `None` if the query has no words.
    pub fn words(index: &Definition, query: &TextQuery) -> Option<Probes> {
        let mut keys = query.keys();
        keys.sort_by_key(|range| std::cmp::Reverse(range.low.len()));
        let always = KeyRange { low: ANY_WORD.into(), high: ANY_WORD.into() };
        let probe = |range| Probe { ranges: vec![always.clone(), range], ..Probe::of(index) }.into();
        Probes::all(keys.into_iter().map(probe))
    }

    /// Checks a probe that came over the network.
    ///
    /// # Errors
    /// The reason why the probe is invalid.
    pub fn check(&self) -> std::result::Result<(), &'static str> {
        let is_long = |key: &Bytes| key.len() > KEY_BYTES_MAX;
        if self.tokenizer.len() > TOKENIZER_BYTES_MAX {
            return Err("a probe of a tokenizer with a long name");
        }
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

    pub fn directory_key(&self) -> Bytes {
        page::directory_key(self.index)
    }

    pub fn page_key(&self, page: u16) -> Bytes {
        page::page_key(self.index, page)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        let after = self.ranges.partition_point(|range| *range.low <= *key);
        after > 0 && self.ranges[after - 1].contains(key)
    }
}
