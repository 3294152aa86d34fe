//! Clients are not waited for without end: one that sends nothing of a body for too long gets an error, and one that takes nothing of
//! an answer is hung up on.

use super::checksums::Document;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use s3s::{S3Error, S3Result, StdError, s3_error};
use std::fmt;
use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
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

/// Measures how long somebody is waited for without a break.
struct Watch {
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    waits: bool,
}

impl Watch {
    fn new(limit: Duration) -> Watch {
        Watch { limit, sleep: Box::pin(sleep(limit)), waits: false }
    }

    /// Passes on what was polled; gives nothing if that was pending for too long.
    fn watch<T>(&mut self, polled: Poll<T>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Poll::Ready(value) = polled {
            self.waits = false;
            return Poll::Ready(Some(value));
        }
        if !self.waits {
            self.waits = true;
            self.sleep.as_mut().reset(Instant::now() + self.limit);
        }
        self.sleep.as_mut().poll(context).map(|()| None)
    }
}

/// A connection with a limit on the time in which the client takes nothing of what it is sent.
pub(super) struct Taken {
    stream: TcpStream,
    watch: Watch,
}

impl Taken {
    pub fn new(stream: TcpStream, limit: Duration) -> Taken {
        Taken { stream, watch: Watch::new(limit) }
    }

    fn watched<T>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        let polled = write(Pin::new(&mut self.stream), context);
        let took_nothing = || Err(Error::new(ErrorKind::TimedOut, "the client took nothing for too long"));
        self.watch.watch(polled, context).map(|written| written.unwrap_or_else(took_nothing))
    }
}

impl AsyncRead for Taken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Taken {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.watched(context, |stream, context| stream.poll_write(context, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.watched(context, |stream, context| stream.poll_write_vectored(context, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.watched(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.watched(context, |stream, context| stream.poll_shutdown(context))
    }
}

/// What became of a request's body.
#[derive(Default)]
pub(super) struct Fate {
    asked: AtomicBool,
    wrong: Mutex<Option<S3Error>>,
}

impl Fate {
    /// Whether there is a body and somebody asked for it; then a client that waits for `100 Continue` got it.
    pub fn was_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Why the body could not be read to its end.
    pub fn take_wrong(&self) -> Option<S3Error> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fail(&self, wrong: S3Error, error: StdError) -> StdError {
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(wrong);
        error
    }
}

/// A body with a limit on the time between two of its pieces. That of a document is what its head says, or it has no end.
pub(super) struct Patient {
    body: Incoming,
    watch: Watch,
    document: Option<S3Result<Document>>,
    fate: Arc<Fate>,
}

impl Patient {
    pub fn new(
        body: Incoming,
        limit: Duration,
        document: Option<S3Result<Document>>,
        fate: Arc<Fate>,
    ) -> Patient {
        Patient { body, watch: Watch::new(limit), document, fate }
    }

    /// Looks at a piece; behind the last one the document is verified.
    fn verify(&mut self, data: Option<&Bytes>) -> Result<(), StdError> {
        let Some(mut document) = self.document.take() else { return Ok(()) };
        if let (Ok(document), Some(data)) = (&mut document, data) {
            document.update(data);
        }
        if data.is_some() && !self.body.is_end_stream() {
            self.document = Some(document);
            return Ok(());
        }
        let verified = document.and_then(Document::finish);
        verified.map_err(|wrong| self.fate.fail(wrong, StdError::from("the document is another")))
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
            this.fate.asked.store(true, Relaxed);
        }
        let polled = Pin::new(&mut this.body).poll_frame(context);
        this.watch.watch(polled, context).map(|frame| match frame {
            Some(Some(Ok(frame))) => match this.verify(frame.data_ref()) {
                Ok(()) => Some(Ok(frame)),
                Err(error) => Some(Err(error)),
            },
            Some(None) => this.verify(None).err().map(Err),
            Some(Some(Err(error))) => Some(Err(this.fate.fail(s3_error!(IncompleteBody), error.into()))),
            None => Some(Err(this.fate.fail(s3_error!(RequestTimeout), Idle.into()))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
