//! Arrow Flight SQL: a gRPC server.

mod credentials;
mod known_types;
mod metadata;
mod polling;
mod queries;
mod service;

use crate::users::Users;
use arrow_flight::flight_service_server::FlightServiceServer;
use benthic_core::{Action, Environment, Error, ErrorKind, Result};
use credentials::Credentials;
use futures::stream;
use polling::Polling;
use queries::{Queries, forget_polled};
use service::Service;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tonic::{Code, Status};

/// Maximum size of a request.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Time that a client has for TLS.
const TLS_TIME: Duration = Duration::from_secs(30);
/// Time that a client has for its first login after TLS. Clients without a key must not keep the
/// connections of others waiting.
const LOGIN_TIME: Duration = Duration::from_secs(10);
/// Time that running queries have when the server stops.
const STOP_TIME: Duration = Duration::from_secs(8);
/// Interval and time limit of the pings that find clients without power.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIME: Duration = Duration::from_secs(20);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server of Flight SQL.
pub struct FlightServer {
    users: Arc<Users>,
    tls: Option<TlsAcceptor>,
    environment: Environment,
}

impl FlightServer {
    /// A server for these users. With `tls`, it takes only encrypted connections.
    pub fn new(users: Arc<Users>, tls: Option<TlsAcceptor>, environment: Environment) -> FlightServer {
        FlightServer { users, tls, environment }
    }

    /// Serves clients until `stop` becomes true. Then running queries have a few seconds to end.
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers. Errors of single connections are not returned.
    pub async fn serve(
        self,
        listener: TcpListener,
        connections_max: u32,
        mut stop: watch::Receiver<bool>,
    ) -> Result<()> {
        let credentials = Credentials::new(self.users, self.environment.clone())?;
        let queries = Queries::new(self.environment);
        let forget = forget_polled(Arc::clone(&queries.polled));
        let service = Polling(Service { credentials, queries });
        let service = FlightServiceServer::new(service).max_decoding_message_size(REQUEST_BYTES_MAX);
        let (accepted, mut incoming) = mpsc::channel(1);
        let accept = tokio::spawn(accept(listener, self.tls, connections_max, accepted));
        let incoming = stream::poll_fn(move |context| incoming.poll_recv(context));
        let mut stopped = stop.clone();
        let served = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(PING_INTERVAL))
            .http2_keepalive_timeout(Some(PING_TIME))
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, async move {
                let _ = stopped.wait_for(|stop| *stop).await;
                accept.abort();
            });
        let stop = async {
            let _ = stop.wait_for(|stop| *stop).await;
            tokio::time::sleep(STOP_TIME).await;
        };
        tokio::select! {
            served = served => served.map_err(|error| {
                Error::io(Action::Admin, "cannot serve Flight SQL", io::Error::other(error))
            }),
            () = stop => Ok(()),
            () = forget => Ok(()),
        }
    }
}

/// Accepts connections. Encryption does not delay other clients.
async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    connections_max: u32,
    accepted: mpsc::Sender<io::Result<Connection>>,
) {
    let slots = Arc::new(Semaphore::new(connections_max as usize));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (tls, accepted) = (tls.clone(), accepted.clone());
        tokio::spawn(async move {
            // Small messages must not wait for each other.
            let _ = stream.set_nodelay(true);
            let stream: Box<dyn Stream> = match tls {
                None => Box::new(stream),
                Some(tls) => match timeout(TLS_TIME, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Box::new(stream),
                    _ => return,
                },
            };
            let login = Box::pin(tokio::time::sleep(LOGIN_TIME));
            let connection = Connection { stream, is_logged_in: IsLoggedIn::default(), login, _slot: slot };
            // The server stops if nobody receives this.
            let _ = accepted.send(Ok(connection)).await;
        });
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Whether the client of a connection has logged in.
#[derive(Clone, Default)]
struct IsLoggedIn(Arc<AtomicBool>);

impl IsLoggedIn {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection and its slot.
struct Connection {
    stream: Box<dyn Stream>,
    is_logged_in: IsLoggedIn,
    /// The time until the login.
    login: Pin<Box<Sleep>>,
    _slot: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = IsLoggedIn;

    fn connect_info(&self) -> IsLoggedIn {
        self.is_logged_in.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_logged_in.get() && self.login.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// gRPC's status of an error.
fn status(error: &Error) -> Status {
    let code = match error.kind() {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::Conflict => Code::Aborted,
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Unavailable | ErrorKind::Busy => Code::Unavailable,
        ErrorKind::LimitExceeded => Code::ResourceExhausted,
        ErrorKind::Corrupt => Code::DataLoss,
        ErrorKind::OutcomeUnknown => Code::Unknown,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}
