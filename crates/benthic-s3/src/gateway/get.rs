//! GetObject, HeadObject, GetObjectAttributes.

use super::auth::On;
use super::checksums::{StoredChecksum, of_part, set_checksum};
use super::conditions::Preconditions;
use super::encryption::{
    Encryption, SealedBy, customer_headers, refuse_algorithm, sealing_of, set_all_encryption, set_encryption,
};
use super::object_headers::{class_name, metadata, text};
use super::object_lock::lock_fields;
use super::versions::{refuse_delete_marker, strong_etag, version_field};
use super::{Gateway, error, exec, http_date, names, tags, timestamp};
use crate::policy::Decision;
use crate::sal::{Object, Reader};
use crate::upstream::is_stale;
use benthic_core::ClassCall;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::header::HeaderValue;
use s3s::dto::{
    Checksum, GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectAttributesParts, GetObjectInput,
    GetObjectOutput, HeadObjectInput, HeadObjectOutput, ObjectAttributes, ObjectPart, StorageClass,
    StreamingBlob,
};
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The header of an answer from the cache of a gateway whose upstream cannot be reached.
const UPSTREAM: &str = "x-benthic-upstream";
/// Maximum number of parts in a page of GetObjectAttributes.
const PARTS_MAX: usize = 1_000;

/// The requested piece of an object.
struct RequestedRange {
    range: Range<u64>,
    /// Value of the Content-Range header; absent if the whole object is requested.
    content_range: Option<String>,
    /// The index (from 0) and the number of parts, if a part of a multipart object is requested.
    part: Option<(usize, usize)>,
}

impl RequestedRange {
    /// The checksum to return: that of the whole object or of the requested part.
    fn checksum(&self, object: &Object) -> Option<StoredChecksum> {
        match self.part {
            Some((index, count)) => of_part(&object.attributes, index, count),
            None => StoredChecksum::of(&object.attributes).filter(|_| self.content_range.is_none()),
        }
    }
}

fn requested_range(
    object: &Object,
    range: Option<&s3s::dto::Range>,
    part: Option<i32>,
) -> S3Result<RequestedRange> {
    let size = object.size_bytes;
    let all = RequestedRange { range: object.all(), content_range: None, part: None };
    let (range, part) = match (range, part) {
        (Some(_), Some(_)) => return Err(s3_error!(InvalidRequest, "request a range or a part, not both")),
        (None, None) => return Ok(all),
        (Some(_), None) if size == 0 && !matches!(range, Some(s3s::dto::Range::Int { .. })) => {
            return Ok(all);
        }
        (Some(range), None) => (range.check(size)?, None),
        (None, Some(part)) => {
            let parts = parts(object);
            let index = usize::try_from(part).ok().and_then(|part| part.checked_sub(1));
            let index = index.filter(|index| *index < parts.len()).ok_or_else(|| s3_error!(InvalidPart))?;
            (parts[index].clone(), is_multipart(object).then_some((index, parts.len())))
        }
    };
    if range.is_empty() {
        return Ok(RequestedRange { range, content_range: None, part });
    }
    let content_range = Some(format!("bytes {}-{}/{size}", range.start, range.end - 1));
    Ok(RequestedRange { range, content_range, part })
}

fn is_multipart(object: &Object) -> bool {
    object.etag.contains('-')
}

/// The byte ranges of an object's parts. An object that was written in one request has one part.
fn parts(object: &Object) -> Vec<Range<u64>> {
    if !is_multipart(object) || object.part_bytes.is_empty() {
        return vec![object.all()];
    }
    let mut start = 0;
    let part = |part_bytes: &u64| {
        let range = start..start + part_bytes;
        start = range.end;
        range
    };
    object.part_bytes.iter().map(part).collect()
}

