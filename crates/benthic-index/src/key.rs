//! Index keys: the values of a row's columns, encoded so that keys sort as bytes in the same order
//! as the values.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, Float64Array,
    Int64Array, StringArray, UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, TimeUnit, UInt64Type,
};
use benthic_core::{Error, Result};
use std::sync::Arc;

/// Maximum number of columns of an index.
pub const COLUMNS_MAX: usize = 4;
/// Strings and binaries are truncated to this length in a key.
pub const VALUE_BYTES_MAX: usize = 64;
/// Maximum length of a key. A truncated string may consist of zeros, which take two bytes each.
pub const KEY_BYTES_MAX: usize = COLUMNS_MAX * (1 + 2 * VALUE_BYTES_MAX + 2);

/// First byte of a null value, which has no other bytes.
pub const NULL: u8 = 0;
/// First byte of every value that is not null.
pub const VALUE: u8 = 1;

/// Types whose keys can be compared with each other. A column that is widened keeps its kind, so
/// the keys of its existing values stay the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    UInt,
    /// Floating-point numbers. Zero and minus zero are equal. All NaNs are one value above all
    /// others.
    Float,
    Decimal128(i8),
    Decimal256(i8),
    Date,
    Time(TimeUnit),
    Timestamp(TimeUnit),
    /// Strings, ordered by their bytes and truncated to 64 bytes.
    Text,
    /// Binaries, truncated to 64 bytes.
    Bytes,
}

impl Kind {
    /// The kind of a data type, or `None` if an index cannot contain the type.
    pub fn of(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Boolean => Kind::Bool,
            signed if signed.is_signed_integer() => Kind::Int,
            unsigned if unsigned.is_unsigned_integer() => Kind::UInt,
            float if float.is_floating() => Kind::Float,
            DataType::Decimal128(_, scale) => Kind::Decimal128(*scale),
            DataType::Decimal256(_, scale) => Kind::Decimal256(*scale),
            DataType::Date32 => Kind::Date,
            DataType::Time32(unit) | DataType::Time64(unit) => Kind::Time(*unit),
            DataType::Timestamp(unit, _) => Kind::Timestamp(*unit),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Kind::Bytes,
            _ => return None,
        })
    }
}

/// The keys of many rows, in one buffer.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// Encodes one key per row of these columns, which must have the same length.
    ///
    /// # Errors
    /// `Unsupported` for a type that cannot be indexed; `InvalidArgument` for columns of different
    /// lengths.
    pub fn of(columns: &[ArrayRef]) -> Result<Keys> {
        let rows = columns.first().map_or(0, |column| column.len());
        if columns.iter().any(|column| column.len() != rows) {
            return Err(Error::invalid_argument("the columns of a key have different lengths"));
        }
        let columns: Vec<Values> = columns.iter().map(Values::of).collect::<Result<_>>()?;
        let mut keys =
            Keys { bytes: Vec::with_capacity(rows * 9 * columns.len()), ends: Vec::with_capacity(rows) };
        for row in 0..rows {
            columns.iter().for_each(|column| column.push(row, &mut keys.bytes));
            keys.ends.push(keys.bytes.len());
        }
        Ok(keys)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }
}

/// The byte prefix that the keys of all strings with this prefix share.
pub fn of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut key = vec![VALUE];
    push_escaped(prefix, &mut key);
    key
}

/// The key of NaN. No other number has this key.
pub fn of_nan() -> Vec<u8> {
    let mut key = vec![VALUE];
    push_float(f64::NAN, &mut key);
    key
}

/// A column, cast to the widest type of its kind.
enum Values {
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float64Array),
    Decimal128(Decimal128Array),
    Decimal256(Decimal256Array),
    Bytes(BinaryArray),
}

