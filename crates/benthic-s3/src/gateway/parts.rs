//! UploadPart, UploadPartCopy, ListParts.

use super::auth::Wants;
use super::checksums::{Declared, Kept, Verifier, declared, etag, tell};
use super::copy::source;
use super::download::pieces;
use super::objects::{refuse_customer_keys, told_etag, told_version};
use super::upload::{algorithm, given_up};
use super::uploads::{upload_id, wanted_checksum};
use super::{Gateway, acl, error, timestamp};
use crate::sal::{Attributes, Finish, Object, Part, PartOf};
use futures::TryStreamExt;
use s3s::dto::{
    ChecksumAlgorithm, CopyPartResult, ListPartsInput, ListPartsOutput, StorageClass, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use std::ops::Range;
use std::pin::pin;

/// Most parts of a page.
const PARTS_MAX: i32 = 1_000;
/// Largest part.
const PART_BYTES_MAX: u64 = 5 << 30;

impl Gateway {
    pub(super) async fn put_part(
        &self,
        mut request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let body = request.input.body.take();
        let input = &request.input;
        refuse_customer_keys(input.sse_customer_algorithm.is_some(), input.sse_customer_key.is_some())?;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::All).await?;
        let part = PartOf { upload: upload_id(&input.upload_id)?, number: number(input.part_number)? };
        let upload = self.sal.upload(&asked.bucket, &input.key, part.upload).await.map_err(error::upload)?;
        let len_bytes = input.content_length.ok_or_else(|| s3_error!(MissingContentLength))?;
        let declared = Declared {
            content_md5: input.content_md5.clone(),
            checksum: declared!(input),
            algorithm: algorithm(input.checksum_algorithm.as_ref().map(|algorithm| algorithm.as_str()))?,
            trailers: request.trailing_headers.clone(),
            len_bytes: Some(len_bytes),
        };
        let wanted = wanted_checksum(&upload).map(|wanted| wanted.algorithm);
        let verifier = Verifier::new(declared, wanted, &request.headers)?;
        let size_bytes = u64::try_from(len_bytes).map_err(|_| s3_error!(InvalidArgument))?;
        let writer = self.sal.write(&asked.bucket, &input.key, Some(part), Some(size_bytes)).await;
        let mut writer = writer.map_err(error::upload)?;
        let verified = match self.receive(body, writer.as_mut(), verifier).await {
            Ok(verified) => verified,
            Err(failure) => return Err(given_up(writer, failure).await),
        };
        let mut attributes = Attributes::new();
        verified.checksum.put(&mut attributes);
        let etag = etag(&verified.md5);
        let finish = Finish { etag: etag.clone(), attributes, ..Finish::default() };
        writer.finish(finish).await.map_err(error::upload)?;
        let mut output = UploadPartOutput { e_tag: Some(told_etag(&etag)), ..UploadPartOutput::default() };
        tell!(output, Some(&verified.checksum));
        Ok(S3Response::new(output))
    }

    pub(super) async fn copy_part(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let input = &request.input;
        refuse_customer_keys(input.sse_customer_algorithm.is_some(), input.sse_customer_key.is_some())?;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::All).await?;
        let part = PartOf { upload: upload_id(&input.upload_id)?, number: number(input.part_number)? };
        let upload = self.sal.upload(&asked.bucket, &input.key, part.upload).await.map_err(error::upload)?;
        let (from, source) = self.source(&request, source!(input)).await?;
        let range = source_range(&source, input.copy_source_range.as_deref())?;
        let size_bytes = range.end - range.start;
        if size_bytes > PART_BYTES_MAX {
            return Err(s3_error!(EntityTooLarge, "a part has 5 GiB at most"));
        }
        let declared = Declared {
            content_md5: None,
            checksum: None,
            algorithm: None,
            trailers: None,
            len_bytes: i64::try_from(size_bytes).ok(),
        };
        let wanted = wanted_checksum(&upload).map(|wanted| wanted.algorithm);
        let mut verifier = Verifier::new(declared, wanted, &hyper::HeaderMap::new())?;
        let reader = self.sal.read(&from.bucket, &source, range, None).await.map_err(error::object)?;
        let writer = self.sal.write(&asked.bucket, &input.key, Some(part), Some(size_bytes)).await;
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
            Err(failure) => return Err(given_up(writer, failure).await),
        };
        let mut attributes = Attributes::new();
        verified.checksum.put(&mut attributes);
        let etag = etag(&verified.md5);
        let finish = Finish { etag: etag.clone(), attributes, ..Finish::default() };
        writer.finish(finish).await.map_err(error::upload)?;
        let mut result = CopyPartResult {
            e_tag: Some(told_etag(&etag)),
            last_modified: Some(timestamp(self.environment.unix_ms())),
            ..CopyPartResult::default()
        };
        tell!(result, Some(&verified.checksum));
        Ok(S3Response::new(UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: told_version(from.bucket.versioning, source.version),
            ..UploadPartCopyOutput::default()
        }))
    }

    pub(super) async fn parts(
        &self,
        request: S3Request<ListPartsInput>,
    ) -> S3Result<S3Response<ListPartsOutput>> {
        let input = &request.input;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::All).await?;
        let id = upload_id(&input.upload_id)?;
        let upload = self.sal.upload(&asked.bucket, &input.key, id).await.map_err(error::upload)?;
        let marker = input.part_number_marker.unwrap_or(0);
        let after = u16::try_from(marker)
            .map_err(|_| s3_error!(InvalidArgument, "part-number-marker is no number of a part"))?;
        let max = input.max_parts.unwrap_or(PARTS_MAX);
        let wanted = usize::try_from(max.min(PARTS_MAX))
            .map_err(|_| s3_error!(InvalidArgument, "a page has no negative number of parts"))?;
        let listed = self.sal.list_parts(&asked.bucket, &input.key, id, after, wanted.max(1)).await;
        let (mut listed, mut more) = listed.map_err(error::upload)?;
        if wanted == 0 {
            listed.clear();
            more = false;
        }
        let next = listed.last().map(|(number, _)| i32::from(*number));
        let checksum = wanted_checksum(&upload);
        let output = ListPartsOutput {
            bucket: Some(input.bucket.clone()),
            key: Some(input.key.clone()),
            upload_id: Some(input.upload_id.clone()),
            parts: Some(listed.iter().map(|(number, part)| told(*number, part)).collect()),
            part_number_marker: Some(marker),
            next_part_number_marker: next.or(Some(marker)),
            max_parts: Some(max),
            is_truncated: Some(more),
            owner: Some(acl::owner(&asked.bucket.owner)),
            initiator: Some(super::uploads::initiator(&asked.bucket.owner)),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            checksum_algorithm: checksum
                .map(|wanted| ChecksumAlgorithm::from_static(wanted.algorithm.name())),
            checksum_type: checksum.map(|wanted| s3s::dto::ChecksumType::from_static(wanted.kind.name())),
            ..ListPartsOutput::default()
        };
        Ok(S3Response::new(output))
    }
}

fn told(number: u16, part: &Part) -> s3s::dto::Part {
    let mut told = s3s::dto::Part {
        part_number: Some(i32::from(number)),
        e_tag: Some(told_etag(&part.etag)),
        size: i64::try_from(part.size_bytes()).ok(),
        last_modified: Some(timestamp(part.modified_ms)),
        ..s3s::dto::Part::default()
    };
    let kept = Kept::of(&part.attributes);
    tell!(told, kept.as_ref());
    told
}

/// The number of a part as a request has it.
pub(super) fn number(number: i32) -> S3Result<u16> {
    let max = crate::sal::limits::PART_NUMBER_MAX;
    let number = u16::try_from(number).ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| {
        s3_error!(InvalidArgument, "Part number must be an integer between 1 and {max}, inclusive")
    })
}

/// What of the source becomes the part. The header has both ends, within the object.
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
