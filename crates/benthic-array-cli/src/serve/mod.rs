//! Reductionist's API over the objects of pools: `benthic array serve`.
//!
//! A client such as PyActiveStorage knows where a file has its chunks, and asks for the reduction
//! of each. The class `array` runs it beside the object, as for arrays in Zarr's format. A bucket
//! is a pool.

mod cbor;
mod failure;
mod http;
mod number;
mod plan;
mod request;

pub use http::{Limits, Server};

use base64_simd::STANDARD;
use benthic_array::{ChunkRunner, ReadStats, StoredChunk};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, ErrorKind, ObjectId, Store};
use benthic_s3::grants::{Access, wrong_credentials};
use failure::Failure;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use plan::Plan;
use request::Operation;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Limit on the body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Limit on the time of a request, without the time to receive its body and to send its answer.
const WORK_TIME_MAX: Duration = Duration::from_secs(300);
/// Approximate limit on the memory of all requests: decoded chunks and results.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
const MEMORY_UNIT_BYTES: u64 = 1 << 20;
/// Time after which a pool is opened again and its measurements of push and pull are discarded.
const POOL_KEPT_MS: u64 = 5 * 60 * 1000;

/// An answer to a request.
pub type Answer = Response<Full<Bytes>>;

/// The service behind the HTTP server.
pub struct Service {
    store: Arc<dyn Store>,
    access: Access,
    /// The pool of the accounts and keys, whose objects nobody gets.
    hidden_pool: String,
    pushdown: Pushdown,
    environment: Environment,
    pools: Mutex<HashMap<String, (u64, Arc<ChunkRunner>)>>,
    memory: Semaphore,
    stats: Arc<ReadStats>,
    /// Answers with a status of 200 to 299, 400 to 499, and others.
    answered: [AtomicU64; 3],
    /// How long a client may take to send a body.
    body_timeout: Duration,
}

impl Service {
    /// Serves the pools of a store to the accounts that `access` permits.
    pub fn new(
        store: Arc<dyn Store>,
        access: Access,
        hidden_pool: String,
        pushdown: Pushdown,
        environment: Environment,
        body_timeout: Duration,
    ) -> Service {
        Service {
            store,
            access,
            hidden_pool,
            pushdown,
            environment,
            pools: Mutex::default(),
            memory: Semaphore::new((MEMORY_BYTES_MAX / MEMORY_UNIT_BYTES) as usize),
            stats: Arc::default(),
            answered: Default::default(),
            body_timeout,
        }
    }

