//! Values of parameters, as clients send them.

use super::messages::{Fields, garbage};
use super::types::{self, TEXT};
use arrow::datatypes::DataType;
use benthic_core::{Error, Result};
use benthic_sql::errors::from_datafusion;
use bytes::{Buf, Bytes};
use datafusion::common::ScalarValue;

/// Limit of the items of an array. In memory, an item takes much more than in a message.
const ITEMS_MAX: usize = 1_000_000;

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
    if let DataType::List(item) = own.as_ref().unwrap_or(&wanted) {
        return convert(array(value, is_binary, item.data_type())?, &wanted);
    }
    let value = if is_binary { binary(value, oid)? } else { text(&value, own.as_ref().unwrap_or(&wanted))? };
    let value = if let Some(own) = own { convert(value, &own)? } else { value };
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
            return Err(Error::unsupported(message).with("type_oid", oid));
        }
    };
    if fields.0.is_empty() { Ok(decoded) } else { Err(wrong_len(())) }
}

/// An array of one dimension.
fn array(value: Bytes, is_binary: bool, item: &DataType) -> Result<ScalarValue> {
    let items = if is_binary { binary_items(value)? } else { text_items(&value, item)? };
    let convert = |value: Option<ScalarValue>| match value {
        Some(value) => value.cast_to(item),
        None => ScalarValue::try_from(item),
    };
    let items: datafusion::common::Result<Vec<ScalarValue>> = items.into_iter().map(convert).collect();
    let items = items.map_err(|error| from_datafusion(&error))?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, item)))
}

/// Adds an item of an array.
fn push(items: &mut Vec<Option<ScalarValue>>, item: Option<ScalarValue>) -> Result<()> {
    if items.len() == ITEMS_MAX {
        let message = "an array has too many items; send them in several queries";
        return Err(Error::limit_exceeded(message).with("items_max", ITEMS_MAX));
    }
    items.push(item);
    Ok(())
}

fn binary_items(value: Bytes) -> Result<Vec<Option<ScalarValue>>> {
    let mut fields = Fields(value);
    let (dimensions, _has_nulls, oid) = (fields.i32()?, fields.i32()?, fields.u32()?);
    let mut items = Vec::new();
    if dimensions > 1 {
        return Err(Error::unsupported("the server does not accept arrays of arrays; send one dimension"));
    }
    if dimensions == 1 {
        let (count, _first) = (fields.i32()?, fields.i32()?);
        for _ in 0..count {
            push(&mut items, fields.value()?.map(|value| binary(value, oid)).transpose()?)?;
        }
    }
    if fields.0.is_empty() { Ok(items) } else { Err(wrong_len(())) }
}

/// The items of an array such as `{a, "b, c", NULL}`.
fn text_items(value: &[u8], wanted: &DataType) -> Result<Vec<Option<ScalarValue>>> {
    let invalid = || garbage("an array must be items between { and }, with commas between them");
    let text_of = std::str::from_utf8(value).map_err(|_| garbage("the value of a parameter is not UTF-8"))?;
    let inner = text_of.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(invalid)?.trim_start();
    let (mut items, mut rest) = (Vec::new(), inner.chars().peekable());
    if inner.is_empty() {
        return Ok(items);
    }
    loop {
        while rest.next_if(|next| next.is_whitespace()).is_some() {}
        let mut item = String::new();
        let is_quoted = rest.next_if_eq(&'"').is_some();
        loop {
            match rest.peek() {
                None if is_quoted => return Err(invalid()),
                None => break,
                Some('"') if is_quoted => {
                    rest.next();
                    break;
                }
                Some(',') if !is_quoted => break,
                Some('{' | '}' | '"') if !is_quoted => return Err(invalid()),
                Some('\\') => {
                    rest.next();
                    item.push(rest.next().ok_or_else(invalid)?);
                }
                Some(_) => item.extend(rest.next()),
            }
        }
        while rest.next_if(|next| next.is_whitespace()).is_some() {}
        let item = if is_quoted { item.as_str() } else { item.trim_end() };
        if !is_quoted && item.is_empty() {
            return Err(invalid());
        }
        let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
        push(&mut items, if is_null { None } else { Some(text(item.as_bytes(), wanted)?) })?;
        match rest.next() {
            None => return Ok(items),
            Some(',') => {}
            Some(_) => return Err(invalid()),
        }
    }
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

#[cfg(test)]
#[path = "parameters_tests.rs"]
mod tests;
