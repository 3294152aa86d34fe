//! ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads, ListParts.

use super::auth::{Authorized, On};
use super::checksums::{StoredChecksum, set_checksum};
use super::encryption::{CustomerHeaders, SealedBy, sealing_of};
use super::multipart::{initiator, upload_id};
use super::object_headers::class_name;
use super::public_access::object_owner;
use super::versions::strong_etag;
use super::xml_text::{escape, with_escapes};
use super::{Gateway, acl, error, timestamp};
use crate::sal::{Entry, Id, KeyPosition, List, ListKind, ListPosition, ListedVersion, Part};
use crate::seal::{hex, unhex};
use s3s::dto::{
    ChecksumAlgorithm, CommonPrefix, DeleteMarkerEntry, EncodingType, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectVersionsInput, ListObjectVersionsOutput, ListObjectsInput,
    ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput, ListPartsOutput,
    MultipartUpload, Object, ObjectStorageClass, ObjectVersion, ObjectVersionStorageClass, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

const ENTRIES_MAX: i32 = 1_000;
const PARTS_MAX: i32 = 1_000;
/// Maximum number of SAL pages per request, after which the client gets a shorter page.
const PAGES_MAX: usize = 100;

struct PageRequest<'a> {
    kind: ListKind,
    prefix: Option<&'a str>,
    delimiter: Option<&'a str>,
    after: Option<ListPosition>,
    entries_max: Option<i32>,
    encoding: Option<&'a EncodingType>,
}

macro_rules! page_request {
    ($input:expr, $kind:expr, $after:expr, $entries_max:ident) => {
        PageRequest {
            kind: $kind,
            prefix: $input.prefix.as_deref(),
            delimiter: $input.delimiter.as_deref(),
            after: $after,
            entries_max: $input.$entries_max,
            encoding: $input.encoding_type.as_ref(),
        }
    };
}

/// The listing of a request, from its start.
fn list(wanted: &PageRequest<'_>) -> List {
    List {
        kind: wanted.kind,
        prefix: wanted.prefix.unwrap_or_default().to_owned(),
        delimiter: wanted.delimiter.unwrap_or_default().to_owned(),
        after: None,
        entries_max: 0,
    }
}

struct Page {
    entries: Vec<Entry>,
    next: Option<ListPosition>,
    entries_max: i32,
    encodes: bool,
}

impl Page {
    fn encode(&self, text: impl Into<String>) -> String {
        let text = text.into();
        if self.encodes { encode(&text) } else { escape(text) }
    }

    fn encoded_opt(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.encode(text))
    }

    fn prefixes(&self) -> Option<Vec<CommonPrefix>> {
        let prefixes: Vec<_> = self
            .entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Prefix(prefix) => Some(CommonPrefix { prefix: Some(self.encode(prefix.as_str())) }),
                _ => None,
            })
            .collect();
        (!prefixes.is_empty()).then_some(prefixes)
    }

    fn versions(&self) -> impl Iterator<Item = &ListedVersion> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Version(version) => Some(version),
            _ => None,
        })
    }

    fn objects(&self, owner: Option<&str>) -> Vec<Object> {
        let object = |version: &ListedVersion| Object {
            key: Some(self.encode(version.key.as_str())),
            e_tag: Some(strong_etag(&version.etag)),
            size: i64::try_from(version.size_bytes).ok(),
            last_modified: Some(timestamp(version.modified_ms)),
            owner: owner.map(acl::owner),
            storage_class: Some(ObjectStorageClass::from(class_name(&version.class))),
            ..Object::default()
        };
        self.versions().map(object).collect()
    }
}

/// Percent-encodes a key as S3 does in listings, because XML cannot represent every key.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

