//! Input and output of a lookup. Lookups do no I/O: the caller reads the omap entries, either in
//! the OSD or over the network.

use crate::rows::Rows;
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
    /// Read the entries with these keys, add them to [`ReadEntries`] and call
    /// [`Probes::look_up`](crate::Probes::look_up) again.
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

    pub(crate) fn is_read(&self, key: &Bytes) -> bool {
        self.0.contains_key(key)
    }

    /// The value of an entry that exists and was read.
    pub(crate) fn get(&self, key: &Bytes) -> Option<&Bytes> {
        self.0.get(key)?.as_ref()
    }
}
