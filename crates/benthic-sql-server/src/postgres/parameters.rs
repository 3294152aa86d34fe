//! Values of parameters, as clients send them.

use super::messages::{Fields, garbage};
use super::types::{self, TEXT};
use arrow::datatypes::DataType;
use benthic_core::{Error, ErrorKind, Result};
use benthic_sql::errors::from_datafusion;
use bytes::{Buf, Bytes};
use datafusion::common::ScalarValue;

/// The number of Postgres' type of each parameter: the client's choice, or the one that the query
/// implies.
pub fn parameter_types(declared: &[u32], implied: &[Option<DataType>]) -> Vec<u32> {
    let one = |number: usize| match (declared.get(number), implied.get(number)) {
        (Some(oid), _) if *oid != 0 => *oid,
        (_, Some(Some(data_type))) => types::of_column(data_type).0,
        _ => TEXT.oid,
    };
    (0..declared.len().max(implied.len())).map(one).collect()
}

/// Decodes a parameter. `oid` is the type that [`parameter_types`] gave it, and `implied` the type
/// that the query needs.
///
/// # Errors
/// `InvalidArgument` for a value that is not of the type; `Unsupported` for a binary value of
/// another type.
pub fn decode(
    value: Option<Bytes>,
    is_binary: bool,
    oid: u32,
    declared: bool,
    implied: Option<&DataType>,
) -> Result<ScalarValue> {
    let own = types::of_parameter(oid).filter(|_| declared);
    let wanted = implied.cloned().or_else(|| own.clone()).unwrap_or(DataType::Utf8);
    let convert =
        |value: ScalarValue, to: &DataType| value.cast_to(to).map_err(|error| from_datafusion(&error));
    let Some(value) = value else {
        return ScalarValue::try_from(&wanted).map_err(|error| from_datafusion(&error));
    };
    let value = if is_binary { binary(value, oid)? } else { text(&value, own.as_ref().unwrap_or(&wanted))? };
    let value = match own {
        Some(own) => convert(value, &own)?,
        None => value,
    };
    convert(value, &wanted)
}

fn text(value: &[u8], wanted: &DataType) -> Result<ScalarValue> {
    let text = std::str::from_utf8(value).map_err(|_| garbage("the value of a parameter is not UTF-8"))?;
    let is_bytes = matches!(wanted, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    if is_bytes && let Some(digits) = text.strip_prefix("\\x") {
        let invalid = || garbage("a binary value must be \\x and hexadecimal digits");
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
            pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(invalid)
        };
        return Ok(ScalarValue::Binary(Some(pairs.map(byte).collect::<Result<_>>()?)));
    }
    Ok(ScalarValue::Utf8(Some(text.to_owned())))
}

fn binary(value: Bytes, oid: u32) -> Result<ScalarValue> {
    let len = value.len();
    let mut fields = Fields(value);
    let decoded = match oid {
        16 => ScalarValue::Boolean(Some(fields.u8()? != 0)),
        17 => ScalarValue::Binary(Some(fields.bytes(len)?.into())),
        20 => ScalarValue::Int64(Some(fields.0.try_get_i64().map_err(wrong_len)?)),
        21 => ScalarValue::Int16(Some(fields.i16()?)),
        23 => ScalarValue::Int32(Some(fields.i32()?)),
        26 => ScalarValue::Int64(Some(fields.u32()?.into())),
        700 => ScalarValue::Float32(Some(fields.0.try_get_f32().map_err(wrong_len)?)),
        701 => ScalarValue::Float64(Some(fields.0.try_get_f64().map_err(wrong_len)?)),
        1082 => ScalarValue::Date32(Some(fields.i32()?.checked_add(10_957).ok_or_else(out_of_range)?)),
        1083 => ScalarValue::Time64Microsecond(Some(fields.0.try_get_i64().map_err(wrong_len)?)),
        1114 | 1184 => {
            let us = fields.0.try_get_i64().map_err(wrong_len)?;
            let us = us.checked_add(946_684_800_000_000).ok_or_else(out_of_range)?;
            let zone = (oid == 1184).then(|| "+00:00".into());
            ScalarValue::TimestampMicrosecond(Some(us), zone)
        }
        1700 => numeric(&mut fields)?,
        18 | 19 | 25 | 114 | 705 | 1042 | 1043 => text(&fields.bytes(len)?, &DataType::Utf8)?,
        _ => {
            let message = "the server does not accept this type in binary format; send it as text";
            return Err(Error::new(ErrorKind::Unsupported, message).with("type_oid", oid));
        }
    };
    if fields.0.is_empty() { Ok(decoded) } else { Err(wrong_len(())) }
}

fn wrong_len<T>(_: T) -> Error {
    garbage("the value of a parameter has a wrong length")
}

fn out_of_range() -> Error {
    garbage("a date or time is outside the calendar")
}

/// Reads a decimal number, as text, because its type depends on its digits.
fn numeric(fields: &mut Fields) -> Result<ScalarValue> {
    let groups = fields.count()?;
    let weight = i32::from(fields.i16()?);
    let sign = fields.i16()?;
    let scale = usize::from(fields.i16()?.unsigned_abs());
    if !matches!(sign, 0 | 0x4000) {
        return Err(garbage("NaN and infinity are not decimal numbers"));
    }
    if groups > 32 || !(-32..=32).contains(&weight) || scale > 128 {
        return Err(garbage("the number has too many digits"));
    }
    let mut found = Vec::new();
    for _ in 0..groups {
        found.push(fields.i16()?);
    }
    let group = |position: i32| {
        let index = usize::try_from(weight - position).ok();
        index.and_then(|index| found.get(index)).copied().unwrap_or(0)
    };
    let mut text = String::from(if sign == 0 { "" } else { "-" });
    text.extend((0..=weight.max(0)).rev().map(|position| format!("{:04}", group(position))));
    text.push('.');
    let mut fraction: String = (1..=32).map(|position| format!("{:04}", group(-position))).collect();
    fraction.truncate(scale);
    text.push_str(&fraction);
    Ok(ScalarValue::Utf8(Some(text)))
}
