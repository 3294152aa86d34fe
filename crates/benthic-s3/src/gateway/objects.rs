//! What operations on objects have in common: names of versions, conditions, what an object is given.

use super::auth::Asked;
use super::{Gateway, acl, error, names, refuse, tags};
use crate::sal::{Attributes, Condition, Object, VersionId, Versioning};
use bytes::Bytes;
use hyper::header::{ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};
use s3s::dto::{ETag, ETagCondition, Metadata, Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};

/// Most bytes of names and values of a user's metadata.
const METADATA_BYTES_MAX: usize = 2 * 1024;

/// A version as a client names it.
pub(super) fn version(text: &str) -> S3Result<VersionId> {
    text.parse().map_err(|_| s3_error!(InvalidArgument, "Invalid version id specified"))
}

/// How a version is told; not at all in a bucket that never had versions.
pub(super) fn told_version(mode: Versioning, version: VersionId) -> Option<String> {
    (mode != Versioning::Off || version != VersionId::Null).then(|| version.to_string())
}

pub(super) fn told_etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

/// The condition of a write.
pub(super) fn condition(
    if_match: Option<&ETagCondition>,
    if_none_match: Option<&ETagCondition>,
) -> S3Result<Condition> {
    match (if_match, if_none_match) {
        (None, None) => Ok(Condition::Always),
        (Some(ETagCondition::Any), None) => Ok(Condition::Exists),
        (Some(ETagCondition::ETag(etag)), None) => Ok(Condition::Matches(etag.value().to_owned())),
        (None, Some(ETagCondition::Any)) => Ok(Condition::Absent),
        (None, Some(ETagCondition::ETag(etag))) => Ok(Condition::Differs(etag.value().to_owned())),
        (Some(_), Some(_)) => {
            Err(s3_error!(NotImplemented, "If-Match and If-None-Match together are not implemented"))
        }
    }
}

/// Conditions of a read, or of the source of a copy.
pub(super) struct Preconditions<'a> {
    pub if_match: Option<&'a ETagCondition>,
    pub if_none_match: Option<&'a ETagCondition>,
    pub if_modified_since: Option<&'a Timestamp>,
    pub if_unmodified_since: Option<&'a Timestamp>,
}

impl Preconditions<'_> {
    /// # Errors
    /// `PreconditionFailed`; `NotModified` where a reader has the object already.
    pub fn check(&self, object: &Object) -> S3Result<()> {
        let is = |condition: &ETagCondition| match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(etag) => etag.value() == object.etag,
        };
        // Headers tell whole seconds.
        let modified = super::timestamp(object.modified_ms / 1_000 * 1_000);
        match (self.if_match, self.if_unmodified_since) {
            (Some(condition), _) if !is(condition) => return Err(s3_error!(PreconditionFailed)),
            (None, Some(since)) if modified > *since => return Err(s3_error!(PreconditionFailed)),
            _ => {}
        }
        match (self.if_none_match, self.if_modified_since) {
            (Some(condition), _) if is(condition) => Err(not_modified(object)),
            (None, Some(since)) if modified <= *since => Err(not_modified(object)),
            _ => Ok(()),
        }
    }

    /// The same for the source of a copy, of which nobody has anything already.
    pub fn check_source(&self, object: &Object) -> S3Result<()> {
        self.check(object).map_err(|_| s3_error!(PreconditionFailed))
    }
}

fn not_modified(object: &Object) -> S3Error {
    let mut headers = HeaderMap::new();
    if let Ok(etag) = told_etag(&object.etag).to_http_header() {
        headers.insert(ETAG, etag);
    }
    if let Some(modified) = http_date(object.modified_ms) {
        headers.insert(LAST_MODIFIED, modified);
    }
    let mut error = s3_error!(NotModified);
    error.set_headers(headers);
    error
}

fn http_date(unix_ms: u64) -> Option<HeaderValue> {
    let mut text = Vec::new();
    super::timestamp(unix_ms).format(TimestampFormat::HttpDate, &mut text).ok()?;
    HeaderValue::from_bytes(&text).ok()
}

/// What an object is given besides its data.
#[derive(Default)]
pub(super) struct Given<'a> {
    pub headers: [(&'static str, Option<&'a str>); 7],
    pub metadata: Option<&'a Metadata>,
    /// As in the header `x-amz-tagging`.
    pub tagging: Option<&'a str>,
    pub acl: Option<&'a str>,
}

