//! The owner's side of the socket. Each connection has a reader thread and a writer thread.

use super::outbox::Outbox;
use super::wire::{Reply, Request, frame, parse};
use super::{GREETING, OWNER_BYTES, read_frame, socket_path};
use crate::store::ClientAccess;
use benthic_core::error::errno::EINVAL;
use benthic_core::{Action, Error, ErrorKind, Result, limits};
use parking_lot::{Condvar, Mutex};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{BufReader, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

const CONNECTIONS_MAX: usize = 256;
/// Limits per connection on requests in flight, and on the bytes of those requests and their
/// replies. Further requests wait in the socket.
const IN_FLIGHT_MAX: usize = 64;
const IN_FLIGHT_BYTES_MAX: u64 = 256 * 1024 * 1024;
const GREETING_MS_MAX: u64 = 5_000;
/// If the client accepts no reply for this long, the connection is closed.
const WRITE_MS_MAX: u64 = 10_000;

/// Runs a request and calls back with the reply. Must not block for long.
pub(crate) type Handler = Arc<dyn Fn(Request, Box<dyn FnOnce(Reply) + Send>) + Send + Sync>;

/// The handler of requests, and the data that every client gets with the greeting.
#[derive(Clone)]
pub(crate) struct Service {
    pub handler: Handler,
    pub access: Arc<ClientAccess>,
}

pub(crate) struct Server {
    dir: PathBuf,
    listener: Arc<UnixListener>,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    connections: Mutex<Vec<Connection>>,
    ending: Mutex<ShutdownState>,
    ended: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ShutdownState {
    #[default]
    Open,
    /// No new requests are accepted. It is not known yet whether all acknowledged operations are
    /// durable.
    Draining,
    /// All acknowledged operations are durable, and the clients are told so.
    Goodbye,
    /// An error occurred. The clients must treat the end of the connection as a crash.
    Silent,
}

struct Connection {
    stream: UnixStream,
    in_flight: Arc<InFlight>,
    thread: JoinHandle<()>,
}

impl Server {
    pub fn start(dir: &Path, service: Service) -> Result<Server> {
        let unusable = |e| {
            Error::io(Action::Admin, "the store's socket cannot be created", e).with("dir", dir.display())
        };
        let listener = Arc::new(listen(dir).map_err(unusable)?);
        let shared = Arc::new(Shared::default());
        let (accepting, accepted) = (Arc::clone(&listener), Arc::clone(&shared));
        let run = move || accept(&accepting, &accepted, &service);
        let acceptor =
            std::thread::Builder::new().name("benthic-accept".to_owned()).spawn(run).map_err(unusable)?;
        Ok(Server { dir: dir.to_owned(), listener, shared, acceptor: Mutex::new(Some(acceptor)) })
    }

    /// Rejects new requests and returns when all accepted ones are answered.
    pub fn drain(&self) {
        let Some(acceptor) = self.acceptor.lock().take() else { return };
        *self.shared.ending.lock() = ShutdownState::Draining;
        // This wakes the acceptor even if the directory is gone.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = acceptor.join();
        if let Ok((_dir, path)) = socket_path(&self.dir) {
            let _ = fs::remove_file(&path);
        }
        let connections = self.shared.connections.lock();
        for connection in connections.iter() {
            let _ = connection.stream.shutdown(Shutdown::Read);
        }
        connections.iter().for_each(|connection| connection.in_flight.wait_for_end());
    }

    /// Closes all connections. Sends a goodbye first if all acknowledged operations are durable.
    pub fn finish(&self, durable: bool) {
        *self.shared.ending.lock() = if durable { ShutdownState::Goodbye } else { ShutdownState::Silent };
        self.shared.ended.notify_all();
        for connection in std::mem::take(&mut *self.shared.connections.lock()) {
            let _ = connection.thread.join();
        }
    }
}

fn listen(dir: &Path) -> io::Result<UnixListener> {
    let (_dir, path) = socket_path(dir)?;
    // A killed owner may have left a socket. This process holds the lock, so no other owner uses
    // it.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>, service: &Service) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.raw_os_error() == Some(EINVAL) => return,
            Err(error) => {
                // The process may be out of file descriptors. Waiting clients time out; connected
                // ones continue.
                tracing::warn!(%error, "a connection could not be accepted");
                std::thread::park_timeout(Duration::from_millis(50));
                continue;
            }
        };
        let mut connections = shared.connections.lock();
        connections.retain(|connection| !connection.thread.is_finished());
        if connections.len() >= CONNECTIONS_MAX {
            tracing::warn!(connections_max = CONNECTIONS_MAX, "a connection was refused");
            continue;
        }
        let (Ok(serving), service) = (stream.try_clone(), service.clone()) else { continue };
        let in_flight = Arc::new(InFlight::default());
        let (counting, ending) = (Arc::clone(&in_flight), Arc::clone(shared));
        let run = move || {
            if let Err(error) = serve(&serving, &service, &counting, &ending) {
                tracing::debug!(%error, "a connection ended");
            }
            counting.end();
            let _ = serving.shutdown(Shutdown::Both);
        };
        if let Ok(thread) = std::thread::Builder::new().name("benthic-read".to_owned()).spawn(run) {
            connections.push(Connection { stream, in_flight, thread });
        }
    }
}

