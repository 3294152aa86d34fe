//! The values of one column that a filter accepts, as ranges of keys.

use crate::key::{self, Keys, NULL, VALUE};
use arrow::array::ArrayRef;
use benthic_core::{Error, Result};
use std::cmp::Ordering;

/// Maximum number of key ranges of a probe.
pub const RANGES_MAX: usize = 64;

/// Ascending, disjoint key ranges of one column. The upper end of a range is a *prefix*: all keys
/// that begin with it are in the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether every range contains a single key.
    are_points: bool,
}

impl Ranges {
    /// The range that contains only null.
    pub fn null() -> Ranges {
        Ranges { ranges: vec![(vec![NULL], vec![NULL])], are_points: true }
    }

    /// The range of the value in an array of length one. Null equals nothing and gives no range.
    ///
    /// # Errors
    /// Errors of [`Keys::of`]; `Internal` if the array does not have length one.
    pub fn equal(value: &ArrayRef) -> Result<Ranges> {
        let key = of_one(value)?;
        let ranges = if key == [NULL] { Vec::new() } else { vec![(key.clone(), key)] };
        Ok(Ranges { ranges, are_points: true })
    }

    /// The range between two bounds, both inclusive and both as in [`Ranges::equal`]. `None` means
    /// unbounded. All ranges of floating-point numbers contain NaN, because query engines compare
    /// NaN differently.
    ///
    /// # Errors
    /// Errors of [`Ranges::equal`].
    pub fn between(low: Option<&ArrayRef>, high: Option<&ArrayRef>) -> Result<Ranges> {
        let bound = |value: Option<&ArrayRef>| value.map_or_else(|| Ok(vec![VALUE]), of_one);
        let (low_key, high_key) = (bound(low)?, bound(high)?);
        if low_key == [NULL] || high_key == [NULL] {
            return Ok(Ranges { ranges: Vec::new(), are_points: true });
        }
        let range = Ranges::one(low_key, high_key);
        let is_float = low.or(high).is_some_and(|value| value.data_type().is_floating());
        Ok(if is_float { range.or(&Ranges::one(key::of_nan(), key::of_nan())) } else { range })
    }

    /// The range of all strings with this prefix.
    pub fn prefix(prefix: &[u8]) -> Ranges {
        let key = key::of_prefix(prefix);
        Ranges::one(key.clone(), key)
    }

    fn one(low: Vec<u8>, high: Vec<u8>) -> Ranges {
        let ranges = if is_empty(&low, &high) { Vec::new() } else { vec![(low, high)] };
        Ranges { ranges, are_points: false }
    }

    #[must_use]
    pub fn and(&self, other: &Ranges) -> Ranges {
        let mut both = Vec::new();
        for (low, high) in &self.ranges {
            for (other_low, other_high) in &other.ranges {
                let low = low.max(other_low);
                let high = if compare_high(high, other_high).is_le() { high } else { other_high };
                if !is_empty(low, high) {
                    both.push((low.clone(), high.clone()));
                }
            }
        }
        Ranges { ranges: both, are_points: self.are_points || other.are_points }
    }

    #[must_use]
    pub fn or(&self, other: &Ranges) -> Ranges {
        let mut all: Vec<_> = self.ranges.iter().chain(&other.ranges).cloned().collect();
        all.sort();
        let mut merged: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match merged.last_mut() {
                Some(last) if !is_empty(&low, &last.1) => {
                    if compare_high(&high, &last.1).is_gt() {
                        last.1 = high;
                    }
                }
                _ => merged.push((low, high)),
            }
        }
        Ranges { ranges: merged, are_points: self.are_points && other.are_points }
    }

    /// The lower and upper end of each range.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.ranges.iter().map(|(low, high)| (low.as_slice(), high.as_slice()))
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether every range is a single key, so that the next column of the index can narrow it.
    pub fn are_points(&self) -> bool {
        self.are_points
    }

    /// Whether every range is bounded on both sides.
    pub fn are_closed(&self) -> bool {
        self.ranges.iter().all(|(low, high)| low != &[VALUE] && high != &[VALUE])
    }

    /// Combines the ranges of several columns into ranges of whole keys. All columns but the last
    /// must be points.
    ///
    /// # Errors
    /// `LimitExceeded` for more than [`RANGES_MAX`] ranges.
    pub(crate) fn join(columns: &[Ranges]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut joined: Vec<(Vec<u8>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
        for column in columns {
            if joined.len().saturating_mul(column.len()) > RANGES_MAX {
                return Err(
                    Error::limit_exceeded("too many ranges to look up").with("ranges_max", RANGES_MAX)
                );
            }
            let longer = |start: &(Vec<u8>, Vec<u8>)| {
                let (low_start, high_start) = start.clone();
                column.ranges.iter().map(move |(low, high)| {
                    ([low_start.as_slice(), low].concat(), [high_start.as_slice(), high].concat())
                })
            };
            joined = joined.iter().flat_map(longer).collect();
        }
        Ok(joined)
    }
}

fn of_one(value: &ArrayRef) -> Result<Vec<u8>> {
    let keys = Keys::of(std::slice::from_ref(value))?;
    match keys.len() {
        1 => Ok(keys.get(0).to_vec()),
        _ => Err(Error::internal("a bound is one value").with("values", keys.len())),
    }
}

/// Whether a key is not above a range with this upper end.
pub(crate) fn is_within(key: &[u8], high: &[u8]) -> bool {
    &key[..key.len().min(high.len())] <= high
}

fn is_empty(low: &[u8], high: &[u8]) -> bool {
    !is_within(low, high)
}

/// Orders upper ends. A longer end sorts below its own prefix.
fn compare_high(one: &[u8], other: &[u8]) -> Ordering {
    let len = one.len().min(other.len());
    one[..len].cmp(&other[..len]).then(other.len().cmp(&one.len()))
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
