//! CreateMultipartUpload, UploadPart, CompleteMultipartUpload, AbortMultipartUpload.

use super::auth::{Authorized, On};
use super::checksums::{
    ALGORITHMS, Algorithm, Declaration, Digests, Kind, StoredChecksum, Verifier, declared_checksum, etag,
    etag_of_parts, of_parts, set_checksum, store_part_checksums,
};
use super::conditions::{compares, condition};
use super::encryption::{
    Encryption, SealedBy, check_algorithm, customer_headers, encryption_headers, etag_with,
    mark_encrypted_part, sealing_of, set_all_encryption, set_encryption,
};
use super::object_headers::{NewObject, object_headers};
use super::object_lock::default_retention;
use super::on_put::response;
use super::put::abort_write;
use super::versions::{strong_etag, version_field};
use super::xml_text::{escape, mark, with_escapes};
use super::{Gateway, error, names};
use crate::sal::limits::PART_NUMBER_MAX;
use crate::sal::{Attributes, Change, Finish, Id, Part, PartId, PartRef, Upload, VersionId, Writer};
use benthic_core::{ErrorKind, OptionalExtension};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CompletedPart, CreateMultipartUploadInput, CreateMultipartUploadOutput,
    ETag, Initiator, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use std::collections::BTreeMap;

/// Minimum size of every part except the last, in bytes.
const PART_BYTES_MIN: u64 = 5 << 20;
/// Parts per page that is read from the store.
const PAGE: usize = 1_000;

pub(super) fn upload_id(text: &str) -> S3Result<Id> {
    text.parse().map_err(|_| s3_error!(NoSuchUpload))
}

pub(super) fn part_number(number: i32) -> S3Result<u16> {
    let max = PART_NUMBER_MAX;
    let number = u16::try_from(number).ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| {
        s3_error!(InvalidArgument, "Part number must be an integer between 1 and {max}, inclusive")
    })
}

/// Completes the write of a verified part and returns its entity tag.
pub(super) async fn finish_part(
    writer: Box<dyn Writer>,
    verified: &Digests,
    encryption: Option<&Encryption>,
) -> S3Result<ETag> {
    let mut attributes = Attributes::new();
    if encryption.is_some() {
        mark_encrypted_part(&mut attributes);
    }
    verified.checksum.store(&mut attributes);
    let etag = etag_with(encryption, etag(&verified.md5));
    let finish = Finish { etag: etag.clone(), attributes, ..Finish::default() };
    writer.finish(finish).await.map_err(error::upload)?;
    Ok(strong_etag(&etag))
}

pub(super) fn initiator(name: &str) -> Initiator {
    Initiator { id: Some(name.to_owned()), display_name: Some(name.to_owned()) }
}

