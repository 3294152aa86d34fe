//! A request's body that does not wait for ever: a client that sends nothing for too long gets an error.

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use s3s::StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The client sent nothing for too long.
#[derive(Debug)]
pub struct Idle;

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client sent nothing for too long")
    }
}

impl std::error::Error for Idle {}

/// A body with a limit on the time between two of its pieces.
pub(super) struct Patient {
    body: Incoming,
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    waits: bool,
    /// Whether there is a body and somebody asked for it; then a client that waits for `100 Continue` got it.
    asked: Arc<AtomicBool>,
}

impl Patient {
    pub fn new(body: Incoming, limit: Duration, asked: Arc<AtomicBool>) -> Patient {
        Patient { body, limit, sleep: Box::pin(sleep(limit)), waits: false, asked }
    }
}

impl Body for Patient {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        if !this.body.is_end_stream() {
            this.asked.store(true, Relaxed);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waits = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(StdError::from)));
        }
        if !this.waits {
            this.waits = true;
            let until = Instant::now() + this.limit;
            this.sleep.as_mut().reset(until);
        }
        match this.sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Box::new(Idle)))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