/// Builds the fields that the outputs of GetObject and HeadObject share.
macro_rules! object_output {
    ($output:ident, $object:expr, $requested:expr, $lock:expr, $expiration:expr, $mode:expr, $with_checksum:expr) => {{
        let (object, requested, attributes) = (&$object, &$requested, &$object.attributes);
        let stored = requested.checksum(object).filter(|_| $with_checksum);
        let (object_lock_mode, object_lock_retain_until_date, object_lock_legal_hold_status) =
            lock_fields(&$lock);
        let mut output = $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(requested.range.end - requested.range.start).ok(),
            content_range: requested.content_range.clone(),
            parts_count: requested.part.and_then(|(_, count)| i32::try_from(count).ok()),
            e_tag: Some(strong_etag(&object.etag)),
            last_modified: Some(timestamp(object.modified_ms)),
            version_id: version_field($mode, object.version),
            content_type: text(attributes, names::CONTENT_TYPE)
                .or_else(|| Some("binary/octet-stream".to_owned())),
            cache_control: text(attributes, names::CACHE_CONTROL),
            content_disposition: text(attributes, names::CONTENT_DISPOSITION),
            content_encoding: text(attributes, names::CONTENT_ENCODING),
            content_language: text(attributes, names::CONTENT_LANGUAGE),
            expires: text(attributes, names::EXPIRES),
            website_redirect_location: text(attributes, names::WEBSITE_REDIRECT),
            storage_class: object.class.clone().map(StorageClass::from),
            metadata: metadata(attributes),
            tag_count: tags::count(attributes),
            expiration: $expiration,
            object_lock_mode,
            object_lock_retain_until_date,
            object_lock_legal_hold_status,
            checksum_type: stored.as_ref().map(StoredChecksum::checksum_type),
            ..$output::default()
        };
        set_checksum!(output, stored.as_ref());
        output
    }};
}

/// Replaces headers of the answer with those that the query requests.
macro_rules! override_headers {
    ($output:expr, $input:expr) => {{
        for (field, given) in [
            (&mut $output.content_type, &$input.response_content_type),
            (&mut $output.cache_control, &$input.response_cache_control),
            (&mut $output.content_disposition, &$input.response_content_disposition),
            (&mut $output.content_encoding, &$input.response_content_encoding),
            (&mut $output.content_language, &$input.response_content_language),
        ] {
            if given.is_some() {
                field.clone_from(given);
            }
        }
    }};
}

/// The common steps of GetObject and HeadObject: finds an object that the caller may read, checks
/// the conditions, and determines the requested range.
macro_rules! find_object {
    ($self:expr, $request:expr, $from_start:expr, $needs_key:expr) => {{
        let input = &$request.input;
        refuse_algorithm(&$request)?;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let object = (input.key.as_str(), input.version_id.as_deref());
        let (access, object, prefetch) = $self.authorize_read(&$request, bucket, object, $from_start).await?;
        refuse_delete_marker(&object, input.version_id.is_some())?;
        let conditions = Preconditions {
            if_match: input.if_match.as_ref(),
            if_none_match: input.if_none_match.as_ref(),
            if_modified_since: input.if_modified_since.as_ref(),
            if_unmodified_since: input.if_unmodified_since.as_ref(),
        };
        conditions.check(&object)?;
        if access.sender.caller == crate::identity::Caller::Anonymous
            && (input.response_content_type.is_some()
                || input.response_cache_control.is_some()
                || input.response_content_disposition.is_some()
                || input.response_content_encoding.is_some()
                || input.response_content_language.is_some()
                || input.response_expires.is_some())
        {
            return Err(s3_error!(InvalidRequest, "only a signed request can override response headers"));
        }
        let requested = requested_range(&object, input.range.as_ref(), input.part_number)?;
        let (sealing, customer) = (sealing_of(&object.attributes)?, customer_headers!(input));
        let encryption = if $needs_key || customer.is_given() || sealing == Some(SealedBy::Customer) {
            $self.open_object_key(&$request, &access.bucket, &object, customer).await?
        } else {
            None
        };
        (access, object, prefetch, requested, encryption)
    }};
}

