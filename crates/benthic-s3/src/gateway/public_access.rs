//! PublicAccessBlock and OwnershipControls: settings of a bucket that limit its policy and its
//! access control lists.
//!
//! `BucketOwnerEnforced` turns access control lists off. With `ObjectWriter`, a new object belongs
//! to the account that writes it. With `BucketOwnerPreferred` too, unless the writer gives the
//! access control list `bucket-owner-full-control`: then it belongs to the owner of the bucket. In
//! all other buckets, objects belong to the owner of the bucket.

use super::acl::Acl;
use super::auth::On;
use super::{Gateway, names};
use crate::sal::{Attributes, Bucket};
use bytes::Bytes;
use s3s::dto::{
    DeleteBucketOwnershipControlsInput, DeleteBucketOwnershipControlsOutput, DeletePublicAccessBlockInput,
    DeletePublicAccessBlockOutput, GetBucketOwnershipControlsInput, GetBucketOwnershipControlsOutput,
    GetPublicAccessBlockInput, GetPublicAccessBlockOutput, ObjectOwnership, OwnershipControls,
    OwnershipControlsRule, PublicAccessBlockConfiguration, PutBucketOwnershipControlsInput,
    PutBucketOwnershipControlsOutput, PutPublicAccessBlockInput, PutPublicAccessBlockOutput,
};
use s3s::{S3Request, S3Result, s3_error};

/// The settings of a bucket; nothing is blocked without them.
pub(super) fn block_of(bucket: &Attributes) -> PublicAccessBlockConfiguration {
    let text = bucket.get(names::PUBLIC_ACCESS_BLOCK);
    text.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
}

/// Whether the bucket has no access control lists.
pub(super) fn is_owner_enforced(bucket: &Attributes) -> bool {
    let ownership = bucket.get(names::OWNERSHIP);
    ownership.is_some_and(|ownership| ownership == ObjectOwnership::BUCKET_OWNER_ENFORCED)
}

/// Whether an object belongs to the account that writes it with this canned access control list,
/// and not to the owner of the bucket.
pub(crate) fn is_of_writer(bucket: &Attributes, canned: Option<&str>) -> bool {
    let ownership = bucket.get(names::OWNERSHIP).map(|value| &value[..]).unwrap_or_default();
    ownership == ObjectOwnership::OBJECT_WRITER.as_bytes()
        || (ownership == ObjectOwnership::BUCKET_OWNER_PREFERRED.as_bytes()
            && canned != Some("bucket-owner-full-control"))
}

/// The account that owns an object or an upload with these attributes.
pub(super) fn object_owner<'a>(bucket: &'a Bucket, object: &'a Attributes) -> &'a str {
    match object.get(names::OWNER) {
        // A damaged name is that of nobody.
        Some(owner) if is_of_writer(&bucket.attributes, None) => {
            std::str::from_utf8(owner).unwrap_or_default()
        }
        _ => &bucket.owner,
    }
}

/// Sets the ownership of a bucket.
pub(super) fn set_ownership(
    bucket: &mut Attributes,
    owner: &str,
    ownership: &ObjectOwnership,
) -> S3Result<()> {
    let ownership = ownership.as_str();
    match ownership {
        ObjectOwnership::BUCKET_OWNER_ENFORCED if Acl::of(bucket, owner).is_shared(owner) => {
            return Err(s3_error!(InvalidBucketAclWithObjectOwnership));
        }
        ObjectOwnership::BUCKET_OWNER_ENFORCED
        | ObjectOwnership::BUCKET_OWNER_PREFERRED
        | ObjectOwnership::OBJECT_WRITER => {}
        _ => return Err(s3_error!(MalformedXML, "unknown object ownership")),
    }
    bucket.insert(names::OWNERSHIP.to_owned(), Bytes::copy_from_slice(ownership.as_bytes()));
    Ok(())
}

impl Gateway {
    pub(super) async fn public_access_block(
        &self,
        request: S3Request<GetPublicAccessBlockInput>,
    ) -> S3Result<GetPublicAccessBlockOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        if !access.bucket.attributes.contains_key(names::PUBLIC_ACCESS_BLOCK) {
            return Err(super::error::with_status(
                "NoSuchPublicAccessBlockConfiguration",
                hyper::StatusCode::NOT_FOUND,
                "The public access block configuration was not found",
            ));
        }
        let block = Some(block_of(&access.bucket.attributes));
        Ok(GetPublicAccessBlockOutput { public_access_block_configuration: block })
    }

    pub(super) async fn set_public_access_block(
        &self,
        request: S3Request<PutPublicAccessBlockInput>,
    ) -> S3Result<PutPublicAccessBlockOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let given = &input.public_access_block_configuration;
        let block = PublicAccessBlockConfiguration {
            block_public_acls: Some(given.block_public_acls.unwrap_or(false)),
            block_public_policy: Some(given.block_public_policy.unwrap_or(false)),
            ignore_public_acls: Some(given.ignore_public_acls.unwrap_or(false)),
            restrict_public_buckets: Some(given.restrict_public_buckets.unwrap_or(false)),
        };
        self.set_bucket_attribute(access.bucket, names::PUBLIC_ACCESS_BLOCK, &block).await?;
        Ok(PutPublicAccessBlockOutput::default())
    }

    pub(super) async fn remove_public_access_block(
        &self,
        request: S3Request<DeletePublicAccessBlockInput>,
    ) -> S3Result<DeletePublicAccessBlockOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.remove_bucket_attribute(access.bucket, names::PUBLIC_ACCESS_BLOCK).await?;
        Ok(DeletePublicAccessBlockOutput::default())
    }

    pub(super) async fn ownership_controls(
        &self,
        request: S3Request<GetBucketOwnershipControlsInput>,
    ) -> S3Result<GetBucketOwnershipControlsOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let ownership = super::object_headers::text(&access.bucket.attributes, names::OWNERSHIP);
        let ownership = ownership.ok_or_else(|| s3_error!(OwnershipControlsNotFoundError))?;
        let rule = OwnershipControlsRule { object_ownership: ObjectOwnership::from(ownership) };
        Ok(GetBucketOwnershipControlsOutput {
            ownership_controls: Some(OwnershipControls { rules: vec![rule] }),
        })
    }

    pub(super) async fn set_ownership_controls(
        &self,
        request: S3Request<PutBucketOwnershipControlsInput>,
    ) -> S3Result<PutBucketOwnershipControlsOutput> {
        let input = &request.input;
        let [rule] = input.ownership_controls.rules.as_slice() else {
            return Err(s3_error!(MalformedXML, "give exactly one rule"));
        };
        let on = On::Ownership(rule.object_ownership.as_str());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let change = |bucket: &mut Bucket| {
            set_ownership(&mut bucket.attributes, &bucket.owner, &rule.object_ownership)
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutBucketOwnershipControlsOutput::default())
    }

    pub(super) async fn remove_ownership_controls(
        &self,
        request: S3Request<DeleteBucketOwnershipControlsInput>,
    ) -> S3Result<DeleteBucketOwnershipControlsOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        self.remove_bucket_attribute(access.bucket, names::OWNERSHIP).await?;
        Ok(DeleteBucketOwnershipControlsOutput::default())
    }
}
