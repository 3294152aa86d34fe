//! The way from a probe to rows, for whoever reads omap entries: beside the object or over a network.

use crate::directory::{Directory, Found};
use crate::page::damaged;
use crate::probe::Probe;
use crate::rows::Rows;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::HashMap;

/// What a look-up came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// The rows that may match; nothing if the object has no pages of the index, or if reading all rows is better.
    pub rows: Option<Rows>,
    /// Pages that were read.
    pub pages: u64,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the entries with these keys.
    Read(Vec<Bytes>),
    /// Nothing.
    Done(LookedUp),
}

/// The entries of an object that were asked for.
#[derive(Debug, Default)]
pub struct Known(HashMap<Bytes, Option<Bytes>>);

impl Known {
    /// Adds entries that were asked for with `keys`; those that are not there are known to be missing.
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
    pub fn look_up(&self, known: &Known) -> Result<Step> {
        let key = self.directory_key();
        let directory = match known.0.get(&key) {
            None => return Ok(Step::Read(vec![key])),
            Some(None) => return Ok(Step::Done(LookedUp::default())),
            Some(Some(value)) => Directory::decode(&key, value)?,
        };
        let Some(numbers) = directory.pages_of(self).filter(|_| directory.columns == self.columns) else {
            return Ok(Step::Done(LookedUp::default()));
        };
        let is_new = |key: &Bytes| !known.0.contains_key(key);
        let unread: Vec<Bytes> = numbers.iter().map(|number| self.page_key(*number)).filter(is_new).collect();
        if !unread.is_empty() {
            return Ok(Step::Read(unread));
        }
        let mut pages = Vec::with_capacity(numbers.len());
        for number in numbers {
            let value = known.0.get(&self.page_key(number)).and_then(Option::as_ref);
            pages.push((number, value.ok_or_else(|| damaged("it is missing"))?.clone()));
        }
        let count = pages.len() as u64;
        let rows = match directory.find(self, pages)? {
            Found::Rows(rows) => Some(rows),
            Found::TooMany => None,
        };
        Ok(Step::Done(LookedUp { rows, pages: count }))
    }
}
