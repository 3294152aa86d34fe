//! A field of a GRIB file, as the file stores it.
//!
//! The bytes are a message of edition 1, or the sections 5 to 7 of a field of edition 2: how the
//! values are packed, which points have values, and the values. If a field uses the bitmap of an
//! earlier one, the bytes begin with the section of that bitmap. The number of points is known from
//! the chunk, and all counts in the bytes are compared with it. Values are decoded one after the
//! other, so nothing but the result is allocated.
//!
//! The crate `grib` reads edition 2 only, and computes in float32, which loses digits. For CCSDS
//! packing, it needs a C library and allocates as many values as a message claims.
//!
//! A value is `(reference + integer × 2^E) / 10^D`, computed as ecCodes computes it, to the same
//! bits.
//!
//! Source: WMO, Manual on Codes, volume I.2, FM 92 GRIB.

mod aec;
mod bits;
mod complex;

use super::corrupt;
use crate::block::Tick;
use aec::Aec;
use benthic_core::Result;
use bits::Bits;
use complex::Groups;

/// Number of points between two calls of the tick.
const TICK_POINTS: usize = 1 << 16;
/// Section 6 says that the field has no bitmap, or that of an earlier field.
const NO_BITMAP: u8 = 255;
const SAME_BITMAP: u8 = 254;

/// A field whose values are still packed.
struct Field<'a> {
    packing: Packing,
    data: &'a [u8],
    /// A bit for each point, which tells whether it has a value.
    bitmap: Option<&'a [u8]>,
}

enum Packing {
    Constant(f64),
    Simple { scale: Scale, bits: u32 },
    Complex { scale: Scale, complex: complex::Parameters },
    Aec { scale: Scale, aec: aec::Parameters },
    Float32,
    Float64,
}

#[derive(Clone, Copy)]
struct Scale {
    reference: f64,
    binary: f64,
    decimal: f64,
}

impl Scale {
    fn new(reference: f64, binary_exponent: i16, decimal_exponent: i16) -> Scale {
        Scale {
            reference,
            binary: power(2.0, binary_exponent.into()),
            decimal: power(10.0, -i32::from(decimal_exponent)),
        }
    }

    fn value(self, integer: f64) -> f64 {
        (integer * self.binary + self.reference) * self.decimal
    }
}

/// A power, with the rounding of ecCodes.
fn power(base: f64, exponent: i32) -> f64 {
    let steps = std::iter::repeat_n(base, exponent.unsigned_abs() as usize);
    steps.fold(1.0, |power, base| if exponent < 0 { power / base } else { power * base })
}

/// Decodes a field. The result is the values of all points in C order, with NaN for points without
/// one. `row_elements` is the length of a row if every other row is stored backwards, else 0.
///
/// # Errors
/// `Corrupt`; those of the tick.
pub fn decode(
    encoded: &[u8],
    element_bytes: u32,
    row_elements: u32,
    size_bytes: usize,
    tick: Tick<'_>,
) -> Result<Vec<u8>> {
    let is_double = element_bytes == 8;
    let element_bytes = if is_double { 8 } else { 4 };
    let points = size_bytes / element_bytes;
    let field = if encoded.starts_with(b"GRIB") { edition_1(encoded)? } else { edition_2(encoded, points)? };
    let mut elements = Vec::with_capacity(points * element_bytes);
    let mut write = |value: f64| match is_double {
        true => elements.extend_from_slice(&value.to_le_bytes()),
        false => elements.extend_from_slice(&(value as f32).to_le_bytes()),
    };
    let Field { packing, data, bitmap } = field;
    let mut bits = Bits::new(data);
    let present = Present { bitmap, points };
    match packing {
        Packing::Constant(value) => present.each(|| Ok(value), &mut write, tick)?,
        Packing::Simple { scale, bits: width } => {
            present.each(|| Ok(scale.value(bits.read(width)? as f64)), &mut write, tick)?;
        }
        Packing::Complex { scale, complex } => {
            let mut groups = Groups::new(complex, data, points)?;
            let value = || Ok(groups.next()?.map_or(f64::NAN, |integer| scale.value(integer as f64)));
            present.each(value, &mut write, tick)?;
        }
        Packing::Aec { scale, aec } => {
            let mut samples = Aec::new(aec, data);
            present.each(|| Ok(scale.value(samples.next()? as f64)), &mut write, tick)?;
        }
        Packing::Float32 => {
            present.each(|| Ok(f32::from_bits(bits.read(32)? as u32).into()), &mut write, tick)?;
        }
        Packing::Float64 => {
            let value = || Ok(f64::from_bits(bits.read(32)? << 32 | bits.read(32)?));
            present.each(value, &mut write, tick)?;
        }
    }
    if row_elements > 0 {
        let mut rows = elements.chunks_exact_mut(row_elements as usize * element_bytes);
        while let (Some(_), Some(row)) = (rows.next(), rows.next()) {
            reverse_elements(row, element_bytes);
        }
    }
    Ok(elements)
}

