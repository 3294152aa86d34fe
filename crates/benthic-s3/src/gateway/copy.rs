//! CopyObject, which shares the data of the source, and UploadPartCopy, which reads and writes
//! them.

use super::auth::{Authorized, On};
use super::checksums::{Algorithm, Declaration, StoredChecksum, Verifier, set_checksum};
use super::conditions::{Preconditions, condition};
use super::get::pieces;
use super::multipart::{finish_part, part_number, upload_id};
use super::object_headers::{object_headers, refuse_customer_keys};
use super::object_lock::default_retention;
use super::put::abort_write;
use super::versions::{refuse_delete_marker, strong_etag, version_field};
use super::{Gateway, OBJECT_BYTES_MAX, error, names, tags, timestamp};
use crate::sal::{Attributes, Finish, Lock, Object, PartId};
use futures::TryStreamExt;
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, MetadataDirective,
    TaggingDirective, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use std::ops::Range;
use std::pin::pin;

/// The source of a copy and its conditions.
struct Source<'a> {
    source: &'a CopySource,
    expected_owner: &'a Option<String>,
    conditions: Preconditions<'a>,
}

macro_rules! source {
    ($input:expr) => {{
        refuse_customer_keys(
            $input.copy_source_sse_customer_algorithm.is_some(),
            $input.copy_source_sse_customer_key.is_some(),
        )?;
        Source {
            source: &$input.copy_source,
            expected_owner: &$input.expected_source_bucket_owner,
            conditions: Preconditions {
                if_match: $input.copy_source_if_match.as_ref(),
                if_none_match: $input.copy_source_if_none_match.as_ref(),
                if_modified_since: $input.copy_source_if_modified_since.as_ref(),
                if_unmodified_since: $input.copy_source_if_unmodified_since.as_ref(),
            },
        }
    }};
}

impl Gateway {
    /// Finds the source of a copy, and checks permissions and conditions.
    async fn source<T>(&self, request: &S3Request<T>, from: Source<'_>) -> S3Result<(Authorized, Object)> {
        let CopySource::Bucket { bucket, key, version_id } = from.source else {
            return Err(s3_error!(NotImplemented, "access points are not implemented"));
        };
        let (access, object, _) = self
            .authorize_read(request, (bucket, from.expected_owner), (key, version_id.as_deref()), false)
            .await?;
        if object.marker && version_id.is_some() {
            return Err(s3_error!(InvalidRequest, "a delete marker cannot be copied"));
        }
        refuse_delete_marker(&object, false)?;
        from.conditions.check_source(&object)?;
        Ok((access, object))
    }

