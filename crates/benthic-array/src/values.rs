//! Arrays in memory, the results of reads and reductions.

use crate::block::Block;
use crate::dtype::Dtype;
use crate::reduce::{Decoding, Number};
use crate::selection::Slice;

/// An array in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// The elements in C order, little-endian.
    pub data: Vec<u8>,
}

impl Values {
    /// The number of elements.
    pub fn count(&self) -> usize {
        self.data.len() / self.dtype.size_bytes()
    }

    /// The elements of an array of float64.
    pub fn float64s(&self) -> impl Iterator<Item = f64> {
        self.data.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes))
    }

    /// Appends a float to an array of floats.
    pub(crate) fn push_f64(&mut self, value: f64) {
        match self.dtype {
            Dtype::Float32 => self.data.extend_from_slice(&(value as f32).to_le_bytes()),
            _ => self.data.extend_from_slice(&value.to_le_bytes()),
        }
    }

    /// Appends the lowest bytes of an integer, as many as an element has.
    pub(crate) fn push_integer(&mut self, value: u64) {
        self.data.extend_from_slice(&value.to_le_bytes()[..self.dtype.size_bytes()]);
    }

    /// The values as floats, decoded.
    pub fn into_floats(self, decoding: Option<&Decoding>) -> Vec<f64> {
        let count = self.count() as u64;
        let block = Block { dtype: self.dtype, data: self.data.into(), strides: vec![1] };
        let mut floats = Vec::new();
        let read = block.rows(&[Slice::all(count)], &mut || Ok(()), |row, _, _| {
            f64::read(&row, decoding, &mut floats);
            Ok(())
        });
        debug_assert!(read.is_ok(), "reading memory does not fail");
        floats
    }
}