impl Gateway {
    pub(super) async fn get(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        if let Some(call) = exec::requested_call(&request)? {
            return self.get_result(request, call).await;
        }
        let from_start = request.input.range.is_none() && request.input.part_number.is_none();
        let (access, object, prefetch, requested, encryption) = find_object!(self, request, from_start, true);
        let input = &request.input;
        let lock = access.visible_lock(&request, &object, On::object(&input.key, input.version_id.as_ref()));
        let mut output = object_output!(
            GetObjectOutput,
            object,
            requested,
            lock,
            self.expiration_of(&access, &object, input.version_id.is_some()),
            access.bucket.versioning,
            input.checksum_mode.is_some()
        );
        set_all_encryption!(output, encryption.as_ref());
        let data_key = encryption.as_ref().map(Encryption::data_key);
        let reader = self.sal.read(&access.bucket, &object, requested.range, prefetch, data_key).await;
        let reader = reader.map_err(error::object)?;
        output.body = Some(self.body(reader));
        Ok(with_source(output, &object))
    }

    /// Answers with the result of a method instead of the object.
    async fn get_result(
        &self,
        request: S3Request<GetObjectInput>,
        call: ClassCall,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = &request.input;
        if input.range.is_some() || input.part_number.is_some() {
            return Err(s3_error!(InvalidRequest, "the result of a method has no ranges and no parts"));
        }
        // A client may have another result of the same object.
        if input.if_none_match.is_some() || input.if_modified_since.is_some() {
            let message = "the result of a method has no ETag and no date; If-Match is possible";
            return Err(s3_error!(InvalidRequest, "{message}"));
        }
        let (access, object, _, _, encryption) = find_object!(self, request, false, true);
        let input = &request.input;
        let on = On::object(&input.key, input.version_id.as_ref());
        if access.decide(&request, exec::ACTION, on, Some(&object)) != Decision::Allowed {
            return Err(s3_error!(AccessDenied));
        }
        let data_key = encryption.as_ref().map(Encryption::data_key);
        let (result, ran_at) = self.run_method(&access.bucket, &object, data_key, call).await?;
        let mut output = GetObjectOutput {
            content_length: i64::try_from(result.len()).ok(),
            content_type: Some("application/octet-stream".to_owned()),
            cache_control: Some("no-cache".to_owned()),
            version_id: version_field(access.bucket.versioning, object.version),
            body: Some(StreamingBlob::from(Body::from(result))),
            ..GetObjectOutput::default()
        };
        set_all_encryption!(output, encryption.as_ref());
        let mut response = S3Response::new(output);
        response.headers.insert(exec::RAN_AT, HeaderValue::from_static(ran_at.label()));
        Ok(response)
    }

    pub(super) async fn head(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        if exec::requested_call(&request)?.is_some() {
            return Err(s3_error!(InvalidRequest, "the result of a method is known only to a GET"));
        }
        // A checksum tells about the data. For data under SSE-KMS, it needs the key, as on AWS.
        let needs_key = request.input.checksum_mode.is_some();
        let (access, object, _, requested, encryption) = find_object!(self, request, false, needs_key);
        let input = &request.input;
        let lock = access.visible_lock(&request, &object, On::object(&input.key, input.version_id.as_ref()));
        let mut output = object_output!(
            HeadObjectOutput,
            object,
            requested,
            lock,
            self.expiration_of(&access, &object, input.version_id.is_some()),
            access.bucket.versioning,
            input.checksum_mode.is_some()
        );
        override_headers!(output, input);
        if let Some(expires) = &input.response_expires {
            output.expires = http_date(expires);
        }
        set_encryption!(output, &sealing_of(&object.attributes)?);
        set_all_encryption!(output, encryption.as_ref());
        Ok(with_source(output, &object))
    }

