//! Blosc 1: blocks that are compressed one by one, mostly after a shuffle.
//!
//! A header of 16 bytes has the sizes and the compressor. The start of each block follows, 4 bytes
//! each. A block has one stream, or one for each byte of an element; a stream begins with its size,
//! and a stream of the block's own size is not compressed. Source: `README_CHUNK_FORMAT.rst` of
//! c-blosc.

use super::{ZSTD_LEVEL, corrupt, shuffle, too_large};
use crate::block::Tick;
use benthic_core::{Error, Result};
use flate2::read::ZlibDecoder;
use std::io::{self, Read};
use zstd::bulk::{Compressor, Decompressor};

const HEADER_BYTES: usize = 16;
const SHUFFLE: u8 = 0x01;
const COPY: u8 = 0x02;
const BIT_SHUFFLE: u8 = 0x04;
const ONE_STREAM: u8 = 0x10;
/// A block has one stream if its elements are larger than this, or if a stream would have fewer
/// elements.
const SPLIT_ELEMENT_BYTES_MAX: usize = 16;
const SPLIT_ELEMENTS_MIN: usize = 128;
/// Blosc writes no smaller blocks, unless the data are smaller. Many tiny blocks would take long.
const BLOCK_BYTES_MIN: usize = 64;
const BLOCKS_PER_TICK: usize = 1024;
/// The numbers that [`encode`] writes: the version of the format, that of zstd's data in it, and
/// zstd's number.
const VERSION: u8 = 2;
const ZSTD_VERSION: u8 = 1;
const ZSTD: u8 = 4;
/// Size of the blocks that [`encode`] writes. Each is in the cache of a core while it is encoded.
const BLOCK_BYTES: usize = 256 << 10;

fn damaged() -> Error {
    corrupt("a chunk is not Blosc data")
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<usize> {
    let value = bytes.get(offset..).and_then(<[u8]>::first_chunk::<4>).ok_or_else(damaged)?;
    Ok(u32::from_le_bytes(*value) as usize)
}

/// Decodes at most `max_bytes` bytes. Calls `tick` between blocks.
///
/// # Errors
/// `Corrupt`, also for the compressor Snappy, which current versions of Blosc lack.
pub fn decode(encoded: &[u8], max_bytes: usize, tick: Tick<'_>) -> Result<Vec<u8>> {
    if encoded.len() < HEADER_BYTES {
        return Err(damaged());
    }
    let (flags, element_bytes) = (encoded[2], usize::from(encoded[3]));
    let (size_bytes, block_bytes) = (u32_at(encoded, 4)?, u32_at(encoded, 8)?);
    if size_bytes > max_bytes {
        return Err(too_large(max_bytes));
    }
    if size_bytes == 0 {
        return Ok(Vec::new());
    }
    if flags & COPY != 0 {
        let copied = encoded[HEADER_BYTES..].get(..size_bytes);
        return copied.map(<[u8]>::to_vec).ok_or_else(damaged);
    }
    if element_bytes == 0 || block_bytes == 0 || block_bytes > size_bytes {
        return Err(damaged());
    }
    if block_bytes < BLOCK_BYTES_MIN && block_bytes < size_bytes {
        return Err(damaged());
    }
    let zstd = Decompressor::new().map_err(|error| damaged().with_source(error))?;
    let streams = Vec::new();
    let mut decoder = BlockDecoder { encoded, compressor: flags >> 5, flags, element_bytes, zstd, streams };
    let mut out = vec![0; size_bytes];
    for (block, out) in out.chunks_mut(block_bytes).enumerate() {
        if block % BLOCKS_PER_TICK == BLOCKS_PER_TICK - 1 {
            tick()?;
        }
        let start = u32_at(encoded, HEADER_BYTES + 4 * block)?;
        let is_short = out.len() < block_bytes;
        decoder.decode(start, is_short, out)?;
    }
    Ok(out)
}

/// Encodes elements with zstd, after a shuffle if an element has several bytes. Data that do not
/// shrink are copied.
///
/// # Errors
/// Those of zstd.
pub fn encode(data: &[u8], element_bytes: usize) -> io::Result<Vec<u8>> {
    // An element has at most 8 bytes, and a chunk less than 4 GiB.
    let header = |flags: u8, block_bytes: usize, encoded_bytes: usize| {
        let mut header = vec![VERSION, ZSTD_VERSION, flags | ZSTD << 5, element_bytes as u8];
        for size in [data.len(), block_bytes, encoded_bytes] {
            header.extend((size as u32).to_le_bytes());
        }
        header
    };
    let block_bytes = BLOCK_BYTES.min(data.len());
    let blocks = data.chunks(BLOCK_BYTES);
    let flags = if element_bytes > 1 { ONE_STREAM | SHUFFLE } else { ONE_STREAM };
    let mut encoded = header(flags, block_bytes, 0);
    encoded.resize(HEADER_BYTES + 4 * blocks.len(), 0);
    let mut zstd = Compressor::new(ZSTD_LEVEL)?;
    for (index, block) in blocks.enumerate() {
        let at = HEADER_BYTES + 4 * index;
        let start = (encoded.len() as u32).to_le_bytes();
        encoded[at..at + 4].copy_from_slice(&start);
        let shuffled = shuffle::shuffle(block, element_bytes);
        let compressed = zstd.compress(&shuffled)?;
        let stream = if compressed.len() < shuffled.len() { compressed } else { shuffled };
        encoded.extend((stream.len() as u32).to_le_bytes());
        encoded.extend(stream);
    }
    if encoded.len() >= HEADER_BYTES + data.len() {
        let mut copied = header(COPY | ONE_STREAM, block_bytes, HEADER_BYTES + data.len());
        copied.extend_from_slice(data);
        return Ok(copied);
    }
    let encoded_bytes = (encoded.len() as u32).to_le_bytes();
    encoded[12..16].copy_from_slice(&encoded_bytes);
    Ok(encoded)
}

struct BlockDecoder<'a> {
    encoded: &'a [u8],
    zstd: Decompressor<'static>,
    compressor: u8,
    flags: u8,
    element_bytes: usize,
    /// The decompressed streams of a block; kept for its memory.
    streams: Vec<u8>,
}

