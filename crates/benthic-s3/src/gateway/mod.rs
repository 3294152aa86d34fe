//! The gateway: the S3 protocol over a [SAL](crate::sal).
//!
//! [`http`] accepts connections and answers requests that are not S3. `s3s` checks signatures and
//! parses requests. [`auth`] identifies the caller and checks its permissions. Each file with
//! operations implements them on the SAL. The gateway caches nothing except keys, for ten seconds,
//! so that several gateways on one store agree.

mod acl;
mod auth;
mod bucket;
mod checksums;
mod client_timeout;
mod conditions;
mod copy;
mod cors;
mod delete;
mod error;
mod get;
pub mod http;
mod list;
pub mod metrics;
mod multipart;
mod object_headers;
mod post_form;
mod put;
mod service;
pub mod single_flight;
mod tags;
mod versions;
mod virtual_host;

pub use auth::{KeyUse, Keys};
pub use http::{Handler, Limits, Server};

use crate::sal::{Bucket, Sal};
use benthic_core::Environment;
use benthic_core::ErrorKind;
use s3s::dto::Timestamp;
use s3s::{S3Result, s3_error};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum size of an object in one request, and of a part, in bytes.
const OBJECT_BYTES_MAX: u64 = 5 << 30;
/// Attempts of a compare-and-swap that concurrent changes interrupt.
const UPDATES_MAX: usize = 10;

/// Names of the attributes that the gateway gives to objects, uploads, parts and buckets.
mod names {
    /// A canned ACL other than `private`.
    pub const ACL: &str = "acl";
    /// Tags, as a JSON list of pairs.
    pub const TAGS: &str = "tags";
    /// CORS rules, as JSON.
    pub const CORS: &str = "cors";
    /// Of an object or a part: algorithm, kind and value of its checksum. Of an upload: algorithm
    /// and kind.
    pub const CHECKSUM: &str = "checksum";
    /// Of an object whose upload was begun with a checksum: the concatenated checksums of its
    /// parts, as bytes.
    pub const PART_CHECKSUMS: &str = "checksums-of-parts";
    /// Prefix of the names of user metadata.
    pub const METADATA: &str = "meta:";
    /// Headers that the client sets on an object and gets with it.
    pub const CONTENT_TYPE: &str = "content-type";
    pub const CACHE_CONTROL: &str = "cache-control";
    pub const CONTENT_DISPOSITION: &str = "content-disposition";
    pub const CONTENT_ENCODING: &str = "content-encoding";
    pub const CONTENT_LANGUAGE: &str = "content-language";
    pub const EXPIRES: &str = "expires";
    pub const WEBSITE_REDIRECT: &str = "website-redirect-location";
}

/// The implementation of the S3 operations.
pub struct Gateway {
    sal: Arc<dyn Sal>,
    bucket_reads: Arc<single_flight::SingleFlight<Bucket>>,
    metrics: Arc<metrics::Metrics>,
    environment: Environment,
    region: String,
}

impl Gateway {
    /// Creates a gateway to a store, with this region name.
    pub fn new(
        sal: Arc<dyn Sal>,
        metrics: Arc<metrics::Metrics>,
        environment: Environment,
        region: String,
    ) -> Gateway {
        let bucket_reads = {
            let sal = Arc::clone(&sal);
            single_flight::SingleFlight::new(move |name| {
                let sal = Arc::clone(&sal);
                async move { sal.bucket(&name).await }
            })
        };
        Gateway { sal, bucket_reads, metrics, environment, region }
    }

    /// Changes a bucket's record, and retries if another process changes it at the same time.
    async fn change_bucket(
        &self,
        mut bucket: Bucket,
        change: impl Fn(&mut Bucket) -> S3Result<()>,
    ) -> S3Result<()> {
        for _ in 0..UPDATES_MAX {
            let mut new = bucket.clone();
            change(&mut new)?;
            match self.sal.update_bucket(&bucket, &new).await {
                Err(failure) if failure.kind() == ErrorKind::Conflict => {
                    let found = self.sal.bucket(&bucket.name).await.map_err(error::bucket)?;
                    if found.id != bucket.id {
                        return Err(s3_error!(NoSuchBucket));
                    }
                    bucket = found;
                }
                result => return result.map(drop).map_err(error::bucket),
            }
        }
        Err(s3_error!(OperationAborted))
    }
}

fn timestamp(unix_ms: u64) -> Timestamp {
    Timestamp::from(UNIX_EPOCH + Duration::from_millis(unix_ms))
}

/// Refuses the first wanted feature, because the gateway does not implement it. Executing the
/// request without the feature would break a promise.
fn refuse<const N: usize>(wanted: [(&str, bool); N]) -> S3Result<()> {
    match wanted.iter().find(|(_, wanted)| *wanted) {
        None => Ok(()),
        Some((what, _)) => Err(s3_error!(NotImplemented, "{what} is not implemented")),
    }
}
