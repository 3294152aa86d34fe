//! What a client takes from the machine: time, and random numbers. A test replaces both.

use crate::{Clock, Error, ErrorKind, Result, SystemClock};
use std::sync::Arc;

/// A source of random bytes for identifiers and secrets.
pub trait Random: Send + Sync {
    /// Fills `bytes` with bytes that nobody can guess and no other caller gets.
    ///
    /// # Errors
    /// `Unavailable` if the machine has none to give.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;

    /// A random number, from [`Random::fill`].
    ///
    /// # Errors
    /// As [`Random::fill`].
    fn random_u64(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The kernel's random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the source of random bytes")]
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the kernel gave no random bytes").with_source(error)
        })
    }
}

/// Time and random numbers.
#[derive(Clone)]
pub struct Environment {
    /// The time of versions, snapshots, leases and garbage.
    pub clock: Arc<dyn Clock>,
    /// The source of identifiers.
    pub random: Arc<dyn Random>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) }
    }
}

impl Environment {
    /// Milliseconds since 1970 (UTC).
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }
}
