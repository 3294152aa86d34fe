//! CopyObject shares the data of the source where it can, and otherwise rewrites them.
//! UploadPartCopy always rewrites them.

use super::auth::{Authorized, On};
use super::checksums::{Algorithm, Declaration, Digests, StoredChecksum, Verifier, etag, set_checksum};
use super::conditions::{Preconditions, compares, condition};
use super::encryption::{
    CustomerHeaders, Encryption, customer_headers, encryption_headers, etag_with, set_all_encryption,
};
use super::get::pieces;
use super::multipart::{finish_part, part_number};
use super::object_headers::{NewObject, object_headers};
use super::object_lock::default_retention;
use super::on_put::response;
use super::put::abort_write;
use super::versions::{refuse_delete_marker, strong_etag, version_field};
use super::{Gateway, OBJECT_BYTES_MAX, error, names, tags, timestamp};
use crate::policy::Decision;
use crate::sal::encryption::ENCRYPTION;
use crate::sal::{Attributes, Bucket, Change, Finish, Lock, Object, PartId, Reader, VersionId, Writer};
use crate::view::is_view;
use benthic_core::Error;
use futures::TryStreamExt;
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, MetadataDirective,
    TaggingDirective, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};
use std::ops::Range;
use std::pin::pin;

/// The source of a copy and its conditions.
struct Source<'a> {
    source: &'a CopySource,
    expected_owner: &'a Option<String>,
    conditions: Preconditions<'a>,
    customer: CustomerHeaders<'a>,
}

macro_rules! source {
    ($input:expr) => {{
        Source {
            source: &$input.copy_source,
            expected_owner: &$input.expected_source_bucket_owner,
            conditions: Preconditions {
                if_match: $input.copy_source_if_match.as_ref(),
                if_none_match: $input.copy_source_if_none_match.as_ref(),
                if_modified_since: $input.copy_source_if_modified_since.as_ref(),
                if_unmodified_since: $input.copy_source_if_unmodified_since.as_ref(),
            },
            customer: CustomerHeaders {
                algorithm: $input.copy_source_sse_customer_algorithm.as_deref(),
                key: $input.copy_source_sse_customer_key.as_deref(),
                md5: $input.copy_source_sse_customer_key_md5.as_deref(),
            },
        }
    }};
}

impl Gateway {
    /// Finds the source of a copy, and checks permissions and conditions.
    async fn source<T>(
        &self,
        request: &S3Request<T>,
        from: Source<'_>,
    ) -> S3Result<(Authorized, Object, Option<Encryption>)> {
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
        let encryption = self.open_object_key(request, &access.bucket, &object, from.customer).await?;
        Ok((access, object, encryption))
    }

