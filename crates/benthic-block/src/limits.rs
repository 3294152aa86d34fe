//! Limits of the requests of an image, which the image stores and the NBD server enforces.

use benthic_core::{Error, Result};

/// Greatest rate: far above any store's, and small enough that the server's sums do not overflow.
pub const RATE_MAX: u64 = 1 << 40;
pub const BURST_S_MAX: u64 = 3_600;
/// Used without [`Limits::burst_s`].
pub const BURST_S_DEFAULT: u64 = 1;

/// Limits of the requests of an image. `None` is no limit.
///
/// Trims and zeros count as writes. They have no bytes unless the zeros keep their space. Flushes
/// are not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub read_ops_per_s: Option<u64>,
    pub read_bytes_per_s: Option<u64>,
    pub write_ops_per_s: Option<u64>,
    pub write_bytes_per_s: Option<u64>,
    /// An image that was idle may use its unused limits at once, at most those of so many seconds.
    pub burst_s: Option<u64>,
}

impl Limits {
    /// The limits with their names.
    pub fn fields(mut self) -> [(&'static str, Option<u64>); 5] {
        self.fields_mut().map(|(name, value)| (name, *value))
    }

    /// As [`Limits::fields`], to change them.
    pub fn fields_mut(&mut self) -> [(&'static str, &mut Option<u64>); 5] {
        [
            ("read_ops_per_s", &mut self.read_ops_per_s),
            ("read_bytes_per_s", &mut self.read_bytes_per_s),
            ("write_ops_per_s", &mut self.write_ops_per_s),
            ("write_bytes_per_s", &mut self.write_bytes_per_s),
            ("burst_s", &mut self.burst_s),
        ]
    }

    /// Checks the ranges: rates from 1 to [`RATE_MAX`], bursts from 1 to [`BURST_S_MAX`] seconds.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self) -> Result<()> {
        for (name, value) in self.fields() {
            let max = if name == "burst_s" { BURST_S_MAX } else { RATE_MAX };
            if let Some(value) = value.filter(|value| !(1..=max).contains(value)) {
                let message = "a limit is out of its range; leave it out for no limit";
                return Err(Error::invalid_argument(message)
                    .with(name, value)
                    .with("min", 1)
                    .with("max", max));
            }
        }
        Ok(())
    }
}
