//! Connections to targets of events, with or without TLS.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Both directions of a connection.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Connects to a host. An IPv6 address can be in brackets. With TLS, the certificate must name the
/// host.
///
/// # Errors
/// A message that says what failed.
pub(super) async fn connect(
    host: &str,
    port: u16,
    tls: Option<&TlsConnector>,
) -> Result<Box<dyn Io>, String> {
    let text = |error: &dyn std::fmt::Display| format!("cannot connect to {host}:{port}: {error}");
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.map_err(|error| text(&error))?;
    // A failure costs time, not correctness.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(|error| text(&error))?;
    Ok(Box::new(tls.connect(name, stream).await.map_err(|error| text(&error))?))
}
