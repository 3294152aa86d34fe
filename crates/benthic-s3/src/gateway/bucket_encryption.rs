//! The default encryption of a bucket.

use super::encryption::{AES256, AWS_KMS, FORM, no_dsse, no_kms_key};
use super::{Gateway, names, refuse};
use crate::sal::Attributes;
use s3s::dto::{
    DeleteBucketEncryptionInput, DeleteBucketEncryptionOutput, GetBucketEncryptionInput,
    GetBucketEncryptionOutput, PutBucketEncryptionInput, PutBucketEncryptionOutput, ServerSideEncryption,
    ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration, ServerSideEncryptionRule,
};
use s3s::{S3Request, S3Result, s3_error};
use serde::{Deserialize, Serialize};

/// The default encryption of a bucket, an attribute as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DefaultEncryption {
    form: u32,
    pub by: EncryptBy,
}

/// How a bucket encrypts by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EncryptBy {
    S3,
    Kms { arn: String, bucket_key: Option<bool> },
}

/// The default encryption of a bucket.
pub(super) fn default_of(bucket: &Attributes) -> S3Result<Option<EncryptBy>> {
    let text = bucket.get(names::DEFAULT_ENCRYPTION);
    let default = text.map(|text| serde_json::from_slice(text).map(|default: DefaultEncryption| default.by));
    default.transpose().map_err(|error| s3_error!(error, InternalError))
}

/// Whether a bucket encrypts objects by default.
pub fn has_default_encryption(bucket: &Attributes) -> bool {
    bucket.contains_key(names::DEFAULT_ENCRYPTION)
}

impl Gateway {
    pub(super) async fn bucket_encryption(
        &self,
        request: S3Request<GetBucketEncryptionInput>,
    ) -> S3Result<GetBucketEncryptionOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let Some(default) = default_of(&access.bucket.attributes)? else {
            return Err(super::error::with_status(
                "ServerSideEncryptionConfigurationNotFoundError",
                hyper::StatusCode::NOT_FOUND,
                "The server side encryption configuration was not found",
            ));
        };
        let (algorithm, key, bucket_key) = match default {
            EncryptBy::S3 => (AES256, None, None),
            EncryptBy::Kms { arn, bucket_key } => (AWS_KMS, Some(arn), bucket_key),
        };
        let rule = ServerSideEncryptionRule {
            apply_server_side_encryption_by_default: Some(ServerSideEncryptionByDefault {
                sse_algorithm: ServerSideEncryption::from_static(algorithm),
                kms_master_key_id: key,
            }),
            bucket_key_enabled: bucket_key,
            ..ServerSideEncryptionRule::default()
        };
        let configuration = ServerSideEncryptionConfiguration { rules: vec![rule] };
        Ok(GetBucketEncryptionOutput { server_side_encryption_configuration: Some(configuration) })
    }

    pub(super) async fn set_bucket_encryption(
        &self,
        request: S3Request<PutBucketEncryptionInput>,
    ) -> S3Result<PutBucketEncryptionOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let [rule] = &input.server_side_encryption_configuration.rules[..] else {
            return Err(s3_error!(MalformedXML, "there must be exactly one rule"));
        };
        refuse([("blocking types of encryption", rule.blocked_encryption_types.is_some())])?;
        let default = rule.apply_server_side_encryption_by_default.as_ref();
        let default = default.ok_or_else(|| s3_error!(MalformedXML, "the rule names no encryption"))?;
        let (algorithm, key) = (default.sse_algorithm.as_str(), default.kms_master_key_id.as_deref());
        let default = match (algorithm, key) {
            (AES256, None) => {
                self.identities()?;
                EncryptBy::S3
            }
            (AES256, Some(_)) => {
                return Err(s3_error!(InvalidArgument, "a KMSMasterKeyID needs the algorithm aws:kms"));
            }
            (AWS_KMS, key) => {
                let key = key.ok_or_else(no_kms_key)?;
                let (_, arn, _) = self.kms_key(&request, key, "kms:GenerateDataKey").await?;
                EncryptBy::Kms { arn, bucket_key: rule.bucket_key_enabled }
            }
            (ServerSideEncryption::AWS_KMS_DSSE, _) => return Err(no_dsse()),
            _ => return Err(s3_error!(MalformedXML, "unknown algorithm '{algorithm}'")),
        };
        let default = DefaultEncryption { form: FORM, by: default };
        self.set_bucket_attribute(access.bucket, names::DEFAULT_ENCRYPTION, &default).await?;
        Ok(PutBucketEncryptionOutput::default())
    }

    pub(super) async fn remove_bucket_encryption(
        &self,
        request: S3Request<DeleteBucketEncryptionInput>,
    ) -> S3Result<DeleteBucketEncryptionOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.remove_bucket_attribute(access.bucket, names::DEFAULT_ENCRYPTION).await?;
        Ok(DeleteBucketEncryptionOutput::default())
    }
}
