//! Copies small byte strings into shared memory, because one allocation per string would take
//! longer than the copy.

use bytes::{Bytes, BytesMut};

/// Size of a shared piece. One live string keeps the whole piece alive, just as a string from the
/// key-value store keeps its block alive.
const PIECE_BYTES: usize = 4_096;
/// A longer string gets its own memory, so that little of a piece stays unused.
const PACKED_BYTES_MAX: usize = PIECE_BYTES / 8;

pub(crate) struct Packer {
    piece: BytesMut,
    /// Approximate size of the strings still to be packed.
    wanted_bytes: usize,
}

impl Default for Packer {
    /// A packer for an unknown number of strings.
    fn default() -> Packer {
        Packer { piece: BytesMut::new(), wanted_bytes: usize::MAX }
    }
}

impl Packer {
    /// A packer for strings of these lengths.
    pub fn new(lengths: impl Iterator<Item = usize>) -> Packer {
        let wanted_bytes = lengths.filter(|len| *len <= PACKED_BYTES_MAX).sum();
        Packer { wanted_bytes, ..Packer::default() }
    }

    pub fn pack(&mut self, head: &[u8], tail: &[u8]) -> Bytes {
        let len = head.len() + tail.len();
        if len > PACKED_BYTES_MAX {
            return Bytes::from([head, tail].concat());
        }
        if self.piece.capacity() < len {
            self.piece = BytesMut::with_capacity(self.wanted_bytes.clamp(len, PIECE_BYTES));
        }
        self.wanted_bytes = self.wanted_bytes.saturating_sub(len);
        self.piece.extend_from_slice(head);
        self.piece.extend_from_slice(tail);
        assert_eq!(self.piece.len(), len, "the piece contains only this string");
        self.piece.split().freeze()
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