impl Gateway {
    pub(super) async fn begin_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = &request.input;
        let NewObject { access, mut attributes, lock, class } = self
            .authorize_new_object(
                &request,
                (&input.bucket, &input.expected_bucket_owner),
                &input.key,
                &object_headers!(input),
            )
            .await?;
        let encryption = self
            .create_data_key(&request, &access, &input.key, &encryption_headers!(input), &mut attributes)
            .await?;
        let algorithm = Algorithm::of_request(input.checksum_algorithm.as_ref())?;
        let kind = input.checksum_type.as_ref().map(|kind| Kind::parse(kind.as_str())).transpose()?;
        let checksum = match (algorithm, kind) {
            (None, None) => None,
            (None, Some(_)) => {
                return Err(s3_error!(InvalidRequest, "a checksum type needs a checksum algorithm"));
            }
            (Some(algorithm), kind) => {
                let kind = kind.unwrap_or(algorithm.kinds()[0]);
                if !algorithm.kinds().contains(&kind) {
                    return Err(s3_error!(
                        InvalidRequest,
                        "the checksum type {} is not possible for {}",
                        kind.name(),
                        algorithm.name()
                    ));
                }
                Some(StoredChecksum { algorithm, kind, value: String::new() })
            }
        };
        if let Some(checksum) = &checksum {
            checksum.store(&mut attributes);
        }
        let upload = self
            .sal
            .create_upload(&access.bucket, &input.key, attributes, lock, class.as_deref())
            .await
            .map_err(error::bucket)?;
        let mut output = CreateMultipartUploadOutput {
            bucket: Some(input.bucket.clone()),
            key: Some(escape(input.key.clone())),
            upload_id: Some(upload.to_string()),
            checksum_algorithm: checksum
                .as_ref()
                .map(|checksum| ChecksumAlgorithm::from_static(checksum.algorithm.name())),
            checksum_type: checksum.as_ref().map(StoredChecksum::checksum_type),
            ..CreateMultipartUploadOutput::default()
        };
        set_all_encryption!(output, encryption.as_ref());
        Ok(with_escapes(output))
    }

    pub(super) async fn put_part(
        &self,
        mut request: S3Request<UploadPartInput>,
    ) -> S3Result<UploadPartOutput> {
        let body = request.input.body.take();
        let input = &request.input;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let (access, id, upload) =
            self.authorize_part(&request, bucket, &input.key, &input.upload_id).await?;
        let (upload, part) = (upload?, PartId { upload: id, number: part_number(input.part_number)? });
        let encryption = self
            .open_data_key(&request, &access.bucket, &input.key, &upload.attributes, customer_headers!(input))
            .await?;
        let encryption = encryption.as_ref();
        let len_bytes = input.content_length.ok_or_else(|| s3_error!(MissingContentLength))?;
        let declared = Declaration {
            content_md5: input.content_md5.clone(),
            checksum: declared_checksum!(input),
            algorithm: Algorithm::of_request(input.checksum_algorithm.as_ref())?,
            trailers: request.trailing_headers.clone(),
            len_bytes: Some(len_bytes),
        };
        let wanted = StoredChecksum::of(&upload.attributes).map(|stored| stored.algorithm);
        let verifier = Verifier::new(declared, wanted, &request.headers)?;
        let size_bytes = u64::try_from(len_bytes).map_err(|_| s3_error!(InvalidArgument))?;
        let data_key = encryption.map(Encryption::data_key);
        let (bucket, class) = (&access.bucket, upload.class.as_deref());
        let writer = self.sal.write(bucket, &input.key, Some(part), Some(size_bytes), class, data_key).await;
        let mut writer = writer.map_err(error::upload)?;
        let verified = match self.receive(body, writer.as_mut(), verifier).await {
            Ok(verified) => verified,
            Err(failure) => return Err(abort_write(writer, failure).await),
        };
        let etag = finish_part(writer, &verified, encryption).await?;
        let mut output = UploadPartOutput { e_tag: Some(etag), ..UploadPartOutput::default() };
        set_checksum!(output, Some(&verified.checksum));
        set_all_encryption!(output, encryption);
        Ok(output)
    }

    pub(super) async fn abort_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<AbortMultipartUploadOutput> {
        let input = &request.input;
        super::refuse([("a condition on the time of an upload", input.if_match_initiated_time.is_some())])?;
        let access = self
            .authorize(&request, &input.bucket, &input.expected_bucket_owner, On::new_object(&input.key))
            .await?;
        let upload = upload_id(&input.upload_id)?;
        self.sal.abort_upload(&access.bucket, &input.key, upload).await.map_err(error::upload)?;
        Ok(AbortMultipartUploadOutput::default())
    }

    pub(super) async fn complete(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = &request.input;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let (access, id, upload) =
            self.authorize_part(&request, bucket, &input.key, &input.upload_id).await?;
        let named =
            input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref()).unwrap_or_default();
        if named.is_empty() {
            return Err(s3_error!(MalformedXML, "an object needs at least one part"));
        }
        let upload = match upload {
            Err(failure) if *failure.code() == S3ErrorCode::NoSuchUpload => {
                return self.repeat_completion(&access, input, id).await.map(with_escapes);
            }
            upload => upload?,
        };
        let (sealing, customer) = (sealing_of(&upload.attributes)?, customer_headers!(input));
        let has_on_put = self.has_on_put(&access.bucket, &input.key)?;
        let needs_key = match sealing {
            Some(SealedBy::Kms { .. }) => true,
            // Methods read the data.
            Some(_) if has_on_put => true,
            // As on AWS, only a checksum of the whole needs the key.
            Some(SealedBy::Customer) => StoredChecksum::of(&upload.attributes).is_some(),
            Some(SealedBy::S3) | None => false,
        };
        let encryption = if needs_key || customer.is_given() {
            self.open_data_key(&request, &access.bucket, &input.key, &upload.attributes, customer).await?
        } else {
            None
        };
        let parts = select_parts(named, &self.all_parts(&access, &input.key, id).await?)?;
        let size_bytes: u64 = parts.iter().map(|(_, part)| part.size_bytes).sum();
        if input.mpu_object_size.is_some_and(|size| u64::try_from(size) != Ok(size_bytes)) {
            return Err(s3_error!(InvalidRequest, "x-amz-mp-object-size differs from the size of the parts"));
        }
        let etag = etag_of_parts(parts.iter().map(|(_, part)| part.etag.as_str()))?;
        let checksum = checksum(&upload, &parts, input)?;
        let was_requested = StoredChecksum::of(&upload.attributes).is_some();
        let mut attributes: Attributes = upload.attributes;
        attributes.remove(names::CHECKSUM);
        if let Some(checksum) = &checksum {
            checksum.store(&mut attributes);
            if was_requested {
                store_part_checksums(&mut attributes, checksum, &parts);
            }
        }
        let condition = condition(input.if_match.as_ref(), input.if_none_match.as_ref())?;
        if compares(&condition) {
            self.authorize_comparison(&request, &access, &input.key, None).await?;
        }
        let refs: Vec<PartRef> =
            parts.iter().map(|(number, part)| PartRef { number: *number, write: part.write }).collect();
        let default_retention = default_retention(&access.bucket.attributes)?;
        let lock = upload.lock;
        let now_ms = self.environment.unix_ms();
        let expiration = self.expiration(&access, (&input.key, size_bytes), now_ms, &attributes);
        let ran_at = if has_on_put {
            let uploaded = self.sal.preview_upload(&access.bucket, &input.key, id, &refs, &attributes).await;
            let object = uploaded.map_err(error_of_completion(input))?;
            let data_key = encryption.as_ref().map(Encryption::data_key);
            let object = (&access.bucket, &object);
            self.run_on_put(&access, &input.key, object, data_key, &mut attributes).await?
        } else {
            None
        };
        let event = [(Change::Created, "ObjectCreated:CompleteMultipartUpload")];
        let events = self.events_of(&request, &access, &input.key, &event)?;
        let had_events = !events.is_empty();
        let finish = Finish { etag: etag.clone(), attributes, lock, default_retention, condition, events };
        let completed = self.sal.complete_upload(&access.bucket, &input.key, id, &refs, finish).await;
        let version = completed.map_err(error_of_completion(input))?;
        self.wake(&access.bucket, had_events);
        let mut output = complete_output(&access, input, version, &etag, checksum.as_ref());
        output.expiration = expiration;
        set_encryption!(output, &sealing);
        Ok(mark(response(output, ran_at)))
    }

    /// Finds an upload, and the bucket, if the caller may add a part to it or complete it.
    pub(super) async fn authorize_part<T>(
        &self,
        request: &S3Request<T>,
        (bucket, expected_owner): (&str, &Option<String>),
        key: &str,
        upload: &str,
    ) -> S3Result<(Authorized, Id, S3Result<Upload>)> {
        let access = self.open(request, bucket, expected_owner).await?;
        let id = upload_id(upload);
        let found = match &id {
            Ok(id) => self.sal.upload(&access.bucket, key, *id).await.optional().map_err(error::upload)?,
            Err(_) => None,
        };
        let sealing = match (&found, &id) {
            (Some(upload), _) => sealing_of(&upload.attributes)?,
            // A retry may complete an upload that is an object already.
            (None, Ok(id)) => match self.sal.object(&access.bucket, key, None).await {
                Ok(object) if object.write == *id => sealing_of(&object.attributes)?,
                _ => None,
            },
            (None, Err(_)) => None,
        };
        let on = On::Part { key, sealing: sealing.as_ref() };
        self.require(request, &access, access.action(on), on).await?;
        if let Some(upload) = &found {
            access.check_writer(&upload.attributes)?;
        }
        let upload = found.ok_or_else(|| s3_error!(NoSuchUpload));
        if upload.is_ok() {
            check_algorithm(request, sealing.as_ref())?;
        }
        Ok((access, id?, upload))
    }

    /// Answers a retry of a completion that has already succeeded.
    async fn repeat_completion(
        &self,
        access: &Authorized,
        input: &CompleteMultipartUploadInput,
        upload: Id,
    ) -> S3Result<CompleteMultipartUploadOutput> {
        match self.sal.object(&access.bucket, &input.key, None).await {
            Ok(object) if object.write == upload && !object.marker => {
                access.check_writer(&object.attributes)?;
                let stored = StoredChecksum::of(&object.attributes);
                let mut output =
                    complete_output(access, input, object.version, &object.etag, stored.as_ref());
                set_encryption!(output, &sealing_of(&object.attributes)?);
                Ok(output)
            }
            Err(failure) if failure.kind() != ErrorKind::NotFound => Err(error::upload(failure)),
            _ => Err(s3_error!(NoSuchUpload)),
        }
    }

    async fn all_parts(&self, access: &Authorized, key: &str, upload: Id) -> S3Result<BTreeMap<u16, Part>> {
        let mut all = BTreeMap::new();
        loop {
            let after = all.last_key_value().map_or(0, |(number, _)| *number);
            let page = self.sal.list_parts(&access.bucket, key, upload, after, PAGE).await;
            let (page, more) = page.map_err(error::upload)?;
            let last = page.is_empty();
            all.extend(page);
            if !more || last {
                return Ok(all);
            }
        }
    }
}

