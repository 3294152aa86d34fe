//! The table of the implemented S3 operations. All others answer NotImplemented.

use super::Gateway;
use s3s::{S3, S3Request, S3Response, S3Result, dto};

/// Implements each operation by calling a method of [`Gateway`].
macro_rules! operations {
    ($($name:ident: $input:ident -> $output:ident = $method:ident;)*) => {
        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(
                async fn $name(&self, request: S3Request<dto::$input>) -> S3Result<S3Response<dto::$output>> {
                    self.$method(request).await.map(S3Response::new)
                }
            )*
        }
    };
}

operations! {
    abort_multipart_upload: AbortMultipartUploadInput -> AbortMultipartUploadOutput = abort_upload;
    complete_multipart_upload: CompleteMultipartUploadInput -> CompleteMultipartUploadOutput = complete;
    copy_object: CopyObjectInput -> CopyObjectOutput = copy;
    create_bucket: CreateBucketInput -> CreateBucketOutput = create;
    create_multipart_upload: CreateMultipartUploadInput -> CreateMultipartUploadOutput = begin_upload;
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput = delete_whole_bucket;
    delete_bucket_cors: DeleteBucketCorsInput -> DeleteBucketCorsOutput = remove_cors;
    delete_bucket_tagging: DeleteBucketTaggingInput -> DeleteBucketTaggingOutput = remove_bucket_tags;
    delete_object: DeleteObjectInput -> DeleteObjectOutput = delete;
    delete_object_tagging: DeleteObjectTaggingInput -> DeleteObjectTaggingOutput = remove_object_tags;
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput = delete_many;
    get_bucket_acl: GetBucketAclInput -> GetBucketAclOutput = bucket_acl;
    get_bucket_cors: GetBucketCorsInput -> GetBucketCorsOutput = cors;
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput = location;
    get_bucket_tagging: GetBucketTaggingInput -> GetBucketTaggingOutput = bucket_tags;
    get_bucket_versioning: GetBucketVersioningInput -> GetBucketVersioningOutput = versioning;
    get_object: GetObjectInput -> GetObjectOutput = get;
    get_object_acl: GetObjectAclInput -> GetObjectAclOutput = object_acl;
    get_object_attributes: GetObjectAttributesInput -> GetObjectAttributesOutput = attributes;
    get_object_tagging: GetObjectTaggingInput -> GetObjectTaggingOutput = object_tags;
    head_bucket: HeadBucketInput -> HeadBucketOutput = head_of_bucket;
    head_object: HeadObjectInput -> HeadObjectOutput = head;
    list_buckets: ListBucketsInput -> ListBucketsOutput = buckets;
    list_multipart_uploads: ListMultipartUploadsInput -> ListMultipartUploadsOutput = list_uploads;
    list_object_versions: ListObjectVersionsInput -> ListObjectVersionsOutput = list_versions;
    list_objects: ListObjectsInput -> ListObjectsOutput = list;
    list_objects_v2: ListObjectsV2Input -> ListObjectsV2Output = list_v2;
    list_parts: ListPartsInput -> ListPartsOutput = list_parts;
    put_bucket_acl: PutBucketAclInput -> PutBucketAclOutput = set_bucket_acl;
    put_bucket_cors: PutBucketCorsInput -> PutBucketCorsOutput = set_cors;
    put_bucket_tagging: PutBucketTaggingInput -> PutBucketTaggingOutput = set_bucket_tags;
    put_bucket_versioning: PutBucketVersioningInput -> PutBucketVersioningOutput = set_versioning;
    put_object: PutObjectInput -> PutObjectOutput = put;
    put_object_acl: PutObjectAclInput -> PutObjectAclOutput = set_object_acl;
    put_object_tagging: PutObjectTaggingInput -> PutObjectTaggingOutput = set_object_tags;
    upload_part: UploadPartInput -> UploadPartOutput = put_part;
    upload_part_copy: UploadPartCopyInput -> UploadPartCopyOutput = copy_part;
}