    pub(super) async fn copy(&self, request: S3Request<CopyObjectInput>) -> S3Result<CopyObjectOutput> {
        let input = &request.input;
        super::refuse([("annotations", input.annotation_directive.is_some())])?;
        refuse_customer_keys(input.sse_customer_algorithm.is_some(), input.sse_customer_key.is_some())?;
        let (access, given, lock) = self
            .authorize_new_object(
                &request,
                (&input.bucket, &input.expected_bucket_owner),
                &input.key,
                &object_headers!(input),
            )
            .await?;
        let (from, source) = self.source(&request, source!(input)).await?;
        if source.size_bytes > OBJECT_BYTES_MAX {
            return Err(s3_error!(InvalidRequest, "copy an object of more than 5 GiB in parts"));
        }
        let replaces = match input.metadata_directive.as_ref().map(MetadataDirective::as_str) {
            None | Some(MetadataDirective::COPY) => false,
            Some(MetadataDirective::REPLACE) => true,
            Some(_) => return Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
        };
        let replaces_tags = match input.tagging_directive.as_ref().map(TaggingDirective::as_str) {
            None | Some(TaggingDirective::COPY) => false,
            Some(TaggingDirective::REPLACE) => true,
            Some(_) => return Err(s3_error!(InvalidArgument, "Unknown tagging directive.")),
        };
        if !replaces_tags {
            if input.tagging.is_some() {
                return Err(s3_error!(InvalidRequest, "x-amz-tagging needs the tagging directive REPLACE"));
            }
            let tags = tags::get(&source.attributes)?;
            if !tags.is_empty() {
                self.authorize_copy_of_tags(&request, &from, &access, &source, &tags).await?;
            }
        }
        let onto_itself = from.bucket.id == access.bucket.id && source.key == input.key;
        let CopySource::Bucket { version_id, .. } = &input.copy_source else {
            return Err(s3_error!(NotImplemented));
        };
        if onto_itself
            && version_id.is_none()
            && !replaces
            && !replaces_tags
            && input.checksum_algorithm.is_none()
        {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing \
                 the object's metadata, storage class, website redirect location or encryption attributes."
            ));
        }
        let mut attributes = attributes(&source.attributes, given, replaces, replaces_tags);
        let wanted = Algorithm::of_request(input.checksum_algorithm.as_ref())?;
        let of_source = StoredChecksum::of(&source.attributes);
        let stored = match wanted {
            Some(wanted) if of_source.as_ref().is_none_or(|stored| stored.algorithm != wanted) => {
                Some(self.checksum_of(&from, &source, wanted).await?)
            }
            _ => of_source.clone(),
        };
        if let Some(stored) = &stored {
            stored.store(&mut attributes);
        }
        if stored == of_source {
            let of_parts = source.attributes.get_key_value(names::PART_CHECKSUMS);
            attributes.extend(of_parts.map(|(name, value)| (name.clone(), value.clone())));
        }
        let condition = condition(input.if_match.as_ref(), input.if_none_match.as_ref())?;
        let default_retention = default_retention(&access.bucket.attributes)?;
        let now_ms = self.environment.unix_ms();
        let expiration = self.expiration(&access, (&input.key, source.size_bytes), now_ms, &attributes);
        let finish = Finish { etag: source.etag.clone(), attributes, lock, default_retention, condition };
        let copied = self.sal.copy((&from.bucket, &source), &access.bucket, &input.key, finish).await;
        let copied = copied.map_err(error::object)?;
        let mut result = CopyObjectResult {
            e_tag: Some(strong_etag(&source.etag)),
            last_modified: Some(timestamp(now_ms)),
            checksum_type: stored.as_ref().map(StoredChecksum::checksum_type),
            ..CopyObjectResult::default()
        };
        set_checksum!(result, stored.as_ref());
        Ok(CopyObjectOutput {
            copy_object_result: Some(result),
            expiration,
            copy_source_version_id: version_field(from.bucket.versioning, source.version),
            version_id: version_field(access.bucket.versioning, copied.version),
            ..CopyObjectOutput::default()
        })
    }

    /// Refuses a copy unless the caller may read the tags of the source, and give them to the copy.
    async fn authorize_copy_of_tags(
        &self,
        request: &S3Request<CopyObjectInput>,
        from: &Authorized,
        access: &Authorized,
        source: &Object,
        tags: &tags::Pairs,
    ) -> S3Result<()> {
        let CopySource::Bucket { version_id, .. } = &request.input.copy_source else { return Ok(()) };
        let get = if version_id.is_some() { "s3:GetObjectVersionTagging" } else { "s3:GetObjectTagging" };
        let on = On::locked(&source.key, version_id.as_deref(), Lock::default());
        self.require(request, from, get, on).await?;
        let on = On::tagged(&request.input.key, None, tags);
        self.require(request, access, "s3:PutObjectTagging", on).await
    }

    pub(super) async fn copy_part(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<UploadPartCopyOutput> {
        let input = &request.input;
        refuse_customer_keys(input.sse_customer_algorithm.is_some(), input.sse_customer_key.is_some())?;
        let access = self
            .authorize(&request, &input.bucket, &input.expected_bucket_owner, On::new_object(&input.key))
            .await?;
        let part = PartId { upload: upload_id(&input.upload_id)?, number: part_number(input.part_number)? };
        let upload = self.sal.upload(&access.bucket, &input.key, part.upload).await.map_err(error::upload)?;
        let (from, source) = self.source(&request, source!(input)).await?;
        let range = source_range(&source, input.copy_source_range.as_deref())?;
        let size_bytes = range.end - range.start;
        if size_bytes > OBJECT_BYTES_MAX {
            return Err(s3_error!(EntityTooLarge, "a part can have at most 5 GiB"));
        }
        let declared = Declaration { len_bytes: i64::try_from(size_bytes).ok(), ..Declaration::default() };
        let wanted = StoredChecksum::of(&upload.attributes).map(|stored| stored.algorithm);
        let mut verifier = Verifier::new(declared, wanted, &hyper::HeaderMap::new())?;
        let reader = self.sal.read(&from.bucket, &source, range, None).await.map_err(error::object)?;
        let writer = self.sal.write(&access.bucket, &input.key, Some(part), Some(size_bytes)).await;
        let mut writer = writer.map_err(error::upload)?;
        let mut pieces = pin!(pieces(reader));
        let copied = async {
            while let Some(data) = pieces.try_next().await.map_err(error::object)? {
                verifier.update(&data);
                writer.write(data).await.map_err(error::upload)?;
            }
            verifier.finish()
        };
        let verified = match copied.await {
            Ok(verified) => verified,
            Err(failure) => return Err(abort_write(writer, failure).await),
        };
        let etag = finish_part(writer, &verified).await?;
        let mut result = CopyPartResult {
            e_tag: Some(etag),
            last_modified: Some(timestamp(self.environment.unix_ms())),
            ..CopyPartResult::default()
        };
        set_checksum!(result, Some(&verified.checksum));
        Ok(UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: version_field(from.bucket.versioning, source.version),
            ..UploadPartCopyOutput::default()
        })
    }

    /// Computes the checksum of an object by reading its data.
    async fn checksum_of(
        &self,
        access: &Authorized,
        object: &Object,
        algorithm: Algorithm,
    ) -> S3Result<StoredChecksum> {
        let len_bytes = i64::try_from(object.size_bytes).ok();
        let declared = Declaration { algorithm: Some(algorithm), len_bytes, ..Declaration::default() };
        let mut verifier = Verifier::new(declared, None, &hyper::HeaderMap::new())?;
        let reader =
            self.sal.read(&access.bucket, object, object.all(), None).await.map_err(error::object)?;
        let mut pieces = pin!(pieces(reader));
        while let Some(data) = pieces.try_next().await.map_err(error::object)? {
            verifier.update(&data);
        }
        Ok(verifier.finish()?.checksum)
    }
}

