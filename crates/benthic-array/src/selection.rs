//! Selections: along each axis, a start, a step and a count.

use benthic_core::codec::{Decoded, Decoder, Malformed, Wire};
use benthic_core::{Error, Result, wire_struct};

/// Limit on the axes of an array, as in NumPy 1.
pub const AXES_MAX: usize = 32;

/// The selected positions along one axis: `start`, `start + step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub start: u64,
    /// At least 1.
    pub step: u64,
    pub count: u64,
}

wire_struct! { Slice { start, step, count } }

impl Slice {
    pub fn all(len: u64) -> Slice {
        Slice { start: 0, step: 1, count: len }
    }

    /// Fails if the slice has the step 0 or leaves an axis of this length.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, len: u64) -> Result<()> {
        let invalid = |message: &str| {
            Err(Error::invalid_argument(message)
                .with("start", self.start)
                .with("step", self.step)
                .with("count", self.count)
                .with("len", len))
        };
        if self.step == 0 {
            return invalid("the step of a slice must not be 0");
        }
        if self.count == 0 {
            return Ok(());
        }
        let last = (self.count - 1).checked_mul(self.step).and_then(|far| far.checked_add(self.start));
        match last {
            Some(last) if last < len => Ok(()),
            _ => invalid("a slice leaves its axis"),
        }
    }

    /// The part of this slice within `len` positions from `origin`. Returns the slice relative to
    /// `origin`, and the index in this slice of its first position. `None` if no position is there.
    pub fn within(&self, origin: u64, len: u64) -> Option<(Slice, u64)> {
        let first = origin.saturating_sub(self.start).div_ceil(self.step);
        let end = origin.saturating_add(len).saturating_sub(self.start).div_ceil(self.step).min(self.count);
        let count = end.checked_sub(first).filter(|count| *count > 0)?;
        let start = self.start + first * self.step - origin;
        Some((Slice { start, step: self.step, count }, first))
    }
}

/// A part of a selection that lies in one box: the slices relative to the box, and the index of its
/// first element in the whole selection, both by axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub slices: Vec<Slice>,
    pub first: Vec<u64>,
}

impl Part {
    /// Checks that the part lies in a selection with these counts.
    ///
    /// # Errors
    /// `Internal`.
    pub fn check_within(&self, selected: &[u64]) -> Result<()> {
        let is_in = |((slice, first), count): ((&Slice, &u64), &u64)| {
            first.checked_add(slice.count).is_some_and(|end| end <= *count)
        };
        match self.slices.len() == selected.len()
            && self.slices.iter().zip(&self.first).zip(selected).all(is_in)
        {
            true => Ok(()),
            false => Err(Error::internal("a block is not in the selection")),
        }
    }
}

/// The part of a selection in one box, such as a chunk. `None` if no element is there.
pub fn within(slices: &[Slice], origin: &[u64], shape: &[u64]) -> Option<Part> {
    let mut part = Part { slices: Vec::with_capacity(slices.len()), first: Vec::with_capacity(slices.len()) };
    for ((slice, origin), len) in slices.iter().zip(origin).zip(shape) {
        let (slice, first) = slice.within(*origin, *len)?;
        part.slices.push(slice);
        part.first.push(first);
    }
    Some(part)
}

/// The number of selected positions along each axis.
pub fn counts(slices: &[Slice]) -> Vec<u64> {
    slices.iter().map(|slice| slice.count).collect()
}

/// The number of elements of a box. Fails with `LimitExceeded` if it does not fit 64 bits.
pub fn elements(shape: &[u64]) -> Result<u64> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    product.ok_or_else(|| Error::limit_exceeded("an array has too many elements"))
}

/// The strides of a C-order array, in elements. Products that do not fit 64 bits saturate.
pub fn strides(shape: &[u64]) -> Vec<u64> {
    let mut stride = 1u64;
    let mut strides: Vec<u64> = shape
        .iter()
        .rev()
        .map(|len| {
            let own = stride;
            stride = stride.saturating_mul(*len);
            own
        })
        .collect();
    strides.reverse();
    strides
}

/// The positions in the grid of the chunks that a selection touches, in C order. There are none if
/// an axis has no selected position.
pub struct TouchedChunks {
    slices: Vec<Slice>,
    chunk_shape: Vec<u64>,
    next: Option<Vec<u64>>,
}

impl TouchedChunks {
    /// No length of the chunks is 0. The slices are in range.
    pub fn new(slices: &[Slice], chunk_shape: &[u64]) -> TouchedChunks {
        let is_empty = slices.iter().any(|slice| slice.count == 0);
        let first = slices.iter().zip(chunk_shape).map(|(slice, len)| slice.start / len).collect();
        TouchedChunks {
            slices: slices.to_vec(),
            chunk_shape: chunk_shape.to_vec(),
            next: (!is_empty).then_some(first),
        }
    }

    /// The number of touched chunks, saturating.
    pub fn count(slices: &[Slice], chunk_shape: &[u64]) -> u64 {
        slices.iter().zip(chunk_shape).fold(1, |product: u64, (slice, len)| {
            let touched = match slice.count {
                0 => 0,
                _ if slice.step >= *len => slice.count,
                _ => (slice.start + (slice.count - 1) * slice.step) / len - slice.start / len + 1,
            };
            product.saturating_mul(touched)
        })
    }

    /// The next touched chunk along an axis.
    fn after(&self, axis: usize, chunk: u64) -> Option<u64> {
        let (slice, len) = (self.slices[axis], self.chunk_shape[axis]);
        let first = ((chunk + 1) * len).saturating_sub(slice.start).div_ceil(slice.step);
        (first < slice.count).then(|| (slice.start + first * slice.step) / len)
    }
}

impl Iterator for TouchedChunks {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let current = self.next.take()?;
        let mut next = current.clone();
        for axis in (0..next.len()).rev() {
            if let Some(chunk) = self.after(axis, next[axis]) {
                next[axis] = chunk;
                self.next = Some(next);
                break;
            }
            next[axis] = self.slices[axis].start / self.chunk_shape[axis];
        }
        Some(current)
    }
}

/// A list of at most `MAX` items, also in memory: a decoder of a longer one stops at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded<T, const MAX: usize>(pub Vec<T>);

/// A list with one item for each axis.
pub type PerAxis<T> = Bounded<T, AXES_MAX>;

impl<T, const MAX: usize> Default for Bounded<T, MAX> {
    fn default() -> Self {
        Bounded(Vec::new())
    }
}

impl<T: Wire, const MAX: usize> Wire for Bounded<T, MAX> {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        let len = input.len(1)?;
        if len > MAX {
            return Err(Malformed);
        }
        (0..len).map(|_| T::get(input)).collect::<Decoded<_>>().map(Bounded)
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
