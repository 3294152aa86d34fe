//! The blocks that a copied data object has. After a snapshot, the first write to an object does
//! not copy all of it: the new data object has the written blocks only, and the others show through
//! from the version below.

use benthic_core::{Error, Result};
use bytes::Bytes;
use std::ops::Range;

/// The attribute of a data object that lacks blocks; a data object without it has all bytes.
pub(crate) const BLOCKS_XATTR: &str = "blocks";

/// Unit of copying. docs/design/0008 has the measurement behind it.
pub(crate) const BLOCK_BYTES: u64 = 4 * 1024;

/// The value of [`BLOCKS_XATTR`]: the version below (4 bytes, little-endian; 0 is the parent), and
/// a bit for each block that the data object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub below: u32,
    bits: Vec<u8>,
}

/// The size of blocks in objects of this size.
pub(crate) fn block_bytes(object_bytes: u64) -> u64 {
    BLOCK_BYTES.min(object_bytes)
}

impl Blocks {
    pub fn none(below: u32, object_bytes: u64) -> Blocks {
        let count = object_bytes / block_bytes(object_bytes);
        Blocks { below, bits: vec![0; count.div_ceil(8) as usize] }
    }

    pub fn has(&self, block: u64) -> bool {
        self.bits[(block / 8) as usize] & (1 << (block % 8)) != 0
    }

    pub fn has_range(&self, range: Range<u64>, object_bytes: u64) -> bool {
        let block_bytes = block_bytes(object_bytes);
        (range.start / block_bytes..range.end.div_ceil(block_bytes)).all(|block| self.has(block))
    }

    /// Adds the blocks that a range touches.
    pub fn insert(&mut self, range: Range<u64>, object_bytes: u64) {
        let block_bytes = block_bytes(object_bytes);
        for block in range.start / block_bytes..range.end.div_ceil(block_bytes) {
            self.bits[(block / 8) as usize] |= 1 << (block % 8);
        }
    }

    /// Adds the blocks of another data object of the same size.
    pub fn add(&mut self, other: &Blocks) {
        self.bits.iter_mut().zip(&other.bits).for_each(|(bits, other)| *bits |= other);
    }

    pub fn has_all(&self, object_bytes: u64) -> bool {
        (0..object_bytes / block_bytes(object_bytes)).all(|block| self.has(block))
    }

    pub fn encode(&self) -> Bytes {
        [&self.below.to_le_bytes(), &self.bits[..]].concat().into()
    }

    pub fn decode(bytes: &[u8], object_bytes: u64) -> Result<Blocks> {
        let expected = Blocks::none(0, object_bytes);
        match bytes.split_first_chunk() {
            Some((below, bits)) if bits.len() == expected.bits.len() => {
                Ok(Blocks { below: u32::from_le_bytes(*below), bits: bits.to_vec() })
            }
            _ => Err(Error::corrupt("a data object's list of blocks cannot be decoded")),
        }
    }

    /// Divides a range of the object into parts that the data object has and parts that show
    /// through from below.
    pub fn split(&self, range: Range<u64>, object_bytes: u64) -> Vec<(Range<u64>, bool)> {
        let block_bytes = block_bytes(object_bytes);
        let mut parts: Vec<(Range<u64>, bool)> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = ((at / block_bytes + 1) * block_bytes).min(range.end);
            let has = self.has(at / block_bytes);
            match parts.last_mut() {
                Some((last, same)) if *same == has => last.end = end,
                _ => parts.push((at..end, has)),
            }
            at = end;
        }
        parts
    }
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