impl Gateway {
    async fn page(&self, access: &Authorized, wanted: PageRequest<'_>) -> S3Result<Page> {
        let entries_max = wanted.entries_max.unwrap_or(ENTRIES_MAX);
        if entries_max < 0 {
            return Err(s3_error!(InvalidArgument, "the page size must not be negative"));
        }
        let encodes = match wanted.encoding.map(EncodingType::as_str) {
            None => false,
            Some(EncodingType::URL) => true,
            Some(_) => {
                return Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request"));
            }
        };
        let page_entries = u32::try_from(entries_max.min(ENTRIES_MAX)).unwrap_or(0);
        let mut page = Page { entries: Vec::new(), next: wanted.after.clone(), entries_max, encodes };
        if page_entries == 0 {
            page.next = None;
            return Ok(page);
        }
        for pages in 1.. {
            let entries_max = page_entries - page.entries.len() as u32;
            let list = List { after: page.next.take(), entries_max, ..list(&wanted) };
            let listed = self.sal.list(&access.bucket, &list).await.map_err(error::bucket)?;
            page.entries.extend(listed.entries);
            page.next = listed.next;
            // An empty page cannot say where to continue if the position is derived from its last
            // key.
            let may_end = pages >= PAGES_MAX && !page.entries.is_empty();
            if page.next.is_none() || page.entries.len() >= page_entries as usize || may_end {
                break;
            }
        }
        // After a common prefix there may be only more keys of the same prefix.
        if let (Some(next), Some(Entry::Prefix(_))) = (&page.next, page.entries.last()) {
            let rest = List { after: Some(next.clone()), entries_max: 1, ..list(&wanted) };
            let rest = self.sal.list(&access.bucket, &rest).await.map_err(error::bucket)?;
            if rest.entries.is_empty() && rest.next.is_none() {
                page.next = None;
            }
        }
        Ok(page)
    }

    pub(super) async fn list(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let after = position_after(input.marker.as_deref());
        let wanted = page_request!(input, ListKind::Objects, after, max_keys);
        let page = self.page(&access, wanted).await?;
        let last = page.entries.last().map(|entry| page.encode(entry.key()));
        Ok(with_escapes(ListObjectsOutput {
            name: Some(input.bucket.clone()),
            prefix: Some(page.encode(input.prefix.as_deref().unwrap_or_default())),
            marker: Some(page.encode(input.marker.as_deref().unwrap_or_default())),
            max_keys: Some(page.entries_max),
            is_truncated: Some(page.next.is_some()),
            contents: Some(page.objects(Some(&access.bucket.owner))),
            common_prefixes: page.prefixes(),
            delimiter: page.encoded_opt(non_empty(input.delimiter.as_deref())),
            next_marker: last.filter(|_| page.next.is_some()),
            encoding_type: input.encoding_type.clone(),
            request_charged: None,
        }))
    }

