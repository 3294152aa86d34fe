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
mod tests {
    use super::Packer;

    #[test]
    fn packed_strings_do_not_change() {
        let strings: Vec<Vec<u8>> =
            (0..3_000_usize).map(|index| vec![index as u8; index * 7 % 1_000]).collect();
        let lengths = || strings.iter().map(|string| b"head".len() + string.len());
        let known = [Packer::new(lengths()), Packer::new(lengths().take(5)), Packer::new(lengths().take(0))];
        for mut packer in known.into_iter().chain([Packer::default()]) {
            let packed: Vec<_> = strings.iter().map(|string| packer.pack(b"head", string)).collect();
            for (packed, string) in packed.iter().zip(&strings) {
                assert_eq!(packed[..], [b"head", &string[..]].concat());
            }
        }
    }

    #[test]
    fn short_strings_share_pieces() {
        let mut packer = Packer::default();
        let first = packer.pack(b"", &[1; 100]);
        let next = packer.pack(b"", &[2; 100]);
        assert_eq!(first.as_ptr().wrapping_add(100), next.as_ptr());
    }
}
