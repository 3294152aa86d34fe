//! GetBucketPolicy, PutBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus.
//!
//! The unique ids of the users and roles that a policy names are stored beside it. They say which
//! text they belong to, because a gateway of an earlier version replaces only the text.

use super::object_headers::text;
use super::{Gateway, error, names, public_access};
use crate::identity::PrincipalIds;
use crate::policy::Document;
use crate::sal::Bucket;
use benthic_core::ErrorKind;
use bytes::Bytes;
use s3s::dto::{
    DeleteBucketPolicyInput, DeleteBucketPolicyOutput, GetBucketPolicyInput, GetBucketPolicyOutput,
    GetBucketPolicyStatusInput, GetBucketPolicyStatusOutput, PolicyStatus, PutBucketPolicyInput,
    PutBucketPolicyOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use serde::{Deserialize, Serialize};

/// The users and roles that the policy of a bucket names.
#[derive(Serialize, Deserialize)]
pub(super) struct Principals {
    /// A hash of the policy.
    policy_hash: String,
    ids: PrincipalIds,
}

impl Principals {
    fn of(policy: &str, ids: PrincipalIds) -> Principals {
        Principals { policy_hash: hash(policy.as_bytes()), ids }
    }

    /// The ids, if they belong to this policy.
    pub fn ids_of(self, policy: &[u8]) -> Option<PrincipalIds> {
        (self.policy_hash == hash(policy)).then_some(self.ids)
    }
}

fn hash(policy: &[u8]) -> String {
    blake3::hash(policy).to_hex().to_string()
}

impl Gateway {
    pub(super) async fn policy(
        &self,
        request: S3Request<GetBucketPolicyInput>,
    ) -> S3Result<GetBucketPolicyOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let policy = text(&access.bucket.attributes, names::POLICY);
        Ok(GetBucketPolicyOutput { policy: Some(policy.ok_or_else(|| s3_error!(NoSuchBucketPolicy))?) })
    }

    pub(super) async fn set_policy(
        &self,
        request: S3Request<PutBucketPolicyInput>,
    ) -> S3Result<PutBucketPolicyOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let document = Document::of_new_bucket(&input.policy, &input.bucket)
            .map_err(|message| s3_error!(MalformedPolicy, "{message}"))?;
        let principals = self.principals(&input.policy, &document).await?;
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
            match &principals {
                Some(principals) => {
                    bucket.attributes.insert(names::POLICY_PRINCIPALS.to_owned(), principals.clone())
                }
                None => bucket.attributes.remove(names::POLICY_PRINCIPALS),
            };
            Ok(())
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutBucketPolicyOutput::default())
    }

    /// The users and roles that a policy names, as JSON; `None` if it names none.
    async fn principals(&self, text: &str, policy: &Document) -> S3Result<Option<Bytes>> {
        let Some(identities) = self.keys.identities() else { return Ok(None) };
        let named = policy.identities().map_err(|message| s3_error!(MalformedPolicy, "{message}"))?;
        let ids = match identities.principal_ids(named).await {
            Err(failed) if failed.kind() == ErrorKind::NotFound => {
                return Err(s3_error!(MalformedPolicy, "{}", failed.message()));
            }
            ids => ids.map_err(error::bucket)?,
        };
        if ids.is_empty() {
            return Ok(None);
        }
        let principals = serde_json::to_vec(&Principals::of(text, ids));
        Ok(Some(Bytes::from(principals.map_err(|failed| s3_error!(failed, InternalError))?)))
    }

    pub(super) async fn remove_policy(
        &self,
        request: S3Request<DeleteBucketPolicyInput>,
    ) -> S3Result<DeleteBucketPolicyOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let change = |bucket: &mut Bucket| {
            bucket.attributes.remove(names::POLICY);
            bucket.attributes.remove(names::POLICY_PRINCIPALS);
            Ok(())
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(DeleteBucketPolicyOutput::default())
    }

    pub(super) async fn policy_status(
        &self,
        request: S3Request<GetBucketPolicyStatusInput>,
    ) -> S3Result<GetBucketPolicyStatusOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let policy = access.policy().ok_or_else(|| s3_error!(NoSuchBucketPolicy))?;
        let status = PolicyStatus { is_public: Some(policy.is_public()) };
        Ok(GetBucketPolicyStatusOutput { policy_status: Some(status) })
    }
}

#[cfg(test)]
#[path = "bucket_policy_tests.rs"]
mod tests;
