//! Delivery of access logs: lines wait in memory, and become objects of the target bucket.
//!
//! Best effort, as on AWS: no request waits for its line, and lines are lost if the gateway dies or
//! if more wait than memory is reserved for. The gateway writes a log object itself, without a
//! request, so a delivery makes no line and no log feeds itself. Rejected: appending to one object,
//! for which several gateways would have to agree, and a file of lines that survive a crash.

use super::access_log::{LoggedBuckets, Visit};
use super::bucket_encryption::{EncryptBy, default_of};
use super::bucket_logging::{KeyFormat, LogTarget};
use super::encryption::Encryption;
use super::metrics::Metrics;
use super::object_lock::default_retention;
use super::{Gateway, attributes_of_data, date, error};
use crate::events::Origin;
use crate::identity::Caller;
use crate::policy::{Decision, Facts, Request, Rights, Rules, decide};
use crate::sal::{Bucket, Change, Finish};
use crate::view::is_view;
use benthic_core::{Environment, Error};
use parking_lot::Mutex;
use s3s::{S3Error, S3Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::Notify;

/// The service that writes log objects, as policies name it.
pub(super) const SERVICE: &str = "logging.s3.amazonaws.com";
/// Lines that wait in memory, in bytes. More are dropped.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes that a group takes in addition to its lines.
const GROUP_BYTES: usize = 1_024;
/// Size at which lines become an object before their time, in bytes.
const OBJECT_BYTES: usize = 2 << 20;
/// How often the gateway looks for lines whose time has come.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 86_400_000;

/// Lines that go to the same object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    source: String,
    owner: String,
    target: LogTarget,
    /// Start of the day of the requests, if the key names it.
    day_ms: Option<u64>,
}

impl Group {
    pub fn new(source: &Bucket, target: &LogTarget, request_ms: u64) -> Group {
        let is_by_event = target.format == KeyFormat::ByEvent;
        Group {
            source: source.name.clone(),
            owner: source.owner.clone(),
            target: target.clone(),
            day_ms: is_by_event.then(|| request_ms - request_ms % DAY_MS),
        }
    }
}

/// The lines of a group.
struct Lines {
    text: String,
    /// When the first of them came, by the monotonic clock.
    since_ms: u64,
}

/// Lines that wait for their delivery.
pub(super) struct AccessLogs {
    environment: Environment,
    metrics: Arc<Metrics>,
    waiting: Mutex<Waiting>,
    /// Held by a delivery, so that the last one ends after all others.
    delivering: tokio::sync::Mutex<()>,
    /// Wakes the delivery when there are enough lines for an object.
    full: Notify,
}

#[derive(Default)]
struct Waiting {
    groups: HashMap<Group, Lines>,
    /// Bytes of all groups, also of those whose delivery runs.
    bytes: usize,
}

impl AccessLogs {
    pub fn new(environment: Environment, metrics: Arc<Metrics>) -> AccessLogs {
        AccessLogs {
            environment,
            metrics,
            waiting: Mutex::default(),
            delivering: tokio::sync::Mutex::default(),
            full: Notify::new(),
        }
    }

    /// An id for a log object.
    pub fn object_id(&self) -> Option<String> {
        let mut id = [0; 8];
        self.environment.random.fill(&mut id).ok()?;
        Some(format!("{:016X}", u64::from_be_bytes(id)))
    }

    /// Adds lines, or drops them if too many wait. Does not block.
    pub fn add(&self, group: Group, lines: &str) {
        let now_ms = self.environment.clock.monotonic_ms();
        let mut waiting = self.waiting.lock();
        let is_new = !waiting.groups.contains_key(&group);
        let bytes = lines.len() + if is_new { GROUP_BYTES } else { 0 };
        if waiting.bytes + bytes > WAITING_BYTES_MAX {
            drop(waiting);
            self.count_dropped(lines);
            return;
        }
        waiting.bytes += bytes;
        let entry =
            waiting.groups.entry(group).or_insert_with(|| Lines { text: String::new(), since_ms: now_ms });
        entry.text.push_str(lines);
        if entry.text.len() >= OBJECT_BYTES {
            self.full.notify_one();
        }
    }

