//! The gateway: S3 over a [SAL](crate::sal).
//!
//! [`http`] takes connections and answers what is not S3; `s3s` checks signatures and reads requests; [`auth`] says who asks and
//! what they may; each file of operations does its part on the SAL. The gateway keeps nothing but keys that it looked up, for ten
//! seconds: several gateways on one store agree.

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
pub mod identity;
mod list;
pub mod metrics;
mod multipart;
mod object_headers;
mod post_form;
mod put;
pub mod seal;
mod service;
pub mod single_flight;
mod tags;
mod versions;
mod virtual_host;

pub use http::{Limits, Server};

use crate::sal::{Bucket, Sal};
use benthic_core::Environment;
use benthic_core::ErrorKind;
use s3s::dto::Timestamp;
use s3s::{S3Result, s3_error};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How often a change is tried that others are in the way of.
const UPDATES_MAX: usize = 10;

/// Names of the attributes that the gateway gives to objects, uploads, parts and buckets.
mod names {
    /// A canned ACL other than `private`.
    pub const ACL: &str = "acl";
    /// Tags, as JSON: a list of pairs.
    pub const TAGS: &str = "tags";
    /// Rules for other origins, as JSON.
    pub const CORS: &str = "cors";
    /// Of an object: algorithm, kind and value of its checksum. Of an upload: algorithm and kind. Of a part: as an object.
    pub const CHECKSUM: &str = "checksum";
    /// Of an object whose upload was begun with a checksum: those of its parts, as bytes, one behind the other.
    pub const PART_CHECKSUMS: &str = "checksums-of-parts";
    /// Before the names of a user's metadata.
    pub const METADATA: &str = "meta:";
    /// Headers that an object is given and answered with.
    pub const CONTENT_TYPE: &str = "content-type";
    pub const CACHE_CONTROL: &str = "cache-control";
    pub const CONTENT_DISPOSITION: &str = "content-disposition";
    pub const CONTENT_ENCODING: &str = "content-encoding";
    pub const CONTENT_LANGUAGE: &str = "content-language";
    pub const EXPIRES: &str = "expires";
    pub const WEBSITE_REDIRECT: &str = "website-redirect-location";
}

/// The operations of S3.
pub struct Gateway {
    sal: Arc<dyn Sal>,
    bucket_reads: Arc<single_flight::SingleFlight<Bucket>>,
    metrics: Arc<metrics::Metrics>,
    environment: Environment,
    region: String,
}

impl Gateway {
    /// A gateway to a store, which calls itself by this region.
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

    /// Changes a bucket's record, again if somebody else does so at the same time.
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

/// Refuses what an input asks for and the gateway does not do: better no than a promise that is not kept.
fn refuse<const N: usize>(wanted: [(&str, bool); N]) -> S3Result<()> {
    match wanted.iter().find(|(_, wanted)| *wanted) {
        None => Ok(()),
        Some((what, _)) => Err(s3_error!(NotImplemented, "{what} is not implemented")),
    }
}
