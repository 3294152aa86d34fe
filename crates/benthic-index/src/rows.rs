//! A set of rows of an object.

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
}
