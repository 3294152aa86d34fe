//! Pseudo-random numbers from a seed (SplitMix64), the same in every run.

use benthic_program::noise::Noise as Numbers;
use std::ops::Range;

pub struct Noise(Numbers);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(Numbers::new(seed))
    }

    /// A number less than `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    pub fn in_range(&mut self, range: Range<i64>) -> i64 {
        range.start + self.0.below((range.end - range.start) as u64) as i64
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A random one of the items that match.
    pub fn find<'a, T>(&mut self, of: &'a [T], wanted: impl Fn(&T) -> bool) -> Option<&'a T> {
        let found: Vec<&T> = of.iter().filter(|one| wanted(one)).collect();
        if found.is_empty() { None } else { Some(found[self.below(found.len())]) }
    }
}
