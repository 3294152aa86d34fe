//! The table of the implemented S3 operations, with the action of a policy that each needs. All
//! other operations answer NotImplemented.

use super::{Gateway, post_form};
use s3s::{S3, S3Request, S3Response, S3Result, dto};
use std::sync::Arc;

/// The action that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permission {
    action: &'static str,
    /// The action for a given version of an object.
    version_action: &'static str,
}

impl Permission {
    /// The permission for an operation that has no versions.
    pub fn of(action: &'static str) -> Permission {
        Permission { action, version_action: action }
    }

    pub fn action(&self, of_version: bool) -> &'static str {
        if of_version { self.version_action } else { self.action }
    }
}

/// The result of a method of [`Gateway`]: an output, or an answer with headers of its own.
trait Answer<T> {
    fn response(self) -> S3Response<T>;
}

impl<T> Answer<T> for T {
    fn response(self) -> S3Response<T> {
        S3Response::new(self)
    }
}

impl<T> Answer<T> for S3Response<T> {
    fn response(self) -> S3Response<T> {
        self
    }
}

/// The operations of a gateway, for `s3s`.
pub(super) struct Operations(pub Arc<Gateway>);

/// PutObject alone: `s3s` turns a form into it.
struct Put(Arc<Gateway>);

#[async_trait::async_trait]
impl S3 for Put {
    async fn put_object(
        &self,
        request: S3Request<dto::PutObjectInput>,
    ) -> S3Result<S3Response<dto::PutObjectOutput>> {
        self.0.put(request).await
    }
}

