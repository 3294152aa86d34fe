//! The options that select a part of an array: by position and by coordinate.

use benthic_array::{Array, DateRange, Decoding, Dtype, LabelRange, NumberRange, Slice};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, Result};
use clap::Args;
use std::str::FromStr;

/// Options that select a part of an array.
#[derive(Args)]
pub struct SelectionArgs {
    /// Select positions along dimensions: DIM=START:STOP[:STEP], without STOP, or DIM=POSITION
    #[arg(long, value_name = "DIM=RANGE,…", value_delimiter = ',')]
    select: Vec<Positions>,
    /// Select coordinates along dimensions: DIM=MIN:MAX with both ends, or DIM=VALUE. Of time also
    /// dates, which stand for the whole month, day, hour, minute or second: 2024-01, 2024-01-31,
    /// 2024-01-31T12:00
    #[arg(long = "where", value_name = "DIM=RANGE,…", value_delimiter = ',')]
    labels: Vec<Labels>,
    /// Use only values from MIN to MAX, with both ends; others count as missing
    #[arg(long, value_name = "MIN:MAX", value_parser = range, allow_hyphen_values = true)]
    values: Option<NumberRange>,
    /// Use the stored numbers; do not apply scale_factor, add_offset, _FillValue and the like
    #[arg(long)]
    raw: bool,
}

/// Positions along a dimension. Negative ones count from the end.
#[derive(Clone, Debug)]
struct Positions {
    dimension: String,
    start: Option<i64>,
    stop: Option<i64>,
    step: u64,
    is_single: bool,
}

#[derive(Clone, Debug)]
struct Labels {
    dimension: String,
    range: LabelRange,
}

fn invalid(message: &str, text: &str) -> Error {
    Error::invalid_argument(message).with("got", text)
}

impl FromStr for Positions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Positions> {
        let usage = || invalid("positions are DIM=START:STOP[:STEP] or DIM=POSITION", text);
        let (dimension, range) = text.split_once('=').ok_or_else(usage)?;
        let number = |text: &str| match text {
            "" => Ok(None),
            _ => text.parse().map(Some).map_err(|_| usage()),
        };
        let parts: Vec<&str> = range.split(':').collect();
        let (start, stop, step, is_single) = match parts[..] {
            [position] => (Some(position.parse().map_err(|_| usage())?), None, 1, true),
            [start, stop] => (number(start)?, number(stop)?, 1, false),
            [start, stop, step] => (
                number(start)?,
                number(stop)?,
                step.parse().ok().filter(|step| *step > 0).ok_or_else(usage)?,
                false,
            ),
            _ => return Err(usage()),
        };
        Ok(Positions { dimension: dimension.to_owned(), start, stop, step, is_single })
    }
}

impl FromStr for Labels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Labels> {
        let usage = || {
            let message = "coordinates are DIM=MIN:MAX or DIM=VALUE, with numbers or dates such as 2024-01-31T12:00; one end \
                may be left out";
            invalid(message, text)
        };
        let (dimension, range) = text.split_once('=').ok_or_else(usage)?;
        let numbers = range_of(range).map(LabelRange::Numbers);
        let range = numbers.or_else(|| DateRange::parse(range).map(LabelRange::Dates)).ok_or_else(usage)?;
        Ok(Labels { dimension: dimension.to_owned(), range })
    }
}

/// Parses `MIN:MAX` or `VALUE`.
///
/// # Errors
/// `InvalidArgument`.
pub fn range(text: &str) -> Result<NumberRange> {
    range_of(text).ok_or_else(|| invalid("a range is MIN:MAX or VALUE; one end may be left out", text))
}

