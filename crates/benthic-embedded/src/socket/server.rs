//! The owner's side of the socket: a thread that reads and one that writes for every connection.

use super::wire::{Reply, Request, frame, parse};
use super::{GREETING, read_frame, socket_path};
use benthic_core::error::errno::EINVAL;
use benthic_core::{Action, Error, Result, limits};
use parking_lot::{Condvar, Mutex};
use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

/// Connections at one time.
const CONNECTIONS_MAX: usize = 256;
/// Requests of one connection, and bytes of theirs and of their replies, at one time; more wait in the socket.
const IN_FLIGHT_MAX: usize = 64;
const IN_FLIGHT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How long the other side may take no reply before the connection is given up.
const WRITE_MS_MAX: u64 = 10_000;

/// Runs a request and calls back with the reply; must not block for long.
pub(crate) type Handler = Arc<dyn Fn(Request, Box<dyn FnOnce(Reply) + Send>) + Send + Sync>;

pub(crate) struct Server {
    dir: PathBuf,
    listener: Arc<UnixListener>,
    connections: Arc<Connections>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

type Connections = Mutex<Vec<(UnixStream, JoinHandle<()>)>>;

impl Server {
    pub fn start(dir: &Path, handler: Handler) -> Result<Server> {
        let unusable =
            |e| Error::io(Action::Admin, "the store's socket cannot be made", e).with("dir", dir.display());
        let listener = Arc::new(listen(dir).map_err(unusable)?);
        let connections = Arc::new(Connections::default());
        let (accepting, accepted) = (Arc::clone(&listener), Arc::clone(&connections));
        let run = move || accept(&accepting, &accepted, &handler);
        let acceptor =
            std::thread::Builder::new().name("benthic-accept".to_owned()).spawn(run).map_err(unusable)?;
        Ok(Server { dir: dir.to_owned(), listener, connections, acceptor: Mutex::new(Some(acceptor)) })
    }

    /// Takes no more requests, answers those it took, says goodbye to every connection and removes the socket.
    pub fn stop(&self) {
        let Some(acceptor) = self.acceptor.lock().take() else { return };
        // Ends the acceptor's waiting, also if the directory is gone.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = acceptor.join();
        if let Ok((_dir, path)) = socket_path(&self.dir) {
            let _ = fs::remove_file(&path);
        }
        let connections = std::mem::take(&mut *self.connections.lock());
        for (stream, _) in &connections {
            let _ = stream.shutdown(Shutdown::Read);
        }
        for (_, thread) in connections {
            let _ = thread.join();
        }
    }
}

fn listen(dir: &Path) -> io::Result<UnixListener> {
    let (_dir, path) = socket_path(dir)?;
    // Left by an owner that was killed; this process holds the lock.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn accept(listener: &UnixListener, connections: &Connections, handler: &Handler) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.raw_os_error() == Some(EINVAL) => return,
            Err(error) => {
                // Out of descriptors, perhaps: those who wait find out, those who are connected work on.
                tracing::warn!(%error, "a connection could not be accepted");
                std::thread::park_timeout(Duration::from_millis(50));
                continue;
            }
        };
        let mut connections = connections.lock();
        connections.retain(|(_, thread)| !thread.is_finished());
        if connections.len() >= CONNECTIONS_MAX {
            tracing::warn!(connections_max = CONNECTIONS_MAX, "a connection was refused");
            continue;
        }
        let (Ok(reading), handler) = (stream.try_clone(), Arc::clone(handler)) else { continue };
        let run = move || {
            if let Err(error) = serve(&reading, &handler) {
                tracing::debug!(%error, "a connection ended");
            }
            let _ = reading.shutdown(Shutdown::Both);
        };
        if let Ok(thread) = std::thread::Builder::new().name("benthic-read".to_owned()).spawn(run) {
            connections.push((stream, thread));
        }
    }
}

/// Requests that were taken and whose replies are not written yet.
#[derive(Default)]
struct InFlight {
    load: Mutex<Load>,
    less: Condvar,
}

#[derive(Default)]
struct Load {
    requests: usize,
    len_bytes: u64,
}

impl InFlight {
    fn wait_for_room(&self) {
        let mut load = self.load.lock();
        while load.requests >= IN_FLIGHT_MAX || load.len_bytes >= IN_FLIGHT_BYTES_MAX {
            self.less.wait(&mut load);
        }
    }

    fn wait_for_none(&self) {
        let mut load = self.load.lock();
        while load.requests > 0 {
            self.less.wait(&mut load);
        }
    }

    fn add(self: &Arc<Self>, len_bytes: u64) -> Pending {
        let mut load = self.load.lock();
        load.requests += 1;
        load.len_bytes += len_bytes;
        Pending { in_flight: Arc::clone(self), len_bytes }
    }
}

/// One request in flight, until its reply is written, or until its job panicked and nobody replies.
struct Pending {
    in_flight: Arc<InFlight>,
    len_bytes: u64,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut load = self.in_flight.load.lock();
        load.requests -= 1;
        load.len_bytes -= self.len_bytes;
        self.in_flight.less.notify_all();
    }
}

type Replies = mpsc::Sender<(Vec<u8>, Option<Pending>)>;

fn serve(stream: &UnixStream, handler: &Handler) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut greeting = [0; GREETING.len()];
    (&mut &*stream).write_all(&GREETING)?;
    reader.read_exact(&mut greeting)?;
    if greeting != GREETING {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the other side speaks another protocol"));
    }
    // Replies are written by a thread of their own, so that a slow reader holds up nobody but itself; what waits for it
    // is bounded by what may be in flight.
    let (replies, to_write) = mpsc::channel::<(Vec<u8>, Option<Pending>)>();
    let mut writing = stream.try_clone()?;
    writing.set_write_timeout(Some(Duration::from_millis(WRITE_MS_MAX)))?;
    let writer = std::thread::Builder::new().name("benthic-write".to_owned()).spawn(move || {
        for (frame, pending) in to_write {
            if writing.write_all(&frame).is_err() {
                // Ends the reader too; replies that still come are dropped.
                let _ = writing.shutdown(Shutdown::Both);
            }
            drop(pending);
        }
    })?;
    let in_flight = Arc::new(InFlight::default());
    let outcome = read_requests(&mut reader, handler, &in_flight, &replies);
    in_flight.wait_for_none();
    let _ = replies.send((frame(0, &Reply::Goodbye {}), None));
    drop(replies);
    let _ = writer.join();
    outcome
}

fn read_requests(
    reader: &mut impl Read,
    handler: &Handler,
    in_flight: &Arc<InFlight>,
    replies: &Replies,
) -> io::Result<()> {
    loop {
        in_flight.wait_for_room();
        let request = match read_frame(reader) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        };
        let frame_bytes = request.len() as u64;
        let (id, request) = parse::<Request>(request)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a request cannot be decoded"))?;
        let reply_bytes = request.reply_bytes().min(limits::OPERATION_BYTES_MAX);
        let pending = in_flight.add(frame_bytes + reply_bytes);
        let replies = replies.clone();
        handler(
            request,
            Box::new(move |reply| {
                // The connection may be gone; then nobody waits for the reply.
                let _ = replies.send((frame(id, &reply), Some(pending)));
            }),
        );
    }
}