    pub(super) async fn list_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let after =
            match non_empty(input.continuation_token.as_deref()) {
                Some(token) => Some(parse_token(token).ok_or_else(|| {
                    s3_error!(InvalidArgument, "The continuation token provided is incorrect")
                })?),
                None => position_after(input.start_after.as_deref()),
            };
        let wanted = page_request!(input, ListKind::Objects, after, max_keys);
        let page = self.page(&access, wanted).await?;
        let owner = input.fetch_owner.unwrap_or(false).then_some(access.bucket.owner.as_str());
        Ok(with_escapes(ListObjectsV2Output {
            name: Some(input.bucket.clone()),
            prefix: Some(page.encode(input.prefix.as_deref().unwrap_or_default())),
            max_keys: Some(page.entries_max),
            key_count: i32::try_from(page.entries.len()).ok(),
            continuation_token: input.continuation_token.clone(),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.as_ref().map(token),
            contents: Some(page.objects(owner)),
            common_prefixes: page.prefixes(),
            delimiter: page.encoded_opt(non_empty(input.delimiter.as_deref())),
            encoding_type: input.encoding_type.clone(),
            start_after: page.encoded_opt(input.start_after.as_deref()),
            request_charged: None,
        }))
    }

    pub(super) async fn list_versions(
        &self,
        request: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let within = non_empty(input.version_id_marker.as_deref()).map(|marker| {
            let number = u64::from_str_radix(marker, 16).ok().map(KeyPosition::Version);
            number.ok_or_else(|| {
                s3_error!(InvalidArgument, "version-id-marker must be the NextVersionIdMarker of a listing")
            })
        });
        let after = position_within(input.key_marker.as_deref(), within.transpose()?)?;
        let wanted = page_request!(input, ListKind::Versions, after, max_keys);
        let page = self.page(&access, wanted).await?;
        let mut versions = Vec::new();
        let mut markers = Vec::new();
        for version in page.versions() {
            let key = Some(page.encode(version.key.as_str()));
            let version_id = Some(version.version.to_string());
            let (is_latest, owner) = (Some(version.current), Some(acl::owner(&access.bucket.owner)));
            let last_modified = Some(timestamp(version.modified_ms));
            if version.marker {
                markers.push(DeleteMarkerEntry { is_latest, key, last_modified, owner, version_id });
            } else {
                versions.push(ObjectVersion {
                    e_tag: Some(strong_etag(&version.etag)),
                    size: i64::try_from(version.size_bytes).ok(),
                    storage_class: Some(ObjectVersionStorageClass::from(class_name(&version.class))),
                    is_latest,
                    key,
                    last_modified,
                    owner,
                    version_id,
                    ..ObjectVersion::default()
                });
            }
        }
        // Not `next`: this listing cannot express a position between entries.
        let last = page.entries.last().filter(|_| page.next.is_some());
        let position = last.map(|entry| entry.position(ListKind::Versions));
        let next_version = position.as_ref().and_then(|position| match position.within {
            Some(KeyPosition::Version(number)) => Some(format!("{number:016x}")),
            _ => None,
        });
        Ok(with_escapes(ListObjectVersionsOutput {
            name: Some(input.bucket.clone()),
            prefix: Some(page.encode(input.prefix.as_deref().unwrap_or_default())),
            key_marker: Some(page.encode(input.key_marker.as_deref().unwrap_or_default())),
            version_id_marker: Some(input.version_id_marker.clone().unwrap_or_default()),
            max_keys: Some(page.entries_max),
            is_truncated: Some(page.next.is_some()),
            next_key_marker: position.map(|position| page.encode(position.key)),
            next_version_id_marker: next_version,
            versions: Some(versions),
            delete_markers: Some(markers),
            common_prefixes: page.prefixes(),
            delimiter: page.encoded_opt(non_empty(input.delimiter.as_deref())),
            encoding_type: input.encoding_type.clone(),
            request_charged: None,
        }))
    }

    pub(super) async fn list_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let key_marker = non_empty(input.key_marker.as_deref());
        // S3 ignores upload-id-marker without key-marker.
        let within =
            non_empty(input.upload_id_marker.as_deref()).filter(|_| key_marker.is_some()).map(|marker| {
                let id: Result<Id, _> = marker.parse();
                id.map(KeyPosition::Upload)
                    .map_err(|_| s3_error!(InvalidArgument, "upload-id-marker is not an upload id"))
            });
        let after = position_within(key_marker, within.transpose()?)?;
        let wanted = page_request!(input, ListKind::Uploads, after, max_uploads);
        let page = self.page(&access, wanted).await?;
        let uploads = page.entries.iter().filter_map(|entry| match entry {
            Entry::Upload(upload) => Some(MultipartUpload {
                key: Some(page.encode(upload.key.as_str())),
                upload_id: Some(upload.upload.to_string()),
                initiated: Some(timestamp(upload.begun_ms)),
                owner: Some(acl::owner(&access.bucket.owner)),
                initiator: Some(initiator(&access.bucket.owner)),
                storage_class: Some(StorageClass::from(class_name(&upload.class))),
                ..MultipartUpload::default()
            }),
            _ => None,
        });
        let uploads = Some(uploads.collect());
        let last = page.entries.last().filter(|_| page.next.is_some());
        let position = last.map(|entry| entry.position(ListKind::Uploads));
        let next_upload = position.as_ref().and_then(|position| match position.within {
            Some(KeyPosition::Upload(upload)) => Some(upload.to_string()),
            _ => None,
        });
        Ok(with_escapes(ListMultipartUploadsOutput {
            bucket: Some(input.bucket.clone()),
            prefix: Some(page.encode(input.prefix.as_deref().unwrap_or_default())),
            key_marker: Some(page.encode(input.key_marker.as_deref().unwrap_or_default())),
            upload_id_marker: Some(escape(input.upload_id_marker.clone().unwrap_or_default())),
            next_key_marker: position.map(|position| page.encode(position.key)),
            next_upload_id_marker: next_upload,
            max_uploads: Some(page.entries_max),
            is_truncated: Some(page.next.is_some()),
            uploads,
            common_prefixes: page.prefixes(),
            delimiter: page.encoded_opt(non_empty(input.delimiter.as_deref())),
            encoding_type: input.encoding_type.clone(),
            request_charged: None,
        }))
    }

    pub(super) async fn list_parts(
        &self,
        request: S3Request<ListPartsInput>,
    ) -> S3Result<S3Response<ListPartsOutput>> {
        let input = &request.input;
        let access = self
            .authorize(&request, &input.bucket, &input.expected_bucket_owner, On::object(&input.key, None))
            .await?;
        let id = upload_id(&input.upload_id)?;
        let upload = self.sal.upload(&access.bucket, &input.key, id).await.map_err(error::upload)?;
        // The checksums of parts tell about the data.
        if matches!(sealing_of(&upload.attributes)?, Some(SealedBy::Kms { .. })) {
            let none = CustomerHeaders::default();
            self.open_data_key(&request, &access.bucket, &input.key, &upload.attributes, none).await?;
        }
        let marker = input.part_number_marker.unwrap_or(0);
        let after = u16::try_from(marker)
            .map_err(|_| s3_error!(InvalidArgument, "part-number-marker is not a part number"))?;
        let max = input.max_parts.unwrap_or(PARTS_MAX);
        let wanted = usize::try_from(max.min(PARTS_MAX))
            .map_err(|_| s3_error!(InvalidArgument, "the page size must not be negative"))?;
        let listed = self.sal.list_parts(&access.bucket, &input.key, id, after, wanted.max(1)).await;
        let (mut listed, mut more) = listed.map_err(error::upload)?;
        if wanted == 0 {
            listed.clear();
            more = false;
        }
        let next = listed.last().map(|(number, _)| i32::from(*number));
        let checksum = StoredChecksum::of(&upload.attributes);
        let owner = object_owner(&access.bucket, &upload.attributes);
        Ok(with_escapes(ListPartsOutput {
            bucket: Some(input.bucket.clone()),
            key: Some(escape(input.key.clone())),
            upload_id: Some(input.upload_id.clone()),
            parts: Some(listed.iter().map(|(number, part)| listed_part(*number, part)).collect()),
            part_number_marker: Some(marker),
            next_part_number_marker: next.or(Some(marker)),
            max_parts: Some(max),
            is_truncated: Some(more),
            owner: Some(acl::owner(owner)),
            initiator: Some(initiator(owner)),
            storage_class: Some(StorageClass::from(class_name(&upload.class))),
            checksum_algorithm: checksum
                .as_ref()
                .map(|stored| ChecksumAlgorithm::from_static(stored.algorithm.name())),
            checksum_type: checksum.as_ref().map(StoredChecksum::checksum_type),
            ..ListPartsOutput::default()
        }))
    }
}

