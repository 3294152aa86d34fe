//! The HTTP server: limits on connections and time, the health and metrics endpoints, CORS
//! preflights, and the S3 service for everything else.

use super::access_log::{self, Visit};
use super::auth::{Access, Auth, Keys, ParsedPolicies, Peer, Tls};
use super::client_timeout::{BodyState, TimedBody};
use super::cors::CorsRequest;
use super::date_header::{AMZ_DATE, add_amz_date};
use super::document::Document;
use super::exec::Code;
use super::iam::{self, Iam};
use super::metrics::Metrics;
use super::post_form::{self, FormHead};
use super::s3_control::Control;
use super::service::Operations;
use super::virtual_host::VirtualHosts;
use super::website::Websites;
use super::{Gateway, OBJECT_BYTES_MAX, s3_control, signature_time, xml_text};
use crate::events::schedule::Wakeups;
use crate::events::topic::Endpoints;
use crate::sal::Sal;
use crate::upstream::UpstreamMetrics;
use crate::vault::Vault;
use crate::web_identity::Issuers;
use async_trait::async_trait;
use benthic_core::{Environment, Result};
use benthic_program::client_timeout::TimedStream;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::Extensions;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::route::S3Route;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, S3Request, S3Response, S3Result, s3_error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ProtocolVersion, ServerConnection};

const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 128;
/// Maximum size of a connection's buffer for reads, in bytes: more than the head of a request. With
/// the default of hyper, 408 KiB, many clients that send large bodies would take much memory.
const BUFFER_BYTES_MAX: usize = 128 * 1024;
/// Maximum size of an XML document from a client, in bytes. The largest legitimate one lists 1,000
/// keys of 1,024 escaped bytes and is smaller.
pub(super) const XML_BYTES_MAX: usize = 8 << 20;
/// Maximum size of one signed chunk of a body, in bytes. The chunk stays in memory until its
/// signature is verified.
const SIGNED_PIECE_BYTES_MAX: usize = 16 << 20;
/// How much earlier than the server a client shall close an idle connection, in seconds.
const CLOSING_S: u64 = 2;
/// How long a stopping gateway waits for running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// Limits on clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections; further ones wait to be accepted.
    pub connections_max: usize,
    /// How long a connection may be idle, and how long the head of a request may take.
    pub idle_timeout: Duration,
    /// How long a client may send nothing of a body, or accept nothing of an answer.
    pub body_timeout: Duration,
}

/// The services that a gateway uses besides its store.
#[derive(Default)]
pub struct Services {
    /// Runs methods. Without it, the gateway runs none.
    pub code: Option<Arc<dyn Code>>,
    /// Whether identity providers may have addresses of private networks, and `http` on this
    /// machine.
    pub permits_private_issuers: bool,
    /// Has the KMS keys that are not in the store.
    pub vault: Option<Arc<Vault>>,
    /// The endpoints that topics of SNS may have. Without one, clients cannot create topics.
    pub topic_endpoints: Endpoints,
}

/// The HTTP server of a gateway.
pub struct Server {
    service: S3Service,
    gateway: Arc<Gateway>,
    sal: Arc<dyn Sal>,
    metrics: Arc<Metrics>,
    wakeups: Arc<Wakeups>,
    environment: Environment,
    hosts: VirtualHosts,
    limits: Limits,
    /// The header that tells clients how long they may keep an idle connection, so that they do not
    /// send a request while the server closes it.
    keep_alive: Option<HeaderValue>,
    /// Answers requests that are not S3: those whose path starts with this text.
    other: Option<(&'static str, Arc<dyn Handler>)>,
    websites: Option<Websites>,
    /// Counters of the driver.
    driver_metrics: Option<Arc<UpstreamMetrics>>,
}

/// Answers requests that are not S3.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Answers a request. The client gets an error status as any other answer.
    async fn answer(&self, request: Request<Incoming>) -> Response<Body>;
}

