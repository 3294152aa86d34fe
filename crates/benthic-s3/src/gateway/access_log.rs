//! Access logs: one line about each request on a bucket that has a log.
//!
//! The format is that of AWS ("Amazon S3 server access log format" in the S3 user guide): 26 fields
//! with spaces between them. A field without a value is a dash. The line is made when the last byte
//! of the answer has been sent, or the connection has ended.

use super::auth::Peer;
use super::bucket_logging::LogTarget;
use super::log_delivery::{AccessLogs, Group, digits};
use crate::sal::Bucket;
use crate::upstream::sign::encode;
use benthic_core::Environment;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HOST, HeaderMap, HeaderName, HeaderValue, REFERER,
    USER_AGENT,
};
use hyper::http::Extensions;
use hyper::{Method, Request, Response, Uri, Version};
use parking_lot::Mutex;
use s3s::dto::CopySource;
use s3s::{Body, StdError};
use std::borrow::Cow;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use url::form_urlencoded;

/// Maximum length of a header in a line, in bytes. The rest is cut off.
const FIELD_BYTES_MAX: usize = 1_024;
/// Maximum length of a key that is not from the URI, in bytes and before it is escaped. Longer ones
/// are not valid.
const KEY_BYTES_MAX: usize = 1_024;
/// Maximum length of the URI in a line, in bytes. A key of 1,024 bytes may be escaped.
const URI_BYTES_MAX: usize = 8 * 1_024;
/// Those in the line of a deletion among several, of which one request may have 1,000. The line of
/// the request itself has more of them.
const BATCH_FIELD_BYTES_MAX: usize = 128;
const BATCH_URI_BYTES_MAX: usize = 256;

/// Parameters whose values are not in a line: with them, a reader of the log could repeat a request
/// that was signed in advance.
const SECRETS: [&str; 2] = ["X-Amz-Signature", "X-Amz-Security-Token"];

/// The resources in the names of operations that are not derived from `OBJECT` or `BUCKET`.
const RESOURCES: [(&str, &str); 53] = [
    ("AbortMultipartUpload", "REST.DELETE.UPLOAD"),
    ("CompleteMultipartUpload", "REST.POST.UPLOAD"),
    ("CopyObject", "REST.COPY.OBJECT"),
    ("CreateMultipartUpload", "REST.POST.UPLOADS"),
    ("DeleteBucketCors", "REST.DELETE.CORS"),
    ("DeleteBucketEncryption", "REST.DELETE.ENCRYPTION"),
    ("DeleteBucketLifecycle", "REST.DELETE.LIFECYCLE"),
    ("DeleteBucketOwnershipControls", "REST.DELETE.OWNERSHIP_CONTROLS"),
    ("DeleteBucketPolicy", "REST.DELETE.BUCKETPOLICY"),
    ("DeleteBucketTagging", "REST.DELETE.TAGGING"),
    ("DeleteBucketWebsite", "REST.DELETE.WEBSITE"),
    ("DeleteObjectTagging", "REST.DELETE.OBJECT_TAGGING"),
    ("DeleteObjects", "REST.POST.MULTI_OBJECT_DELETE"),
    ("DeletePublicAccessBlock", "REST.DELETE.PUBLIC_ACCESS_BLOCK"),
    ("GetBucketAcl", "REST.GET.ACL"),
    ("GetBucketCors", "REST.GET.CORS"),
    ("GetBucketEncryption", "REST.GET.ENCRYPTION"),
    ("GetBucketLifecycleConfiguration", "REST.GET.LIFECYCLE"),
    ("GetBucketLocation", "REST.GET.LOCATION"),
    ("GetBucketLogging", "REST.GET.LOGGING_STATUS"),
    ("GetBucketNotificationConfiguration", "REST.GET.NOTIFICATION"),
    ("GetBucketOwnershipControls", "REST.GET.OWNERSHIP_CONTROLS"),
    ("GetBucketPolicy", "REST.GET.BUCKETPOLICY"),
    ("GetBucketPolicyStatus", "REST.GET.POLICY_STATUS"),
    ("GetBucketRequestPayment", "REST.GET.REQUEST_PAYMENT"),
    ("GetBucketTagging", "REST.GET.TAGGING"),
    ("GetBucketVersioning", "REST.GET.VERSIONING"),
    ("GetBucketWebsite", "REST.GET.WEBSITE"),
    ("GetObjectAcl", "REST.GET.ACL"),
    ("GetObjectAttributes", "REST.GET.OBJECT_ATTRIBUTES"),
    ("GetObjectLegalHold", "REST.GET.OBJECT_LOCK_LEGALHOLD"),
    ("GetObjectLockConfiguration", "REST.GET.OBJECT_LOCK_CONFIGURATION"),
    ("GetObjectRetention", "REST.GET.OBJECT_LOCK_RETENTION"),
    ("GetObjectTagging", "REST.GET.OBJECT_TAGGING"),
    ("GetPublicAccessBlock", "REST.GET.PUBLIC_ACCESS_BLOCK"),
    ("ListMultipartUploads", "REST.GET.UPLOADS"),
    ("ListObjectVersions", "REST.GET.BUCKETVERSIONS"),
    ("ListParts", "REST.GET.UPLOAD"),
    ("PutBucketAcl", "REST.PUT.ACL"),
    ("PutBucketCors", "REST.PUT.CORS"),
    ("PutBucketEncryption", "REST.PUT.ENCRYPTION"),
    ("PutBucketLifecycleConfiguration", "REST.PUT.LIFECYCLE"),
    ("PutBucketLogging", "REST.PUT.LOGGING_STATUS"),
    ("PutBucketNotificationConfiguration", "REST.PUT.NOTIFICATION"),
    ("PutBucketPolicy", "REST.PUT.BUCKETPOLICY"),
    ("PutBucketTagging", "REST.PUT.TAGGING"),
    ("PutBucketVersioning", "REST.PUT.VERSIONING"),
    ("PutBucketWebsite", "REST.PUT.WEBSITE"),
    ("PutObjectAcl", "REST.PUT.ACL"),
    ("PutObjectTagging", "REST.PUT.OBJECT_TAGGING"),
    ("RenameObject", "REST.PUT.RENAME"),
    ("UploadPart", "REST.PUT.PART"),
    ("UploadPartCopy", "REST.COPY.PART"),
];