fn listed_part(number: u16, part: &Part) -> s3s::dto::Part {
    let mut listed = s3s::dto::Part {
        part_number: Some(i32::from(number)),
        e_tag: Some(strong_etag(&part.etag)),
        size: i64::try_from(part.size_bytes).ok(),
        last_modified: Some(timestamp(part.modified_ms)),
        ..s3s::dto::Part::default()
    };
    let stored = StoredChecksum::of(&part.attributes);
    set_checksum!(listed, stored.as_ref());
    listed
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn position_after(key: Option<&str>) -> Option<ListPosition> {
    non_empty(key).map(|key| ListPosition { key: key.to_owned(), within: None })
}

fn position_within(key: Option<&str>, within: Option<KeyPosition>) -> S3Result<Option<ListPosition>> {
    match (non_empty(key), within) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(s3_error!(InvalidArgument, "version-id-marker needs a key-marker")),
        (Some(key), within) => Ok(Some(ListPosition { key: key.to_owned(), within })),
    }
}

/// The continuation token of a position, in hexadecimal: the length of the key (u32,
/// little-endian), the key, and the position inside the key.
fn token(after: &ListPosition) -> String {
    let mut bytes = u32::try_from(after.key.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    bytes.extend_from_slice(after.key.as_bytes());
    match after.within {
        None => bytes.push(0),
        Some(KeyPosition::Version(seq)) => bytes.extend([1, 0].into_iter().chain(seq.to_le_bytes())),
        Some(KeyPosition::Upload(upload)) => bytes.extend([1, 1].into_iter().chain(upload.0)),
        Some(KeyPosition::Hidden) => bytes.extend([1, 2]),
    }
    hex(&bytes)
}

fn parse_token(token: &str) -> Option<ListPosition> {
    let bytes = unhex(token)?;
    let (len_bytes, rest) = bytes.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*len_bytes) as usize)?;
    let within = match rest {
        [0] => None,
        [1, 0, seq @ ..] => Some(KeyPosition::Version(u64::from_le_bytes(seq.try_into().ok()?))),
        [1, 1, upload @ ..] => Some(KeyPosition::Upload(Id(upload.try_into().ok()?))),
        [1, 2] => Some(KeyPosition::Hidden),
        _ => return None,
    };
    Some(ListPosition { key: String::from_utf8(key.to_vec()).ok()?, within })
}
