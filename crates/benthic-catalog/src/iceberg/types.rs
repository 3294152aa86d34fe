//! Iceberg's types, and values in its binary form (Iceberg specification, "Primitive Types" and
//! "Binary single-value serialization").

use super::nested::NestedIds;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    UInt8Type, UInt16Type,
};
use benthic_core::{Error, Result};
use benthic_table::Column;
use serde_json::{Value, json};

/// The Iceberg type of a column, as in JSON: a name, or an object for lists, structs and maps.
///
/// # Errors
/// `Unsupported` if Iceberg has no type with the same values, or if its readers disagree about it.
pub fn iceberg_type(column: &Column) -> Result<Value> {
    let mut ids = NestedIds::of(column.id);
    type_of(&column.data_type, &mut ids).map_err(|error| error.with("column", &column.name))
}

fn type_of(data_type: &DataType, ids: &mut NestedIds) -> Result<Value> {
    Ok(match data_type {
        DataType::List(item) | DataType::FixedSizeList(item, _) => {
            let id = ids.draw()?;
            json!({
                "type": "list",
                "element-id": id,
                "element": type_of(item.data_type(), ids)?,
                "element-required": !item.is_nullable(),
            })
        }
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| -> Result<Value> {
                let id = ids.draw()?;
                let data_type = type_of(field.data_type(), ids)?;
                Ok(json!({
                    "id": id,
                    "name": field.name(),
                    "required": !field.is_nullable(),
                    "type": data_type,
                }))
            };
            let fields = fields.iter().map(field).collect::<Result<Vec<_>>>()?;
            json!({ "type": "struct", "fields": fields })
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(unsupported(data_type)) };
            let [key, value] = &pair[..] else { return Err(unsupported(data_type)) };
            let key_id = ids.draw()?;
            let key = type_of(key.data_type(), ids)?;
            let value_id = ids.draw()?;
            let (required, value) = (!value.is_nullable(), type_of(value.data_type(), ids)?);
            json!({
                "type": "map",
                "key-id": key_id,
                "key": key,
                "value-id": value_id,
                "value": value,
                "value-required": required,
            })
        }
        plain => plain_type(plain)?.into(),
    })
}

fn plain_type(data_type: &DataType) -> Result<String> {
    Ok(match data_type {
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
        other => return Err(unsupported(other)),
    })
}

fn unsupported(data_type: &DataType) -> Error {
    let message = format!("Iceberg cannot read the table: {}", reason(data_type));
    Error::unsupported(message).with("type", data_type)
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
