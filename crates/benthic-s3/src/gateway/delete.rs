//! DeleteObject, DeleteObjects.

use super::auth::On;
use super::conditions::condition;
use super::versions::parse_version_id;
use super::{Gateway, error, refuse};
use crate::sal::{Change, Condition, Delete, Versioning};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error,
    ObjectIdentifier,
};
use s3s::{S3Request, S3Result, s3_error};

const OBJECTS_MAX: usize = 1_000;
/// The events of a deletion: which of them happens depends on the versions.
const REMOVED: [(Change, &str); 2] =
    [(Change::Removed, "ObjectRemoved:Delete"), (Change::MarkerCreated, "ObjectRemoved:DeleteMarkerCreated")];

impl Gateway {
    pub(super) async fn delete(&self, request: S3Request<DeleteObjectInput>) -> S3Result<DeleteObjectOutput> {
        let input = &request.input;
        refuse([
            ("a condition on the time of an object", input.if_match_last_modified_time.is_some()),
            ("a condition on the size of an object", input.if_match_size.is_some()),
            ("MFA delete", input.mfa.is_some()),
        ])?;
        let on = On::object(&input.key, input.version_id.as_ref());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let delete = Delete {
            key: input.key.clone(),
            version: input.version_id.as_deref().map(parse_version_id).transpose()?,
            condition: condition(input.if_match.as_ref(), None)?,
            bypass_governance: self
                .bypasses_governance(&request, &access, on, input.bypass_governance_retention)
                .await?,
            due_ms: None,
            events: self.events_of(&request, &access, &input.key, &REMOVED)?,
        };
        let deleted = self.sal.delete(&access.bucket, &delete).await.map_err(error::object)?;
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
            let on = On::object(&object.key, object.version_id.as_ref());
            let permission = self.require(&request, &access, access.action(on), on).await;
            match permission.and_then(|()| delete_of(object)) {
                Ok(delete) => {
                    let header = input.bypass_governance_retention;
                    let bypass_governance = self.bypasses_governance(&request, &access, on, header).await?;
                    let events = self.events_of(&request, &access, &object.key, &REMOVED)?;
                    deletes.push(Delete { bypass_governance, events, ..delete });
                    named.push(object);
                }
                Err(failure) => errors.push(error_entry(object, &failure)),
            }
        }
        let results = self.sal.delete_many(&access.bucket, &deletes).await;
        self.wake(&access.bucket, deletes.iter().any(|delete| !delete.events.is_empty()));
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
                Err(failure) => errors.push(error_entry(object, &error::object(failure))),
            }
        }
        Ok(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), request_charged: None })
    }
}

fn delete_of(object: &ObjectIdentifier) -> S3Result<Delete> {
    refuse([
        ("a condition on the time of an object", object.last_modified_time.is_some()),
        ("a condition on the size of an object", object.size.is_some()),
    ])?;
    let etag = object.e_tag.as_ref().map(|etag| etag.value().to_owned());
    Ok(Delete {
        key: object.key.clone(),
        version: object.version_id.as_deref().map(parse_version_id).transpose()?,
        condition: etag.map_or(Condition::Always, Condition::Matches),
        ..Delete::default()
    })
}

fn error_entry(object: &ObjectIdentifier, failure: &s3s::S3Error) -> Error {
    Error {
        key: Some(object.key.clone()),
        version_id: object.version_id.clone(),
        code: Some(failure.code().as_str().to_owned()),
        message: failure.message().map(str::to_owned),
    }
}
