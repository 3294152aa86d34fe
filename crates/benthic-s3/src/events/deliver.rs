//! Delivers events from the queues of buckets.
//!
//! Of several gateways, one at a time delivers the events of a bucket: it holds a
//! [lease](crate::lease) for a *pass*. A pass goes through the queues in parallel, and through each queue
//! in order. It removes events after their delivery, so a gateway that dies delivers some twice.
//!
//! A target that refuses an event (4xx) will refuse it again, so the event becomes dead at once. If the
//! target does not answer, the queue stops, so that the order of a key's events stays, and the next attempts come
//! after growing pauses. An event that waits too long becomes dead, too. Operators see dead events, and
//! deliver them again, with `benthic s3 events`.

use super::on_put::{KEY_VARIABLE, OnPutRule, Then};
use super::webhook::{Failure, Sender, Webhook};
use super::{EventRules, Origin, TARGET_QUEUE, record};
use crate::gateway::metrics::Metrics;
use crate::gateway::{self, Code, ObjectData};
use crate::identity::Identities;
use crate::lease::{self, Lease};
use crate::sal::{Bucket, Change, Event, EventKind, Finish, Id, QueuePlace, RecordKind, Sal, Settle};
use benthic_core::{Environment, Error, ErrorKind, Result};
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::Notify;

/// How long a pass holds its bucket. It must exceed the time of a pass.
const LEASE_MS: u64 = 30_000;
/// After this time, a pass begins no further delivery.
const PASS_MS: u64 = 5_000;
/// Queues of a bucket that are processed at the same time.
const QUEUES_IN_FLIGHT: usize = 16;
/// Events that are delivered before the store learns of it.
const PAGE: usize = 100;
/// The pause after the first failure, and the longest one.
const PAUSE_MS_FIRST: u64 = 1_000;
const PAUSE_MS_MAX: u64 = 60_000;
/// Limit of the stored reason of a failure.
const REASON_BYTES_MAX: usize = 256;

/// The names of buckets that have new events.
#[derive(Default)]
pub struct Wakeups {
    names: Mutex<BTreeSet<String>>,
    notify: Notify,
}

impl Wakeups {
    /// Says that a bucket has new events.
    pub fn wake(&self, bucket: &str) {
        self.names.lock().insert(bucket.to_owned());
        self.notify.notify_one();
    }

    /// Waits for buckets with new events, at most for this long.
    pub async fn wait(&self, at_most: Duration) -> BTreeSet<String> {
        let _ = tokio::time::timeout(at_most, self.notify.notified()).await;
        std::mem::take(&mut *self.names.lock())
    }
}

/// What is known about the delivery of a bucket's events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryState {
    /// The queues whose last delivery failed.
    pub failures: BTreeMap<String, LastFailure>,
}

/// The last failure of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    pub reason: String,
    /// The first failure since the last success.
    pub since_ms: u64,
}

/// The state of the delivery of a bucket's events.
///
/// # Errors
/// `Corrupt`; those of the store.
pub async fn state(sal: &dyn Sal, bucket: &Bucket) -> Result<DeliveryState> {
    Ok(lease::progress(sal, RecordKind::Delivery, bucket).await?.unwrap_or_default())
}

/// Delivers events.
pub struct Deliverer {
    pub sal: Arc<dyn Sal>,
    pub identities: Arc<Identities>,
    pub code: Option<Arc<dyn Code>>,
    pub metrics: Arc<Metrics>,
    pub environment: Environment,
    pub region: String,
    /// How long an event may wait for a target that does not answer.
    pub keep_ms: u64,
    pub pauses: Pauses,
}

/// The queues whose targets do not answer: the time of the next attempt, and the pause before it.
#[derive(Default)]
pub struct Pauses(Mutex<HashMap<(Id, String), (u64, u64)>>);

/// Where the events of a queue go.
enum Sink<'a> {
    Webhook(Box<Sender>),
    Method(&'a OnPutRule),
}