/// The facts about a request that operations find out. It is one of the request's extensions.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    operation: String,
    requester: Option<String>,
    /// The key, if the path does not have it.
    key: Option<String>,
    needs_acl: bool,
    deleted: Vec<Deleted>,
}

/// A deletion among several of one request.
pub(super) struct Deleted {
    pub key: String,
    pub version: Option<String>,
    /// The code of the error.
    pub failure: Option<String>,
}

impl Notes {
    fn change(extensions: &Extensions, change: impl FnOnce(&mut Noted)) {
        if let Some(Notes(noted)) = extensions.get() {
            change(&mut noted.lock());
        }
    }

    /// Notes the operation and the caller of a request.
    pub fn of_caller(extensions: &Extensions, operation: String, requester: Option<String>) {
        Notes::change(extensions, |noted| (noted.operation, noted.requester) = (operation, requester));
    }

    /// Notes a key that is not in the path.
    pub fn of_key(extensions: &Extensions, key: &str) {
        Notes::change(extensions, |noted| noted.key = Some(key.to_owned()));
    }

    /// Notes that only an access control list allows the request.
    pub fn of_acl(extensions: &Extensions) {
        Notes::change(extensions, |noted| noted.needs_acl = true);
    }

    /// Notes the deletions of a request.
    pub fn of_deletions(extensions: &Extensions, deleted: Vec<Deleted>) {
        Notes::change(extensions, |noted| noted.deleted = deleted);
    }
}

/// A request, as a line needs it.
pub(super) struct Visit {
    /// The id of the request.
    id: String,
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    peer: Option<Peer>,
    is_website: bool,
    begun_unix_ms: u64,
    begun_ms: u64,
    notes: Notes,
}

/// The headers that a line needs.
const HEADERS: [HeaderName; 7] = [
    AUTHORIZATION,
    CONTENT_LENGTH,
    HOST,
    REFERER,
    USER_AGENT,
    HeaderName::from_static("x-amz-copy-source"),
    HeaderName::from_static("x-amz-decoded-content-length"),
];

