//! The CF conventions: how attributes turn stored numbers into values, and how coordinates name
//! positions.
//!
//! Source: "NetCDF Climate and Forecast Metadata Conventions", sections 2.5.1 and 8.1; for the
//! base64 texts, xarray's encoding of `_FillValue` in Zarr v3.

use crate::calendar::{DateRange, TimeUnits};
use crate::dtype::{Dtype, Element, NumberKind};
use crate::json::{element_json, parse_element};
use crate::metadata::ArrayMetadata;
use crate::reduce::Decoding;
use crate::selection::{Bounded, Slice};
use crate::values::Values;
use benthic_core::{Error, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use std::fmt;

/// Returns the decoding that the attributes define. `None` if values need no decoding.
///
/// # Errors
/// `Corrupt` for an attribute that is not a number; `Unsupported` for `_Unsigned`.
pub fn decoding(metadata: &ArrayMetadata) -> Result<Option<Decoding>> {
    let dtype = metadata.format.dtype;
    let attributes = &metadata.attributes;
    let invalid = |name: &str| {
        Error::corrupt("an attribute of the CF conventions is not a number; --raw ignores it")
            .with("attribute", name)
    };
    if attributes.contains_key("_Unsigned") {
        let message = "the attribute _Unsigned is not supported; --raw reads the stored numbers";
        return Err(Error::unsupported(message));
    }
    let float = |name: &str, value: &Value| {
        let element = parse_element(Dtype::Float64, single(value)).ok_or_else(|| invalid(name))?;
        Ok(f64::from_le(&element))
    };
    let number = |name: &str| match attributes.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => float(name, value).map(Some),
    };
    let mut missing = Vec::new();
    for name in ["_FillValue", "missing_value"] {
        let values = match attributes.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(values)) => &values[..],
            Some(value) => std::slice::from_ref(value),
        };
        for value in values {
            match element(dtype, value) {
                Some(element) => missing.push(element),
                // No element has this value, if it is a number.
                None => drop(float(name, value)?),
            }
        }
    }
    // The fill value of version 2 marks missing elements, as in xarray, but 0 is only its default.
    missing.extend(metadata.v2_fill.clone().filter(|fill| fill.iter().any(|byte| *byte != 0)));
    // A NaN is missing already.
    missing.retain(|element| element_json(dtype, element) != json!("NaN"));
    missing.sort();
    missing.dedup();
    let range = match attributes.get("valid_range") {
        Some(Value::Array(range)) if range.len() == 2 => {
            (Some(float("valid_range", &range[0])?), Some(float("valid_range", &range[1])?))
        }
        None => (number("valid_min")?, number("valid_max")?),
        Some(_) => return Err(invalid("valid_range")),
    };
    let unchanged = Decoding { is_single: dtype == Dtype::Float32, ..Decoding::default() };
    let decoding = Decoding {
        missing: Bounded(missing),
        valid_min: range.0,
        valid_max: range.1,
        scale: number("scale_factor")?,
        offset: number("add_offset")?,
        ..unchanged.clone()
    };
    Ok((decoding != unchanged).then_some(decoding))
}

/// Some netCDF libraries store a single number as a list.
fn single(value: &Value) -> &Value {
    match value {
        Value::Array(items) if items.len() == 1 => &items[0],
        _ => value,
    }
}

fn element(dtype: Dtype, value: &Value) -> Option<Bytes> {
    if let (NumberKind::Float, Some(text)) = (dtype.number_kind(), value.as_str())
        && let Ok(bytes) = base64_simd::STANDARD.decode_to_vec(text)
        && let Ok(bits) = <[u8; 8]>::try_from(&bytes[..])
    {
        let number = f64::from_le_bytes(bits);
        return Some(match dtype {
            Dtype::Float32 => Bytes::copy_from_slice(&(number as f32).to_le_bytes()),
            _ => Bytes::copy_from_slice(&number.to_le_bytes()),
        });
    }
    parse_element(dtype, value)
}

/// The coordinates along a dimension, or along a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinates {
    /// Decoded; NaN for a missing one.
    pub values: Vec<f64>,
    /// The attributes of the coordinates; those of time define what the numbers mean.
    pub units: Option<String>,
    pub calendar: Option<String>,
}

impl Coordinates {
    /// # Errors
    /// `Corrupt` for attributes that define no decoding.
    pub(crate) fn decode(metadata: &ArrayMetadata, values: Values) -> Result<Coordinates> {
        let values = values.into_floats(decoding(metadata)?.as_ref());
        let text = |name: &str| metadata.attributes.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Coordinates { values, units: text("units"), calendar: text("calendar") })
    }
}

/// A range of values, with both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRange {
    pub min: f64,
    pub max: f64,
}

/// A range of coordinates along a dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelRange {
    Numbers(NumberRange),
    Dates(DateRange),
}

impl LabelRange {
    /// The positions of the coordinates in the range.
    ///
    /// # Errors
    /// `NotFound` if no coordinate is in the range; `InvalidArgument` if they are not contiguous,
    /// and for dates if the coordinates are not those of time; `Unsupported` for an unknown
    /// calendar.
    pub fn positions(&self, coordinates: &Coordinates) -> Result<Slice> {
        let values = &coordinates.values;
        let units = coordinates.units.as_deref().unwrap_or_default();
        let is_in: Vec<bool> = match self {
            LabelRange::Numbers(NumberRange { min, max }) => {
                values.iter().map(|value| value >= min && value <= max).collect()
            }
            LabelRange::Dates(range) => {
                range.contains(values, &TimeUnits::parse(units, coordinates.calendar.as_deref())?)?
            }
        };
        let count = is_in.iter().filter(|is_in| **is_in).count();
        let Some(start) = is_in.iter().position(|is_in| *is_in) else {
            let present = values.iter().copied().filter(|value| !value.is_nan());
            let (first, last) =
                (present.clone().fold(f64::INFINITY, f64::min), present.fold(f64::NEG_INFINITY, f64::max));
            let error = Error::not_found("no coordinate is in this range")
                .with("range", self)
                .with("coordinates", format!("{first}..{last}"));
            return Err(if units.is_empty() { error } else { error.with("units", units) });
        };
        if !is_in[start..start + count].iter().all(|is_in| *is_in) {
            let message = "the coordinates in this range are not contiguous; select positions instead";
            return Err(Error::invalid_argument(message));
        }
        Ok(Slice { start: start as u64, step: 1, count: count as u64 })
    }
}

impl fmt::Display for LabelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelRange::Numbers(NumberRange { min, max }) => write!(f, "{min}:{max}"),
            LabelRange::Dates(range) => range.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "cf_tests.rs"]
mod tests;
