//! Serves connections, with limits on their number and on headers.

use crate::commands::console::Console;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Limit on concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 64;
/// Time limit for the TLS handshake, and for the headers of each request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 64;

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, console: &Console<'_>) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => connections.push(connection(stream, tls.clone(), console)),
                // Most likely the process has no free file descriptor. Wait until other connections
                // end.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(()) = connections.next() => {}
        }
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, console: &Console<'_>) {
    let served = match tls {
        None => http(stream, console).await,
        Some(tls) => match timeout(HEAD_LIMIT, tls.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, console).await,
            failed => return tracing::debug!(failed = failed.is_ok(), "a TLS handshake failed"),
        },
    };
    tracing::debug!(?served, "a connection ended");
}

async fn http(stream: impl AsyncRead + AsyncWrite + Unpin, console: &Console<'_>) -> hyper::Result<()> {
    // Boxed, so that an idle connection does not reserve memory for a request.
    let service = service_fn(|request: Request<Incoming>| {
        Box::pin(async { Ok::<_, Infallible>(console.answer(request).await) })
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    http.max_header_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    http.serve_connection(TokioIo::new(stream), service).await
}
