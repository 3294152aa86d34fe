//! The other processes' side of the socket.

use super::wire::{Reply, Request, frame, parse};
use super::{GREETING, read_frame, socket_path};
use benthic_core::ErrorKind;
use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long the owner may take to greet.
const GREETING_MS_MAX: u64 = 2_000;

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was not done.
    NotDone,
    /// It may have been done or not: the owner died.
    Unknown,
}

pub(crate) struct Connection {
    stream: UnixStream,
    to_write: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
    /// Buffered operations sent, and how many of them a flush covered.
    buffered: AtomicU64,
    flushed: AtomicU64,
}

struct Shared {
    waiting: Mutex<Waiting>,
    ended: Condvar,
}

struct Waiting {
    next_id: u64,
    replies: HashMap<u64, oneshot::Sender<Result<Reply, Lost>>>,
    /// How the connection ended.
    ended: Option<Lost>,
}

impl Connection {
    /// Connects to the owner of a store.
    ///
    /// # Errors
    /// `InvalidData` if the owner speaks another protocol, `PermissionDenied`; others if there is none that answers.
    pub fn open(dir: &Path) -> io::Result<Connection> {
        let (_dir, path) = socket_path(dir)?;
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_millis(GREETING_MS_MAX)))?;
        let mut greeting = [0; GREETING.len()];
        stream.read_exact(&mut greeting)?;
        if greeting != GREETING {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(None)?;
        stream.write_all(&GREETING)?;
        let waiting = Waiting { next_id: 1, replies: HashMap::new(), ended: None };
        let shared = Arc::new(Shared { waiting: Mutex::new(waiting), ended: Condvar::new() });
        let (to_write, frames) = mpsc::channel::<Vec<u8>>();
        let (mut writing, reading, answered) =
            (stream.try_clone()?, stream.try_clone()?, Arc::clone(&shared));
        std::thread::Builder::new().name("benthic-send".to_owned()).spawn(move || {
            for frame in frames {
                if writing.write_all(&frame).is_err() {
                    // The receiver learns how the connection ended.
                    break;
                }
            }
        })?;
        std::thread::Builder::new().name("benthic-receive".to_owned()).spawn(move || {
            let ended = receive(&mut BufReader::new(reading), &answered.waiting);
            let mut waiting = answered.waiting.lock();
            waiting.ended = Some(ended);
            answered.ended.notify_all();
            for (_, reply) in waiting.replies.drain() {
                let _ = reply.send(Err(ended));
            }
        })?;
        Ok(Connection { stream, to_write, shared, buffered: AtomicU64::new(0), flushed: AtomicU64::new(0) })
    }

    /// Sends a request and waits for the reply.
    pub async fn call(&self, request: &Request) -> Result<Reply, Lost> {
        if request.is_buffered() {
            self.buffered.fetch_add(1, Ordering::AcqRel);
        }
        let covered = self.buffered.load(Ordering::Acquire);
        let reply = self.send(request)?.await.unwrap_or(Err(Lost::Unknown))?;
        if *request == (Request::Flush {}) && reply == (Reply::Done {}) {
            self.flushed.fetch_max(covered, Ordering::AcqRel);
        }
        Ok(reply)
    }

    fn send(&self, request: &Request) -> Result<oneshot::Receiver<Result<Reply, Lost>>, Lost> {
        let (reply, outcome) = oneshot::channel();
        let mut waiting = self.shared.waiting.lock();
        if waiting.ended.is_some() {
            return Err(Lost::NotDone);
        }
        let id = waiting.next_id;
        waiting.next_id += 1;
        let Some(frame) = frame(id, request) else {
            let refused =
                Reply::failed(ErrorKind::LimitExceeded, "the request is too large; make it smaller");
            let _ = reply.send(Ok(refused));
            return Ok(outcome);
        };
        self.to_write.send(frame).map_err(|_| Lost::NotDone)?;
        waiting.replies.insert(id, reply);
        Ok(outcome)
    }

    /// Waits for the end of a connection that takes no more requests, and says whether buffered operations went with it.
    pub fn lost_buffered(&self) -> bool {
        let mut waiting = self.shared.waiting.lock();
        while waiting.ended.is_none() {
            self.shared.ended.wait(&mut waiting);
        }
        let unflushed = self.buffered.load(Ordering::Acquire) > self.flushed.load(Ordering::Acquire);
        unflushed && waiting.ended == Some(Lost::Unknown)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Hands replies to those who wait until the connection ends; says how it ended.
fn receive(reader: &mut impl Read, waiting: &Mutex<Waiting>) -> Lost {
    loop {
        let Ok(Ok((id, reply))) = read_frame(reader).map(parse::<Reply>) else { return Lost::Unknown };
        if reply == (Reply::Goodbye {}) {
            return Lost::NotDone;
        }
        if let Some(waiting) = waiting.lock().replies.remove(&id) {
            let _ = waiting.send(Ok(reply));
        }
    }
}
