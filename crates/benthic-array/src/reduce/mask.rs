//! Masks: which elements of a selection a reduction uses, such as those over land.
//!
//! A mask is computed by the client from any other array, so the class needs no language for
//! conditions on several arrays. Only the bits for an object are sent to it: at most one for each
//! selected element.

use super::Number;
use crate::selection::{AXES_MAX, Bounded, Part, PerAxis, counts, elements, strides};
use benthic_core::{Error, Result, wire_struct};
use bytes::Bytes;

/// Elements that a mask leaves out count as missing values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// For each axis the number of selected positions, or 1 if the mask repeats along the axis.
    pub shape: PerAxis<u64>,
    /// A bit for each position of the shape in C order, the lowest bit of a byte first. 1 keeps the
    /// element.
    pub bits: Bytes,
}

wire_struct! { Mask { shape, bits } }

impl Mask {
    /// A mask of this shape.
    ///
    /// # Errors
    /// `InvalidArgument` if the number of values does not fit the shape.
    pub fn new(shape: Vec<u64>, keeps: impl IntoIterator<Item = bool>) -> Result<Mask> {
        let mut bits = vec![0; elements(&shape)?.div_ceil(8) as usize];
        let mut len = 0;
        for keeps in keeps {
            let byte: Option<&mut u8> = bits.get_mut(len / 8);
            *byte.ok_or_else(wrong_size)? |= u8::from(keeps) << (len % 8);
            len += 1;
        }
        match len as u64 == elements(&shape)? {
            true => Ok(Mask { shape: Bounded(shape), bits: bits.into() }),
            false => Err(wrong_size()),
        }
    }

    /// Checks a mask for a selection with these counts.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, selected: &[u64]) -> Result<()> {
        let shape = &self.shape.0;
        let fits = shape.len() == selected.len() && shape.len() <= AXES_MAX;
        if !fits || !shape.iter().zip(selected).all(|(len, count)| *len == 1 || len == count) {
            let message = "a mask needs for each axis the number of selected positions, or 1 to repeat it";
            return Err(Error::invalid_argument(message)
                .with("mask", shape_text(shape))
                .with("selected", shape_text(selected)));
        }
        if self.bits.len() as u64 == elements(shape)?.div_ceil(8) { Ok(()) } else { Err(wrong_size()) }
    }

    /// The mask of a part of the selection.
    pub fn of_part(&self, part: &Part) -> Mask {
        let shape = self.part_shape(part);
        let mut bits = vec![0; shape.iter().product::<u64>().div_ceil(8) as usize];
        let mut next = 0;
        self.each_position(part, &shape, |keeps| {
            bits[next / 8] |= u8::from(keeps) << (next % 8);
            next += 1;
            true
        });
        Mask { shape: Bounded(shape), bits: bits.into() }
    }

    /// Whether the mask keeps no element of a part of the selection.
    pub fn leaves_out(&self, part: &Part) -> bool {
        let mut keeps_any = false;
        self.each_position(part, &self.part_shape(part), |keeps| {
            keeps_any = keeps;
            !keeps
        });
        !keeps_any
    }

    fn part_shape(&self, part: &Part) -> Vec<u64> {
        let lens = self.shape.0.iter().zip(counts(&part.slices));
        lens.map(|(len, count)| if *len == 1 { 1 } else { count }).collect()
    }

    /// Calls a function for each position of a part in C order, until it returns false.
    fn each_position(&self, part: &Part, shape: &[u64], mut visit: impl FnMut(bool) -> bool) {
        let rows = MaskRows::new(self);
        let (row_len, outer) = shape.split_last().map_or((1, shape), |(last, outer)| (*last, outer));
        let outer_strides = strides(outer);
        let mut indexes = vec![0; shape.len()];
        for row in 0..outer.iter().product() {
            for ((index, stride), len) in indexes.iter_mut().zip(&outer_strides).zip(outer) {
                *index = row / stride % len;
            }
            if !rows.row(&part.first, &indexes, 0).take(row_len as usize).all(&mut visit) {
                return;
            }
        }
    }
}

/// The bits of a mask by the index of an element in the selection.
pub(super) struct MaskRows<'m> {
    bits: &'m [u8],
    /// 0 for an axis along which the mask repeats.
    strides: Vec<u64>,
}

impl MaskRows<'_> {
    pub fn new(mask: &Mask) -> MaskRows<'_> {
        let strides = strides(&mask.shape.0).into_iter().zip(&mask.shape.0);
        MaskRows {
            bits: &mask.bits,
            strides: strides.map(|(stride, len)| if *len == 1 { 0 } else { stride }).collect(),
        }
    }

    /// Whether the mask keeps each element along the last axis from `skipped` on, without an end.
    /// The index of the first one of the row is `first` plus `indexes`. The elements must lie in
    /// the selection.
    fn row(&self, first: &[u64], indexes: &[u64], skipped: u64) -> impl Iterator<Item = bool> {
        let axes = self.strides.iter().zip(first).zip(indexes);
        let start: u64 = axes.map(|((stride, first), index)| stride * (first + index)).sum();
        let step = self.strides.last().copied().unwrap_or(0);
        (skipped..).map(move |index| {
            let bit = start + index * step;
            self.bits[(bit / 8) as usize] >> (bit % 8) & 1 == 1
        })
    }

    /// Makes the values of a row that the mask leaves out missing. `skipped` is the number of
    /// values of the row before these.
    pub fn apply<V: Number>(&self, first: &[u64], indexes: &[u64], skipped: usize, values: &mut [V]) {
        for (value, keeps) in values.iter_mut().zip(self.row(first, indexes, skipped as u64)) {
            if !keeps {
                value.make_missing();
            }
        }
    }
}

fn wrong_size() -> Error {
    Error::invalid_argument("a mask needs one bit for each position of its shape")
}

fn shape_text(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;
