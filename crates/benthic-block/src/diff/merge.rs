//! Joins two files of changes, of which the second continues the first.

use super::{Change, DiffHeader, DiffReader, END, encode_change, encode_header, invalid};
use benthic_core::{Error, Result};
use std::io::Read;

/// Bytes that are copied at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Joins the changes from A to B with those from B to C, to those from A to C. `emit` receives the
/// new stream in pieces; its first error ends the merge.
///
/// # Errors
/// `InvalidArgument` if the second stream does not begin where the first ends, if the changes of a
/// stream are not in the order of their offsets, or if a stream is damaged.
pub fn merge<A: Read, B: Read, E: From<Error>>(
    first: DiffReader<A>,
    second: DiffReader<B>,
    emit: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<DiffHeader, E> {
    let (start, end) = (first.header().clone(), second.header().clone());
    if start.to.is_none() || start.to != end.from {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "nothing".to_owned());
        return Err(invalid("the second file does not begin at the snapshot at which the first one ends")
            .with("first_ends_at", name(&start.to))
            .with("second_begins_at", name(&end.from))
            .into());
    }
    let header = DiffHeader { from: start.from.clone(), to: end.to, size_bytes: end.size_bytes };
    emit(&encode_header(&header))?;
    // An image that shrinks and grows again lost the bytes behind the smaller size.
    let lost_bytes = end.size_bytes.saturating_sub(start.size_bytes);
    let lost = Piece { offset_bytes: start.size_bytes, len_bytes: lost_bytes, is_data: false };
    let lost = Some(lost).filter(|lost| lost.len_bytes > 0 && header.from.is_some());
    let (mut old, mut new) = (Changes::new(first, lost)?, Changes::new(second, None)?);
    loop {
        match (old.next, new.next) {
            (None, None) => break,
            (Some(piece), other) if other.is_none_or(|other| piece.offset_bytes < other.offset_bytes) => {
                // A piece of the first stream ends where the second stream replaces data, and at
                // the final size of the image.
                let limit = other.map_or(u64::MAX, |other| other.offset_bytes).min(header.size_bytes);
                match limit.checked_sub(piece.offset_bytes) {
                    None | Some(0) => old.skip(piece.len_bytes)?,
                    Some(len_bytes) => old.copy(piece.len_bytes.min(len_bytes), emit)?,
                }
            }
            (_, Some(piece)) => {
                let end = piece.offset_bytes + piece.len_bytes;
                new.copy(piece.len_bytes, emit)?;
                while let Some(hidden) = old.next.filter(|hidden| hidden.offset_bytes < end) {
                    old.skip(hidden.len_bytes.min(end - hidden.offset_bytes))?;
                }
            }
            (Some(_), None) => unreachable!("the first case takes it"),
        }
    }
    emit(&[END])?;
    Ok(header)
}

/// The rest of a change.
#[derive(Clone, Copy)]
struct Piece {
    offset_bytes: u64,
    len_bytes: u64,
    is_data: bool,
}

/// The changes of a stream, in order.
struct Changes<R> {
    reader: DiffReader<R>,
    next: Option<Piece>,
    /// The piece after the last change of the stream.
    last: Option<Piece>,
}

impl<R: Read> Changes<R> {
    fn new(reader: DiffReader<R>, last: Option<Piece>) -> Result<Changes<R>> {
        let mut changes = Changes { reader, next: None, last };
        changes.read_next(0)?;
        Ok(changes)
    }

    /// Reads the next change, which must not begin before `after`.
    fn read_next(&mut self, after: u64) -> Result<()> {
        loop {
            let piece = match self.reader.next_change()? {
                None => {
                    self.next = self.last.take();
                    return Ok(());
                }
                Some(Change::Write { offset_bytes, len_bytes }) => {
                    Piece { offset_bytes, len_bytes, is_data: true }
                }
                Some(Change::Zero { offset_bytes, len_bytes }) => {
                    Piece { offset_bytes, len_bytes, is_data: false }
                }
            };
            if piece.offset_bytes < after {
                let message =
                    "the changes are not in the order of their offsets; import the files one after another";
                return Err(invalid(message).with("offset_bytes", piece.offset_bytes));
            }
            if piece.len_bytes > 0 {
                self.next = Some(piece);
                return Ok(());
            }
        }
    }

    /// Emits the beginning of the next change as a change of its own.
    fn copy<E: From<Error>>(
        &mut self,
        len_bytes: u64,
        emit: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(Piece { offset_bytes, is_data, .. }) = self.next else { return Ok(()) };
        emit(&encode_change(match is_data {
            true => Change::Write { offset_bytes, len_bytes },
            false => Change::Zero { offset_bytes, len_bytes },
        }))?;
        self.consume(len_bytes, emit)
    }

    /// Drops the beginning of the next change.
    fn skip(&mut self, len_bytes: u64) -> Result<()> {
        self.consume(len_bytes, &mut |_: &[u8]| Ok(()))
    }

    fn consume<E: From<Error>>(
        &mut self,
        len_bytes: u64,
        emit: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(piece) = &mut self.next else { return Ok(()) };
        let mut left_bytes = if piece.is_data { len_bytes } else { 0 };
        while left_bytes > 0 {
            let data = self.reader.read_data(left_bytes.min(CHUNK_BYTES))?;
            left_bytes -= data.len() as u64;
            emit(&data)?;
        }
        piece.offset_bytes += len_bytes;
        piece.len_bytes -= len_bytes;
        match (piece.len_bytes, piece.offset_bytes) {
            (0, end) => Ok(self.read_next(end)?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
