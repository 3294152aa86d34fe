//! PutObject with `x-amz-write-offset-bytes`: adds data at the end of an object.
//!
//! As on AWS (directory buckets), the offset must be the size of the object, an object that does
//! not exist is created at the offset 0, and an object has at most 10,000 parts. The object keeps
//! its metadata, tags and owner. If it belongs to another account than the bucket, only its owner
//! can append to it. Its checksum, a CRC of the whole, is combined with that of the new data. The
//! entity tag is the MD5 of the old tag and of the MD5 of the new data.

use super::auth::Authorized;
use super::checksums::{
    Algorithm, Declaration, Digests, Kind, StoredChecksum, Verifier, declared_checksum, of_parts,
    set_checksum,
};
use super::encryption::{CustomerHeaders, Encryption, SealedBy, set_all_encryption};
use super::put::abort_write;
use super::versions::strong_etag;
use super::{Gateway, error, names};
use crate::sal::limits::PART_NUMBER_MAX;
use crate::sal::{Attributes, Bucket, Change, Condition, Finish, Lock, Object, Versioning, Writer};
use crate::seal::hex;
use benthic_core::ErrorKind;
use futures::StreamExt;
use hyper::StatusCode;
use s3s::dto::{PutObjectInput, PutObjectOutput, StreamingBlob};
use s3s::{S3Error, S3Request, S3Result, s3_error};
use std::sync::atomic::Ordering::Relaxed;

/// The attributes that a request to append may have. They have no effect: clients send the headers
/// unasked, and the owner is the account of the caller.
const IGNORED: [&str; 3] = [names::CONTENT_TYPE, names::CONTENT_ENCODING, names::OWNER];

pub(super) fn invalid_offset() -> S3Error {
    error::with_status(
        "InvalidWriteOffset",
        StatusCode::BAD_REQUEST,
        "The write offset value that you specified does not match the current object size.",
    )
}

/// The condition of a request that creates the object because there is none.
pub(super) fn condition_of_new(given: Condition) -> Condition {
    match given {
        Condition::Always | Condition::Differs(_) => Condition::Absent,
        given => given,
    }
}

/// The entity tag of an object after new data with this MD5.
fn etag_after(old: &str, md5: &[u8; 16], parts: usize) -> String {
    format!("{}-{parts}", hex(&fast_md5::digest(&[old.as_bytes(), md5].concat())))
}

fn check_condition(condition: &Condition, object: &Object) -> S3Result<()> {
    let holds = match condition {
        Condition::Absent => false,
        Condition::Matches(etag) => object.etag == *etag,
        Condition::Differs(etag) => object.etag != *etag,
        _ => true,
    };
    if holds { Ok(()) } else { Err(s3_error!(PreconditionFailed)) }
}

impl Gateway {
    /// The object at whose end a request writes; `None` if the request creates it.
    pub(super) async fn object_to_append(
        &self,
        access: &Authorized,
        key: &str,
        offset: i64,
    ) -> S3Result<Option<Object>> {
        let bucket = &access.bucket;
        let offset =
            u64::try_from(offset).map_err(|_| s3_error!(InvalidArgument, "the offset is negative"))?;
        if bucket.versioning != Versioning::Off {
            return Err(s3_error!(NotImplemented, "appending in a bucket with versions is not implemented"));
        }
        match self.sal.object(bucket, key, None).await {
            Err(failure) if failure.kind() == ErrorKind::NotFound && offset == 0 => Ok(None),
            Err(failure) if failure.kind() == ErrorKind::NotFound => Err(invalid_offset()),
            Err(failure) => Err(error::object(failure)),
            Ok(object) => {
                access.check_writer(&object.attributes)?;
                if object.size_bytes == offset { Ok(Some(object)) } else { Err(invalid_offset()) }
            }
        }
    }