fn reverse_elements(row: &mut [u8], element_bytes: usize) {
    // Reversing all bytes reverses those of each element, too.
    row.reverse();
    row.chunks_exact_mut(element_bytes).for_each(<[u8]>::reverse);
}

/// The points of a field that have values.
struct Present<'a> {
    bitmap: Option<&'a [u8]>,
    points: usize,
}

impl Present<'_> {
    fn each(
        &self,
        mut next: impl FnMut() -> Result<f64>,
        write: &mut impl FnMut(f64),
        tick: Tick<'_>,
    ) -> Result<()> {
        if self.bitmap.is_some_and(|bitmap| bitmap.len() < self.points.div_ceil(8)) {
            return Err(damaged());
        }
        for point in 0..self.points {
            if point % TICK_POINTS == 0 {
                tick()?;
            }
            let has_value = self.bitmap.is_none_or(|bitmap| bitmap[point / 8] & (0x80 >> (point % 8)) != 0);
            write(if has_value { next()? } else { f64::NAN });
        }
        Ok(())
    }
}

fn damaged() -> benthic_core::Error {
    corrupt("a GRIB field is damaged")
}

/// The bytes of a section from this octet. The manual counts octets from 1.
fn octets<const N: usize>(section: &[u8], octet: usize) -> Result<[u8; N]> {
    section.get(octet - 1..).and_then(<[u8]>::first_chunk).copied().ok_or_else(damaged)
}

fn number(section: &[u8], octet: usize) -> Result<u32> {
    octets(section, octet).map(u32::from_be_bytes)
}

fn octet(section: &[u8], octet: usize) -> Result<u8> {
    octets(section, octet).map(|[byte]| byte)
}

/// A number whose first bit is its sign.
fn signed_octets(section: &[u8], octet: usize) -> Result<i16> {
    let number = u16::from_be_bytes(octets(section, octet)?);
    let magnitude = (number & 0x7fff).cast_signed();
    Ok(if number & 0x8000 == 0 { magnitude } else { -magnitude })
}

