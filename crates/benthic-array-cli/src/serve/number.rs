//! Numbers of requests. They stay exact: floats cannot represent all 64-bit integers.

use benthic_array::Dtype;
use bytes::Bytes;
use serde_json::Value;

/// A number of a request.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Number> {
        match value.as_number()?.as_i128() {
            Some(integer) => Some(Number::Integer(integer)),
            None => value.as_f64().map(Number::Float),
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
