//! The gateway: the S3 protocol over a [SAL](crate::sal).
//!
//! [`http`] accepts connections and answers requests that are not S3. `s3s` checks signatures and
//! parses requests. [`auth`] identifies the caller and checks its permissions. Each file with
//! operations implements them on the SAL. The gateway caches keys for two seconds, and the records
//! of buckets for one second, for reads of objects only. It caches nothing else, so that several
//! gateways on one store agree.

mod access_log;
mod acl;
mod append;
mod auth;
mod bucket;
mod bucket_encryption;
mod bucket_lifecycle;
mod bucket_logging;
mod bucket_notification;
mod bucket_policy;
pub(crate) mod checksums;
mod client_timeout;
mod conditions;
mod copy;
mod cors;
mod date_header;
mod delete;
mod document;
mod encryption;
mod error;
mod exec;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod get;
pub mod http;
mod iam;
mod list;
mod log_delivery;
pub mod metrics;
mod multipart;
mod object_headers;
mod object_lock;
mod on_put;
mod post_form;
mod public_access;
mod put;
mod recent_buckets;
mod rename;
mod request_facts;
mod request_payment;
mod s3_control;
mod select;
mod service;
mod signature_time;
pub mod single_flight;
pub(crate) mod tags;
mod versions;
mod virtual_host;
mod website;
mod website_rules;
mod xml_text;

pub use auth::{KeyUse, Keys};
pub use bucket_encryption::has_default_encryption;
pub(crate) use checksums::attributes_of_data;
pub use exec::{Code, ObjectData, RanAt, class_and_method};
pub use http::{Handler, Limits, Server, Services};
pub(crate) use object_lock::default_retention_of;
pub(crate) use public_access::is_of_writer;
pub(crate) use request_facts::date;

use crate::events::EventRules;
use crate::events::schedule::Wakeups;
use crate::lifecycle::Rules;
use crate::policy::Document;
use crate::sal::{Bucket, Sal};
use crate::vault::Vault;
use benthic_core::Environment;
use benthic_core::ErrorKind;
use bytes::Bytes;
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum size of an object in one request, and of a part, in bytes.
const OBJECT_BYTES_MAX: u64 = 5 << 30;
/// Attempts of a compare-and-swap that concurrent changes interrupt. Each attempt fails only if
/// another one succeeds.
const UPDATES_MAX: usize = 100;

/// Names of the attributes that the gateway gives to objects, uploads, parts and buckets.
pub(crate) mod names {
    /// An ACL other than `private`: `public-read`, or its grants as JSON.
    pub const ACL: &str = "acl";
    /// Tags, as a JSON list of pairs.
    pub const TAGS: &str = "tags";
    /// CORS rules, as JSON.
    pub const CORS: &str = "cors";
    /// The policy of a bucket, as the client gave it.
    pub const POLICY: &str = "policy";
    /// The unique ids of the users and roles that the policy of a bucket names, and a hash of the
    /// policy, as JSON.
    pub const POLICY_PRINCIPALS: &str = "policy-principals";
    /// The public access block of a bucket, as JSON.
    pub const PUBLIC_ACCESS_BLOCK: &str = "public-access-block";
    /// The object ownership of a bucket.
    pub const OWNERSHIP: &str = "object-ownership";
    /// The account that owns an object or an upload, if it is not the owner of the bucket.
    pub const OWNER: &str = "owner";
    /// The lifecycle rules of a bucket, as JSON.
    pub const LIFECYCLE: &str = crate::lifecycle::ATTRIBUTE;
    /// The notifications of a bucket, as JSON.
    pub const NOTIFICATIONS: &str = crate::events::ATTRIBUTE;
    /// The object lock settings of a bucket, as JSON. A bucket without them has no object lock.
    pub const OBJECT_LOCK: &str = "object-lock";
    /// Of an object or a part: algorithm, kind and value of its checksum. Of an upload: algorithm
    /// and kind.
    pub const CHECKSUM: &str = "checksum";
    /// Of an object whose upload was begun with a checksum: the concatenated checksums of its
    /// parts, as bytes.
    pub const PART_CHECKSUMS: &str = "checksums-of-parts";
    /// The default encryption of a bucket, as JSON.
    pub const DEFAULT_ENCRYPTION: &str = "default-encryption";
    /// Whether the requester pays in a bucket: present if so.
    pub const REQUESTER_PAYS: &str = "requester-pays";
    /// Where the access log of a bucket goes, as JSON.
    pub const LOGGING: &str = "logging";
    /// The website of a bucket, as JSON.
    pub const WEBSITE: &str = "website";
    /// Of an object: the token of the request that renamed it.
    pub const RENAME_TOKEN: &str = "rename-token";
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
    keys: Arc<dyn Keys>,
    bucket_reads: Arc<single_flight::SingleFlight<Bucket>>,
    recent_buckets: recent_buckets::RecentBuckets,
    metrics: Arc<metrics::Metrics>,
    environment: Environment,
    region: String,
    code: Option<Arc<dyn Code>>,
    vault: Option<Arc<Vault>>,
    /// The texts are those of the policy and of its principals.
    parsed_policies: auth::ParsedPolicies<[Bytes; 2], Arc<Document>>,
    parsed_rules: auth::ParsedPolicies<Bytes, Arc<Rules>>,
    parsed_events: auth::ParsedPolicies<Bytes, Arc<EventRules>>,
    wakeups: Arc<Wakeups>,
    logs: Arc<log_delivery::AccessLogs>,
    /// Places for queries that the gateway runs itself.
    queries: select::Places,
}

