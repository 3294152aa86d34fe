//! Requests to servers that the gateway needs: identity providers and Vault.
//!
//! Each request has a connection of its own, because there are few: keys of providers are cached,
//! and Vault's keys, too. A request has a limit on its time and on the size of its answer.
//! Redirects are not followed. Rejected: an HTTP library such as `reqwest`, which follows
//! redirects, reads proxies from the environment and brings its own pool of connections.

use crate::events::webhook::system_authorities;
use crate::seal::hex;
use benthic_core::build;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring::default_provider};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use url::{Host, Url};

/// Maximum size of the head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;

/// Sends requests to servers with certificates of these authorities.
#[derive(Clone)]
pub(crate) struct HttpClient {
    tls: TlsConnector,
    /// Whether only addresses of the public internet are permitted.
    only_public: bool,
    /// Limit on the time of a request.
    timeout: Duration,
    /// Limit on the body of an answer.
    answer_bytes_max: usize,
}

impl HttpClient {
    /// A client for servers with certificates of the given authorities, or else of those that this
    /// machine trusts.
    pub fn new(roots: Option<RootCertStore>, timeout: Duration, answer_bytes_max: usize) -> HttpClient {
        let roots = roots.map_or_else(system_authorities, Arc::new);
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        HttpClient {
            tls: TlsConnector::from(Arc::new(config)),
            only_public: false,
            timeout,
            answer_bytes_max,
        }
    }

    /// Also trusts a certificate that the server sends if its SHA-1 is one of these.
    pub fn with_thumbprints(self, thumbprints: &BTreeSet<String>) -> HttpClient {
        if thumbprints.is_empty() {
            return self;
        }
        let verifier = Pinned { provider: Arc::new(default_provider()), thumbprints: thumbprints.clone() };
        let config = ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        HttpClient { tls: TlsConnector::from(Arc::new(config)), ..self }
    }

    pub fn with_only_public(self, only_public: bool) -> HttpClient {
        HttpClient { only_public, ..self }
    }

    /// Sends a request, and returns the status and the body of the answer.
    ///
    /// # Errors
    /// A message that says why there is no answer.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let sent = tokio::time::timeout(self.timeout, self.try_send(method, url, headers, body)).await;
        sent.unwrap_or_else(|_| Err(format!("no answer within {} seconds", self.timeout.as_secs())))
    }

    async fn try_send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let stream = self.connect(url).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(&url[url::Position::BeforePath..url::Position::AfterQuery])
            .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
            .header(USER_AGENT, format!("benthic/{}", build()));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        if url.scheme() == "http" {
            return self.exchange(stream, request).await;
        }
        let name = ServerName::try_from(host_name(url)).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(name, stream).await;
        self.exchange(stream.map_err(|error| format!("cannot connect: {error}"))?, request).await
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, String> {
        let text = |error: &dyn std::fmt::Display| format!("cannot connect: {error}");
        let port = url.port_or_known_default().unwrap_or(443);
        let addresses = lookup_host((host_name(url), port)).await.map_err(|error| text(&error))?;
        let mut failure = "the host has no address".to_owned();
        for address in addresses.take(ADDRESSES_MAX) {
            if self.only_public && !is_public(address.ip()) {
                failure = "the host is not on the public internet".to_owned();
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => failure = text(&error),
            }
        }
        Err(failure)
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), String> {
        let opened = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = opened.map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), self.answer_bytes_max).collect().await;
            Ok((status, body.map_err(|error| format!("cannot read the answer: {error}"))?.to_bytes()))
        };
        // The connection ends with this request, also if it fails.
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            ended = connection => match ended {
                Err(error) => Err(error.to_string()),
                Ok(()) => exchange.await,
            },
        }
    }
}

/// The host of a URL. An IPv6 address is without its brackets.
fn host_name(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// Checks the URL of a server: `https`, or `http` on this machine if that is permitted.
///
/// # Errors
/// A message that says what is invalid.
pub(crate) fn check_url(text: &str, permits_loopback_http: bool) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err("the URL has no host".to_owned()),
    };
    match url.scheme() {
        "https" => {}
        "http" if is_loopback && permits_loopback_http => {}
        _ => return Err("the URL must begin with https://".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("the URL must not contain a user, a password or a fragment".to_owned());
    }
    Ok(url)
}

/// Whether an address is one of the public internet. Source: the registries of special-purpose
/// addresses (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Of the global range 2000::/3, addresses that contain one of version 4 (6to4, Teredo), and
    // those for documentation, are not public. Neither are translated addresses (NAT64), which are
    // outside that range.
    let is_special =
        matches!((segments[0], segments[1]), (0x2001, 0..=0x01ff | 0x0db8) | (0x2002 | 0x3fff, _));
    segments[0] & 0xe000 == 0x2000 && !is_special
}

/// Trusts certificates that the authorities of this machine have signed. Otherwise, trusts a
/// certificate among those of the server whose SHA-1 is known, as the authority of the server's
/// certificate or as that itself. That is how AWS uses thumbprints.
#[derive(Debug)]
struct Pinned {
    provider: Arc<CryptoProvider>,
    thumbprints: BTreeSet<String>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let mut pinned = RootCertStore::empty();
        for certificate in std::iter::once(end_entity).chain(intermediates) {
            let sha1 = digest(&SHA1_FOR_LEGACY_USE_ONLY, certificate);
            if self.thumbprints.contains(&hex(sha1.as_ref())) {
                pinned.add(certificate.clone().into_owned())?;
            }
        }
        let mut failure = TlsError::InvalidCertificate(CertificateError::UnknownIssuer);
        let system = system_authorities();
        for roots in [system, Arc::new(pinned)].into_iter().filter(|roots| !roots.is_empty()) {
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&self.provider))
                .build()
                .map_err(|error| TlsError::General(error.to_string()))?;
            match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "http_client_tests.rs"]
mod tests;
