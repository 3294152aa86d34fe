//! An HTTP client for one S3 service: a pool of connections, signatures, and limits on everything
//! that the service sends.
//!
//! All requests run as tasks of the runtime that created the client. So a caller that ends early
//! leaves no half-used connection in the pool, and callers need no runtime of their own. Rejected:
//! an S3 library. `aws-sdk-s3` is larger than this gateway, and `object_store` has no versions,
//! uploads by part or tags.

use super::credentials::Credentials;
use super::sign::{self, ToSign, encode};
use super::xml::Element;
use super::{UpstreamMetrics, objects_error};
use benthic_core::{Environment, Error, ErrorKind, Result, build};
use benthic_program::units;
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::net::sockopt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

/// Maximum size of a document from the upstream, in bytes.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 8 << 20;
/// Maximum size of the head of an answer, in bytes. Half of it is for metadata.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The slowest rate at which a body may go, in bytes per second.
const BYTES_PER_SECOND_MIN: u64 = 64 * 1024;
/// How long a connection may be unused. Servers close theirs after a time, often one minute.
const IDLE_MS_MAX: u64 = 20_000;
/// Size of the pieces in which a file is sent.
const FILE_PIECE_BYTES: usize = 256 * 1024;
/// A body that makes no progress for this many times the limit on an answer is given up. Buffers of
/// the system fill and empty in steps, of some MiB at most.
const STALL_FACTOR: u32 = 4;
const BUFFERED_BYTES_MAX: u64 = 8 << 20;
/// Seconds after which the system asks whether the other side of a silent connection is there,
/// between two questions, and the number of questions.
const KEEPALIVE: (u64, u64, u32) = (15, 5, 3);
/// How long a request waits to learn whether an unreachable upstream can be reached again.
const PROBE_WAIT: Duration = Duration::from_millis(500);
/// How long the upstream may work on a request that copies data, in addition to the time of other
/// requests.
pub(super) const COPY_TIME: Duration = Duration::from_secs(15 * 60);

type SentBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The body of a request, which can be sent again.
#[derive(Clone)]
pub(super) enum Payload {
    Memory(Bytes),
    File(Arc<File>, u64),
}

impl Payload {
    fn len_bytes(&self) -> u64 {
        match self {
            Payload::Memory(data) => data.len() as u64,
            Payload::File(_, len_bytes) => *len_bytes,
        }
    }

    /// The body of a request, which notes how many bytes have been given to the connection.
    fn body(&self, given: watch::Sender<u64>) -> SentBody {
        match self {
            Payload::Memory(data) => {
                given.send_replace(data.len() as u64);
                Full::new(data.clone()).map_err(|never| match never {}).boxed_unsync()
            }
            Payload::File(file, len_bytes) => {
                let (file, len_bytes, given) = (Arc::clone(file), *len_bytes, Arc::new(given));
                let pieces =
                    futures::stream::iter((0..len_bytes).step_by(FILE_PIECE_BYTES)).then(move |at| {
                        let (file, given) = (Arc::clone(&file), Arc::clone(&given));
                        async move {
                            let len = (len_bytes - at).min(FILE_PIECE_BYTES as u64) as usize;
                            given.send_replace(at + len as u64);
                            let read = tokio::task::spawn_blocking(move || {
                                let mut data = vec![0; len];
                                file.read_exact_at(&mut data, at)?;
                                Ok(Frame::data(Bytes::from(data)))
                            });
                            read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
                        }
                    });
                StreamBody::new(pieces).boxed_unsync()
            }
        }
    }
}

