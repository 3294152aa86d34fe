//! The values of Arrow's arrays as cells of S3 Select.

use crate::feed::fault_of;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, TimeUnit};
use benthic_classes::select::{Cell, CellTime, Failure, Fault, check_cell};
use parquet::errors::ParquetError;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Whether cells can have values of a type. It is one that Parquet's decoder chooses.
pub fn is_supported(data_type: &DataType) -> bool {
    use DataType::{Date32, Float16, Float32, Float64, Null, Time32, Time64, Timestamp};
    match data_type {
        Null | DataType::Boolean | Date32 | Float16 | Float32 | Float64 => true,
        DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Time32(TimeUnit::Millisecond) => true,
        DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) => true,
        Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => true,
        DataType::Decimal128(_, scale) => *scale >= 0,
        DataType::List(item) | DataType::Map(item, _) => is_supported(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_supported(field.data_type())),
        Time32(_) | Time64(_) | Timestamp(..) => false,
        other => other.is_integer(),
    }
}

/// Replaces a column of texts by one of bytes: the decoder does not check that all of them are
/// UTF-8.
pub fn as_bytes(column: &ArrayRef) -> ArrayRef {
    match column.as_string_view_opt() {
        Some(texts) => Arc::new(texts.clone().to_binary_view()),
        None => Arc::clone(column),
    }
}

/// The value of a row, which is at most as long as a record.
pub fn cell(column: &dyn Array, row: usize) -> Result<Cell<'_>, Fault> {
    if let Some(values) = column.as_binary_view_opt() {
        if values.is_null(row) {
            return Ok(Cell::Null);
        }
        return bytes(values.value(row), &mut 0);
    }
    value(column, row, &mut 0)
}

fn number<T: ArrowPrimitiveType>(column: &dyn Array, row: usize) -> T::Native {
    column.as_primitive::<T>().value(row)
}

/// A value that owns its texts. `size_bytes` counts those of a row.
fn value(column: &dyn Array, row: usize, size_bytes: &mut usize) -> Result<Cell<'static>, Fault> {
    // In JSON, a value of a list has at least two bytes.
    *size_bytes = size_bytes.saturating_add(2);
    check_cell(*size_bytes)?;
    if column.is_null(row) {
        return Ok(Cell::Null);
    }
    let time = |nanos: i64, scale: i128, digits: usize, zone: &Option<Arc<str>>| {
        let nanos = i128::from(nanos) * scale;
        Ok(Cell::Time(CellTime { nanos, digits, is_utc: zone.is_some() }))
    };
    Ok(match column.data_type() {
        DataType::Null => Cell::Null,
        DataType::Boolean => Cell::Bool(column.as_boolean().value(row)),
        DataType::Int8 => Cell::Int(number::<Int8Type>(column, row).into()),
        DataType::Int16 => Cell::Int(number::<Int16Type>(column, row).into()),
        DataType::Int32 => Cell::Int(number::<Int32Type>(column, row).into()),
        DataType::Int64 => Cell::Int(number::<Int64Type>(column, row).into()),
        DataType::UInt8 => Cell::Int(number::<UInt8Type>(column, row).into()),
        DataType::UInt16 => Cell::Int(number::<UInt16Type>(column, row).into()),
        DataType::UInt32 => Cell::Int(number::<UInt32Type>(column, row).into()),
        DataType::UInt64 => Cell::Int(number::<UInt64Type>(column, row).into()),
        DataType::Float16 => Cell::Float(number::<Float16Type>(column, row).to_f64()),
        DataType::Float32 => Cell::Float(number::<Float32Type>(column, row).into()),
        DataType::Float64 => Cell::Float(number::<Float64Type>(column, row)),
        DataType::Decimal128(_, scale) => {
            let scale = u32::try_from(*scale).map_err(|_| unsupported(column))?;
            Cell::Decimal(number::<Decimal128Type>(column, row), scale)
        }
        DataType::Date32 => Cell::Date(number::<Date32Type>(column, row)),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            return time(number::<TimestampMillisecondType>(column, row), 1_000_000, 3, zone);
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            return time(number::<TimestampMicrosecondType>(column, row), 1_000, 6, zone);
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            return time(number::<TimestampNanosecondType>(column, row), 1, 9, zone);
        }
        DataType::Time32(TimeUnit::Millisecond) => {
            of_day(i64::from(number::<Time32MillisecondType>(column, row)), 1_000, 3)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            of_day(number::<Time64MicrosecondType>(column, row), 1_000_000, 6)
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            of_day(number::<Time64NanosecondType>(column, row), 1_000_000_000, 9)
        }
        DataType::Utf8View => into_owned(bytes(as_bytes_of(column).value(row), size_bytes)?),
        DataType::BinaryView => into_owned(bytes(column.as_binary_view().value(row), size_bytes)?),
        DataType::FixedSizeBinary(_) => {
            into_owned(bytes(column.as_fixed_size_binary().value(row), size_bytes)?)
        }
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let places = list.value_offsets();
            elements(list.values(), places[row]..places[row + 1], size_bytes)?
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let places = map.value_offsets();
            entries(map.entries(), places[row]..places[row + 1], size_bytes)?
        }
        DataType::Struct(fields) => {
            let structure = column.as_struct();
            let mut entries = Vec::new();
            for (field, column) in fields.iter().zip(structure.columns()) {
                entries.push((name(field, size_bytes)?, value(column, row, size_bytes)?));
            }
            Cell::Struct(entries)
        }
        _ => return Err(unsupported(column)),
    })
}

