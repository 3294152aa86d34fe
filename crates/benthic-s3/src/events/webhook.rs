//! Delivers messages to web servers: `POST` with a JSON document.
//!
//! Each delivery takes at most ten seconds. Redirects are not followed: the operator chose the
//! address.

use super::connection;
use benthic_core::build;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

/// Limit on the time of one delivery.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit on the body of an answer. It is read and ignored, so that the connection can be used
/// again.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The gateway is too busy, or the pass too late. The next pass tries again.
    Later,
    /// The target may take the message later.
    Unavailable(String),
    /// The target does not take the message.
    Refused(String),
}

/// A web server that takes messages.
pub struct Webhook {
    url: Url,
    /// For the header Authorization.
    token: Option<HeaderValue>,
    tls: Option<TlsConnector>,
}

/// A web server, and the connection to it.
pub struct Sender {
    webhook: Webhook,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// Checks the URL of a web server.
///
/// # Errors
/// A message that says what is invalid.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err("the URL must begin with http:// or https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("the URL must not contain a user, a password or a fragment".to_owned());
    }
    Ok(url)
}

/// The certificates that a PEM text contains, as the authorities to trust.
///
/// # Errors
/// A message that says what is invalid.
pub(crate) fn authorities(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("this is not a PEM file: {error}"))?;
        roots.add(certificate).map_err(|error| format!("a certificate is not valid: {error}"))?;
    }
    if roots.is_empty() { Err("the PEM file has no certificate".to_owned()) } else { Ok(roots) }
}

/// The authorities that this machine trusts.
pub(crate) fn system_authorities() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    Arc::clone(ROOTS.get_or_init(load))
}

/// TLS that trusts the authorities of a PEM text, or those of this machine.
///
/// # Errors
/// A message that says what is invalid.
pub(crate) fn client_config(ca: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let roots = ca.map(authorities).transpose()?.map_or_else(system_authorities, Arc::new);
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

impl Webhook {
    /// A web server with this URL. `token` authenticates the gateway (bearer token); `ca` is a PEM
    /// text with the authorities to trust, instead of those of this machine.
    ///
    /// # Errors
    /// A message that names the invalid parameter.
    pub fn new(url: &str, token: Option<&str>, ca: Option<&str>) -> Result<Webhook, String> {
        let url = parse_url(url)?;
        let token = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| "the token has characters that a header cannot have".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        let is_https = url.scheme() == "https";
        let config = (is_https || ca.is_some()).then(|| client_config(ca)).transpose()?;
        let tls = config.filter(|_| is_https).map(TlsConnector::from);
        Ok(Webhook { url, token: token.transpose()?, tls })
    }

    pub fn sender(self) -> Sender {
        Sender { webhook: self, connection: None }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or(443);
        let stream = connection::connect(host, port, self.tls.as_ref()).await?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends when the sender is dropped.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, message: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let target = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        let host = &self.url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(target)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, format!("benthic/{}", build()));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        request.body(Full::new(message)).map_err(|error| error.to_string())
    }
}

impl Sender {
    /// Sends a message, and waits for the answer.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn send(&mut self, message: Bytes) -> Result<(), Failure> {
        let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.try_send(message)).await;
        let status = match sent {
            Ok(Ok(status)) => status,
            Ok(Err(message)) => {
                self.connection = None;
                return Err(Failure::Unavailable(message));
            }
            Err(_) => {
                self.connection = None;
                return Err(Failure::Unavailable("no answer within 10 seconds".to_owned()));
            }
        };
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Err(Failure::Unavailable(format!("the answer is {status}")))
            }
            status if status.is_client_error() => Err(Failure::Refused(format!("the answer is {status}"))),
            status => Err(Failure::Unavailable(format!("the answer is {status}"))),
        }
    }

    async fn try_send(&mut self, message: Bytes) -> Result<StatusCode, String> {
        if let Some(connection) = self.connection.take()
            && let Ok(status) = self.send_on(connection, message.clone()).await
        {
            return Ok(status);
        }
        // There is no connection, or the server has closed it since the last message.
        let connection = self.webhook.connect().await?;
        self.send_on(connection, message).await
    }

    async fn send_on(
        &mut self,
        mut connection: SendRequest<Full<Bytes>>,
        message: Bytes,
    ) -> Result<StatusCode, String> {
        let text = |error: hyper::Error| error.to_string();
        connection.ready().await.map_err(text)?;
        let answer = connection.send_request(self.webhook.request(message)?).await.map_err(text)?;
        let status = answer.status();
        // The answer is known. A slow body only costs the connection.
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect();
        if tokio::time::timeout(BODY_TIMEOUT, body).await.is_ok_and(|body| body.is_ok()) {
            self.connection = Some(connection);
        }
        Ok(status)
    }
}
