//! What a table takes from the machine: time, and numbers that nobody else draws. A test replaces both.

use crate::ids::Id;
use benthic_core::{Clock, Error, ErrorKind, Result, SystemClock};
use futures::channel::oneshot;
use std::sync::Arc;
use std::time::Duration;

/// Where ids come from.
pub trait Random: Send + Sync {
    /// A number that nobody can guess and nobody else draws.
    ///
    /// # Errors
    /// `Unavailable` if the machine has none to give.
    fn random_u64(&self) -> Result<u64>;
}

/// The kernel's random numbers.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn random_u64(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        match filled {
            Ok(8) => Ok(u64::from_le_bytes(bytes)),
            Ok(_) => Err(Error::new(ErrorKind::Unavailable, "the kernel gave too few random bytes")),
            Err(errno) => Err(Error::new(ErrorKind::Unavailable, "the kernel gave no random bytes")
                .with_source(std::io::Error::from(errno))),
        }
    }
}

/// Time and random numbers.
#[derive(Clone)]
pub struct Environment {
    /// The time of snapshots and intents.
    pub clock: Arc<dyn Clock>,
    /// The ids of tables and writers.
    pub random: Arc<dyn Random>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { clock: Arc::new(SystemClock::default()), random: Arc::new(SystemRandom) }
    }
}

impl Environment {
    pub(crate) fn unix_ms(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }

    pub(crate) fn draw_id(&self) -> Result<Id> {
        // 0 stands for nobody.
        loop {
            let number = self.random.random_u64()?;
            if number != 0 {
                return Ok(Id(number));
            }
        }
    }
}

/// Waits. There is no runtime to ask for a timer, and who waits here is rare.
pub(crate) async fn pause(duration: Duration) {
    let (done, waiting) = oneshot::channel::<()>();
    let spawned = std::thread::Builder::new().name("table-pause".to_owned()).spawn(move || {
        std::thread::park_timeout(duration);
        drop(done);
    });
    if spawned.is_ok() {
        // The sender is dropped when the time is over; that is the signal.
        let _ = waiting.await;
    }
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