impl Server {
    /// Creates a server for this store. In requests to one of `domains`, the bucket name may
    /// precede the domain.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid domain.
    pub fn new(
        sal: Arc<dyn Sal>,
        keys: Arc<dyn Keys>,
        environment: Environment,
        region: String,
        domains: Vec<String>,
        limits: Limits,
        services: Services,
    ) -> Result<Server> {
        let issuers = Issuers::new(services.permits_private_issuers, environment.clone());
        let endpoints = services.topic_endpoints.clone();
        let metrics = Arc::new(Metrics::default());
        let wakeups = Arc::new(Wakeups::default());
        let gateway = Arc::new(Gateway::new(
            Arc::clone(&sal),
            Arc::clone(&keys),
            Arc::clone(&metrics),
            environment.clone(),
            region.clone(),
            services,
            Arc::clone(&wakeups),
        ));
        let mut builder = S3ServiceBuilder::new(Operations(Arc::clone(&gateway)));
        // Without an auth provider, `s3s` would check nothing.
        builder.set_auth(Auth(Arc::clone(&keys)));
        let access = Access {
            keys: Arc::clone(&keys),
            metrics: Arc::clone(&metrics),
            environment: environment.clone(),
            region: region.as_str().into(),
            parsed: Arc::new(ParsedPolicies::default()),
        };
        builder.set_route(Routes {
            iam: Iam { keys, environment: environment.clone(), issuers, region: region.clone(), endpoints },
            control: Control { gateway: Arc::clone(&gateway), access: access.clone() },
        });
        builder.set_access(access);
        let mut config = S3Config::default();
        config.xml_max_body_size = XML_BYTES_MAX;
        config.put_object_max_size = Some(OBJECT_BYTES_MAX);
        config.post_object_max_file_size = OBJECT_BYTES_MAX;
        config.form_max_field_size = post_form::HEAD_BYTES_MAX;
        config.form_max_fields_size = post_form::HEAD_BYTES_MAX;
        config.aws_chunked_stream_max_chunk_size = SIGNED_PIECE_BYTES_MAX;
        config.sig_v4_allowed_services = ["s3", "iam", "sts", "sns"].map(str::to_owned).into();
        config.enable_sig_v2 = false;
        config.presigned_url_max_skew_time_secs = signature_time::FORM_S_MAX;
        // As on AWS, the parameter `x-id` does not choose the operation. Otherwise a PutObject
        // could have the headers of a copy, which policies see, and a document could escape its
        // checks.
        config.operation_id_routing = false;
        config.unsigned_amz_header_allowlist = vec![AMZ_DATE.to_owned()];
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        let hosts = VirtualHosts::new(&domains)?;
        if !domains.is_empty() {
            builder.set_host(hosts.clone());
        }
        let service = builder.build();
        let keep_s = limits.idle_timeout.as_secs().saturating_sub(CLOSING_S).max(1);
        Ok(Server {
            service,
            gateway,
            sal,
            metrics,
            wakeups,
            environment,
            hosts,
            keep_alive: HeaderValue::try_from(format!("timeout={keep_s}")).ok(),
            limits,
            other: None,
            websites: None,
            driver_metrics: None,
        })
    }

    /// Lets another service answer the requests whose path starts with `prefix`.
    pub fn with_handler(self, prefix: &'static str, handler: Arc<dyn Handler>) -> Server {
        Server { other: Some((prefix, handler)), ..self }
    }

    /// Serves the websites of buckets at `BUCKET.DOMAIN`, for each of these domains.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid domain.
    pub fn with_websites(self, domains: &[String]) -> Result<Server> {
        if domains.is_empty() {
            return Ok(self);
        }
        let websites = Websites { hosts: VirtualHosts::new(domains)?, sal: Arc::clone(&self.sal) };
        Ok(Server { websites: Some(websites), ..self })
    }

    /// Shows the counters of the driver among those of the gateway.
    pub fn with_driver_metrics(self, metrics: Arc<UpstreamMetrics>) -> Server {
        Server { driver_metrics: Some(metrics), ..self }
    }

    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Writes access logs: lines that have waited for this time become objects. Runs for ever.
    pub async fn deliver_access_logs(&self, every: Duration) {
        self.gateway.deliver_logs(every).await;
    }

    /// Writes all lines of access logs that wait.
    pub async fn flush_access_logs(&self) {
        self.gateway.deliver_due_logs(Duration::ZERO).await;
    }

    /// Where the gateway reports buckets with new events.
    pub fn wakeups(&self) -> Arc<Wakeups> {
        Arc::clone(&self.wakeups)
    }