    /// Adds the body of a request at the end of an object. `given` are the attributes and the lock
    /// that the request has.
    pub(super) async fn append(
        &self,
        request: &S3Request<PutObjectInput>,
        (access, object): (&Authorized, Object),
        body: Option<StreamingBlob>,
        condition: &Condition,
        (given, lock): (&Attributes, Lock),
    ) -> S3Result<PutObjectOutput> {
        let input = &request.input;
        check_condition(condition, &object)?;
        if given.keys().any(|name| !IGNORED.contains(&name.as_str())) || lock != Lock::default() {
            return Err(s3_error!(
                InvalidRequest,
                "an object keeps its metadata, tags and ACL when data are appended; do not pass them"
            ));
        }
        if self.has_on_put(&access.bucket, &input.key)? {
            return Err(s3_error!(
                NotImplemented,
                "appending to an object with a synchronous on-put rule is not implemented"
            ));
        }
        let parts = object.part_bytes.len() + 1;
        if parts > usize::from(PART_NUMBER_MAX) {
            return Err(error::with_status(
                "TooManyParts",
                StatusCode::BAD_REQUEST,
                "You have attempted to add more parts than the maximum of 10000; copy the object",
            ));
        }
        let stored = StoredChecksum::of(&object.attributes);
        if let Some(stored) = &stored
            && (stored.kind != Kind::FullObject
                || matches!(stored.algorithm, Algorithm::Sha1 | Algorithm::Sha256))
        {
            return Err(s3_error!(
                InvalidRequest,
                "the {} checksum of the object cannot be extended; write the object with a CRC",
                stored.algorithm.name()
            ));
        }
        let encryption = self.encryption_to_append(request, access, &object).await?;
        let encryption = encryption.as_ref();
        let len_bytes = input.content_length.ok_or_else(|| s3_error!(MissingContentLength))?;
        let declared = Declaration {
            content_md5: input.content_md5.clone(),
            checksum: declared_checksum!(input),
            algorithm: Algorithm::of_request(input.checksum_algorithm.as_ref())?,
            trailers: request.trailing_headers.clone(),
            len_bytes: Some(len_bytes),
        };
        let mut verifier = Verifier::new(declared, None, &request.headers)?;
        // The object may have another algorithm than the request.
        let of_object = Declaration {
            algorithm: stored.as_ref().map(|stored| stored.algorithm),
            ..Declaration::default()
        };
        let mut of_object = Verifier::new(of_object, None, &Default::default())?;
        let added_bytes = u64::try_from(len_bytes).map_err(|_| s3_error!(InvalidArgument))?;
        if added_bytes == 0 {
            return Ok(output(&object.etag, stored.as_ref(), object.size_bytes, encryption));
        }
        let data_key = encryption.map(Encryption::data_key);
        let writer = self.sal.append(&access.bucket, &object, Some(added_bytes), data_key).await;
        let mut writer = writer.map_err(error::object)?;
        let received = self.receive_twice(body, writer.as_mut(), (&mut verifier, &mut of_object)).await;
        let digests = received.and_then(|()| Ok((verifier.finish()?, of_object.finish()?)));
        let (verified, Digests { checksum: added, .. }) = match digests {
            Ok(digests) => digests,
            Err(failure) => return Err(abort_write(writer, failure).await),
        };
        let mut attributes = object.attributes.clone();
        // The parts have no checksums of their own any more.
        attributes.remove(names::PART_CHECKSUMS);
        let checksum = match stored {
            None => None,
            Some(stored) => {
                let algorithm = stored.algorithm;
                let parts = [(Some(stored), object.size_bytes), (Some(added), added_bytes)];
                Some(of_parts(algorithm, Kind::FullObject, &parts)?)
            }
        };
        if let Some(checksum) = &checksum {
            checksum.store(&mut attributes);
        }
        let etag = etag_after(&object.etag, &verified.md5, parts);
        let events =
            self.events_of(request, access, &input.key, &[(Change::Created, "ObjectCreated:Put")])?;
        let had_events = !events.is_empty();
        let finish = Finish { etag: etag.clone(), attributes, events, ..Finish::default() };
        let written = match writer.finish(finish).await {
            Err(failure) if failure.kind() == ErrorKind::Conflict => {
                return Err(self.explain_conflict(&access.bucket, &object).await);
            }
            written => written.map_err(error::object)?,
        };
        self.wake(&access.bucket, had_events);
        Ok(output(&etag, checksum.as_ref(), written.size_bytes, encryption))
    }

    /// The error for an object that another request has changed.
    async fn explain_conflict(&self, bucket: &Bucket, object: &Object) -> S3Error {
        match self.sal.object(bucket, &object.key, None).await {
            Ok(now) if now.size_bytes == object.size_bytes => s3_error!(
                OperationAborted,
                "another request has changed the object at the same time; try again"
            ),
            _ => invalid_offset(),
        }
    }

    /// The encryption of an object at whose end a request writes.
    async fn encryption_to_append(
        &self,
        request: &S3Request<PutObjectInput>,
        access: &Authorized,
        object: &Object,
    ) -> S3Result<Option<Encryption>> {
        let input = &request.input;
        let headers = super::encryption::encryption_headers!(input);
        if object.is_encrypted() && !super::encryption::is_s3(&object.attributes)? {
            return Err(s3_error!(
                NotImplemented,
                "appending to an object under SSE-KMS or SSE-C is not implemented"
            ));
        }
        let none = CustomerHeaders::default();
        let encryption =
            self.open_data_key(request, &access.bucket, &object.key, &object.attributes, none).await?;
        let is_same = encryption.as_ref().is_some_and(|encryption| encryption.by == SealedBy::S3)
            && input.server_side_encryption.as_ref().is_some_and(|named| named.as_str() == "AES256")
            && input.sse_customer_algorithm.is_none();
        if headers.is_given() && !is_same {
            return Err(s3_error!(InvalidRequest, "new data are encrypted as the object is"));
        }
        Ok(encryption)
    }

    /// Writes a body to its end, and updates both verifiers.
    async fn receive_twice(
        &self,
        body: Option<StreamingBlob>,
        writer: &mut dyn Writer,
        (verifier, of_object): (&mut Verifier, &mut Verifier),
    ) -> S3Result<()> {
        let Some(mut body) = body else { return Ok(()) };
        while let Some(data) = body.next().await {
            let data = data.map_err(error::body)?;
            verifier.update(&data);
            of_object.update(&data);
            self.metrics.received_bytes.fetch_add(data.len() as u64, Relaxed);
            writer.write(data).await.map_err(error::object)?;
        }
        Ok(())
    }
}

fn output(
    etag: &str,
    checksum: Option<&StoredChecksum>,
    size_bytes: u64,
    encryption: Option<&Encryption>,
) -> PutObjectOutput {
    let mut output = PutObjectOutput {
        e_tag: Some(strong_etag(etag)),
        checksum_type: checksum.map(StoredChecksum::checksum_type),
        size: i64::try_from(size_bytes).ok(),
        ..PutObjectOutput::default()
    };
    set_checksum!(output, checksum);
    set_all_encryption!(output, encryption);
    output
}
