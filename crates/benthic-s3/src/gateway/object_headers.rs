//! The headers by which PutObject, CopyObject and CreateMultipartUpload describe an object, and
//! their storage as attributes.

use super::auth::{Authorized, On};
use super::{Gateway, acl, error, names, tags};
use crate::pool::STANDARD;
use crate::sal::{Attributes, Bucket, Lock};
use bytes::Bytes;
use s3s::dto::Metadata;
use s3s::{S3Request, S3Result, s3_error};
use std::borrow::Cow;

/// Maximum total size of the names and values of user metadata, in bytes.
const METADATA_BYTES_MAX: usize = 2 * 1024;

/// The description of an object: headers, metadata, tags, lock, ACL.
#[derive(Default)]
pub(super) struct ObjectHeaders<'a> {
    pub headers: [(&'static str, Option<&'a str>); 7],
    pub metadata: Option<&'a Metadata>,
    /// In the format of the header `x-amz-tagging`.
    pub tagging: Option<&'a str>,
    pub lock: Lock,
    /// The storage class.
    pub class: Option<&'a str>,
    pub acl: acl::RequestedAcl<'a>,
}

impl ObjectHeaders<'_> {
    /// Checks the description of an object of `owner`, and converts it to attributes.
    ///
    /// # Errors
    /// `MetadataTooLarge`, `InvalidTag`, `NotImplemented`; `AccessDenied` if the bucket forbids the
    /// ACL.
    pub fn attributes(&self, bucket: &Bucket, owner: &str) -> S3Result<Attributes> {
        let mut attributes = Attributes::new();
        if owner != bucket.owner {
            attributes.insert(names::OWNER.to_owned(), Bytes::copy_from_slice(owner.as_bytes()));
        }
        for (name, value) in self.headers {
            let value = match value {
                Some(value) if name == names::CONTENT_ENCODING && value.contains(CHUNKED) => {
                    Cow::Owned(without_chunked(value))
                }
                value => Cow::Borrowed(value.unwrap_or_default()),
            };
            if !value.is_empty() {
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
        self.acl.store(&mut attributes, (&bucket.attributes, &bucket.owner), owner)?;
        Ok(attributes)
    }
}

/// The parts of a description that have been checked, and the access of the caller.
pub(super) struct NewObject {
    pub access: Authorized,
    pub attributes: Attributes,
    pub lock: Lock,
    /// The storage class; `None` is STANDARD.
    pub class: Option<String>,
}

/// Collects the description from an input of PutObject, CopyObject or CreateMultipartUpload.
macro_rules! object_headers {
    ($input:expr) => {{
        use $crate::gateway::names;
        $crate::gateway::object_headers::ObjectHeaders {
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
            lock: $crate::gateway::object_lock::requested_lock(
                $input.object_lock_mode.as_ref().map(|mode| mode.as_str()),
                $input.object_lock_retain_until_date.as_ref(),
                $input.object_lock_legal_hold_status.as_ref().map(|status| status.as_str()),
            )?,
            class: $input.storage_class.as_ref().map(|class| class.as_str()),
            acl: $crate::gateway::acl::requested_acl!($input),
        }
    }};
}
pub(super) use object_headers;

impl Gateway {
    /// Returns the bucket in which the caller may create an object with this description, and the
    /// description.
    pub(super) async fn authorize_new_object<T>(
        &self,
        request: &S3Request<T>,
        bucket: (&str, &Option<String>),
        key: &str,
        headers: &ObjectHeaders<'_>,
    ) -> S3Result<NewObject> {
        let lock = headers.lock;
        let on = On::New { key, lock, tags: None };
        let access = self.authorize(request, bucket.0, bucket.1, on).await?;
        for (action, is_given) in [
            ("s3:PutObjectAcl", headers.acl.is_given()),
            ("s3:PutObjectTagging", headers.tagging.is_some()),
            ("s3:PutObjectRetention", lock.retention.is_some()),
            ("s3:PutObjectLegalHold", lock.legal_hold.is_some()),
        ] {
            if is_given {
                self.require(request, &access, action, on).await?;
            }
        }
        self.check_new_lock(&access.bucket, &lock)?;
        let owner = access.owner_of_new(headers.acl.canned);
        let attributes = headers.attributes(&access.bucket, owner)?;
        self.check_receivers(&attributes, owner).await?;
        let class = self.storage_class(headers.class).await?;
        Ok(NewObject { access, attributes, lock, class })
    }

    /// Checks the name of a storage class for new data; `None` is STANDARD.
    pub(super) async fn storage_class(&self, name: Option<&str>) -> S3Result<Option<String>> {
        let Some(name) = name.filter(|name| *name != STANDARD) else { return Ok(None) };
        if self.sal.has_storage_class(name).await.map_err(error::bucket)? {
            return Ok(Some(name.to_owned()));
        }
        Err(s3_error!(
            InvalidStorageClass,
            "The storage class you specified is not valid: the operator has not mapped it to a pool"
        ))
    }
}

/// The encoding of a body that clients send in signed chunks.
const CHUNKED: &str = "aws-chunked";

/// The encodings of an object, without the one that belongs to the transfer.
fn without_chunked(encodings: &str) -> String {
    let encodings = encodings.split(',').map(str::trim).filter(|encoding| *encoding != CHUNKED);
    encodings.collect::<Vec<_>>().join(", ")
}

/// The name of a storage class in listings.
pub(super) fn class_name(class: &Option<String>) -> String {
    class.clone().unwrap_or_else(|| STANDARD.to_owned())
}

pub(super) fn text(attributes: &Attributes, name: &str) -> Option<String> {
    attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

pub(super) fn metadata(attributes: &Attributes) -> Option<Metadata> {
    let pairs = attributes.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(names::METADATA)?.to_owned(), String::from_utf8_lossy(value).into_owned()))
    });
    let metadata: Metadata = pairs.collect();
    (!metadata.is_empty()).then_some(metadata)
}
