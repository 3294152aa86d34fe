//! The documents that clients send: checks that `s3s` does not make.
//!
//! `s3s` verifies only one checksum of a document, and reports a mismatch as a server error. It
//! ignores unknown elements at the top of a document and in lists, all text in CDATA sections, and
//! what follows the digits of a number. So a typing error could remove all notifications or grants
//! of a bucket, a lifecycle rule with its prefix in a CDATA section would match every object, and
//! one with 3O days would expire objects after three. [`Document`] sees the bytes before
//! `s3s` does, and refuses such documents. Rejected: parsers of our own for all documents.

use super::checksums::{ALGORITHMS, Algorithm, Declaration, Verifier, single_checksum};
use super::http::XML_BYTES_MAX;
use crate::seal::hex;
use hyper::{HeaderMap, Method};
use quick_xml::Reader;
use quick_xml::events::Event;
use s3s::crypto::{Checksum as _, Sha256};
use s3s::{S3Result, s3_error};

/// The elements at the top of each document, by its root. Below, `s3s` refuses unknown elements
/// outside of [`LISTS`].
const ELEMENTS: [(&str, &[&str]); 22] = [
    ("AccessControlPolicy", &["AccessControlList", "Owner"]),
    ("BucketLifecycleConfiguration", &["Rule"]),
    ("BucketLoggingStatus", &["LoggingEnabled"]),
    ("CORSConfiguration", &["CORSRule"]),
    ("CompleteMultipartUpload", &["Part"]),
    ("CreateBucketConfiguration", &["Bucket", "Location", "LocationConstraint", "Tags"]),
    ("Delete", &["Object", "Quiet"]),
    ("LegalHold", &["Status"]),
    ("LifecycleConfiguration", &["Rule"]),
    (
        "NotificationConfiguration",
        &[
            "CloudFunctionConfiguration",
            "EventBridgeConfiguration",
            "QueueConfiguration",
            "TopicConfiguration",
        ],
    ),
    ("ObjectLockConfiguration", &["ObjectLockEnabled", "Rule"]),
    ("OwnershipControls", &["Rule"]),
    (
        "PublicAccessBlockConfiguration",
        &["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"],
    ),
    ("RequestPaymentConfiguration", &["Payer"]),
    ("Retention", &["Mode", "RetainUntilDate"]),
    ("SelectObjectContentRequest", &SELECT),
    // Some clients name the root after the type.
    ("SelectRequest", &SELECT),
    ("ServerSideEncryptionConfiguration", &["Rule"]),
    ("TagResourceRequest", &["Tags"]),
    ("Tagging", &["TagSet"]),
    ("VersioningConfiguration", &["MfaDelete", "Status"]),
    ("WebsiteConfiguration", &["ErrorDocument", "IndexDocument", "RedirectAllRequestsTo", "RoutingRules"]),
];

const SELECT: [&str; 6] = [
    "Expression",
    "ExpressionType",
    "InputSerialization",
    "OutputSerialization",
    "RequestProgress",
    "ScanRange",
];

/// The lists in documents that are elements of their own, and the element that each may have.
const LISTS: [(&str, &str); 5] = [
    ("AccessControlList", "Grant"),
    ("RoutingRules", "RoutingRule"),
    ("TagSet", "Tag"),
    ("Tags", "Tag"),
    ("TargetGrants", "Grant"),
];

/// The elements that contain a number, in any document.
const NUMBERS: [&str; 12] = [
    "Days",
    "DaysAfterInitiation",
    "End",
    "MaxAgeSeconds",
    "NewerNoncurrentVersions",
    "NoncurrentDays",
    "ObjectSizeGreaterThan",
    "ObjectSizeLessThan",
    "PartNumber",
    "Size",
    "Start",
    "Years",
];

/// Verifies a document against the checksums in the request headers, and checks its elements.
pub(super) struct Document {
    verifier: Verifier,
    sha256: Sha256,
    sha256_expected: Option<String>,
    /// `None` for a document that is too large for `s3s`.
    text: Option<Vec<u8>>,
}

