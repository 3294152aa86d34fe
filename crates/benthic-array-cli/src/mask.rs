//! The options of a mask: another array whose values decide which elements are used.

use crate::selection::{axis, range};
use benthic_array::{Array, ArrayAddress, Decoding, Mask, NumberRange, ReadStats, Slice};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, Result};
use clap::Args;
use std::sync::Arc;

/// Options of a mask.
#[derive(Args)]
pub struct MaskArgs {
    /// Use only the elements at whose positions this array is not zero, such as a land-sea mask;
    /// others count as missing. Its dimensions are some of the array's, by name: POOL[:NS]/PATH
    #[arg(long, value_name = "ARRAY")]
    pub mask: Option<ArrayAddress>,
    /// Use the elements where the mask has values from MIN to MAX, with both ends
    #[arg(long, value_name = "MIN:MAX", value_parser = range, allow_hyphen_values = true, requires = "mask")]
    mask_values: Option<NumberRange>,
}

impl MaskArgs {
    /// Reads the mask of a selection of an array.
    ///
    /// # Errors
    /// `InvalidArgument` if the mask has other dimensions or other lengths; those of reading it.
    pub async fn read(
        &self,
        mask: &Array,
        array: &Array,
        selected: &[Slice],
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
    ) -> Result<Mask> {
        let metadata = mask.metadata();
        let mut shape = vec![1; selected.len()];
        let mut slices = Vec::new();
        let mut last = None;
        for (number, name) in metadata.dimensions.iter().enumerate() {
            let axis = axis(array, name.as_deref().unwrap_or(&number.to_string()))?;
            let fits = last < Some(axis) && metadata.shape[number] == array.metadata().shape[axis];
            if !fits {
                let message =
                    "the mask must have dimensions of the array in the same order, each with the same length";
                return Err(Error::invalid_argument(message)
                    .with("mask_len", metadata.shape[number])
                    .with("array_len", array.metadata().shape[axis]));
            }
            last = Some(axis);
            shape[axis] = selected[axis].count;
            slices.push(selected[axis]);
        }
        let decoding = benthic_array::decoding(metadata)?.unwrap_or_default();
        let decoding = Decoding { is_single: false, ..decoding };
        let values = mask.read_decoded(&slices, Some(&decoding), pushdown, stats).await?;
        let keeps = |value: f64| match self.mask_values {
            Some(NumberRange { min, max }) => min <= value && value <= max,
            None => value != 0.0 && !value.is_nan(),
        };
        Mask::new(shape, values.float64s().map(keeps))
    }
}