impl Visit {
    /// Keeps the facts about a request that a line needs, and adds [`Notes`] to its extensions.
    pub fn begin<B>(request: &mut Request<B>, is_website: bool, environment: &Environment) -> Visit {
        let mut headers = HeaderMap::new();
        for name in HEADERS {
            if let Some(value) = request.headers().get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let notes = Notes::default();
        request.extensions_mut().insert(notes.clone());
        let mut id = [0; 8];
        if let Err(error) = environment.random.fill(&mut id) {
            tracing::warn!(%error, "a request has no id of its own");
        }
        Visit {
            id: format!("{:016X}", u64::from_be_bytes(id)),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers,
            peer: request.extensions().get().copied(),
            is_website,
            begun_unix_ms: environment.unix_ms(),
            begun_ms: environment.clock.monotonic_ms(),
            notes,
        }
    }

    /// Adds the id of the request to the headers of its answer, and to the document of an error.
    pub fn add_id(&self, mut answer: Response<Body>) -> Response<Body> {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            answer.headers_mut().insert("x-amz-request-id", id);
        }
        let is_error = answer.status().is_client_error() || answer.status().is_server_error();
        let document = answer.body().bytes().filter(|_| is_error);
        let text = document.and_then(|document| String::from_utf8(document.into()).ok());
        if let Some((start, "")) = text.as_ref().and_then(|text| text.split_once("</Error>")) {
            let text = format!("{start}<RequestId>{}</RequestId></Error>", self.id);
            answer.headers_mut().remove(CONTENT_LENGTH);
            *answer.body_mut() = Body::from(text);
        }
        answer
    }

    pub fn host(&self) -> &str {
        self.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
    }

    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The bucket and the key of the source of a copy.
    pub fn copy_source(&self) -> Option<(String, String)> {
        let source = self.headers.get("x-amz-copy-source")?.to_str().ok()?;
        match CopySource::parse(source).ok()? {
            CopySource::Bucket { bucket, key, .. } => Some((bucket.into(), key.into())),
            _ => None,
        }
    }

    /// The key in the path, escaped as there.
    fn key(&self, bucket: &str) -> Option<String> {
        let path = self.path().trim_start_matches('/');
        let key = match path.strip_prefix(bucket) {
            // A bucket that precedes the domain may also be the beginning of the key.
            Some(rest) if !self.host().starts_with(bucket) => rest.strip_prefix('/').unwrap_or(rest),
            _ => path,
        };
        (!key.is_empty()).then(|| key.to_owned())
    }

    fn is_signed_in_query(&self) -> bool {
        self.uri.query().unwrap_or_default().contains("X-Amz-Signature=")
    }
}

/// The answer to a request, as a line needs it.
struct Answered {
    status: u16,
    error: Option<String>,
    object_bytes: Option<u64>,
    version: Option<String>,
    first_byte_ms: u64,
}

/// The buckets whose logs get lines about a request.
pub(super) struct LoggedBuckets {
    /// The bucket of the request.
    pub bucket: Option<(Bucket, LogTarget)>,
    /// The bucket from which the request copies, and the key.
    pub source: Option<(Bucket, LogTarget, String)>,
}

/// Makes the lines about a request when its answer ends.
struct PendingLine {
    logs: Arc<AccessLogs>,
    environment: Environment,
    visit: Visit,
    answered: Answered,
    buckets: LoggedBuckets,
    sent_bytes: u64,
}

/// Lets the lines be made at the end of the answer.
pub(super) fn log(
    logs: &Arc<AccessLogs>,
    environment: &Environment,
    visit: Visit,
    buckets: LoggedBuckets,
    answer: Response<Body>,
) -> Response<Body> {
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let number = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()?.parse().ok());
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let object_bytes = match visit.method {
        _ if is_error => None,
        Method::GET | Method::HEAD => {
            let range =
                header(CONTENT_RANGE.as_str()).and_then(|range| range.rsplit_once('/')?.1.parse().ok());
            range.or_else(|| number(answer.headers().get(CONTENT_LENGTH)))
        }
        Method::PUT => number(visit.headers.get("x-amz-decoded-content-length"))
            .or_else(|| number(visit.headers.get(CONTENT_LENGTH))),
        _ => None,
    };
    let error = answer.body().bytes().filter(|_| is_error).and_then(|body| code_of(&body));
    let answered = Answered {
        status: status.as_u16(),
        error,
        object_bytes,
        version: header("x-amz-version-id").map(str::to_owned),
        first_byte_ms: environment.clock.monotonic_ms(),
    };
    let (logs, environment) = (Arc::clone(logs), environment.clone());
    let line = PendingLine { logs, environment, visit, answered, buckets, sent_bytes: 0 };
    answer.map(|body| Body::http_body_unsync(LoggedBody { body, line }))
}

