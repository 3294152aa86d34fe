//! The messages of Postgres' protocol, version 3.
//!
//! Why not the crate `pgwire`? It accepts messages of a gigabyte, replaces invalid UTF-8 instead of
//! refusing it, and does not notice during a query that the client is gone. The messages that the
//! server needs are few.
//!
//! Source: Postgres' documentation, chapter "Frontend/Backend Protocol".

use benthic_core::{Error, ErrorKind, Result};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

/// Maximum size of a message after the login. A statement is the largest one.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Maximum size of a message before and during the login.
pub const LOGIN_BYTES_MAX: usize = 10_000;
/// Bytes that the server reads ahead while a query runs.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Bytes of an answer that the server holds before it sends them.
pub const SEND_BYTES: usize = 64 << 10;

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The reason why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client closed it, or it broke.
    Closed,
    /// The client sent something that is not the protocol, or too large.
    Garbage(Error),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Closed
    }
}

pub(super) fn garbage(message: &'static str) -> Error {
    Error::invalid_argument(message)
}

/// Reads messages.
pub struct Reader {
    stream: ReadHalf<Box<dyn Stream>>,
    buffer: BytesMut,
}

impl Reader {
    pub fn new(stream: ReadHalf<Box<dyn Stream>>, buffer: BytesMut) -> Reader {
        Reader { stream, buffer }
    }

    /// Reads a message after the first one: its type and its body. Cancelling the future loses no
    /// bytes.
    pub async fn message(&mut self, len_bytes_max: usize) -> std::result::Result<(u8, Bytes), End> {
        self.fill(5).await?;
        let kind = self.buffer[0];
        let body = body_len(&self.buffer[1..5], len_bytes_max)?;
        self.fill(5 + body).await?;
        self.buffer.advance(5);
        Ok((kind, self.buffer.split_to(body).freeze()))
    }

    /// Waits until the client closes the connection. Reads ahead only a little.
    pub async fn wait_for_close(&mut self) {
        while self.buffer.len() < READ_AHEAD_BYTES {
            if !matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }

    async fn fill(&mut self, len_bytes: usize) -> std::result::Result<(), End> {
        while self.buffer.len() < len_bytes {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(End::Closed);
            }
        }
        Ok(())
    }
}

/// Reads the first message of a connection, which has no type, and nothing after it.
pub async fn first_message(stream: &mut (impl AsyncRead + Unpin)) -> std::result::Result<Bytes, End> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; body_len(&head, LOGIN_BYTES_MAX)?];
    stream.read_exact(&mut body).await?;
    Ok(body.into())
}

fn body_len(mut head: &[u8], len_bytes_max: usize) -> std::result::Result<usize, End> {
    // The length includes itself.
    match usize::try_from(head.get_i32()).ok().and_then(|len| len.checked_sub(4)) {
        Some(len) if len <= len_bytes_max => Ok(len),
        Some(_) => {
            let message = "the message is too large";
            let error = Error::limit_exceeded(message).with("len_bytes_max", len_bytes_max);
            Err(End::Garbage(error))
        }
        None => Err(End::Garbage(garbage("this is not a message of Postgres' protocol"))),
    }
}

/// Takes fields from the body of a message.
pub struct Fields(pub Bytes);

impl Fields {
    fn cut() -> Error {
        garbage("the message ends early")
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.0.try_get_u8().map_err(|_| Fields::cut())
    }

    pub fn i16(&mut self) -> Result<i16> {
        self.0.try_get_i16().map_err(|_| Fields::cut())
    }

    /// A number of items, which Postgres counts without a sign.
    pub fn count(&mut self) -> Result<usize> {
        self.0.try_get_u16().map(usize::from).map_err(|_| Fields::cut())
    }

    pub fn i32(&mut self) -> Result<i32> {
        self.0.try_get_i32().map_err(|_| Fields::cut())
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.0.try_get_u32().map_err(|_| Fields::cut())
    }

    /// Text that ends with a zero byte.
    pub fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(Fields::cut)?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        let text = std::str::from_utf8(&text).map_err(|_| garbage("the text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub fn bytes(&mut self, len_bytes: usize) -> Result<Bytes> {
        if len_bytes > self.0.len() {
            return Err(Fields::cut());
        }
        Ok(self.0.split_to(len_bytes))
    }

    /// Bytes with their length before them; `None` for NULL.
    pub fn value(&mut self) -> Result<Option<Bytes>> {
        match self.i32()? {
            -1 => Ok(None),
            len => self.bytes(usize::try_from(len).map_err(|_| Fields::cut())?).map(Some),
        }
    }
}

/// Writes messages. It holds them until [`flush`](Writer::flush).
pub struct Writer {
    stream: WriteHalf<Box<dyn Stream>>,
    pub out: BytesMut,
}

impl Writer {
    pub fn new(stream: WriteHalf<Box<dyn Stream>>) -> Writer {
        Writer { stream, out: BytesMut::new() }
    }

    /// Adds a message. `body` writes its body.
    pub fn message(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) {
        self.out.put_u8(kind);
        let start = self.out.len();
        self.out.put_i32(0);
        body(&mut self.out);
        let len = i32::try_from(self.out.len() - start).unwrap_or(i32::MAX);
        self.out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Sends the buffered messages. Cancelling the future loses no bytes and sends none twice.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            if self.stream.write_buf(&mut self.out).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.stream.flush().await
    }

    pub async fn close(&mut self) {
        // The client may be gone.
        let _ = self.stream.shutdown().await;
    }

    pub fn error(&mut self, severity: &str, code: &str, message: &str) {
        self.report(b'E', severity, code, message);
    }

    pub fn notice(&mut self, message: &str) {
        self.report(b'N', "NOTICE", "00000", message);
    }

    fn report(&mut self, kind: u8, severity: &str, code: &str, message: &str) {
        self.message(kind, |body| {
            for (field, text) in [(b'S', severity), (b'V', severity), (b'C', code), (b'M', message)] {
                body.put_u8(field);
                put_text(body, text);
            }
            body.put_u8(0);
        });
    }

    pub fn ready(&mut self, status: u8) {
        self.message(b'Z', |body| body.put_u8(status));
    }

    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| put_text(body, tag));
    }

    pub fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            put_text(body, name);
            put_text(body, value);
        });
    }
}

/// Writes text that ends with a zero byte.
pub fn put_text(body: &mut BytesMut, text: &str) {
    // Text cannot contain the byte that ends it.
    body.extend(text.bytes().filter(|byte| *byte != 0));
    body.put_u8(0);
}

/// Postgres' code of an error.
pub fn sql_state(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "42P01",
        ErrorKind::AlreadyExists => "42710",
        ErrorKind::Conflict => "40001",
        ErrorKind::InvalidArgument => "42000",
        ErrorKind::Unsupported => "0A000",
        ErrorKind::PermissionDenied => "42501",
        ErrorKind::Unavailable => "08006",
        ErrorKind::Busy => "55P03",
        ErrorKind::LimitExceeded => "53400",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::ClassFailed => "38000",
        ErrorKind::OutcomeUnknown => "08007",
        ErrorKind::Internal => "XX000",
        #[allow(unreachable_patterns, reason = "the kinds may grow")]
        _ => "XX000",
    }
}
