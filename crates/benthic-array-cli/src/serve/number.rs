//! Exact numbers of JSON documents.
//!
//! `serde_json` without its feature `float_roundtrip` rounds some floats to a neighbour, among them netCDF's default
//! fill value of doubles, 9.969209968386869e36. A missing value must be exact. So the numbers of a document become
//! texts before it is parsed.

use benthic_array::Dtype;
use bytes::Bytes;
use serde_json::Value;

/// Marks a text that was a number.
const MARK: char = '#';

/// A number of a document.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

/// Makes texts of the numbers of a JSON document.
pub fn quote_numbers(document: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(document.len() + document.len() / 2);
    let mut rest = document;
    while let Some(first) = rest.first() {
        let len = match first {
            b'"' => {
                let mut is_escaped = false;
                let end = rest[1..].iter().position(|byte| {
                    let ends = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    ends
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let len = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                out.extend_from_slice(&[b'"', MARK as u8]);
                out.extend_from_slice(&rest[..len]);
                out.push(b'"');
                rest = &rest[len..];
                continue;
            }
            _ => 1,
        };
        out.extend_from_slice(&rest[..len]);
        rest = &rest[len..];
    }
    out
}

impl Number {
    /// The number of a value of a quoted document.
    pub fn of(value: &Value) -> Option<Number> {
        let text = value.as_str()?.strip_prefix(MARK)?;
        match text.contains(['.', 'e', 'E']) {
            true => text.parse().ok().filter(|float: &f64| float.is_finite()).map(Number::Float),
            false => text.parse().ok().map(Number::Integer),
        }
    }

    pub fn integer(self) -> Option<i128> {
        match self {
            Number::Integer(integer) => Some(integer),
            Number::Float(_) => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }

    /// Whether an element of this type can have the value, perhaps rounded.
    pub fn fits(self, dtype: Dtype) -> bool {
        let fits =
            |min: i128, max: i128| self.integer().is_some_and(|integer| (min..=max).contains(&integer));
        match dtype {
            Dtype::Int32 => fits(i32::MIN.into(), i32::MAX.into()),
            Dtype::Int64 => fits(i64::MIN.into(), i64::MAX.into()),
            Dtype::Uint32 => fits(0, u32::MAX.into()),
            Dtype::Uint64 => fits(0, u64::MAX.into()),
            Dtype::Float32 => (self.float() as f32).is_finite(),
            _ => true,
        }
    }

    /// The element with the value, little-endian.
    pub fn element(self, dtype: Dtype) -> Bytes {
        match (dtype, self) {
            (Dtype::Float32, _) => Bytes::copy_from_slice(&(self.float() as f32).to_le_bytes()),
            (_, Number::Integer(integer)) if dtype != Dtype::Float64 => {
                Bytes::copy_from_slice(&integer.to_le_bytes()[..dtype.size_bytes()])
            }
            _ => Bytes::copy_from_slice(&self.float().to_le_bytes()),
        }
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
