//! What the gateway takes from the machine: time, and numbers that nobody else draws. A test replaces both.

use benthic_classes::bucket::codec::Id;
use benthic_core::{Clock, Error, ErrorKind, Result, SystemClock};
use std::sync::Arc;

/// Where ids come from.
pub trait Random: Send + Sync {
    /// Bytes that nobody can guess and nobody else draws.
    ///
    /// # Errors
    /// `Unavailable` if the machine has none to give.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}

/// The kernel's random numbers.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let unavailable = || Error::new(ErrorKind::Unavailable, "the kernel gave no random bytes");
        match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(filled) if filled == bytes.len() => Ok(()),
            Ok(_) => Err(unavailable()),
            Err(errno) => Err(unavailable().with_source(std::io::Error::from(errno))),
        }
    }
}

/// Time and random numbers.
#[derive(Clone)]
pub struct Environment {
    /// The time of versions, leases and garbage.
    pub clock: Arc<dyn Clock>,
    /// The ids of buckets and writes.
    pub random: Arc<dyn Random>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { clock: Arc::new(SystemClock::default()), random: Arc::new(SystemRandom) }
    }
}

impl Environment {
    /// Milliseconds since 1970 (UTC).
    pub fn now_ms(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }

    /// A new id; see [`Id`].
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers.
    pub fn draw_id(&self) -> Result<Id> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(self.now_ms() << 16).to_be_bytes());
        self.random.fill(&mut id[6..])?;
        Ok(Id(id))
    }
}
