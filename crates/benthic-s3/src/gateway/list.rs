//! ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads.

use super::auth::{Asked, Wants};
use super::objects::told_etag;
use super::{Gateway, acl, error, timestamp};
use crate::sal::{After, Entry, Id, List, ListedVersion, What, Within};
use benthic_core::codec::Wire;
use s3s::dto::{
    CommonPrefix, DeleteMarkerEntry, EncodingType, ListMultipartUploadsInput, ListMultipartUploadsOutput,
    ListObjectVersionsInput, ListObjectVersionsOutput, ListObjectsInput, ListObjectsOutput,
    ListObjectsV2Input, ListObjectsV2Output, MultipartUpload, Object, ObjectStorageClass, ObjectVersion,
    ObjectVersionStorageClass, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

/// Most entries of a page.
const ENTRIES_MAX: i32 = 1_000;
/// Pages of the SAL that are asked for before a client is told to come again.
const PAGES_MAX: usize = 100;

/// A page as it was asked for.
struct Asking<'a> {
    what: What,
    prefix: Option<&'a str>,
    delimiter: Option<&'a str>,
    after: Option<After>,
    entries_max: Option<i32>,
    encoding: Option<&'a EncodingType>,
}

/// A page.
struct Page {
    entries: Vec<Entry>,
    next: Option<After>,
    entries_max: i32,
    encodes: bool,
}

impl Page {
    fn told(&self, text: impl Into<String>) -> String {
        let text = text.into();
        if self.encodes { encode(&text) } else { text }
    }

    fn told_opt(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.told(text))
    }

    fn prefixes(&self) -> Option<Vec<CommonPrefix>> {
        let prefixes: Vec<_> = self
            .entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Prefix(prefix) => Some(CommonPrefix { prefix: Some(self.told(prefix.as_str())) }),
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
            key: Some(self.told(version.key.as_str())),
            e_tag: Some(told_etag(&version.head.etag)),
            size: i64::try_from(version.head.size_bytes).ok(),
            last_modified: Some(timestamp(version.head.modified_ms)),
            owner: owner.map(acl::owner),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
            ..Object::default()
        };
        self.versions().map(object).collect()
    }
}