    /// Takes the groups that are due after this time. Their bytes still count.
    fn take(&self, every: Duration) -> Vec<(Group, Lines)> {
        let now_ms = self.environment.clock.monotonic_ms();
        let is_due = |lines: &Lines| {
            let waited_ms = u128::from(now_ms.saturating_sub(lines.since_ms));
            waited_ms >= every.as_millis() || lines.text.len() >= OBJECT_BYTES
        };
        self.waiting.lock().groups.extract_if(|_, lines| is_due(lines)).collect()
    }

    /// Ends a delivery. Lines that can be delivered later wait again.
    fn settle(&self, group: Group, lines: Lines, delivered: Result<(), S3Error>) {
        let Err(failure) = delivered else {
            self.waiting.lock().bytes -= lines.text.len() + GROUP_BYTES;
            self.metrics.log_objects.fetch_add(1, Relaxed);
            return;
        };
        let is_server_error = failure.status_code().is_none_or(|status| status.is_server_error());
        tracing::warn!(
            error = %failure,
            bucket = group.source,
            target = group.target.bucket,
            is_dropped = !is_server_error,
            "cannot write an access log"
        );
        let mut waiting = self.waiting.lock();
        if !is_server_error {
            waiting.bytes -= lines.text.len() + GROUP_BYTES;
            drop(waiting);
            return self.count_dropped(&lines.text);
        }
        match waiting.groups.remove(&group) {
            None => drop(waiting.groups.insert(group, lines)),
            Some(newer) => {
                // Two groups become one.
                waiting.bytes -= GROUP_BYTES;
                let text = lines.text + &newer.text;
                waiting.groups.insert(group, Lines { text, since_ms: newer.since_ms });
            }
        }
    }

    fn count_dropped(&self, lines: &str) {
        let count = lines.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.metrics.dropped_log_lines.fetch_add(count, Relaxed);
    }
}

/// The facts about a delivery, for the policy of the target.
struct DeliveryFacts<'a> {
    source: &'a str,
    owner: &'a str,
    now_ms: u64,
}

impl Facts for DeliveryFacts<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let value = match key {
            "aws:sourcearn" => format!("arn:aws:s3:::{}", self.source),
            "aws:sourceaccount" | "aws:resourceaccount" | "s3:resourceaccount" => self.owner.to_owned(),
            "aws:principalisawsservice" | "aws:securetransport" => "true".to_owned(),
            "aws:currenttime" => date(self.now_ms)?,
            "aws:epochtime" => (self.now_ms / 1_000).to_string(),
            _ => return None,
        };
        Some(vec![value])
    }
}

/// Year, month, day, hour, minute and second of a time, as digits.
pub(super) fn digits(unix_ms: u64) -> [String; 6] {
    let text = date(unix_ms).unwrap_or_default();
    let mut parts = text.split(|character: char| !character.is_ascii_digit()).map(str::to_owned);
    [(); 6].map(|()| parts.next().unwrap_or_default())
}

/// The key of a log object.
pub(super) fn key_of(
    target: &LogTarget,
    source: &Bucket,
    region: &str,
    unix_ms: u64,
    unique: &str,
) -> String {
    key((target, &source.owner, &source.name), region, unix_ms, unique)
}

fn key(
    (target, owner, source): (&LogTarget, &str, &str),
    region: &str,
    unix_ms: u64,
    unique: &str,
) -> String {
    let [year, month, day, hour, minute, second] = digits(unix_ms);
    let name = format!("{year}-{month}-{day}-{hour}-{minute}-{second}-{unique}");
    let prefix = &target.prefix;
    match target.format {
        KeyFormat::Simple => format!("{prefix}{name}"),
        KeyFormat::ByDelivery | KeyFormat::ByEvent => {
            format!("{prefix}{owner}/{region}/{source}/{year}/{month}/{day}/{name}")
        }
    }
}

impl Gateway {
    /// The buckets whose logs get lines about a request: as the gateway knows them from their last
    /// use, because no request waits for its line.
    pub(super) fn logged_buckets(&self, bucket: Option<&str>, visit: &Visit) -> Option<LoggedBuckets> {
        let find = |name: &str| {
            let bucket = self.bucket_reads.last_read(name)?;
            let target = LogTarget::of(&bucket.attributes)?;
            Some((bucket, target))
        };
        let source = visit.copy_source().and_then(|(bucket, key)| {
            let (bucket, target) = find(&bucket)?;
            Some((bucket, target, key))
        });
        let bucket = bucket.and_then(find);
        (bucket.is_some() || source.is_some()).then_some(LoggedBuckets { bucket, source })
    }

