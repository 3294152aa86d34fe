//! PostObject, an upload by an HTML form: corrects the answers in which `s3s` differs from S3.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Response, StatusCode};
use s3s::Body;

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
