//! Multipart uploads. The data of the parts are at the upstream; the gateway's own store has the
//! upload and its parts without data, with their attributes, which S3 does not return.
//!
//! Order: the upload begins at the upstream, then in the store; a part goes to the upstream, then
//! into the store; an upload ends at the upstream, then in the store. A crash in between leaves an
//! upload or a part at the upstream that the store does not know, as the crash of any S3 client
//! does. Or it leaves an upload in the store that the upstream no longer has; a client can only
//! abort it.

use super::blocks::Blocks;
use super::client::{COPY_TIME, Call, Payload};
use super::head::with_attributes;
use super::objects::{
    check_document, check_finish, check_key, check_lock, version_of_answer, with_condition,
};
use super::write_back::Drain;
use super::{UpstreamSal, objects_error, unsupported};
use crate::sal::limits::PART_NUMBER_MAX;
use crate::sal::{
    Attributes, Bucket, Finish, Id, Lock, Object, Part, PartId, PartRef, Sal, Upload, Uploads, VersionId,
    WriteResult,
};
use async_trait::async_trait;
use benthic_core::{ErrorKind, Result};
use bytes::Bytes;
use hyper::Method;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of an upload: its id at the upstream.
const UPLOAD: &str = "upstream-upload";
/// Parts per page that is read from the store.
const PAGE: usize = 1_000;

/// Where a part goes.
pub(super) struct PartTarget {
    sal: Arc<dyn Sal>,
    bucket: Bucket,
    upstream_bucket: String,
    key: String,
    part: PartId,
    upload: String,
}

/// The facts about a part that the store keeps in its entity tag.
struct StoredPart {
    size_bytes: u64,
    /// The ETag at the upstream. Under SSE-KMS it differs from that of the gateway.
    upstream: String,
    etag: String,
}

impl StoredPart {
    fn text(&self) -> String {
        let upstream = if self.upstream == self.etag { "=" } else { &self.upstream };
        format!("{} {upstream} {}", self.size_bytes, self.etag)
    }

    fn parse(part: &Part) -> Result<StoredPart> {
        let mut words = part.etag.splitn(3, ' ');
        let mut word = || words.next();
        let parsed = word().and_then(|size| Some((size.parse().ok()?, word()?, word()?)));
        let Some((size_bytes, upstream, etag)) = parsed else {
            return Err(objects_error(ErrorKind::Corrupt, "the record of a part is not valid"));
        };
        let upstream = if upstream == "=" { etag } else { upstream };
        Ok(StoredPart { size_bytes, upstream: upstream.to_owned(), etag: etag.to_owned() })
    }
}

/// The id of an upload at the upstream.
fn upstream_id(upload: &Upload) -> Result<String> {
    let id = upload.attributes.get(UPLOAD).map(|id| String::from_utf8_lossy(id).into_owned());
    id.ok_or_else(|| objects_error(ErrorKind::Corrupt, "the record of an upload has no id of the upstream"))
}

impl PartTarget {
    pub async fn finish(
        self,
        blocks: &Blocks,
        mut finish: Finish,
        payload: Payload,
        sha256: String,
        len_bytes: u64,
    ) -> Result<WriteResult> {
        let mut call = Call::new(Method::PUT, &self.upstream_bucket, &self.key)
            .query("partNumber", self.part.number.to_string())
            .query("uploadId", self.upload);
        call.payload = payload;
        call.sha256 = Some(sha256);
        let answer = blocks.client.call(call).await?;
        let etag = answer.header("etag").unwrap_or_default().trim_matches('"').to_owned();
        finish.etag = StoredPart { size_bytes: len_bytes, upstream: etag, etag: finish.etag }.text();
        let writer = self.sal.write(&self.bucket, &self.key, Some(self.part), Some(0), None, None).await?;
        let written = writer.finish(finish).await?;
        Ok(WriteResult { size_bytes: len_bytes, ..written })
    }
}

impl UpstreamSal {
    /// Checks that a part can be written.
    pub(super) async fn part_target(&self, bucket: &Bucket, key: &str, part: PartId) -> Result<PartTarget> {
        if !(1..=PART_NUMBER_MAX).contains(&part.number) {
            return Err(objects_error(ErrorKind::InvalidArgument, "the number of a part must be 1 to 10000")
                .with("number", part.number));
        }
        let upload = self.sal.upload(bucket, key, part.upload).await?;
        Ok(PartTarget {
            sal: Arc::clone(&self.sal),
            bucket: bucket.clone(),
            upstream_bucket: self.upstream_name(&bucket.name),
            key: key.to_owned(),
            part,
            upload: upstream_id(&upload)?,
        })
    }

    /// All parts of an upload, as the store has them.
    pub(super) async fn stored_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
    ) -> Result<BTreeMap<u16, Part>> {
        let mut all = BTreeMap::new();
        loop {
            let after = all.last_key_value().map_or(0, |(number, _)| *number);
            let (page, more) = self.sal.list_parts(bucket, key, upload, after, PAGE).await?;
            all.extend(page);
            if !more {
                return Ok(all);
            }
        }
    }
}

