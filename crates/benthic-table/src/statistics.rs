//! Statistics of one column in one data object.

use crate::schema::{Column, TableSchema};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray,
    downcast_primitive_array, new_null_array,
};
use arrow::compute;
use arrow::datatypes::{ArrowNativeTypeOp, ArrowPrimitiveType, DataType};
use benthic_core::Result;
use benthic_index::{Definition as Index, Distribution, Kind};
use std::sync::Arc;

/// Minimum and maximum of strings and binaries are truncated to this length.
pub(crate) const BOUND_BYTES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Statistics {
    /// A lower bound of all values except NaN, as an array with one value of the column's type.
    /// Null if the column has no value or the bound is unknown.
    pub min: ArrayRef,
    pub max: ArrayRef,
    /// Whether both bounds are values of the column.
    pub exact: bool,
    pub nulls: u64,
    pub nans: u64,
    /// An encoded [`Distribution`], if [`with_distribution`](Statistics::with_distribution) was
    /// called.
    pub distribution: Option<Vec<u8>>,
}

/// Columns of an object with a distribution of their values, besides the columns of indexes. An
/// object may have thousands of columns, and lists must stay small.
const DISTRIBUTIONS_MAX: usize = 64;

/// The columns of a schema whose distributions a writer records, by place.
pub(crate) fn with_distributions(schema: &TableSchema, indexes: &[Index]) -> Vec<bool> {
    let mut first = 0;
    let is_chosen = |column: &Column| {
        first += usize::from(has_distribution(&column.data_type));
        let is_indexed = || indexes.iter().any(|index| index.columns.contains(&column.id));
        has_distribution(&column.data_type) && (first <= DISTRIBUTIONS_MAX || is_indexed())
    };
    schema.columns().iter().map(is_chosen).collect()
}

pub(crate) fn has_distribution(data_type: &DataType) -> bool {
    Kind::of(data_type).is_some()
}

pub(crate) fn has_bounds(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(len_bytes) => {
            usize::try_from(*len_bytes).is_ok_and(|len| len <= BOUND_BYTES_MAX)
        }
        other => !other.is_nested(),
    }
}

impl Statistics {
    pub(crate) fn of(column: &ArrayRef) -> Statistics {
        let data_type = column.data_type();
        let nulls = column.logical_null_count() as u64;
        let unknown = || (new_null_array(data_type, 1), new_null_array(data_type, 1), false);
        let mut nans = 0;
        let array = column.as_ref();
        let (min, max, exact) = downcast_primitive_array! {
            array => {
                let (min, max, found) = extremes(array);
                nans = found;
                (min, max, true)
            }
            DataType::Boolean => {
                let array = array.as_boolean();
                let one = |value| -> ArrayRef { Arc::new(BooleanArray::from(vec![value])) };
                (one(compute::min_boolean(array)), one(compute::max_boolean(array)), true)
            }
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                let (min, max) = (compute::min_string(array), compute::max_string(array));
                let one = |value: Option<String>| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
                let exact = is_short(min.map(str::len)) && is_short(max.map(str::len));
                (one(min.map(|min| prefix(min).to_owned())), one(max.and_then(round_up)), exact)
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                let (min, max) = (compute::min_binary(array), compute::max_binary(array));
                let one = |value: Option<Vec<u8>>| -> ArrayRef { Arc::new(BinaryArray::from_iter([value])) };
                let exact = is_short(min.map(<[u8]>::len)) && is_short(max.map(<[u8]>::len));
                let cut = |min: &[u8]| min[..min.len().min(BOUND_BYTES_MAX)].to_vec();
                (one(min.map(cut)), one(max.and_then(round_up_bytes)), exact)
            }
            DataType::FixedSizeBinary(len_bytes) if has_bounds(data_type) => {
                let array = array.as_fixed_size_binary();
                let one = |value: Option<&[u8]>| {
                    FixedSizeBinaryArray::try_from_sparse_iter_with_size([value].into_iter(), *len_bytes)
                };
                match (one(compute::min_fixed_size_binary(array)), one(compute::max_fixed_size_binary(array))) {
                    (Ok(min), Ok(max)) => (Arc::new(min) as ArrayRef, Arc::new(max) as ArrayRef, true),
                    _ => unknown(),
                }
            }
            _ => unknown()
        };
        Statistics { min, max, exact, nulls, nans, distribution: None }
    }

    /// Adds the distribution of the column's values.
    pub(crate) fn with_distribution(self, column: &ArrayRef) -> Result<Statistics> {
        let distribution = Distribution::of(column)?.map(|found| found.encode());
        Ok(Statistics { distribution, ..self })
    }
}

/// The least and greatest values other than NaN, and the number of NaN. A zero bound becomes -0.0
/// as minimum and 0.0 as maximum, because filters treat the two as equal.
fn extremes<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> (ArrayRef, ArrayRef, u64) {
    let (mut bounds, mut nans) = (None, 0);
    for value in array.iter().flatten() {
        // Only NaN differs from itself. Arrow's own comparison orders all bit patterns instead.
        if value.partial_cmp(&value).is_none() {
            nans += 1;
            continue;
        }
        let (min, max) = *bounds.get_or_insert((value, value));
        bounds = Some((if value < min { value } else { min }, if value > max { value } else { max }));
    }
    let is_zero = |value: T::Native| value == T::Native::ZERO;
    let bounds = bounds.map(|(min, max)| {
        let negative_zero = || T::Native::ZERO.neg_wrapping();
        (if is_zero(min) { negative_zero() } else { min }, if is_zero(max) { T::Native::ZERO } else { max })
    });
    let one = |value| -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter([value]).with_data_type(array.data_type().clone()))
    };
    (one(bounds.map(|bounds| bounds.0)), one(bounds.map(|bounds| bounds.1)), nans)
}

fn is_short(len_bytes: Option<usize>) -> bool {
    len_bytes.is_none_or(|len_bytes| len_bytes <= BOUND_BYTES_MAX)
}

/// The first characters of the text: a lower bound of it.
fn prefix(text: &str) -> &str {
    &text[..text.floor_char_boundary(BOUND_BYTES_MAX)]
}

/// A short upper bound of `text`, the least one or nearly so; `None` if there is none.
fn round_up(text: &str) -> Option<String> {
    let mut short = prefix(text).to_owned();
    if short.len() == text.len() {
        return Some(short);
    }
    while let Some(last) = short.pop() {
        // The code point after the surrogate range follows the one before it.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            short.push(next);
            return Some(short);
        }
    }
    None
}

fn round_up_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut short = bytes[..bytes.len().min(BOUND_BYTES_MAX)].to_vec();
    if short.len() == bytes.len() {
        return Some(short);
    }
    while let Some(last) = short.pop() {
        if last < u8::MAX {
            short.push(last + 1);
            return Some(short);
        }
    }
    None
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
