//! Waits for an engine that may never answer, and makes its answers comparable.

use benthic_core::{Error, ErrorKind, ReadOutput, ReadReply, Result, Stopwatch, SystemClock};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// No operation of a case takes this long, even on the slowest disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to completion. A future that times out returns `Internal`, so that a lost
/// operation counts as a difference and does not hang the test.
pub(crate) fn answer<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let waited = Stopwatch::start(&SystemClock);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let left = ANSWER_TIMEOUT.saturating_sub(waited.elapsed());
        if left.is_zero() {
            return Err(Error::new(ErrorKind::Internal, "the engine does not answer")
                .with("waited_ms", ANSWER_TIMEOUT.as_millis()));
        }
        std::thread::park_timeout(left);
    }
}

/// Removes the times from a reply, because the oracle has no clock.
pub(crate) fn without_times(mut reply: ReadReply) -> ReadReply {
    for output in &mut reply.outputs {
        if let ReadOutput::Stat(stat) = output {
            stat.modified_unix_ns = 0;
        }
    }
    reply
}