fn last(actions: &[&'static str]) -> &'static str {
    actions[actions.len() - 1]
}

/// Implements each operation by calling a method of [`Gateway`], and `permission`, which finds the
/// action of an operation by its name. So an operation without an action does not compile.
macro_rules! operations {
    ($($name:ident: $input:ident -> $output:ident = $method:ident, $action:literal $(or $version_action:literal)?;)*) => {
        #[async_trait::async_trait]
        impl S3 for Operations {
            async fn post_object(
                &self,
                mut request: S3Request<dto::PostObjectInput>,
            ) -> S3Result<S3Response<dto::PostObjectOutput>> {
                post_form::add_fields(&mut request)?;
                Put(Arc::clone(&self.0)).post_object(request).await
            }

            $(
                async fn $name(&self, request: S3Request<dto::$input>) -> S3Result<S3Response<dto::$output>> {
                    self.0.$method(request).await.map(Answer::response)
                }
            )*
        }

        /// The action that an operation needs; `None` if the gateway does not have the operation.
        pub(super) fn permission(operation: &str) -> Option<Permission> {
            let input = match operation {
                // `s3s` turns a form into PutObject.
                "PostObject" => "PutObject",
                operation => operation,
            };
            $(
                if stringify!($input).strip_suffix("Input") == Some(input) {
                    return Some(Permission { action: $action, version_action: last(&[$action $(, $version_action)?]) });
                }
            )*
            None
        }
    };
}

operations! {
    abort_multipart_upload: AbortMultipartUploadInput -> AbortMultipartUploadOutput = abort_upload, "s3:AbortMultipartUpload";
    complete_multipart_upload: CompleteMultipartUploadInput -> CompleteMultipartUploadOutput = complete, "s3:PutObject";
    copy_object: CopyObjectInput -> CopyObjectOutput = copy, "s3:PutObject";
    create_bucket: CreateBucketInput -> CreateBucketOutput = create, "s3:CreateBucket";
    create_multipart_upload: CreateMultipartUploadInput -> CreateMultipartUploadOutput = begin_upload, "s3:PutObject";
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput = delete_whole_bucket, "s3:DeleteBucket";
    delete_bucket_cors: DeleteBucketCorsInput -> DeleteBucketCorsOutput = remove_cors, "s3:PutBucketCORS";
    delete_bucket_encryption: DeleteBucketEncryptionInput -> DeleteBucketEncryptionOutput = remove_bucket_encryption, "s3:PutEncryptionConfiguration";
    delete_bucket_lifecycle: DeleteBucketLifecycleInput -> DeleteBucketLifecycleOutput = remove_lifecycle, "s3:PutLifecycleConfiguration";
    delete_bucket_ownership_controls: DeleteBucketOwnershipControlsInput -> DeleteBucketOwnershipControlsOutput = remove_ownership_controls, "s3:PutBucketOwnershipControls";
    delete_bucket_policy: DeleteBucketPolicyInput -> DeleteBucketPolicyOutput = remove_policy, "s3:DeleteBucketPolicy";
    delete_bucket_tagging: DeleteBucketTaggingInput -> DeleteBucketTaggingOutput = remove_bucket_tags, "s3:PutBucketTagging";
    delete_bucket_website: DeleteBucketWebsiteInput -> DeleteBucketWebsiteOutput = remove_website, "s3:DeleteBucketWebsite";
    delete_object: DeleteObjectInput -> DeleteObjectOutput = delete, "s3:DeleteObject" or "s3:DeleteObjectVersion";
    delete_object_tagging: DeleteObjectTaggingInput -> DeleteObjectTaggingOutput = remove_object_tags, "s3:DeleteObjectTagging" or "s3:DeleteObjectVersionTagging";
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput = delete_many, "s3:DeleteObject" or "s3:DeleteObjectVersion";
    delete_public_access_block: DeletePublicAccessBlockInput -> DeletePublicAccessBlockOutput = remove_public_access_block, "s3:PutBucketPublicAccessBlock";
    get_bucket_acl: GetBucketAclInput -> GetBucketAclOutput = bucket_acl, "s3:GetBucketAcl";
    get_bucket_cors: GetBucketCorsInput -> GetBucketCorsOutput = cors, "s3:GetBucketCORS";
    get_bucket_encryption: GetBucketEncryptionInput -> GetBucketEncryptionOutput = bucket_encryption, "s3:GetEncryptionConfiguration";
    get_bucket_lifecycle_configuration: GetBucketLifecycleConfigurationInput -> GetBucketLifecycleConfigurationOutput = lifecycle, "s3:GetLifecycleConfiguration";
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput = location, "s3:GetBucketLocation";
    get_bucket_logging: GetBucketLoggingInput -> GetBucketLoggingOutput = logging, "s3:GetBucketLogging";
    get_bucket_notification_configuration: GetBucketNotificationConfigurationInput -> GetBucketNotificationConfigurationOutput = notifications, "s3:GetBucketNotification";
    get_bucket_ownership_controls: GetBucketOwnershipControlsInput -> GetBucketOwnershipControlsOutput = ownership_controls, "s3:GetBucketOwnershipControls";
    get_bucket_policy: GetBucketPolicyInput -> GetBucketPolicyOutput = policy, "s3:GetBucketPolicy";
    get_bucket_policy_status: GetBucketPolicyStatusInput -> GetBucketPolicyStatusOutput = policy_status, "s3:GetBucketPolicyStatus";
    get_bucket_request_payment: GetBucketRequestPaymentInput -> GetBucketRequestPaymentOutput = request_payment, "s3:GetBucketRequestPayment";
    get_bucket_tagging: GetBucketTaggingInput -> GetBucketTaggingOutput = bucket_tags, "s3:GetBucketTagging";
    get_bucket_versioning: GetBucketVersioningInput -> GetBucketVersioningOutput = versioning, "s3:GetBucketVersioning";
    get_bucket_website: GetBucketWebsiteInput -> GetBucketWebsiteOutput = website, "s3:GetBucketWebsite";
    get_object: GetObjectInput -> GetObjectOutput = get, "s3:GetObject" or "s3:GetObjectVersion";
    get_object_acl: GetObjectAclInput -> GetObjectAclOutput = object_acl, "s3:GetObjectAcl" or "s3:GetObjectVersionAcl";
    get_object_attributes: GetObjectAttributesInput -> GetObjectAttributesOutput = attributes, "s3:GetObjectAttributes" or "s3:GetObjectVersionAttributes";
    get_object_legal_hold: GetObjectLegalHoldInput -> GetObjectLegalHoldOutput = legal_hold, "s3:GetObjectLegalHold";
    get_object_lock_configuration: GetObjectLockConfigurationInput -> GetObjectLockConfigurationOutput = object_lock_settings, "s3:GetBucketObjectLockConfiguration";
    get_object_retention: GetObjectRetentionInput -> GetObjectRetentionOutput = retention, "s3:GetObjectRetention";
    get_object_tagging: GetObjectTaggingInput -> GetObjectTaggingOutput = object_tags, "s3:GetObjectTagging" or "s3:GetObjectVersionTagging";
    get_public_access_block: GetPublicAccessBlockInput -> GetPublicAccessBlockOutput = public_access_block, "s3:GetBucketPublicAccessBlock";
    head_bucket: HeadBucketInput -> HeadBucketOutput = head_of_bucket, "s3:ListBucket";
    head_object: HeadObjectInput -> HeadObjectOutput = head, "s3:GetObject" or "s3:GetObjectVersion";
    list_buckets: ListBucketsInput -> ListBucketsOutput = buckets, "s3:ListAllMyBuckets";
    list_multipart_uploads: ListMultipartUploadsInput -> ListMultipartUploadsOutput = list_uploads, "s3:ListBucketMultipartUploads";
    list_object_versions: ListObjectVersionsInput -> ListObjectVersionsOutput = list_versions, "s3:ListBucketVersions";
    list_objects: ListObjectsInput -> ListObjectsOutput = list, "s3:ListBucket";
    list_objects_v2: ListObjectsV2Input -> ListObjectsV2Output = list_v2, "s3:ListBucket";
    list_parts: ListPartsInput -> ListPartsOutput = list_parts, "s3:ListMultipartUploadParts";
    put_bucket_acl: PutBucketAclInput -> PutBucketAclOutput = set_bucket_acl, "s3:PutBucketAcl";
    put_bucket_cors: PutBucketCorsInput -> PutBucketCorsOutput = set_cors, "s3:PutBucketCORS";
    put_bucket_encryption: PutBucketEncryptionInput -> PutBucketEncryptionOutput = set_bucket_encryption, "s3:PutEncryptionConfiguration";
    put_bucket_lifecycle_configuration: PutBucketLifecycleConfigurationInput -> PutBucketLifecycleConfigurationOutput = set_lifecycle, "s3:PutLifecycleConfiguration";
    put_bucket_logging: PutBucketLoggingInput -> PutBucketLoggingOutput = set_logging, "s3:PutBucketLogging";
    put_bucket_notification_configuration: PutBucketNotificationConfigurationInput -> PutBucketNotificationConfigurationOutput = set_notifications, "s3:PutBucketNotification";
    put_bucket_ownership_controls: PutBucketOwnershipControlsInput -> PutBucketOwnershipControlsOutput = set_ownership_controls, "s3:PutBucketOwnershipControls";
    put_bucket_policy: PutBucketPolicyInput -> PutBucketPolicyOutput = set_policy, "s3:PutBucketPolicy";
    put_bucket_request_payment: PutBucketRequestPaymentInput -> PutBucketRequestPaymentOutput = set_request_payment, "s3:PutBucketRequestPayment";
    put_bucket_tagging: PutBucketTaggingInput -> PutBucketTaggingOutput = set_bucket_tags, "s3:PutBucketTagging";
    put_bucket_versioning: PutBucketVersioningInput -> PutBucketVersioningOutput = set_versioning, "s3:PutBucketVersioning";
    put_bucket_website: PutBucketWebsiteInput -> PutBucketWebsiteOutput = set_website, "s3:PutBucketWebsite";
    put_object: PutObjectInput -> PutObjectOutput = put, "s3:PutObject";
    put_object_acl: PutObjectAclInput -> PutObjectAclOutput = set_object_acl, "s3:PutObjectAcl" or "s3:PutObjectVersionAcl";
    put_object_legal_hold: PutObjectLegalHoldInput -> PutObjectLegalHoldOutput = set_legal_hold, "s3:PutObjectLegalHold";
    put_object_lock_configuration: PutObjectLockConfigurationInput -> PutObjectLockConfigurationOutput = set_object_lock_settings, "s3:PutBucketObjectLockConfiguration";
    put_object_retention: PutObjectRetentionInput -> PutObjectRetentionOutput = set_retention, "s3:PutObjectRetention";
    put_object_tagging: PutObjectTaggingInput -> PutObjectTaggingOutput = set_object_tags, "s3:PutObjectTagging" or "s3:PutObjectVersionTagging";
    put_public_access_block: PutPublicAccessBlockInput -> PutPublicAccessBlockOutput = set_public_access_block, "s3:PutBucketPublicAccessBlock";
    rename_object: RenameObjectInput -> RenameObjectOutput = rename, "s3:PutObject";
    select_object_content: SelectObjectContentInput -> SelectObjectContentOutput = select, "s3:GetObject";
    upload_part: UploadPartInput -> UploadPartOutput = put_part, "s3:PutObject";
    upload_part_copy: UploadPartCopyInput -> UploadPartCopyOutput = copy_part, "s3:PutObject";
}