impl BlockDecoder<'_> {
    fn decode(&mut self, mut start: usize, is_short: bool, out: &mut [u8]) -> Result<()> {
        let len = out.len();
        let is_split = self.flags & ONE_STREAM == 0
            && self.element_bytes <= SPLIT_ELEMENT_BYTES_MAX
            && len / self.element_bytes >= SPLIT_ELEMENTS_MIN
            && !is_short;
        let streams = if is_split { self.element_bytes } else { 1 };
        let stream_len = len / streams;
        let mut data = std::mem::take(&mut self.streams);
        data.clear();
        for _ in 0..streams {
            let stored = u32_at(self.encoded, start)?;
            let stream =
                self.encoded.get(start + 4..).and_then(|rest| rest.get(..stored)).ok_or_else(damaged)?;
            if stored == stream_len {
                data.extend_from_slice(stream);
            } else {
                self.decompress(stream, stream_len, &mut data)?;
            }
            start += 4 + stored;
        }
        if data.len() != len {
            return Err(damaged());
        }
        match self.flags & (SHUFFLE | BIT_SHUFFLE) {
            SHUFFLE => shuffle::unshuffle(&data, self.element_bytes, out),
            BIT_SHUFFLE => shuffle::unshuffle_bits(&data, self.element_bytes, out),
            _ => out.copy_from_slice(&data),
        }
        self.streams = data;
        Ok(())
    }

    /// Appends exactly `len` bytes.
    fn decompress(&mut self, stream: &[u8], len: usize, out: &mut Vec<u8>) -> Result<()> {
        let expected = out.len() + len;
        match self.compressor {
            0 => blosclz(stream, len, out)?,
            1 => {
                out.resize(expected, 0);
                let decoded = lz4_flex::block::decompress_into(stream, &mut out[expected - len..]);
                if decoded.map_err(|error| damaged().with_source(error))? != len {
                    return Err(damaged());
                }
            }
            3 => {
                let read = ZlibDecoder::new(stream).take(len as u64 + 1).read_to_end(out);
                read.map_err(|error| damaged().with_source(error))?;
            }
            4 => {
                out.resize(expected, 0);
                let decoded = self.zstd.decompress_to_buffer(stream, &mut out[expected - len..]);
                if decoded.map_err(|error| damaged().with_source(error))? != len {
                    return Err(damaged());
                }
            }
            other => {
                return Err(corrupt("a chunk has an unknown compressor of Blosc").with("compressor", other));
            }
        }
        if out.len() == expected { Ok(()) } else { Err(damaged()) }
    }
}

/// BloscLZ: runs of literals, and copies of earlier output. A control byte under 32 announces that
/// many literals and one more. Otherwise its upper three bits and the bytes that follow have the
/// length of a copy, and its lower five bits and the next byte the distance; the largest distance
/// continues with 16 more bits.
fn blosclz(stream: &[u8], len: usize, out: &mut Vec<u8>) -> Result<()> {
    let (begin, end) = (out.len(), out.len() + len);
    let mut input = stream.iter().copied();
    let mut next = || input.next().ok_or_else(damaged);
    // The upper bits of the first control byte have no meaning.
    let mut control = usize::from(next()?) & 31;
    loop {
        if control < 32 {
            for _ in 0..=control {
                out.push(next()?);
            }
        } else {
            let mut copied = (control >> 5) - 1;
            if copied == 6 {
                loop {
                    let more = next()?;
                    copied += usize::from(more);
                    if more != 255 || copied > len {
                        break;
                    }
                }
            }
            copied += 3;
            let high = (control & 31) << 8;
            let low = usize::from(next()?);
            let distance = if high == 31 << 8 && low == 255 {
                (usize::from(next()?) << 8) + usize::from(next()?) + 8_191
            } else {
                high + low
            } + 1;
            let from = out.len().checked_sub(distance).filter(|from| *from >= begin).ok_or_else(damaged)?;
            if copied > end - out.len().min(end) {
                return Err(damaged());
            }
            // The source may overlap the copy.
            for index in from..from + copied {
                out.push(out[index]);
            }
        }
        if out.len() > end {
            return Err(damaged());
        }
        match next() {
            Ok(byte) => control = usize::from(byte),
            Err(_) => return Ok(()),
        }
    }
}
