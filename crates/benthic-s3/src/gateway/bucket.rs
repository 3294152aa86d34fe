//! CreateBucket, HeadBucket, DeleteBucket, ListBuckets, GetBucketLocation, and the versioning of a
//! bucket.

use super::auth::{authorize_creation, authorize_for_account};
use super::{Gateway, acl, error, object_lock, public_access, refuse, timestamp};
use crate::sal::{Attributes, NewBucket, Versioning};
use benthic_core::{Error, ErrorKind};
use s3s::dto::{
    Bucket, BucketLocationConstraint, BucketVersioningStatus, CreateBucketInput, CreateBucketOutput,
    DeleteBucketInput, DeleteBucketOutput, GetBucketLocationInput, GetBucketLocationOutput,
    GetBucketVersioningInput, GetBucketVersioningOutput, HeadBucketInput, HeadBucketOutput, ListBucketsInput,
    ListBucketsOutput, ObjectOwnership, PutBucketVersioningInput, PutBucketVersioningOutput,
};
use s3s::{S3Error, S3Request, S3Result, s3_error};

/// Default and maximum number of buckets in a page.
const BUCKETS_MAX: i32 = 10_000;
/// Buckets per page that is read from the store.
const PAGE: usize = 1_000;
/// The region for which GetBucketLocation returns no name.
const CLASSIC_REGION: &str = "us-east-1";

/// The error for an account in which no bucket can be created.
fn in_removal(failed: Error) -> S3Error {
    match failed.kind() {
        // The caller has a key of the account, which the gateway has found in its cache.
        ErrorKind::NotFound | ErrorKind::Busy => {
            s3_error!(OperationAborted, "the account of the caller is being removed")
        }
        _ => error::bucket(failed),
    }
}

impl Gateway {
    pub(super) async fn create(&self, request: S3Request<CreateBucketInput>) -> S3Result<CreateBucketOutput> {
        let input = &request.input;
        let configuration = input.create_bucket_configuration.as_ref();
        refuse([
            ("a bucket namespace", input.bucket_namespace.is_some()),
            (
                "a directory bucket",
                configuration.is_some_and(|given| given.bucket.is_some() || given.location.is_some()),
            ),
        ])?;
        let region = configuration.and_then(|given| given.location_constraint.as_ref());
        if region.is_some_and(|region| !region.as_str().is_empty() && region.as_str() != self.region) {
            return Err(s3_error!(
                InvalidLocationConstraint,
                "the region of this gateway is {}",
                self.region
            ));
        }
        let arn = format!("arn:aws:s3:::{}", input.bucket);
        let settings = (
            region.map(BucketLocationConstraint::as_str).filter(|region| !region.is_empty()),
            input.object_ownership.as_ref().map(ObjectOwnership::as_str),
        );
        let owner = authorize_creation(&request, "s3:CreateBucket", (&arn, None), settings)?;
        let acl = acl::requested_acl!(input, input.grant_write.as_deref());
        let tags = configuration.and_then(|given| given.tags.as_ref());
        let has_lock = input.object_lock_enabled_for_bucket.unwrap_or(false);
        for (action, is_given) in [
            ("s3:PutBucketAcl", acl.is_given()),
            ("s3:PutBucketOwnershipControls", input.object_ownership.is_some()),
            ("s3:PutBucketTagging", tags.is_some()),
            ("s3:PutBucketVersioning", has_lock),
            ("s3:PutBucketObjectLockConfiguration", has_lock),
        ] {
            if is_given {
                authorize_creation(&request, action, (&arn, None), settings)?;
            }
        }
        let mut attributes = Attributes::new();
        if let Some(ownership) = &input.object_ownership {
            public_access::set_ownership(&mut attributes, &owner, ownership)?;
        }
        let ownership = attributes.clone();
        acl.store(&mut attributes, (&ownership, &owner), &owner)?;
        self.check_receivers(&attributes, &owner).await?;
        if let Some(given) = tags {
            super::tags::set(&mut attributes, &super::tags::pairs(given)?)?;
        }
        if has_lock {
            object_lock::turn_on(&mut attributes)?;
        }
        let record = match self.keys.identities() {
            Some(identities) => Some(identities.in_account(&owner).await.map_err(in_removal)?),
            None => None,
        };
        let new = NewBucket {
            record,
            name: input.bucket.clone(),
            owner: owner.clone(),
            versioning: if has_lock { Versioning::Enabled } else { Versioning::Off },
            attributes,
            ..NewBucket::default()
        };
        let created = self.sal.create_bucket(new).await;
        self.recent_buckets.forget(&input.bucket);
        match created {
            Ok(_) => {}
            Err(failure) if failure.kind() == ErrorKind::AlreadyExists => {
                let found = self.sal.bucket(&input.bucket).await;
                match found {
                    // As in the region of AWS with this name.
                    Ok(found)
                        if found.owner == owner
                            && self.region == CLASSIC_REGION
                            && has_lock <= object_lock::is_on(&found.attributes) => {}
                    Ok(found) if found.owner == owner => return Err(s3_error!(BucketAlreadyOwnedByYou)),
                    _ => return Err(s3_error!(BucketAlreadyExists)),
                }
            }
            Err(failure) => return Err(error::bucket(failure)),
        }
        let location = Some(format!("/{}", input.bucket));
        Ok(CreateBucketOutput { location, ..CreateBucketOutput::default() })
    }

