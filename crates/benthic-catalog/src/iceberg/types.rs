//! Iceberg's types, and values in its binary form (Iceberg specification, "Primitive Types" and
//! "Binary single-value serialization").

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    UInt8Type, UInt16Type,
};
use benthic_core::{Error, ErrorKind, Result};
use benthic_table::Column;

/// The Iceberg type of a column.
///
/// # Errors
/// `Unsupported` if Iceberg has no type with the same values, or if its readers disagree about it.
pub fn iceberg_type(column: &Column) -> Result<String> {
    Ok(match &column.data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            "int".to_owned()
        }
        DataType::Int64 => "long".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Date32 => "date".to_owned(),
        DataType::Time64(TimeUnit::Microsecond) => "time".to_owned(),
        DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, None) => "timestamp".to_owned(),
        DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, Some(zone)) if is_utc(zone) => {
            "timestamptz".to_owned()
        }
        DataType::Utf8 => "string".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::FixedSizeBinary(len_bytes) => format!("fixed[{len_bytes}]"),
        other => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("Iceberg cannot read the table: {}", reason(other)),
            )
            .with("column", &column.name)
            .with("type", other));
        }
    })
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "utc" | "Z" | "+00:00" | "Etc/UTC")
}

fn reason(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::UInt32 | DataType::UInt64 => {
            "its integers have signs; cast the column to bigint or decimal"
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(_) | DataType::Time32(_) => {
            "its times are in microseconds; cast the column"
        }
        DataType::Timestamp(_, _) => "its times are in UTC; cast the column",
        DataType::Float16 => "it has no half precision; cast the column to real",
        nested if nested.is_nested() => "the catalog does not support lists, structs and maps yet",
        _ => "it has no such type; cast the column",
    }
}

/// A bound in Iceberg's binary form. Absent for null and for types without bounds.
pub fn single_value(array: &ArrayRef, row: usize) -> Option<Vec<u8>> {
    if array.is_null(row) {
        return None;
    }
    macro_rules! value {
        ($type:ident) => {
            array.as_primitive::<$type>().value(row)
        };
    }
    let int = |value: i32| Some(value.to_le_bytes().to_vec());
    let long = |value: i64| Some(value.to_le_bytes().to_vec());
    match array.data_type() {
        DataType::Boolean => Some(vec![u8::from(array.as_boolean().value(row))]),
        DataType::Int8 => int(value!(Int8Type).into()),
        DataType::Int16 => int(value!(Int16Type).into()),
        DataType::Int32 => int(value!(Int32Type)),
        DataType::UInt8 => int(value!(UInt8Type).into()),
        DataType::UInt16 => int(value!(UInt16Type).into()),
        DataType::Int64 => long(value!(Int64Type)),
        DataType::Float32 => Some(value!(Float32Type).to_le_bytes().to_vec()),
        DataType::Float64 => Some(value!(Float64Type).to_le_bytes().to_vec()),
        DataType::Decimal128(_, _) => Some(shortest(value!(Decimal128Type))),
        DataType::Date32 => int(value!(Date32Type)),
        DataType::Time64(TimeUnit::Microsecond) => long(value!(Time64MicrosecondType)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            value!(TimestampMillisecondType).checked_mul(1_000).and_then(long)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => long(value!(TimestampMicrosecondType)),
        DataType::Utf8 => Some(array.as_string::<i32>().value(row).as_bytes().to_vec()),
        DataType::Binary => Some(array.as_binary::<i32>().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => Some(array.as_fixed_size_binary().value(row).to_vec()),
        _ => None,
    }
}

/// The least number of big-endian bytes that hold the number in two's complement.
fn shortest(number: i128) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let is_sign = |pair: &[u8]| matches!((pair[0], pair[1] & 0x80), (0, 0) | (0xff, 0x80));
    let skipped = bytes.windows(2).take_while(|pair| is_sign(pair)).count();
    bytes[skipped..].to_vec()
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
