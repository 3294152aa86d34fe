//! Exact conversion of text to values. Arrow's readers silently drop digits that do not fit the
//! type.

use crate::syntax::show_type;
use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use benthic_core::Error;
use std::sync::Arc;

/// Whether values of this type are read as text first and then converted by [`values`].
pub(super) fn is_read_as_text(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Decimal128(..)
                | DataType::Decimal256(..)
                | DataType::Date32
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        )
}

/// The type to request from a reader: text in place of each type that the reader would truncate,
/// also inside lists, structs and maps.
pub(super) fn read_as(data_type: &DataType) -> DataType {
    let part = |part: &FieldRef| -> FieldRef {
        Arc::new(part.as_ref().clone().with_data_type(read_as(part.data_type())))
    };
    match data_type {
        cut if is_read_as_text(cut) => DataType::Utf8,
        DataType::List(element) => DataType::List(part(element)),
        DataType::FixedSizeList(element, len) => DataType::FixedSizeList(part(element), *len),
        DataType::Struct(parts) => DataType::Struct(parts.iter().map(part).collect()),
        DataType::Map(entries, sorted) => DataType::Map(part(entries), *sorted),
        other => other.clone(),
    }
}

/// Converts values to the wanted type. An error contains the first row that does not fit. For
/// nested types, this is the row within the child array.
pub(super) fn values(read: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, (usize, Error)> {
    let parts: Vec<&FieldRef> = match wanted {
        same if same == read.data_type() => return Ok(Arc::clone(read)),
        DataType::List(part) | DataType::FixedSizeList(part, _) | DataType::Map(part, _) => vec![part],
        DataType::Struct(parts) => parts.iter().collect(),
        flat => return flat_values(read, flat),
    };
    let data = read.to_data();
    let mut children = Vec::with_capacity(parts.len());
    for (child, part) in data.child_data().iter().zip(parts) {
        children.push(values(&make_array(child.clone()), part.data_type())?.to_data());
    }
    let whole = data.into_builder().data_type(wanted.clone()).child_data(children).build();
    whole.map(make_array).map_err(|error| (0, failure(error)))
}

fn flat_values(text: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, (usize, Error)> {
    let strings = text.as_string::<i32>();
    let drops: Option<fn(&str, &DataType) -> bool> = match data_type {
        DataType::Date32 => Some(|value, _| value.contains(':')),
        other if digits_max(other).is_some() => {
            Some(|value, data_type| digits_max(data_type).is_some_and(|max| digits(value) > max))
        }
        _ => None,
    };
    if let Some(drops) = drops
        && let Some(row) = strings.iter().position(|value| value.is_some_and(|value| drops(value, data_type)))
    {
        let message = "the column's type cannot hold the whole value";
        return Err((row, unfit(message, strings.value(row)).with("type", show_type(data_type))));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |strings: &dyn Array| cast_with_options(strings, data_type, &strict);
    let error = match cast(text.as_ref()) {
        Ok(values) => return Ok(values),
        Err(error) => error,
    };
    // One of the values fails alone in the same way.
    let row = (0..strings.len()).find(|row| cast(&strings.slice(*row, 1)).is_err());
    match row {
        Some(row) => {
            let error = unfit("the value does not fit its column's type", strings.value(row));
            Err((row, error.with("type", show_type(data_type))))
        }
        None => Err((0, failure(error))),
    }
}

fn failure(error: arrow::error::ArrowError) -> Error {
    Error::invalid_argument("the values do not fit their column's type").with_source(error)
}

/// An error about one value. It shows the beginning of the value.
fn unfit(message: &str, value: &str) -> Error {
    const CHARS_MAX: usize = 40;
    let shown: String = value.chars().take(CHARS_MAX).collect();
    Error::invalid_argument(message).with("value", shown)
}

/// Maximum number of fractional digits of a type, if limited.
fn digits_max(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => usize::try_from(*scale).ok(),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) => Some(match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        }),
        _ => None,
    }
}

/// Number of fractional digits, without trailing zeros.
fn digits(value: &str) -> usize {
    let Some((_, behind)) = value.split_once('.') else { return 0 };
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].trim_end_matches('0').len()
}
