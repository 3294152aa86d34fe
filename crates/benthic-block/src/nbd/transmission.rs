//! The transmission phase of one connection: reads requests, starts a task for each, and sends
//! replies in the order in which the tasks end.

use super::command;
use super::export::Export;
use super::handshake::{Session, discard};
use super::limits::{PAYLOAD_BYTES_MAX, Quota, REQUESTS_MAX, Resources, Share, Slot};
use super::stats::Present;
use super::throttle::{Pending, Throttles};
use super::wire::{self, Headers, Request, command as code};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::FutureExt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::Instant;

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

/// The settings that the server gives to a connection.
pub struct Settings {
    pub throttles: Arc<Throttles>,
    pub resources: Resources,
    pub slow_request: Duration,
}

/// Serves requests until the client disconnects or the server stops. All accepted requests are
/// complete when this returns.
pub async fn transmit<R, W>(
    mut reader: R,
    mut writer: W,
    session: Session,
    settings: Settings,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let quota = Arc::new(Quota::new(settings.resources.clone(), session.export.number));
    let (hurry, hurries) = watch::channel(false);
    let requests =
        Requests { session: Arc::new(session), settings, quota: Arc::clone(&quota), hurry: hurries };
    // Every reply has a share of the quota, so the queue never has more of them than this.
    let (replies, queue) = mpsc::channel(REQUESTS_MAX);
    let result = {
        let write = write_replies(&mut writer, queue, &quota, stop.clone());
        let read = async {
            let result = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Ok(()),
                result = requests.read(&mut reader, replies) => result,
            };
            // The throttle does not delay a stop. A client that is gone must not change the image
            // long after that, either, when it may have connected again.
            hurry.send_replace(true);
            result
        };
        exchange(read, write).await
    };
    // Also if the writer has failed before the reader ended.
    hurry.send_replace(true);
    // Also if the client is gone: the server flushes the images only after the last write.
    quota.all_done().await;
    // Over TLS it sends data that a client that reads nothing has not taken.
    let _ = tokio::time::timeout(LINGER_LIMIT, writer.shutdown()).await;
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

/// Reads requests and starts them.
struct Requests {
    session: Arc<Session>,
    settings: Settings,
    quota: Arc<Quota>,
    /// True once no further requests are read: then those that wait for their throttle run, and
    /// trims end early.
    hurry: watch::Receiver<bool>,
}

impl Requests {
    /// Reads requests until the client disconnects.
    async fn read<R: AsyncRead + Unpin>(&self, reader: &mut R, replies: Sender<Reply>) -> io::Result<()> {
        loop {
            let mut header = [0; wire::REQUEST_BYTES_MAX];
            let header = &mut header[..self.session.headers.request_bytes()];
            match reader.read_exact(header).await {
                // Many clients close the connection without a disconnect command.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                result => result?,
            };
            let violation = |message| io::Error::new(io::ErrorKind::InvalidData, message);
            let request = Request::parse(header, self.session.headers)
                .ok_or_else(|| violation("a request has the wrong magic"))?;
            let is_extended = self.session.headers == Headers::Extended;
            if is_extended && request.payload_bytes > u64::from(PAYLOAD_BYTES_MAX) {
                return Err(violation("a request has more than 32 MiB of data"));
            }
            if request.command == code::DISCONNECT {
                return Ok(());
            }
            let slot = self.quota.slot().await?;
            match command::check(&request, &self.session) {
                Ok(()) => self.start(request, slot, reader, &replies).await?,
                Err(refusal) => {
                    self.session.export.stats.refused(&request);
                    let share = self.quota.share(slot, 0).await?;
                    let data = discard(reader, request.payload_bytes);
                    self.quota.wait_for_client(data).await?;
                    let parts = command::error_reply(&request, &refusal, &self.session);
                    // Fails only if the writer has ended, which ends this connection.
                    let _ = replies.send(Reply { parts, _share: share }).await;
                }
            }
        }
    }

    /// Starts a checked request. If it must wait for its throttle, it does so without memory, and
    /// lets the requests behind it go on. A write whose data cannot be parked makes them wait.
    async fn start<R: AsyncRead + Unpin>(
        &self,
        request: Request,
        slot: Slot,
        reader: &mut R,
        replies: &Sender<Reply>,
    ) -> io::Result<()> {
        let data_bytes = request.payload_bytes;
        let memory_bytes = command::memory_bytes(&request, &self.session);
        let mut hurry = self.hurry.clone();
        let mut pending = self.settings.throttles.try_pass(&request);
        if data_bytes == 0
            && let Some(pending) = pending
        {
            let (quota, session) = (Arc::clone(&self.quota), Arc::clone(&self.session));
            let admission = async move {
                wait(pending, &request, &session, &mut hurry).await;
                quota.share(slot, memory_bytes).await
            };
            self.spawn(request, Bytes::new(), admission, replies);
            return Ok(());
        }
        let parked = pending.as_ref().and_then(|_| self.quota.park(memory_bytes));
        if parked.is_none()
            && let Some(pending) = pending.take()
        {
            // The data stay in the socket meanwhile.
            wait(pending, &request, &self.session, &mut hurry).await;
        }
        let share = self.quota.share(slot, memory_bytes).await?;
        let data = read_data(reader, data_bytes as usize, &self.quota).await?;
        let session = Arc::clone(&self.session);
        let admission = async move {
            if let Some(pending) = pending {
                wait(pending, &request, &session, &mut hurry).await;
            }
            drop(parked);
            Ok(share)
        };
        self.spawn(request, data, admission, replies);
        Ok(())
    }

