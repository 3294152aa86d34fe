//! Copies the elements of blocks into an array in C order.

use crate::block::{Block, Tick};
use crate::selection::{Part, strides};
use benthic_core::{Error, Result};

/// Copies the selected elements of a block to their places in an array with these counts.
///
/// # Errors
/// `Internal` if the part does not lie in the array.
pub fn copy(block: &Block, part: &Part, counts: &[u64], out: &mut [u8], tick: Tick<'_>) -> Result<()> {
    let strides = strides(counts);
    let size_bytes = block.dtype.size_bytes();
    let mut row_bytes = Vec::new();
    block.rows(&part.slices, tick, |row, indexes, _| {
        row_bytes.clear();
        row.append_to(&mut row_bytes);
        let place = strides.iter().zip(&part.first).zip(indexes);
        let at: u64 = place.map(|((stride, first), index)| stride * (first + index)).sum();
        let start = at as usize * size_bytes;
        let target = out.get_mut(start..start + row_bytes.len());
        let target = target.ok_or_else(|| Error::internal("a block is not in the selection"))?;
        target.copy_from_slice(&row_bytes);
        Ok(())
    })
}

/// Copies a small array in C order to its place in a larger one.
///
/// # Errors
/// `Internal` if the data do not have the size of the small array.
pub fn place(
    data: &[u8],
    part_counts: &[u64],
    first: &[u64],
    counts: &[u64],
    size_bytes: usize,
    out: &mut [u8],
) -> Result<()> {
    let row_bytes = part_counts.last().map_or(1, |count| *count as usize) * size_bytes;
    let rows: u64 = part_counts.iter().rev().skip(1).product();
    if data.len() as u64 != rows * row_bytes as u64 {
        return Err(Error::internal("the output of the class array has the wrong size"));
    }
    let (ours, theirs) = (strides(part_counts), strides(counts));
    for (row, bytes) in (0..rows).zip(data.chunks_exact(row_bytes.max(1))) {
        let offset = row * part_counts.last().copied().unwrap_or(1);
        let along = ours.iter().zip(&theirs).zip(first.iter().zip(part_counts));
        let at: u64 =
            along.map(|((ours, theirs), (first, count))| (first + offset / ours % count) * theirs).sum();
        let start = at as usize * size_bytes;
        out[start..start + row_bytes].copy_from_slice(bytes);
    }
    Ok(())
}
