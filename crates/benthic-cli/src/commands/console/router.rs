//! Checks requests, and passes each to the function that answers it.

use crate::commands::console::access::Allowed;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, failed, json_reply, whole};
use crate::commands::console::{Console, arrays, buckets, classes, data, objects, pages, preview, tables};
use crate::commands::serving;
use benthic_core::{ClassHost, Error, Result, build};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit of a request to the store. Transfers and child processes have their own.
const STORE_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for the body of a request, except for uploads.
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// Size limit of the body of a request, except for uploads.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Size limit of the body of a sign-in.
const SIGN_IN_BYTES_MAX: usize = 4_096;

#[derive(serde::Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum SignIn {
    Token { token: String },
    Key { access_key: String, secret_key: String },
}

impl Console<'_> {
    /// Answers a request. Every response has the security headers.
    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let mut reply = if self.hosts.allow(&request) {
            self.answer_host(request).await
        } else {
            let message = "this server does not accept this Host header; `benthic console serve --host NAME` adds a name\n";
            whole(serving::line(StatusCode::MISDIRECTED_REQUEST, message))
        };
        // The data of objects have a stricter policy than the pages.
        let own = reply.headers().get(CONTENT_SECURITY_POLICY).cloned();
        reply = serving::with_security_headers(reply);
        if let Some(policy) = own {
            reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        }
        reply
    }

    async fn answer_host(&self, request: Request<Incoming>) -> Reply {
        let path = request.uri().path().to_owned();
        if let Some(reply) = pages::public(&path) {
            return whole(serving::answer_reads(&request, || reply));
        }
        let answered = match (self.access.check(&request), path.as_str()) {
            (_, "/api/sign-in") => self.sign_in(request).await,
            (Allowed::Yes, "/api/sign-out") => {
                only(&request, &[Method::POST]).map(|()| self.access.sign_out(request.headers()))
            }
            (Allowed::Yes, _) => self.answer_user(request, &path).await,
            (Allowed::OtherOrigin, _) => {
                Err(Error::permission_denied("the request comes from a page of another server"))
            }
            (Allowed::NotSignedIn, _) if path.starts_with("/api/") || path == "/status.json" => {
                return not_signed_in();
            }
            (Allowed::NotSignedIn, _) => return whole(pages::sign_in()),
        };
        answered.unwrap_or_else(|error| refusal(&error))
    }

    async fn sign_in(&self, request: Request<Incoming>) -> Result<Reply> {
        only(&request, &[Method::POST])?;
        if !self.access.is_same_origin(&request) {
            return Err(Error::permission_denied("the request comes from a page of another server"));
        }
        match body_of(request, SIGN_IN_BYTES_MAX).await? {
            SignIn::Token { token } => self.access.sign_in(&token),
            SignIn::Key { access_key, secret_key } => {
                buckets::check_key(self, &access_key, &secret_key).await?;
                self.access.sign_in_with_key()
            }
        }
    }

    /// Answers a user who is signed in.
    async fn answer_user(&self, request: Request<Incoming>, path: &str) -> Result<Reply> {
        let query = Query::of(request.uri())?;
        if path == "/api/object/data" {
            return self.transfer(request, &query).await;
        }
        match path {
            "/api/exec" => {
                only(&request, &[Method::POST])?;
                let call = body_of(request, BODY_BYTES_MAX).await?;
                return in_time(classes::exec(self, call)).await;
            }
            "/api/sql" => {
                only(&request, &[Method::POST])?;
                let statement = body_of(request, BODY_BYTES_MAX).await?;
                return tables::sql(self, statement).await;
            }
            "/api/object" if request.method() == Method::DELETE => {
                return in_time(data::remove(self, &query)).await;
            }
            _ => {}
        }
        only(&request, &[Method::GET, Method::HEAD])?;
        match path {
            "/api/console" => in_time(self.describe()).await,
            "/api/pools" => in_time(objects::pools(self)).await,
            "/api/objects" => in_time(objects::list(self, &query)).await,
            "/api/object" => in_time(objects::show(self, &query)).await,
            "/api/object/omap" => in_time(objects::omap(self, &query)).await,
            "/api/object/text" => in_time(preview::text(self, &query)).await,
            "/api/object/image" => in_time(preview::image(self, &query)).await,
            "/api/object/parquet" => tables::parquet(self, &query).await,
            "/api/classes" => in_time(classes::list(self, &query)).await,
            "/api/tables" => tables::list(self, &query).await,
            "/api/table" => tables::show(self, &query).await,
            "/api/table/history" => tables::history(self, &query).await,
            "/api/arrays" => arrays::list(self, &query).await,
            "/api/array" => arrays::show(self, &query).await,
            "/api/array/plot" => arrays::plot(self, &query).await,
            "/api/s3/buckets" => buckets::list(self).await,
            "/api/s3/bucket" => buckets::show(self, &query).await,
            "/api/s3/keys" => buckets::keys(self, &query).await,
            "/status.json" => self.status(),
            _ => pages::private(path, self.page.is_some()).map(whole).ok_or_else(|| {
                Error::not_found("the console has no such page or endpoint").with("path", path)
            }),
        }
    }

    async fn transfer(&self, request: Request<Incoming>, query: &Query) -> Result<Reply> {
        only(&request, &[Method::GET, Method::HEAD, Method::PUT])?;
        match *request.method() {
            Method::PUT => data::upload(self, query, request).await,
            _ => data::download(self, query, request.method() == Method::HEAD).await,
        }
    }

    fn status(&self) -> Result<Reply> {
        let message =
            "only a Ceph cluster has a status; check this store with `benthic fsck` and `benthic scrub`";
        let page = self.page.as_ref().ok_or_else(|| Error::unsupported(message))?;
        Ok(whole(page.data()))
    }

    async fn describe(&self) -> Result<Reply> {
        let is_cluster = self.page.is_some();
        let engine = match self.session.uri() {
            "mem:" => "memory",
            _ if is_cluster => "ceph",
            _ => "embedded",
        };
        let host = match self.session.store().await {
            Ok(store) if store.class_host() == ClassHost::Cluster => "cluster",
            Ok(_) => "local",
            // The page works while the cluster is down.
            Err(_) => "unknown",
        };
        Ok(json_reply(&json!({
            "version": 1,
            "benthic": build(),
            "store": self.session.uri(),
            "engine": engine,
            "class_host": host,
            "writable": self.is_writable,
            "programs": self.children.installed_programs(),
        })))
    }

    /// Fails unless the console may change data.
    pub fn check_writable(&self) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        let message =
            "this console is read-only; `benthic console serve --writable` starts one that changes data";
        Err(Error::permission_denied(message))
    }
}

