//! Reads of an object's chunks from the data file. Every byte is verified.

use super::data::{DataFile, Source};
use super::keys::{BLOCK_BYTES, CHUNK_BYTES, Chunk, data_crc};
use benthic_core::{Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A long read alternates between reading and verifying this much, so that the data is still in the
/// processor's cache when it is verified.
const PIECE_BYTES: usize = 4 * CHUNK_BYTES as usize;

impl DataFile {
    /// Reads a range of object `oid` from its chunks. A missing chunk reads as zeros.
    pub fn read_chunks(
        &self,
        oid: u64,
        chunks: &BTreeMap<u32, Chunk>,
        offset_bytes: u64,
        len_bytes: u64,
        source: Source,
    ) -> Result<Bytes> {
        let mut buffer = self.buffers.take(len_bytes as usize);
        let target = buffer.as_mut();
        if let Some(start_bytes) = one_run(chunks, offset_bytes, len_bytes)
            && self.read_run(oid, chunks, start_bytes, target, source)?
        {
            return Ok(buffer.freeze());
        }
        target.fill(0);
        for (index, chunk) in chunks {
            let base = u64::from(*index) * CHUNK_BYTES;
            let from = offset_bytes.max(base);
            let to = (offset_bytes + len_bytes).min(base + CHUNK_BYTES);
            let target = &mut target[(from - offset_bytes) as usize..(to - offset_bytes) as usize];
            self.read_chunk(oid, base, chunk, from - base, target, source)?;
        }
        Ok(buffer.freeze())
    }

    /// Fills `target` with the data of `chunks` from the run of [`one_run`]. Returns false if it
    /// cannot be read. Reading it chunk by chunk then names the chunk in the error.
    fn read_run(
        &self,
        oid: u64,
        chunks: &BTreeMap<u32, Chunk>,
        start_bytes: u64,
        target: &mut [u8],
        source: Source,
    ) -> Result<bool> {
        let mut chunks = chunks.iter();
        for (piece, at) in target.chunks_mut(PIECE_BYTES).zip((start_bytes..).step_by(PIECE_BYTES)) {
            if self.read(at, piece, source).is_err() {
                return Ok(false);
            }
            for (data, (index, chunk)) in piece.chunks(CHUNK_BYTES as usize).zip(&mut chunks) {
                let base = u64::from(*index) * CHUNK_BYTES;
                if !matches!(chunk, Chunk::Stream { crc, .. } if data_crc(oid, base, data) == *crc) {
                    return Err(mismatch(base));
                }
            }
        }
        Ok(true)
    }

    /// Fills `target`, which must be zeroed, with the chunk's data from `from_bytes` on. The offset
    /// is relative to the chunk.
    pub fn read_chunk(
        &self,
        oid: u64,
        base_bytes: u64,
        chunk: &Chunk,
        from_bytes: u64,
        target: &mut [u8],
        source: Source,
    ) -> Result<()> {
        assert!(base_bytes.is_multiple_of(CHUNK_BYTES), "a chunk starts at a multiple of its length");
        assert!(from_bytes + target.len() as u64 <= CHUNK_BYTES, "a read of a chunk ends with the chunk");
        let read = |logical, offset_bytes, crc, buffer: &mut [u8]| {
            self.read_verified(oid, logical, offset_bytes, crc, buffer, source)
        };
        match chunk {
            Chunk::Stream { offset_bytes, len_bytes, crc } => {
                let len = *len_bytes as usize;
                if from_bytes == 0 && target.len() >= len {
                    return read(base_bytes, *offset_bytes, *crc, &mut target[..len]);
                }
                let mut whole = vec![0; len];
                read(base_bytes, *offset_bytes, *crc, &mut whole)?;
                let wanted = whole.get(from_bytes as usize..).unwrap_or_default();
                let count = wanted.len().min(target.len());
                target[..count].copy_from_slice(&wanted[..count]);
            }
            Chunk::Blocks(blocks) => {
                let to_bytes = from_bytes + target.len() as u64;
                for (index, block) in blocks.iter().enumerate() {
                    let start = index as u64 * BLOCK_BYTES;
                    let Some(block) = block else { continue };
                    if start + BLOCK_BYTES <= from_bytes || start >= to_bytes {
                        continue;
                    }
                    let (from, to) = (start.max(from_bytes), (start + BLOCK_BYTES).min(to_bytes));
                    let target = &mut target[(from - from_bytes) as usize..(to - from_bytes) as usize];
                    let logical = base_bytes + start;
                    if target.len() as u64 == BLOCK_BYTES {
                        read(logical, block.offset_bytes, block.crc, target)?;
                    } else {
                        let mut whole = [0; BLOCK_BYTES as usize];
                        read(logical, block.offset_bytes, block.crc, &mut whole)?;
                        target.copy_from_slice(&whole[(from - start) as usize..(to - start) as usize]);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_verified(
        &self,
        oid: u64,
        logical: u64,
        offset_bytes: u64,
        crc: u32,
        buffer: &mut [u8],
        source: Source,
    ) -> Result<()> {
        self.read(offset_bytes, buffer, source).map_err(|error| error.with("offset_bytes", logical))?;
        if data_crc(oid, logical, buffer) == crc {
            return Ok(());
        }
        buffer.fill(0);
        Err(mismatch(logical))
    }
}

fn mismatch(logical: u64) -> Error {
    Error::corrupt("the data does not match its checksum").with("offset_bytes", logical)
}

/// The place in the data file of a range of an object, if the range consists of complete streams
/// that are adjacent there. A single write of the whole range leaves such streams.
fn one_run(chunks: &BTreeMap<u32, Chunk>, offset_bytes: u64, len_bytes: u64) -> Option<u64> {
    let Some(Chunk::Stream { offset_bytes: start_bytes, .. }) = chunks.values().next() else { return None };
    let mut done_bytes = 0;
    for (index, chunk) in chunks {
        let Chunk::Stream { offset_bytes: at_bytes, len_bytes: stream_bytes, .. } = chunk else {
            return None;
        };
        let adjacent = *at_bytes == start_bytes + done_bytes;
        let in_order = u64::from(*index) * CHUNK_BYTES == offset_bytes + done_bytes;
        let wanted_bytes = (len_bytes - done_bytes).min(CHUNK_BYTES);
        if !adjacent || !in_order || u64::from(*stream_bytes) != wanted_bytes {
            return None;
        }
        done_bytes += wanted_bytes;
    }
    (done_bytes == len_bytes).then_some(*start_bytes)
}

#[cfg(test)]
#[path = "chunks_tests.rs"]
mod tests;
