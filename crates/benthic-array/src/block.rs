//! Decoded elements in memory, and the rows of a selection of them.

use crate::dtype::{Dtype, Element};
use crate::selection::Slice;
use benthic_core::Result;
use bytes::Bytes;

/// The decoded elements of a chunk, little-endian. A stride of 0 repeats an element, so that a
/// chunk of fill values takes one element.
#[derive(Debug)]
pub struct Block {
    pub dtype: Dtype,
    pub data: Bytes,
    /// By axis, in elements.
    pub strides: Vec<u64>,
}

/// Is called from time to time during long work, and fails if there is no time left.
pub type Tick<'a> = &'a mut dyn FnMut() -> Result<()>;

/// The number of elements between two ticks. A row counts as some elements, because an empty row
/// takes time, too.
const TICK_ELEMENTS: usize = 1 << 20;
const ROW_ELEMENTS: usize = 16;

/// A run of elements along the last axis of a selection.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub dtype: Dtype,
    /// Begins with the first element.
    data: &'a [u8],
    /// Distance of two elements, in elements.
    stride: usize,
    pub count: usize,
}

impl Block {
    /// A block in which every element is this one.
    pub fn filled(dtype: Dtype, element: &[u8], axes: usize) -> Block {
        Block { dtype, data: Bytes::copy_from_slice(element), strides: vec![0; axes] }
    }

    /// Calls a function with each row of a selection, which must lie in the block, in C order. The
    /// second argument is the index of the row's first element in the selection. The function calls
    /// the tick if it works long on one row.
    ///
    /// # Errors
    /// Those of the function and of the tick.
    pub fn rows(
        &self,
        slices: &[Slice],
        tick: Tick<'_>,
        mut visit: impl FnMut(Row<'_>, &[u64], Tick<'_>) -> Result<()>,
    ) -> Result<()> {
        let size_bytes = self.dtype.size_bytes();
        let offset = |indexes: &[u64]| {
            let steps = slices.iter().zip(&self.strides).zip(indexes);
            steps.map(|((slice, stride), index)| (slice.start + index * slice.step) * stride).sum::<u64>()
        };
        if slices.iter().any(|slice| slice.count == 0) {
            return Ok(());
        }
        let (count, stride) = match (slices.last(), self.strides.last()) {
            // The step of a single element may be any number.
            (Some(slice), Some(stride)) if slice.count > 1 => {
                (slice.count as usize, (stride * slice.step) as usize)
            }
            _ => (1, 1),
        };
        let outer_axes = slices.len().saturating_sub(1);
        let mut indexes = vec![0; slices.len()];
        let mut since_tick = 0;
        loop {
            let data = &self.data[offset(&indexes) as usize * size_bytes..];
            visit(Row { dtype: self.dtype, data, stride, count }, &indexes, tick)?;
            since_tick += count + ROW_ELEMENTS;
            if since_tick >= TICK_ELEMENTS {
                since_tick = 0;
                tick()?;
            }
            // The index of the next row, as an odometer counts.
            let mut axis = outer_axes;
            loop {
                if axis == 0 {
                    return Ok(());
                }
                axis -= 1;
                indexes[axis] += 1;
                if indexes[axis] < slices[axis].count {
                    break;
                }
                indexes[axis] = 0;
            }
        }
    }
}

impl<'a> Row<'a> {
    /// Appends a value for each element. `T` must be the type of the elements.
    pub fn map_to<T: Element, V>(&self, out: &mut Vec<V>, value: impl Fn(T) -> V) {
        if self.stride == 1 {
            let elements = self.data[..self.count * T::SIZE_BYTES].chunks_exact(T::SIZE_BYTES);
            out.extend(elements.map(|element| value(T::from_le(element))));
            return;
        }
        let stride_bytes = self.stride * T::SIZE_BYTES;
        out.extend((0..self.count).map(|index| {
            let start = index * stride_bytes;
            value(T::from_le(&self.data[start..start + T::SIZE_BYTES]))
        }));
    }

    /// The row in pieces of at most `count_max` elements.
    pub fn runs(self, count_max: usize) -> impl Iterator<Item = Row<'a>> {
        let stride_bytes = self.stride * self.dtype.size_bytes();
        (0..self.count).step_by(count_max).map(move |start| Row {
            data: &self.data[start * stride_bytes..],
            count: count_max.min(self.count - start),
            ..self
        })
    }

    /// Appends the elements to a buffer.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let size_bytes = self.dtype.size_bytes();
        if self.stride == 1 {
            out.extend_from_slice(&self.data[..self.count * size_bytes]);
            return;
        }
        for index in 0..self.count {
            let start = index * self.stride * size_bytes;
            out.extend_from_slice(&self.data[start..start + size_bytes]);
        }
    }
}