/// A request to the upstream.
#[derive(Clone)]
pub(super) struct Call {
    pub method: Method,
    /// Empty for the service.
    pub bucket: String,
    /// Empty for the bucket.
    pub key: String,
    pub query: Vec<(&'static str, String)>,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub payload: Payload,
    /// The SHA-256 of the payload, if it is known.
    pub sha256: Option<String>,
    /// Maximum size of the answer's body, in bytes.
    pub answer_bytes_max: u64,
    /// How long the upstream may work on the request, in addition to the time of other requests.
    pub work_time: Duration,
}

impl Call {
    pub fn new(method: Method, bucket: &str, key: &str) -> Call {
        Call {
            method,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            payload: Payload::Memory(Bytes::new()),
            sha256: None,
            answer_bytes_max: DOCUMENT_BYTES_MAX,
            work_time: Duration::ZERO,
        }
    }

    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Call {
        self.query.push((name, value.into()));
        self
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Call {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn document(mut self, text: String) -> Call {
        self.payload = Payload::Memory(text.into());
        self
    }

    /// Adds the MD5 of the document, which S3 wants for settings.
    pub fn with_md5(self) -> Call {
        let Payload::Memory(document) = &self.payload else { return self };
        let md5 = base64_simd::STANDARD.encode_to_string(fast_md5::digest(document));
        self.header("content-md5", md5)
    }

    /// Whether the request changes nothing, so that it can be repeated.
    fn only_reads(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }

    /// Whether the request reads an object. Every service answers such a request soon, however
    /// large its buckets are.
    fn reads_object(&self) -> bool {
        self.only_reads() && !self.key.is_empty()
    }
}

/// An answer of the upstream.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The address of an upstream, and the limits on requests to it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub url: Url,
    pub region: String,
    pub credentials: Credentials,
    /// Authorities to trust instead of those of this machine, as PEM text.
    pub ca: Option<String>,
    /// Limit on concurrent requests; further ones wait.
    pub requests_max: usize,
    pub connect_timeout: Duration,
    /// How long the upstream may take to answer, in addition to the time for the bodies.
    pub answer_timeout: Duration,
    /// How long requests fail at once after the upstream could not be reached.
    pub retry_after: Duration,
}

impl Endpoint {
    /// An upstream at this URL, with the usual limits.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn new(url: &str, region: String, credentials: Credentials) -> Result<Endpoint> {
        let url = crate::events::webhook::parse_url(url)
            .map_err(|message| Error::invalid_argument(message).with("upstream", url))?;
        if url.path() != "/" || url.query().is_some() {
            let message = "the URL of the upstream must have no path and no query";
            return Err(Error::invalid_argument(message).with("url", url));
        }
        Ok(Endpoint {
            url,
            region,
            credentials,
            ca: None,
            requests_max: 64,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(15),
            retry_after: Duration::from_secs(1),
        })
    }
}

struct Idle {
    sender: SendRequest<SentBody>,
    since_ms: u64,
}

/// The client. Clones share its connections.
#[derive(Clone)]
pub(super) struct Client(Arc<Shared>);

struct Shared {
    endpoint: Endpoint,
    tls: Option<TlsConnector>,
    idle: Mutex<Vec<Idle>>,
    slots: Arc<Semaphore>,
    runtime: Handle,
    environment: Environment,
    metrics: Arc<UpstreamMetrics>,
    is_down: AtomicBool,
    failed_ms: AtomicU64,
    /// Finds out whether an unreachable upstream can be reached again: the last read that failed,
    /// because an upstream may answer others all the same.
    probe: Mutex<Option<Call>>,
    is_probing: AtomicBool,
}

/// Why a request has no answer.
enum NoAnswer {
    /// The upstream has not seen it.
    NotSent(String),
    /// The upstream may have seen it.
    Lost(String),
    /// The upstream has not answered in time.
    Late(String),
    /// The answer is not valid.
    Invalid(String),
}

impl Client {
    /// # Errors
    /// `InvalidArgument` for an invalid authority.
    pub fn new(
        endpoint: Endpoint,
        metrics: Arc<UpstreamMetrics>,
        environment: Environment,
    ) -> Result<Client> {
        let tls = (endpoint.url.scheme() == "https").then(|| {
            let roots = match &endpoint.ca {
                Some(pem) => crate::events::webhook::authorities(pem).map(Arc::new),
                None => Ok(crate::events::webhook::system_authorities()),
            };
            roots.map(|roots: Arc<RootCertStore>| {
                let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
                TlsConnector::from(Arc::new(config))
            })
        });
        let tls = tls.transpose().map_err(Error::invalid_argument)?;
        Ok(Client(Arc::new(Shared {
            slots: Arc::new(Semaphore::new(endpoint.requests_max)),
            endpoint,
            tls,
            idle: Mutex::default(),
            runtime: Handle::current(),
            environment,
            metrics,
            is_down: AtomicBool::new(false),
            failed_ms: AtomicU64::new(0),
            probe: Mutex::default(),
            is_probing: AtomicBool::new(false),
        })))
    }

