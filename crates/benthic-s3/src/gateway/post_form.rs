//! PostObject, an upload by an HTML form: corrects the answers in which `s3s` differs from S3, and
//! adds the fields `acl` and `tagging`, which `s3s` checks but does not pass on.
//!
//! The gateway copies the beginning of the body while `s3s` reads it, and looks for the two fields
//! there, with the parser of `s3s`. With another parser, a field that only one of them finds would
//! escape the form's policy, which `s3s` checks for the fields that it finds.

use super::date_header::AMZ_DATE;
use super::signature_time::amz_date_ms;
use super::{request_payment, tags};
use bytes::Bytes;
use futures::{FutureExt, stream};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use mime::Mime;
use parking_lot::Mutex;
use s3s::dto::{ETagCondition, ObjectCannedACL, PostObjectInput, PutObjectInput};
use s3s::{Body, S3Request, S3Result, s3_error};
use s3s_multipart::{Boundary, Multipart, parse_content_disposition};
use std::sync::Arc;

/// Maximum size of all that comes before the file in a form, in bytes. AWS permits 20,000.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The beginning of the body of a form.
pub(super) struct FormHead {
    boundary: String,
    /// `None` after the fields were read.
    data: Mutex<Option<Vec<u8>>>,
}

/// When a form was signed, in milliseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct SignedAt(pub u64);

impl FormHead {
    /// The form of a request, whose body has not been read yet.
    pub fn of(method: &Method, headers: &HeaderMap) -> Option<Arc<FormHead>> {
        is_form(method, headers).then(|| {
            let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()?.parse::<Mime>().ok());
            let boundary = kind.as_ref().and_then(|kind| kind.get_param(mime::BOUNDARY));
            let boundary = boundary.map_or_else(String::new, |boundary| boundary.as_str().to_owned());
            Arc::new(FormHead { boundary, data: Mutex::new(Some(Vec::new())) })
        })
    }

    /// Adds a piece of the body.
    pub fn add(&self, data: &[u8]) {
        if let Some(head) = self.data.lock().as_mut() {
            let room = HEAD_BYTES_MAX.saturating_sub(head.len());
            head.extend_from_slice(&data[..data.len().min(room)]);
        }
    }

    /// Whether the beginning has its maximum size, but its fields were not read.
    fn is_full(&self) -> bool {
        self.data.lock().as_ref().is_some_and(|head| head.len() == HEAD_BYTES_MAX)
    }
}

/// Adds the fields `acl` and `tagging` of a form.
///
/// # Errors
/// `MalformedPOSTRequest`, `MalformedXML`.
pub(super) fn add_fields(request: &mut S3Request<PostObjectInput>) -> S3Result<()> {
    let malformed = || s3_error!(MalformedPOSTRequest, "a form must begin with its fields");
    let head = request.extensions.get::<Arc<FormHead>>().cloned().ok_or_else(malformed)?;
    let data = head.data.lock().clone().ok_or_else(malformed)?;
    let fields = fields(data, &head.boundary).ok_or_else(malformed)?;
    // As for other fields, the last one of a name counts.
    let find = |wanted: &str| {
        let found = fields.iter().rfind(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value).filter(|value| !value.is_empty())
    };
    let (acl, tagging) = (find("acl"), find("tagging"));
    let input = &mut request.input;
    if let Some(acl) = acl {
        if input.acl.is_some() {
            return Err(s3_error!(InvalidRequest, "a form has the field acl or x-amz-acl, not both"));
        }
        input.acl = Some(ObjectCannedACL::from(acl.to_owned()));
    }
    if let Some(document) = tagging {
        if input.tagging.is_some() {
            return Err(s3_error!(InvalidRequest, "a form has the field tagging or x-amz-tagging, not both"));
        }
        input.tagging = Some(tags::header_of(document)?);
    }
    // `s3s` has compared the date with the signature. Of several, another one can only be older.
    let dates = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(AMZ_DATE));
    if let Some(signed_ms) = dates.filter_map(|(_, date)| amz_date_ms(date)).min() {
        request.extensions.insert(SignedAt(signed_ms));
    }
    *head.data.lock() = None;
    Ok(())
}

