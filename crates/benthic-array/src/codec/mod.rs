//! The codecs of a chunk: how stored bytes become elements.
//!
//! Zarr v3 calls the list of codecs a pipeline: codecs from array to array, one from array to
//! bytes, and codecs from bytes to bytes. Reading applies them in reverse. [`Pipeline::decode`]
//! knows the size of the result from the shape of the chunk. Each step fails rather than produce
//! much more than that, so stored bytes that claim to be small cannot fill memory.
//!
//! The crate `zarrs` has more codecs, but its decoders do not limit their output
//! (docs/design/0011).
//!
//! Sources: the Zarr v3 specification and its codec registry; `numcodecs` for the filters of v2.

mod blosc;
mod encode;
mod grib;
pub mod shuffle;

pub use encode::Compressor;

use crate::block::{Block, Tick};
use crate::dtype::Dtype;
use crate::selection::{self, Bounded, PerAxis};
use benthic_core::{Error, Result, wire_enum, wire_struct};
use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use std::io::{self, Read};

/// Limit on the codecs of a chunk.
pub const CODECS_MAX: usize = 16;
/// Limit on the decoded size of a chunk.
pub const CHUNK_BYTES_MAX: u64 = 1 << 30;
/// Level of zstd, also within Blosc. Higher levels take much longer, and hardly help shuffled
/// floats.
const ZSTD_LEVEL: i32 = 3;

/// A codec from bytes to bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BytesCodec {
    Blosc {},
    Gzip {},
    Zlib {},
    Zstd {},
    /// LZ4's block format after the decoded size, as `numcodecs` writes it.
    Lz4 {},
    /// Groups the bytes of elements by their significance.
    Shuffle {
        element_bytes: u32,
    },
    Crc32c {},
    Fletcher32 {},
    /// A field of a GRIB file. It must be the last codec.
    Grib {
        /// 4 or 8: decodes to float32 or float64.
        element_bytes: u32,
        /// The length of a row if every other row is stored backwards, else 0.
        row_elements: u32,
    },
}

wire_enum! {
    BytesCodec {
        0 Blosc {}
        1 Gzip {}
        2 Zlib {}
        3 Zstd {}
        4 Lz4 {}
        5 Shuffle { element_bytes: element_bytes }
        6 Crc32c {}
        7 Fletcher32 {}
        8 Grib { element_bytes: element_bytes, row_elements: row_elements }
    }
}

/// The codecs of a chunk, except for sharding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pipeline {
    /// The axes of the array, in the order in which they are stored. Empty for C order.
    pub order: PerAxis<u8>,
    pub is_big_endian: bool,
    /// In the order of encoding.
    pub bytes: Codecs,
}

/// Codecs from bytes to bytes.
pub type Codecs = Bounded<BytesCodec, CODECS_MAX>;

wire_struct! { Pipeline { order, is_big_endian, bytes } }

/// An error for stored bytes that contradict the metadata.
pub fn corrupt(message: impl Into<String>) -> Error {
    Error::corrupt(message)
}

impl Pipeline {
    /// Fails if the order is not a permutation of the axes.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, axes: usize) -> Result<()> {
        let order = &self.order.0;
        let has = |axis: usize| order.iter().filter(|stored| usize::from(**stored) == axis).count() == 1;
        if order.is_empty() || (order.len() == axes && (0..axes).all(has)) {
            return Ok(());
        }
        Err(Error::invalid_argument("a transposition does not name each axis once"))
    }

    /// Decodes a chunk of this type and shape. Calls `tick` between parts of the work. A chunk that
    /// is stored as it is is not copied.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are damaged or do not hold exactly this chunk; `LimitExceeded` if the
    /// chunk is larger than [`CHUNK_BYTES_MAX`].
    pub fn decode(&self, dtype: Dtype, shape: &[u64], encoded: &Bytes, tick: Tick<'_>) -> Result<Block> {
        let size_bytes = decoded_bytes(dtype, shape)?;
        let mut data = self.bytes.decode(encoded, size_bytes, tick)?;
        if data.len() != size_bytes {
            return Err(corrupt("a chunk has the wrong decoded size")
                .with("decoded_bytes", data.len())
                .with("expected_bytes", size_bytes));
        }
        if dtype == Dtype::Bool {
            // NumPy takes every byte but 0 as true.
            data = data.iter().map(|byte| u8::from(*byte != 0)).collect();
        } else if self.is_big_endian && dtype.size_bytes() > 1 {
            let mut swapped = Vec::from(data);
            swapped.chunks_exact_mut(dtype.size_bytes()).for_each(<[u8]>::reverse);
            data = swapped.into();
        }
        Ok(Block { dtype, data, strides: self.strides(shape) })
    }

    fn strides(&self, shape: &[u64]) -> Vec<u64> {
        let order = &self.order.0;
        if order.is_empty() {
            return selection::strides(shape);
        }
        let stored: Vec<u64> = order.iter().map(|axis| shape[usize::from(*axis)]).collect();
        let mut strides = vec![0; shape.len()];
        for (axis, stride) in order.iter().zip(selection::strides(&stored)) {
            strides[usize::from(*axis)] = stride;
        }
        strides
    }
}

/// The size of a decoded chunk.
///
/// # Errors
/// `LimitExceeded` if it is larger than [`CHUNK_BYTES_MAX`].
pub fn decoded_bytes(dtype: Dtype, shape: &[u64]) -> Result<usize> {
    let elements = selection::elements(shape)?;
    let size_bytes = elements.saturating_mul(dtype.size_bytes() as u64);
    if size_bytes > CHUNK_BYTES_MAX {
        return Err(Error::limit_exceeded("a chunk is too large")
            .with("decoded_bytes", size_bytes)
            .with("decoded_bytes_max", CHUNK_BYTES_MAX));
    }
    Ok(size_bytes as usize)
}