/// The code in the document of an error.
fn code_of(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(4_096)]);
    let (_, rest) = text.split_once("<Code>")?;
    Some(rest.split_once("</Code>")?.0.to_owned())
}

/// Counts the bytes of an answer. A line is made when it is dropped.
struct LoggedBody {
    body: Body,
    line: PendingLine,
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            this.line.sent_bytes += data.len() as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for PendingLine {
    fn drop(&mut self) {
        let noted = std::mem::take(&mut *self.visit.notes.0.lock());
        if let Some((bucket, target, key)) = &self.buckets.source
            && self.answered.status < 400
        {
            let operation = match noted.operation.as_str() {
                "UploadPartCopy" => "REST.COPY.PART_GET",
                _ => "REST.COPY.OBJECT_GET",
            };
            let line = self.line(&noted, &bucket.owner, &bucket.name, operation, Some(escape_key(key)), None);
            self.add(bucket, target, &line);
        }
        let Some((bucket, target)) = &self.buckets.bucket else { return };
        let key = noted.key.as_deref().map(escape_key).or_else(|| self.visit.key(&bucket.name));
        let operation = self.operation(&noted, key.is_some());
        let line = self.line(&noted, &bucket.owner, &bucket.name, &operation, key, None);
        self.add(bucket, target, &line);
        // If too many lines wait, some of these are dropped, but not that of the request.
        for deleted in &noted.deleted {
            let key = Some(escape_key(&deleted.key));
            let operation = "BATCH.DELETE.OBJECT";
            let line = self.line(&noted, &bucket.owner, &bucket.name, operation, key, Some(deleted));
            self.add(bucket, target, &line);
        }
    }
}

impl PendingLine {
    fn add(&self, bucket: &Bucket, target: &LogTarget, line: &str) {
        self.logs.add(Group::new(bucket, target, self.visit.begun_unix_ms), line);
    }

    fn operation(&self, noted: &Noted, has_key: bool) -> String {
        let method = &self.visit.method;
        if let Some((_, known)) = RESOURCES.iter().find(|(name, _)| *name == noted.operation) {
            return (*known).to_owned();
        }
        match (method, has_key) {
            _ if self.visit.is_website => format!("WEBSITE.{method}.OBJECT"),
            (&Method::OPTIONS, _) => "REST.OPTIONS.PREFLIGHT".to_owned(),
            (_, true) => format!("REST.{method}.OBJECT"),
            (_, false) => format!("REST.{method}.BUCKET"),
        }
    }

