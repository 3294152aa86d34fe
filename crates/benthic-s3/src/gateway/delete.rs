//! DeleteObject, DeleteObjects.

use super::access_log::{Deleted, Notes};
use super::auth::{Authorized, On};
use super::conditions::{compares, condition};
use super::versions::parse_version_id;
use super::{Gateway, UPDATES_MAX, error, refuse, unix_ms};
use crate::sal::{Bucket, Change, Condition, Delete, DeleteResult, Object, Seen, Versioning};
use benthic_core::ErrorKind;
use futures::StreamExt;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag,
    Error, ObjectIdentifier, Timestamp,
};
use s3s::{S3Request, S3Result, s3_error};

const OBJECTS_MAX: usize = 1_000;
const DELETES_IN_FLIGHT: usize = 16;
/// The events of a deletion: which of them happens depends on the versions.
const REMOVED: [(Change, &str); 2] =
    [(Change::Removed, "ObjectRemoved:Delete"), (Change::MarkerCreated, "ObjectRemoved:DeleteMarkerCreated")];

/// The size and the time that an object must have to be deleted.
#[derive(Clone, Copy)]
pub(super) struct Properties {
    size_bytes: Option<i64>,
    /// In seconds since 1970: clients see no fractions in the headers of objects.
    modified_s: Option<u64>,
}

impl Properties {
    fn new(size_bytes: Option<i64>, modified: Option<&Timestamp>) -> S3Result<Properties> {
        let modified_ms = modified
            .map(|time| unix_ms(time).ok_or_else(|| s3_error!(InvalidArgument, "the time is before 1970")));
        Ok(Properties { size_bytes, modified_s: modified_ms.transpose()?.map(|ms| ms / 1_000) })
    }

    fn is_empty(&self) -> bool {
        self.size_bytes.is_none() && self.modified_s.is_none()
    }

    /// A delete marker has no size, and meets no condition.
    fn hold(&self, object: &Object) -> bool {
        !object.marker
            && self.size_bytes.is_none_or(|size| u64::try_from(size) == Ok(object.size_bytes))
            && self.modified_s.is_none_or(|time| time == object.modified_ms / 1_000)
    }
}

impl Gateway {
    pub(super) async fn delete(&self, request: S3Request<DeleteObjectInput>) -> S3Result<DeleteObjectOutput> {
        let input = &request.input;
        refuse([("MFA delete", input.mfa.is_some())])?;
        let properties = Properties::new(input.if_match_size, input.if_match_last_modified_time.as_ref())?;
        let on = On::object(&input.key, input.version_id.as_ref());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let condition = condition(input.if_match.as_ref(), None)?;
        if compares(&condition) || !properties.is_empty() {
            self.authorize_comparison(&request, &access, &input.key, input.version_id.as_deref()).await?;
        }
        let delete = Delete {
            key: input.key.clone(),
            version: input.version_id.as_deref().map(parse_version_id).transpose()?,
            condition,
            bypass_governance: self
                .bypasses_governance(&request, &access, on, input.bypass_governance_retention)
                .await?,
            due_ms: None,
            events: self.events_of(&request, &access, &input.key, &REMOVED)?,
        };
        let deleted = self.delete_if(&access.bucket, &delete, properties).await?;
        self.wake(&access.bucket, !delete.events.is_empty());
        let versions = access.bucket.versioning != Versioning::Off;
        Ok(DeleteObjectOutput {
            delete_marker: deleted.marker.then_some(true),
            version_id: deleted
                .version
                .or(delete.version)
                .filter(|_| versions)
                .map(|version| version.to_string()),
            request_charged: None,
        })
    }

    /// Deletes an object that has these properties. If there is none, there is nothing to delete.
    ///
    /// The class compares entity tags, but not sizes and times. So the gateway compares these, and
    /// the class checks in the same call as the deletion that the object has not changed since.
    async fn delete_if(
        &self,
        bucket: &Bucket,
        delete: &Delete,
        properties: Properties,
    ) -> S3Result<DeleteResult> {
        if properties.is_empty() {
            return self.sal.delete(bucket, delete).await.map_err(error::object);
        }
        for _ in 0..UPDATES_MAX {
            let found = self.sal.object(bucket, &delete.key, delete.version).await;
            let object = match (found, &delete.condition) {
                (Ok(object), _) => object,
                (Err(failure), Condition::Always) if failure.kind() == ErrorKind::NotFound => {
                    return Ok(DeleteResult::default());
                }
                (Err(failure), _) => return Err(error::object(failure)),
            };
            let has_etag = match &delete.condition {
                Condition::Matches(etag) => object.etag == *etag,
                _ => true,
            };
            if !has_etag || !properties.hold(&object) {
                return Err(s3_error!(PreconditionFailed));
            }
            let seen = Seen { write: object.write, revision: object.revision };
            let is_current = match delete.version {
                None => true,
                Some(_) => {
                    let current = self.sal.object(bucket, &delete.key, None).await.map_err(error::object)?;
                    current.write == object.write
                }
            };
            let condition = if is_current { Condition::Current(seen) } else { Condition::Replaced(seen) };
            match self.sal.delete(bucket, &Delete { condition, ..delete.clone() }).await {
                // The object has changed meanwhile.
                Err(failure) if failure.kind() == ErrorKind::Conflict => {}
                result => return result.map_err(error::object),
            }
        }
        Err(s3_error!(OperationAborted))
    }