/// Percent-encoding as S3 does it in listings: XML cannot carry every key.
fn encode(text: &str) -> String {
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
    async fn page(&self, asked: &Asked, asking: Asking<'_>) -> S3Result<Page> {
        let entries_max = asking.entries_max.unwrap_or(ENTRIES_MAX);
        if entries_max < 0 {
            return Err(s3_error!(InvalidArgument, "a page has no negative number of entries"));
        }
        let encodes = match asking.encoding.map(EncodingType::as_str) {
            None => false,
            Some(EncodingType::URL) => true,
            Some(_) => {
                return Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request"));
            }
        };
        let wanted = u32::try_from(entries_max.min(ENTRIES_MAX)).unwrap_or(0);
        let mut page = Page { entries: Vec::new(), next: asking.after, entries_max, encodes };
        if wanted == 0 {
            page.next = None;
            return Ok(page);
        }
        for asked_pages in 1.. {
            let list = List {
                what: asking.what,
                prefix: asking.prefix.unwrap_or_default().to_owned(),
                delimiter: asking.delimiter.unwrap_or_default().to_owned(),
                after: page.next.take(),
                entries_max: wanted - page.entries.len() as u32,
            };
            let listed = self.sal.list(&asked.bucket, &list).await.map_err(error::bucket)?;
            page.entries.extend(listed.entries);
            page.next = listed.next;
            // Where only a key says where to go on, an empty page could not.
            let may_end = asked_pages >= PAGES_MAX && !page.entries.is_empty();
            if page.next.is_none() || page.entries.len() >= wanted as usize || may_end {
                break;
            }
        }
        Ok(page)
    }

    pub(super) async fn list(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = &request.input;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::List).await?;
        let asking = Asking {
            what: What::Objects,
            prefix: input.prefix.as_deref(),
            delimiter: input.delimiter.as_deref(),
            after: behind(input.marker.as_deref()),
            entries_max: input.max_keys,
            encoding: input.encoding_type.as_ref(),
        };
        let page = self.page(&asked, asking).await?;
        let last = page.entries.last().map(|entry| page.told(entry.key()));
        let output = ListObjectsOutput {
            name: Some(input.bucket.clone()),
            prefix: Some(page.told(input.prefix.as_deref().unwrap_or_default())),
            marker: Some(page.told(input.marker.as_deref().unwrap_or_default())),
            max_keys: Some(page.entries_max),
            is_truncated: Some(page.next.is_some()),
            contents: Some(page.objects(Some(&asked.bucket.owner))),
            common_prefixes: page.prefixes(),
            delimiter: page.told_opt(input.delimiter.as_deref()),
            next_marker: last.filter(|_| page.next.is_some()),
            encoding_type: input.encoding_type.clone(),
            request_charged: None,
        };
        Ok(S3Response::new(output))
    }

    pub(super) async fn list_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = &request.input;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::List).await?;
        let after = match input.continuation_token.as_deref() {
            Some(token) => Some(untoken(token)?),
            None => behind(input.start_after.as_deref()),
        };
        let asking = Asking {
            what: What::Objects,
            prefix: input.prefix.as_deref(),
            delimiter: input.delimiter.as_deref(),
            after,
            entries_max: input.max_keys,
            encoding: input.encoding_type.as_ref(),
        };
        let page = self.page(&asked, asking).await?;
        let owner = input.fetch_owner.unwrap_or(false).then_some(asked.bucket.owner.as_str());
        let output = ListObjectsV2Output {
            name: Some(input.bucket.clone()),
            prefix: Some(page.told(input.prefix.as_deref().unwrap_or_default())),
            max_keys: Some(page.entries_max),
            key_count: i32::try_from(page.entries.len()).ok(),
            continuation_token: input.continuation_token.clone(),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.as_ref().map(token),
            contents: Some(page.objects(owner)),
            common_prefixes: page.prefixes(),
            delimiter: page.told_opt(input.delimiter.as_deref()),
            encoding_type: input.encoding_type.clone(),
            start_after: page.told_opt(input.start_after.as_deref()),
            request_charged: None,
        };
        Ok(S3Response::new(output))
    }

    pub(super) async fn list_versions(
        &self,
        request: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let input = &request.input;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::List).await?;
        let within = named(input.version_id_marker.as_deref()).map(|marker| {
            let number = u64::from_str_radix(marker, 16).ok().map(Within::Version);
            number.ok_or_else(|| {
                s3_error!(InvalidArgument, "version-id-marker is what a listing said, NextVersionIdMarker")
            })
        });
        let asking = Asking {
            what: What::Versions,
            prefix: input.prefix.as_deref(),
            delimiter: input.delimiter.as_deref(),
            after: behind_within(input.key_marker.as_deref(), within.transpose()?)?,
            entries_max: input.max_keys,
            encoding: input.encoding_type.as_ref(),
        };
        let page = self.page(&asked, asking).await?;
        let mut versions = Vec::new();
        let mut markers = Vec::new();
        for version in page.versions() {
            let head = &version.head;
            let key = Some(page.told(version.key.as_str()));
            let version_id = Some(head.version_ref().to_string());
            let (is_latest, owner) = (Some(version.current), Some(acl::owner(&asked.bucket.owner)));
            let last_modified = Some(timestamp(head.modified_ms));
            if head.marker {
                markers.push(DeleteMarkerEntry { is_latest, key, last_modified, owner, version_id });
            } else {
                versions.push(ObjectVersion {
                    e_tag: Some(told_etag(&head.etag)),
                    size: i64::try_from(head.size_bytes).ok(),
                    storage_class: Some(ObjectVersionStorageClass::from_static(
                        ObjectVersionStorageClass::STANDARD,
                    )),
                    is_latest,
                    key,
                    last_modified,
                    owner,
                    version_id,
                    ..ObjectVersion::default()
                });
            }
        }
        // Not `next`: what is between entries has no name in this listing.
        let last = page.entries.last().filter(|_| page.next.is_some());
        let place = last.map(|entry| entry.place(What::Versions));
        let next_version = place.as_ref().and_then(|place| match place.within {
            Some(Within::Version(number)) => Some(format!("{number:016x}")),
            _ => None,
        });
        let output = ListObjectVersionsOutput {
            name: Some(input.bucket.clone()),
            prefix: Some(page.told(input.prefix.as_deref().unwrap_or_default())),
            key_marker: Some(page.told(input.key_marker.as_deref().unwrap_or_default())),
            version_id_marker: Some(input.version_id_marker.clone().unwrap_or_default()),
            max_keys: Some(page.entries_max),
            is_truncated: Some(page.next.is_some()),
            next_key_marker: place.map(|place| page.told(place.key)),
            next_version_id_marker: next_version,
            versions: Some(versions),
            delete_markers: Some(markers),
            common_prefixes: page.prefixes(),
            delimiter: page.told_opt(input.delimiter.as_deref()),
            encoding_type: input.encoding_type.clone(),
            request_charged: None,
        };
        Ok(S3Response::new(output))
    }

    pub(super) async fn list_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = &request.input;
        let asked =
            self.asked(&request, &input.bucket, input.expected_bucket_owner.as_deref(), Wants::All).await?;
        let key_marker = named(input.key_marker.as_deref());
        // Without a key the upload is ignored.
        let within =
            named(input.upload_id_marker.as_deref()).filter(|_| key_marker.is_some()).map(|marker| {
                let id: Result<Id, _> = marker.parse();
                id.map(Within::Upload)
                    .map_err(|_| s3_error!(InvalidArgument, "upload-id-marker names no upload"))
            });
        let asking = Asking {
            what: What::Uploads,
            prefix: input.prefix.as_deref(),
            delimiter: input.delimiter.as_deref(),
            after: behind_within(key_marker, within.transpose()?)?,
            entries_max: input.max_uploads,
            encoding: input.encoding_type.as_ref(),
        };
        let page = self.page(&asked, asking).await?;
        let uploads = page.entries.iter().filter_map(|entry| match entry {
            Entry::Upload(upload) => Some(MultipartUpload {
                key: Some(page.told(upload.key.as_str())),
                upload_id: Some(upload.upload.to_string()),
                initiated: Some(timestamp(upload.begun_ms)),
                owner: Some(acl::owner(&asked.bucket.owner)),
                initiator: Some(super::uploads::initiator(&asked.bucket.owner)),
                storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
                ..MultipartUpload::default()
            }),
            _ => None,
        });
        let uploads = Some(uploads.collect());
        let last = page.entries.last().filter(|_| page.next.is_some());
        let place = last.map(|entry| entry.place(What::Uploads));
        let next_upload = place.as_ref().and_then(|place| match place.within {
            Some(Within::Upload(upload)) => Some(upload.to_string()),
            _ => None,
        });
        let output = ListMultipartUploadsOutput {
            bucket: Some(input.bucket.clone()),
            prefix: Some(page.told(input.prefix.as_deref().unwrap_or_default())),
            key_marker: Some(page.told(input.key_marker.as_deref().unwrap_or_default())),
            upload_id_marker: Some(input.upload_id_marker.clone().unwrap_or_default()),
            next_key_marker: place.map(|place| page.told(place.key)),
            next_upload_id_marker: next_upload,
            max_uploads: Some(page.entries_max),
            is_truncated: Some(page.next.is_some()),
            uploads,
            common_prefixes: page.prefixes(),
            delimiter: page.told_opt(input.delimiter.as_deref()),
            encoding_type: input.encoding_type.clone(),
            request_charged: None,
        };
        Ok(S3Response::new(output))
    }
}

fn named(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn behind(key: Option<&str>) -> Option<After> {
    named(key).map(|key| After { key: key.to_owned(), within: None })
}

fn behind_within(key: Option<&str>, within: Option<Within>) -> S3Result<Option<After>> {
    match (named(key), within) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(s3_error!(InvalidArgument, "a marker of a version takes a key-marker")),
        (Some(key), within) => Ok(Some(After { key: key.to_owned(), within })),
    }
}

/// Where a listing goes on, for a client that sends it back.
fn token(after: &After) -> String {
    super::seal::hex(&after.encode())
}

fn untoken(token: &str) -> S3Result<After> {
    let bytes = super::seal::unhex(token);
    let after = bytes.and_then(|bytes| After::decode(&bytes).ok());
    after.ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}