    /// Serves requests until `stop` completes, then gives running requests at most 8 seconds to
    /// end.
    ///
    /// # Errors
    /// Errors of single connections are logged and not returned.
    pub async fn serve(
        self: Arc<Server>,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let slot = tokio::select! {
                () = &mut stop => break,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break };
            let (stream, peer) = tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        // Probably out of file descriptors. Wait for other connections to end.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let (server, tls, watcher) = (Arc::clone(&self), tls.clone(), graceful.watcher());
            tokio::spawn(async move {
                let gauge_guard = GaugeGuard::new(&server.metrics.connections);
                if let Err(error) = server.serve_connection(stream, tls, watcher).await {
                    tracing::debug!(%error, %peer, "a connection ended");
                }
                drop((gauge_guard, slot));
            });
        }
        drop(listener);
        if tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await.is_err() {
            tracing::warn!("the gateway stops although requests are still running");
        }
        Ok(())
    }

    async fn serve_connection(
        self: &Arc<Server>,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        watcher: hyper_util::server::graceful::Watcher,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        let peer = Peer { address: stream.peer_addr()?.ip(), is_encrypted: tls.is_some(), tls: None };
        let stream = TimedStream::new(stream, self.limits.body_timeout);
        match tls {
            None => self.serve_stream(stream, peer, watcher).await,
            Some(tls) => {
                let stream = tokio::time::timeout(self.limits.idle_timeout, tls.accept(stream)).await??;
                let peer = Peer { tls: tls_of(stream.get_ref().1), ..peer };
                self.serve_stream(stream, peer, watcher).await
            }
        }
    }

    async fn serve_stream(
        self: &Arc<Server>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        watcher: hyper_util::server::graceful::Watcher,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let server = Arc::clone(self);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let server = Arc::clone(&server);
            // Boxed, so that an idle connection does not reserve memory for a request.
            Box::pin(async move { server.answer(request).await })
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle_timeout)
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        watcher.watch(connection).await.map_err(Into::into)
    }

    async fn answer(&self, mut request: Request<Incoming>) -> std::result::Result<Response<Body>, HttpError> {
        let begun_ms = self.environment.clock.monotonic_ms();
        let site = self.websites.as_ref().and_then(|websites| websites.bucket(host_of(&request)));
        let visit = Visit::begin(&mut request, site.is_some(), &self.environment);
        let gauge_guard = GaugeGuard::new(&self.metrics.in_flight);
        let answered = self.route(request).await.map(|answer| {
            let mut answer = visit.add_id(answer);
            if let Some(keep_alive) = &self.keep_alive {
                answer.headers_mut().insert("keep-alive", keep_alive.clone());
            }
            answer
        });
        drop(gauge_guard);
        let took = self.environment.clock.monotonic_ms().saturating_sub(begun_ms);
        let status = answered.as_ref().map_or(500, |answer| answer.status().as_u16());
        self.metrics.answer(status, Duration::from_millis(took));
        let bucket = site.or_else(|| self.bucket_at(visit.host(), visit.path()));
        match self.gateway.logged_buckets(bucket.as_deref(), &visit) {
            None => answered,
            Some(buckets) => {
                let log =
                    |answer| access_log::log(&self.gateway.logs, &self.environment, visit, buckets, answer);
                answered.map(log)
            }
        }
    }

    async fn route(&self, mut request: Request<Incoming>) -> std::result::Result<Response<Body>, HttpError> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/-/health") => return Ok(self.health().await),
            (&Method::GET, "/-/metrics") => {
                let of_driver = self.driver_metrics.as_ref().map_or(String::new(), |metrics| metrics.text());
                let mut answer = Response::new(Body::from(self.metrics.text() + &of_driver));
                let text = HeaderValue::from_static("text/plain; version=0.0.4");
                answer.headers_mut().insert(CONTENT_TYPE, text);
                return Ok(answer);
            }
            _ => {}
        }
        if let Some((prefix, handler)) = &self.other
            && request.uri().path().starts_with(prefix)
        {
            return Ok(handler.answer(request).await);
        }
        add_amz_date(request.headers_mut());
        if iam::is_iam(request.method(), request.uri(), request.headers()) {
            let answer = match iam::read(request, self.limits.body_timeout).await {
                Ok(request) => self.service.call(request).await?,
                Err(failure) => failure.to_http_response().unwrap_or_default(),
            };
            return Ok(iam::fix_answer(answer).await);
        }
        let is_control = s3_control::is_control(request.uri(), request.headers());
        let cors_request = CorsRequest::of(request.method(), request.headers());
        let websites = self.websites.as_ref();
        let site = websites.and_then(|websites| Some((websites, websites.bucket(host_of(&request))?)));
        let bucket = cors_request.as_ref().and_then(|_| match &site {
            Some((_, bucket)) => Some(bucket.clone()),
            None => self.bucket_of(&request),
        });
        if request.method() == Method::OPTIONS {
            return Ok(self.preflight(cors_request, bucket).await);
        }
        if let Some((websites, bucket)) = site {
            let mut answer = websites.answer(&self.service, &bucket, host_of(&request), &request).await?;
            if let Some(cors_request) = cors_request
                && let Some(headers) = cors_request.answer(self.sal.as_ref(), &bucket).await
            {
                answer.headers_mut().extend(headers);
            }
            return Ok(answer);
        }
        let body_timeout = self.limits.body_timeout;
        let headers = request.headers();
        let expects = headers.contains_key(EXPECT);
        // A body in chunks has no length, even if there is a length in the headers.
        let has_length = headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING);
        let state = Arc::new(BodyState::default());
        let query = request.uri().query().unwrap_or_default();
        let is_bucket = self.is_bucket(&request);
        let document = Document::of(request.method(), query, is_bucket, is_control, request.headers());
        let form = FormHead::of(request.method(), request.headers());
        if let Some(form) = &form {
            request.extensions_mut().insert(Arc::clone(form));
        }
        let request = request.map(|body| {
            let body = TimedBody::new(body, body_timeout, document, form.clone(), Arc::clone(&state));
            Body::http_body_unsync(body)
        });
        let mut answer = match form.is_some() && !has_length {
            // Without a length, `s3s` reads the file into memory before it checks the permissions.
            true => s3_error!(MissingContentLength).to_http_response().unwrap_or_default(),
            false => xml_text::write_references(self.service.call(request).await?).await,
        };
        // `s3s` reports a document that cannot be read as a server error, and S3 Control as an
        // incomplete body. Return the actual cause.
        if (answer.status().is_server_error() || is_control)
            && let Some(failure) = state.take_failure()
            && let Ok(failed) = failure.to_http_response()
        {
            answer = failed;
        }
        if is_control {
            return Ok(iam::fix_error(answer, s3_control::NAMESPACE).await);
        }
        if let Some(form) = &form {
            answer = post_form::fix_answer(answer, form).await;
        }
        // The client waits for `100 Continue` and never got it. Close the connection, because some
        // clients (botocore) take the next answer on such a connection for a part of this one.
        if expects && !state.was_polled() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let (Some(cors_request), Some(bucket)) = (cors_request, bucket)
            && let Some(headers) = cors_request.answer(self.sal.as_ref(), &bucket).await
        {
            answer.headers_mut().extend(headers);
        }
        Ok(answer)
    }

    /// Checks whether the store answers within five seconds.
    async fn health(&self) -> Response<Body> {
        let listed = self.sal.list_records(crate::sal::RecordKind::Account, "", None, 1);
        let (status, text) = match tokio::time::timeout(Duration::from_secs(5), listed).await {
            Ok(Ok(_)) => (StatusCode::OK, "ok\n"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store does not answer");
                (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n")
            }
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer in time\n"),
        };
        let mut answer = Response::new(Body::from(text.to_owned()));
        *answer.status_mut() = status;
        answer
    }

    async fn preflight(&self, cors_request: Option<CorsRequest>, bucket: Option<String>) -> Response<Body> {
        let mut answer = Response::new(Body::empty());
        let Some(cors_request) = cors_request else {
            // The headers Origin and Access-Control-Request-Method are missing.
            *answer.status_mut() = StatusCode::BAD_REQUEST;
            return answer;
        };
        let headers = match bucket {
            Some(bucket) => cors_request.answer(self.sal.as_ref(), &bucket).await,
            None => None,
        };
        match headers {
            Some(headers) => answer.headers_mut().extend(headers),
            None => *answer.status_mut() = StatusCode::FORBIDDEN,
        }
        answer
    }

    /// The bucket of a request: in front of the domain, or first in the path.
    fn bucket_of(&self, request: &Request<Incoming>) -> Option<String> {
        self.bucket_at(host_of(request), request.uri().path())
    }

    fn bucket_at(&self, host: &str, path: &str) -> Option<String> {
        let first = || path.split('/').nth(1).filter(|bucket| !bucket.is_empty());
        self.hosts.bucket(host).or_else(|| first().map(str::to_owned))
    }

    /// Whether a request addresses a bucket without a key. A key may begin with a slash.
    fn is_bucket(&self, request: &Request<Incoming>) -> bool {
        let path = request.uri().path();
        let path = path.strip_prefix('/').unwrap_or(path);
        let (_, key) = path.split_once('/').unwrap_or_default();
        path.is_empty() || (key.is_empty() && self.hosts.bucket(host_of(request)).is_none())
    }
}

