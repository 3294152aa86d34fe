//! The machine's time and random numbers, as inputs that a test can replace.

use crate::{Clock, Error, Result, SystemClock};
use std::fmt;
use std::sync::Arc;

/// A source of random bytes for identifiers and secrets.
pub trait Random: Send + Sync {
    /// Fills `bytes` with unpredictable bytes that no other caller gets.
    ///
    /// # Errors
    /// `Unavailable` if the machine has no random bytes.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;

    /// Returns a random number from [`Random::fill`].
    ///
    /// # Errors
    /// As [`Random::fill`].
    fn random_u64(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl fmt::Debug for dyn Random {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Random")
    }
}

/// The kernel's random number generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[cfg(target_family = "wasm")]
    fn fill(&self, _bytes: &mut [u8]) -> Result<()> {
        Err(Error::unsupported("a WebAssembly module has no random bytes"))
    }

    #[cfg(not(target_family = "wasm"))]
    #[expect(clippy::disallowed_methods, reason = "this is the source of random bytes")]
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes)
            .map_err(|error| Error::unavailable("the kernel gave no random bytes").with_source(error))
    }
}

/// The clock and the random number generator that a client uses.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The time of versions, snapshots, leases and garbage.
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) }
    }
}

impl Environment {
    /// Current time in milliseconds since 1970 (UTC).
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }
}
