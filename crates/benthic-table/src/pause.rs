//! Sleeps without an async runtime.

use futures::channel::oneshot;
use std::time::Duration;

/// Sleeps on a separate thread: there is no runtime with timers, and pauses are rare.
pub(crate) async fn pause(duration: Duration) {
    let (done, waiting) = oneshot::channel::<()>();
    let spawned = std::thread::Builder::new().name("table-pause".to_owned()).spawn(move || {
        std::thread::park_timeout(duration);
        drop(done);
    });
    if spawned.is_ok() {
        // The thread drops the sender after the sleep, which wakes this task.
        let _ = waiting.await;
    }
}

#[cfg(test)]
#[path = "pause_tests.rs"]
mod tests;
