//! The column types of a table, and their encoding in the head.

use crate::wire::Node;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use benthic_core::{Error, Result};
use std::sync::Arc;

pub(crate) const DEPTH_MAX: usize = 16;

/// The types without parameters, with their numbers in the head.
const PLAIN: [(u32, DataType); 15] = [
    (1, DataType::Boolean),
    (2, DataType::Int8),
    (3, DataType::Int16),
    (4, DataType::Int32),
    (5, DataType::Int64),
    (6, DataType::UInt8),
    (7, DataType::UInt16),
    (8, DataType::UInt32),
    (9, DataType::UInt64),
    (10, DataType::Float16),
    (11, DataType::Float32),
    (12, DataType::Float64),
    (13, DataType::Utf8),
    (14, DataType::Binary),
    (15, DataType::Date32),
];
const FIXED_BINARY: u32 = 16;
const DECIMAL128: u32 = 17;
const DECIMAL256: u32 = 18;
const TIME: u32 = 19;
const TIMESTAMP: u32 = 20;
const LIST: u32 = 21;
const FIXED_LIST: u32 = 22;
const STRUCT: u32 = 23;
const MAP: u32 = 24;

const UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

/// The type in which a table stores a column of type `given`: no views, no dictionaries, no 64-bit
/// offsets, no seconds, and Parquet's names for the children of lists and maps.
pub(crate) fn canonical(given: &DataType) -> Result<DataType> {
    canonical_at(given, 0)
}

fn canonical_at(given: &DataType, depth: usize) -> Result<DataType> {
    if depth > DEPTH_MAX {
        return Err(Error::unsupported("a type has too many nested levels").with("depth_max", DEPTH_MAX));
    }
    let child = |name: &str, field: &FieldRef| -> Result<FieldRef> {
        let data_type = canonical_at(field.data_type(), depth + 1)?;
        Ok(Arc::new(Field::new(name, data_type, field.is_nullable())))
    };
    Ok(match given {
        plain if number(plain).is_some() => plain.clone(),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => canonical_at(value, depth + 1)?,
        DataType::Date64 => DataType::Date32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        // The precisions and scales that Parquet also supports.
        DataType::Decimal128(precision @ 1..=38, scale) | DataType::Decimal256(precision @ 1..=76, scale)
            if u8::try_from(*scale).is_ok_and(|scale| scale <= *precision) =>
        {
            given.clone()
        }
        // Parquet has no unit of seconds: other readers would see plain integers.
        DataType::Time32(_) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time64(_) | DataType::Timestamp(_, _) => given.clone(),
        DataType::FixedSizeBinary(len_bytes) if *len_bytes > 0 => given.clone(),
        DataType::List(item) | DataType::LargeList(item) => DataType::List(child("element", item)?),
        DataType::FixedSizeList(item, len) if *len > 0 => {
            DataType::FixedSizeList(child("element", item)?, *len)
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            DataType::Struct(fields.iter().map(|field| child(field.name(), field)).collect::<Result<_>>()?)
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                let pair = Fields::from(vec![child("key", &pair[0])?, child("value", &pair[1])?]);
                let entries = Field::new("key_value", DataType::Struct(pair), false);
                DataType::Map(Arc::new(entries), false)
            }
            _ => return Err(unsupported(given)),
        },
        _ => return Err(unsupported(given)),
    })
}

fn unsupported(given: &DataType) -> Error {
    Error::unsupported("a table cannot have a column of this type; cast it first").with("type", given)
}

/// Whether every value of type `from` has an equal value in type `to`, so that a column's type may
/// change to `to`.
pub fn widens(from: &DataType, to: &DataType) -> bool {
    let signed = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];
    let unsigned = [DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64];
    let floats = [DataType::Float16, DataType::Float32, DataType::Float64];
    let rises = |ladder: &[DataType]| {
        let at = |data_type| ladder.iter().position(|step| step == data_type);
        matches!((at(from), at(to)), (Some(from), Some(to)) if from <= to)
    };
    match (from, to) {
        (DataType::Decimal128(from, scale), DataType::Decimal128(to, same))
        | (DataType::Decimal256(from, scale), DataType::Decimal256(to, same)) => scale == same && from <= to,
        _ => from == to || rises(&signed) || rises(&unsigned) || rises(&floats),
    }
}

