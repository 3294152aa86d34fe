//! Delivers events from the queues of buckets.
//!
//! One gateway at a time delivers the events of a queue: it holds a [lease](crate::lease) for a
//! *pass*. A pass goes through the shards in parallel, and through the queue of each shard in
//! order. It removes events after their delivery, so a gateway that dies delivers some twice.
//!
//! A target that refuses an event (4xx) will refuse it again, so the event becomes dead at once. If
//! the target does not answer, the queue stops in this place, so that the order of a key's events
//! stays, and the next attempts come after growing delays. An event that waits too long becomes
//! dead, too. Operators see dead events, and deliver them again, with `benthic s3 events`.
//!
//! A wrong password, and a message that no queue of a broker gets, concern all events of a target.
//! So they stop the queue; otherwise all events would be dead before anyone could repair it.

use super::broker::{Broker, Brokers, IDLE_MS, KEPT_MAX, Message};
use super::on_put::{KEY_VARIABLE, OnPutRule, Then};
use super::topic::{self, Endpoints};
use super::webhook::{Failure, Sender, Webhook};
use super::{EventRules, Origin, TARGET_QUEUE, TOPIC, record, target_arn};
use crate::gateway::metrics::Metrics;
use crate::gateway::{self, Code, ObjectData};
use crate::identity::{EventTarget, Identities};
use crate::lease::{self, Lease};
use crate::sal::{
    Bucket, Change, Event, EventState, Finish, Id, Object, QueuePlace, QueueState, RecordKind, Sal, Settle,
};
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension, Result};
use benthic_program::units::no_control;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a pass holds its queue. It must exceed the time of a pass.
const LEASE_MS: u64 = 30_000;
/// After this time, a pass begins no further delivery.
const PASS_MS: u64 = 5_000;
/// After this time, a pass writes no result of a method, because another gateway may soon hold the
/// queue.
const RESULT_MS: u64 = 20_000;
/// How long a gateway waits for the pass of another one.
const HELD_RETRY_MS: u64 = 1_000;
/// Places of a queue that are processed at the same time.
const PLACES_IN_FLIGHT: usize = 16;
/// Events that are delivered before the store learns of it.
const PAGE: usize = 100;
/// The delay after the first failure, and the longest one.
const BACKOFF_FIRST_MS: u64 = 1_000;
const BACKOFF_MAX_MS: u64 = 60_000;
/// Limit of the stored reason of a failure.
const REASON_BYTES_MAX: usize = 256;

/// The known facts about the delivery of a queue's events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryState {
    /// The last failure, if there was no success since.
    pub failure: Option<LastFailure>,
}

/// The last failure of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    pub reason: String,
    /// The first failure since the last success.
    pub since_ms: u64,
}

/// The state of the delivery of a queue's events.
///
/// # Errors
/// `Corrupt`; those of the store.
pub async fn state(sal: &dyn Sal, bucket: &Bucket, queue: &str) -> Result<DeliveryState> {
    Ok(lease::progress(sal, RecordKind::Delivery, bucket, Some(queue)).await?.unwrap_or_default())
}

/// Delivers events.
pub struct Deliverer {
    sal: Arc<dyn Sal>,
    identities: Arc<Identities>,
    code: Arc<dyn Code>,
    metrics: Arc<Metrics>,
    environment: Environment,
    region: String,
    topic_endpoints: Endpoints,
    /// How long an event may wait for a target that does not answer.
    keep_ms: u64,
    /// Limits the methods that run at the same time, so that requests have room for theirs.
    methods: Semaphore,
    backoff: Backoff,
    senders: Senders,
    brokers: Brokers,
    stopping: AtomicBool,
}

/// The settings of a [`Deliverer`].
pub struct Settings {
    /// The region of the gateway.
    pub region: String,
    /// The endpoints that topics may have.
    pub topic_endpoints: Endpoints,
    /// How long an event may wait for a target that does not answer, in milliseconds.
    pub keep_ms: u64,
    /// Methods of on-put rules that run at the same time.
    pub methods_max: usize,
}

/// The places whose targets do not answer: the time of the next attempt by the monotonic clock, and
/// the delay before it.
#[derive(Default)]
struct Backoff(Mutex<HashMap<(Id, QueuePlace), (u64, u64)>>);

/// Idle connections to web servers, by the name of the target.
#[derive(Default)]
struct Senders(Mutex<HashMap<String, Idle>>);

/// The idle connections to a target.
struct Idle {
    target: EventTarget,
    senders: Vec<Sender>,
    used_ms: u64,
}