/// The result of a pass through one queue in one place.
struct Passed {
    queue: String,
    failure: Option<String>,
    has_more: bool,
}

impl Deliverer {
    /// Delivers the waiting events of a bucket, unless another gateway does. True if the time was not
    /// sufficient for all of them.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn deliver(&self, name: &str) -> Result<bool> {
        let bucket = match self.sal.bucket(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            bucket => bucket?,
        };
        let queues = self.sal.queues(&bucket).await?;
        let now_ms = self.environment.unix_ms();
        let wait = |place: &QueuePlace| !self.pauses.holds(bucket.id, &place.queue, now_ms);
        let places: Vec<QueuePlace> = queues
            .into_iter()
            .filter(|(place, state)| state.waiting > 0 && wait(place))
            .map(|(place, _)| place)
            .collect();
        if places.is_empty() {
            return Ok(false);
        }
        let taken = (self.sal.as_ref(), &self.environment);
        let lease =
            Lease::<DeliveryState>::take(taken, RecordKind::Delivery, LEASE_MS, &bucket, |_| {}).await?;
        let Some(mut lease) = lease else { return Ok(false) };
        let passed = self.pass(&bucket, places, now_ms.saturating_add(PASS_MS)).await;
        if let Ok(passed) = &passed {
            note_failures(&mut lease.progress, passed, self.environment.unix_ms());
        }
        lease.release().await?;
        Ok(passed?.iter().any(|passed| passed.has_more))
    }

    async fn pass(&self, bucket: &Bucket, places: Vec<QueuePlace>, until_ms: u64) -> Result<Vec<Passed>> {
        let rules = &EventRules::of_bucket(&bucket.attributes)?;
        let pass = |place: QueuePlace| async move { self.pass_queue(bucket, rules, &place, until_ms).await };
        let mut running =
            futures::stream::iter(places.into_iter().map(pass)).buffer_unordered(QUEUES_IN_FLIGHT);
        let mut all = Vec::new();
        let mut failed = None;
        while let Some(passed) = running.next().await {
            match passed {
                Ok(passed) => all.push(passed),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let failing: BTreeSet<&String> =
            all.iter().filter(|passed| passed.failure.is_some()).map(|passed| &passed.queue).collect();
        for passed in &all {
            let is_failing = failing.contains(&passed.queue);
            self.pauses.note(bucket.id, &passed.queue, is_failing, self.environment.unix_ms());
        }
        failed.map_or(Ok(all), Err)
    }

    async fn pass_queue(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        place: &QueuePlace,
        until_ms: u64,
    ) -> Result<Passed> {
        let mut sink = match self.sink(bucket, rules, &place.queue).await {
            // The bucket's rules do not ask for these events any more.
            Ok(None) => {
                self.drop_all(bucket, place).await?;
                return Ok(Passed { queue: place.queue.clone(), failure: None, has_more: false });
            }
            Ok(Some(sink)) => Ok(sink),
            Err(error) => Err(Failure::Unavailable(error.message().to_owned())),
        };
        loop {
            let (events, has_more) = self.sal.events(bucket, place, EventKind::Waiting, None, PAGE).await?;
            let mut settle = Settle::default();
            let mut failure = None;
            let mut left = events.iter();
            for event in left.by_ref() {
                if self.environment.unix_ms() >= until_ms {
                    self.settle(bucket, place, settle).await?;
                    return Ok(Passed { queue: place.queue.clone(), failure, has_more: true });
                }
                let delivered = match &mut sink {
                    Ok(sink) => self.deliver_event(bucket, rules, sink, event).await,
                    Err(failure) => Err(failure.clone()),
                };
                match delivered {
                    Ok(()) => settle.done.push(event.number),
                    Err(Failure::Refused(reason)) => settle.dead.push((event.number, shorten(reason))),
                    Err(Failure::Unavailable(reason)) => {
                        self.metrics.failed_deliveries.fetch_add(1, Relaxed);
                        failure = Some(shorten(reason));
                        settle.dead.extend(self.expired(event, failure.as_ref()));
                        break;
                    }
                }
            }
            settle.dead.extend(left.filter_map(|event| self.expired(event, failure.as_ref())));
            let are_all = settle.done.len() + settle.dead.len() == events.len();
            self.settle(bucket, place, settle).await?;
            if !has_more || !are_all {
                return Ok(Passed { queue: place.queue.clone(), failure, has_more: false });
            }
        }
    }

    /// The number of an event that waits too long, and the reason.
    fn expired(&self, event: &Event, failure: Option<&String>) -> Option<(u64, String)> {
        let waits_ms = self.environment.unix_ms().saturating_sub(event.queued_ms);
        failure.filter(|_| waits_ms >= self.keep_ms).map(|reason| (event.number, reason.clone()))
    }

    async fn settle(&self, bucket: &Bucket, place: &QueuePlace, settle: Settle) -> Result<()> {
        if settle == Settle::default() {
            return Ok(());
        }
        self.sal.settle(bucket, place, &settle).await?;
        self.metrics.delivered_events.fetch_add(settle.done.len() as u64, Relaxed);
        self.metrics.dead_events.fetch_add(settle.dead.len() as u64, Relaxed);
        Ok(())
    }

    async fn drop_all(&self, bucket: &Bucket, place: &QueuePlace) -> Result<()> {
        loop {
            let (events, has_more) = self.sal.events(bucket, place, EventKind::Waiting, None, PAGE).await?;
            let done = events.iter().map(|event| event.number).collect();
            self.sal.settle(bucket, place, &Settle { done, ..Settle::default() }).await?;
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Where the events of a queue go; `None` if no rule asks for them.
    async fn sink<'r>(
        &self,
        bucket: &Bucket,
        rules: &'r EventRules,
        queue: &str,
    ) -> Result<Option<Sink<'r>>> {
        if !rules.has_queue(queue) {
            return Ok(None);
        }
        if let Some(rule) = rules.on_put().queued(queue) {
            return Ok(Some(Sink::Method(rule)));
        }
        let Some((account, name)) = queue.strip_prefix(TARGET_QUEUE).and_then(|rest| rest.split_once('/'))
        else {
            return Ok(None);
        };
        if account != bucket.owner {
            // The bucket has another owner than when the rule was set.
            return Err(Error::new(ErrorKind::PermissionDenied, "the target belongs to another account"));
        }
        let target = self.identities.event_target(account, name).await?;
        let token = self.identities.token_of_target(account, name, &target)?;
        let webhook = Webhook::new(&target.url, token.as_deref(), target.ca.as_deref());
        let webhook = webhook.map_err(|message| Error::new(ErrorKind::InvalidArgument, message))?;
        Ok(Some(Sink::Webhook(Box::new(webhook.sender()))))
    }

    async fn deliver_event(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        sink: &mut Sink<'_>,
        event: &Event,
    ) -> std::result::Result<(), Failure> {
        match sink {
            Sink::Webhook(sender) => {
                let message = record::message(bucket, event, &self.region).to_string();
                sender.send(Bytes::from(message)).await
            }
            Sink::Method(rule) => self.run_method(bucket, rules, rule, event).await,
        }
    }

    /// Runs the method of a rule on an object, and writes the result.
    async fn run_method(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        rule: &OnPutRule,
        event: &Event,
    ) -> std::result::Result<(), Failure> {
        let object = match self.sal.object(bucket, &event.key, Some(event.version)).await {
            Ok(object) if object.write == event.write => object,
            // The version is gone.
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unavailable(&error)),
        };
        if object.is_encrypted() || gateway::has_default_encryption(&bucket.attributes) {
            let message =
                "on-put rules that write objects do not run in encrypted buckets or on encrypted objects";
            return Err(Failure::Refused(message.to_owned()));
        }
        let Some(code) = &self.code else {
            return Err(Failure::Refused("this server runs no methods".to_owned()));
        };
        let data = ObjectData { sal: self.sal.as_ref(), bucket, object: &object, data_key: None };
        let (result, ran_at) = code.run(rule.call(), data).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::InvalidArgument
            | ErrorKind::LimitExceeded
            | ErrorKind::ClassFailed
            | ErrorKind::Unsupported
            | ErrorKind::PermissionDenied => Failure::Refused(error.message().to_owned()),
            _ => unavailable(&error),
        })?;
        self.metrics.method(ran_at);
        let Then::Object { key, content_type } = &rule.then else { return Ok(()) };
        if result.is_empty() {
            return Ok(());
        }
        let key = key.replace(KEY_VARIABLE, &event.key);
        self.write_result(bucket, rules, rule, (&key, content_type.as_deref()), result).await.map_err(
            |error| {
                match error.kind() {
                    ErrorKind::InvalidArgument => Failure::Refused(error.message().to_owned()),
                    // The key is too long; a full quota may become free.
                    ErrorKind::LimitExceeded if error.reason().is_none() => {
                        Failure::Refused(error.message().to_owned())
                    }
                    _ => unavailable(&error),
                }
            },
        )
    }

    async fn write_result(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        rule: &OnPutRule,
        (key, content_type): (&str, Option<&str>),
        data: Bytes,
    ) -> Result<()> {
        let (etag, attributes) = gateway::attributes_of_data(&data, content_type)?;
        let mut writer = self.sal.write(bucket, key, None, Some(data.len() as u64), None).await?;
        writer.write(data).await?;
        let origin = Origin { principal: rule.queue(), address: None };
        let finish = Finish {
            etag,
            attributes,
            default_retention: gateway::default_retention_of(bucket)?,
            events: rules.of_change(key, &[(Change::Created, "ObjectCreated:Put")], &origin, false),
            ..Finish::default()
        };
        writer.finish(finish).await.map(drop)
    }
}