fn tls_of(connection: &ServerConnection) -> Option<Tls> {
    let version = match connection.protocol_version()? {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "-",
    };
    let cipher_suite = connection.negotiated_cipher_suite()?.suite().as_str().unwrap_or("-");
    Some(Tls { version, cipher_suite })
}

fn host_of(request: &Request<Incoming>) -> &str {
    request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// The requests that are not among the operations of S3.
struct Routes {
    iam: Iam,
    control: Control,
}

#[async_trait]
impl S3Route for Routes {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, extensions: &mut Extensions) -> bool {
        self.iam.is_match(method, uri, headers, extensions)
            || self.control.is_match(method, uri, headers, extensions)
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        if s3_control::is_control(&request.uri, &request.headers) {
            return self.control.check_access(request).await;
        }
        self.iam.check_access(request).await
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        if s3_control::is_control(&request.uri, &request.headers) {
            return self.control.call(request).await;
        }
        self.iam.call(request).await
    }
}

/// Increments a gauge during its lifetime.
struct GaugeGuard<'a>(&'a AtomicU64);

impl<'a> GaugeGuard<'a> {
    fn new(gauge: &'a AtomicU64) -> GaugeGuard<'a> {
        gauge.fetch_add(1, Relaxed);
        GaugeGuard(gauge)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
