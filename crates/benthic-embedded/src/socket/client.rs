//! The other processes' side of the socket.

use super::wire::{Reply, Request, frame, parse};
use super::{GREETING, read_frame, socket_path};
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
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
    waiting: Arc<Mutex<Waiting>>,
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
    /// `InvalidData` if the owner speaks another protocol; others if there is none that answers.
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
        let waiting = Arc::new(Mutex::new(Waiting { next_id: 1, replies: HashMap::new(), ended: None }));
        let (to_write, frames) = mpsc::channel::<Vec<u8>>();
        let (mut writing, reading, answered) =
            (stream.try_clone()?, stream.try_clone()?, Arc::clone(&waiting));
        std::thread::Builder::new().name("benthic-send".to_owned()).spawn(move || {
            for frame in frames {
                if writing.write_all(&frame).is_err() {
                    // The reader learns how the connection ended.
                    break;
                }
            }
        })?;
        std::thread::Builder::new().name("benthic-receive".to_owned()).spawn(move || {
            let ended = receive(&mut BufReader::new(reading), &answered);
            let mut waiting = answered.lock();
            waiting.ended = Some(ended);
            for (_, reply) in waiting.replies.drain() {
                let _ = reply.send(Err(ended));
            }
        })?;
        Ok(Connection { stream, to_write, waiting })
    }

    /// Sends a request and waits for the reply.
    pub async fn call(&self, request: &Request) -> Result<Reply, Lost> {
        let (reply, outcome) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.ended.is_some() {
                return Err(Lost::NotDone);
            }
            let id = waiting.next_id;
            waiting.next_id += 1;
            waiting.replies.insert(id, reply);
            if self.to_write.send(frame(id, request)).is_err() {
                waiting.replies.remove(&id);
                return Err(Lost::NotDone);
            }
        }
        outcome.await.unwrap_or(Err(Lost::Unknown))
    }

    /// Whether the owner is gone, and did not say goodbye.
    pub fn died(&self) -> bool {
        self.waiting.lock().ended == Some(Lost::Unknown)
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