    /// The runtime on which requests run.
    pub fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    /// How long requests fail at once after the upstream could not be reached.
    pub fn retry_after(&self) -> Duration {
        self.0.endpoint.retry_after
    }

    /// Checks that a request can be sent.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, call: &Call) -> Result<()> {
        self.0.head(call).map(drop)
    }

    /// Whether the last attempt to reach the upstream failed.
    pub fn is_down(&self) -> bool {
        self.0.is_down.load(Relaxed)
    }

    /// Sends a request, and returns the whole answer, with any status.
    ///
    /// # Errors
    /// `InvalidArgument` if the request cannot be sent; `Unavailable` if the upstream cannot be
    /// reached or sends no valid answer; `OutcomeUnknown` if it may have executed a change.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        let shared = Arc::clone(&self.0);
        let only_reads = call.only_reads();
        let task = self.0.runtime.spawn(async move { shared.run(call).await });
        match task.await {
            Ok(answer) => answer,
            Err(error) => {
                let kind = if only_reads { ErrorKind::Unavailable } else { ErrorKind::OutcomeUnknown };
                Err(Error::new(kind, "a request to the upstream ended early").with_source(error))
            }
        }
    }

    /// Like [`Client::send`], but an error status is an error.
    ///
    /// # Errors
    /// Those of [`Client::send`]; the error that the upstream reports.
    pub async fn call(&self, call: Call) -> Result<Answer> {
        let answer = self.send(call).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(error_of(&answer)) }
    }
}

impl Shared {
    async fn run(self: &Arc<Self>, call: Call) -> Result<Answer> {
        if self.is_down.load(Relaxed) && !self.is_back().await {
            // A request that cannot be sent has its own error.
            self.head(&call)?;
            self.metrics.requests.fetch_add(1, Relaxed);
            return Err(unreachable("it did not answer a moment ago"));
        }
        self.run_now(&call).await
    }

    async fn run_now(&self, call: &Call) -> Result<Answer> {
        let head = self.head(call)?;
        self.metrics.requests.fetch_add(1, Relaxed);
        // A slot is a connection, and the memory for one answer.
        let Ok(_slot) = self.slots.acquire().await else { return Err(unreachable("the gateway stops")) };
        match self.attempts(call, &head).await {
            Ok(answer) => {
                if self.is_down.swap(false, Relaxed) {
                    tracing::info!("the upstream can be reached again");
                }
                self.metrics.is_up.store(1, Relaxed);
                Ok(answer)
            }
            Err(NoAnswer::Invalid(message)) => {
                self.metrics.failures.fetch_add(1, Relaxed);
                Err(objects_error(ErrorKind::Unavailable, "the upstream's answer is not valid")
                    .with("cause", message))
            }
            Err(NoAnswer::NotSent(message)) => Err(self.failed(call, message)),
            Err(NoAnswer::Late(message)) if !call.reads_object() => {
                self.metrics.failures.fetch_add(1, Relaxed);
                let kind = if call.only_reads() { ErrorKind::Unavailable } else { ErrorKind::OutcomeUnknown };
                Err(objects_error(kind, "the upstream has not answered in time").with("cause", message))
            }
            Err(NoAnswer::Lost(message) | NoAnswer::Late(message)) => {
                let error = self.failed(call, message);
                let kind = if call.only_reads() { ErrorKind::Unavailable } else { ErrorKind::OutcomeUnknown };
                Err(error.with_kind(kind))
            }
        }
    }