/// The attributes of a copy. The ACL is not copied.
fn attributes(source: &Attributes, mut given: Attributes, replaces: bool, replaces_tags: bool) -> Attributes {
    let tags = given.remove(names::TAGS);
    let mut attributes = if replaces {
        given
    } else {
        let mut copied = source.clone();
        copied.remove(names::TAGS);
        copied.remove(names::ACL);
        copied.extend(given.remove_entry(names::ACL));
        copied
    };
    attributes.remove(names::CHECKSUM);
    attributes.remove(names::PART_CHECKSUMS);
    let tags = if replaces_tags { tags } else { source.get(names::TAGS).cloned() };
    attributes.extend(tags.map(|tags| (names::TAGS.to_owned(), tags)));
    attributes
}

/// The byte range of the source that becomes the part. The header must give both ends, inside the
/// object.
fn source_range(source: &Object, header: Option<&str>) -> S3Result<Range<u64>> {
    let Some(header) = header else { return Ok(source.all()) };
    let parsed = s3s::dto::Range::parse(header);
    let Ok(s3s::dto::Range::Int { first, last: Some(last) }) = parsed else {
        return Err(s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last"
        ));
    };
    if last >= source.size_bytes {
        return Err(s3_error!(InvalidRange));
    }
    Ok(first..last + 1)
}
