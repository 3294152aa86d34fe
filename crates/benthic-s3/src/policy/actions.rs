//! The actions that a policy of a bucket can name.
//!
//! AWS refuses a policy of a bucket with an unknown action, and so does the gateway: a `Deny` of
//! `s3:ListObjects`, which does not exist, would deny nothing. AWS accepts all names in the
//! policies of users, groups and roles.
//!
//! Source: "Actions, resources, and condition keys for Amazon S3" in the service authorization
//! reference.

use super::facts::{FactCache, NoFacts};
use super::pattern::Pattern;

/// The actions on buckets and objects, also those that the gateway does not implement.
const ACTIONS: [&str; 107] = [
    "benthic:Exec",
    "s3:AbortMultipartUpload",
    "s3:AllowVendedLogDeliveryForResource",
    "s3:BypassGovernanceRetention",
    "s3:CreateBucket",
    "s3:CreateBucketMetadataTableConfiguration",
    "s3:DeleteBucket",
    "s3:DeleteBucketMetadataTableConfiguration",
    "s3:DeleteBucketPolicy",
    "s3:DeleteBucketWebsite",
    "s3:DeleteObject",
    "s3:DeleteObjectAnnotation",
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersion",
    "s3:DeleteObjectVersionAnnotation",
    "s3:DeleteObjectVersionTagging",
    "s3:GetAccelerateConfiguration",
    "s3:GetAnalyticsConfiguration",
    "s3:GetBucketAbac",
    "s3:GetBucketAcl",
    "s3:GetBucketCORS",
    "s3:GetBucketLocation",
    "s3:GetBucketLogging",
    "s3:GetBucketMetadataTableConfiguration",
    "s3:GetBucketNotification",
    "s3:GetBucketObjectLockConfiguration",
    "s3:GetBucketOwnershipControls",
    "s3:GetBucketPolicy",
    "s3:GetBucketPolicyStatus",
    "s3:GetBucketPublicAccessBlock",
    "s3:GetBucketRequestPayment",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetBucketWebsite",
    "s3:GetEncryptionConfiguration",
    "s3:GetIntelligentTieringConfiguration",
    "s3:GetInventoryConfiguration",
    "s3:GetLifecycleConfiguration",
    "s3:GetMetricsConfiguration",
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectAnnotation",
    "s3:GetObjectAttributes",
    "s3:GetObjectLegalHold",
    "s3:GetObjectRetention",
    "s3:GetObjectTagging",
    "s3:GetObjectTorrent",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionAnnotation",
    "s3:GetObjectVersionAnnotationForReplication",
    "s3:GetObjectVersionAttributes",
    "s3:GetObjectVersionForReplication",
    "s3:GetObjectVersionTagging",
    "s3:GetObjectVersionTorrent",
    "s3:GetReplicationConfiguration",
    "s3:InitiateReplication",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
    "s3:ListMultipartUploadParts",
    "s3:ListObjectAnnotations",
    "s3:ListObjectVersionAnnotations",
    "s3:ListTagsForResource",
    "s3:ObjectOwnerOverrideToBucketOwner",
    "s3:PauseReplication",
    "s3:PutAccelerateConfiguration",
    "s3:PutAnalyticsConfiguration",
    "s3:PutBucketAbac",
    "s3:PutBucketAcl",
    "s3:PutBucketCORS",
    "s3:PutBucketLogging",
    "s3:PutBucketNotification",
    "s3:PutBucketObjectLockConfiguration",
    "s3:PutBucketOwnershipControls",
    "s3:PutBucketPolicy",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutBucketRequestPayment",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutBucketWebsite",
    "s3:PutEncryptionConfiguration",
    "s3:PutIntelligentTieringConfiguration",
    "s3:PutInventoryConfiguration",
    "s3:PutLifecycleConfiguration",
    "s3:PutMetricsConfiguration",
    "s3:PutObject",
    "s3:PutObjectAcl",
    "s3:PutObjectAnnotation",
    "s3:PutObjectLegalHold",
    "s3:PutObjectRetention",
    "s3:PutObjectTagging",
    "s3:PutObjectVersionAcl",
    "s3:PutObjectVersionAnnotation",
    "s3:PutObjectVersionTagging",
    "s3:PutReplicationConfiguration",
    "s3:ReplicateDelete",
    "s3:ReplicateObject",
    "s3:ReplicateObjectAnnotation",
    "s3:ReplicateTags",
    "s3:RestoreObject",
    "s3:TagResource",
    "s3:UntagResource",
    "s3:UpdateBucketMetadataAnnotationTableConfiguration",
    "s3:UpdateBucketMetadataInventoryTableConfiguration",
    "s3:UpdateBucketMetadataJournalTableConfiguration",
    "s3:UpdateObjectEncryption",
];

/// Checks that an action of a policy, perhaps with wildcards, is one of a bucket or an object.
///
/// # Errors
/// A message that names the action.
pub fn check_action(text: &str) -> Result<(), String> {
    let (pattern, facts) = (Pattern::parse(text, false)?, FactCache::new(&NoFacts));
    if ACTIONS.iter().any(|action| pattern.matches(action, true, &facts)) {
        return Ok(());
    }
    Err(format!("unknown action '{text}'; no action on buckets and objects has this name"))
}

#[cfg(test)]
#[path = "actions_tests.rs"]
mod tests;