async fn in_time(answered: impl Future<Output = Result<Reply>>) -> Result<Reply> {
    timeout(STORE_LIMIT, answered).await.unwrap_or_else(|_| {
        let message = "the store did not answer in time; a write may still happen";
        Err(Error::unavailable(message).with("seconds", STORE_LIMIT.as_secs()))
    })
}

/// The error for a method that an address does not have. [`refusal`] turns it into a response.
fn only<T>(request: &Request<T>, methods: &[Method]) -> Result<()> {
    if methods.contains(request.method()) {
        return Ok(());
    }
    let allowed: Vec<&str> = methods.iter().map(Method::as_str).collect();
    Err(Error::unsupported("this address does not have this method").with("allow", allowed.join(", ")))
}

fn refusal(error: &Error) -> Reply {
    let mut reply = failed(error);
    if let Some((_, allowed)) = error.context().find(|(key, _)| *key == "allow")
        && let Ok(allowed) = HeaderValue::from_str(allowed)
    {
        *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        reply.headers_mut().insert(ALLOW, allowed);
    }
    reply
}

fn not_signed_in() -> Reply {
    let message =
        "sign in with the token that the program printed, or send it as `Authorization: Bearer TOKEN`";
    let mut reply = failed(&Error::permission_denied(message));
    *reply.status_mut() = StatusCode::UNAUTHORIZED;
    reply
}

/// Reads the JSON of a request. A form cannot send this media type to another site.
async fn body_of<T: DeserializeOwned>(request: Request<Incoming>, bytes_max: usize) -> Result<T> {
    let invalid = |message: &'static str| Error::invalid_argument(message);
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim() != "application/json" {
        return Err(invalid("the body must have the Content-Type application/json"));
    }
    let limited = Limited::new(request.into_body(), bytes_max).collect();
    let late = |_| Error::unavailable("the body did not arrive in time");
    let body: Bytes = match timeout(BODY_LIMIT, limited).await.map_err(late)? {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(Error::limit_exceeded("the body is too large").with("size_bytes_max", bytes_max));
        }
        Err(_) => return Err(invalid("the body broke off")),
    };
    serde_json::from_slice(&body)
        .map_err(|error| invalid("the body is not the JSON that this address takes").with("error", error))
}