    /// The deletion of one of several objects, if the caller may delete it.
    async fn authorize_deletion(
        &self,
        request: &S3Request<DeleteObjectsInput>,
        access: &Authorized,
        object: &ObjectIdentifier,
        on: On<'_>,
    ) -> S3Result<(Delete, Properties)> {
        self.require(request, access, access.action(on), on).await?;
        let (delete, properties) = delete_of(object)?;
        if compares(&delete.condition) || !properties.is_empty() {
            self.authorize_comparison(request, access, &object.key, object.version_id.as_deref()).await?;
        }
        Ok((delete, properties))
    }

    pub(super) async fn delete_many(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<DeleteObjectsOutput> {
        let input = &request.input;
        refuse([("MFA delete", input.mfa.is_some())])?;
        let access = self.open(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let objects = &input.delete.objects;
        if objects.is_empty() || objects.len() > OBJECTS_MAX {
            return Err(s3_error!(MalformedXML, "a request must name 1 to {OBJECTS_MAX} objects"));
        }
        let mut errors = Vec::new();
        let mut deletes = Vec::new();
        let mut named = Vec::new();
        for object in objects {
            let etag = object.e_tag.as_ref().map(ETag::value);
            let on = On::deletion(&object.key, object.version_id.as_deref(), etag);
            match self.authorize_deletion(&request, &access, object, on).await {
                Ok((delete, properties)) => {
                    let header = input.bypass_governance_retention;
                    let bypass_governance = self.bypasses_governance(&request, &access, on, header).await?;
                    let events = self.events_of(&request, &access, &object.key, &REMOVED)?;
                    deletes.push((Delete { bypass_governance, events, ..delete }, properties));
                    named.push(object);
                }
                Err(failure) => errors.push(error_entry(object, &failure)),
            }
        }
        let deletions: Vec<_> = deletes
            .iter()
            .map(|(delete, properties)| self.delete_if(&access.bucket, delete, *properties))
            .collect();
        let deletions = futures::stream::iter(deletions).buffered(DELETES_IN_FLIGHT);
        let results: Vec<_> = deletions.collect().await;
        self.wake(&access.bucket, deletes.iter().any(|(delete, _)| !delete.events.is_empty()));
        let of_result = |(object, result): (&&ObjectIdentifier, &S3Result<DeleteResult>)| Deleted {
            key: object.key.clone(),
            version: object.version_id.clone(),
            failure: result.as_ref().err().map(|failure| failure.code().as_str().to_owned()),
        };
        let of_error = |entry: &Error| Deleted {
            key: entry.key.clone().unwrap_or_default(),
            version: entry.version_id.clone(),
            failure: entry.code.clone(),
        };
        let noted = named.iter().zip(&results).map(of_result).chain(errors.iter().map(of_error));
        Notes::of_deletions(&request.extensions, noted.collect());
        let mut deleted = Vec::new();
        for (object, result) in named.into_iter().zip(results) {
            match result {
                Ok(_) if input.delete.quiet.unwrap_or(false) => {}
                Ok(done) => deleted.push(DeletedObject {
                    key: Some(object.key.clone()),
                    version_id: object.version_id.clone(),
                    delete_marker: done.marker.then_some(true),
                    delete_marker_version_id: done
                        .version
                        .filter(|_| done.marker)
                        .map(|version| version.to_string()),
                }),
                Err(failure) => errors.push(error_entry(object, &failure)),
            }
        }
        Ok(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), request_charged: None })
    }
}

pub(super) fn delete_of(object: &ObjectIdentifier) -> S3Result<(Delete, Properties)> {
    let etag = object.e_tag.as_ref().map(|etag| etag.value().to_owned());
    let delete = Delete {
        key: object.key.clone(),
        version: object.version_id.as_deref().map(parse_version_id).transpose()?,
        condition: etag.map_or(Condition::Always, Condition::Matches),
        ..Delete::default()
    };
    Ok((delete, Properties::new(object.size, object.last_modified_time.as_ref())?))
}

fn error_entry(object: &ObjectIdentifier, failure: &s3s::S3Error) -> Error {
    Error {
        key: Some(object.key.clone()),
        version_id: object.version_id.clone(),
        code: Some(failure.code().as_str().to_owned()),
        message: failure.message().map(str::to_owned),
    }
}
