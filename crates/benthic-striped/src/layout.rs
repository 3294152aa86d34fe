//! Maps the bytes of a file to pieces, the objects that hold it. The arithmetic is
//! libradosstriper's, which is that of all of Ceph's striping.
//!
//! The file is divided into units. `stripe_count` pieces receive consecutive units in turn until
//! each has `object_size` bytes. Then the next `stripe_count` pieces are filled.

use benthic_core::limits::OBJECT_BYTES_MAX;
use benthic_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// libradosstriper accepts only sizes that are multiples of this.
pub const UNIT_STEP_BYTES: u64 = 64 * 1024;
/// Largest piece that Benthic writes. One operation carries a piece, and each running job holds one
/// in memory.
pub const PIECE_BYTES_MAX: u64 = 32 * MIB;
/// Largest number of pieces that units alternate between.
pub const STRIPE_COUNT_MAX: u64 = 1024;
/// Largest number of pieces in a file. Their digests are held in memory.
pub const PIECES_MAX: u64 = 1 << 22;

/// Default piece size for files of up to [`PIECES_CHOSEN_MAX`] such pieces: libradosstriper's
/// default.
const PIECE_BYTES_CHOSEN: u64 = 4 * MIB;
/// For a file with more pieces than this, the default piece size is doubled, up to
/// [`PIECE_BYTES_MAX`].
const PIECES_CHOSEN_MAX: u64 = 4_096;

/// The division of a file into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Largest size of a piece in bytes; a multiple of `stripe_unit`.
    pub object_size: u64,
    /// Size of a unit in bytes: consecutive bytes of the file that are in one piece.
    pub stripe_unit: u64,
    /// Number of pieces that units alternate between.
    pub stripe_count: u64,
}

/// A range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub offset_bytes: u64,
    pub len_bytes: u64,
}

impl Layout {
    /// Chooses the layout for a file of this size. Values that the user gave take precedence.
    ///
    /// By default units do not alternate between pieces. Each piece is then one contiguous range of
    /// the file, which one operation reads or writes most efficiently. Alternating would not add
    /// parallelism, because all pieces are transferred in parallel anyway.
    ///
    /// # Errors
    /// `InvalidArgument` for a layout that libradosstriper would refuse; `LimitExceeded`.
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
            // Round down to whole units. A unit of 3 MiB gives pieces of 3 MiB instead of an error.
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

    /// Checks a layout to be written: libradosstriper accepts it, and it is within Benthic's
    /// limits.
    pub fn check_writable(self, size_bytes: u64) -> Result<()> {
        let refuse = |kind, message: &str| Err(Error::new(kind, message).with("layout", self));
        if self.stripe_unit == 0
            || !self.stripe_unit.is_multiple_of(UNIT_STEP_BYTES)
            || !self.object_size.is_multiple_of(UNIT_STEP_BYTES)
        {
            return refuse(
                ErrorKind::InvalidArgument,
                "--stripe-unit and --object-size must be multiples of 64 KiB and not 0",
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

    /// Checks a layout that was read: libradosstriper accepts it, and a piece fits into an object.
    pub fn check(self) -> Result<()> {
        let sound = self.stripe_unit > 0
            && self.stripe_unit.is_multiple_of(UNIT_STEP_BYTES)
            && (1..1 << 31).contains(&self.stripe_count)
            && (1..=OBJECT_BYTES_MAX).contains(&self.object_size)
            && self.object_size.is_multiple_of(self.stripe_unit);
        if sound {
            return Ok(());
        }
        let message = "the layout is not valid: an object has at most 128 MiB and a whole number of stripe units, a stripe \
            unit is a multiple of 64 KiB, and the stripe count is from 1 to 2^31 - 1";
        Err(Error::invalid_argument(message).with("layout", self))
    }

    /// The capacity of a set: `stripe_count` full pieces.
    fn set_bytes(self) -> u64 {
        self.object_size * self.stripe_count
    }

    /// The number of pieces of a file of this size: all pieces that hold data, and at least the
    /// first.
    pub fn pieces(self, size_bytes: u64) -> u64 {
        let (sets, rest_bytes) = (size_bytes / self.set_bytes(), size_bytes % self.set_bytes());
        let last_set = rest_bytes.div_ceil(self.stripe_unit).min(self.stripe_count);
        sets.saturating_mul(self.stripe_count).saturating_add(last_set).max(1)
    }

    /// The number of bytes that a piece holds of a file of this size.
    pub fn piece_len(self, size_bytes: u64, piece: u64) -> u64 {
        let (set, place) = (piece / self.stripe_count, piece % self.stripe_count);
        let in_set = size_bytes.saturating_sub(set.saturating_mul(self.set_bytes())).min(self.set_bytes());
        let stripe_bytes = self.stripe_unit * self.stripe_count;
        let (stripes, tail_bytes) = (in_set / stripe_bytes, in_set % stripe_bytes);
        stripes * self.stripe_unit + tail_bytes.saturating_sub(place * self.stripe_unit).min(self.stripe_unit)
    }

    /// The ranges of the file that a piece holds, in order. Adjacent ranges are merged.
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
