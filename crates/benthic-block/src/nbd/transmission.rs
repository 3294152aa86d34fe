//! The transmission phase of one connection: reads requests, starts a task for each, and sends
//! replies in the order in which the tasks end.

use super::command;
use super::handshake::{Session, discard};
use super::limits::{Memory, Quota, REQUESTS_MAX, Share};
use super::wire::{self, Request, command as code};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::FutureExt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

/// Smaller parts of replies are copied together, to save system calls.
const COPY_BYTES_MAX: usize = 16 * 1024;
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Time without progress after which a stopping server gives up a client that does not read its
/// replies.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Time to wait for the client to close a connection first. A connection that is closed while data
/// arrives is reset, and the client can lose replies.
const LINGER_LIMIT: Duration = Duration::from_secs(1);

struct Reply {
    parts: Vec<Bytes>,
    /// Ends when the reply is sent.
    _share: Share,
}

/// Serves requests until the client disconnects or the server stops. All accepted requests are
/// complete when this returns.
pub async fn transmit<R, W>(
    mut reader: R,
    mut writer: W,
    session: Session,
    memory: Memory,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let session = Arc::new(session);
    let quota = Quota::new(memory.clone());
    // Every reply has a share of the quota, so the queue never has more of them than this.
    let (replies, queue) = mpsc::channel(REQUESTS_MAX);
    let result = {
        let write = write_replies(&mut writer, queue, &memory, stop.clone());
        let read = async {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Ok(()),
                result = read_requests(&mut reader, &session, &quota, &memory, replies) => result,
            }
        };
        exchange(read, write).await
    };
    // Also if the client is gone: the server flushes the images only after the last write.
    quota.all_done().await;
    let _ = writer.shutdown().await;
    let _ = tokio::time::timeout(LINGER_LIMIT, discard(&mut reader, u64::MAX)).await;
    result
}

/// Reads requests, then waits until the writer has sent all replies. The writer ends early only if
/// it fails.
async fn exchange(
    read: impl Future<Output = io::Result<()>>,
    write: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut write = std::pin::pin!(write);
    let result = tokio::select! {
        result = read => result,
        written = &mut write => return written,
    };
    result.and(write.await)
}

/// Reads requests until the client disconnects.
async fn read_requests<R: AsyncRead + Unpin>(
    reader: &mut R,
    session: &Arc<Session>,
    quota: &Quota,
    memory: &Memory,
    replies: Sender<Reply>,
) -> io::Result<()> {
    loop {
        let mut header = [0; wire::REQUEST_BYTES];
        match reader.read_exact(&mut header).await {
            // Many clients close the connection without a disconnect command.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            result => result?,
        };
        let Some(request) = Request::parse(&header) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a request has the wrong magic"));
        };
        if request.command == code::DISCONNECT {
            return Ok(());
        }
        let refusal = command::check(&request, session).err();
        let memory_bytes = if refusal.is_some() { 0 } else { command::memory_bytes(&request) };
        let share = quota.share(memory_bytes).await?;
        let len_bytes = if request.command == code::WRITE { request.len_bytes } else { 0 };
        if let Some(refusal) = refusal {
            memory.wait_for_client(discard(reader, u64::from(len_bytes))).await?;
            let parts = command::error_reply(&request, &refusal, session);
            // Fails only if the writer has ended, which ends this connection.
            let _ = replies.send(Reply { parts, _share: share }).await;
            continue;
        }
        let data = read_data(reader, len_bytes as usize, memory).await?;
        let (session, replies) = (Arc::clone(session), replies.clone());
        tokio::spawn(async move {
            let parts = run(&request, data, &session).await;
            let _ = replies.send(Reply { parts, _share: share }).await;
        });
    }
}

async fn read_data<R: AsyncRead + Unpin>(
    reader: &mut R,
    len_bytes: usize,
    memory: &Memory,
) -> io::Result<Bytes> {
    let mut data = BytesMut::with_capacity(len_bytes);
    while data.len() < len_bytes {
        let rest_bytes = len_bytes - data.len();
        let mut rest = (&mut data).limit(rest_bytes);
        if memory.wait_for_client(reader.read_buf(&mut rest)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(data.freeze())
}

/// Runs a request, and answers even if the image panics.
async fn run(request: &Request, data: Bytes, session: &Session) -> Vec<Bytes> {
    let result = AssertUnwindSafe(command::run(request, data, session)).catch_unwind().await;
    let refusal = match result {
        Ok(Ok(parts)) => return parts,
        Ok(Err(refusal)) => refusal,
        Err(_) => command::panic_refusal(),
    };
    tracing::debug!(export = session.export.name, ?request, ?refusal, "a request failed");
    command::error_reply(request, &refusal, session)
}

/// Sends replies until all senders are gone.
async fn write_replies<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut queue: Receiver<Reply>,
    memory: &Memory,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut batch = BytesMut::new();
    while let Some(reply) = queue.recv().await {
        for mut part in reply.parts {
            if part.len() <= COPY_BYTES_MAX {
                batch.put(part);
            } else {
                write_all(writer, &mut batch, memory, &mut stop).await?;
                write_all(writer, &mut part, memory, &mut stop).await?;
            }
        }
        if queue.is_empty() || batch.len() > BATCH_BYTES_MAX {
            write_all(writer, &mut batch, memory, &mut stop).await?;
        }
    }
    Ok(())
}

/// Sends data. Fails if the client reads nothing for a while after the server's stop began, so that
/// the client cannot delay the stop.
async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut W,
    data: &mut impl Buf,
    memory: &Memory,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    while data.has_remaining() {
        let late = async {
            let _ = stop.wait_for(|stop| *stop).await;
            tokio::time::sleep(STOP_LIMIT).await;
        };
        let sent_bytes = tokio::select! {
            sent = memory.wait_for_client(writer.write_buf(data)) => sent?,
            () = late => return Err(io::ErrorKind::TimedOut.into()),
        };
        if sent_bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}
