//! Elements of arrays as JSON, and a parser for JSON with NaN, which Python writes.

use crate::dtype::{Dtype, Element, NumberKind, with_element};
use bytes::Bytes;
use serde_json::{Value, json};

/// The element that a JSON value stands for, little-endian. `None` if the type has no such element.
pub fn parse_element(dtype: Dtype, value: &Value) -> Option<Bytes> {
    let float = || match value {
        Value::String(text) => match &text[..] {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => value.as_f64(),
    };
    // The bits of a float, as version 3 writes a NaN with a payload.
    let bits = || u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
    // Version 2 may have an integer as a float, such as 0.0.
    let whole = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
    let signed = || value.as_i64().or_else(|| whole().map(|number| number as i64));
    let unsigned = || {
        let positive = || whole().filter(|number| *number >= 0.0);
        value.as_u64().or_else(|| positive().map(|number| number as u64))
    };
    macro_rules! integer {
        ($type:ident, $number:expr) => {
            $type::try_from($number?).ok()?.to_le_bytes().to_vec()
        };
    }
    Some(Bytes::from(match dtype {
        Dtype::Bool => match value {
            Value::Bool(value) => vec![(*value).into()],
            Value::Number(number) if number.as_f64() == Some(0.0) => vec![0],
            Value::Number(number) if number.as_f64() == Some(1.0) => vec![1],
            _ => return None,
        },
        Dtype::Int8 => integer!(i8, signed()),
        Dtype::Int16 => integer!(i16, signed()),
        Dtype::Int32 => integer!(i32, signed()),
        Dtype::Int64 => integer!(i64, signed()),
        Dtype::Uint8 => integer!(u8, unsigned()),
        Dtype::Uint16 => integer!(u16, unsigned()),
        Dtype::Uint32 => integer!(u32, unsigned()),
        Dtype::Uint64 => integer!(u64, unsigned()),
        Dtype::Float32 => match bits() {
            Some(bits) => u32::try_from(bits).ok()?.to_le_bytes().to_vec(),
            None => (float()? as f32).to_le_bytes().to_vec(),
        },
        Dtype::Float64 => match bits() {
            Some(bits) => bits.to_le_bytes().to_vec(),
            None => float()?.to_le_bytes().to_vec(),
        },
    }))
}

/// An element as JSON. JSON has no NaN and no infinities, so they are texts, as in Zarr.
pub fn element_json(dtype: Dtype, element: &[u8]) -> Value {
    fn float(value: f64) -> Value {
        match value {
            _ if value.is_nan() => json!("NaN"),
            f64::INFINITY => json!("Infinity"),
            f64::NEG_INFINITY => json!("-Infinity"),
            _ => json!(value),
        }
    }
    fn signed<T: Element>(element: &[u8]) -> Value {
        json!(T::from_le(element).to_i64())
    }
    fn unsigned<T: Element>(element: &[u8]) -> Value {
        json!(T::from_le(element).to_u64())
    }
    match dtype {
        Dtype::Bool => json!(element != [0]),
        // The shortest digits that give the same float32, not those of its value as a float64.
        Dtype::Float32 => {
            let value = f32::from_le(element);
            float(if value.is_finite() {
                value.to_string().parse().unwrap_or(f64::NAN)
            } else {
                value.into()
            })
        }
        Dtype::Float64 => float(f64::from_le(element)),
        _ if dtype.number_kind() == NumberKind::Signed => with_element!(dtype, signed::<_>(element)),
        _ => with_element!(dtype, unsigned::<_>(element)),
    }
}

/// Parses JSON in which numbers may be `NaN`, `Infinity` or `-Infinity`, as Python writes it. They
/// become texts.
///
/// Floats are exact. `serde_json` without its feature `float_roundtrip` rounds some to a neighbour,
/// among them netCDF's default fill value 9.969209968386869e36, and then no value would equal it.
/// So this function makes marked texts of all numbers, and parses these itself.
///
/// # Errors
/// Those of the parser.
pub fn parse_with_nan(document: &[u8]) -> serde_json::Result<Value> {
    let mut marked = Vec::with_capacity(2 * document.len());
    let mut rest = document;
    while let Some(first) = rest.first() {
        let not_finite = NOT_FINITE.into_iter().find(|token| rest.starts_with(token));
        let (mark, token) = match (first, not_finite) {
            (_, Some(token)) => (Some(TEXT), token),
            (b'"', _) => match text_end(rest) {
                Some(end) => (Some(TEXT), &rest[1..end]),
                // The parser's message names the missing part.
                None => return serde_json::from_slice(rest),
            },
            (b'-' | b'0'..=b'9', _) => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let len = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                (Some(NUMBER), &rest[..len])
            }
            _ => (None, &rest[..1]),
        };
        marked.extend(mark.into_iter().flat_map(|mark| [b'"', mark]));
        marked.extend_from_slice(token);
        marked.extend(mark.map(|_| b'"'));
        let quotes = if *first == b'"' { 2 } else { 0 };
        rest = rest.get(token.len() + quotes..).unwrap_or_default();
    }
    without_marks(serde_json::from_slice(&marked)?)
}

/// The words that Python writes for numbers that JSON lacks.
const NOT_FINITE: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
/// The first characters of marked texts.
const TEXT: u8 = b't';
const NUMBER: u8 = b'n';

/// The position of the quote that ends a text.
fn text_end(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    let ends = |byte: &u8| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    };
    text[1..].iter().position(ends).map(|end| end + 1)
}

fn without_marks(marked: Value) -> serde_json::Result<Value> {
    Ok(match marked {
        Value::String(text) => match text.strip_prefix('n') {
            Some(number) => match serde_json::from_str(number)? {
                Value::Number(float) if float.is_f64() => json!(number.parse::<f64>().unwrap_or(f64::NAN)),
                integer => integer,
            },
            None => json!(text.strip_prefix('t')),
        },
        Value::Array(items) => items.into_iter().map(without_marks).collect::<serde_json::Result<_>>()?,
        Value::Object(fields) => {
            let without_mark = |(name, value): (String, Value)| {
                let name = match name.strip_prefix('t') {
                    Some(name) => name.to_owned(),
                    // A number is no name.
                    None => serde_json::from_str(&name[1..])?,
                };
                Ok((name, without_marks(value)?))
            };
            fields.into_iter().map(without_mark).collect::<serde_json::Result<_>>()?
        }
        other => other,
    })
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