    /// Answers a request. The client gets an error status as any other answer.
    pub async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let answer = match self.route(request).await {
            Ok(answer) => answer,
            Err(failure) => {
                let body = failure.json().to_string();
                let mut answer = respond(failure.status, "application/json", body);
                if failure.status == StatusCode::UNAUTHORIZED {
                    let scheme = HeaderValue::from_static("Basic realm=\"benthic\"");
                    answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
                }
                answer
            }
        };
        let class = match answer.status().as_u16() / 100 {
            2 => 0,
            4 => 1,
            _ => 2,
        };
        self.answered[class].fetch_add(1, Relaxed);
        answer
    }

    async fn route<B>(&self, request: Request<B>) -> Result<Answer, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path().trim_end_matches('/');
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let operation = match path {
            "/metrics" if is_read => {
                return Ok(respond(StatusCode::OK, "text/plain; version=0.0.4", self.metrics()));
            }
            "/-/health" if is_read => return self.health().await,
            "/.well-known/reductionist-schema" if is_read => {
                let operations = Operation::ALL.map(|(name, _)| name);
                let schema = json!({ "versions": ["v2"], "operations": operations });
                return Ok(respond(StatusCode::OK, "application/json", schema.to_string()));
            }
            path => path.strip_prefix("/v2/"),
        };
        let Some(operation) = operation else {
            let message = "no such path; the API is POST /v2/OPERATION (PyActiveStorage 0.8 or newer)";
            return Err(Failure::new(StatusCode::NOT_FOUND, message));
        };
        let Some((_, operation)) = Operation::ALL.into_iter().find(|(name, _)| *name == operation) else {
            let message = "unsupported operation; the operations are count, max, min, select and sum";
            return Err(Failure::new(StatusCode::NOT_FOUND, message));
        };
        if request.method() != Method::POST {
            return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, "an operation needs the method POST"));
        }
        let login = request.headers().get(AUTHORIZATION).and_then(basic);
        let grant = self.grant(login).await?;
        let body =
            timeout(self.body_timeout, Limited::new(request.into_body(), BODY_BYTES_MAX).collect()).await;
        let body = match body {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return Err(Failure::bad_request("the body is larger than 1 MiB, or incomplete")),
            Err(_) => {
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"));
            }
        };
        let request = request::Request::parse(&body)?;
        let is_shown = grant.as_ref().is_none_or(|pools| pools.contains(&request.pool));
        if !is_shown || request.pool == self.hidden_pool {
            return Err(Failure::new(StatusCode::FORBIDDEN, "Access Denied"));
        }
        match timeout(WORK_TIME_MAX, self.compute(request, operation)).await {
            Ok(computed) => computed,
            Err(_) => Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, "the store does not answer in time")),
        }
    }

    /// The pools of a login. `None` stands for all.
    async fn grant(&self, login: Option<(String, String)>) -> Result<Option<BTreeSet<String>>, Failure> {
        let Some((access_key, secret)) = login else {
            return Err(Failure::unauthorized(
                "send an access key and its secret key as HTTP Basic authentication",
            ));
        };
        let login = self.access.key(&access_key).await?;
        // Hashes are compared in constant time.
        let login =
            login.filter(|login| blake3::hash(login.secret.as_bytes()) == blake3::hash(secret.as_bytes()));
        let Some(login) = login else { return Err(Failure::unauthorized(&wrong_credentials().to_string())) };
        Ok(self.access.grant(&login)?.pools)
    }

    async fn compute(&self, request: request::Request, operation: Operation) -> Result<Answer, Failure> {
        let runner = self.pool(&request.pool).await?;
        let object = ObjectId::new(&request.object)?;
        let object_bytes = match request.len_bytes {
            Some(_) => 0,
            None => runner.pool().stat(&object).await?.0.size_bytes,
        };
        let plan = Plan::new(&request, operation, object_bytes)?;
        // The result exists several times while it is decoded and encoded.
        let needed_bytes = plan.decoded_bytes().saturating_add(plan.result_bytes().saturating_mul(8));
        let units = needed_bytes.clamp(1, MEMORY_BYTES_MAX).div_ceil(MEMORY_UNIT_BYTES);
        let permit = self.memory.acquire_many(units as u32).await;
        let permit = permit.map_err(|_| Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the server stops"))?;
        let chunk = StoredChunk { object, range: Some(plan.range), shape: None };
        let output = runner.run(&chunk, plan.format.clone(), plan.slices.clone(), plan.task.clone()).await?;
        let encode = move || {
            let outcome = plan.finish(output)?;
            Ok::<_, benthic_core::Error>(cbor::encode(
                &outcome,
                request.shape_as_bytes,
                request.count_as_bytes,
            ))
        };
        let encoded = tokio::task::spawn_blocking(encode).await;
        drop(permit);
        match encoded {
            Ok(encoded) => Ok(respond(StatusCode::OK, "application/cbor", encoded?)),
            Err(_) => Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the result cannot be encoded")),
        }
    }

    async fn pool(&self, name: &str) -> Result<Arc<ChunkRunner>, Failure> {
        let now_ms = self.environment.clock.monotonic_ms();
        let is_fresh = |opened_ms: u64| now_ms.saturating_sub(opened_ms) < POOL_KEPT_MS;
        {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((opened_ms, runner)) = pools.get(name)
                && is_fresh(*opened_ms)
            {
                return Ok(Arc::clone(runner));
            }
        }
        let pool = self.store.open_pool(name).await.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => error.with("pool", name),
            _ => error,
        })?;
        let runner = Arc::new(ChunkRunner::new(pool, self.pushdown, Arc::clone(&self.stats)));
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|_, (opened_ms, _)| is_fresh(*opened_ms));
        pools.insert(name.to_owned(), (now_ms, Arc::clone(&runner)));
        Ok(runner)
    }

    async fn health(&self) -> Result<Answer, Failure> {
        match timeout(Duration::from_secs(5), self.store.list_pools()).await {
            Ok(Ok(_)) => Ok(respond(StatusCode::OK, "text/plain", "ok\n")),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer in time")),
        }
    }

    fn metrics(&self) -> String {
        let mut text = String::from(
            "# HELP benthic_array_requests_total Requests that were answered.\n\
             # TYPE benthic_array_requests_total counter\n",
        );
        for (class, answered) in ["2xx", "4xx", "5xx"].iter().zip(&self.answered) {
            let _ =
                writeln!(text, "benthic_array_requests_total{{code=\"{class}\"}} {}", answered.load(Relaxed));
        }
        for (name, help, value) in [
            ("chunks", "Chunks that were read or reduced.", self.stats.done_chunks()),
            ("pushed_chunks", "Chunks on which the class ran.", self.stats.pushed_chunks()),
            (
                "moved_bytes",
                "Bytes of chunks, and of inputs and outputs of the class.",
                self.stats.moved_bytes(),
            ),
        ] {
            let _ = writeln!(
                text,
                "# HELP benthic_array_{name}_total {help}\n# TYPE benthic_array_{name}_total counter"
            );
            let _ = writeln!(text, "benthic_array_{name}_total {value}");
        }
        text
    }
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// The name and the password of HTTP Basic authentication (RFC 7617).
fn basic(header: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode_to_vec(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}
