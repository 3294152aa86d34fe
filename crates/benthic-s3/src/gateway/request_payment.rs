//! GetBucketRequestPayment and PutBucketRequestPayment.
//!
//! Nobody pays here. But in a bucket whose payer is the requester, AWS answers other accounts only
//! if they declare that they will pay, and never answers anonymous callers. The gateway does the
//! same.

use super::{Gateway, names};
use crate::identity::Caller;
use crate::sal::Bucket;
use bytes::Bytes;
use hyper::Uri;
use hyper::header::HeaderMap;
use s3s::dto::{
    GetBucketRequestPaymentInput, GetBucketRequestPaymentOutput, Payer, PutBucketRequestPaymentInput,
    PutBucketRequestPaymentOutput, RequestPayer,
};
use s3s::{S3Request, S3Result, s3_error};

/// The header by which the caller declares that it pays.
pub(super) const HEADER: &str = "x-amz-request-payer";

/// Refuses callers from other accounts that do not declare that they pay.
///
/// # Errors
/// `AccessDenied`.
pub(super) fn check(bucket: &Bucket, caller: &Caller, headers: &HeaderMap, uri: &Uri) -> S3Result<()> {
    if !bucket.attributes.contains_key(names::REQUESTER_PAYS) || caller.account() == Some(&bucket.owner) {
        return Ok(());
    }
    let mut pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let is_declared = headers.get(HEADER).is_some_and(|value| value.as_bytes() == RequestPayer::REQUESTER.as_bytes())
        // In a presigned URI.
        || pairs.any(|(name, value)| name.eq_ignore_ascii_case(HEADER) && value == RequestPayer::REQUESTER);
    if is_declared && caller.account().is_some() {
        return Ok(());
    }
    Err(s3_error!(
        AccessDenied,
        "the requester pays in this bucket; sign the request, with {HEADER}: requester"
    ))
}

impl Gateway {
    pub(super) async fn request_payment(
        &self,
        request: S3Request<GetBucketRequestPaymentInput>,
    ) -> S3Result<GetBucketRequestPaymentOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let is_requester = access.bucket.attributes.contains_key(names::REQUESTER_PAYS);
        let payer = if is_requester { Payer::REQUESTER } else { Payer::BUCKET_OWNER };
        Ok(GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(payer)) })
    }

    pub(super) async fn set_request_payment(
        &self,
        request: S3Request<PutBucketRequestPaymentInput>,
    ) -> S3Result<PutBucketRequestPaymentOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let is_requester = match input.request_payment_configuration.payer.as_str() {
            Payer::REQUESTER => true,
            Payer::BUCKET_OWNER => false,
            _ => return Err(s3_error!(MalformedXML, "the payer must be Requester or BucketOwner")),
        };
        let change = |bucket: &mut Bucket| {
            if is_requester {
                bucket.attributes.insert(names::REQUESTER_PAYS.to_owned(), Bytes::new());
            } else {
                bucket.attributes.remove(names::REQUESTER_PAYS);
            }
            Ok(())
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutBucketRequestPaymentOutput::default())
    }
}