fn error_of_completion(
    input: &CompleteMultipartUploadInput,
) -> impl Fn(benthic_core::Error) -> S3Error + use<> {
    let has_condition = input.if_match.is_some();
    move |failure| match failure.kind() {
        // A part was replaced after the lookup.
        ErrorKind::InvalidArgument => s3_error!(InvalidPart),
        // With If-Match, NotFound means that the object is missing, not the upload.
        ErrorKind::NotFound if has_condition => error::object(failure),
        _ => error::upload(failure),
    }
}

fn complete_output(
    access: &Authorized,
    input: &CompleteMultipartUploadInput,
    version: VersionId,
    etag: &str,
    checksum: Option<&StoredChecksum>,
) -> CompleteMultipartUploadOutput {
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(escape(input.key.clone())),
        location: Some(escape(format!("/{}/{}", input.bucket, input.key))),
        e_tag: Some(strong_etag(etag)),
        version_id: version_field(access.bucket.versioning, version),
        checksum_type: checksum.map(StoredChecksum::checksum_type),
        ..CompleteMultipartUploadOutput::default()
    };
    set_checksum!(output, checksum);
    output
}

/// The parts that the client names, in the order of their numbers.
fn select_parts(named: &[CompletedPart], all: &BTreeMap<u16, Part>) -> S3Result<Vec<(u16, Part)>> {
    // Check the order before any error about a single part.
    if !named.is_sorted_by(|one, next| one.part_number < next.part_number) {
        return Err(s3_error!(InvalidPartOrder));
    }
    let mut parts: Vec<(u16, Part)> = Vec::with_capacity(named.len());
    for (index, named_part) in named.iter().enumerate() {
        let number = named_part.part_number.ok_or_else(|| s3_error!(MalformedXML))?;
        let number = part_number(number)?;
        let part = all.get(&number).ok_or_else(|| s3_error!(InvalidPart))?;
        if named_part.e_tag.as_ref().is_none_or(|etag| etag.value() != part.etag) {
            return Err(s3_error!(InvalidPart));
        }
        let declared = declared_checksum!(named_part);
        let stored = StoredChecksum::of(&part.attributes);
        if let Some((algorithm, value)) = declared
            && stored.as_ref().and_then(|stored| stored.value_of(algorithm)) != Some(value)
        {
            return Err(s3_error!(InvalidPart, "a part has another checksum"));
        }
        if index + 1 < named.len() && part.size_bytes < PART_BYTES_MIN {
            return Err(s3_error!(EntityTooSmall));
        }
        parts.push((number, part.clone()));
    }
    Ok(parts)
}

