//! Sleeping and yielding for a library that does not choose its async runtime.

use futures::channel::oneshot;
use std::future::poll_fn;
use std::task::Poll;
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

/// Lets the executor run other tasks, such as one that waits for signals.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
#[path = "pause_tests.rs"]
mod tests;
