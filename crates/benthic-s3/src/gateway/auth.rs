//! Authentication and authorization.
//!
//! A request is signed with a key, or anonymous. Users of the account that owns a bucket may do
//! everything with it. Other callers may do only what a canned ACL allows: `public-read` on a
//! bucket lets everybody list it; on an object, it lets everybody read it.

use super::metrics::Metrics;
use super::{Gateway, error, names};
use crate::identity::{Caller, Identities, UsableKey};
use crate::sal::{Attributes, Bucket, Object, Prefetch};
use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Request, S3Result, s3_error};
use std::sync::Arc;

/// Operations that an anonymous caller may attempt. The bucket and the object decide whether they
/// are allowed.
const OPEN_OPERATIONS: [&str; 6] =
    ["GetObject", "HeadObject", "ListObjects", "ListObjectsV2", "HeadBucket", "GetObjectAttributes"];

/// The keys that a gateway accepts.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Looks up a key. Returns `None` for a key that is not accepted.
    ///
    /// # Errors
    /// Errors of the store.
    async fn find(&self, access_key: &str) -> benthic_core::Result<Option<UsableKey>>;

    /// Whether a key may be used for this request at all. The access to the bucket is checked in
    /// addition.
    ///
    /// # Errors
    /// Errors of the store.
    async fn admits(&self, access_key: &str, request: &KeyUse<'_>) -> benthic_core::Result<bool>;
}

/// What a request with a key wants.
#[derive(Clone, Copy, Debug)]
pub struct KeyUse<'r> {
    /// The name of the S3 operation.
    pub operation: &'r str,
    /// The key of the object. Absent if the request addresses a bucket, or none.
    pub object: Option<&'r str>,
    /// The query of the URI, with percent-encoding.
    pub query: &'r str,
}

/// All keys of the store, for all requests.
#[async_trait]
impl Keys for Identities {
    async fn find(&self, access_key: &str) -> benthic_core::Result<Option<UsableKey>> {
        self.look_up_key(access_key).await
    }

    async fn admits(&self, _access_key: &str, _request: &KeyUse<'_>) -> benthic_core::Result<bool> {
        Ok(true)
    }
}

/// Looks up the secrets of keys for `s3s`.
pub(super) struct Auth(pub Arc<dyn Keys>);

/// Determines the caller of each request.
pub(super) struct Access {
    pub keys: Arc<dyn Keys>,
    pub metrics: Arc<Metrics>,
}

#[async_trait]
impl S3Auth for Auth {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.find(access_key).await {
            Ok(Some(key)) => Ok(key.secret.into()),
            Ok(None) => Err(s3_error!(InvalidAccessKeyId)),
            Err(error) => Err(internal(error)),
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
                let object = context.s3_path().as_object().map(|(_, key)| key);
                let query = context.uri().query().unwrap_or_default();
                let request = KeyUse { operation, object, query };
                let key = self.keys.find(&credentials.access_key).await.map_err(internal)?;
                let key = key.ok_or_else(|| s3_error!(InvalidAccessKeyId))?;
                if !self.keys.admits(&credentials.access_key, &request).await.map_err(internal)? {
                    return Err(s3_error!(AccessDenied));
                }
                key.caller
            }
            None if OPEN_OPERATIONS.contains(&operation) => Caller::Anonymous,
            None => return Err(s3_error!(AccessDenied)),
        };
        context.extensions_mut().insert(caller);
        Ok(())
    }
}

/// The lookup failed because of the store or the sealing key. That is not the client's fault.
fn internal(error: benthic_core::Error) -> s3s::S3Error {
    error::bucket(error.with_kind(benthic_core::ErrorKind::Internal))
}

pub(super) fn caller<T>(request: &S3Request<T>) -> Caller {
    request.extensions.get().cloned().unwrap_or(Caller::Anonymous)
}

