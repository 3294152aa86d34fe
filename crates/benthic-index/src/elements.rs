//! The elements of a column of lists, each with the rows that contain it. Null is no element.

use crate::directory::PAGES_MAX;
use crate::key::Keys;
use crate::page::{PAGE_BYTES_MAX, too_large};
use arrow::array::{Array, ArrayRef, AsArray};
use benthic_core::{Error, Result};
use std::ops::Range;

/// Maximum number of elements of an object. An element takes at least a byte of a page, unless rows
/// in sequence or one row repeat it.
const ELEMENTS_MAX: usize = PAGES_MAX * PAGE_BYTES_MAX;

/// The elements of a column.
pub struct Elements {
    /// The key of each stored element.
    keys: Keys,
    /// Elements and their rows, in the order of keys and rows. A row has each key once.
    order: Vec<(usize, u32)>,
}

impl Elements {
    /// Memory: about 24 bytes an element, plus its key.
    ///
    /// # Errors
    /// `InvalidArgument` for several columns, and for other types than lists; `Unsupported` for
    /// elements that cannot be indexed; `LimitExceeded` for too many elements.
    pub fn of(columns: &[ArrayRef]) -> Result<Elements> {
        let lists = match columns {
            [column] => column.as_list_opt::<i32>(),
            _ => None,
        };
        let lists =
            lists.ok_or_else(|| Error::invalid_argument("an index of elements has one column, of lists"))?;
        // A slice of a column still has the elements of the whole column.
        let (offsets, rows) = (lists.value_offsets(), lists.len());
        let (first, end) = (offsets[0] as usize, offsets[rows] as usize);
        if end - first > ELEMENTS_MAX {
            return Err(too_large(rows));
        }
        let values = lists.values().slice(first, end - first);
        let keys = Keys::of(std::slice::from_ref(&values))?;
        let mut order: Vec<(usize, u32)> = Vec::new();
        for (row, bounds) in (0..).zip(offsets.windows(2)) {
            if lists.is_valid(row as usize) {
                let elements = bounds[0] as usize - first..bounds[1] as usize - first;
                order.extend(
                    elements.filter(|element| values.is_valid(*element)).map(|element| (element, row)),
                );
            }
        }
        order.sort_unstable_by(|one, other| keys.get(one.0).cmp(keys.get(other.0)).then(one.1.cmp(&other.1)));
        order.dedup_by(|next, kept| next.1 == kept.1 && keys.get(next.0) == keys.get(kept.0));
        Ok(Elements { keys, order })
    }

    /// The keys of the elements in ascending order, each with the runs of its rows.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], impl Iterator<Item = Range<u32>>)> {
        let keys = &self.keys;
        self.order.chunk_by(move |one, next| keys.get(one.0) == keys.get(next.0)).map(move |rows| {
            let runs = rows.chunk_by(|one, next| one.1 + 1 == next.1);
            (keys.get(rows[0].0), runs.map(|run| run[0].1..run[run.len() - 1].1 + 1))
        })
    }
}

#[cfg(test)]
#[path = "elements_tests.rs"]
mod tests;
