//! Waiting without a runtime.

use futures::channel::oneshot;
use std::time::Duration;

/// Waits on a thread of its own: there is no runtime with timers, and pauses are rare.
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
#[path = "pause_tests.rs"]
mod tests;