    /// Whether the policy of the target lets the gateway write a log object.
    pub(super) fn may_deliver_log(&self, source: &Bucket, target: &Bucket, key: &str) -> S3Result<bool> {
        self.policy_allows_log((&source.name, &source.owner), target, key)
    }

    fn policy_allows_log(&self, (source, owner): (&str, &str), target: &Bucket, key: &str) -> S3Result<bool> {
        let policy = self.policy_of(target)?;
        let resource = format!("arn:aws:s3:::{}/{key}", target.name);
        let facts = DeliveryFacts { source, owner, now_ms: self.environment.unix_ms() };
        let caller = Caller::Service(SERVICE);
        let request = Request { caller: &caller, action: "s3:PutObject", resource: &resource, facts: &facts };
        let rules = Rules {
            owner: &target.owner,
            bucket_policy: policy.as_deref(),
            restricts_public_policy: false,
            acl_allows: false,
            rights: &Rights::default(),
        };
        Ok(decide(&request, &rules) == Decision::Allowed)
    }

    /// Writes the lines whose time has come, for ever.
    pub(super) async fn deliver_logs(&self, every: Duration) {
        let look_every = LOOK_EVERY.min(every);
        loop {
            let woken = self.logs.full.notified();
            let _ = tokio::time::timeout(look_every, woken).await;
            self.deliver_due_logs(every).await;
        }
    }

    /// Writes the lines that have waited for this time.
    pub(super) async fn deliver_due_logs(&self, every: Duration) {
        let _guard = self.logs.delivering.lock().await;
        for (group, lines) in self.logs.take(every) {
            let delivered = self.write_log(&group, &lines.text).await;
            self.logs.settle(group, lines, delivered);
        }
    }

    async fn write_log(&self, group: &Group, text: &str) -> S3Result<()> {
        let refused = |message: &str| error::object(Error::permission_denied(message));
        let bucket = self.sal.bucket(&group.target.bucket).await.map_err(error::bucket)?;
        if bucket.owner != group.owner || is_view(&bucket) {
            return Err(refused("the target of an access log belongs to another account, or is a view"));
        }
        let unique = self.logs.object_id().unwrap_or_default();
        let unix_ms = group.day_ms.unwrap_or_else(|| self.environment.unix_ms());
        let key = key((&group.target, &group.owner, &group.source), &self.region, unix_ms, &unique);
        if !self.policy_allows_log((&group.source, &group.owner), &bucket, &key)? {
            return Err(refused("the policy of the target does not allow the delivery of access logs"));
        }
        let made = attributes_of_data(text.as_bytes(), Some("text/plain"));
        let (etag, mut attributes) = made.map_err(error::object)?;
        let encryption = match default_of(&bucket.attributes)? {
            None => None,
            Some(EncryptBy::S3) => Some(self.encrypt_with_s3(&bucket, &key, &mut attributes).await?),
            Some(EncryptBy::Kms { .. }) => {
                return Err(refused("the target of an access log encrypts with SSE-KMS"));
            }
        };
        let data_key = encryption.as_ref().map(Encryption::data_key);
        let default_retention = default_retention(&bucket.attributes)?;
        let origin = Origin { principal: SERVICE.to_owned(), address: None };
        let names = [(Change::Created, "ObjectCreated:Put")];
        let rules = self.event_rules(&bucket)?;
        let events = rules.map_or(Vec::new(), |rules| rules.of_change(&key, &names, &origin, false));
        let had_events = !events.is_empty();
        let size_bytes = Some(text.len() as u64);
        let writer = self.sal.write(&bucket, &key, None, size_bytes, None, data_key).await;
        let mut writer = writer.map_err(error::object)?;
        let data = bytes::Bytes::copy_from_slice(text.as_bytes());
        if let Err(failure) = writer.write(data).await {
            return Err(super::put::abort_write(writer, error::object(failure)).await);
        }
        let finish = Finish { etag, attributes, default_retention, events, ..Finish::default() };
        writer.finish(finish).await.map_err(error::object)?;
        self.wake(&bucket, had_events);
        Ok(())
    }
}

#[cfg(test)]
#[path = "log_delivery_tests.rs"]
mod tests;