fn number(data_type: &DataType) -> Option<u32> {
    PLAIN.iter().find(|(_, plain)| plain == data_type).map(|(number, _)| *number)
}

fn unit_number(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// Writes a field and its children, in preorder.
pub(crate) fn encode(id: u32, field: &Field, nodes: &mut Vec<Node>) -> Result<()> {
    let mut node = Node { id, name: field.name().clone(), nullable: field.is_nullable(), ..Node::default() };
    let data_type = field.data_type();
    let mut children: Vec<&FieldRef> = Vec::new();
    node.kind = match data_type {
        DataType::FixedSizeBinary(len_bytes) => {
            node.parameter = len_bytes.unsigned_abs();
            FIXED_BINARY
        }
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (node.parameter, node.scale) = (u32::from(*precision), i32::from(*scale));
            if matches!(data_type, DataType::Decimal128(_, _)) { DECIMAL128 } else { DECIMAL256 }
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            node.parameter = unit_number(*unit);
            TIME
        }
        DataType::Timestamp(unit, zone) => {
            (node.parameter, node.zone) = (unit_number(*unit), zone.as_ref().map(|zone| zone.to_string()));
            TIMESTAMP
        }
        DataType::List(item) => {
            children.push(item);
            LIST
        }
        DataType::FixedSizeList(item, len) => {
            node.parameter = len.unsigned_abs();
            children.push(item);
            FIXED_LIST
        }
        DataType::Struct(fields) => {
            children.extend(fields);
            STRUCT
        }
        DataType::Map(entries, _) => {
            children.push(entries);
            MAP
        }
        plain => number(plain).ok_or_else(|| unsupported(plain))?,
    };
    node.children = u32::try_from(children.len()).unwrap_or(u32::MAX);
    nodes.push(node);
    children.into_iter().try_for_each(|child| encode(0, child, nodes))
}

/// Reads the next field and its children. Returns the field's id too.
pub(crate) fn decode(nodes: &mut std::vec::IntoIter<Node>, depth: usize) -> Result<(u32, Field)> {
    let damaged = |what: &str| Error::corrupt(format!("a schema is damaged: {what}"));
    let node = nodes.next().ok_or_else(|| damaged("a field is missing"))?;
    if depth > DEPTH_MAX {
        return Err(damaged("a type has too many nested levels"));
    }
    let mut children = Vec::new();
    for _ in 0..node.children {
        children.push(Arc::new(decode(nodes, depth + 1)?.1));
    }
    let length = || i32::try_from(node.parameter).map_err(|_| damaged("an invalid length"));
    let decimal = || match (u8::try_from(node.parameter), i8::try_from(node.scale)) {
        (Ok(precision), Ok(scale)) => Ok((precision, scale)),
        _ => Err(damaged("an invalid decimal")),
    };
    let unit =
        || UNITS.get(node.parameter as usize).copied().ok_or_else(|| damaged("an unknown unit of time"));
    let data_type = match (node.kind, children.as_slice()) {
        (LIST, [item]) => DataType::List(Arc::clone(item)),
        (FIXED_LIST, [item]) => DataType::FixedSizeList(Arc::clone(item), length()?),
        (MAP, [entries]) => DataType::Map(Arc::clone(entries), false),
        (STRUCT, [_, ..]) => DataType::Struct(Fields::from(children)),
        (FIXED_BINARY, []) => DataType::FixedSizeBinary(length()?),
        (DECIMAL128, []) => decimal().map(|(precision, scale)| DataType::Decimal128(precision, scale))?,
        (DECIMAL256, []) => decimal().map(|(precision, scale)| DataType::Decimal256(precision, scale))?,
        (TIME, []) => match unit()? {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => DataType::Time32(unit),
            unit => DataType::Time64(unit),
        },
        (TIMESTAMP, []) => DataType::Timestamp(unit()?, node.zone.map(Into::into)),
        (kind, []) => {
            let plain = PLAIN.iter().find(|(number, _)| *number == kind);
            plain.map(|(_, plain)| plain.clone()).ok_or_else(|| damaged("an unknown type"))?
        }
        _ => return Err(damaged("a type with a wrong number of children")),
    };
    Ok((node.id, Field::new(node.name, data_type, node.nullable)))
}