fn range_of(text: &str) -> Option<NumberRange> {
    let number = |text: &str, open: f64| match text {
        "" => Some(open),
        _ => text.parse::<f64>().ok(),
    };
    let (min, max) = text.split_once(':').map_or((text, text), |ends| ends);
    let range = NumberRange { min: number(min, f64::NEG_INFINITY)?, max: number(max, f64::INFINITY)? };
    let has_end = !min.is_empty() || !max.is_empty();
    // Not if an end is NaN.
    (has_end && range.min <= range.max).then_some(range)
}

impl Positions {
    /// Ranges are cut at the ends of the axis, as in Python; a single position must exist.
    fn slice(&self, len: u64) -> Result<Slice> {
        let signed_len = i64::try_from(len).unwrap_or(i64::MAX);
        let place = |position: i64| if position < 0 { position.saturating_add(signed_len) } else { position };
        if self.is_single {
            let position = place(self.start.unwrap_or(0));
            let start = u64::try_from(position).ok().filter(|start| *start < len);
            let start = start.ok_or_else(|| {
                Error::invalid_argument("the position is outside the dimension")
                    .with("dimension", &self.dimension)
                    .with("position", position)
                    .with("len", len)
            })?;
            return Ok(Slice { start, step: 1, count: 1 });
        }
        let cut = |position: i64| place(position).clamp(0, signed_len).unsigned_abs();
        let (start, stop) = (cut(self.start.unwrap_or(0)), self.stop.map_or(len, cut));
        Ok(Slice { start, step: self.step, count: stop.saturating_sub(start).div_ceil(self.step) })
    }
}

/// The axis with this dimension's name or number.
///
/// # Errors
/// `NotFound`; the message has the names.
pub fn axis(array: &Array, name: &str) -> Result<usize> {
    let dimensions = &array.metadata().dimensions;
    let named = dimensions.iter().position(|dimension| dimension.as_deref() == Some(name));
    let numbered = name.parse().ok().filter(|axis| *axis < dimensions.len());
    named.or(numbered).ok_or_else(|| {
        let known: Vec<String> = dimensions
            .iter()
            .enumerate()
            .map(|(axis, dimension)| dimension.clone().unwrap_or_else(|| axis.to_string()))
            .collect();
        Error::not_found("the array has no such dimension")
            .with("dimension", name)
            .with("dimensions", known.join(","))
    })
}

impl SelectionArgs {
    /// The slices of the selection. Reads the coordinates that it names.
    ///
    /// # Errors
    /// `NotFound` for an unknown dimension, missing coordinates, or coordinates out of range.
    pub async fn resolve(&self, array: &Array, pushdown: Pushdown) -> Result<Vec<Slice>> {
        let mut slices = array.whole();
        let mut is_set = vec![false; slices.len()];
        let mut claim = |name: &str| {
            let axis = axis(array, name)?;
            if std::mem::replace(&mut is_set[axis], true) {
                return Err(invalid("a dimension is selected twice", name));
            }
            Ok(axis)
        };
        for positions in &self.select {
            let axis = claim(&positions.dimension)?;
            slices[axis] = positions.slice(array.metadata().shape[axis])?;
        }
        for labels in &self.labels {
            let axis = claim(&labels.dimension)?;
            let coordinates = array.coordinates(axis, slices[axis], pushdown).await?;
            let found = labels.range.positions(&coordinates);
            slices[axis] = found.map_err(|error| error.with("dimension", &labels.dimension))?;
        }
        Ok(slices)
    }

    /// How values are decoded.
    ///
    /// # Errors
    /// As [`benthic_array::decoding`].
    pub fn decoding(&self, array: &Array) -> Result<Option<Decoding>> {
        let decoding = if self.raw { None } else { benthic_array::decoding(array.metadata())? };
        let Some(NumberRange { min, max }) = self.values else { return Ok(decoding) };
        let is_single = array.metadata().format.dtype == Dtype::Float32;
        let decoding = decoding.unwrap_or(Decoding { is_single, ..Decoding::default() });
        Ok(Some(Decoding { wanted_min: Some(min), wanted_max: Some(max), ..decoding }))
    }
}