/// Where the events of a queue go.
enum Sink<'a> {
    Webhook(Box<Connected>),
    Broker(Arc<Broker>),
    Method(&'a OnPutRule),
    /// A topic without an endpoint.
    Nowhere,
}

/// A target, its name, and a connection to it.
struct Connected {
    name: String,
    target: EventTarget,
    sender: Sender,
}

/// The times of a pass, by the monotonic clock.
#[derive(Clone, Copy)]
struct Pass {
    until_ms: u64,
    results_until_ms: u64,
}

/// How a pass left a place.
enum Left {
    /// Nothing was tried.
    Untried,
    /// Nothing more to do.
    Empty,
    /// The time was not sufficient.
    More,
    /// The target did not answer.
    Failed(String),
}

impl Deliverer {
    pub fn new(
        sal: Arc<dyn Sal>,
        identities: Arc<Identities>,
        code: Arc<dyn Code>,
        metrics: Arc<Metrics>,
        environment: Environment,
        settings: Settings,
    ) -> Deliverer {
        let Settings { region, topic_endpoints, keep_ms, methods_max } = settings;
        Deliverer {
            sal,
            identities,
            code,
            metrics,
            environment,
            region,
            topic_endpoints,
            keep_ms,
            methods: Semaphore::new(methods_max),
            backoff: Backoff::default(),
            senders: Senders::default(),
            brokers: Brokers::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Begins no further delivery.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// The queues of a bucket with waiting events.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn waiting_queues(&self, bucket: &str) -> Result<BTreeSet<String>> {
        // Gateways call this often, also if no events wait.
        let now_ms = self.monotonic_ms();
        self.brokers.forget_idle(now_ms);
        self.senders.forget_idle(now_ms);
        let Some(bucket) = self.sal.bucket(bucket).await.optional()? else { return Ok(BTreeSet::new()) };
        let queues = self.sal.queues(&bucket).await?;
        self.backoff.forget_empty(bucket.id, &queues);
        Ok(queues.into_iter().filter(|(_, state)| state.waiting > 0).map(|(place, _)| place.queue).collect())
    }

    /// Delivers the waiting events of a queue, unless another gateway does. Returns when to try
    /// again.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn deliver(&self, bucket: &str, queue: &str) -> Result<Option<Duration>> {
        let Some(bucket) = self.sal.bucket(bucket).await.optional()? else { return Ok(None) };
        let queues = self.sal.queues(&bucket).await?;
        let now_ms = self.monotonic_ms();
        let is_due =
            |place: &QueuePlace| self.backoff.until_ms(bucket.id, place).is_none_or(|at| at <= now_ms);
        let waiting = queues.into_iter().filter(|(place, state)| place.queue == queue && state.waiting > 0);
        let places: Vec<QueuePlace> = waiting.map(|(place, _)| place).filter(is_due).collect();
        if places.is_empty() {
            return Ok(self.next_attempt(bucket.id, queue));
        }
        let store = (self.sal.as_ref(), &self.environment);
        let task = (&bucket, Some(queue));
        let lease = Lease::<DeliveryState>::take(store, RecordKind::Delivery, LEASE_MS, task, |_| {}).await?;
        let Some(mut lease) = lease else { return Ok(Some(Duration::from_millis(HELD_RETRY_MS))) };
        let pass = Pass {
            until_ms: now_ms.saturating_add(PASS_MS),
            results_until_ms: now_ms.saturating_add(RESULT_MS),
        };
        let (left, failed) = self.pass(&bucket, places, pass).await;
        self.note_failures(&bucket, queue, &mut lease.progress, &left);
        lease.release().await?;
        if let Some(error) = failed {
            return Err(error);
        }
        if left.iter().any(|(_, left)| matches!(left, Left::More | Left::Untried)) {
            return Ok(Some(Duration::ZERO));
        }
        Ok(self.next_attempt(bucket.id, queue))
    }

    /// When the first place of a queue with a target that did not answer is due again.
    fn next_attempt(&self, bucket: Id, queue: &str) -> Option<Duration> {
        let next_ms = self.backoff.next_ms(bucket, queue)?;
        Some(Duration::from_millis(next_ms.saturating_sub(self.monotonic_ms())))
    }

    fn monotonic_ms(&self) -> u64 {
        self.environment.clock.monotonic_ms()
    }

