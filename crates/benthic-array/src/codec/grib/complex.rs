//! Complex packing: groups of values, each with a reference and a width, and differences of
//! neighbours.
//!
//! The references, widths and lengths of all groups come before the values. Four readers follow
//! them at once, so no group is in memory.

use super::bits::Bits;
use super::{damaged, number, octet};
use benthic_core::Result;

/// Templates 5.2 and 5.3.
pub struct Parameters {
    reference_bits: u32,
    /// The number of kinds of missing values: 0, 1 or 2.
    missing_kinds: u64,
    groups: u64,
    width_reference: u32,
    width_bits: u32,
    length_reference: u64,
    length_increment: u64,
    last_length: u64,
    length_bits: u32,
    /// 0 without differences.
    order: usize,
    extra_bits: u32,
}

impl Parameters {
    pub fn parse(section: &[u8], has_differences: bool) -> Result<Parameters> {
        let (order, extra_octets) = match has_differences {
            true => (octet(section, 48)?.into(), u32::from(octet(section, 49)?)),
            false => (0, 0),
        };
        let parameters = Parameters {
            reference_bits: octet(section, 20)?.into(),
            missing_kinds: octet(section, 23)?.into(),
            groups: number(section, 32)?.into(),
            width_reference: octet(section, 36)?.into(),
            width_bits: octet(section, 37)?.into(),
            length_reference: number(section, 38)?.into(),
            length_increment: octet(section, 42)?.into(),
            last_length: number(section, 43)?.into(),
            length_bits: octet(section, 47)?.into(),
            order,
            extra_bits: 8 * extra_octets,
        };
        let is_valid = parameters.missing_kinds <= 2
            && [
                parameters.reference_bits,
                parameters.width_bits,
                parameters.length_bits,
                parameters.extra_bits,
            ]
            .iter()
            .all(|bits| *bits <= 32)
            && if has_differences { matches!(order, 1 | 2) } else { true };
        if is_valid { Ok(parameters) } else { Err(damaged()) }
    }
}

/// The values of all groups.
pub struct Groups<'a> {
    parameters: Parameters,
    references: Bits<'a>,
    widths: Bits<'a>,
    lengths: Bits<'a>,
    values: Bits<'a>,
    groups_left: u64,
    reference: u64,
    width: u32,
    values_left: u64,
    /// The first values, until they are used.
    first: [i64; 2],
    first_used: usize,
    smallest: i64,
    /// The value before, and the one before that.
    last: [i64; 2],
}

impl<'a> Groups<'a> {
    pub fn new(parameters: Parameters, data: &'a [u8], points: usize) -> Result<Groups<'a>> {
        // A group without values would cost time.
        if parameters.groups > points as u64 {
            return Err(damaged());
        }
        let mut references = Bits::new(data);
        let mut first = [0; 2];
        for first in &mut first[..parameters.order] {
            *first = references.read(parameters.extra_bits)?.cast_signed();
        }
        let mut smallest = 0;
        if parameters.order > 0 && parameters.extra_bits > 0 {
            let is_negative = references.read(1)? == 1;
            let magnitude = references.read(parameters.extra_bits - 1)?.cast_signed();
            smallest = if is_negative { -magnitude } else { magnitude };
        }
        let groups = parameters.groups;
        let widths = references.after(groups, parameters.reference_bits)?;
        let lengths = widths.after(groups, parameters.width_bits)?;
        let values = lengths.after(groups, parameters.length_bits)?;
        Ok(Groups {
            references,
            widths,
            lengths,
            values,
            groups_left: groups,
            reference: 0,
            width: 0,
            values_left: 0,
            first,
            first_used: 0,
            smallest,
            last: [0; 2],
            parameters,
        })
    }

    /// The next value. `None` if it is missing.
    pub fn next(&mut self) -> Result<Option<i64>> {
        while self.values_left == 0 {
            self.next_group()?;
        }
        self.values_left -= 1;
        // The largest numbers stand for missing values: of the values, or if they have no bits, of
        // the references.
        let (number, bits) = match self.width {
            0 => (self.reference, self.parameters.reference_bits),
            width => (self.values.read(width)?, width),
        };
        if number + self.parameters.missing_kinds >= 1 << bits && self.parameters.missing_kinds > 0 {
            return Ok(None);
        }
        let value = if self.width == 0 { number } else { self.reference + number };
        Ok(Some(self.undo_difference(value.cast_signed())))
    }

    fn next_group(&mut self) -> Result<()> {
        self.groups_left = self.groups_left.checked_sub(1).ok_or_else(damaged)?;
        let parameters = &self.parameters;
        self.reference = self.references.read(parameters.reference_bits)?;
        let width = self.widths.read(parameters.width_bits)? + u64::from(parameters.width_reference);
        self.width = u32::try_from(width).ok().filter(|width| *width <= 32).ok_or_else(damaged)?;
        let length = self.lengths.read(parameters.length_bits)?;
        self.values_left = match self.groups_left {
            0 => parameters.last_length,
            _ => length * parameters.length_increment + parameters.length_reference,
        };
        Ok(())
    }

    /// Only damaged data overflow.
    fn undo_difference(&mut self, value: i64) -> i64 {
        let order = self.parameters.order;
        if order == 0 {
            return value;
        }
        let value = if self.first_used < order {
            self.first_used += 1;
            self.first[self.first_used - 1]
        } else {
            let difference = value.wrapping_add(self.smallest);
            let [last, before] = self.last;
            let expected = if order == 1 { last } else { last.wrapping_mul(2).wrapping_sub(before) };
            expected.wrapping_add(difference)
        };
        self.last = [value, self.last[0]];
        value
    }
}
