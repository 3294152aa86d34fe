//! Waiting for an engine that may never answer.

use benthic_core::{Error, ErrorKind, Result};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// No operation of a case takes that long, on the slowest disk.
const ANSWER_MS_MAX: u64 = 60_000;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end; one that does not end is `Internal`, so that a lost operation is a difference like any
/// other and not a test that hangs.
pub(crate) fn answer<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let deadline = Instant::now() + Duration::from_millis(ANSWER_MS_MAX);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::new(ErrorKind::Internal, "the engine does not answer")
                .with("waited_ms", ANSWER_MS_MAX));
        }
        std::thread::park_timeout(left);
    }
}
