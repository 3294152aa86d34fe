//! The object that a fragment runs on.

use benthic_core::{Clock, Result, SystemClock};
use bytes::Bytes;
use std::ops::Range;
use std::time::Duration;

/// What a fragment reads.
pub trait Ranges {
    /// Size of the object.
    fn size_bytes(&self) -> u64;

    /// The most bytes between two ranges for which one read is better than two.
    fn gap_bytes_max(&self) -> u64;

    /// Byte ranges of the object, each in full.
    ///
    /// # Errors
    /// `Corrupt` if the object ends before; what the engine says.
    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Those of the object's omap entries that are there; an object without omap has none.
    ///
    /// # Errors
    /// What the engine says.
    fn entries(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        let _ = keys;
        Ok(Vec::new())
    }

    /// Whether the fragment may go on; asked between batches.
    ///
    /// # Errors
    /// `LimitExceeded` when the time is over.
    fn go_on(&mut self) -> Result<()>;

    /// Time since a fixed moment, for the durations in a [`Reply`](super::Reply).
    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }
}

/// Microseconds since an earlier [`Ranges::monotonic`].
pub(super) fn elapsed_us(ranges: &dyn Ranges, start: Duration) -> u64 {
    u64::try_from(ranges.monotonic().saturating_sub(start).as_micros()).unwrap_or(u64::MAX)
}
