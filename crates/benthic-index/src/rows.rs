//! A set of row numbers of an object, as ranges, with union, intersection and difference.

use crate::page::{Reader, push_number};
use benthic_core::{Error, Result};
use std::ops::Range;

/// Row numbers of an object, as ascending ranges with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    ranges: Vec<Range<u32>>,
    /// Number of rows of the object.
    of: u32,
}

impl Rows {
    /// The union of ranges, for an object that has `of` rows.
    pub fn new(mut ranges: Vec<Range<u32>>, of: u32) -> Rows {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Rows { ranges: merged, of }
    }

    /// All rows of an object that has `of` rows.
    pub fn all(of: u32) -> Rows {
        Rows { ranges: (of > 0).then_some(0..of).into_iter().collect(), of }
    }

    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// Number of rows of the object.
    pub fn of(&self) -> u32 {
        self.of
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The rows of either set.
    #[must_use]
    pub fn or(&self, other: &Rows) -> Rows {
        Rows::new(self.ranges.iter().chain(&other.ranges).cloned().collect(), self.of)
    }

    /// The rows of both sets.
    #[must_use]
    pub fn and(&self, other: &Rows) -> Rows {
        let (mut both, mut others) = (Vec::new(), other.ranges.iter().peekable());
        for range in &self.ranges {
            while let Some(next) = others.peek() {
                let (start, end) = (range.start.max(next.start), range.end.min(next.end));
                if start < end {
                    both.push(start..end);
                }
                if next.end > range.end {
                    break;
                }
                others.next();
            }
        }
        Rows { ranges: both, of: self.of }
    }

    /// The rows of this set without those of another one.
    #[must_use]
    pub fn without(&self, other: &Rows) -> Rows {
        let (mut left, mut removals) = (Vec::new(), other.ranges.iter().peekable());
        for range in &self.ranges {
            let mut start = range.start;
            while let Some(removed) = removals.peek().filter(|removed| removed.start < range.end) {
                if start < removed.start {
                    left.push(start..removed.start);
                }
                start = start.max(removed.end);
                if removed.end > range.end {
                    break;
                }
                removals.next();
            }
            if start < range.end {
                left.push(start..range.end);
            }
        }
        Rows { ranges: left, of: self.of }
    }

    /// Encodes the set, without the object's number of rows: for each range, the rows between it
    /// and the previous range, and its length, both as LEB128.
    pub fn encode(&self) -> Vec<u8> {
        let (mut bytes, mut end) = (Vec::new(), 0);
        for range in &self.ranges {
            push_number(u64::from(range.start - end), &mut bytes);
            push_number(u64::from(range.end - range.start), &mut bytes);
            end = range.end;
        }
        bytes
    }

    /// Decodes a set of rows of an object that has `of` rows. Takes at most four times as much
    /// memory as the input has bytes.
    ///
    /// # Errors
    /// `Corrupt` if [`encode`](Rows::encode) does not return such bytes for such an object.
    pub fn decode(bytes: &[u8], of: u32) -> Result<Rows> {
        let damaged = || Error::corrupt("a set of rows is damaged");
        let mut ranges: Vec<Range<u32>> = Vec::with_capacity(bytes.len() / 2);
        let mut bytes = Reader(bytes);
        while !bytes.is_empty() {
            let gap = bytes.number().map_err(|_| damaged())?;
            let len = bytes.number().map_err(|_| damaged())?;
            let end = ranges.last().map_or(0, |range| range.end);
            let range = end.checked_add(gap).and_then(|start| Some(start..start.checked_add(len)?));
            let range = range.filter(|range| range.end <= of && len > 0).ok_or_else(damaged)?;
            // Two ranges without a gap would be one.
            if gap == 0 && !ranges.is_empty() {
                return Err(damaged());
            }
            ranges.push(range);
        }
        Ok(Rows { ranges, of })
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