impl Values {
    fn of(column: &ArrayRef) -> Result<Values> {
        let kind = Kind::of(column.data_type()).ok_or_else(|| {
            let message = "columns of this type cannot be indexed; choose others";
            Error::unsupported(message).with("type", column.data_type())
        })?;
        Ok(match kind {
            Kind::Bool => Values::Bool(column.as_boolean().clone()),
            Kind::Int | Kind::Date | Kind::Time(_) | Kind::Timestamp(_) => {
                // Arrow casts 32-bit dates and times to 64-bit integers only by way of 32-bit
                // integers.
                let column = match column.data_type() {
                    DataType::Date32 | DataType::Time32(_) => cast(column, &DataType::Int32)?,
                    _ => ArrayRef::clone(column),
                };
                Values::Int(cast(&column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            Kind::UInt => Values::UInt(cast(column, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone()),
            Kind::Float => {
                Values::Float(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            Kind::Decimal128(_) => Values::Decimal128(column.as_primitive::<Decimal128Type>().clone()),
            Kind::Decimal256(_) => Values::Decimal256(column.as_primitive::<Decimal256Type>().clone()),
            Kind::Text => {
                let plain: ArrayRef = Arc::new(as_strings(column)?);
                Values::Bytes(cast(&plain, &DataType::Binary)?.as_binary::<i32>().clone())
            }
            Kind::Bytes => Values::Bytes(cast(column, &DataType::Binary)?.as_binary::<i32>().clone()),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Bool(values) => values.is_null(row),
            Values::Int(values) => values.is_null(row),
            Values::UInt(values) => values.is_null(row),
            Values::Float(values) => values.is_null(row),
            Values::Decimal128(values) => values.is_null(row),
            Values::Decimal256(values) => values.is_null(row),
            Values::Bytes(values) => values.is_null(row),
        }
    }

    fn push(&self, row: usize, key: &mut Vec<u8>) {
        if self.is_null(row) {
            return key.push(NULL);
        }
        key.push(VALUE);
        match self {
            Values::Bool(values) => key.push(u8::from(values.value(row))),
            Values::Int(values) => push_signed(values.value(row).to_be_bytes(), key),
            Values::UInt(values) => key.extend(values.value(row).to_be_bytes()),
            Values::Float(values) => push_float(values.value(row), key),
            Values::Decimal128(values) => push_signed(values.value(row).to_be_bytes(), key),
            Values::Decimal256(values) => push_signed(values.value(row).to_be_bytes(), key),
            Values::Bytes(values) => push_terminated(values.value(row), key),
        }
    }
}

/// Appends the value of a string that is not null, as in the keys of a column of strings.
pub fn push_text(value: &[u8], key: &mut Vec<u8>) {
    key.push(VALUE);
    push_terminated(value, key);
}

/// A column of strings in its plain form.
///
/// # Errors
/// `Unsupported` for other types.
pub fn as_strings(column: &ArrayRef) -> Result<StringArray> {
    match Kind::of(column.data_type()) {
        Some(Kind::Text) => Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone()),
        _ => Err(Error::unsupported("words are in strings only; choose a column of strings")
            .with("type", column.data_type())),
    }
}

fn cast(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(ArrayRef::clone(column));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &strict)
        .map_err(|source| Error::internal("a key cannot be computed").with_source(source))
}

/// Flips the sign bit so that negative numbers sort first.
fn push_signed<const N: usize>(mut big_endian: [u8; N], key: &mut Vec<u8>) {
    big_endian[0] ^= 0x80;
    key.extend(big_endian);
}

fn push_float(value: f64, key: &mut Vec<u8>) {
    let bits = if value == 0.0 {
        0.0_f64.to_bits()
    } else if value.is_nan() {
        f64::NAN.abs().to_bits()
    } else {
        value.to_bits()
    };
    // Negative floats sort in reverse order of their bits.
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.extend(ordered.to_be_bytes());
}

fn push_terminated(value: &[u8], key: &mut Vec<u8>) {
    push_escaped(value, key);
    key.extend([0, 0]);
}

/// Appends the first [`VALUE_BYTES_MAX`] bytes. A string ends with two zeros, so a zero inside it
/// is followed by 0xff. A string therefore sorts before all longer strings that begin with it,
/// regardless of the next columns.
fn push_escaped(value: &[u8], key: &mut Vec<u8>) {
    for byte in &value[..value.len().min(VALUE_BYTES_MAX)] {
        key.push(*byte);
        if *byte == 0 {
            key.push(u8::MAX);
        }
    }
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