    /// Whether an upstream that could not be reached can be reached again. A request of its own
    /// finds that out, one at a time. The caller waits for it only for a moment: an upstream
    /// that hangs would take all the time of an answer.
    async fn is_back(self: &Arc<Self>) -> bool {
        let (now_ms, failed_ms) = (self.environment.clock.monotonic_ms(), self.failed_ms.load(Relaxed));
        let is_due = u128::from(now_ms.saturating_sub(failed_ms)) >= self.endpoint.retry_after.as_millis();
        if !is_due || self.is_probing.swap(true, Relaxed) {
            return false;
        }
        self.failed_ms.store(now_ms, Relaxed);
        let call = self.probe.lock().clone().unwrap_or_else(|| Call::new(Method::HEAD, "", ""));
        let shared = Arc::clone(self);
        let probe = tokio::spawn(async move {
            let _ = shared.run_now(&call).await;
            shared.is_probing.store(false, Relaxed);
        });
        let _ = tokio::time::timeout(PROBE_WAIT, probe).await;
        !self.is_down.load(Relaxed)
    }

    fn failed(&self, call: &Call, message: String) -> Error {
        *self.probe.lock() = call.only_reads().then(|| call.clone());
        self.metrics.failures.fetch_add(1, Relaxed);
        self.metrics.is_up.store(0, Relaxed);
        self.failed_ms.store(self.environment.clock.monotonic_ms(), Relaxed);
        if !self.is_down.swap(true, Relaxed) {
            tracing::warn!(
                cause = message,
                "the upstream cannot be reached; the gateway serves reads from the cache, and accepts writes only with --write-back"
            );
        }
        unreachable(&message)
    }

    /// Sends a request. A connection from the pool may be closed already; then a new one is used.
    async fn attempts(&self, call: &Call, head: &Parts) -> std::result::Result<Answer, NoAnswer> {
        while let Some(sender) = self.idle_connection() {
            match self.send_on(sender, call, head).await {
                Err(NoAnswer::NotSent(_)) => {}
                Err(NoAnswer::Lost(_)) if call.only_reads() => {}
                // A new connection tells whether the upstream can be reached.
                Err(NoAnswer::Late(_)) if call.only_reads() => break,
                result => return result,
            }
        }
        let connected = tokio::time::timeout(self.endpoint.connect_timeout, self.connect()).await;
        let sender = connected
            .unwrap_or_else(|_| Err("the connection took too long".to_owned()))
            .map_err(NoAnswer::NotSent)?;
        self.send_on(sender, call, head).await
    }

    fn idle_connection(&self) -> Option<SendRequest<SentBody>> {
        let now_ms = self.environment.clock.monotonic_ms();
        let mut idle = self.idle.lock();
        idle.retain(|idle| !idle.sender.is_closed() && now_ms.saturating_sub(idle.since_ms) < IDLE_MS_MAX);
        Some(idle.pop()?.sender)
    }