fn edition_2(mut rest: &[u8], points: usize) -> Result<Field<'_>> {
    let (mut representation, mut bitmap, mut data) = (None, None, None);
    while !rest.is_empty() {
        let len_bytes = number(rest, 1)? as usize;
        let (section, after) = rest.split_at_checked(len_bytes).ok_or_else(damaged)?;
        match octet(section, 5)? {
            5 => representation = Some(section),
            6 => match octet(section, 6)? {
                0 => bitmap = Some(&section[6..]),
                NO_BITMAP => bitmap = None,
                SAME_BITMAP => {}
                _ => return Err(damaged()),
            },
            7 => data = Some(&section[5..]),
            _ => {}
        }
        rest = after;
    }
    let (Some(section), Some(data)) = (representation, data) else { return Err(damaged()) };
    if bitmap.is_none() && number(section, 6)? as usize != points {
        return Err(corrupt("a GRIB field has another number of values than its array")
            .with("values", number(section, 6)?)
            .with("expected_values", points));
    }
    let template = u16::from_be_bytes(octets(section, 10)?);
    if template == 4 {
        let packing = match octet(section, 12)? {
            1 => Packing::Float32,
            2 => Packing::Float64,
            _ => return Err(damaged()),
        };
        return Ok(Field { packing, data, bitmap });
    }
    let reference = f32::from_be_bytes(octets(section, 12)?).into();
    let scale = Scale::new(reference, signed_octets(section, 16)?, signed_octets(section, 18)?);
    let bits = octet(section, 20)?.into();
    let packing = match template {
        0 | 42 if bits == 0 => Packing::Constant(reference),
        // A constant field of g2c, which NCEP uses: it has no groups, and no other parameter is
        // used.
        2 | 3 if number(section, 32)? == 0 => Packing::Constant(reference),
        0 => Packing::Simple { scale, bits },
        2 | 3 => Packing::Complex { scale, complex: complex::Parameters::parse(section, template == 3)? },
        42 => Packing::Aec { scale, aec: aec::Parameters::parse(section)? },
        _ => return Err(corrupt("a GRIB field has an unknown packing").with("template", template)),
    };
    Ok(Field { packing, data, bitmap })
}

/// Edition 1 has no numbers of sections: optional ones follow each other.
fn edition_1(message: &[u8]) -> Result<Field<'_>> {
    const INDICATOR_BYTES: usize = 8;
    const HAS_GRID: u8 = 0x80;
    const HAS_BITMAP: u8 = 0x40;
    /// Spherical harmonics, complex packing and additional flags.
    const NOT_SIMPLE: u8 = 0xd0;
    let len_of = |section: &[u8]| {
        octets(section, 1).map(|[high, middle, low]| u32::from_be_bytes([0, high, middle, low]) as usize)
    };
    if octet(message, 8)? != 1 {
        return Err(corrupt("a chunk is not a GRIB message of edition 1"));
    }
    let product = &message[INDICATOR_BYTES..];
    let flags = octet(product, 8)?;
    let decimal_exponent = signed_octets(product, 27)?;
    let mut rest = product.get(len_of(product)?..).ok_or_else(damaged)?;
    if flags & HAS_GRID != 0 {
        rest = rest.get(len_of(rest)?..).ok_or_else(damaged)?;
    }
    let mut bitmap = None;
    if flags & HAS_BITMAP != 0 {
        let (section, after) = rest.split_at_checked(len_of(rest)?).ok_or_else(damaged)?;
        // Other numbers stand for bitmaps of the producer.
        if octets(section, 5)? != [0, 0] {
            return Err(damaged());
        }
        bitmap = section.get(6..);
        rest = after;
    }
    if octet(rest, 4)? & NOT_SIMPLE != 0 {
        return Err(corrupt("a GRIB field has an unknown packing"));
    }
    let reference = ibm_float(number(rest, 7)?);
    let bits = octet(rest, 11)?.into();
    let scale = Scale::new(reference, signed_octets(rest, 5)?, decimal_exponent);
    let packing = if bits == 0 { Packing::Constant(reference) } else { Packing::Simple { scale, bits } };
    // The length of the section is not needed: that of a large message is another number.
    Ok(Field { packing, data: &rest[11..], bitmap })
}

/// A float of the IBM System/360: a sign, an exponent of 16 and 24 bits.
fn ibm_float(number: u32) -> f64 {
    let exponent = (number >> 24 & 0x7f) as i32 - 64;
    let magnitude = f64::from(number & 0x00ff_ffff) * power(16.0, exponent - 6);
    if number >> 31 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
#[path = "../grib_tests.rs"]
mod tests;