/// The size of a part at the upstream.
pub(super) fn size_of(part: &Part) -> Result<u64> {
    Ok(StoredPart::parse(part)?.size_bytes)
}

#[async_trait]
impl Uploads for UpstreamSal {
    async fn create_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        mut attributes: Attributes,
        lock: Lock,
        class: Option<&str>,
    ) -> Result<Id> {
        check_key(key)?;
        check_lock(&lock)?;
        if class.is_some() {
            return Err(objects_error(
                ErrorKind::Unsupported,
                "a gateway to an upstream has only the standard storage class",
            ));
        }
        let name = self.upstream_name(&bucket.name);
        let call = Call::new(Method::POST, &name, key).query("uploads", "");
        let answer = self.client().call(with_attributes(call, &attributes, false)?).await?;
        let upload = check_document(&answer)?.text_of("UploadId").to_owned();
        if upload.is_empty() || upload.len() > 4_096 {
            return Err(objects_error(
                ErrorKind::Unavailable,
                "the upstream has begun an upload without an id",
            ));
        }
        attributes.insert(UPLOAD.to_owned(), Bytes::from(upload.clone()));
        let created = self.sal.create_upload(bucket, key, attributes, lock, None).await;
        if created.is_err() {
            let abort = Call::new(Method::DELETE, &name, key).query("uploadId", upload);
            // The error of the store is the one that matters.
            let _ = self.client().call(abort).await;
        }
        created
    }

    async fn upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<Upload> {
        let mut found = self.sal.upload(bucket, key, upload).await?;
        found.attributes.remove(UPLOAD);
        Ok(found)
    }

    async fn list_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        after: u16,
        parts_max: usize,
    ) -> Result<(Vec<(u16, Part)>, bool)> {
        let (mut parts, more) = self.sal.list_parts(bucket, key, upload, after, parts_max).await?;
        for (_, part) in &mut parts {
            let stored = StoredPart::parse(part)?;
            (part.size_bytes, part.etag) = (stored.size_bytes, stored.etag);
        }
        Ok((parts, more))
    }

    async fn preview_upload(
        &self,
        _bucket: &Bucket,
        _key: &str,
        _upload: Id,
        _parts: &[PartRef],
        _attributes: &Attributes,
    ) -> Result<Object> {
        Err(unsupported("a gateway to an upstream runs no methods on new objects"))
    }

    async fn complete_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        finish: Finish,
    ) -> Result<VersionId> {
        check_finish(&finish)?;
        let stored = self.sal.upload(bucket, key, upload).await?;
        let known = self.stored_parts(bucket, key, upload).await?;
        if parts.is_empty() || !parts.is_sorted_by(|one, next| one.number < next.number) {
            let message = "an upload needs parts in the order of their numbers";
            return Err(objects_error(ErrorKind::InvalidArgument, message));
        }
        let mut document = "<CompleteMultipartUpload>".to_owned();
        for part in parts {
            let found = known.get(&part.number).filter(|found| found.write == part.write);
            let found = found.ok_or_else(|| {
                objects_error(ErrorKind::InvalidArgument, "a part is missing or was replaced")
                    .with("number", part.number)
            })?;
            let etag = super::xml::escape(&StoredPart::parse(found)?.upstream);
            document +=
                &format!("<Part><PartNumber>{}</PartNumber><ETag>\"{etag}\"</ETag></Part>", part.number);
        }
        document += "</CompleteMultipartUpload>";
        let name = self.upstream_name(&bucket.name);
        self.write_back.drain(Drain::Key(&name, key)).await?;
        let mut call =
            Call::new(Method::POST, &name, key).query("uploadId", upstream_id(&stored)?).document(document);
        call.work_time = COPY_TIME;
        let answer = self.client().call(with_condition(call, &finish.condition)?).await;
        let answer = self.blocks.forget_after(answer, &name, key, None).await?;
        check_document(&answer)?;
        let version = version_of_answer(&answer);
        // If this fails, the upload stays in the store and can be aborted there.
        if let Err(error) = self.sal.abort_upload(bucket, key, upload).await {
            tracing::warn!(%error, "a completed upload is still listed");
        }
        Ok(version)
    }

    async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<()> {
        let stored = self.sal.upload(bucket, key, upload).await?;
        let call = Call::new(Method::DELETE, &self.upstream_name(&bucket.name), key)
            .query("uploadId", upstream_id(&stored)?);
        match self.client().call(call).await {
            // It was completed or aborted, and only the store does not know that yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.sal.abort_upload(bucket, key, upload).await?;
                Err(error)
            }
            Err(error) => Err(error),
            Ok(_) => self.sal.abort_upload(bucket, key, upload).await,
        }
    }
}
