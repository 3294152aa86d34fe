//! RenameObject.
//!
//! The two names may be in two shards of the index, so there is no single operation for both. The
//! gateway makes a copy that shares the data, and then deletes the source if it has not changed. If
//! the gateway dies in between, both objects exist, and a repetition of the request ends the
//! rename.

use super::auth::On;
use super::conditions::{Preconditions, compares, condition};
use super::encryption::{CustomerHeaders, Encryption, EncryptionHeaders};
use super::{Gateway, error, names, refuse, tags};
use crate::policy::Decision;
use crate::sal::{Bucket, Change, Condition, Delete, Finish, Seen, Versioning};
use benthic_core::{ErrorKind, OptionalExtension};
use bytes::Bytes;
use s3s::dto::{CopySource, ETagCondition, RenameObjectInput, RenameObjectOutput};
use s3s::{S3ErrorCode, S3Request, S3Result, s3_error};

const TOKEN_BYTES_MAX: usize = 64;

impl Gateway {
    pub(super) async fn rename(&self, request: S3Request<RenameObjectInput>) -> S3Result<RenameObjectOutput> {
        let input = &request.input;
        refuse([(
            "a condition on the time of the destination",
            input.destination_if_modified_since.is_some() || input.destination_if_unmodified_since.is_some(),
        )])?;
        let token = input.client_token.as_deref().unwrap_or_default();
        if token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(s3_error!(
                InvalidArgument,
                "a client token has at most {TOKEN_BYTES_MAX} visible ASCII characters"
            ));
        }
        let condition =
            condition(input.destination_if_match.as_ref(), input.destination_if_none_match.as_ref())?;
        let source_if_match = etag_condition(input.source_if_match.as_deref())?;
        let source_if_none_match = etag_condition(input.source_if_none_match.as_deref())?;
        let source_key = source_key(&input.bucket, &input.rename_source)?;
        if source_key == input.key {
            return Err(s3_error!(InvalidRequest, "the source and the destination are the same object"));
        }
        let new = On::new_object(&input.key);
        let target = self.authorize(&request, &input.bucket, &None, new).await?;
        refuse([("renaming in a bucket with versions", target.bucket.versioning != Versioning::Off)])?;
        if compares(&condition) {
            self.authorize_comparison(&request, &target, &input.key, None).await?;
        }
        let found = self.authorize_read(&request, (&input.bucket, &None), (&source_key, None), false).await;
        let (read, source, _) = match found {
            Err(failure)
                if *failure.code() == S3ErrorCode::NoSuchKey
                    && self.is_renamed(&target.bucket, &input.key, token, None).await? =>
            {
                return Ok(RenameObjectOutput::default());
            }
            found => found?,
        };
        // A read may use an older record of the bucket, and a change may not.
        let access = target;
        if read.bucket.id != access.bucket.id {
            return Err(s3_error!(OperationAborted));
        }
        access.check_writer(&source.attributes)?;
        let on_source = On::object(&source_key, None);
        self.require(&request, &access, "s3:DeleteObject", on_source).await?;
        let tags = tags::get(&source.attributes)?;
        if !tags.is_empty() {
            if access.decide(&request, "s3:GetObjectTagging", on_source, Some(&source)) != Decision::Allowed {
                return Err(s3_error!(AccessDenied));
            }
            let on = On::new_tagged(&input.key, &tags);
            self.require(&request, &access, "s3:PutObjectTagging", on).await?;
        }
        let conditions = Preconditions {
            if_match: source_if_match.as_ref(),
            if_none_match: source_if_none_match.as_ref(),
            if_modified_since: input.source_if_modified_since.as_ref(),
            if_unmodified_since: input.source_if_unmodified_since.as_ref(),
        };
        conditions.check_source(&source)?;
        let bucket = &access.bucket;
        let old = self.open_object_key(&request, bucket, &source, CustomerHeaders::default()).await?;
        let mut attributes = source.attributes.clone();
        if !token.is_empty() {
            attributes.insert(names::RENAME_TOKEN.to_owned(), Bytes::copy_from_slice(token.as_bytes()));
        }
        let mut etag = source.etag.clone();
        if let Some(old) = &old {
            let headers = EncryptionHeaders::default();
            let to = (bucket, input.key.as_str());
            let (new, shares) =
                self.create_key_of_copy(&request, to, &headers, Some(old), &mut attributes).await?;
            refuse([("renaming an object whose bucket encrypts in another way", !shares)])?;
            etag = new.map_or(etag, |new| new.etag_of_copy(old, &source.etag));
        }
        let data_key = old.as_ref().map(Encryption::data_key);
        self.run_on_put(&access, &input.key, (bucket, &source), data_key, &mut attributes).await?;
        let events =
            self.events_of(&request, &access, &input.key, &[(Change::Created, "ObjectCreated:Copy")])?;
        let removed = [(Change::Removed, "ObjectRemoved:Delete")];
        let events_of_source = self.events_of(&request, &access, &source_key, &removed)?;
        let had_events = !events.is_empty() || !events_of_source.is_empty();
        let finish = Finish { etag: etag.clone(), attributes, condition, events, ..Finish::default() };
        let copied = self.sal.copy((bucket, &source), bucket, &input.key, finish).await;
        if let Err(failure) = copied {
            // An earlier request with this token may have made the copy, and not the deletion.
            if failure.kind() != ErrorKind::Conflict
                || !self.is_renamed(bucket, &input.key, token, Some(&etag)).await?
            {
                return Err(error::object(failure));
            }
        }
        let seen = Seen { write: source.write, revision: source.revision };
        let delete = Delete {
            key: source_key,
            condition: Condition::Current(seen),
            events: events_of_source,
            ..Delete::default()
        };
        let deleted = self.sal.delete(bucket, &delete).await;
        self.wake(bucket, had_events);
        match deleted {
            Ok(_) => Ok(RenameObjectOutput::default()),
            Err(failure) if matches!(failure.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Err(s3_error!(
                    OperationAborted,
                    "the source was changed during the rename; the destination has what it was before"
                ))
            }
            Err(failure) => Err(error::object(failure)),
        }
    }

    /// Whether an earlier request with this token has made the object, and the object has this
    /// entity tag.
    async fn is_renamed(
        &self,
        bucket: &Bucket,
        key: &str,
        token: &str,
        etag: Option<&str>,
    ) -> S3Result<bool> {
        if token.is_empty() {
            return Ok(false);
        }
        let found = self.sal.object(bucket, key, None).await.optional().map_err(error::object)?;
        Ok(found.is_some_and(|object| {
            let has_token = object.attributes.get(names::RENAME_TOKEN).is_some_and(|stored| stored == token);
            has_token && etag.is_none_or(|etag| etag == object.etag)
        }))
    }
}

/// The key in the header `x-amz-rename-source`: percent-encoded, with or without a slash in front.
fn source_key(bucket: &str, header: &str) -> S3Result<String> {
    let path = format!("{bucket}/{}", header.strip_prefix('/').unwrap_or(header));
    match CopySource::parse(&path) {
        Ok(CopySource::Bucket { key, version_id: None, .. }) if !key.is_empty() => Ok(key.into()),
        _ => Err(s3_error!(InvalidArgument, "x-amz-rename-source is not a percent-encoded key")),
    }
}

fn etag_condition(header: Option<&str>) -> S3Result<Option<ETagCondition>> {
    let parse = |text: &str| {
        let quoted = ETagCondition::parse_http_header(text.as_bytes());
        // Also without quotes, as in other conditions.
        quoted.or_else(|_| ETagCondition::parse_http_header(format!("\"{text}\"").as_bytes()))
    };
    let parsed = header.map(parse).transpose();
    parsed.map_err(|_| s3_error!(InvalidArgument, "a condition of the source is not an entity tag"))
}
