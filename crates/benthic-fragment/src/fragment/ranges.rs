//! Access to the object that a fragment runs on.

use super::blocked::Blocked;
use benthic_core::{Clock, Result, SystemClock};
use benthic_wasm::Calls;
use bytes::Bytes;
use std::ops::Range;
use std::time::Duration;

/// Reads of one object. The caller of [`run`](super::run) implements this trait.
pub trait Ranges {
    fn size_bytes(&self) -> u64;

    /// Maximum gap between two ranges for which one merged read is cheaper than two reads.
    fn gap_bytes_max(&self) -> u64;

    /// Reads byte ranges of the object, each completely.
    ///
    /// # Errors
    /// `Corrupt` if the object ends too early; errors of the engine.
    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Reads omap entries of the object. Keys without an entry are left out of the result. An
    /// object without omap has no entries.
    ///
    /// # Errors
    /// Errors of the engine.
    fn entries(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        let _ = keys;
        Ok(Vec::new())
    }

    /// Checks whether the fragment may continue. The fragment calls this between batches.
    ///
    /// # Errors
    /// `LimitExceeded` after the deadline.
    fn check_deadline(&mut self) -> Result<()>;

    /// How the fragment calls methods of WebAssembly classes. `None` if it must not.
    fn wasm_calls(&self) -> Option<Calls> {
        None
    }

    /// The functions that fragments must not call. `None` if the administrator blocks none.
    fn blocked(&self) -> Option<&Blocked> {
        None
    }

    /// Time since a fixed moment, to measure the durations in a [`Reply`](super::Reply).
    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }
}

/// Microseconds since `start`, an earlier value of [`Ranges::monotonic`].
pub(super) fn elapsed_us(ranges: &dyn Ranges, start: Duration) -> u64 {
    u64::try_from(ranges.monotonic().saturating_sub(start).as_micros()).unwrap_or(u64::MAX)
}
