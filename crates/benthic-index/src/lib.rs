//! Indexes of tables: which rows of a data object have a key.
//!
//! An index is over one to four columns. Each data object carries its own part of it in its omap (`docs/formats.md` draws it):
//! packed, sorted pages of keys and row numbers, and one entry that says which pages there are. A writer makes them
//! ([`pack`]) and stores them with the object in one operation; whoever scans the object, beside it or far away, looks up a
//! [`Probe`] with the same code, and reads only the rows that come out.
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array};
//! use benthic_index::{Definition, ReadEntries, Probe, Ranges, LookupStep, pack};
//! use std::collections::HashMap;
//! use std::sync::Arc;
//!
//! # fn main() -> benthic_core::Result<()> {
//! let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000).rev()));
//! let index = Definition { number: 0, columns: vec![1] };
//! let entries: HashMap<_, _> = pack(&index, &[column])?.into_iter().collect();
//!
//! let seven: ArrayRef = Arc::new(Int64Array::from(vec![7]));
//! let probe = Probe::new(&index, &[Ranges::equal(&seven)?])?;
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
//! **What an index may do**: leave out rows that cannot match. Keys of long strings are cut, ranges include their ends, all
//! NaN are one; so what comes out is a superset, and the filter is applied again. An object without pages, or with those
//! of another index under the same number, is read whole.
//!
//! **Whatever the bytes are**, decoding takes memory in proportion to them and does not panic.

mod directory;
mod key;
mod lookup;
mod pack;
mod page;
mod probe;
mod ranges;
mod rows;

pub use directory::{Directory, Found, PAGES_MAX, PAGES_READ_MAX};
pub use key::{COLUMNS_MAX, Keys, Kind};
pub use lookup::{LookupResult, LookupStep, ReadEntries};
pub use pack::{check, entry_keys, pack};
pub use page::{directory_key, frame, page_key};
pub use probe::{Definition, KeyRange, Probe};
pub use ranges::{RANGES_MAX, Ranges};
pub use rows::Rows;
