//! Fragments over one object, through the public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod common;
mod damage;
mod hostile;

use benthic_core::Result;
use benthic_fragment::fragment::Ranges;
use bytes::Bytes;
use std::ops::Range;

/// An object in memory.
struct Object(Bytes);

impl Ranges for Object {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn gap_bytes_max(&self) -> u64 {
        4_096
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(ranges.iter().map(|range| self.0.slice(range.start as usize..range.end as usize)).collect())
    }

    fn go_on(&mut self) -> Result<()> {
        Ok(())
    }
}
