//! Which bytes of a striped file are in which object: the arithmetic of libradosstriper, which is that of all of Ceph's
//! striping.
//!
//! The file is cut into units. `stripe_count` objects get one unit after the other in turns until each has `object_size`
//! bytes; then the next `stripe_count` objects are filled. Each of these objects is called a piece here.

use benthic_core::limits::OBJECT_BYTES_MAX;
use benthic_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// What libradosstriper takes only multiples of.
pub const UNIT_STEP_BYTES: u64 = 64 * 1024;
/// Largest piece that is written: one operation carries it, and as many as there are jobs are in memory.
pub const PIECE_BYTES_MAX: u64 = 32 * MIB;
/// Most objects that take turns.
pub const STRIPE_COUNT_MAX: u64 = 1024;
/// Most pieces of a file. Their digests are in memory.
pub const PIECES_MAX: u64 = 1 << 22;

/// Smallest piece if the user does not say: that of libradosstriper.
const PIECE_BYTES_CHOSEN: u64 = 4 * MIB;
/// So many pieces make a file large.
const PIECES_CHOSEN_MAX: u64 = 4_096;

/// How a file is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Most bytes of a piece; a multiple of the unit.
    pub object_size: u64,
    /// Bytes that are together.
    pub stripe_unit: u64,
    /// Pieces that take turns.
    pub stripe_count: u64,
}

/// A range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file.
    pub offset_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
}

impl Layout {
    /// The layout for a file of this size, as far as the user does not say otherwise.
    ///
    /// Pieces do not take turns by default: each is a whole range of the file, which is what one operation reads or writes
    /// best, and all of them are in flight beside each other anyway.
    ///
    /// # Errors
    /// `InvalidArgument` for what libradosstriper would not take; `LimitExceeded`.
    pub fn choose(
        size_bytes: u64,
        object_size: Option<u64>,
        stripe_unit: Option<u64>,
        stripe_count: Option<u64>,
    ) -> Result<Layout> {
        let object_size = object_size.unwrap_or_else(|| {
            let mut chosen = PIECE_BYTES_CHOSEN;
            while chosen < PIECE_BYTES_MAX && size_bytes.div_ceil(chosen) > PIECES_CHOSEN_MAX {
                chosen *= 2;
            }
            // As many units as there are whole ones: a unit of 3 MiB makes pieces of 3 MiB, and not an error.
            match stripe_unit {
                Some(unit) if unit > chosen => unit,
                Some(unit) if unit > 0 => chosen / unit * unit,
                _ => chosen,
            }
        });
        let several = stripe_count.is_some_and(|count| count > 1);
        let stripe_unit =
            stripe_unit.unwrap_or_else(|| if several { object_size.min(MIB) } else { object_size });
        let layout = Layout { object_size, stripe_unit, stripe_count: stripe_count.unwrap_or(1) };
        layout.check_writable(size_bytes)?;
        Ok(layout)
    }

    /// Checks what is written: what libradosstriper takes, within our limits.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check_writable(self, size_bytes: u64) -> Result<()> {
        let refuse = |kind, message: &str| Err(Error::new(kind, message).with("layout", self));
        if self.stripe_unit == 0
            || !self.stripe_unit.is_multiple_of(UNIT_STEP_BYTES)
            || !self.object_size.is_multiple_of(UNIT_STEP_BYTES)
        {
            return refuse(
                ErrorKind::InvalidArgument,
                "--stripe-unit and --object-size are multiples of 64 KiB, and not 0",
            );
        }
        if self.object_size > PIECE_BYTES_MAX || self.stripe_count > STRIPE_COUNT_MAX {
            return refuse(
                ErrorKind::LimitExceeded,
                "--object-size is at most 32 MiB, --stripe-count at most 1024",
            );
        }
        self.check()?;
        if self.pieces(size_bytes) > PIECES_MAX {
            return refuse(
                ErrorKind::LimitExceeded,
                "the file would have more than 4,194,304 objects; choose a larger --object-size",
            );
        }
        Ok(())
    }

    /// Checks what was read: that it is a layout that libradosstriper takes, and that a piece of it can be an object.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(self) -> Result<()> {
        let sound = self.stripe_unit > 0
            && self.stripe_unit.is_multiple_of(UNIT_STEP_BYTES)
            && (1..1 << 31).contains(&self.stripe_count)
            && (1..=OBJECT_BYTES_MAX).contains(&self.object_size)
            && self.object_size.is_multiple_of(self.stripe_unit);
        if sound {
            return Ok(());
        }
        let message = "this is no layout: units are multiples of 64 KiB, an object has a whole number of them and at most \
            128 MiB, and the stripe count is not 0, or 2^31 and more";
        Err(Error::new(ErrorKind::InvalidArgument, message).with("layout", self))
    }

    /// What a full set of pieces that take turns holds.
    fn set_bytes(self) -> u64 {
        self.object_size * self.stripe_count
    }

    /// Pieces of a file of this size: those that hold something, and always the first.
    pub fn pieces(self, size_bytes: u64) -> u64 {
        let (sets, rest_bytes) = (size_bytes / self.set_bytes(), size_bytes % self.set_bytes());
        let last_set = rest_bytes.div_ceil(self.stripe_unit).min(self.stripe_count);
        sets.saturating_mul(self.stripe_count).saturating_add(last_set).max(1)
    }

    /// What a piece holds of a file of this size.
    pub fn piece_len(self, size_bytes: u64, piece: u64) -> u64 {
        let (set, place) = (piece / self.stripe_count, piece % self.stripe_count);
        let in_set = size_bytes.saturating_sub(set.saturating_mul(self.set_bytes())).min(self.set_bytes());
        let stripe_bytes = self.stripe_unit * self.stripe_count;
        let (stripes, tail_bytes) = (in_set / stripe_bytes, in_set % stripe_bytes);
        stripes * self.stripe_unit + tail_bytes.saturating_sub(place * self.stripe_unit).min(self.stripe_unit)
    }

    /// The ranges of the file that a piece holds, in its order. Ranges that follow each other are one.
    pub fn extents(self, size_bytes: u64, piece: u64) -> Vec<Extent> {
        let (set, place) = (piece / self.stripe_count, piece % self.stripe_count);
        let stripe_bytes = self.stripe_unit * self.stripe_count;
        let mut left_bytes = self.piece_len(size_bytes, piece);
        let mut offset_bytes = set * self.set_bytes() + place * self.stripe_unit;
        let mut extents: Vec<Extent> = Vec::new();
        while left_bytes > 0 {
            let len_bytes = left_bytes.min(self.stripe_unit);
            match extents.last_mut() {
                Some(last) if last.offset_bytes + last.len_bytes == offset_bytes => {
                    last.len_bytes += len_bytes;
                }
                _ => extents.push(Extent { offset_bytes, len_bytes }),
            }
            left_bytes -= len_bytes;
            offset_bytes += stripe_bytes;
        }
        extents
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Layout { object_size, stripe_unit, stripe_count } = self;
        write!(f, "object_size {object_size}, stripe_unit {stripe_unit}, stripe_count {stripe_count}")
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
