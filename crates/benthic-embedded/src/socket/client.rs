//! The client's side of the socket.

use super::outbox::Outbox;
use super::wire::{Reply, Request, frame, parse};
use super::{GREETING, OWNER_BYTES, read_frame, socket_path};
use crate::store::DirectReader;
use benthic_core::{Clock, ErrorKind};
use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const GREETING_MS_MAX: u64 = 2_000;

/// The reason why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionLost {
    NotExecuted,
    /// The owner died, and the request may or may not have been executed.
    OutcomeUnknown,
}

pub(crate) struct Connection {
    stream: UnixStream,
    outbox: Outbox<()>,
    shared: Arc<Shared>,
    /// `None` if the owner does not offer it.
    direct: Option<DirectReader>,
    clock: Arc<dyn Clock>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    ended: Condvar,
}

struct Waiting {
    next_id: u64,
    replies: HashMap<u64, Waiter>,
    /// Number of buffered operations that the owner acknowledged, and how many of them a flush has
    /// covered.
    buffered: u64,
    flushed: u64,
    ended: Option<ConnectionLost>,
}

struct Waiter {
    reply: oneshot::Sender<Result<Reply, ConnectionLost>>,
    since: Duration,
    is_buffered: bool,
    /// Number of buffered operations that this flush covers.
    flushes: u64,
}

impl Connection {
    /// Connects to the owner of a store.
    ///
    /// # Errors
    /// `InvalidData` if the owner speaks another protocol, `PermissionDenied`. Other kinds if no
    /// owner answers.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> io::Result<Connection> {
        let (_dir, path) = socket_path(dir)?;
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(Duration::from_millis(GREETING_MS_MAX)))?;
        let (owner, revisions) = read_greeting(&mut stream)?;
        // The same directory as the socket, even if the path has another one meanwhile.
        let dir = path.parent().unwrap_or(dir);
        let direct = revisions.and_then(|revisions| DirectReader::open(dir, revisions, owner).ok());
        stream.set_read_timeout(None)?;
        stream.write_all(&GREETING)?;
        let waiting = Waiting { next_id: 1, replies: HashMap::new(), buffered: 0, flushed: 0, ended: None };
        let shared = Arc::new(Shared { waiting: Mutex::new(waiting), ended: Condvar::new() });
        // Shut down only the sending side: an owner that accepts no more requests may still send a
        // goodbye.
        let (outbox, _sender) = Outbox::start(stream.try_clone()?, Shutdown::Write, "benthic-send")?;
        let (reading, answered) = (stream.try_clone()?, Arc::clone(&shared));
        std::thread::Builder::new().name("benthic-receive".to_owned()).spawn(move || {
            let ended = receive(&mut BufReader::new(reading), &answered.waiting);
            let mut waiting = answered.waiting.lock();
            waiting.ended = Some(ended);
            answered.ended.notify_all();
            for (_, waiter) in waiting.replies.drain() {
                let _ = waiter.reply.send(Err(ended));
            }
        })?;
        Ok(Connection { stream, outbox, shared, direct, clock })
    }

    /// Runs a request. Reads that can be repeated without the owner do not use it.
    pub async fn run(&self, request: &Request) -> Result<Reply, ConnectionLost> {
        let is_connected = || self.shared.waiting.lock().ended.is_none();
        if let (Request::Read { pool, object, op }, Some(direct)) = (request, &self.direct)
            && is_connected()
            && let Some(reply) = direct.read(*pool, object, op)
        {
            return Ok(Reply::Read { reply });
        }
        Ok(match self.call(request).await? {
            Reply::Located { reply, location } => {
                if let (Request::Read { pool, object, .. }, Some(direct)) = (request, &self.direct) {
                    direct.insert(*pool, object, location);
                }
                Reply::Read { reply }
            }
            reply => reply,
        })
    }

    async fn call(&self, request: &Request) -> Result<Reply, ConnectionLost> {
        self.send(request)?.await.unwrap_or(Err(ConnectionLost::OutcomeUnknown))
    }

    fn send(
        &self,
        request: &Request,
    ) -> Result<oneshot::Receiver<Result<Reply, ConnectionLost>>, ConnectionLost> {
        let (reply, outcome) = oneshot::channel();
        let id = {
            let mut waiting = self.shared.waiting.lock();
            if waiting.ended.is_some() {
                return Err(ConnectionLost::NotExecuted);
            }
            let id = waiting.next_id;
            waiting.next_id += 1;
            let flushes = if *request == (Request::Flush {}) { waiting.buffered } else { 0 };
            let (since, is_buffered) = (self.clock.monotonic(), request.is_buffered());
            waiting.replies.insert(id, Waiter { reply, since, is_buffered, flushes });
            id
        };
        if let Some(frame) = frame(id, request) {
            self.outbox.send(frame, ());
        } else if let Some(waiter) = self.shared.waiting.lock().replies.remove(&id) {
            let refused =
                Reply::failed(ErrorKind::LimitExceeded, "the request is too large; make it smaller");
            let _ = waiter.reply.send(Ok(refused));
        }
        Ok(outcome)
    }

    /// The age of the oldest request without a reply.
    pub fn longest_wait(&self) -> Option<Duration> {
        let waiting = self.shared.waiting.lock();
        let oldest = waiting.replies.values().map(|waiter| waiter.since).min()?;
        Some(self.clock.monotonic().saturating_sub(oldest))
    }

    /// Waits until a connection that accepts no more requests has ended. Returns true if unflushed
    /// buffered operations may be lost.
    pub fn lost_buffered(&self) -> bool {
        let mut waiting = self.shared.waiting.lock();
        while waiting.ended.is_none() {
            self.shared.ended.wait(&mut waiting);
        }
        waiting.buffered > waiting.flushed && waiting.ended == Some(ConnectionLost::OutcomeUnknown)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Reads the owner's greeting: its number, and the file of revisions that came with it.
fn read_greeting(stream: &mut UnixStream) -> io::Result<(u64, Option<File>)> {
    let mut greeting = [0; GREETING.len() + OWNER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let buffers = &mut [IoSliceMut::new(&mut greeting)];
    let received = recvmsg(&*stream, buffers, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let revisions = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    // An owner of another version may send nothing after its greeting.
    let (begin, owner) = greeting.split_at_mut(GREETING.len());
    stream.read_exact(&mut begin[received.min(GREETING.len())..])?;
    if begin != GREETING {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.read_exact(&mut owner[received.saturating_sub(GREETING.len())..])?;
    Ok((owner.iter().rev().fold(0, |owner, byte| owner << 8 | u64::from(*byte)), revisions.map(File::from)))
}

/// Delivers replies to their callers until the connection ends. Returns the reason for its end.
fn receive(reader: &mut impl Read, waiting: &Mutex<Waiting>) -> ConnectionLost {
    loop {
        let Ok(Ok((id, reply))) = read_frame(reader).map(|frame| parse::<Reply>(&frame)) else {
            return ConnectionLost::OutcomeUnknown;
        };
        if reply == (Reply::Goodbye {}) {
            return ConnectionLost::NotExecuted;
        }
        let mut waiting = waiting.lock();
        let Some(waiter) = waiting.replies.remove(&id) else { continue };
        if !matches!(reply, Reply::Failed { .. }) {
            waiting.buffered += u64::from(waiter.is_buffered);
            waiting.flushed = waiting.flushed.max(waiter.flushes);
        }
        drop(waiting);
        let _ = waiter.reply.send(Ok(reply));
    }
}
