//! GetBucketPolicy, PutBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus.

use super::auth::On;
use super::object_headers::text;
use super::{Gateway, names, public_access};
use crate::policy::Document;
use crate::sal::Bucket;
use bytes::Bytes;
use s3s::dto::{
    DeleteBucketPolicyInput, DeleteBucketPolicyOutput, GetBucketPolicyInput, GetBucketPolicyOutput,
    GetBucketPolicyStatusInput, GetBucketPolicyStatusOutput, PolicyStatus, PutBucketPolicyInput,
    PutBucketPolicyOutput,
};
use s3s::{S3Request, S3Result, s3_error};

impl Gateway {
    pub(super) async fn policy(
        &self,
        request: S3Request<GetBucketPolicyInput>,
    ) -> S3Result<GetBucketPolicyOutput> {
        let input = &request.input;
        let access =
            self.authorize(&request, &input.bucket, &input.expected_bucket_owner, On::Bucket).await?;
        let policy = text(&access.bucket.attributes, names::POLICY);
        Ok(GetBucketPolicyOutput { policy: Some(policy.ok_or_else(|| s3_error!(NoSuchBucketPolicy))?) })
    }

    pub(super) async fn set_policy(
        &self,
        request: S3Request<PutBucketPolicyInput>,
    ) -> S3Result<PutBucketPolicyOutput> {
        let input = &request.input;
        let access =
            self.authorize(&request, &input.bucket, &input.expected_bucket_owner, On::Bucket).await?;
        let document = Document::of_bucket(&input.policy, &input.bucket)
            .map_err(|message| s3_error!(MalformedPolicy, "{message}"))?;
        let change = |bucket: &mut Bucket| {
            if document.is_public()
                && public_access::block_of(&bucket.attributes).block_public_policy.unwrap_or(false)
            {
                return Err(s3_error!(
                    AccessDenied,
                    "BlockPublicPolicy forbids a public policy for this bucket"
                ));
            }
            let policy = Bytes::copy_from_slice(input.policy.as_bytes());
            bucket.attributes.insert(names::POLICY.to_owned(), policy);
            Ok(())
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutBucketPolicyOutput::default())
    }

    pub(super) async fn remove_policy(
        &self,
        request: S3Request<DeleteBucketPolicyInput>,
    ) -> S3Result<DeleteBucketPolicyOutput> {
        let input = &request.input;
        let access =
            self.authorize(&request, &input.bucket, &input.expected_bucket_owner, On::Bucket).await?;
        self.remove_bucket_attribute(access.bucket, names::POLICY).await?;
        Ok(DeleteBucketPolicyOutput::default())
    }

    pub(super) async fn policy_status(
        &self,
        request: S3Request<GetBucketPolicyStatusInput>,
    ) -> S3Result<GetBucketPolicyStatusOutput> {
        let input = &request.input;
        let access =
            self.authorize(&request, &input.bucket, &input.expected_bucket_owner, On::Bucket).await?;
        let policy = access.policy().ok_or_else(|| s3_error!(NoSuchBucketPolicy))?;
        let status = PolicyStatus { is_public: Some(policy.is_public()) };
        Ok(GetBucketPolicyStatusOutput { policy_status: Some(status) })
    }
}