    /// Goes through places. Returns how it left them, and the first error of the store.
    async fn pass(
        &self,
        bucket: &Bucket,
        places: Vec<QueuePlace>,
        pass: Pass,
    ) -> (Vec<(QueuePlace, Left)>, Option<Error>) {
        let rules = match EventRules::of_bucket(&bucket.attributes) {
            Ok(rules) => rules,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let rules = &rules;
        let pass_place = |place: QueuePlace| async move {
            let left = self.pass_place(bucket, rules, &place, pass).await;
            (place, left)
        };
        let mut passed =
            futures::stream::iter(places.into_iter().map(pass_place)).buffer_unordered(PLACES_IN_FLIGHT);
        let (mut all, mut failed) = (Vec::new(), None);
        while let Some((place, left)) = passed.next().await {
            match left {
                Ok(left) => all.push((place, left)),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        (all, failed)
    }

    async fn pass_place(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        place: &QueuePlace,
        pass: Pass,
    ) -> Result<Left> {
        if self.is_over(pass) {
            return Ok(Left::Untried);
        }
        let mut sink = match self.sink(bucket, rules, &place.queue).await {
            Ok(Some(sink)) => sink,
            Ok(None) => return self.drop_events(bucket, place, pass).await,
            Err(error) => {
                self.metrics.failed_deliveries.fetch_add(1, Relaxed);
                let reason = shorten(error.message().to_owned());
                let (events, _) = self.sal.events(bucket, place, EventState::Waiting, None, PAGE).await?;
                self.settle(bucket, place, self.expire(&events, &reason)).await?;
                return Ok(Left::Failed(reason));
            }
        };
        let _method = match &sink {
            Sink::Webhook(_) | Sink::Broker(_) | Sink::Nowhere => None,
            Sink::Method(_) => match self.methods.try_acquire() {
                Ok(permit) => Some(permit),
                Err(_) => return Ok(Left::Untried),
            },
        };
        let left = self.deliver_place(bucket, rules, place, &mut sink, pass).await;
        if let Sink::Webhook(connected) = sink {
            self.senders.keep(*connected, self.monotonic_ms());
        }
        left
    }

    async fn deliver_place(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        place: &QueuePlace,
        sink: &mut Sink<'_>,
        pass: Pass,
    ) -> Result<Left> {
        loop {
            let (events, has_more) = self.sal.events(bucket, place, EventState::Waiting, None, PAGE).await?;
            let mut settle = Settle::default();
            let mut left = if has_more { None } else { Some(Left::Empty) };
            for (number, event) in events.iter().enumerate() {
                if self.is_over(pass) {
                    left = Some(Left::More);
                    break;
                }
                match self.deliver_event(bucket, rules, sink, event, pass).await {
                    Ok(()) => settle.done.push(event.number),
                    Err(Failure::Refused(reason)) => settle.dead.push((event.number, shorten(reason))),
                    Err(Failure::Later) => {
                        left = Some(Left::More);
                        break;
                    }
                    Err(Failure::Unavailable(reason)) => {
                        self.metrics.failed_deliveries.fetch_add(1, Relaxed);
                        let reason = shorten(reason);
                        settle.dead.extend(self.expire(&events[number..], &reason).dead);
                        left = Some(Left::Failed(reason));
                        break;
                    }
                }
            }
            self.settle(bucket, place, settle).await?;
            if let Some(left) = left {
                return Ok(left);
            }
        }
    }

    /// Whether a pass shall begin no further delivery.
    fn is_over(&self, pass: Pass) -> bool {
        self.stopping.load(Relaxed) || self.monotonic_ms() >= pass.until_ms
    }

    /// Makes the events dead that wait too long.
    fn expire(&self, events: &[Event], reason: &str) -> Settle {
        let now_ms = self.environment.unix_ms();
        let expired = events.iter().filter(|event| now_ms.saturating_sub(event.queued_ms) >= self.keep_ms);
        let dead = expired.map(|event| (event.number, reason.to_owned())).collect();
        Settle { dead, ..Settle::default() }
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

    /// Removes the waiting events of a queue for which no rule asks any more.
    async fn drop_events(&self, bucket: &Bucket, place: &QueuePlace, pass: Pass) -> Result<Left> {
        loop {
            let (events, has_more) = self.sal.events(bucket, place, EventState::Waiting, None, PAGE).await?;
            // The rule may have come back since the pass began. Events that are stored from now on
            // are not in this page.
            let now = self.sal.bucket(&bucket.name).await?;
            if now.id != bucket.id || EventRules::of_bucket(&now.attributes)?.has_queue(&place.queue) {
                return Ok(Left::More);
            }
            let done = events.iter().map(|event| event.number).collect();
            self.sal.settle(bucket, place, &Settle { done, ..Settle::default() }).await?;
            if !has_more {
                return Ok(Left::Empty);
            }
            if self.is_over(pass) {
                return Ok(Left::More);
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
        if let Some(rule) = rules.on_put().rule_of_queue(queue) {
            return Ok(Some(Sink::Method(rule)));
        }
        let full_name = queue.strip_prefix(TARGET_QUEUE).filter(|_| rules.has_queue(queue));
        let Some((full_name, (account, name))) =
            full_name.and_then(|full| Some((full, full.split_once('/')?)))
        else {
            return Ok(None);
        };
        let target = self.identities.event_target(account, name).await?;
        let arn = target_arn(TOPIC, &self.region, account, name);
        let now_ms = self.environment.unix_ms();
        // The policy of the topic may have changed since the rule was set.
        let source = (bucket.name.as_str(), bucket.owner.as_str());
        if account != bucket.owner && !topic::permits(&target, (account, &arn), source, now_ms) {
            let message = "the target belongs to another account, and has no policy that allows sns:Publish";
            return Err(Error::permission_denied(message));
        }
        let invalid = |message| Error::invalid_argument(message);
        if let Some(attributes) = &target.topic
            && self.topic_endpoints.endpoint(attributes).map_err(invalid)?.is_none()
        {
            return Ok(Some(Sink::Nowhere));
        }
        if let Some(broker) = &target.broker {
            let create = || {
                let password = self.identities.secret_of_target(account, name, &target)?;
                let (password, ca) = (password.as_deref(), target.ca.as_deref());
                let random = Arc::clone(&self.environment.random);
                Broker::new(&target.url, broker, password, ca, random).map_err(invalid)
            };
            let broker = self.brokers.get((full_name, &target), self.monotonic_ms(), create)?;
            return Ok(Some(Sink::Broker(broker)));
        }
        let sender = match self.senders.take(full_name, &target) {
            Some(sender) => sender,
            None => {
                let token = self.identities.secret_of_target(account, name, &target)?;
                let webhook = Webhook::new(&target.url, token.as_deref(), target.ca.as_deref());
                webhook.map_err(invalid)?.sender()
            }
        };
        Ok(Some(Sink::Webhook(Box::new(Connected { name: full_name.to_owned(), target, sender }))))
    }

    async fn deliver_event(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        sink: &mut Sink<'_>,
        event: &Event,
        pass: Pass,
    ) -> std::result::Result<(), Failure> {
        let body = || Bytes::from(record::message(bucket, event, &self.region).to_string());
        match sink {
            Sink::Webhook(connected) => connected.sender.send(body()).await,
            Sink::Broker(broker) => {
                let key = format!("{}/{}", bucket.name, event.key);
                let time_ms = self.environment.unix_ms();
                broker.send(&Message { key, body: body(), time_ms }).await
            }
            Sink::Method(rule) => self.run_method(bucket, rules, rule, event, pass).await,
            Sink::Nowhere => Ok(()),
        }
    }

    /// Runs the method of a rule on an object, and writes the result.
    async fn run_method(
        &self,
        bucket: &Bucket,
        rules: &EventRules,
        rule: &OnPutRule,
        event: &Event,
        pass: Pass,
    ) -> std::result::Result<(), Failure> {
        // A newer version has its own event. An older one must not replace its result. An append
        // keeps the write of the version, but its event has the write of the append: the entity
        // tag, which the append sets, tells whether the data are those of the event.
        let is_of_event = |object: &Object| object.write == event.write || object.etag == event.etag;
        let object = match self.sal.object(bucket, &event.key, None).await {
            Ok(object) if is_of_event(&object) && !object.marker => object,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failure(&error)),
        };
        if object.is_encrypted() || gateway::has_default_encryption(&bucket.attributes) {
            let message =
                "on-put rules with a result do not run on encrypted objects or in encrypted buckets";
            return Err(Failure::Refused(message.to_owned()));
        }
        let data = ObjectData { sal: self.sal.as_ref(), bucket, object: &object, data_key: None };
        let (result, ran_at) = self.code.run(rule.call(), data).await.map_err(|error| failure(&error))?;
        self.metrics.method(ran_at);
        let Then::Object { key, content_type } = &rule.then else { return Ok(()) };
        if result.is_empty() {
            return Ok(());
        }
        if self.monotonic_ms() >= pass.results_until_ms {
            return Err(Failure::Later);
        }
        let key = key.replace(KEY_VARIABLE, &event.key);
        let written = self.write_result(bucket, rules, rule, (&key, content_type.as_deref()), result).await;
        written.map_err(|error| match error.reason() {
            // A full quota or store may become free.
            Some(_) => Failure::Unavailable(error.to_string()),
            None => failure(&error),
        })
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
        let mut writer = self.sal.write(bucket, key, None, Some(data.len() as u64), None, None).await?;
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

    fn note_failures(
        &self,
        bucket: &Bucket,
        queue: &str,
        state: &mut DeliveryState,
        left: &[(QueuePlace, Left)],
    ) {
        let mut has_success = false;
        for (place, left) in left {
            match left {
                Left::Untried => {}
                Left::Empty | Left::More => {
                    self.backoff.end(bucket.id, place);
                    has_success = true;
                }
                Left::Failed(reason) => {
                    self.backoff.extend(bucket.id, place, self.monotonic_ms());
                    let known = state.failure.as_ref();
                    let since_ms = known.map_or(self.environment.unix_ms(), |known| known.since_ms);
                    state.failure = Some(LastFailure { reason: reason.clone(), since_ms });
                }
            }
        }
        if has_success && self.backoff.next_ms(bucket.id, queue).is_none() {
            state.failure = None;
        }
    }
}

impl Backoff {
    fn until_ms(&self, bucket: Id, place: &QueuePlace) -> Option<u64> {
        self.0.lock().get(&(bucket, place.clone())).map(|(until_ms, _)| *until_ms)
    }

    /// When the first place of a queue is due again.
    fn next_ms(&self, bucket: Id, queue: &str) -> Option<u64> {
        let delays = self.0.lock();
        let of_queue = delays.iter().filter(|((of, place), _)| *of == bucket && place.queue == queue);
        of_queue.map(|(_, (until_ms, _))| *until_ms).min()
    }

    fn extend(&self, bucket: Id, place: &QueuePlace, now_ms: u64) {
        let mut delays = self.0.lock();
        let (until_ms, delay_ms) = delays.entry((bucket, place.clone())).or_insert((0, 0));
        *delay_ms = (*delay_ms * 2).clamp(BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
        *until_ms = now_ms.saturating_add(*delay_ms);
    }

    fn end(&self, bucket: Id, place: &QueuePlace) {
        self.0.lock().remove(&(bucket, place.clone()));
    }

    /// Forgets the places of a bucket where no event waits.
    fn forget_empty(&self, bucket: Id, queues: &[(QueuePlace, QueueState)]) {
        let waiting: BTreeSet<&QueuePlace> =
            queues.iter().filter(|(_, state)| state.waiting > 0).map(|(place, _)| place).collect();
        self.0.lock().retain(|(of, place), _| *of != bucket || waiting.contains(place));
    }
}

impl Senders {
    /// Forgets the connections that nobody has used for some time, also those to targets that were
    /// removed.
    fn forget_idle(&self, now_ms: u64) {
        self.0.lock().retain(|_, idle| now_ms.saturating_sub(idle.used_ms) < IDLE_MS);
    }

    /// An idle connection to a target, if it has not changed.
    fn take(&self, name: &str, target: &EventTarget) -> Option<Sender> {
        let mut known = self.0.lock();
        let idle = known.get_mut(name)?;
        if idle.target == *target {
            return idle.senders.pop();
        }
        known.remove(name);
        None
    }

    /// Keeps a connection, unless there are too many.
    fn keep(&self, Connected { name, target, sender }: Connected, now_ms: u64) {
        let mut known = self.0.lock();
        if known.len() >= KEPT_MAX && !known.contains_key(&name) {
            return;
        }
        let new = || Idle { target: target.clone(), senders: Vec::new(), used_ms: now_ms };
        let idle = known.entry(name).or_insert_with(new);
        if idle.target == target && idle.senders.len() < PLACES_IN_FLIGHT {
            idle.senders.push(sender);
            idle.used_ms = now_ms;
        }
    }
}

/// Whether an error of a method or of the store is worth another attempt.
fn failure(error: &Error) -> Failure {
    match error.kind() {
        ErrorKind::Busy => Failure::Later,
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Conflict => {
            Failure::Unavailable(error.to_string())
        }
        _ => Failure::Refused(error.message().to_owned()),
    }
}

/// A reason to store. Parts of it may be from the target.
fn shorten(reason: String) -> String {
    let mut reason = no_control(&reason);
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.truncate(end);
    reason
}

#[cfg(test)]
#[path = "deliver_tests.rs"]
mod tests;
