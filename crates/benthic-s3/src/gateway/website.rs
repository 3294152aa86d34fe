//! Websites: GetBucketWebsite, PutBucketWebsite, DeleteBucketWebsite, and the server that shows the
//! objects of a bucket to browsers.
//!
//! Each request of a browser becomes an anonymous GetObject, so ACLs and policies decide as for
//! every other anonymous caller. The query and all headers that name a caller are dropped.

use super::auth::Peer;
use super::virtual_host::VirtualHosts;
use super::website_rules::{Address, Moved, check, encode_key, path_of, redirect_after_error, redirect_of};
use super::{Gateway, error, names};
use crate::sal::{Bucket, Sal};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LOCATION, RANGE, REFERER, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use s3s::dto::{
    CopySource, DeleteBucketWebsiteInput, DeleteBucketWebsiteOutput, GetBucketWebsiteInput,
    GetBucketWebsiteOutput, PutBucketWebsiteInput, PutBucketWebsiteOutput, WebsiteConfiguration,
};
use s3s::service::S3Service;
use s3s::{Body, HttpError, S3Request, S3Result, s3_error};
use std::sync::Arc;

const REDIRECT_HEADER: &str = "x-amz-website-redirect-location";
/// The headers of a browser that reach the object. Policies may look at the last two.
const HEADERS: [HeaderName; 7] =
    [RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, REFERER, USER_AGENT];

/// The website of a bucket, if it has one.
fn website_of(bucket: &Bucket) -> S3Result<Option<WebsiteConfiguration>> {
    let text = bucket.attributes.get(names::WEBSITE);
    let website = text.map(|text| serde_json::from_slice(text)).transpose();
    website.map_err(|error| s3_error!(error, InternalError))
}

impl Gateway {
    pub(super) async fn website(
        &self,
        request: S3Request<GetBucketWebsiteInput>,
    ) -> S3Result<GetBucketWebsiteOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let website = website_of(&access.bucket)?.ok_or_else(|| s3_error!(NoSuchWebsiteConfiguration))?;
        Ok(GetBucketWebsiteOutput {
            error_document: website.error_document,
            index_document: website.index_document,
            redirect_all_requests_to: website.redirect_all_requests_to,
            routing_rules: website.routing_rules,
        })
    }

    pub(super) async fn set_website(
        &self,
        request: S3Request<PutBucketWebsiteInput>,
    ) -> S3Result<PutBucketWebsiteOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        check(&input.website_configuration)?;
        self.set_bucket_attribute(access.bucket, names::WEBSITE, &input.website_configuration).await?;
        Ok(PutBucketWebsiteOutput::default())
    }

    pub(super) async fn remove_website(
        &self,
        request: S3Request<DeleteBucketWebsiteInput>,
    ) -> S3Result<DeleteBucketWebsiteOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.remove_bucket_attribute(access.bucket, names::WEBSITE).await?;
        Ok(DeleteBucketWebsiteOutput::default())
    }
}

/// Serves the websites of buckets at `BUCKET.DOMAIN`.
pub(super) struct Websites {
    pub hosts: VirtualHosts,
    pub sal: Arc<dyn Sal>,
}

/// The parts of a browser's request that a website needs.
struct Visit<'a> {
    service: &'a S3Service,
    bucket: &'a str,
    method: &'a Method,
    headers: HeaderMap,
    peer: Option<Peer>,
}

impl Websites {
    /// The bucket whose website a request asks for.
    pub fn bucket(&self, host: &str) -> Option<String> {
        self.hosts.bucket(host)
    }

