//! Time-outs of clients. A client that stops sending a body gets an error. A client that stops
//! accepting an answer loses its connection.

use super::checksums::Document;
use super::error::ClientTimeout;
use super::post_form::FormHead;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use s3s::{S3Error, S3Result, StdError, s3_error};
use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Measures how long the gateway waits for a client without interruption.
struct WaitTimer {
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl WaitTimer {
    fn new(limit: Duration) -> WaitTimer {
        WaitTimer { limit, sleep: Box::pin(sleep(limit)), is_waiting: false }
    }

    /// Passes on the result of a poll. Returns `None` if the polls have been pending for longer
    /// than the limit.
    fn watch<T>(&mut self, polled: Poll<T>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Poll::Ready(value) = polled {
            self.is_waiting = false;
            return Poll::Ready(Some(value));
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.sleep.as_mut().reset(Instant::now() + self.limit);
        }
        self.sleep.as_mut().poll(context).map(|()| None)
    }
}

/// A connection with a limit on the time during which the client accepts no data.
pub(super) struct TimedStream {
    stream: TcpStream,
    watch: WaitTimer,
}

impl TimedStream {
    pub fn new(stream: TcpStream, limit: Duration) -> TimedStream {
        TimedStream { stream, watch: WaitTimer::new(limit) }
    }

    fn poll_timed<T>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        let polled = write(Pin::new(&mut self.stream), context);
        let took_nothing =
            || Err(Error::new(ErrorKind::TimedOut, "the client accepted no data for too long"));
        self.watch.watch(polled, context).map(|written| written.unwrap_or_else(took_nothing))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.poll_timed(context, |stream, context| stream.poll_write(context, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.poll_timed(context, |stream, context| stream.poll_write_vectored(context, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll_timed(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll_timed(context, |stream, context| stream.poll_shutdown(context))
    }
}

/// Whether a request's body was read, and why reading it failed.
#[derive(Default)]
pub(super) struct BodyState {
    was_polled: AtomicBool,
    failure: Mutex<Option<S3Error>>,
}

impl BodyState {
    /// Whether there is a body and the service began to read it. If so, a client that waits for
    /// `100 Continue` got it.
    pub fn was_polled(&self) -> bool {
        self.was_polled.load(Relaxed)
    }

    /// Takes the error that ended the body early.
    pub fn take_failure(&self) -> Option<S3Error> {
        self.failure.lock().take()
    }

    fn fail(&self, failure: S3Error, error: StdError) -> StdError {
        *self.failure.lock() = Some(failure);
        error
    }
}

/// A body with a limit on the time between two chunks. A document with a wrong checksum ends in an
/// error. The beginning of a form is also kept.
pub(super) struct TimedBody {
    body: Incoming,
    watch: WaitTimer,
    document: Option<S3Result<Document>>,
    form: Option<Arc<FormHead>>,
    state: Arc<BodyState>,
}

impl TimedBody {
    pub fn new(
        body: Incoming,
        limit: Duration,
        document: Option<S3Result<Document>>,
        form: Option<Arc<FormHead>>,
        state: Arc<BodyState>,
    ) -> TimedBody {
        TimedBody { body, watch: WaitTimer::new(limit), document, form, state }
    }

    /// Adds a chunk to the beginning of a form and to the checksums of a document, and verifies
    /// these after the last one.
    fn verify(&mut self, data: Option<&Bytes>) -> Result<(), StdError> {
        if let (Some(form), Some(data)) = (&self.form, data) {
            form.add(data);
        }
        let Some(mut document) = self.document.take() else { return Ok(()) };
        if let (Ok(document), Some(data)) = (&mut document, data) {
            document.update(data);
        }
        if data.is_some() && !self.body.is_end_stream() {
            self.document = Some(document);
            return Ok(());
        }
        let verified = document.and_then(Document::finish);
        verified.map_err(|failure| {
            self.state.fail(failure, StdError::from("the document does not match its checksum"))
        })
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        if !this.body.is_end_stream() {
            this.state.was_polled.store(true, Relaxed);
        }
        let polled = Pin::new(&mut this.body).poll_frame(context);
        this.watch.watch(polled, context).map(|frame| match frame {
            Some(Some(Ok(frame))) => match this.verify(frame.data_ref()) {
                Ok(()) => Some(Ok(frame)),
                Err(error) => Some(Err(error)),
            },
            Some(None) => this.verify(None).err().map(Err),
            Some(Some(Err(error))) => Some(Err(this.state.fail(s3_error!(IncompleteBody), error.into()))),
            None => Some(Err(this.state.fail(s3_error!(RequestTimeout), ClientTimeout.into()))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
