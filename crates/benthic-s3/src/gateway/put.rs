//! PutObject.

use super::access_log::Notes;
use super::append::{condition_of_new, invalid_offset};
use super::checksums::{Algorithm, Declaration, Digests, Verifier, declared_checksum, etag, set_checksum};
use super::conditions::{compares, condition};
use super::encryption::{Encryption, encryption_headers, etag_with, set_all_encryption};
use super::object_headers::{NewObject, object_headers};
use super::object_lock::default_retention;
use super::on_put::response;
use super::versions::{strong_etag, version_field};
use super::{Gateway, error, post_form};
use crate::sal::{Change, Finish, Writer};
use benthic_core::ErrorKind;
use futures::StreamExt;
use hyper::Method;
use s3s::dto::{PutObjectInput, PutObjectOutput, StreamingBlob};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use std::sync::atomic::Ordering::Relaxed;

impl Gateway {
    pub(super) async fn put(
        &self,
        mut request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let body = request.input.body.take();
        post_form::set_headers(&mut request);
        let input = &request.input;
        if request.method == Method::POST {
            Notes::of_key(&request.extensions, &input.key);
        }
        let headers = encryption_headers!(input);
        super::refuse([
            ("appending by a form", request.method == Method::POST && input.write_offset_bytes.is_some()),
            // `s3s` does not check these fields against the policy of a form.
            ("encryption by fields of a form", request.method == Method::POST && headers.is_given()),
        ])?;
        let NewObject { access, mut attributes, lock, class } = self
            .authorize_new_object(
                &request,
                (&input.bucket, &input.expected_bucket_owner),
                &input.key,
                &object_headers!(input),
            )
            .await?;
        let mut condition = condition(input.if_match.as_ref(), input.if_none_match.as_ref())?;
        if compares(&condition) {
            self.authorize_comparison(&request, &access, &input.key, None).await?;
        }
        let appends = input.write_offset_bytes.is_some();
        if let Some(offset) = input.write_offset_bytes {
            if let Some(object) = self.object_to_append(&access, &input.key, offset).await? {
                let object = (&access, object);
                let output = self.append(&request, object, body, &condition, (&attributes, lock)).await?;
                return Ok(response(output, None));
            }
            condition = condition_of_new(condition);
        }
        let encryption =
            self.create_data_key(&request, &access, &input.key, &headers, &mut attributes).await?;
        let encryption = encryption.as_ref();
        let len_bytes = input.content_length.ok_or_else(|| s3_error!(MissingContentLength))?;
        let declared = Declaration {
            content_md5: input.content_md5.clone(),
            checksum: declared_checksum!(input),
            algorithm: Algorithm::of_request(input.checksum_algorithm.as_ref())?,
            trailers: request.trailing_headers.clone(),
            len_bytes: Some(len_bytes),
        };
        let verifier = Verifier::new(declared, None, &request.headers)?;
        let size_bytes = u64::try_from(len_bytes).map_err(|_| s3_error!(InvalidArgument))?;
        let data_key = encryption.map(Encryption::data_key);
        let class = class.as_deref();
        let writer =
            self.sal.write(&access.bucket, &input.key, None, Some(size_bytes), class, data_key).await;
        let mut writer = writer.map_err(error::object)?;
        let verified = match self.receive(body, writer.as_mut(), verifier).await {
            Ok(verified) => verified,
            Err(failure) => return Err(abort_write(writer, failure).await),
        };
        verified.checksum.store(&mut attributes);
        let ran = match self.has_on_put(&access.bucket, &input.key)? {
            false => Ok(None),
            true => match writer.preview(&attributes).await.map_err(error::object) {
                Ok(object) => {
                    let object = (&access.bucket, &object);
                    self.run_on_put(&access, &input.key, object, data_key, &mut attributes).await
                }
                Err(failure) => Err(failure),
            },
        };
        let ran_at = match ran {
            Ok(ran_at) => ran_at,
            Err(failure) => return Err(abort_write(writer, failure).await),
        };
        let default_retention = default_retention(&access.bucket.attributes)?;
        let now_ms = self.environment.unix_ms();
        let expiration = self.expiration(&access, (&input.key, size_bytes), now_ms, &attributes);
        let etag = etag_with(encryption, etag(&verified.md5));
        let event = if request.method == Method::POST { "ObjectCreated:Post" } else { "ObjectCreated:Put" };
        let events = self.events_of(&request, &access, &input.key, &[(Change::Created, event)])?;
        let had_events = !events.is_empty();
        let finish = Finish { etag: etag.clone(), attributes, lock, default_retention, condition, events };
        let written = writer.finish(finish).await.map_err(|failure| match failure.kind() {
            // Another request has created the object.
            ErrorKind::Conflict if appends => invalid_offset(),
            _ => error::object(failure),
        })?;
        self.wake(&access.bucket, had_events);
        let mut output = PutObjectOutput {
            e_tag: Some(strong_etag(&etag)),
            version_id: version_field(access.bucket.versioning, written.version),
            checksum_type: Some(verified.checksum.checksum_type()),
            expiration,
            ..PutObjectOutput::default()
        };
        set_checksum!(output, Some(&verified.checksum));
        set_all_encryption!(output, encryption);
        Ok(response(output, ran_at))
    }

    /// Writes a body to its end and verifies its checksums.
    pub(super) async fn receive(
        &self,
        body: Option<StreamingBlob>,
        writer: &mut dyn Writer,
        mut verifier: Verifier,
    ) -> S3Result<Digests> {
        if let Some(mut body) = body {
            while let Some(data) = body.next().await {
                let data = data.map_err(error::body)?;
                verifier.update(&data);
                self.metrics.received_bytes.fetch_add(data.len() as u64, Relaxed);
                writer.write(data).await.map_err(error::object)?;
            }
        }
        verifier.finish()
    }
}

/// Abandons a write and returns the error that caused this.
pub(super) async fn abort_write(writer: Box<dyn Writer>, failure: s3s::S3Error) -> s3s::S3Error {
    if let Err(error) = writer.abort().await {
        tracing::debug!(%error, "cannot abandon a failed write; garbage collection will remove it");
    }
    failure
}