/// The checksum of the whole object, compared with the one that the client declares.
fn checksum(
    upload: &Upload,
    parts: &[(u16, Part)],
    input: &CompleteMultipartUploadInput,
) -> S3Result<Option<StoredChecksum>> {
    let stored: Vec<(Option<StoredChecksum>, u64)> =
        parts.iter().map(|(_, part)| (StoredChecksum::of(&part.attributes), part.size_bytes)).collect();
    let kind = input.checksum_type.as_ref().map(|kind| Kind::parse(kind.as_str())).transpose()?;
    let computed = match StoredChecksum::of(&upload.attributes) {
        Some(StoredChecksum { algorithm, kind: begun, .. }) => {
            if kind.is_some_and(|kind| kind != begun) {
                return Err(s3_error!(InvalidRequest, "the upload uses another checksum type"));
            }
            Some(of_parts(algorithm, begun, &stored)?)
        }
        // The client requested no checksum. Return one if all parts have checksums from which that
        // of the whole object follows.
        None => {
            let same = |algorithm: Algorithm| {
                stored
                    .iter()
                    .all(|(stored, _)| stored.as_ref().is_some_and(|stored| stored.algorithm == algorithm))
            };
            let algorithm = ALGORITHMS.into_iter().find(|algorithm| same(*algorithm));
            let algorithm = algorithm.filter(|algorithm| algorithm.kinds().contains(&Kind::FullObject));
            algorithm.map(|algorithm| of_parts(algorithm, Kind::FullObject, &stored)).transpose()?
        }
    };
    if let Some((algorithm, declared)) = declared_checksum!(input) {
        let found = computed.as_ref().and_then(|computed| computed.value_of(algorithm));
        // The client may omit the number of parts at the end of a composite checksum.
        let same = found
            .is_some_and(|found| found == declared || found.split('-').next() == Some(declared.as_str()));
        if !same {
            return Err(s3_error!(BadDigest, "the checksum does not match the object"));
        }
    }
    Ok(computed)
}