impl Codecs {
    /// Decodes bytes. The result has at most `size_bytes` bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(&self, encoded: &Bytes, size_bytes: usize, tick: Tick<'_>) -> Result<Bytes> {
        let Some((last, others)) = self.0.split_last() else {
            return match encoded.len() <= size_bytes {
                true => Ok(encoded.clone()),
                false => Err(too_large(size_bytes)),
            };
        };
        // An intermediate result may be larger than the chunk, for example by a checksum.
        let between_bytes = size_bytes + size_bytes / 8 + 4096;
        let max_bytes = |codec: usize| if codec == 0 { size_bytes } else { between_bytes };
        let mut data = last.decode(encoded, max_bytes(others.len()), tick)?;
        for (index, codec) in others.iter().enumerate().rev() {
            tick()?;
            data = codec.decode(&data, max_bytes(index), tick)?;
        }
        Ok(data)
    }
}

fn too_large(size_bytes: usize) -> Error {
    corrupt("a chunk decodes to more than its size").with("expected_bytes", size_bytes)
}

impl BytesCodec {
    fn decode(&self, encoded: &Bytes, max_bytes: usize, tick: Tick<'_>) -> Result<Bytes> {
        let checked = |digest: fn(&[u8]) -> u32| {
            let (data, stored) = encoded
                .split_last_chunk::<4>()
                .ok_or_else(|| corrupt("a chunk is shorter than its checksum"))?;
            if digest(data) != u32::from_le_bytes(*stored) {
                return Err(corrupt("the checksum of a chunk does not match"));
            }
            if data.len() > max_bytes { Err(too_large(max_bytes)) } else { Ok(encoded.slice_ref(data)) }
        };
        let decoded = match self {
            BytesCodec::Blosc {} => blosc::decode(encoded, max_bytes, tick),
            // The reader calls the tick, because a decoder may read for long without output.
            BytesCodec::Gzip {} => inflate(MultiGzDecoder::new(Ticking { encoded, tick }), max_bytes),
            BytesCodec::Zlib {} => inflate(ZlibDecoder::new(Ticking { encoded, tick }), max_bytes),
            BytesCodec::Zstd {} => zstd_decode(encoded, max_bytes),
            BytesCodec::Lz4 {} => {
                let damaged = || corrupt("a chunk is not LZ4 data");
                let (len, data) = encoded.split_first_chunk::<4>().ok_or_else(damaged)?;
                let len = u32::from_le_bytes(*len) as usize;
                if len > max_bytes {
                    return Err(too_large(max_bytes));
                }
                lz4_flex::block::decompress(data, len).map_err(|error| damaged().with_source(error))
            }
            BytesCodec::Shuffle { element_bytes } => {
                if encoded.len() > max_bytes {
                    return Err(too_large(max_bytes));
                }
                let mut data = vec![0; encoded.len()];
                shuffle::unshuffle(encoded, *element_bytes as usize, &mut data);
                Ok(data)
            }
            BytesCodec::Crc32c {} => return checked(crc32c::crc32c),
            BytesCodec::Fletcher32 {} => return checked(fletcher32),
            BytesCodec::Grib { element_bytes, row_elements } => {
                grib::decode(encoded, *element_bytes, *row_elements, max_bytes, tick)
            }
        };
        decoded.map(Bytes::from)
    }
}

/// A reader that calls a tick before each piece.
struct Ticking<'a> {
    encoded: &'a [u8],
    tick: Tick<'a>,
}

impl Read for Ticking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.tick)().map_err(io::Error::other)?;
        self.encoded.read(buffer)
    }
}

fn inflate(decoder: impl Read, max_bytes: usize) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    // One byte more shows that there is too much.
    decoder.take(max_bytes as u64 + 1).read_to_end(&mut data).map_err(|error| {
        match error.downcast::<Error>() {
            Ok(ticked) => ticked,
            Err(error) => corrupt("a chunk is not deflated data").with_source(error),
        }
    })?;
    if data.len() > max_bytes { Err(too_large(max_bytes)) } else { Ok(data) }
}

fn zstd_decode(encoded: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
    // The size that the frame states, if it states one, saves memory for small results.
    let stated = zstd::zstd_safe::get_frame_content_size(encoded).ok().flatten();
    let is_whole = zstd::zstd_safe::find_frame_compressed_size(encoded) == Ok(encoded.len());
    let capacity = match stated {
        Some(stated) if stated > max_bytes as u64 => return Err(too_large(max_bytes)),
        Some(stated) if is_whole => stated as usize,
        _ => max_bytes,
    };
    zstd::bulk::decompress(encoded, capacity)
        .map_err(|error| corrupt("a chunk is not zstd data").with_source(error))
}

/// Fletcher's checksum as HDF5 computes it: over 16-bit words in big-endian order, and with the
/// sums from 1 to 65,535 instead of the remainders from 0, except for a sum of zeros.
fn fletcher32(data: &[u8]) -> u32 {
    const WORDS_AT_ONCE: usize = 1024;
    let fold = |sum: u64| if sum == 0 { 0 } else { (sum - 1) % 65_535 + 1 };
    let (mut low, mut high) = (0, 0);
    for words in data.chunks(2 * WORDS_AT_ONCE) {
        for word in words.chunks(2) {
            low += u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    (high as u32) << 16 | low as u32
}