    pub(super) async fn head_of_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<HeadBucketOutput> {
        let input = &request.input;
        self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let bucket_region = Some(self.region.clone());
        Ok(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() })
    }

    pub(super) async fn delete_whole_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> S3Result<DeleteBucketOutput> {
        let input = &request.input;
        self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let deleted = self.sal.delete_bucket(&input.bucket).await;
        self.recent_buckets.forget(&input.bucket);
        match deleted {
            Ok(()) => Ok(DeleteBucketOutput::default()),
            Err(failure) if failure.kind() == ErrorKind::Conflict => Err(s3_error!(BucketNotEmpty)),
            Err(failure) if failure.kind() == ErrorKind::Busy => Err(s3_error!(OperationAborted)),
            Err(failure) => Err(error::bucket(failure)),
        }
    }

    pub(super) async fn buckets(&self, request: S3Request<ListBucketsInput>) -> S3Result<ListBucketsOutput> {
        let input = &request.input;
        let owner = &authorize_for_account(&request, "s3:ListAllMyBuckets", "arn:aws:s3:::*", None)?;
        let wanted = input.max_buckets.unwrap_or(BUCKETS_MAX);
        if !(1..=BUCKETS_MAX).contains(&wanted) {
            return Err(s3_error!(InvalidArgument, "max-buckets must be between 1 and {BUCKETS_MAX}"));
        }
        let wanted = usize::try_from(wanted).unwrap_or(PAGE);
        let prefix = input.prefix.as_deref().unwrap_or_default();
        let elsewhere = input.bucket_region.as_ref().is_some_and(|region| *region != self.region);
        let mut after = input.continuation_token.clone();
        let mut buckets = Vec::new();
        let mut more = !elsewhere;
        while more && buckets.len() < wanted {
            let page = self.sal.list_buckets(owner, after.as_deref(), PAGE.min(wanted)).await;
            let (page, any) = page.map_err(error::bucket)?;
            more = any;
            for bucket in page {
                if buckets.len() == wanted {
                    more = true;
                    break;
                }
                after = Some(bucket.name.clone());
                if bucket.name.starts_with(prefix) {
                    buckets.push(Bucket {
                        name: Some(bucket.name),
                        creation_date: Some(timestamp(bucket.created_ms)),
                        bucket_region: Some(self.region.clone()),
                        ..Bucket::default()
                    });
                }
            }
        }
        Ok(ListBucketsOutput {
            buckets: Some(buckets),
            continuation_token: after.filter(|_| more),
            owner: Some(acl::owner(owner)),
            prefix: input.prefix.clone(),
        })
    }

    pub(super) async fn location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<GetBucketLocationOutput> {
        let input = &request.input;
        self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let named =
            (self.region != CLASSIC_REGION).then(|| BucketLocationConstraint::from(self.region.clone()));
        Ok(GetBucketLocationOutput { location_constraint: named })
    }

    pub(super) async fn versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<GetBucketVersioningOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let status = match access.bucket.versioning {
            Versioning::Off => None,
            Versioning::Enabled => Some(BucketVersioningStatus::from_static(BucketVersioningStatus::ENABLED)),
            Versioning::Suspended => {
                Some(BucketVersioningStatus::from_static(BucketVersioningStatus::SUSPENDED))
            }
        };
        Ok(GetBucketVersioningOutput { status, mfa_delete: None })
    }

    pub(super) async fn set_versioning(
        &self,
        request: S3Request<PutBucketVersioningInput>,
    ) -> S3Result<PutBucketVersioningOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let mfa = input.versioning_configuration.mfa_delete.as_ref();
        refuse([("MFA delete", mfa.is_some_and(|wanted| wanted.as_str() == "Enabled"))])?;
        let wanted = match input.versioning_configuration.status.as_ref().map(|status| status.as_str()) {
            Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
            Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
            _ => return Err(s3_error!(IllegalVersioningConfigurationException)),
        };
        let change = |bucket: &mut crate::sal::Bucket| {
            if wanted != Versioning::Enabled && object_lock::is_on(&bucket.attributes) {
                return Err(s3_error!(
                    InvalidBucketState,
                    "a bucket with object lock keeps its versions, so versioning cannot be suspended"
                ));
            }
            bucket.versioning = wanted;
            Ok(())
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutBucketVersioningOutput::default())
    }
}
