//! Arrays that a file stores in C order, in one block or a block for each record.

use super::{FileChunks, not_in_chunks};
use benthic_array::decoders::ByteRange;
use benthic_array::{CHUNKS_MAX, Dtype};
use benthic_core::Result;

/// Approximate limit on a chunk.
const CHUNK_BYTES: u64 = 4 << 20;

/// The place of an array in a file.
pub struct Block {
    pub offset_bytes: u64,
    /// The distance between two records, if the array has them. A record is a position along the
    /// first axis. `None` if the positions follow each other.
    pub record_bytes: Option<u64>,
}

/// Divides an array into chunks, each of which is one range. Only the first axes are divided,
/// because their positions follow each other.
///
/// # Errors
/// `Unsupported` for an array without elements, or with too many chunks.
pub fn divide(shape: &[u64], dtype: Dtype, block: &Block, is_big_endian: bool) -> Result<FileChunks> {
    if shape.contains(&0) {
        return Err(not_in_chunks("it has no elements"));
    }
    let element_bytes = dtype.size_bytes() as u64;
    // The distance between two positions along each axis.
    let mut strides = vec![element_bytes; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    let mut first = 0;
    if let (Some(record_bytes), Some(stride)) = (block.record_bytes, strides.first_mut())
        && record_bytes != *stride
    {
        (*stride, first) = (record_bytes, 1);
    }
    let mut chunk_shape = shape.to_vec();
    chunk_shape[..first].fill(1);
    for axis in first..shape.len() {
        chunk_shape[axis] = (CHUNK_BYTES / strides[axis].max(1)).clamp(1, shape[axis]);
        if strides[axis] <= CHUNK_BYTES {
            break;
        }
    }
    let grid: Vec<u64> = shape.iter().zip(&chunk_shape).map(|(len, chunk)| len.div_ceil(*chunk)).collect();
    let chunks = grid.iter().fold(1u64, |product, len| product.saturating_mul(*len));
    if chunks > CHUNKS_MAX {
        return Err(not_in_chunks("it has too many chunks"));
    }
    let range = |mut chunk: u64| {
        let (mut offset_bytes, mut len_bytes) = (block.offset_bytes, element_bytes);
        for axis in (0..shape.len()).rev() {
            let start = chunk % grid[axis] * chunk_shape[axis];
            chunk /= grid[axis];
            offset_bytes = offset_bytes.saturating_add(start.saturating_mul(strides[axis]));
            len_bytes = len_bytes.saturating_mul(chunk_shape[axis].min(shape[axis] - start));
        }
        Some(ByteRange { offset_bytes, len_bytes })
    };
    let ranges = (0..chunks).map(range).collect();
    Ok(FileChunks { chunk_shape, is_clipped: true, is_big_endian, codecs: Vec::new(), ranges })
}

#[cfg(test)]
#[path = "contiguous_tests.rs"]
mod tests;
