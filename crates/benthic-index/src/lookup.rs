//! The lookup of a probe in an index, without I/O: the caller reads the omap entries, beside the object or over a network.

use crate::directory::{Directory, Found};
use crate::page::corrupt;
use crate::probe::Probe;
use crate::rows::Rows;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::HashMap;

/// The result of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupResult {
    /// The rows that may match; nothing if the object has no pages of the index, or if reading all rows is better.
    pub rows: Option<Rows>,
    /// Pages that were read.
    pub pages: u64,
}

/// What the caller does next.
#[derive(Debug, PartialEq, Eq)]
pub enum LookupStep {
    /// Read the entries with these keys.
    Read(Vec<Bytes>),
    /// Nothing.
    Done(LookupResult),
}

/// The omap entries of an object that a lookup has read.
#[derive(Debug, Default)]
pub struct ReadEntries(HashMap<Bytes, Option<Bytes>>);

impl ReadEntries {
    /// Adds the entries that a read of `keys` gave; other keys do not exist.
    pub fn add(&mut self, keys: Vec<Bytes>, entries: Vec<(Bytes, Bytes)>) {
        self.0.extend(keys.into_iter().map(|key| (key, None)));
        self.0.extend(entries.into_iter().map(|(key, value)| (key, Some(value))));
    }
}

impl Probe {
    /// Goes on with a look-up, which takes two reads at most.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn look_up(&self, known: &ReadEntries) -> Result<LookupStep> {
        let key = self.directory_key();
        let directory = match known.0.get(&key) {
            None => return Ok(LookupStep::Read(vec![key])),
            Some(None) => return Ok(LookupStep::Done(LookupResult::default())),
            Some(Some(value)) => Directory::decode(&key, value)?,
        };
        let Some(numbers) = directory.pages_of(self).filter(|_| directory.columns == self.columns) else {
            return Ok(LookupStep::Done(LookupResult::default()));
        };
        let is_new = |key: &Bytes| !known.0.contains_key(key);
        let unread: Vec<Bytes> = numbers.iter().map(|number| self.page_key(*number)).filter(is_new).collect();
        if !unread.is_empty() {
            return Ok(LookupStep::Read(unread));
        }
        let mut pages = Vec::with_capacity(numbers.len());
        for number in numbers {
            let value = known.0.get(&self.page_key(number)).and_then(Option::as_ref);
            pages.push((number, value.ok_or_else(|| corrupt("it is missing"))?.clone()));
        }
        let count = pages.len() as u64;
        let rows = match directory.find(self, pages)? {
            Found::Rows(rows) => Some(rows),
            Found::TooMany => None,
        };
        Ok(LookupStep::Done(LookupResult { rows, pages: count }))
    }
}
