//! Identifiers, and waiting without a runtime.

use crate::ids::Id;
use benthic_core::{Environment, Result};
use futures::channel::oneshot;
use std::time::Duration;

/// A new id; never 0, which stands for no writer.
///
/// # Errors
/// `Unavailable` if there are no random numbers.
pub(crate) fn draw_id(environment: &Environment) -> Result<Id> {
    loop {
        let number = environment.random.random_u64()?;
        if number != 0 {
            return Ok(Id(number));
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