impl Pauses {
    fn holds(&self, bucket: Id, queue: &str, now_ms: u64) -> bool {
        let pauses = self.0.lock();
        pauses.get(&(bucket, queue.to_owned())).is_some_and(|(next_ms, _)| now_ms < *next_ms)
    }

    fn note(&self, bucket: Id, queue: &str, is_failing: bool, now_ms: u64) {
        let mut pauses = self.0.lock();
        let key = (bucket, queue.to_owned());
        if !is_failing {
            pauses.remove(&key);
            return;
        }
        let (next_ms, pause_ms) = pauses.entry(key).or_insert((0, PAUSE_MS_FIRST / 2));
        // Several places of one queue fail in one pass.
        if *next_ms <= now_ms {
            *pause_ms = (*pause_ms * 2).min(PAUSE_MS_MAX);
            *next_ms = now_ms.saturating_add(*pause_ms);
        }
    }
}

fn note_failures(state: &mut DeliveryState, passed: &[Passed], now_ms: u64) {
    let mut failing: BTreeMap<&String, &String> = BTreeMap::new();
    failing.extend(passed.iter().filter_map(|passed| Some((&passed.queue, passed.failure.as_ref()?))));
    for Passed { queue, .. } in passed {
        match failing.get(queue) {
            None => drop(state.failures.remove(queue)),
            Some(reason) => {
                let since_ms = state.failures.get(queue).map_or(now_ms, |known| known.since_ms);
                let failure = LastFailure { reason: (*reason).clone(), since_ms };
                state.failures.insert(queue.clone(), failure);
            }
        }
    }
}

fn unavailable(error: &Error) -> Failure {
    Failure::Unavailable(error.to_string())
}

fn shorten(mut reason: String) -> String {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.truncate(end);
    reason
}
