//! Iceberg's REST catalog (the Iceberg project's `rest-catalog-open-api.yaml`). Namespaces are
//! pools.

mod changes;
mod failure;
mod staged;
mod tables;
mod token;

use crate::auth::Auth;
use crate::iceberg::keys::FormatVersion;
use crate::iceberg::view::Views;
use crate::staging::Staging;
use async_trait::async_trait;
use benthic_core::ErrorKind;
use benthic_s3::gateway::Handler;
use benthic_s3::grants::Grant;
use failure::Failure;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use s3s::Body;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The beginning of all paths of the catalog.
pub const PREFIX: &str = "/v1/";
/// Limit of a request's body. A table of ten thousand columns has a schema of this size.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Commits that run at once; others wait.
pub const COMMITS_AT_ONCE: usize = 2;
/// The requests that the catalog answers, as its configuration names them.
const ENDPOINTS: [&str; 12] = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/oauth/tokens",
];

/// The catalog.
pub struct Catalog {
    pub views: Arc<Views>,
    pub staging: Arc<Staging>,
    pub auth: Arc<Auth>,
    /// The URL under which clients reach this server, without a slash at the end.
    pub url: String,
    pub region: String,
    /// The format version of the tables. Clients can change only tables of version 2.
    pub format: FormatVersion,
    /// The commits that run at once. Each can take some hundred MiB.
    pub commits: Semaphore,
}

#[async_trait]
impl Handler for Catalog {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let is_head = request.method() == Method::HEAD;
        let has_body = !request.body().is_end_stream();
        let answered = self.route(request).await;
        // The server closes a connection if it has not read the whole body. A client in Java that
        // does not know this would fail with its next request.
        let closes = has_body && answered.is_err();
        let (status, value) = match answered {
            Ok(None) => (StatusCode::NO_CONTENT, None),
            Ok(Some(value)) => (StatusCode::OK, Some(value)),
            Err(failure) => (failure.status, Some(failure.json())),
        };
        let body = value.filter(|_| !is_head).map(|value| Body::from(value.to_string()));
        let mut answer = Response::new(body.unwrap_or_else(Body::empty));
        // A HEAD request has no body, and 200 would promise one.
        *answer.status_mut() =
            if is_head && status == StatusCode::OK { StatusCode::NO_CONTENT } else { status };
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if closes {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

/// A JSON document, or none.
type Answer = Result<Option<Value>, Failure>;

impl Catalog {
    async fn route(&self, request: Request<Incoming>) -> Answer {
        let method = request.method().clone();
        let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let segments = path.split('/').map(decode).collect::<Option<Vec<String>>>();
        let segments =
            segments.ok_or_else(|| Failure::bad_request("the path has invalid percent-encoding"))?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_read = method == Method::GET || method == Method::HEAD;
        if let (true, ["oauth", "tokens"]) = (method == Method::POST, segments.as_slice()) {
            return self.token(request).await.map(Some).map_err(Failure::of_login);
        }
        let grant = self.grant(&request).await?;
        match segments.as_slice() {
            ["config"] if is_read => {
                Ok(Some(serde_json::json!({ "defaults": {}, "overrides": {}, "endpoints": ENDPOINTS })))
            }
            ["namespaces"] if is_read => self.namespaces(&grant, query(&request, "parent")).await.map(Some),
            ["namespaces", namespace] if is_read => self.namespace(&grant, namespace).await.map(Some),
            ["namespaces", namespace, "tables"] if is_read => self.tables(&grant, namespace).await.map(Some),
            ["namespaces", namespace, "tables", table] if is_read => {
                self.table(&grant, namespace, table, query(&request, "snapshots")).await.map(Some)
            }
            ["namespaces", namespace, "tables", table, "credentials"] if is_read => {
                self.credentials(&grant, namespace, table).await.map(Some)
            }
            ["namespaces", namespace, "tables"] if method == Method::POST => {
                self.create(&grant, namespace, &json(request).await?).await.map(Some)
            }
            ["namespaces", namespace, "tables", table] if method == Method::POST => {
                self.change(&grant, namespace, table, &json(request).await?).await.map(Some)
            }
            ["namespaces", namespace, "tables", table] if method == Method::DELETE => {
                self.drop(&grant, namespace, table).await.map(|()| None)
            }
            // Reports of clients about their scans.
            ["namespaces", _, "tables", _, "metrics"] if method == Method::POST => {
                body(request).await.map(|_| None)
            }
            _ => Err(Failure::unsupported(
                "the catalog does not do this; `benthic pool` creates and removes namespaces, and `benthic table` changes tables",
            )),
        }
    }

    /// The grant of a request's token.
    async fn grant(&self, request: &Request<Incoming>) -> Result<Grant, Failure> {
        let header = request.headers().get(AUTHORIZATION).and_then(|header| header.to_str().ok());
        let token = header.and_then(|header| header.split_once(' '));
        let Some((_, token)) = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
            return Err(Failure::unauthorized(
                "log in with an access key and its secret key, as `credential` or `client_id` and `client_secret`",
            ));
        };
        let grant = self.auth.grant(token.trim()).await?;
        grant.ok_or_else(|| Failure::unauthorized("the token is invalid or has expired; log in again"))
    }
}

/// Reads a small body.
async fn body(request: Request<Incoming>) -> Result<Vec<u8>, Failure> {
    let read = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes().to_vec()),
        Ok(Err(_)) => Err(Failure::bad_request("the body is too large or incomplete")),
        Err(_) => Err(Failure::bad_request("the body did not arrive in time")),
    }
}

async fn json(request: Request<Incoming>) -> Result<Value, Failure> {
    serde_json::from_slice(&body(request).await?)
        .map_err(|error| Failure::bad_request(&format!("the body is not valid JSON: {error}")))
}

/// A parameter of the query.
fn query(request: &Request<Incoming>, name: &str) -> Option<String> {
    let pairs = url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Decodes percent-encoding. A plus sign is a space, because the clients in Java encode paths as
/// forms.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The failure if the namespace does not exist or is not shown.
fn no_such_namespace(namespace: &str) -> Failure {
    let error = benthic_core::Error::new(ErrorKind::NotFound, "no such namespace; namespaces are pools");
    Failure::of_namespace(error.with("namespace", namespace))
}
