//! The numbers during a reduction: how they are read from rows and stored in states.

use super::Decoding;
use crate::block::Row;
use crate::dtype::{Element, with_element};
use crate::values::Values;
use benthic_core::codec::{Decoded, Decoder, Encode, Wire};

/// A number during a reduction.
pub trait Number: Copy + PartialOrd + Send + 'static {
    const ZERO: Self;

    /// Appends the values of a row.
    fn read(row: &Row<'_>, decoding: Option<&Decoding>, out: &mut Vec<Self>);
    fn is_nan(self) -> bool;
    fn to_f64(self) -> f64;
    /// The value of an integer. Meaningless for floats.
    fn to_i128(self) -> i128;
    /// Appends the number to a result.
    fn push_to(self, values: &mut Values);
    /// The number as 64 bits: an integer in two's complement, or a float's bits.
    fn bits(self) -> u64;
    /// Reverses [`Number::bits`].
    fn from_bits(bits: u64) -> Self;
    /// Makes a float NaN. Integers have no missing value, so no reduction of them has a mask.
    fn make_missing(&mut self) {}
}

fn read_floats<T: Element>(row: &Row<'_>, decoding: Option<&Decoding>, out: &mut Vec<f64>) {
    let Some(decoding) = decoding else { return row.map_to(out, T::to_f64) };
    let missing: Vec<T> = decoding.missing.0.iter().map(|element| T::from_le(element)).collect();
    let is_valid = |element: T| {
        let value = element.to_f64();
        !missing.contains(&element)
            && decoding.valid_min.is_none_or(|min| value >= min)
            && decoding.valid_max.is_none_or(|max| value <= max)
    };
    let (scale, offset) = (decoding.scale.unwrap_or(1.0), decoding.offset);
    let start = out.len();
    if decoding.is_single {
        let (scale, offset) = (scale as f32, offset.map(|offset| offset as f32));
        row.map_to(out, |element: T| match is_valid(element) {
            // Without an offset, -0.0 stays -0.0.
            true => {
                f64::from(offset.map_or(element.to_f32() * scale, |offset| element.to_f32() * scale + offset))
            }
            false => f64::NAN,
        });
    } else {
        row.map_to(out, |element: T| match is_valid(element) {
            true => offset.map_or(element.to_f64() * scale, |offset| element.to_f64() * scale + offset),
            false => f64::NAN,
        });
    }
    if decoding.wanted_min.is_none() && decoding.wanted_max.is_none() {
        return;
    }
    let (min, max) = decoding.wanted_range();
    for value in &mut out[start..] {
        if min.is_some_and(|min| *value < min) || max.is_some_and(|max| *value > max) {
            *value = f64::NAN;
        }
    }
}

impl Decoding {
    /// The wanted range. A float32 is compared with the nearest float32, as NumPy does.
    fn wanted_range(&self) -> (Option<f64>, Option<f64>) {
        let bound = |bound: f64| if self.is_single { f64::from(bound as f32) } else { bound };
        (self.wanted_min.map(bound), self.wanted_max.map(bound))
    }

    /// Whether a decoded value between these ends may be in the wanted range.
    pub(crate) fn wants(&self, low: f64, high: f64) -> bool {
        let (min, max) = self.wanted_range();
        min.is_none_or(|min| high >= min) && max.is_none_or(|max| low <= max)
    }
}

fn read_signed<T: Element>(row: &Row<'_>, out: &mut Vec<i64>) {
    row.map_to(out, T::to_i64);
}

fn read_unsigned<T: Element>(row: &Row<'_>, out: &mut Vec<u64>) {
    row.map_to(out, T::to_u64);
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    fn read(row: &Row<'_>, decoding: Option<&Decoding>, out: &mut Vec<f64>) {
        with_element!(row.dtype, read_floats::<_>(row, decoding, out));
    }

    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn to_i128(self) -> i128 {
        0
    }

    fn make_missing(&mut self) {
        *self = f64::NAN;
    }

    fn push_to(self, values: &mut Values) {
        values.push_f64(self);
    }

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;

    fn read(row: &Row<'_>, _: Option<&Decoding>, out: &mut Vec<i64>) {
        with_element!(row.dtype, read_signed::<_>(row, out));
    }

    fn is_nan(self) -> bool {
        false
    }

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn to_i128(self) -> i128 {
        self.into()
    }

    fn push_to(self, values: &mut Values) {
        values.push_integer(self.cast_unsigned());
    }

    fn bits(self) -> u64 {
        self.cast_unsigned()
    }

    fn from_bits(bits: u64) -> i64 {
        bits.cast_signed()
    }
}

impl Number for u64 {
    const ZERO: u64 = 0;

    fn read(row: &Row<'_>, _: Option<&Decoding>, out: &mut Vec<u64>) {
        with_element!(row.dtype, read_unsigned::<_>(row, out));
    }

    fn is_nan(self) -> bool {
        false
    }

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn to_i128(self) -> i128 {
        self.into()
    }

    fn push_to(self, values: &mut Values) {
        values.push_integer(self);
    }

    fn bits(self) -> u64 {
        self
    }

    fn from_bits(bits: u64) -> u64 {
        bits
    }
}

/// A number in a state: its 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Bits<V>(pub V);

impl<V: Number> Wire for Bits<V> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.0.bits());
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Bits<V>> {
        input.u64().map(|bits| Bits(V::from_bits(bits)))
    }
}
