//! Secondary indexes of tables: map a key to the rows of one data object that have it.
//!
//! An index covers the values of one to four columns, or the words or elements of one. A data
//! object stores its own part of the index in its omap: sorted, packed pages of keys and row
//! numbers, and one directory entry that lists the pages. `docs/formats.md` draws the format. The
//! writer builds the entries with [`pack`] and stores them together with the object in one
//! operation. A scan looks up [`Probes`] and reads only the matching rows. It runs the same code in
//! the OSD and in the client.
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array};
//! use benthic_index::{Definition, ReadEntries, Probe, Probes, Ranges, LookupStep, pack};
//! use std::collections::HashMap;
//! use std::sync::Arc;
//!
//! # fn main() -> benthic_core::Result<()> {
//! let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000).rev()));
//! let index = Definition { number: 0, columns: vec![1], ..Definition::default() };
//! let entries: HashMap<_, _> = pack(&index, &[column])?.into_iter().collect();
//!
//! let seven: ArrayRef = Arc::new(Int64Array::from(vec![7]));
//! let probe = Probes::from(Probe::new(&index, &[Ranges::equal(&seven)?])?);
//! let mut known = ReadEntries::default();
//! let found = loop {
//!     match probe.look_up(&known)? {
//!         LookupStep::Done(found) => break found,
//!         LookupStep::Read(keys) => {
//!             let read = keys.iter().map(|key| (key.clone(), entries[key].clone())).collect();
//!             known.add(keys, read);
//!         }
//!     }
//! };
//! assert_eq!(found.rows.expect("few").ranges(), [992..993]);
//! # Ok(()) }
//! ```
//!
//! **An index only skips rows that cannot match.** Long strings are truncated, ranges include their
//! ends, and all NaNs share one key. A lookup therefore returns a superset of the matching rows,
//! and the scan applies the filter again. If an object has no pages, or has pages of another index
//! with the same number, the scan reads the whole object.
//!
//! **Input is untrusted.** Decoding never panics, and its memory is proportional to the input.

mod directory;
mod distribution;
mod elements;
mod key;
mod lookup;
mod pack;
mod page;
mod postings;
mod probe;
mod probes;
mod ranges;
mod rows;
mod words;

pub use directory::{Directory, PAGES_MAX, PAGES_READ_MAX};
pub use distribution::{BUCKETS_MAX, BYTES_MAX as DISTRIBUTION_BYTES_MAX, Distribution};
pub use key::{COLUMNS_MAX, Keys, Kind};
pub use lookup::{LookupResult, LookupStep, ReadEntries};
pub use pack::{check, entry_keys, pack};
pub use page::{directory_key, frame, page_key};
pub use postings::ROW_WORDS_MAX;
pub use probe::{Definition, IndexKind, KeyRange, Probe};
pub use probes::{PAGES_PART, PROBES_MAX, Probes, RUN_ROWS, RUNS_FREE};
pub use ranges::{RANGES_MAX, Ranges};
pub use rows::Rows;
pub use words::{Search, TextQuery, tokenizer, words};
