//! A TLS session over an asynchronous stream.

use crate::ffi::{Context, Session, Step};
use crate::keys::Keys;
use benthic_core::Result;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Limit of the data of a record.
const RECORD_BYTES: usize = 16 * 1024;
/// Room for an encrypted record.
const BUFFER_BYTES: usize = RECORD_BYTES + 1024;

/// Accepts clients that have one of the keys.
#[derive(Clone)]
pub struct PskAcceptor(Arc<Context>);

impl PskAcceptor {
    /// Reads the keys: a line `IDENTITY:KEY` each, the key in hexadecimal digits and 16 to 64 bytes
    /// long, as GnuTLS' `psktool` writes it.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`; `Unsupported` without OpenSSL 3.
    pub fn from_file(path: &Path) -> Result<PskAcceptor> {
        Ok(PskAcceptor(Arc::new(Context::new(Keys::read(path)?)?)))
    }

    /// Does the server's part of the handshake.
    ///
    /// # Errors
    /// `InvalidData` if the client has none of the keys or violates the protocol; `UnexpectedEof`
    /// if it closes the stream; those of the stream.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, socket: S) -> io::Result<PskStream<S>> {
        let session = Session::new(Arc::clone(&self.0))?;
        let mut stream = PskStream {
            socket,
            session,
            buffer: vec![0; BUFFER_BYTES],
            output: Vec::new(),
            is_closed: false,
        };
        loop {
            let step = stream.session.handshake();
            // Also after an error: the client learns its reason.
            let sent = stream.send_output().await;
            match step? {
                Step::Done(_) => {
                    sent?;
                    return Ok(stream);
                }
                Step::NeedsInput => sent?,
                Step::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            match stream.socket.read(&mut stream.buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => stream.session.put_input(&stream.buffer[..len])?,
            }
        }
    }
}

/// A stream whose bytes are encrypted.
pub struct PskStream<S> {
    socket: S,
    session: Session,
    /// For bytes between the socket and the session.
    buffer: Vec<u8>,
    /// Encrypted bytes that the socket has not taken yet.
    output: Vec<u8>,
    is_closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PskStream<S> {
    async fn send_output(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_output(cx)).await?;
        self.socket.flush().await
    }

    /// Sends all encrypted bytes.
    fn poll_output(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.output.is_empty() {
                let len = self.session.take_output(&mut self.buffer);
                self.output.extend_from_slice(&self.buffer[..len]);
            }
            if self.output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.socket).poll_write(cx, &self.output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                len => drop(self.output.drain(..len)),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for PskStream<S> {
    /// Sends nothing, not even OpenSSL's own messages: another task may wait until the socket takes
    /// bytes, and only one can. The next write sends it.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            // A record has no more, and a longer part of the buffer would be cleared for nothing.
            let len = out.remaining().min(RECORD_BYTES);
            match this.session.read(out.initialize_unfilled_to(len))? {
                Step::Done(len) => {
                    out.advance(len);
                    return Poll::Ready(Ok(()));
                }
                Step::Closed => return Poll::Ready(Ok(())),
                Step::NeedsInput => {
                    let mut input = ReadBuf::new(&mut this.buffer);
                    ready!(Pin::new(&mut this.socket).poll_read(cx, &mut input))?;
                    if input.filled().is_empty() {
                        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                    }
                    this.session.put_input(input.filled())?;
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PskStream<S> {
    /// Encrypts more only once the socket has taken the earlier encrypted data.
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_output(cx))?;
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        match this.session.write(&data[..data.len().min(RECORD_BYTES)])? {
            Step::Done(len) => {
                // The next write or flush sends the rest.
                if let Poll::Ready(sent) = this.poll_output(cx) {
                    sent?;
                }
                Poll::Ready(Ok(len))
            }
            Step::NeedsInput | Step::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_output(cx))?;
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.is_closed, true) {
            this.session.close();
        }
        ready!(this.poll_output(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}
