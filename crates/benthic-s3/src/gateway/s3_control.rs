//! The part of the API S3 Control that Terraform needs: the tags of a bucket, by its ARN.
//!
//! Clients send these requests to the path `/v20180820/tags/ARN`, signed for the service `s3`, with
//! the account in a header. The header tells them from requests for a bucket with that name.
//!
//! Source: the API reference of S3 Control (2018-08-20).

use super::auth::Access;
use super::document::check_elements;
use super::service::Permission;
use super::{Gateway, error, tags};
use crate::sal::Bucket;
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use s3s::dto::{CopySource, Tag};
use s3s::route::S3Route;
use s3s::xml::Deserializer;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};
use std::sync::Arc;

/// The namespace of the documents.
pub(super) const NAMESPACE: &str = "http://awss3control.amazonaws.com/doc/2018-08-20/";
const PATH: &str = "/v20180820/tags/";
const ACCOUNT: &str = "x-amz-account-id";
/// Maximum size of a document with tags, in bytes.
const BODY_BYTES_MAX: usize = 128 * 1024;
const ROOT: &str = "TagResourceRequest";

/// Whether a request is one of S3 Control.
pub(super) fn is_control(uri: &Uri, headers: &HeaderMap) -> bool {
    uri.path().starts_with(PATH) && headers.contains_key(ACCOUNT)
}

/// Answers the requests.
pub(super) struct Control {
    pub gateway: Arc<Gateway>,
    pub access: Access,
}

#[async_trait]
impl S3Route for Control {
    fn is_match(&self, _: &Method, uri: &Uri, headers: &HeaderMap, _: &mut hyper::http::Extensions) -> bool {
        is_control(uri, headers)
    }

    async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let (operation, action) = match request.method {
            Method::GET => ("ListTagsForResource", "s3:ListTagsForResource"),
            Method::POST => ("TagResource", "s3:TagResource"),
            Method::DELETE => ("UntagResource", "s3:UntagResource"),
            _ => return Err(s3_error!(MethodNotAllowed)),
        };
        let sender = self
            .access
            .sender(
                (operation, Some(Permission::of(action))),
                request.credentials.as_ref(),
                None,
                &request.headers,
                request.uri.query().unwrap_or_default(),
            )
            .await?;
        request.extensions.insert(sender);
        let body = Limited::new(std::mem::take(&mut request.input), BODY_BYTES_MAX).collect().await;
        let body = body.map_err(error::body)?.to_bytes();
        let account = request.headers.get(ACCOUNT).and_then(|account| account.to_str().ok());
        let name = bucket_of(request.uri.path())?;
        let gateway = &self.gateway;
        let access = gateway.authorize_bucket(&request, &name, &account.map(str::to_owned)).await?;
        let mut text = String::new();
        let mut status = StatusCode::NO_CONTENT;
        match operation {
            "ListTagsForResource" => {
                status = StatusCode::OK;
                text = format!("<ListTagsForResourceResult xmlns=\"{NAMESPACE}\"><Tags>");
                for (key, value) in tags::get(&access.bucket.attributes)? {
                    let (key, value) = (escape(&key), escape(&value));
                    text += &format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
                }
                text += "</Tags></ListTagsForResourceResult>";
            }
            "TagResource" => {
                let new = tags_in(&body)?;
                let change = |bucket: &mut Bucket| tags::add(&mut bucket.attributes, &new);
                gateway.change_bucket(access.bucket, change).await?;
            }
            _ => {
                let pairs = url::form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes());
                let keys = pairs.filter(|(name, _)| name == "tagKeys").map(|(_, key)| key.into_owned());
                let keys: Vec<String> = keys.collect();
                if keys.is_empty() {
                    return Err(s3_error!(InvalidRequest, "name at least one tag, in tagKeys"));
                }
                let change = |bucket: &mut Bucket| tags::remove(&mut bucket.attributes, &keys);
                gateway.change_bucket(access.bucket, change).await?;
            }
        }
        let mut response = S3Response::new(Body::from(Bytes::from(text)));
        response.status = Some(status);
        if status == StatusCode::OK {
            response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        }
        Ok(response)
    }
}

/// The bucket in a path. Its ARN is percent-encoded.
fn bucket_of(path: &str) -> S3Result<String> {
    // `CopySource` decodes a key.
    let source = CopySource::parse(&format!("bucket/{}", path.strip_prefix(PATH).unwrap_or_default()));
    let bucket = match &source {
        Ok(CopySource::Bucket { key, version_id: None, .. }) => key.strip_prefix("arn:aws:s3:::"),
        _ => None,
    };
    let bucket = bucket.filter(|bucket| !bucket.is_empty() && !bucket.contains('/'));
    bucket.map(str::to_owned).ok_or_else(|| {
        s3_error!(InvalidRequest, "only buckets have tags here; the ARN of a bucket is arn:aws:s3:::BUCKET")
    })
}

/// The tags in the document of a TagResource.
///
/// # Errors
/// `MalformedXML`, also for an unknown element.
pub(super) fn tags_in(body: &[u8]) -> S3Result<tags::Pairs> {
    check_elements(body)?;
    let mut document = Deserializer::new(body);
    let mut list: Vec<Tag> = Vec::new();
    let parsed = document.named_element(ROOT, |document| {
        document.for_each_element(|document, _| {
            list.extend(document.list_content::<Tag>("Tag")?);
            Ok(())
        })
    });
    let parsed = parsed.and_then(|()| document.expect_eof());
    parsed.map_err(|error| s3_error!(error, MalformedXML))?;
    tags::pairs(&list)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
#[path = "s3_control_tests.rs"]
mod tests;