/// The names and values of the fields before the file, as `s3s` finds them; `None` if the beginning
/// of a form is not complete or not as it must be.
fn fields(form: Vec<u8>, boundary: &str) -> Option<Vec<(String, String)>> {
    let boundary = Boundary::new(boundary.as_bytes()).ok()?;
    let parse = async {
        let mut parser = Multipart::new(stream::iter([Ok(Bytes::from(form))]), &boundary, HEAD_BYTES_MAX);
        let mut fields = Vec::new();
        loop {
            let mut part = parser.next_part().await.ok()??;
            let mut name = None;
            while let Some(header) = part.next_header().await.ok()? {
                if header.name.eq_ignore_ascii_case("content-disposition") {
                    let disposition = parse_content_disposition(header.value);
                    name = disposition.and_then(|found| found.name).map(<[u8]>::to_vec);
                }
            }
            let name = String::from_utf8(name?).ok()?;
            if name.eq_ignore_ascii_case("file") {
                return Some(fields);
            }
            let mut value = Vec::new();
            while let Some(data) = part.next_data().await.ok()? {
                value.extend_from_slice(&data);
            }
            fields.push((name, String::from_utf8(value).ok()?));
        }
    };
    // All data are there, so the parser waits for nothing.
    parse.now_or_never()?
}

/// Sets the headers that the fields of a form stand for, because policies look at headers.
pub(super) fn set_headers(request: &mut S3Request<PutObjectInput>) {
    if request.method != Method::POST {
        return;
    }
    let input = &request.input;
    let condition = |given: &ETagCondition| match given {
        ETagCondition::Any => "*".to_owned(),
        ETagCondition::ETag(etag) => format!("\"{}\"", etag.value()),
    };
    let if_match = input.if_match.as_ref().map(condition);
    let if_none_match = input.if_none_match.as_ref().map(condition);
    let fields = [
        ("if-match", if_match.as_deref()),
        ("if-none-match", if_none_match.as_deref()),
        ("x-amz-acl", input.acl.as_ref().map(|acl| acl.as_str())),
        ("x-amz-grant-full-control", input.grant_full_control.as_deref()),
        ("x-amz-grant-read", input.grant_read.as_deref()),
        ("x-amz-grant-read-acp", input.grant_read_acp.as_deref()),
        ("x-amz-grant-write-acp", input.grant_write_acp.as_deref()),
        ("x-amz-storage-class", input.storage_class.as_ref().map(|class| class.as_str())),
        ("x-amz-tagging", input.tagging.as_deref()),
        ("x-amz-website-redirect-location", input.website_redirect_location.as_deref()),
    ];
    // Headers of the request have no effect on the object, so policies must not see them.
    let given = request.headers.keys().map(HeaderName::as_str);
    let of_object = given.filter(|name| name.starts_with("x-amz-") && *name != request_payment::HEADER);
    for name in of_object.map(str::to_owned).collect::<Vec<_>>() {
        request.headers.remove(name.as_str());
    }
    for (name, value) in fields {
        request.headers.remove(name);
        // A value that no header can have fits no policy, either.
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            request.headers.insert(name, value);
        }
    }
}

/// Whether a request is a form, as `s3s` decides it. Otherwise a client could have policies see a
/// form where there is none.
pub(super) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    if method != Method::POST {
        return false;
    }
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.to_str().ok().and_then(|kind| kind.parse::<Mime>().ok());
    kind.is_some_and(|kind| kind.type_() == mime::MULTIPART && kind.subtype() == mime::FORM_DATA)
}

/// Corrects the answer to a form. If the policy does not allow the form, S3 answers AccessDenied,
/// but `s3s` answers InvalidPolicyDocument. S3 has an error of its own for fields that are too
/// large.
pub(super) async fn fix_answer(answer: Response<Body>, form: &FormHead) -> Response<Body> {
    if answer.status() != StatusCode::BAD_REQUEST {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // `s3s` created this document, so it is complete and small.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    if form.is_full() && text.contains("<Code>MalformedPOSTRequest</Code>") {
        let message = "the file of a form must begin within the first 64 KiB";
        let too_large = s3_error!(MaxPostPreDataLengthExceededError, "{message}");
        return too_large.to_http_response().unwrap_or_default();
    }
    let code = "<Code>InvalidPolicyDocument</Code>";
    if !text.contains(code) || !text.contains("<Message>Policy condition") {
        return Response::from_parts(parts, Body::from(body));
    }
    let text = text.replace(code, "<Code>AccessDenied</Code>");
    parts.status = StatusCode::FORBIDDEN;
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(Bytes::from(text)))
}

#[cfg(test)]
#[path = "post_form_tests.rs"]
mod tests;
