//! Conditions of requests on objects: If-Match, If-None-Match, If-Modified-Since,
//! If-Unmodified-Since.

use super::auth::{Authorized, On};
use super::versions::strong_etag;
use super::{Gateway, http_date, timestamp};
use crate::sal::{Condition, Lock, Object};
use hyper::header::{ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};
use s3s::dto::{ETagCondition, Timestamp};
use s3s::{S3Error, S3Request, S3Result, s3_error};

/// Converts If-Match and If-None-Match to the condition of a write.
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

/// Whether a condition depends on the entity tag of the object.
pub(super) fn compares(condition: &Condition) -> bool {
    matches!(condition, Condition::Matches(_) | Condition::Differs(_))
}

impl Gateway {
    /// Refuses a write or a deletion with a condition on the state of the object unless the caller
    /// may read the object, as on AWS: the answer tells whether the condition holds.
    pub(super) async fn authorize_comparison<T>(
        &self,
        request: &S3Request<T>,
        access: &Authorized,
        key: &str,
        version: Option<&str>,
    ) -> S3Result<()> {
        let action = if version.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
        self.require(request, access, action, On::locked(key, version, Lock::default())).await
    }
}

/// The conditions of a read, or of the source of a copy.
pub(super) struct Preconditions<'a> {
    pub if_match: Option<&'a ETagCondition>,
    pub if_none_match: Option<&'a ETagCondition>,
    pub if_modified_since: Option<&'a Timestamp>,
    pub if_unmodified_since: Option<&'a Timestamp>,
}

impl Preconditions<'_> {
    /// Checks the conditions of a read.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NotModified` if the client already has the object.
    pub fn check(&self, object: &Object) -> S3Result<()> {
        let is = |condition: &ETagCondition| match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(etag) => etag.value() == object.etag,
        };
        // The headers have a resolution of one second.
        let modified = timestamp(object.modified_ms / 1_000 * 1_000);
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

    /// Checks the conditions of the source of a copy, which fail with `PreconditionFailed` where a
    /// read answers `NotModified`.
    pub fn check_source(&self, object: &Object) -> S3Result<()> {
        self.check(object).map_err(|_| s3_error!(PreconditionFailed))
    }
}

fn not_modified(object: &Object) -> S3Error {
    let mut headers = HeaderMap::new();
    if let Ok(etag) = strong_etag(&object.etag).to_http_header() {
        headers.insert(ETAG, etag);
    }
    let modified = http_date(&timestamp(object.modified_ms));
    if let Some(modified) = modified.and_then(|modified| HeaderValue::try_from(modified).ok()) {
        headers.insert(LAST_MODIFIED, modified);
    }
    let mut error = s3_error!(NotModified);
    error.set_headers(headers);
    error
}