fn as_bytes_of(column: &dyn Array) -> arrow_array::BinaryViewArray {
    column.as_string_view().clone().to_binary_view()
}

fn name(field: &Field, size_bytes: &mut usize) -> Result<Cow<'static, str>, Fault> {
    *size_bytes = size_bytes.saturating_add(field.name().len());
    check_cell(*size_bytes)?;
    Ok(Cow::Owned(field.name().clone()))
}

fn rows_of(places: Range<i32>) -> Result<Range<usize>, Fault> {
    match (usize::try_from(places.start), usize::try_from(places.end)) {
        (Ok(start), Ok(end)) if start <= end => Ok(start..end),
        _ => Err(fault_of(&ParquetError::General("a list has no places".to_owned()))),
    }
}

fn elements(values: &ArrayRef, places: Range<i32>, size_bytes: &mut usize) -> Result<Cell<'static>, Fault> {
    let rows = rows_of(places)?;
    Ok(Cell::List(rows.map(|row| value(values, row, size_bytes)).collect::<Result<_, _>>()?))
}

/// An object of JSON, whose keys are the texts of the map's keys.
fn entries(of: &StructArray, places: Range<i32>, size_bytes: &mut usize) -> Result<Cell<'static>, Fault> {
    let [keys, values] = of.columns() else { return Err(unsupported(of)) };
    let mut entries = Vec::new();
    for row in rows_of(places)? {
        let key = match value(keys, row, size_bytes)? {
            Cell::Text(key) => key,
            Cell::Int(key) => Cow::Owned(key.to_string()),
            Cell::Bool(key) => Cow::Owned(key.to_string()),
            _ => return Err(unsupported(of)),
        };
        entries.push((key, value(values, row, size_bytes)?));
    }
    Ok(Cell::Struct(entries))
}

/// Bytes that are UTF-8 are a text, because old writers do not say which are; others become
/// Base64.
fn bytes<'b>(bytes: &'b [u8], size_bytes: &mut usize) -> Result<Cell<'b>, Fault> {
    *size_bytes = size_bytes.saturating_add(bytes.len());
    check_cell(*size_bytes)?;
    Ok(Cell::Text(match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(base64_simd::STANDARD.encode_to_string(bytes)),
    }))
}

fn into_owned(cell: Cell<'_>) -> Cell<'static> {
    if let Cell::Text(text) = cell { Cell::Text(Cow::Owned(text.into_owned())) } else { Cell::Null }
}

/// A time of a day, as text: S3 Select has no type for it.
fn of_day(units: i64, per_second: i64, digits: usize) -> Cell<'static> {
    let (seconds, fraction) = (units.div_euclid(per_second), units.rem_euclid(per_second));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Cell::Text(Cow::Owned(format!("{hour:02}:{minute:02}:{second:02}.{fraction:0digits$}")))
}

/// The fault of a type that S3 Select does not have.
pub fn unsupported(column: &dyn Array) -> Fault {
    unsupported_type(column.data_type())
}

/// The fault of a type that S3 Select does not have.
pub fn unsupported_type(data_type: &DataType) -> Fault {
    let shown: String = data_type.to_string().chars().take(100).collect();
    let message = format!("a column has a type that S3 Select does not have: {shown}");
    Failure::new("UnsupportedParquetType", message).into()
}