    async fn connect(&self) -> std::result::Result<SendRequest<SentBody>, String> {
        let text = |error: &dyn std::fmt::Display| format!("cannot connect: {error}");
        let url = &self.endpoint.url;
        // An IPv6 address is in brackets.
        let host = url.host_str().unwrap_or_default();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let stream = TcpStream::connect((name.as_str(), port)).await.map_err(|error| text(&error))?;
        let _ = stream.set_nodelay(true);
        let (idle, interval, count) = KEEPALIVE;
        let set = || {
            sockopt::set_tcp_keepidle(&stream, Duration::from_secs(idle))?;
            sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(interval))?;
            sockopt::set_tcp_keepcnt(&stream, count)?;
            sockopt::set_socket_keepalive(&stream, true)
        };
        set().map_err(|error| text(&error))?;
        match &self.tls {
            None => open(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(name).map_err(|error| text(&error))?;
                let stream = tls.connect(name, stream).await.map_err(|error| text(&error))?;
                open(TokioIo::new(stream)).await
            }
        }
    }

    async fn send_on(
        &self,
        mut sender: SendRequest<SentBody>,
        call: &Call,
        head: &Parts,
    ) -> std::result::Result<Answer, NoAnswer> {
        let (given, progress) = watch::channel(0);
        let request = Request::from_parts(head.clone(), call.payload.body(given));
        sender.ready().await.map_err(|error| NoAnswer::NotSent(error.to_string()))?;
        let len_bytes = call.payload.len_bytes();
        let sent = self.while_progressing(call, progress.clone(), sender.try_send_request(request));
        let sent = self.within(call, len_bytes, sent).await.flatten();
        let answer = match sent.map_err(NoAnswer::Late)? {
            Ok(answer) => answer,
            Err(mut failure) => {
                let message = failure.error().to_string();
                let is_invalid = failure.error().is_parse() || failure.error().is_parse_too_large();
                return Err(match failure.take_message() {
                    Some(_) => NoAnswer::NotSent(message),
                    // No server executes a request whose body has not ended. It may have answered
                    // early.
                    None if *progress.borrow() < len_bytes => NoAnswer::Invalid(message),
                    None if is_invalid && call.only_reads() => NoAnswer::Invalid(message),
                    None => NoAnswer::Lost(message),
                });
            }
        };
        let (head, body) = answer.into_parts();
        let max = usize::try_from(call.answer_bytes_max.max(64 * 1024)).unwrap_or(usize::MAX);
        let body = self.within(call, call.answer_bytes_max, Limited::new(body, max).collect()).await;
        let body = match body {
            Ok(Ok(body)) => body.to_bytes(),
            Err(message) if call.only_reads() => return Err(NoAnswer::Invalid(message)),
            Err(message) => return Err(NoAnswer::Late(message)),
            Ok(Err(error)) => {
                let message = format!("the body of the answer: {error}");
                let is_read = call.only_reads();
                return Err(if is_read { NoAnswer::Invalid(message) } else { NoAnswer::Lost(message) });
            }
        };
        self.metrics.received_bytes.fetch_add(body.len() as u64, Relaxed);
        if sender.is_ready() {
            let since_ms = self.environment.clock.monotonic_ms();
            self.idle.lock().push(Idle { sender, since_ms });
        }
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Waits for an answer, until the body makes no progress. Otherwise a connection that died
    /// would be noticed only when the time for the whole body is over, which is hours for 5 GiB.
    async fn while_progressing<T>(
        &self,
        call: &Call,
        mut progress: watch::Receiver<u64>,
        work: impl Future<Output = T>,
    ) -> std::result::Result<T, String> {
        let len_bytes = call.payload.len_bytes();
        let mut work = std::pin::pin!(work);
        loop {
            let limit = if *progress.borrow_and_update() < len_bytes {
                self.endpoint.answer_timeout * STALL_FACTOR
            } else {
                // The rest of it may still be in buffers.
                let rest = len_bytes.min(BUFFERED_BYTES_MAX).div_ceil(BYTES_PER_SECOND_MIN);
                self.endpoint.answer_timeout + call.work_time + Duration::from_secs(rest)
            };
            tokio::select! {
                done = &mut work => return Ok(done),
                // Without an end, because the body is dropped when it has been sent.
                Ok(()) = progress.changed() => {}
                () = tokio::time::sleep(limit) => {
                    return Err(format!("no progress within {} seconds", limit.as_secs()));
                }
            }
        }
    }

    /// Waits as long as a service may take that transfers this many bytes.
    async fn within<T>(
        &self,
        call: &Call,
        bytes: u64,
        work: impl Future<Output = T>,
    ) -> std::result::Result<T, String> {
        let transfer = Duration::from_secs(bytes.div_ceil(BYTES_PER_SECOND_MIN));
        let limit = self.endpoint.answer_timeout + call.work_time + transfer;
        let done = tokio::time::timeout(limit, work).await;
        done.map_err(|_| format!("no answer within {} seconds", limit.as_secs()))
    }

    /// Builds the signed head of a request.
    ///
    /// # Errors
    /// `InvalidArgument` if HTTP cannot express the request: a header has a line break, or the
    /// address is too long.
    fn head(&self, call: &Call) -> Result<Parts> {
        let invalid = |cause: &dyn std::fmt::Display| {
            let message = "the request cannot be sent to the upstream; use shorter names, and values without \
                           control characters";
            objects_error(ErrorKind::InvalidArgument, message).with("cause", cause)
        };
        let url = &self.endpoint.url;
        let path = match (call.bucket.as_str(), call.key.as_str()) {
            ("", _) => "/".to_owned(),
            (bucket, "") => format!("/{}", encode(bucket, false)),
            (bucket, key) => format!("/{}/{}", encode(bucket, false), encode(key, true)),
        };
        let mut query: Vec<String> = call
            .query
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name, false), encode(value, false)))
            .collect();
        query.sort();
        let query = query.join("&");
        let time = units::utc(self.environment.clock.unix_ns()).replace(['-', ':'], "");
        let sha256 = match (&call.sha256, &call.payload) {
            (Some(sha256), _) => sha256.clone(),
            (None, Payload::Memory(data)) => {
                crate::seal::hex(ring::digest::digest(&ring::digest::SHA256, data).as_ref())
            }
            (None, Payload::File(..)) => return Err(invalid(&"the payload has no hash")),
        };
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut headers = call.headers.clone();
        headers.extend([
            (HOST.to_string(), host.to_owned()),
            ("x-amz-content-sha256".to_owned(), sha256.clone()),
            ("x-amz-date".to_owned(), time.clone()),
        ]);
        if let Some(token) = &self.endpoint.credentials.session_token {
            headers.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        headers.sort();
        let authorization = sign::authorization(
            &ToSign {
                method: call.method.as_str(),
                path: &path,
                query: &query,
                headers: &headers,
                payload_sha256: &sha256,
                time: &time,
                region: &self.endpoint.region,
            },
            &self.endpoint.credentials,
        );
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut request = Request::builder().method(call.method.clone()).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request = request
            .header("authorization", authorization)
            .header(USER_AGENT, format!("benthic/{}", build()))
            .header(CONTENT_LENGTH, call.payload.len_bytes());
        let request = request.body(()).map_err(|error| invalid(&error))?;
        Ok(request.into_parts().0)
    }
}

