//! `benthic exporter`.

use crate::commands::health::watcher::Watcher;
use crate::commands::health::{LookArgs, cluster};
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::store::Session;
use benthic_ceph::health::metrics;
use benthic_core::{Action, Clock, Error, Result, SystemClock};
use bytes::Bytes;
use clap::Args;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at once; more wait.
const CONNECTIONS_MAX: usize = 32;
/// How long one may last: each is for one request.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// What one look may take longer than the interval, before the exporter counts as stuck.
const LATE_MS: u64 = 60_000;

/// Arguments of `benthic exporter`.
#[derive(Args)]
#[command(
    after_help = "GET /metrics has what `benthic health` saw at its last look; /-/health is 200 while it looks. What Ceph's own \
    exporter tells too has its names, the rest begins with benthic_. It speaks plain HTTP and knows no users: listen where only \
    Prometheus comes. Rules for alerts are in docs/guide/health-alerts.yml.\n\n\
    Example:\n  benthic exporter --listen 127.0.0.1:9128 --probe-pool scratch --store ceph:"
)]
pub struct ExporterArgs {
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9128")]
    listen: SocketAddr,
    /// Seconds between two looks at the cluster, whoever asks how often
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,
    #[command(flatten)]
    look: LookArgs,
}

/// What was seen last.
struct Seen {
    text: Mutex<Bytes>,
    at_ms: Mutex<u64>,
    clock: SystemClock,
    interval_ms: u64,
}

pub async fn run(args: ExporterArgs, session: &Session) -> Outcome {
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Error::io(Action::Admin, "cannot listen here; --listen names another address", error)
            .with("address", args.listen)
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Error::io(Action::Admin, "cannot tell the address that is listened on", error))?;
    let mut watcher = Watcher::new(cluster(session).await?, args.look, session).await?;
    let seen = Arc::new(Seen {
        text: Mutex::default(),
        at_ms: Mutex::default(),
        clock: SystemClock::default(),
        interval_ms: args.interval * 1_000,
    });
    // What is wrong with the arguments or the caps is told before anybody asks.
    seen.look(&mut watcher, session).await?;
    let url = format!("http://{address}/metrics");
    session.out.result(format_args!("serving {url}"), || json!({ "url": url }))?;
    session.out.flush()?;
    let server = tokio::spawn(serve(listener, Arc::clone(&seen)));
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(args.interval)) => {}
            () = interrupt::wait() => break,
        }
        if let Err(error) = seen.look(&mut watcher, session).await {
            // The last look grows old, which /-/health and the metrics tell.
            session.out.warning(&error);
        }
    }
    server.abort();
    Err(Failure::Interrupted)
}

impl Seen {
    async fn look(&self, watcher: &mut Watcher, session: &Session) -> Result<()> {
        let report = watcher.look(session).await?;
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = metrics::text(&report).into();
        *self.at_ms.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.monotonic_ms();
        Ok(())
    }

    fn is_late(&self) -> bool {
        let at_ms = *self.at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.monotonic_ms().saturating_sub(at_ms) > self.interval_ms + LATE_MS
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let (status, kind, text) = match request.uri().path() {
            _ if !is_read => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", Bytes::from("GET only\n")),
            "/metrics" => {
                let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                (StatusCode::OK, metrics::CONTENT_TYPE, text)
            }
            "/-/health" if self.is_late() => {
                let text = Bytes::from("the cluster was not looked at for too long\n");
                (StatusCode::SERVICE_UNAVAILABLE, "text/plain", text)
            }
            "/-/health" => (StatusCode::OK, "text/plain", Bytes::from("ok\n")),
            _ => (StatusCode::NOT_FOUND, "text/plain", Bytes::from("/metrics and /-/health are here\n")),
        };
        let mut answer = Response::new(Full::new(text));
        *answer.status_mut() = status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        answer
    }
}

async fn serve(listener: TcpListener, seen: Arc<Seen>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: others end meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            let spoken = tokio::time::timeout(CONNECTION_LIMIT, speak(stream, seen)).await;
            tracing::debug!(?spoken, "a connection ended");
            drop(slot);
        });
    }
}

async fn speak(stream: TcpStream, seen: Arc<Seen>) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = seen.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(CONNECTION_LIMIT).max_header_size(HEAD_BYTES_MAX);
    http.keep_alive(false).serve_connection(TokioIo::new(stream), service).await
}
