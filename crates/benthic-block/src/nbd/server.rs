//! Accepts connections, and stops cleanly.

use super::export::Exports;
use super::handshake::{self, Negotiated, Session, Tls};
use super::limits::{CONNECTIONS_MAX, HANDSHAKE_LIMIT, Resources};
use super::stats::Present;
use super::throttle::Throttles;
use super::transmission::{Settings, transmit};
use crate::Limits;
use benthic_core::{Action, Error, Result};
use benthic_psk::PskAcceptor;
use rustix::net::sockopt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Idle time after which the system checks that a TCP client still exists.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// How a server treats its clients.
#[derive(Clone)]
pub struct Options {
    /// The limits of each connection. A client with several connections has them several times.
    pub client_limits: Limits,
    /// A request that takes as long is logged and counted as slow. The wait for limits is not part
    /// of its time.
    pub slow_request: Duration,
    /// With it, every client must use TLS.
    pub tls: Option<Encryption>,
}

impl Default for Options {
    fn default() -> Options {
        Options { client_limits: Limits::default(), slow_request: Duration::from_secs(1), tls: None }
    }
}

/// How the server and its clients know each other in TLS.
#[derive(Clone)]
pub enum Encryption {
    Certificates(TlsAcceptor),
    SharedKeys(PskAcceptor),
}

impl Encryption {
    async fn accept<S>(&self, stream: S) -> io::Result<Box<dyn Duplex>>
    where
        S: Duplex + 'static,
    {
        Ok(match self {
            Encryption::Certificates(acceptor) => Box::new(acceptor.accept(stream).await?),
            Encryption::SharedKeys(acceptor) => Box::new(acceptor.accept(stream).await?),
        })
    }
}

/// A stream in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// A listening socket. Dropping it removes the file of a Unix socket.
pub struct Listener {
    socket: Socket,
    address: Address,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on an address. Replaces the file of a Unix socket if no process listens on it.
    ///
    /// # Errors
    /// `AlreadyExists` if another process listens on the Unix socket, or if its path is another
    /// kind of file; `InvalidArgument` for a path that is too long; otherwise the kind of the
    /// system's error.
    pub async fn bind(address: Address) -> Result<Listener> {
        match address {
            Address::Unix(path) => {
                remove_stale_socket(&path).await?;
                let socket = UnixListener::bind(&path).map_err(|error| {
                    let refused = match error.kind() {
                        io::ErrorKind::InvalidInput => {
                            let message = "the path of the Unix socket is too long; choose a shorter one";
                            Error::invalid_argument(message)
                        }
                        _ => Error::io(Action::Admin, "cannot listen on this Unix socket", error),
                    };
                    refused.with("path", path.display())
                })?;
                Ok(Listener { socket: Socket::Unix(socket), address: Address::Unix(path) })
            }
            Address::Tcp(address) => {
                let refuse = |error| {
                    Error::io(Action::Admin, "cannot listen on this address", error).with("address", address)
                };
                let socket = TcpListener::bind(address).await.map_err(refuse)?;
                let address = Address::Tcp(socket.local_addr().map_err(refuse)?);
                Ok(Listener { socket: Socket::Tcp(socket), address })
            }
        }
    }

    /// The actual address, also if port 0 was chosen.
    pub fn address(&self) -> &Address {
        &self.address
    }