    /// Starts a task that runs a request and sends its reply.
    fn spawn(
        &self,
        request: Request,
        data: Bytes,
        admission: impl Future<Output = io::Result<Share>> + Send + 'static,
        replies: &Sender<Reply>,
    ) {
        let (session, quota, replies) = (Arc::clone(&self.session), Arc::clone(&self.quota), replies.clone());
        let (slow_request, hurry) = (self.settings.slow_request, self.hurry.clone());
        tokio::spawn(async move {
            // Fails only if a semaphore is closed, and none ever is.
            let Ok(share) = admission.await else { return };
            let parts = run(&request, data, &session, &quota, slow_request, &hurry).await;
            let _ = replies.send(Reply { parts, _share: share }).await;
        });
    }
}

async fn read_data<R: AsyncRead + Unpin>(
    reader: &mut R,
    len_bytes: usize,
    quota: &Quota,
) -> io::Result<Bytes> {
    let mut data = BytesMut::with_capacity(len_bytes);
    while data.len() < len_bytes {
        let rest_bytes = len_bytes - data.len();
        let mut rest = (&mut data).limit(rest_bytes);
        if quota.wait_for_client(reader.read_buf(&mut rest)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(data.freeze())
}

/// Waits until a throttled request may pass.
async fn wait(pending: Pending, request: &Request, session: &Session, hurry: &mut watch::Receiver<bool>) {
    let stats = &session.export.stats;
    let _waiting = Present::start(&stats.waiting);
    let start = Instant::now();
    pending.pass(hurry).await;
    stats.note_throttled(request, start.elapsed());
}

/// Runs a request and measures it. Answers even if the image panics.
async fn run(
    request: &Request,
    data: Bytes,
    session: &Session,
    quota: &Quota,
    slow_request: Duration,
    hurry: &watch::Receiver<bool>,
) -> Vec<Bytes> {
    let Export { name, stats, .. } = &*session.export;
    let _in_flight = Present::start(&stats.in_flight);
    let start = Instant::now();
    let running = quota.run().await;
    let result = AssertUnwindSafe(command::run(request, data, session, hurry)).catch_unwind().await;
    drop(running);
    let result = result.unwrap_or_else(|_| Err(command::panic_refusal()));
    stats.note_ended(name, request, start.elapsed(), result.is_ok(), slow_request);
    result.unwrap_or_else(|refusal| {
        tracing::debug!(export = name, ?request, ?refusal, "a request failed");
        command::error_reply(request, &refusal, session)
    })
}

/// Sends replies until all senders are gone.
async fn write_replies<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut queue: Receiver<Reply>,
    quota: &Quota,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut batch = BytesMut::new();
    while let Some(reply) = queue.recv().await {
        for mut part in reply.parts {
            if part.len() <= COPY_BYTES_MAX {
                batch.put(part);
            } else {
                write_all(writer, &mut batch, quota, &mut stop).await?;
                write_all(writer, &mut part, quota, &mut stop).await?;
            }
        }
        if queue.is_empty() || batch.len() > BATCH_BYTES_MAX {
            write_all(writer, &mut batch, quota, &mut stop).await?;
        }
    }
    Ok(())
}

/// Sends data.
async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut W,
    data: &mut impl Buf,
    quota: &Quota,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    while data.has_remaining() {
        if progress(writer.write_buf(data), quota, stop).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    // TLS may still have a part of the data.
    progress(writer.flush(), quota, stop).await
}

/// Waits for an operation that sends. Fails if the client reads nothing for a while after the
/// server's stop began, so that the client cannot delay the stop.
async fn progress<T>(
    operation: impl Future<Output = io::Result<T>>,
    quota: &Quota,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<T> {
    let late = async {
        let _ = stop.wait_for(|stop| *stop).await;
        tokio::time::sleep(STOP_LIMIT).await;
    };
    tokio::select! {
        done = quota.wait_for_client(operation) => done,
        () = late => Err(io::ErrorKind::TimedOut.into()),
    }
}
