//! Looks up a probe in an index. This module does no I/O: the caller reads the omap entries, either
//! in the OSD or over the network.

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
    /// The rows that may match. `None` if the object has no pages of this index, or if a full scan
    /// is better.
    pub rows: Option<Rows>,
    pub pages: u64,
}

/// The caller's next step.
#[derive(Debug, PartialEq, Eq)]
pub enum LookupStep {
    /// Read the entries with these keys, add them to [`ReadEntries`] and call [`Probe::look_up`]
    /// again.
    Read(Vec<Bytes>),
    Done(LookupResult),
}

/// The omap entries of an object that the caller has read so far.
#[derive(Debug, Default)]
pub struct ReadEntries(HashMap<Bytes, Option<Bytes>>);

impl ReadEntries {
    /// Adds the result of a read of `keys`. A key without an entry does not exist in the object.
    pub fn add(&mut self, keys: Vec<Bytes>, entries: Vec<(Bytes, Bytes)>) {
        self.0.extend(keys.into_iter().map(|key| (key, None)));
        self.0.extend(entries.into_iter().map(|(key, value)| (key, Some(value))));
    }
}

impl Probe {
    /// Takes the next step of a lookup. A lookup needs at most two reads.
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
