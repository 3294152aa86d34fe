//! PostObject, an upload by an HTML form: corrects the answers in which `s3s` differs from S3, and
//! adds the fields `acl` and `tagging`, which `s3s` checks but does not pass on.
//!
//! The gateway copies the beginning of the body while `s3s` reads it, and looks for the two fields
//! there. This parser and that of `s3s` can disagree about a form, and then a field would escape
//! the form's policy. So the policy is checked again for the values that this parser finds, and for
//! fields that it does not find.

use super::tags;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use parking_lot::Mutex;
use s3s::dto::{ObjectCannedACL, PostObjectInput, PutObjectInput};
use s3s::post_policy::{PostPolicy, PostPolicyCondition};
use s3s::{Body, S3Request, S3Result, s3_error};
use std::sync::Arc;

/// Maximum size of all that comes before the file in a form, in bytes. AWS permits 20,000.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
const FORM: &[u8] = b"multipart/form-data";

/// The beginning of the body of a form.
pub(super) struct FormHead {
    boundary: String,
    /// `None` after the fields were read.
    data: Mutex<Option<Vec<u8>>>,
}

impl FormHead {
    /// The form of a request, whose body has not been read yet.
    pub fn of(method: &Method, headers: &HeaderMap) -> Option<Arc<FormHead>> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        is_form(method, headers).then(|| {
            let boundary = kind.and_then(|kind| parameter(kind, "boundary")).unwrap_or_default().to_owned();
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
/// `MalformedPOSTRequest`, `MalformedXML`; `AccessDenied` if the form's policy does not permit a
/// value, or demands a field that is missing.
pub(super) fn add_fields(request: &mut S3Request<PostObjectInput>) -> S3Result<()> {
    let malformed = || s3_error!(MalformedPOSTRequest, "a form must begin with its fields");
    let head = request.extensions.get::<Arc<FormHead>>().ok_or_else(malformed)?;
    let mut data = head.data.lock();
    let fields = data.as_deref().and_then(|data| fields(data, &head.boundary)).ok_or_else(malformed)?;
    let policy = request.input.policy.as_ref();
    // As for other fields, the last one of a name counts.
    let find = |wanted: &str| {
        let found = fields.iter().rfind(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let value = found.map(|(_, value)| *value);
        if policy.is_some_and(|policy| !permits(policy, wanted, value)) {
            let message = "the policy of the form does not permit this value of the field";
            return Err(s3_error!(AccessDenied, "{message} {wanted}"));
        }
        Ok(value.filter(|value| !value.is_empty()))
    };
    let (acl, tagging) = (find("acl")?, find("tagging")?);
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
    *data = None;
    Ok(())
}

/// Whether the policy of a form permits this value of a field. The policy must name each field that
/// the form has. A field that the form does not have counts as empty.
fn permits(policy: &PostPolicy, name: &str, value: Option<&str>) -> bool {
    let given = value.unwrap_or_default();
    let mut decisions = policy.conditions.iter().filter_map(|condition| match condition {
        PostPolicyCondition::Eq { field, value: wanted } => (field == name).then(|| given == wanted),
        PostPolicyCondition::StartsWith { field, prefix } => {
            (field == name).then(|| given.starts_with(prefix))
        }
        PostPolicyCondition::ContentLengthRange { .. } => None,
    });
    decisions.next().unwrap_or(value.is_none()) && decisions.all(|permitted| permitted)
}

/// The names and values of the fields before the file; `None` if the beginning of a form is not
/// complete or not as it must be.
fn fields<'a>(form: &'a [u8], boundary: &str) -> Option<Vec<(&'a str, &'a str)>> {
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    // There may be a preamble.
    let mut rest = match form.strip_prefix(&delimiter[2..]) {
        Some(rest) => rest,
        None => split(form, &delimiter)?.1,
    };
    let mut fields = Vec::new();
    loop {
        let (padding, part) = split(rest, b"\r\n")?;
        if !padding.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return None;
        }
        let (head, value) = split(part, b"\r\n\r\n")?;
        let name = name_in(std::str::from_utf8(head).ok()?)?;
        if name.eq_ignore_ascii_case("file") {
            return Some(fields);
        }
        let (value, next) = split(value, &delimiter)?;
        fields.push((name, std::str::from_utf8(value).ok()?));
        rest = next;
    }
}

/// What is before and after the first `separator`.
fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(separator.len()).position(|window| window == separator)?;
    Some((&bytes[..at], &bytes[at + separator.len()..]))
}

/// The name of a field, from the head of its part.
fn name_in(head: &str) -> Option<&str> {
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    parameter(disposition, "name")
}

/// A parameter of a header such as `form-data; name="key"`.
fn parameter<'a>(header: &'a str, wanted: &str) -> Option<&'a str> {
    header.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"'))
    })
}

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
    method == Method::POST && kind.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM))
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