    async fn accept(&self) -> io::Result<Stream> {
        Ok(match &self.socket {
            Socket::Unix(socket) => Stream::Unix(socket.accept().await?.0),
            Socket::Tcp(socket) => {
                let (stream, _) = socket.accept().await?;
                stream.set_nodelay(true)?;
                // Otherwise the connections of hosts that have lost power stay forever.
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
                Stream::Tcp(stream)
            }
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // The file may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn remove_stale_socket(path: &Path) -> Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let refuse = |message| Err(Error::already_exists(message).with("path", path.display()));
    if !metadata.file_type().is_socket() {
        return refuse("the path of the socket is another file; choose another path");
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| {
                Error::io(Action::Admin, "cannot remove a stale Unix socket", error)
                    .with("path", path.display())
            })
        }
        _ => refuse("another process listens on this Unix socket; choose another path"),
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Serves exports until `shutdown` ends. Then it reads no more requests, completes the accepted
/// ones without throttling them, sends their replies and flushes the images. The images stay open.
///
/// # Errors
/// The first error of reading an image's limits at the start, or of a flush.
pub async fn serve(
    listener: Listener,
    exports: Exports,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let exports = Arc::new(exports);
    let mut watches = exports.watch_limits().await?;
    let options = Arc::new(options);
    let resources = Resources::new(exports.iter().count());
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            Some(_) = watches.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(_) if connections.len() >= CONNECTIONS_MAX => {
                tracing::warn!(limit = CONNECTIONS_MAX, "closed a connection: too many connections");
            }
            Ok(stream) => {
                let connection = Connection {
                    exports: Arc::clone(&exports),
                    options: Arc::clone(&options),
                    resources: resources.clone(),
                    stop: stopped.clone(),
                };
                connections.spawn(connection.serve(stream));
            }
            Err(error) => {
                // Most likely the process has no free file descriptor. Wait until other
                // connections end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    stop.send_replace(true);
    while connections.join_next().await.is_some() {}
    for export in exports.iter() {
        if !export.image.info().read_only {
            export.image.flush().await?;
        }
    }
    Ok(())
}

struct Connection {
    exports: Arc<Exports>,
    options: Arc<Options>,
    resources: Resources,
    stop: watch::Receiver<bool>,
}

/// A client that has chosen an export.
enum Client<S> {
    Plain(S, Session),
    Tls(Box<dyn Duplex>, Session),
}

impl Connection {
    async fn serve(self, stream: Stream) {
        let result = match stream {
            Stream::Unix(stream) => self.run(stream, UnixStream::into_split).await,
            Stream::Tcp(stream) => self.run(stream, TcpStream::into_split).await,
        };
        match result {
            Ok(()) => tracing::debug!("a connection ended"),
            Err(error) => tracing::info!(%error, "a connection failed"),
        }
    }

    async fn run<S, R, W>(mut self, stream: S, split: impl FnOnce(S) -> (R, W)) -> io::Result<()>
    where
        S: Duplex + 'static,
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let handshake =
            tokio::time::timeout(HANDSHAKE_LIMIT, negotiate(stream, &self.exports, &self.options));
        let client = tokio::select! {
            client = handshake => client??,
            _ = self.stop.wait_for(|stop| *stop) => return Ok(()),
        };
        match client {
            None => Ok(()),
            Some(Client::Plain(stream, session)) => {
                let (reader, writer) = split(stream);
                self.transmit(reader, writer, session).await
            }
            Some(Client::Tls(stream, session)) => {
                let (reader, writer) = tokio::io::split(stream);
                self.transmit(reader, writer, session).await
            }
        }
    }

    async fn transmit<R, W>(self, reader: R, writer: W, session: Session) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let settings = Settings {
            throttles: Throttles::new(&self.options.client_limits, session.export.throttle()),
            resources: self.resources,
            slow_request: self.options.slow_request,
        };
        let export = Arc::clone(&session.export);
        let _client = Present::start(&export.stats.clients);
        transmit(BufReader::new(reader), writer, session, settings, self.stop).await
    }
}

async fn negotiate<S>(mut stream: S, exports: &Exports, options: &Options) -> io::Result<Option<Client<S>>>
where
    S: Duplex + 'static,
{
    let flags = handshake::greet(&mut stream).await?;
    let tls = if options.tls.is_some() { Tls::Required } else { Tls::Absent };
    match (handshake::negotiate(&mut stream, flags, exports, tls).await?, &options.tls) {
        (Negotiated::Session(session), _) => Ok(Some(Client::Plain(stream, session))),
        (Negotiated::StartTls, Some(tls)) => {
            let mut stream = tls.accept(stream).await?;
            match handshake::negotiate(&mut stream, flags, exports, Tls::Active).await? {
                Negotiated::Session(session) => Ok(Some(Client::Tls(stream, session))),
                Negotiated::StartTls | Negotiated::End => Ok(None),
            }
        }
        (Negotiated::StartTls | Negotiated::End, _) => Ok(None),
    }
}
