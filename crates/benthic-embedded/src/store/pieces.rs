//! The staged writes of an operation to an object's data.

use bytes::Bytes;
use std::collections::BTreeMap;

/// Non-overlapping ranges in order. A newer write replaces older ones.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    len_bytes: u64,
    /// `None` for zeros.
    data: Option<Bytes>,
}

impl Piece {
    fn slice(&self, from: u64, to: u64) -> Piece {
        assert!(from <= to && to <= self.len_bytes, "a slice lies within its piece");
        Piece {
            len_bytes: to - from,
            data: self.data.as_ref().map(|data| data.slice(from as usize..to as usize)),
        }
    }
}

impl Pieces {
    pub fn write(&mut self, offset_bytes: u64, data: Bytes) {
        self.insert(offset_bytes, Piece { len_bytes: data.len() as u64, data: Some(data) });
    }

    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) {
        self.insert(offset_bytes, Piece { len_bytes, data: None });
    }

    pub fn truncate(&mut self, size_bytes: u64) {
        self.punch(size_bytes, u64::MAX);
    }

    fn insert(&mut self, offset_bytes: u64, piece: Piece) {
        if piece.len_bytes > 0 {
            let end_bytes = offset_bytes + piece.len_bytes;
            self.punch(offset_bytes, end_bytes);
            let before = self.pieces.range(..end_bytes).next_back();
            let before_end = before.map_or(0, |(start, piece)| start + piece.len_bytes);
            assert!(before_end <= offset_bytes, "pieces do not overlap");
            self.pieces.insert(offset_bytes, piece);
        }
    }

    fn punch(&mut self, from: u64, to: u64) {
        let before = self.pieces.range(..from).next_back().map(|(start, _)| *start);
        let within: Vec<u64> = self.pieces.range(from..to).map(|(start, _)| *start).collect();
        for start in before.into_iter().chain(within) {
            let Some(piece) = self.pieces.remove(&start) else { continue };
            let end = start + piece.len_bytes;
            if start < from {
                self.pieces.insert(start, piece.slice(0, piece.len_bytes.min(from - start)));
            }
            if end > to {
                self.pieces.insert(to, piece.slice(to - start, piece.len_bytes));
            }
        }
    }

    /// The parts in `from..to`: offset within the range, length, and data (`None` for zeros).
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, Option<Bytes>)> + '_ {
        let before = self.pieces.range(..from).next_back();
        before.into_iter().chain(self.pieces.range(from..to)).filter_map(move |(start, piece)| {
            let (first, last) = (from.max(*start), to.min(start + piece.len_bytes));
            (first < last).then(|| {
                let part = piece.slice(first - start, last - start);
                (first - from, part.len_bytes, part.data)
            })
        })
    }

    /// Copies the pieces over a buffer that holds the range from `from` on.
    pub fn overlay(&self, from: u64, buffer: &mut [u8]) {
        for (at, len, data) in self.within(from, from + buffer.len() as u64) {
            let target = &mut buffer[at as usize..(at + len) as usize];
            if let Some(data) = data { target.copy_from_slice(&data) } else { target.fill(0) }
        }
    }

    /// The pieces in order: offset, length, and data (`None` for zeros).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, Option<&Bytes>)> {
        self.pieces.iter().map(|(start, piece)| (*start, piece.len_bytes, piece.data.as_ref()))
    }
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