impl Document {
    /// `None` for a request without a document. `is_bucket` is whether the request is about a
    /// bucket without a key, and `is_control` whether it is one of S3 Control.
    ///
    /// # Errors
    /// `InvalidRequest` for a document in chunks, as on AWS: only the data of objects and of parts
    /// may come in chunks. Else as [`Verifier::new`].
    pub fn of(
        method: &Method,
        query: &str,
        is_bucket: bool,
        is_control: bool,
        headers: &HeaderMap,
    ) -> Option<S3Result<Document>> {
        let has = |names: &[&str]| {
            // `s3s` decodes the names, too.
            url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| names.contains(&&*name))
        };
        let is_list = *method == Method::POST && has(&["uploadId"]);
        let is_document = match *method {
            Method::PUT => is_bucket || has(&["acl", "legal-hold", "retention", "tagging"]),
            Method::POST => is_control || is_list || has(&["delete", "select"]),
            _ => false,
        };
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let sha256 = value("x-amz-content-sha256");
        if !is_document {
            return None;
        }
        if sha256.as_ref().is_some_and(|sha256| sha256.starts_with("STREAMING-")) {
            return Some(Err(s3_error!(
                InvalidRequest,
                "the x-amz-content-sha256 is invalid; a document must not come in chunks"
            )));
        }
        // For a list of parts, the checksum headers describe the object and not the document.
        let declared = |algorithm: Algorithm| value(algorithm.header()).filter(|_| !is_list);
        let checksum = single_checksum(ALGORITHMS.map(|algorithm| (algorithm, declared(algorithm))));
        let verifier = checksum.and_then(|checksum| {
            let content_md5 = value("content-md5");
            let declared = Declaration { content_md5, checksum, ..Declaration::default() };
            Verifier::new(declared, None, headers)
        });
        let sha256_expected = sha256.filter(|sha256| sha256.len() == 64);
        let text = Some(Vec::new());
        Some(verifier.map(|verifier| Document { verifier, sha256: Sha256::new(), sha256_expected, text }))
    }

    pub fn update(&mut self, data: &[u8]) {
        self.verifier.update(data);
        self.sha256.update(data);
        self.text = self.text.take().filter(|text| text.len() + data.len() <= XML_BYTES_MAX);
        if let Some(text) = &mut self.text {
            text.extend_from_slice(data);
        }
    }

    /// Compares the checksums and checks the elements after the last byte.
    ///
    /// # Errors
    /// `BadDigest`; `XAmzContentSHA256Mismatch` if the document differs from the signed one;
    /// `MalformedXML`.
    pub fn finish(self) -> S3Result<()> {
        let sha256 = hex(&self.sha256.finalize());
        if self.sha256_expected.is_some_and(|expected| !expected.eq_ignore_ascii_case(&sha256)) {
            return Err(super::error::payload_mismatch());
        }
        self.verifier.finish()?;
        self.text.as_deref().map_or(Ok(()), check_elements)
    }
}

/// Refuses elements and text that `s3s` would ignore. It reports all other faults of a document
/// itself.
///
/// # Errors
/// `MalformedXML`.
pub(super) fn check_elements(document: &[u8]) -> S3Result<()> {
    let mut reader = Reader::from_reader(document);
    let mut known: &[&str] = &[];
    // The depth and the name of the elements of the last list.
    let mut list: Option<(usize, &str)> = None;
    let mut depth = 0_usize;
    // The text so far, inside an element that contains a number.
    let mut number: Option<String> = None;
    // Computed once, because input that is not valid XML may have many roots.
    let has_controls = has_controls(document);
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) | Err(_) => return Ok(()),
            Ok(event) => event,
        };
        if let Event::Start(start) | Event::Empty(start) = &event {
            let name = start.name();
            let name: &str = name.as_ref();
            let is_unknown = match depth {
                // Not a document of the gateway, or not XML.
                0 => match ELEMENTS.iter().find(|(root, _)| *root == name) {
                    Some(_) if has_controls => {
                        return Err(s3_error!(
                            MalformedXML,
                            "a document must not have control characters that XML forbids"
                        ));
                    }
                    Some((_, elements)) => {
                        known = *elements;
                        false
                    }
                    None => return Ok(()),
                },
                1 => !known.contains(&name),
                _ => list.is_some_and(|(inside, element)| depth == inside && name != element),
            };
            if is_unknown {
                return Err(s3_error!(MalformedXML, "the document has the unknown element {name}"));
            }
            if list.is_none_or(|(inside, _)| depth < inside) {
                let found = LISTS.iter().find(|(list, _)| *list == name);
                list = found.map(|(_, element)| (depth + 1, *element));
            }
            number = NUMBERS.contains(&name).then(String::new);
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::Empty(_) => number = None,
            Event::Text(text) => {
                if let Some(number) = &mut number {
                    number.push_str(&text);
                }
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                if let Some(text) = number.take().filter(|text| !is_number(text)) {
                    let name = end.name();
                    let name: &str = name.as_ref();
                    return Err(s3_error!(MalformedXML, "{name} must be a number, not '{text}'"));
                }
            }
            Event::GeneralRef(_) if number.is_some() => {
                return Err(s3_error!(MalformedXML, "a number must not contain references such as &#51;"));
            }
            Event::CData(_) if depth > 0 => {
                return Err(s3_error!(
                    MalformedXML,
                    "a document must not have CDATA sections; write &amp; and &lt; instead"
                ));
            }
            _ => {}
        }
    }
}

/// Whether a text has control characters that XML forbids. Then no answer can contain it.
pub(super) fn has_controls(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte < b' ' && !b"\t\n\r".contains(byte))
}

/// Whether a text is a number. White space after it is allowed.
fn is_number(text: &str) -> bool {
    let digits = text.trim_ascii_end();
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