/// The access to a bucket that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    List,
    /// Read an object, which may be public even if the bucket is not.
    Read,
    /// Any other operation.
    All,
}

/// A caller, and a bucket that it may use as requested.
pub(super) struct Authorized {
    pub bucket: Bucket,
    pub caller: Caller,
}

impl Gateway {
    /// Returns the bucket of a request if the caller has the needed access.
    pub(super) async fn authorize<T>(
        &self,
        request: &S3Request<T>,
        name: &str,
        expected_owner: &Option<String>,
        need: Need,
    ) -> S3Result<Authorized> {
        let caller = caller(request);
        let bucket = self.bucket_reads.get(name).await.map_err(error::bucket)?;
        if expected_owner.as_ref().is_some_and(|owner| *owner != bucket.owner) {
            return Err(s3_error!(AccessDenied));
        }
        let access = Authorized { bucket, caller };
        match need {
            _ if access.is_owner() => Ok(access),
            Need::Read => Ok(access),
            Need::List if access.may_list() => Ok(access),
            Need::List | Need::All => Err(s3_error!(AccessDenied)),
        }
    }

    /// Returns a bucket, and an object in it that the caller may read. Only callers that may list
    /// the bucket get NoSuchKey; others get AccessDenied.
    ///
    /// To save a round trip, the object lookup runs at the same time as the bucket lookup, with the
    /// last known state of the bucket; it is repeated if the name refers to another bucket now. With
    /// `from_start`, the caller will read the object from its first byte. If the caller owns the
    /// bucket, the lookup then also prefetches the first data.
    pub(super) async fn authorize_read<T>(
        &self,
        request: &S3Request<T>,
        (name, expected_owner): (&str, &Option<String>),
        (key, version): (&str, Option<&str>),
        from_start: bool,
    ) -> S3Result<(Authorized, Object, Option<Prefetch>)> {
        let version = version.map(super::versions::parse_version_id).transpose()?;
        let subject = if version.is_some() { error::Subject::Version } else { error::Subject::Object };
        let caller = caller(request);
        let find = async |bucket: &Bucket| match version {
            None if from_start && owns(&caller, bucket) => self.sal.object_with_prefetch(bucket, key).await,
            version => Ok((self.sal.object(bucket, key, version).await?, None)),
        };
        let last_read = self.bucket_reads.last_read(name);
        let early = async {
            let bucket = last_read.as_ref()?;
            Some((bucket.id, find(bucket).await))
        };
        let (access, early) =
            futures::join!(self.authorize(request, name, expected_owner, Need::Read), early);
        let access = access?;
        let found = match early {
            Some((id, found)) if id == access.bucket.id => found,
            _ => find(&access.bucket).await,
        };
        match found {
            Ok((object, prefetch)) if access.is_owner() || is_public(&object.attributes) => {
                Ok((access, object, prefetch))
            }
            Ok((object, _)) if object.marker && access.may_list() => Ok((access, object, None)),
            Err(failure) if failure.kind() != benthic_core::ErrorKind::NotFound || access.may_list() => {
                Err(error::s3_error(failure, subject))
            }
            Ok(_) | Err(_) => Err(s3_error!(AccessDenied)),
        }
    }
}

/// The canned ACL that lets everybody read an object or list a bucket.
pub(super) const PUBLIC_READ: &str = "public-read";

/// Whether everybody may read a bucket or an object with these attributes.
pub(super) fn is_public(attributes: &Attributes) -> bool {
    attributes.get(names::ACL).is_some_and(|acl| acl == PUBLIC_READ)
}

fn owns(caller: &Caller, bucket: &Bucket) -> bool {
    caller.account() == Some(bucket.owner.as_str())
}

impl Authorized {
    pub fn is_owner(&self) -> bool {
        owns(&self.caller, &self.bucket)
    }

    pub fn may_list(&self) -> bool {
        self.is_owner() || is_public(&self.bucket.attributes)
    }
}