impl Gateway {
    /// Creates a gateway to a store, with this region name. `keys` are those of its callers. It
    /// reports buckets with new events to `wakeups`.
    pub fn new(
        sal: Arc<dyn Sal>,
        keys: Arc<dyn Keys>,
        metrics: Arc<metrics::Metrics>,
        environment: Environment,
        region: String,
        services: Services,
        wakeups: Arc<Wakeups>,
    ) -> Gateway {
        let bucket_reads = {
            let sal = Arc::clone(&sal);
            single_flight::SingleFlight::new(move |name| {
                let sal = Arc::clone(&sal);
                async move { sal.bucket(&name).await }
            })
        };
        let logs = Arc::new(log_delivery::AccessLogs::new(environment.clone(), Arc::clone(&metrics)));
        Gateway {
            sal,
            keys,
            logs,
            bucket_reads,
            recent_buckets: recent_buckets::RecentBuckets::default(),
            metrics,
            environment,
            region,
            code: services.code,
            vault: services.vault,
            parsed_policies: auth::ParsedPolicies::default(),
            parsed_rules: auth::ParsedPolicies::default(),
            parsed_events: auth::ParsedPolicies::default(),
            wakeups,
            queries: select::Places::default(),
        }
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
            let changed = self.sal.update_bucket(&bucket, &new).await;
            self.recent_buckets.forget(&bucket.name);
            match changed {
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

    /// Stores a value as JSON in an attribute of a bucket.
    async fn set_bucket_attribute(
        &self,
        bucket: Bucket,
        name: &str,
        value: &(impl Serialize + Sync),
    ) -> S3Result<()> {
        let text = serde_json::to_vec(value).map_err(|error| s3_error!(error, InternalError))?;
        let text = Bytes::from(text);
        let change = |bucket: &mut Bucket| {
            bucket.attributes.insert(name.to_owned(), text.clone());
            Ok(())
        };
        self.change_bucket(bucket, change).await
    }

    async fn remove_bucket_attribute(&self, bucket: Bucket, name: &str) -> S3Result<()> {
        let change = |bucket: &mut Bucket| {
            bucket.attributes.remove(name);
            Ok(())
        };
        self.change_bucket(bucket, change).await
    }
}

/// The last millisecond of the year 9999, the last that a time in an answer can have.
const TIMESTAMP_MS_MAX: u64 = 253_402_300_799_999;

/// A time for an answer. Later times than the year 9999 become its last millisecond.
fn timestamp(unix_ms: u64) -> Timestamp {
    Timestamp::from(UNIX_EPOCH + Duration::from_millis(unix_ms.min(TIMESTAMP_MS_MAX)))
}

/// The time in the form of HTTP headers.
fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// The time in milliseconds since 1970; `None` before. A fraction of a millisecond counts as a
/// whole one.
pub(crate) fn unix_ms(time: &Timestamp) -> Option<u64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(seconds.saturating_mul(1_000).saturating_add(nanoseconds.div_ceil(1_000_000)))
}

/// Refuses the first wanted feature, because the gateway does not implement it. Executing the
/// request without the feature would break a promise.
fn refuse<const N: usize>(wanted: [(&str, bool); N]) -> S3Result<()> {
    match wanted.iter().find(|(_, wanted)| *wanted) {
        None => Ok(()),
        Some((what, _)) => Err(s3_error!(NotImplemented, "{what} is not implemented")),
    }
}

/// Gives an id to each rule without one: the prefix, a dash and a number.
fn assign_ids<T>(rules: &mut [T], prefix: &str, id: impl Fn(&mut T) -> &mut Option<String>) {
    let known: Vec<String> = rules.iter_mut().filter_map(|rule| id(rule).clone()).collect();
    let mut free = (1..).map(|number| format!("{prefix}-{number}")).filter(|name| !known.contains(name));
    for rule in rules {
        let id = id(rule);
        if id.as_ref().is_none_or(String::is_empty) {
            *id = free.next();
        }
    }
}
