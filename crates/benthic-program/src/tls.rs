//! The server's side of TLS, from PEM files.

use benthic_core::{Action, Error, Result};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Reads the certificates and the private key of a server. With `client_authorities`, every client
/// must have a certificate that one of these authorities has signed. `protocols` are the server's
/// names of ALPN.
///
/// # Errors
/// `NotFound`, `InvalidArgument`.
pub fn acceptor(
    certificates: &Path,
    key: &Path,
    client_authorities: Option<&Path>,
    protocols: &[&str],
) -> Result<TlsAcceptor> {
    let config = ServerConfig::builder();
    let config = match client_authorities {
        None => config.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(|error| invalid(error, path))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            config.with_client_cert_verifier(verifier.map_err(|error| invalid(error, path))?)
        }
    };
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| invalid(error, key))?;
    let config = config.with_single_cert(read_certificates(certificates)?, secret);
    let mut config = config.map_err(|error| invalid(error, certificates))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| invalid(error, path))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::io(Action::Admin, "cannot read a TLS file", error).with("path", path.display())
    })
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static, path: &Path) -> Error {
    Error::invalid_argument("invalid PEM file, or certificate and key do not match")
        .with("path", path.display())
        .with_source(error)
}
