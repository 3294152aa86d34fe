//! Copies of small byte strings, next to each other in memory: an allocation for each would take longer than the copy.

use bytes::{Bytes, BytesMut};

/// Whoever keeps one string keeps so many bytes, as with a string from a block of the key-value store's tables.
const PIECE_BYTES: usize = 4_096;
/// A longer string gets memory of its own, so that little of a piece stays empty.
const PACKED_BYTES_MAX: usize = PIECE_BYTES / 8;

pub(crate) struct Packer {
    piece: BytesMut,
    /// About how much is still to come.
    wanted_bytes: usize,
}

impl Packer {
    /// `wanted_bytes`: the length of all that will be packed, if that is known.
    pub fn new(wanted_bytes: Option<usize>) -> Packer {
        Packer { piece: BytesMut::new(), wanted_bytes: wanted_bytes.unwrap_or(usize::MAX) }
    }

    /// Copies a string that is `head` and `tail`.
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
        self.piece.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, Packer};

    #[test]
    fn strings_stay_what_they_were_whatever_comes_after_them() {
        let strings: Vec<Vec<u8>> =
            (0..3_000_usize).map(|index| vec![index as u8; index * 7 % 1_000]).collect();
        for wanted_bytes in [None, Some(0), Some(PIECE_BYTES), Some(strings.iter().map(Vec::len).sum())] {
            let mut packer = Packer::new(wanted_bytes);
            let packed: Vec<_> = strings.iter().map(|string| packer.pack(b"head", string)).collect();
            for (packed, string) in packed.iter().zip(&strings) {
                assert_eq!(packed[..], [b"head", &string[..]].concat());
            }
        }
    }

    #[test]
    fn short_strings_share_pieces() {
        let mut packer = Packer::new(None);
        let first = packer.pack(b"", &[1; 100]);
        let next = packer.pack(b"", &[2; 100]);
        assert_eq!(first.as_ptr().wrapping_add(100), next.as_ptr());
        let far = (0..100).map(|_| packer.pack(b"", &[3; 100])).last();
        assert!(far.is_some_and(|far| far.as_ptr().addr().abs_diff(first.as_ptr().addr()) >= 100));
    }
}
