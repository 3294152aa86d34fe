//! A small HTTP server for commands that show a state. It serves one request per connection,
//! accepts only GET and HEAD, and limits connections, time and header size.

use benthic_core::{Clock, SystemClock};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Limit on concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 32;
/// Time limit of a connection, which serves one request.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Delay beyond the interval after which polling counts as stuck.
const LATE_MS: u64 = 60_000;

pub type Answer = Response<Full<Bytes>>;

/// Builds a response. `kind` is the media type of the body.
pub fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Content security policy: the browser loads and contacts only this server, and a script cannot
/// turn text into HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    ("content-security-policy", POLICY),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// Adds the headers that protect a page in a browser.
pub fn with_security_headers<T>(mut answer: Response<T>) -> Response<T> {
    let headers =
        HEADERS.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    answer.headers_mut().extend(headers);
    answer
}

pub fn line(status: StatusCode, text: &'static str) -> Answer {
    answer(status, "text/plain; charset=utf-8", text)
}

/// The age of the last poll of the cluster.
pub struct Freshness {
    clock: SystemClock,
    at_ms: Mutex<u64>,
    interval_ms: u64,
}

impl Freshness {
    /// Starts now, and expects a poll every `interval_s` seconds.
    pub fn new(interval_s: u64) -> Freshness {
        let clock = SystemClock;
        let at_ms = Mutex::new(clock.monotonic_ms());
        Freshness { clock, at_ms, interval_ms: interval_s * 1_000 }
    }

    /// Records a successful poll.
    pub fn renew(&self) {
        *self.at_ms.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.monotonic_ms();
    }

    /// The response to `/-/health`.
    pub fn answer(&self) -> Answer {
        let at_ms = *self.at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if self.clock.monotonic_ms().saturating_sub(at_ms) > self.interval_ms + LATE_MS {
            return line(
                StatusCode::SERVICE_UNAVAILABLE,
                "the last successful poll of the cluster is too old\n",
            );
        }
        line(StatusCode::OK, "ok\n")
    }
}

/// Answers GET and HEAD requests, and refuses others.
pub fn answer_reads<T>(request: &Request<T>, answer: impl FnOnce() -> Answer) -> Answer {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return answer();
    }
    let mut refusal = line(StatusCode::METHOD_NOT_ALLOWED, "this server answers only GET and HEAD\n");
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refusal
}

/// Serves requests of all methods until the task is dropped.
pub async fn serve(
    listener: TcpListener,
    answer: impl Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely the process has no free file descriptor. Wait until other connections
            // end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let ended = tokio::time::timeout(CONNECTION_LIMIT, serve_one(stream, &*answer)).await;
            tracing::debug!(?ended, "a connection ended");
            drop(slot);
        });
    }
}

async fn serve_one(stream: TcpStream, answer: &impl Fn(&Request<Incoming>) -> Answer) -> hyper::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(CONNECTION_LIMIT).max_header_size(HEAD_BYTES_MAX);
    http.keep_alive(false).serve_connection(TokioIo::new(stream), service).await
}
