//! The HTTP server: limits on connections and time, TLS, and an orderly stop.

use super::Service;
use benthic_program::client_timeout::TimedStream;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// How long a stopping server waits for running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// Limits on clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections; further ones wait to be accepted.
    pub connections_max: usize,
    /// How long a connection may be idle, how long the head of a request may take, and how long a
    /// client may accept nothing of an answer.
    pub idle_timeout: Duration,
}

/// Serves requests over HTTP/1.1.
pub struct Server {
    pub service: Service,
    pub limits: Limits,
    pub tls: Option<TlsAcceptor>,
}

impl Server {
    /// Serves until `stop` completes, then gives running requests at most 8 seconds to end. Errors
    /// of single connections are logged.
    pub async fn serve(self: Arc<Server>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = async {
                let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
                Some((slot, listener.accept().await))
            };
            let accepted = tokio::select! {
                () = &mut stop => None,
                accepted = accepted => accepted,
            };
            let Some((slot, accepted)) = accepted else { break };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Probably the process has no free file descriptor. Wait for other connections
                    // to end.
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (server, watcher) = (Arc::clone(&self), graceful.watcher());
            tokio::spawn(async move {
                if let Err(error) = server.serve_connection(stream, watcher).await {
                    tracing::debug!(%error, "a connection ended");
                }
                drop(slot);
            });
        }
        drop(listener);
        if timeout(STOP_TIMEOUT, graceful.shutdown()).await.is_err() {
            tracing::warn!("the server stops although requests are still running");
        }
    }

    async fn serve_connection(
        self: Arc<Server>,
        stream: TcpStream,
        watcher: Watcher,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        let limit = self.limits.idle_timeout;
        let stream = TimedStream::new(stream, limit);
        match self.tls.clone() {
            None => self.serve_stream(stream, watcher).await,
            Some(tls) => {
                let stream = timeout(limit, tls.accept(stream)).await??;
                self.serve_stream(stream, watcher).await
            }
        }
    }

    async fn serve_stream(
        self: Arc<Server>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        watcher: Watcher,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let limit = self.limits.idle_timeout;
        let service = service_fn(move |request: Request<Incoming>| {
            let server = Arc::clone(&self);
            // Boxed, so that an idle connection does not reserve memory for a request.
            Box::pin(async move { Ok::<_, Infallible>(server.service.answer(request).await) })
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limit)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        watcher.watch(connection).await.map_err(Into::into)
    }
}