impl Given<'_> {
    /// The attributes that the object gets.
    ///
    /// # Errors
    /// `MetadataTooLarge`, `InvalidTag`, `NotImplemented`.
    pub fn attributes(&self) -> S3Result<Attributes> {
        let mut attributes = Attributes::new();
        for (name, value) in self.headers {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                attributes.insert(name.to_owned(), Bytes::copy_from_slice(value.as_bytes()));
            }
        }
        let metadata = self.metadata.into_iter().flatten();
        if metadata.clone().map(|(name, value)| name.len() + value.len()).sum::<usize>() > METADATA_BYTES_MAX
        {
            return Err(s3_error!(MetadataTooLarge));
        }
        for (name, value) in metadata {
            let name = format!("{}{}", names::METADATA, name.to_ascii_lowercase());
            attributes.insert(name, Bytes::copy_from_slice(value.as_bytes()));
        }
        if let Some(tagging) = self.tagging {
            tags::set(&mut attributes, &tags::parse(tagging)?)?;
        }
        acl::set(&mut attributes, self.acl)?;
        Ok(attributes)
    }
}

/// What the inputs of PutObject, CopyObject and CreateMultipartUpload give to an object.
macro_rules! given {
    ($input:expr) => {{
        use $crate::gateway::names;
        $crate::gateway::acl::refuse_grants([
            &$input.grant_full_control,
            &$input.grant_read,
            &$input.grant_read_acp,
            &$input.grant_write_acp,
        ])?;
        $crate::gateway::refuse([
            ("encryption", $input.server_side_encryption.is_some()),
            ("encryption", $input.ssekms_key_id.is_some() || $input.ssekms_encryption_context.is_some()),
            ("encryption", $input.sse_customer_algorithm.is_some() || $input.sse_customer_key.is_some()),
            ("object lock", $input.object_lock_legal_hold_status.is_some()),
            (
                "object lock",
                $input.object_lock_mode.is_some() || $input.object_lock_retain_until_date.is_some(),
            ),
        ])?;
        $crate::gateway::objects::check_storage_class(
            $input.storage_class.as_ref().map(|class| class.as_str()),
        )?;
        $crate::gateway::objects::Given {
            headers: [
                (names::CONTENT_TYPE, $input.content_type.as_deref()),
                (names::CACHE_CONTROL, $input.cache_control.as_deref()),
                (names::CONTENT_DISPOSITION, $input.content_disposition.as_deref()),
                (names::CONTENT_ENCODING, $input.content_encoding.as_deref()),
                (names::CONTENT_LANGUAGE, $input.content_language.as_deref()),
                (names::EXPIRES, $input.expires.as_deref()),
                (names::WEBSITE_REDIRECT, $input.website_redirect_location.as_deref()),
            ],
            metadata: $input.metadata.as_ref(),
            tagging: $input.tagging.as_deref(),
            acl: $input.acl.as_ref().map(|acl| acl.as_str()),
        }
    }};
}
pub(super) use given;

/// There is one class.
pub(super) fn check_storage_class(class: Option<&str>) -> S3Result<()> {
    match class {
        None | Some("STANDARD") => Ok(()),
        Some(_) => Err(s3_error!(InvalidStorageClass, "the storage class here is STANDARD")),
    }
}

/// A text among the attributes.
pub(super) fn text(attributes: &Attributes, name: &str) -> Option<String> {
    attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// The metadata that a user gave.
pub(super) fn metadata(attributes: &Attributes) -> Option<Metadata> {
    let pairs = attributes.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(names::METADATA)?.to_owned(), String::from_utf8_lossy(value).into_owned()))
    });
    let metadata: Metadata = pairs.collect();
    (!metadata.is_empty()).then_some(metadata)
}

impl Gateway {
    /// An object, for the bucket's owner; a delete marker is none.
    pub(super) async fn visible(&self, asked: &Asked, key: &str, named: Option<&str>) -> S3Result<Object> {
        let wanted = named.map(version).transpose()?;
        let subject = if wanted.is_some() { error::Subject::Version } else { error::Subject::Object };
        let found = self.sal.object(&asked.bucket, key, wanted).await;
        let object = found.map_err(|failure| error::s3_error(failure, subject))?;
        refuse_marker(&object, wanted.is_some())?;
        Ok(object)
    }
}

/// A delete marker is not there, or no object, depending on how it was asked for.
pub(super) fn refuse_marker(object: &Object, named: bool) -> S3Result<()> {
    if !object.marker {
        return Ok(());
    }
    let mut headers = HeaderMap::new();
    headers.insert("x-amz-delete-marker", HeaderValue::from_static("true"));
    if let Ok(version) = HeaderValue::from_str(&object.version.to_string()) {
        headers.insert("x-amz-version-id", version);
    }
    let mut error = if named { s3_error!(MethodNotAllowed) } else { s3_error!(NoSuchKey) };
    error.set_headers(headers);
    Err(error)
}

/// Refuses what no request here can mean.
pub(super) fn refuse_customer_keys(algorithm: bool, key: bool) -> S3Result<()> {
    refuse([("encryption", algorithm || key)])
}