    pub(super) async fn copy(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        let input = &request.input;
        super::refuse([("annotations", input.annotation_directive.is_some())])?;
        let NewObject { access, attributes: given, lock, class } = self
            .authorize_new_object(
                &request,
                (&input.bucket, &input.expected_bucket_owner),
                &input.key,
                &object_headers!(input),
            )
            .await?;
        let (from, source, source_encryption) = self.source(&request, source!(input)).await?;
        let headers = encryption_headers!(input);
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
            && input.storage_class.is_none()
            && input.website_redirect_location.is_none()
            && !headers.is_given()
        {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing \
                 the object's metadata, storage class, website redirect location or encryption attributes."
            ));
        }
        let mut attributes = attributes(&source.attributes, given, replaces, replaces_tags);
        let wanted = Algorithm::of_request(input.checksum_algorithm.as_ref())?;
        let condition = condition(input.if_match.as_ref(), input.if_none_match.as_ref())?;
        if compares(&condition) {
            self.authorize_comparison(&request, &access, &input.key, None).await?;
        }
        let default_retention = default_retention(&access.bucket.attributes)?;
        let now_ms = self.environment.unix_ms();
        let expiration = self.expiration(&access, (&input.key, source.size_bytes), now_ms, &attributes);
        let (encryption, shares) = self
            .create_key_of_copy(
                &request,
                (&access.bucket, &input.key),
                &headers,
                source_encryption.as_ref(),
                &mut attributes,
            )
            .await?;
        let encryption = encryption.as_ref();
        // The copy has the data of its source.
        let data_key = source_encryption.as_ref().map(Encryption::data_key);
        let object = (&from.bucket, &source);
        let ran_at = self.run_on_put(&access, &input.key, object, data_key, &mut attributes).await?;
        let event = [(Change::Created, "ObjectCreated:Copy")];
        let events = self.events_of(&request, &access, &input.key, &event)?;
        let had_events = !events.is_empty();
        let finish = Finish { etag: String::new(), attributes, lock, default_retention, condition, events };
        let from = CopyFrom { bucket: &from.bucket, object: &source, encryption: source_encryption.as_ref() };
        let shares = shares && !is_view(from.bucket) && source.class == class;
        let class = class.as_deref();
        let to = CopyTo { bucket: &access.bucket, key: &input.key, class, encryption, checksum: wanted };
        let (etag, checksum, version) = if shares {
            self.share_data(&from, &to, finish).await?
        } else {
            self.rewrite_data(&from, &to, finish).await?
        };
        self.wake(&access.bucket, had_events);
        let mut result = CopyObjectResult {
            e_tag: Some(strong_etag(&etag)),
            last_modified: Some(timestamp(now_ms)),
            checksum_type: checksum.as_ref().map(StoredChecksum::checksum_type),
            ..CopyObjectResult::default()
        };
        set_checksum!(result, checksum.as_ref());
        let mut output = CopyObjectOutput {
            copy_object_result: Some(result),
            expiration,
            copy_source_version_id: version_field(from.bucket.versioning, source.version),
            version_id: version_field(access.bucket.versioning, version),
            ..CopyObjectOutput::default()
        };
        set_all_encryption!(output, encryption);
        Ok(response(output, ran_at))
    }

    /// Makes a copy that shares the data of its source.
    async fn share_data(
        &self,
        from: &CopyFrom<'_>,
        to: &CopyTo<'_>,
        mut finish: Finish,
    ) -> S3Result<(String, Option<StoredChecksum>, VersionId)> {
        let source = from.object;
        let of_source = StoredChecksum::of(&source.attributes);
        let checksum = match to.checksum {
            Some(wanted) if of_source.as_ref().is_none_or(|stored| stored.algorithm != wanted) => {
                let mut verifier = verifier(source.size_bytes, Some(wanted))?;
                let mut pieces = pin!(pieces(self.read_source(from, source.all()).await?));
                while let Some(data) = pieces.try_next().await.map_err(error::object)? {
                    verifier.update(&data);
                }
                Some(verifier.finish()?.checksum)
            }
            _ => of_source.clone(),
        };
        if let Some(checksum) = &checksum {
            checksum.store(&mut finish.attributes);
        }
        if checksum == of_source {
            let of_parts = source.attributes.get_key_value(names::PART_CHECKSUMS);
            finish.attributes.extend(of_parts.map(|(name, value)| (name.clone(), value.clone())));
        }
        finish.etag = match (to.encryption, from.encryption) {
            (Some(new), Some(old)) => new.etag_of_copy(old, &source.etag),
            _ => source.etag.clone(),
        };
        let etag = finish.etag.clone();
        let copied = self.sal.copy((from.bucket, source), to.bucket, to.key, finish).await;
        Ok((etag, checksum, copied.map_err(error::object)?.version))
    }

    /// Makes a copy that cannot share the data of its source.
    async fn rewrite_data(
        &self,
        from: &CopyFrom<'_>,
        to: &CopyTo<'_>,
        mut finish: Finish,
    ) -> S3Result<(String, Option<StoredChecksum>, VersionId)> {
        let source = from.object;
        let algorithm = to.checksum.or(StoredChecksum::of(&source.attributes).map(|stored| stored.algorithm));
        let verifier = verifier(source.size_bytes, algorithm)?;
        let reader = self.read_source(from, source.all()).await?;
        let data_key = to.encryption.map(Encryption::data_key);
        let size_bytes = Some(source.size_bytes);
        let writer = self.sal.write(to.bucket, to.key, None, size_bytes, to.class, data_key).await;
        let (writer, verified) =
            transfer(reader, writer.map_err(error::object)?, verifier, error::object).await?;
        verified.checksum.store(&mut finish.attributes);
        finish.etag = etag_with(to.encryption, etag(&verified.md5));
        let etag = finish.etag.clone();
        let version = writer.finish(finish).await.map_err(error::object)?.version;
        Ok((etag, Some(verified.checksum), version))
    }

    async fn read_source(&self, from: &CopyFrom<'_>, range: Range<u64>) -> S3Result<Box<dyn Reader>> {
        let data_key = from.encryption.map(Encryption::data_key);
        self.sal.read(from.bucket, from.object, range, None, data_key).await.map_err(error::object)
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
        if from.decide(request, get, on, Some(source)) != Decision::Allowed {
            return Err(s3_error!(AccessDenied));
        }
        let on = On::new_tagged(&request.input.key, tags);
        self.require(request, access, "s3:PutObjectTagging", on).await
    }

    pub(super) async fn copy_part(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<UploadPartCopyOutput> {
        let input = &request.input;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let (access, id, upload) =
            self.authorize_part(&request, bucket, &input.key, &input.upload_id).await?;
        let (upload, part) = (upload?, PartId { upload: id, number: part_number(input.part_number)? });
        let encryption = self
            .open_data_key(&request, &access.bucket, &input.key, &upload.attributes, customer_headers!(input))
            .await?;
        let encryption = encryption.as_ref();
        let (from, source, source_encryption) = self.source(&request, source!(input)).await?;
        let range = source_range(&source, input.copy_source_range.as_deref())?;
        let size_bytes = range.end - range.start;
        if size_bytes > OBJECT_BYTES_MAX {
            return Err(s3_error!(EntityTooLarge, "a part can have at most 5 GiB"));
        }
        let wanted = StoredChecksum::of(&upload.attributes).map(|stored| stored.algorithm);
        let verifier = verifier(size_bytes, wanted)?;
        let copy_from =
            CopyFrom { bucket: &from.bucket, object: &source, encryption: source_encryption.as_ref() };
        let reader = self.read_source(&copy_from, range).await?;
        let data_key = encryption.map(Encryption::data_key);
        let (bucket, class) = (&access.bucket, upload.class.as_deref());
        let writer = self.sal.write(bucket, &input.key, Some(part), Some(size_bytes), class, data_key).await;
        let (writer, verified) =
            transfer(reader, writer.map_err(error::upload)?, verifier, error::upload).await?;
        let etag = finish_part(writer, &verified, encryption).await?;
        let mut result = CopyPartResult {
            e_tag: Some(etag),
            last_modified: Some(timestamp(self.environment.unix_ms())),
            ..CopyPartResult::default()
        };
        set_checksum!(result, Some(&verified.checksum));
        let mut output = UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: version_field(from.bucket.versioning, source.version),
            ..UploadPartCopyOutput::default()
        };
        set_all_encryption!(output, encryption);
        Ok(output)
    }
}

