//! Version ids, entity tags and delete markers of objects, as requests and answers contain them.
//!
//! In a bucket with versioning, DELETE without a version id writes a *delete marker*: a version
//! without data, which hides the versions before it. A read that finds a delete marker fails.

use super::auth::Authorized;
use super::{Gateway, UPDATES_MAX, error};
use crate::sal::{Object, VersionId, Versioning};
use benthic_core::ErrorKind;
use hyper::header::{HeaderMap, HeaderValue};
use s3s::dto::ETag;
use s3s::{S3Result, s3_error};

pub(super) fn parse_version_id(text: &str) -> S3Result<VersionId> {
    text.parse().map_err(|_| s3_error!(InvalidArgument, "Invalid version id specified"))
}

/// The version id of an object in an answer. `None` for a null version in a bucket that never had
/// versioning, because S3 omits the field there.
pub(super) fn version_field(mode: Versioning, version: VersionId) -> Option<String> {
    (mode != Versioning::Off || version != VersionId::Null).then(|| version.to_string())
}

/// An entity tag that stands for the exact bytes, unlike a weak one.
pub(super) fn strong_etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

impl Gateway {
    /// Finds an object, in the current version if no version id is given. A delete marker is an
    /// error. Only callers with access to the object get here, because the errors show whether a
    /// key exists.
    pub(super) async fn find_visible(
        &self,
        access: &Authorized,
        key: &str,
        version_id: Option<&str>,
    ) -> S3Result<Object> {
        let version = version_id.map(parse_version_id).transpose()?;
        let subject = if version.is_some() { error::Subject::Version } else { error::Subject::Object };
        let found = self.sal.object(&access.bucket, key, version).await;
        let object = found.map_err(|failure| error::s3_error(failure, subject))?;
        refuse_delete_marker(&object, version.is_some())?;
        access.check_owner(&object)?;
        Ok(object)
    }

    /// Changes the attributes or the lock of an object, and retries if another process changes them
    /// at the same time. Returns the object as it was before.
    pub(super) async fn change_object(
        &self,
        access: &Authorized,
        key: &str,
        version_id: Option<&str>,
        bypass_governance: bool,
        change: impl Fn(&mut Object) -> S3Result<()>,
    ) -> S3Result<Object> {
        for _ in 0..UPDATES_MAX {
            let object = self.find_visible(access, key, version_id).await?;
            let mut new = object.clone();
            change(&mut new)?;
            match self.sal.update_object(&access.bucket, &object, &new, bypass_governance).await {
                Err(failure) if failure.kind() == ErrorKind::Conflict => {}
                result => return result.map(|()| object).map_err(error::object),
            }
        }
        Err(s3_error!(OperationAborted))
    }
}

/// Fails if the object is a delete marker: with MethodNotAllowed if the request has the marker's
/// version id, else with NoSuchKey.
pub(super) fn refuse_delete_marker(object: &Object, has_version_id: bool) -> S3Result<()> {
    if !object.marker {
        return Ok(());
    }
    let mut headers = HeaderMap::new();
    headers.insert("x-amz-delete-marker", HeaderValue::from_static("true"));
    if let Ok(version) = HeaderValue::from_str(&object.version.to_string()) {
        headers.insert("x-amz-version-id", version);
    }
    let mut error = if has_version_id { s3_error!(MethodNotAllowed) } else { s3_error!(NoSuchKey) };
    error.set_headers(headers);
    Err(error)
}
