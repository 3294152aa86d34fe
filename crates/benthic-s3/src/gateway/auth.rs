//! Who may do what.
//!
//! A request is signed with a key, or anonymous. A bucket is its owner's: users of its account may do everything, others
//! nothing, but for what a canned ACL opens: `public-read` on a bucket lets everybody list it, on an object read it.

use super::identity::{Caller, Identities};
use super::metrics::Metrics;
use super::{Gateway, error, names};
use crate::sal::{Attributes, Bucket, Object, Prefetch};
use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Request, S3Result, s3_error};
use std::sync::Arc;

/// What somebody without a name may try; the bucket and the object say whether it is allowed.
const OPEN_OPERATIONS: [&str; 6] =
    ["GetObject", "HeadObject", "ListObjects", "ListObjectsV2", "HeadBucket", "GetObjectAttributes"];

/// Looks keys up.
pub(super) struct Auth(pub Arc<Identities>);

/// Says who is asking.
pub(super) struct Access {
    pub identities: Arc<Identities>,
    pub metrics: Arc<Metrics>,
}

#[async_trait]
impl S3Auth for Auth {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.known_key(access_key).await {
            Ok(Some(key)) => Ok(key.secret),
            Ok(None) => Err(s3_error!(InvalidAccessKeyId)),
            Err(error) => Err(unknown(error)),
        }
    }
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let operation = context.s3_op().name();
        self.metrics.operation(operation);
        let caller = match context.credentials() {
            Some(credentials) => {
                let key = self.identities.known_key(&credentials.access_key).await.map_err(unknown)?;
                key.ok_or_else(|| s3_error!(InvalidAccessKeyId))?.caller
            }
            None if OPEN_OPERATIONS.contains(&operation) => Caller::Anonymous,
            None => return Err(s3_error!(AccessDenied)),
        };
        context.extensions_mut().insert(caller);
        Ok(())
    }
}

/// The store failed, or the sealing key is wrong: not the client's doing.
fn unknown(error: benthic_core::Error) -> s3s::S3Error {
    error::bucket(error.with_kind(benthic_core::ErrorKind::Internal))
}

/// Who makes a request.
pub(super) fn caller<T>(request: &S3Request<T>) -> Caller {
    request.extensions.get().cloned().unwrap_or(Caller::Anonymous)
}

/// What a request wants to do with a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// List it.
    List,
    /// Read an object, which may be open to all although the bucket is not.
    Read,
    /// Anything else.
    All,
}

/// A bucket that the caller may use as it wants to, and the caller.
pub(super) struct Authorized {
    pub bucket: Bucket,
    pub caller: Caller,
}

impl Gateway {
    /// The bucket of a request, if the caller may.
    pub(super) async fn authorize<T>(
        &self,
        request: &S3Request<T>,
        name: &str,
        expected_owner: Option<&str>,
        wants: Wants,
    ) -> S3Result<Authorized> {
        let caller = caller(request);
        let bucket = self.bucket_reads.get(name).await.map_err(error::bucket)?;
        if expected_owner.is_some_and(|owner| owner != bucket.owner) {
            return Err(s3_error!(AccessDenied));
        }
        let access = Authorized { bucket, caller };
        match wants {
            _ if access.is_owner() => Ok(access),
            Wants::Read => Ok(access),
            Wants::List if access.lists() => Ok(access),
            Wants::List | Wants::All => Err(s3_error!(AccessDenied)),
        }
    }

    /// A bucket, and an object in it that the caller may read. Only callers that may list the
    /// bucket get NoSuchKey; others get AccessDenied.
    ///
    /// The object is looked up while the bucket is, in the bucket as it was last seen: that is the same bucket nearly always. If it
    /// will be read from its first byte on, and the caller may do everything in the bucket, the first of it may be on its way too.
    pub(super) async fn authorize_read<T>(
        &self,
        request: &S3Request<T>,
        (name, expected_owner): (&str, Option<&str>),
        (key, version): (&str, Option<&str>),
        reads: bool,
    ) -> S3Result<(Authorized, Object, Option<Prefetch>)> {
        let version = version.map(super::versions::version).transpose()?;
        let subject = if version.is_some() { error::Subject::Version } else { error::Subject::Object };
        let caller = caller(request);
        let find = async |bucket: &Bucket| match version {
            None if reads && owns(&caller, bucket) => self.sal.object_with_prefetch(bucket, key).await,
            version => Ok((self.sal.object(bucket, key, version).await?, None)),
        };
        let seen = self.bucket_reads.seen(name);
        let early = async {
            let seen = seen.as_ref()?;
            Some((seen.id, find(seen).await))
        };
        let (access, early) =
            futures::join!(self.authorize(request, name, expected_owner, Wants::Read), early);
        let access = access?;
        let found = match early {
            Some((id, found)) if id == access.bucket.id => found,
            _ => find(&access.bucket).await,
        };
        match found {
            Ok((object, prefetch)) if access.is_owner() || is_public(&object.attributes) => {
                Ok((access, object, prefetch))
            }
            Ok((object, _)) if object.marker && access.lists() => Ok((access, object, None)),
            Err(failure) if failure.kind() != benthic_core::ErrorKind::NotFound || access.lists() => {
                Err(error::s3_error(failure, subject))
            }
            Ok(_) | Err(_) => Err(s3_error!(AccessDenied)),
        }
    }
}

/// The canned ACL that lets everybody read.
pub(super) const PUBLIC_READ: &str = "public-read";

/// Whether everybody may read a bucket or an object with these attributes.
pub(super) fn is_public(attributes: &Attributes) -> bool {
    attributes.get(names::ACL).is_some_and(|acl| acl == PUBLIC_READ)
}

/// Whether a bucket is of the caller's account.
fn owns(caller: &Caller, bucket: &Bucket) -> bool {
    caller.account() == Some(bucket.owner.as_str())
}

impl Authorized {
    pub fn is_owner(&self) -> bool {
        owns(&self.caller, &self.bucket)
    }

    /// Whether the caller may list the bucket.
    pub fn lists(&self) -> bool {
        self.is_owner() || is_public(&self.bucket.attributes)
    }
}
