//! The common parts of programs that listen: the address, and TLS.

use crate::exit::{Failure, Outcome};
use crate::tls;
use benthic_core::{Action, Error, Result};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The TLS options of a server.
#[derive(Args)]
pub struct TlsArgs {
    /// PEM file with the certificates for TLS, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Whether clients must use TLS.
    pub fn is_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Reads the files, if they are given. `protocols` are the server's names of ALPN.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`.
    pub fn acceptor(&self, protocols: &[&str]) -> Result<Option<TlsAcceptor>> {
        let files = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        files.map(|(certificates, key)| tls::acceptor(certificates, key, None, protocols)).transpose()
    }

    /// Refuses an address that other machines reach, unless clients must use TLS.
    pub fn check_address(&self, address: SocketAddr) -> Outcome {
        if address.ip().is_loopback() || self.is_given() {
            return Ok(());
        }
        let message = format!("{address} is not a loopback address; it needs --tls-cert and --tls-key");
        Err(Failure::Usage(message))
    }
}

/// Listens on an address and returns the actual one. Port 0 selects a free port.
///
/// # Errors
/// `Unavailable` if the address is taken, `PermissionDenied`.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error| {
        Error::io(Action::Admin, "cannot listen on this address; choose another one", error)
            .with("address", address)
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