    /// Answers a request of a browser.
    pub async fn answer(
        &self,
        service: &S3Service,
        bucket: &str,
        host: &str,
        request: &Request<Incoming>,
    ) -> Result<Response<Body>, HttpError> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Ok(page(status, "MethodNotAllowed", "a website can only be read"));
        }
        let website = match self.sal.bucket(bucket).await {
            Ok(found) => website_of(&found),
            Err(failure) => Err(error::bucket(failure)),
        };
        let website = match website {
            Ok(Some(website)) => website,
            Ok(None) => {
                let message = "the bucket has no website";
                return Ok(page(StatusCode::NOT_FOUND, "NoSuchWebsiteConfiguration", message));
            }
            Err(failure) => {
                let status = failure.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Ok(page(status, failure.code().as_str(), failure.message().unwrap_or_default()));
            }
        };
        let path = request.uri().path();
        let path = path.strip_prefix('/').unwrap_or(path);
        let Some(key) = decode_path(path) else {
            return Ok(page(StatusCode::BAD_REQUEST, "InvalidURI", "the path is not valid"));
        };
        let peer = request.extensions().get::<Peer>().copied();
        let is_encrypted = peer.as_ref().is_some_and(|peer| peer.is_encrypted);
        let address = Address {
            scheme: if is_encrypted { "https" } else { "http" },
            host,
            key: &key,
            path_and_query: request.uri().path_and_query().map_or("/", |path| path.as_str()),
        };
        if let Some(moved) = redirect_of(&website, address) {
            return Ok(redirect(&moved));
        }
        let kept = request.headers().iter().filter(|(name, _)| HEADERS.contains(name));
        let visit = Visit {
            service,
            bucket,
            method: request.method(),
            headers: kept.map(|(name, value)| (name.clone(), value.clone())).collect(),
            peer,
        };
        let suffix = website.index_document.as_ref().map(|index| index.suffix.as_str());
        let suffix = suffix.unwrap_or_default();
        let is_directory = key.is_empty() || key.ends_with('/');
        let object = if is_directory { format!("{key}{suffix}") } else { key.clone() };
        let answer = visit.read(&object, visit.method, &visit.headers).await?;
        let status = answer.status();
        if !status.is_client_error() && !status.is_server_error() {
            let elsewhere = answer.headers().get(REDIRECT_HEADER).and_then(|value| value.to_str().ok());
            return Ok(match elsewhere {
                Some(location) => redirect(&Moved { status: 301, location: location.to_owned() }),
                None => answer,
            });
        }
        let is_missing = [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN].contains(&status);
        if is_missing && !is_directory {
            let index = visit.read(&format!("{key}/{suffix}"), &Method::HEAD, &HeaderMap::new()).await?;
            if index.status().is_success() {
                let location = format!("{}/", path_of(&key));
                return Ok(redirect(&Moved { status: 302, location }));
            }
        }
        if let Some(moved) = redirect_after_error(&website, address, status.as_u16()) {
            return Ok(redirect(&moved));
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE || status == StatusCode::PRECONDITION_FAILED {
            return Ok(answer);
        }
        if let Some(document) = &website.error_document {
            let mut shown = visit.read(&document.key, visit.method, &HeaderMap::new()).await?;
            if shown.status().is_success() {
                *shown.status_mut() = status;
                return Ok(shown);
            }
        }
        // `s3s` created this document, so it is complete and small.
        let text = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let element = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once(&format!("</{name}>"))?.0)
        };
        let code = element("Code").or(status.canonical_reason()).unwrap_or_default();
        Ok(page_of_escaped(status, code, element("Message").unwrap_or_default()))
    }
}

impl Visit<'_> {
    /// Reads an object as an anonymous caller.
    async fn read(
        &self,
        key: &str,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, HttpError> {
        let path = format!("/{}/{}", self.bucket, encode_key(key));
        let mut request = Request::new(Body::empty());
        let Ok(uri) = path.parse::<Uri>() else {
            return Ok(page(StatusCode::BAD_REQUEST, "InvalidURI", "the path is not valid"));
        };
        *request.uri_mut() = uri;
        *request.method_mut() = method.clone();
        *request.headers_mut() = headers.clone();
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        self.service.call(request).await
    }
}

/// A percent-encoded path as a key.
fn decode_path(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(String::new());
    }
    match CopySource::parse(&format!("bucket/{path}")) {
        Ok(CopySource::Bucket { key, version_id: None, .. }) => Some(key.into()),
        _ => None,
    }
}

fn redirect(moved: &Moved) -> Response<Body> {
    let Ok(location) = HeaderValue::from_str(&moved.location) else {
        return page(StatusCode::NOT_FOUND, "NoSuchKey", "the target of the redirect is not a valid address");
    };
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::from_u16(moved.status).unwrap_or(StatusCode::MOVED_PERMANENTLY);
    answer.headers_mut().insert(LOCATION, location);
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    answer
}

fn page(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    page_of_escaped(status, code, &message)
}

/// A page that shows an error. Both texts contain no markup.
fn page_of_escaped(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let text = format!(
        "<!doctype html>\n<html><head><title>{status}</title></head>\n<body><h1>{status}</h1>\n\
         <ul><li>Code: {code}</li><li>Message: {message}</li></ul></body></html>\n"
    );
    let mut answer = Response::new(Body::from(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    answer
}
