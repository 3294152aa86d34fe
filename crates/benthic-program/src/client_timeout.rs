//! Time-outs of a server's clients. A client that stops accepting an answer loses its connection.
//! Without them, clients that hang would take all connections that a server has.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Measures how long a server waits for a client without interruption.
pub struct WaitTimer {
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl WaitTimer {
    /// A timer that runs out if a wait takes longer than `limit`.
    pub fn new(limit: Duration) -> WaitTimer {
        WaitTimer { limit, sleep: Box::pin(sleep(limit)), is_waiting: false }
    }

    /// Passes on the result of a poll. Returns `None` if the polls have been pending for longer
    /// than the limit.
    pub fn watch<T>(&mut self, polled: Poll<T>, context: &mut Context<'_>) -> Poll<Option<T>> {
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
pub struct TimedStream {
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
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let polled = write(Pin::new(&mut self.stream), context);
        let took_nothing =
            || Err(io::Error::new(io::ErrorKind::TimedOut, "the client accepted no data for too long"));
        self.watch.watch(polled, context).map(|written| written.unwrap_or_else(took_nothing))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_timed(context, |stream, context| stream.poll_write(context, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_timed(context, |stream, context| stream.poll_write_vectored(context, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_timed(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_timed(context, |stream, context| stream.poll_shutdown(context))
    }
}
