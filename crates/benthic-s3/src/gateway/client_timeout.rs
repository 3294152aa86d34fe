//! The time-out of the body of a request: a client that stops sending gets an error.

use super::document::Document;
use super::error::ClientTimeout;
use super::post_form::FormHead;
use benthic_program::client_timeout::WaitTimer;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use s3s::{S3Error, S3Result, StdError, s3_error};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

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

/// A body with a limit on the time between two chunks. A document that does not pass its checks
/// ends in an error. The beginning of a form is also kept.
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

    /// Adds a chunk to the beginning of a form or to a document, and checks the document after the
    /// last one.
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
            self.state.fail(failure, StdError::from("the document did not pass its checks"))
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
