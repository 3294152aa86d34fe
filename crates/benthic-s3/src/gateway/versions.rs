//! Versions and entity tags of objects in requests and answers.

use super::auth::Authorized;
use super::{Gateway, UPDATES_MAX, error};
use crate::sal::{Attributes, Object, VersionId, Versioning};
use benthic_core::ErrorKind;
use hyper::header::{HeaderMap, HeaderValue};
use s3s::dto::ETag;
use s3s::{S3Result, s3_error};

pub(super) fn version(text: &str) -> S3Result<VersionId> {
    text.parse().map_err(|_| s3_error!(InvalidArgument, "Invalid version id specified"))
}

/// The version in an answer; absent for a bucket that never had versions.
pub(super) fn version_field(mode: Versioning, version: VersionId) -> Option<String> {
    (mode != Versioning::Off || version != VersionId::Null).then(|| version.to_string())
}

pub(super) fn strong_etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

impl Gateway {
    /// Finds an object for the owner of the bucket. A delete marker is an error.
    pub(super) async fn find_visible(
        &self,
        access: &Authorized,
        key: &str,
        named: Option<&str>,
    ) -> S3Result<Object> {
        let wanted = named.map(version).transpose()?;
        let subject = if wanted.is_some() { error::Subject::Version } else { error::Subject::Object };
        let found = self.sal.object(&access.bucket, key, wanted).await;
        let object = found.map_err(|failure| error::s3_error(failure, subject))?;
        refuse_marker(&object, wanted.is_some())?;
        Ok(object)
    }

    /// Changes the attributes of an object, and retries if another process changes them at the same
    /// time. Returns the object as it was before.
    pub(super) async fn change_attributes(
        &self,
        access: &Authorized,
        key: &str,
        version: Option<&str>,
        change: impl Fn(&mut Attributes) -> S3Result<()>,
    ) -> S3Result<Object> {
        for _ in 0..UPDATES_MAX {
            let object = self.find_visible(access, key, version).await?;
            let mut attributes = object.attributes.clone();
            change(&mut attributes)?;
            match self.sal.set_attributes(&access.bucket, &object, attributes).await {
                Err(failure) if failure.kind() == ErrorKind::Conflict => {}
                result => return result.map(|()| object).map_err(error::object),
            }
        }
        Err(s3_error!(OperationAborted))
    }
}

/// Refuses a delete marker: MethodNotAllowed if the request names its version, else NoSuchKey.
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
