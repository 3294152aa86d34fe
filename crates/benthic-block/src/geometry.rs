//! Maps the bytes of an image to its data objects. The arithmetic is that of RBD, which is that of
//! all of Ceph's striping.
//!
//! The image is divided into units. `stripe_count` objects receive consecutive units in turn until
//! each has `object_bytes`. Then the next `stripe_count` objects are filled.

use benthic_core::{Error, ErrorKind, Result};

const MIB: u64 = 1024 * 1024;

/// Limits of an object's size, those of RBD.
pub const OBJECT_BYTES_MIN: u64 = 4096;
pub const OBJECT_BYTES_MAX: u64 = 32 * MIB;
/// Smallest stripe unit. RBD accepts smaller ones, which no program uses.
pub const UNIT_BYTES_MIN: u64 = 4096;
/// Largest number of objects that units alternate between.
pub const STRIPE_COUNT_MAX: u64 = 1024;
/// Largest number of objects of an image: 16 TiB with objects of 4 MiB. The map of an open image
/// has 4 bytes for each in memory.
pub const OBJECTS_MAX: u64 = 1 << 22;

/// The division of an image into objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// A power of two from 4 KiB to 32 MiB.
    pub object_bytes: u64,
    /// Divides `object_bytes`.
    pub stripe_unit_bytes: u64,
    pub stripe_count: u64,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { object_bytes: 4 * MIB, stripe_unit_bytes: 4 * MIB, stripe_count: 1 }
    }
}

/// A part of a request that lies in one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub object: u32,
    /// The offset in the object.
    pub offset_bytes: u64,
    /// The offset in the image.
    pub image_offset_bytes: u64,
    pub len_bytes: u64,
}

impl Piece {
    /// The range in the object.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset_bytes..self.offset_bytes + self.len_bytes
    }
}

impl Geometry {
    /// Checks the geometry for an image of this size.
    ///
    /// # Errors
    /// `InvalidArgument`; `LimitExceeded` for more than [`OBJECTS_MAX`] objects.
    pub fn check(self, size_bytes: u64) -> Result<()> {
        let refuse = |kind, message: &str| Err(Error::new(kind, message).with("size_bytes", size_bytes));
        if !self.object_bytes.is_power_of_two()
            || !(OBJECT_BYTES_MIN..=OBJECT_BYTES_MAX).contains(&self.object_bytes)
        {
            return refuse(
                ErrorKind::InvalidArgument,
                "the object size must be a power of two from 4 KiB to 32 MiB",
            );
        }
        if self.stripe_unit_bytes < UNIT_BYTES_MIN
            || !self.object_bytes.is_multiple_of(self.stripe_unit_bytes)
            || !self.stripe_unit_bytes.is_multiple_of(UNIT_BYTES_MIN)
        {
            return refuse(
                ErrorKind::InvalidArgument,
                "the stripe unit must be a multiple of 4 KiB that divides the object size",
            );
        }
        if !(1..=STRIPE_COUNT_MAX).contains(&self.stripe_count) {
            return refuse(ErrorKind::InvalidArgument, "the stripe count must be from 1 to 1024");
        }
        if self.objects(size_bytes) > OBJECTS_MAX {
            return refuse(
                ErrorKind::LimitExceeded,
                "the image would have more than 4,194,304 objects; choose a smaller size or larger objects",
            );
        }
        Ok(())
    }

    /// The number of objects of an image of this size; whole sets, so that every byte has one.
    pub fn objects(self, size_bytes: u64) -> u64 {
        size_bytes.div_ceil(self.set_bytes()).saturating_mul(self.stripe_count)
    }

    /// The bytes of a set of objects, which are contiguous in the image.
    pub fn set_bytes(self) -> u64 {
        self.object_bytes * self.stripe_count
    }

    /// The parts of a range, in the image's order. Parts that continue each other are merged.
    pub fn pieces(self, offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Piece> {
        let end = offset_bytes + len_bytes;
        let mut at = offset_bytes;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let unit = if self.stripe_count == 1 { self.object_bytes } else { self.stripe_unit_bytes };
            let (unit_number, within) = (at / unit, at % unit);
            let len_bytes = (unit - within).min(end - at);
            let (stripe, place) = (unit_number / self.stripe_count, unit_number % self.stripe_count);
            let units = self.object_bytes / unit;
            let piece = Piece {
                object: (stripe / units * self.stripe_count + place) as u32,
                offset_bytes: stripe % units * unit + within,
                image_offset_bytes: at,
                len_bytes,
            };
            at += len_bytes;
            Some(piece)
        })
    }
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;