    pub(super) async fn attributes(
        &self,
        request: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<GetObjectAttributesOutput> {
        let input = &request.input;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let object = (input.key.as_str(), input.version_id.as_deref());
        let (access, object, _) = self.authorize_read(&request, bucket, object, false).await?;
        let on = On::object(&input.key, input.version_id.as_ref());
        if access.decide(&request, access.action(on), on, Some(&object)) != Decision::Allowed {
            return Err(s3_error!(AccessDenied));
        }
        refuse_delete_marker(&object, input.version_id.is_some())?;
        self.open_object_key(&request, &access.bucket, &object, customer_headers!(input)).await?;
        // One header may name several attributes.
        let names = || input.object_attributes.iter().flat_map(|header| header.as_str().split(','));
        let requests = |name: &str| names().any(|attribute| attribute.trim() == name);
        let stored = StoredChecksum::of(&object.attributes).filter(|_| requests(ObjectAttributes::CHECKSUM));
        let checksum = stored.map(|stored| {
            let mut checksum =
                Checksum { checksum_type: Some(stored.checksum_type()), ..Checksum::default() };
            set_checksum!(checksum, Some(&stored));
            checksum
        });
        let object_parts = (requests(ObjectAttributes::OBJECT_PARTS) && is_multipart(&object))
            .then(|| page_of_parts(&object, input.max_parts, input.part_number_marker));
        Ok(GetObjectAttributesOutput {
            checksum,
            e_tag: requests(ObjectAttributes::ETAG).then(|| strong_etag(&object.etag)),
            last_modified: Some(timestamp(object.modified_ms)),
            object_parts,
            object_size: requests(ObjectAttributes::OBJECT_SIZE)
                .then(|| i64::try_from(object.size_bytes).unwrap_or(i64::MAX)),
            storage_class: requests(ObjectAttributes::STORAGE_CLASS)
                .then(|| StorageClass::from(class_name(&object.class))),
            version_id: version_field(access.bucket.versioning, object.version),
            ..GetObjectAttributesOutput::default()
        })
    }

    /// Wraps a reader as the body of an answer, and counts the bytes.
    fn body(&self, reader: Box<dyn Reader>) -> StreamingBlob {
        let metrics = Arc::clone(&self.metrics);
        let counted = pieces(reader).inspect_ok(move |data| {
            metrics.sent_bytes.fetch_add(data.len() as u64, Relaxed);
        });
        Body::http_body_unsync(StreamBody::new(counted.map_ok(Frame::data))).into()
    }
}

/// An answer that says if the object may be out of date, because the upstream cannot be reached.
fn with_source<T>(output: T, object: &Object) -> S3Response<T> {
    let mut response = S3Response::new(output);
    if is_stale(object) {
        response.headers.insert(UPSTREAM, HeaderValue::from_static("unreachable"));
    }
    response
}

pub(super) fn pieces(
    reader: Box<dyn Reader>,
) -> impl Stream<Item = Result<Bytes, benthic_core::Error>> + Send + 'static {
    futures::stream::try_unfold(reader, |mut reader| async move {
        Ok(reader.next().await?.map(|data| (data, reader)))
    })
}

fn page_of_parts(object: &Object, max: Option<i32>, marker: Option<i32>) -> GetObjectAttributesParts {
    let all = parts(object);
    let marker = marker.and_then(|marker| usize::try_from(marker).ok()).unwrap_or(0);
    let max = max.and_then(|max| usize::try_from(max).ok()).unwrap_or(PARTS_MAX).min(PARTS_MAX);
    let page: Vec<ObjectPart> = all
        .iter()
        .enumerate()
        .skip(marker)
        .take(max)
        .map(|(index, range)| {
            let mut part = ObjectPart {
                part_number: i32::try_from(index + 1).ok(),
                size: i64::try_from(range.end - range.start).ok(),
                ..ObjectPart::default()
            };
            let stored = of_part(&object.attributes, index, all.len());
            set_checksum!(part, stored.as_ref());
            part
        })
        .collect();
    let end = marker.saturating_add(page.len());
    GetObjectAttributesParts {
        is_truncated: Some(end < all.len()),
        max_parts: i32::try_from(max).ok(),
        next_part_number_marker: i32::try_from(end).ok(),
        part_number_marker: i32::try_from(marker).ok(),
        parts: Some(page),
        total_parts_count: i32::try_from(all.len()).ok(),
    }
}