    /// One line. A deletion among several has its own version, status and error.
    fn line(
        &self,
        noted: &Noted,
        owner: &str,
        bucket: &str,
        operation: &str,
        key: Option<String>,
        deleted: Option<&Deleted>,
    ) -> String {
        let PendingLine { visit, answered, .. } = self;
        let (field_bytes_max, uri_bytes_max) = match deleted {
            None => (FIELD_BYTES_MAX, URI_BYTES_MAX),
            Some(_) => (BATCH_FIELD_BYTES_MAX, BATCH_URI_BYTES_MAX),
        };
        let header = |name| quote(visit.headers.get(name), field_bytes_max);
        let now_ms = self.environment.clock.monotonic_ms();
        let took_ms = |end_ms: u64| end_ms.saturating_sub(visit.begun_ms).to_string();
        let address = visit.peer.map(|peer| peer.address.to_canonical().to_string());
        let uri = visit.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let uri = redact(uri);
        let uri = shorten(&uri, uri_bytes_max);
        let auth_type = match (&noted.requester, visit.is_signed_in_query()) {
            (None, _) => None,
            (_, true) => Some("QueryString"),
            _ if visit.headers.contains_key(AUTHORIZATION) => Some("AuthHeader"),
            // The signature is among the fields of a form.
            _ => Some("QueryString"),
        };
        let (status, error, version) = match deleted {
            None => (answered.status, answered.error.clone(), answered.version.clone()),
            Some(Deleted { failure: None, version, .. }) => (204, None, version.clone()),
            Some(Deleted { failure: Some(code), version, .. }) => {
                let status = match code.as_str() {
                    "AccessDenied" => 403,
                    "PreconditionFailed" => 412,
                    "InternalError" => 500,
                    _ => 400,
                };
                (status, Some(code.clone()), version.clone())
            }
        };
        // Those of a deletion among several are as the client has sent them.
        let [error, version] =
            [error, version].map(|text| text.map(|text| escape_controls(shorten(&text, FIELD_BYTES_MAX))));
        let is_whole = deleted.is_none();
        let sent = (self.sent_bytes > 0 && is_whole).then(|| self.sent_bytes.to_string());
        let mut line = String::with_capacity(512);
        let mut field = |text: Option<&str>| {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(text.filter(|text| !text.is_empty()).unwrap_or("-"));
        };
        field(Some(owner));
        field(Some(bucket));
        field(Some(&time(visit.begun_unix_ms)));
        field(address.as_deref());
        field(noted.requester.as_deref());
        field(Some(&visit.id));
        field(Some(operation));
        field(key.as_deref().map(|key| shorten(key, URI_BYTES_MAX)));
        field(Some(&format!("\"{} {} {:?}\"", visit.method, escape_controls(uri), visit.version)));
        field(Some(&status.to_string()));
        field(error.as_deref());
        field(sent.as_deref());
        field(answered.object_bytes.filter(|_| is_whole).map(|bytes| bytes.to_string()).as_deref());
        field(is_whole.then(|| took_ms(now_ms)).as_deref());
        field(is_whole.then(|| took_ms(answered.first_byte_ms)).as_deref());
        field(Some(&header(REFERER)));
        field(Some(&header(USER_AGENT)));
        field(version.as_deref());
        // The id of the host that answered.
        field(None);
        field(noted.requester.as_ref().map(|_| "SigV4"));
        field(visit.peer.and_then(|peer| peer.tls).map(|tls| tls.cipher_suite));
        field(auth_type);
        field(Some(&escape_controls(shorten(visit.host(), FIELD_BYTES_MAX.min(uri_bytes_max)))));
        field(visit.peer.and_then(|peer| peer.tls).map(|tls| tls.version));
        // The access point.
        field(None);
        field(noted.needs_acl.then_some("Yes"));
        line.push('\n');
        line
    }
}

/// A URI without the values of [`SECRETS`].
fn redact(uri: &str) -> Cow<'_, str> {
    let Some((path, query)) = uri.split_once('?') else { return Cow::Borrowed(uri) };
    let parameter = |text: &str| {
        // A client may escape any character of a name.
        let (name, _) = form_urlencoded::parse(text.as_bytes()).next()?;
        let secret = SECRETS.iter().find(|secret| name.eq_ignore_ascii_case(secret))?;
        Some(format!("{secret}=REDACTED"))
    };
    let parameters: Vec<_> =
        query.split('&').map(|text| parameter(text).map_or(Cow::Borrowed(text), Cow::Owned)).collect();
    Cow::Owned(format!("{path}?{}", parameters.join("&")))
}

fn shorten(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max.min(text.len()))]
}

/// A key that is not from the URI, escaped as there. That of a deletion that failed may have any
/// length.
fn escape_key(key: &str) -> String {
    encode(shorten(key, KEY_BYTES_MAX), true)
}

/// Escapes characters that would end a field.
fn escape_controls(text: &str) -> String {
    escape_unless(text, |byte| byte.is_ascii_graphic() && byte != b'"')
}

/// A header in quotes; a dash in quotes if there is none.
fn quote(value: Option<&HeaderValue>, bytes_max: usize) -> String {
    let Some(value) = value else { return "\"-\"".to_owned() };
    let text = String::from_utf8_lossy(value.as_bytes());
    let is_plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"';
    format!("\"{}\"", escape_unless(shorten(&text, bytes_max), is_plain))
}

fn escape_unless(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A time, such as `[06/Feb/2019:00:00:38 +0000]`.
fn time(unix_ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let [year, month, day, hour, minute, second] = digits(unix_ms);
    let month = month.parse().ok().and_then(|month: usize| MONTHS.get(month.checked_sub(1)?));
    format!("[{day}/{}/{year}:{hour}:{minute}:{second} +0000]", month.unwrap_or(&"-"))
}

#[cfg(test)]
#[path = "access_log_tests.rs"]
mod tests;