/// Requests that were accepted and whose replies are not written yet.
#[derive(Default)]
struct InFlight {
    load: Mutex<Load>,
    less: Condvar,
}

#[derive(Default)]
struct Load {
    requests: usize,
    len_bytes: u64,
    /// No more requests are accepted.
    ended: bool,
}

impl InFlight {
    fn wait_for_room(&self) {
        let mut load = self.load.lock();
        while load.requests >= IN_FLIGHT_MAX || load.len_bytes >= IN_FLIGHT_BYTES_MAX {
            self.less.wait(&mut load);
        }
    }

    fn end(&self) {
        self.load.lock().ended = true;
        self.less.notify_all();
    }

    /// Returns when no more requests are accepted and all are answered.
    fn wait_for_end(&self) {
        let mut load = self.load.lock();
        while !load.ended || load.requests > 0 {
            self.less.wait(&mut load);
        }
    }

    fn add(self: &Arc<Self>, len_bytes: u64) -> LoadShare {
        let mut load = self.load.lock();
        load.requests += 1;
        load.len_bytes += len_bytes;
        LoadShare { in_flight: Arc::clone(self), len_bytes }
    }
}

/// One request's share of the load. It is released when the reply is written.
struct LoadShare {
    in_flight: Arc<InFlight>,
    len_bytes: u64,
}

impl LoadShare {
    fn grow(&mut self, len_bytes: u64) {
        self.len_bytes += len_bytes;
        self.in_flight.load.lock().len_bytes += len_bytes;
    }
}

impl Drop for LoadShare {
    fn drop(&mut self) {
        let mut load = self.in_flight.load.lock();
        load.requests -= 1;
        load.len_bytes -= self.len_bytes;
        self.in_flight.less.notify_all();
    }
}

type Replies = Arc<Outbox<Option<LoadShare>>>;

/// An accepted request. If its job panics, dropping it unanswered sends an `Internal` error.
struct PendingRequest {
    id: u64,
    share: Option<LoadShare>,
    replies: Replies,
}

impl PendingRequest {
    fn answer(&mut self, reply: &Reply) {
        let Some(mut share) = self.share.take() else { return };
        let frame = frame(self.id, reply).or_else(|| {
            frame(self.id, &Reply::failed(ErrorKind::LimitExceeded, "the reply is too large; ask for less"))
        });
        if let Some(frame) = frame {
            share.grow(frame.len() as u64);
            self.replies.send(frame, Some(share));
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.answer(&Reply::failed(ErrorKind::Internal, "the operation panicked; see the owner's log"));
    }
}

fn serve(
    stream: &UnixStream,
    service: &Service,
    in_flight: &Arc<InFlight>,
    shared: &Shared,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut greeting = [0; GREETING.len()];
    stream.set_read_timeout(Some(Duration::from_millis(GREETING_MS_MAX)))?;
    stream.set_write_timeout(Some(Duration::from_millis(WRITE_MS_MAX)))?;
    greet(stream, &service.access)?;
    reader.read_exact(&mut greeting)?;
    if greeting != GREETING {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client uses another protocol"));
    }
    stream.set_read_timeout(None)?;
    // The limit on requests in flight also bounds the replies that wait to be written.
    let (replies, writer) = Outbox::start(stream.try_clone()?, Shutdown::Both, "benthic-write")?;
    let replies = Arc::new(replies);
    let outcome = read_requests(&mut reader, &service.handler, in_flight, &replies);
    in_flight.end();
    in_flight.wait_for_end();
    let mut ending = shared.ending.lock();
    while *ending == ShutdownState::Draining {
        shared.ended.wait(&mut ending);
    }
    if let (ShutdownState::Goodbye, Some(goodbye)) = (*ending, frame(0, &Reply::Goodbye {})) {
        replies.send(goodbye, None);
    }
    drop(ending);
    drop(replies);
    let _ = writer.join();
    outcome
}

/// Sends the greeting, with the file of revisions.
fn greet(stream: &UnixStream, access: &ClientAccess) -> io::Result<()> {
    let mut greeting = [0; GREETING.len() + OWNER_BYTES];
    greeting[..GREETING.len()].copy_from_slice(&GREETING);
    greeting[GREETING.len()..].copy_from_slice(&access.owner.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = access.revisions.iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&greeting)], &mut control, SendFlags::NOSIGNAL)?;
    if sent < greeting.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
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
        let (id, request) = parse::<Request>(&request)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a request cannot be decoded"))?;
        let reply_bytes = request.reply_bytes().min(limits::OPERATION_BYTES_MAX);
        let share = in_flight.add(frame_bytes + reply_bytes);
        let mut pending = PendingRequest { id, share: Some(share), replies: Arc::clone(replies) };
        handler(request, Box::new(move |reply| pending.answer(&reply)));
    }
}