async fn open<I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
    io: I,
) -> std::result::Result<SendRequest<SentBody>, String> {
    let opened = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(io).await;
    let (sender, connection) = opened.map_err(|error| error.to_string())?;
    // Ends when the sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}

fn unreachable(cause: &str) -> Error {
    objects_error(ErrorKind::Unavailable, "the upstream cannot be reached; try again later")
        .with("cause", cause)
}

/// The error that the upstream reports.
pub(super) fn error_of(answer: &Answer) -> Error {
    let document = Element::parse(&answer.body).ok();
    let text = |name: &str| document.as_ref().map_or("", |error| error.text_of(name)).chars().take(256);
    let code: String = text("Code").collect();
    let kind = match (answer.status.as_u16(), code.as_str()) {
        (_, "BucketAlreadyOwnedByYou" | "BucketAlreadyExists") => ErrorKind::AlreadyExists,
        (_, "OperationAborted" | "ConditionalRequestConflict" | "SlowDown") | (429, _) => ErrorKind::Busy,
        (_, "EntityTooLarge" | "MetadataTooLarge" | "KeyTooLongError" | "KeyTooLong") => {
            ErrorKind::LimitExceeded
        }
        (404, _) => ErrorKind::NotFound,
        (409 | 412, _) => ErrorKind::Conflict,
        (401 | 403, _) => ErrorKind::PermissionDenied,
        (501, _) => ErrorKind::Unsupported,
        (400..=499, _) => ErrorKind::InvalidArgument,
        _ => ErrorKind::Unavailable,
    };
    if kind == ErrorKind::PermissionDenied {
        tracing::warn!(
            status = answer.status.as_u16(),
            code,
            "the upstream refuses a request of the gateway's key"
        );
    }
    objects_error(kind, "the upstream refuses the request")
        .with("status", answer.status.as_u16())
        .with("code", code)
        .with("message", text("Message").collect::<String>())
}