/// The source of a copy.
struct CopyFrom<'a> {
    bucket: &'a Bucket,
    object: &'a Object,
    encryption: Option<&'a Encryption>,
}

/// The object that a copy creates.
struct CopyTo<'a> {
    bucket: &'a Bucket,
    key: &'a str,
    class: Option<&'a str>,
    encryption: Option<&'a Encryption>,
    /// The checksum that the request asks for.
    checksum: Option<Algorithm>,
}

/// Computes the digests of data that a copy reads.
fn verifier(size_bytes: u64, algorithm: Option<Algorithm>) -> S3Result<Verifier> {
    let len_bytes = i64::try_from(size_bytes).ok();
    let declared = Declaration { algorithm, len_bytes, ..Declaration::default() };
    Verifier::new(declared, None, &hyper::HeaderMap::new())
}

/// Copies data to a writer.
async fn transfer(
    reader: Box<dyn Reader>,
    mut writer: Box<dyn Writer>,
    mut verifier: Verifier,
    write_error: fn(Error) -> S3Error,
) -> S3Result<(Box<dyn Writer>, Digests)> {
    let mut pieces = pin!(pieces(reader));
    let copied = async {
        while let Some(data) = pieces.try_next().await.map_err(error::object)? {
            verifier.update(&data);
            writer.write(data).await.map_err(write_error)?;
        }
        verifier.finish()
    };
    match copied.await {
        Ok(verified) => Ok((writer, verified)),
        Err(failure) => Err(abort_write(writer, failure).await),
    }
}

/// The attributes of a copy. The ACL, the owner and the redirect of a website are not copied, as on
/// AWS: policies see those of the request.
fn attributes(source: &Attributes, mut given: Attributes, replaces: bool, replaces_tags: bool) -> Attributes {
    let tags = given.remove(names::TAGS);
    let mut attributes = if replaces {
        given
    } else {
        let mut copied = source.clone();
        copied.remove(names::TAGS);
        for name in [names::ACL, names::OWNER, names::WEBSITE_REDIRECT] {
            copied.remove(name);
            copied.extend(given.remove_entry(name));
        }
        copied
    };
    attributes.remove(names::CHECKSUM);
    attributes.remove(names::PART_CHECKSUMS);
    attributes.remove(names::RENAME_TOKEN);
    attributes.remove(ENCRYPTION);
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
