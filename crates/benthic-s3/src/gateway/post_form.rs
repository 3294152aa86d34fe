//! PostObject, an upload by an HTML form: corrects the answers in which `s3s` differs from S3.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use s3s::dto::PutObjectInput;
use s3s::{Body, S3Request};

/// Sets the headers that the fields of a form stand for, because policies look at headers.
pub(super) fn set_headers(request: &mut S3Request<PutObjectInput>) {
    if request.method != Method::POST {
        return;
    }
    let input = &request.input;
    let fields = [
        ("x-amz-acl", input.acl.as_ref().map(|acl| acl.as_str())),
        ("x-amz-grant-full-control", input.grant_full_control.as_deref()),
        ("x-amz-grant-read", input.grant_read.as_deref()),
        ("x-amz-grant-read-acp", input.grant_read_acp.as_deref()),
        ("x-amz-grant-write-acp", input.grant_write_acp.as_deref()),
        ("x-amz-storage-class", input.storage_class.as_ref().map(|class| class.as_str())),
        ("x-amz-tagging", input.tagging.as_deref()),
    ];
    for (name, value) in fields {
        request.headers.remove(name);
        // A value that no header can have fits no policy, either.
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            request.headers.insert(name, value);
        }
    }
}

pub(super) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    method == Method::POST && kind.starts_with(b"multipart/form-data")
}

/// Corrects the answer to a form. If the policy does not allow the form, S3 answers AccessDenied,
/// but `s3s` answers InvalidPolicyDocument.
pub(super) async fn fix_answer(answer: Response<Body>) -> Response<Body> {
    if answer.status() != StatusCode::BAD_REQUEST {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // `s3s` created this document, so it is complete and small.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let code = "<Code>InvalidPolicyDocument</Code>";
    if !text.contains(code) || !text.contains("<Message>Policy condition") {
        return Response::from_parts(parts, Body::from(body));
    }
    let text = text.replace(code, "<Code>AccessDenied</Code>");
    parts.status = StatusCode::FORBIDDEN;
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(Bytes::from(text)))
}
