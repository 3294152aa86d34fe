//! `benthic s3 events`: shows the events that wait or could not be delivered, and retries or
//! removes the latter.

use super::event_targets::{self, TargetCommand};
use super::{GatewayPools, all_buckets, time};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units::count;
use benthic_s3::PoolSal;
use benthic_s3::events::EventRules;
use benthic_s3::events::deliver::{self, DeliveryState};
use benthic_s3::sal::{Bucket, Buckets, Event, EventState, Events, QueuePlace, QueueState, Settle};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const EXAMPLES: &str = "A target is a web server or a message broker that the gateway tells of new and removed objects:
  benthic s3 events target create lab/indexer --webhook https://indexer.example/s3
  benthic s3 events target create lab/audit --kafka kafka1.example:9092 --topic s3-events
  aws s3api put-bucket-notification-configuration --bucket photos --notification-configuration \\
    '{\"TopicConfigurations\": [{\"TopicArn\": \"arn:aws:sns:us-east-1:lab:indexer\", \"Events\": [\"s3:ObjectCreated:*\"]}]}'

Examples:
  benthic s3 events status
  benthic s3 events retry photos";

/// Events per page that is read from the store.
const PAGE: usize = 500;

/// The verbs of `benthic s3 events`.
#[derive(Subcommand)]
pub enum EventsCommand {
    /// Administer targets of events
    #[command(subcommand, after_help = event_targets::EXAMPLES)]
    Target(TargetCommand),
    /// Show how many events wait, and which were not delivered
    #[command(
        after_help = "Events become dead if their target refuses them (status 4xx), if a method fails, or if they have waited too long \
        (`benthic s3 serve --events-keep`). Above 10,000 dead events in an index shard, the oldest are lost. Queues are named target/ACCOUNT/NAME and on-put/RULE.\n\n\
        Examples:\n  benthic s3 events status\n  benthic s3 events status photos --dead"
    )]
    Status {
        /// Only this bucket
        bucket: Option<String>,
        /// List the dead events with their reasons
        #[arg(long)]
        dead: bool,
    },
    /// Deliver dead events again
    #[command(after_help = "Examples:\n  benthic s3 events retry photos\n  \
        benthic s3 events retry photos --queue target/lab/indexer")]
    Retry(DeadArgs),
    /// Remove dead events
    #[command(after_help = "Example:\n  benthic s3 events rm photos")]
    Rm(DeadArgs),
}

/// Which dead events.
#[derive(Args)]
pub struct DeadArgs {
    /// The bucket
    bucket: String,
    /// Only those of this queue, as `status` names it
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

pub async fn run(command: EventsCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let sal = pools.open(session, false).await?;
    match command {
        EventsCommand::Target(command) => event_targets::run(command, pools, &sal, session).await,
        EventsCommand::Status { bucket, dead } => {
            for bucket in selected_buckets(&sal, pools, bucket.as_deref()).await? {
                status(&sal, &bucket, dead, session).await?;
            }
            Ok(())
        }
        EventsCommand::Retry(args) => {
            let rules = EventRules::of_bucket(&sal.bucket(&args.bucket).await?.attributes)?;
            let revive = |numbers| Settle { revived: numbers, ..Settle::default() };
            let moved = move_dead(&sal, &args, |queue| rules.has_queue(queue), revive).await?;
            let text = format!("{} of {} will be delivered again", count(moved, "event"), args.bucket);
            session.out.result(text, || json!({ "bucket": args.bucket, "events": moved }))
        }
        EventsCommand::Rm(args) => {
            let remove = |done| Settle { done, ..Settle::default() };
            let moved = move_dead(&sal, &args, |_| true, remove).await?;
            let text = format!("removed {} of {}", count(moved, "event"), args.bucket);
            session.out.result(text, || json!({ "bucket": args.bucket, "events": moved }))
        }
    }
}

/// The buckets with rules for events, or the named one.
async fn selected_buckets(sal: &PoolSal, pools: &GatewayPools, name: Option<&str>) -> Result<Vec<Bucket>> {
    if let Some(name) = name {
        return Ok(vec![sal.bucket(name).await?]);
    }
    let mut all = all_buckets(sal, &pools.identities(sal), None).await?;
    all.retain(|bucket| EventRules::exist(&bucket.attributes));
    Ok(all)
}

/// The events of a queue in all places of its bucket.
#[derive(Default)]
struct Total {
    state: QueueState,
    places: Vec<QueuePlace>,
}

async fn totals(sal: &PoolSal, bucket: &Bucket) -> Result<BTreeMap<String, Total>> {
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    for (place, QueueState { waiting, dead, lost }) in sal.queues(bucket).await? {
        let total = totals.entry(place.queue.clone()).or_default();
        total.state.waiting += waiting;
        total.state.dead += dead;
        total.state.lost += lost;
        total.places.push(place);
    }
    Ok(totals)
}

async fn status(sal: &PoolSal, bucket: &Bucket, lists_dead: bool, session: &Session) -> Outcome {
    let totals = totals(sal, bucket).await?;
    if totals.is_empty() {
        let text = format!("{}: no event yet", bucket.name);
        return session.out.result(text, || json!({ "bucket": bucket.name, "queue": null }));
    }
    for (queue, Total { state, places }) in totals {
        let delivery = deliver::state(sal, bucket, &queue).await?;
        session.out.result(status_line(bucket, &queue, state, &delivery), || {
            status_json(bucket, &queue, state, &delivery)
        })?;
        if !lists_dead {
            continue;
        }
        for place in &places {
            let mut after = None;
            loop {
                let (events, more) = sal.events(bucket, place, EventState::Dead, after, PAGE).await?;
                for event in &events {
                    session.out.result(dead_line(event), || dead_json(bucket, &queue, event))?;
                }
                after = events.last().map(|event| event.number);
                if !more {
                    break;
                }
            }
        }
    }
    Ok(())
}

fn status_line(bucket: &Bucket, queue: &str, state: QueueState, delivery: &DeliveryState) -> String {
    let QueueState { waiting, dead, lost } = state;
    let mut text = format!("{}  {queue}  {waiting} waiting, {dead} dead, {lost} lost", bucket.name);
    if let Some(failure) = &delivery.failure {
        text += &format!("; failing since {}: {}", time(failure.since_ms), failure.reason);
    }
    text
}

fn status_json(bucket: &Bucket, queue: &str, state: QueueState, delivery: &DeliveryState) -> Value {
    let QueueState { waiting, dead, lost } = state;
    let failure = delivery.failure.as_ref();
    json!({
        "bucket": bucket.name,
        "queue": queue,
        "waiting": waiting,
        "dead": dead,
        "lost": lost,
        "failing_since_ms": failure.map(|failure| failure.since_ms),
        "failure": failure.map(|failure| failure.reason.as_str()),
    })
}

fn dead_line(event: &Event) -> String {
    format!("  {}  {}  {}  {}", time(event.time_ms), event.name, event.key, event.reason)
}

fn dead_json(bucket: &Bucket, queue: &str, event: &Event) -> Value {
    json!({
        "bucket": bucket.name,
        "queue": queue,
        "event": event.name,
        "key": event.key,
        "version": event.version.to_string(),
        "time_ms": event.time_ms,
        "reason": event.reason,
    })
}

/// Moves the dead events of a bucket, and returns their number.
async fn move_dead(
    sal: &PoolSal,
    args: &DeadArgs,
    is_possible: impl Fn(&str) -> bool,
    settle: impl Fn(Vec<u64>) -> Settle,
) -> Result<u64> {
    let bucket = sal.bucket(&args.bucket).await?;
    let mut totals = totals(sal, &bucket).await?;
    if let Some(queue) = &args.queue {
        if !totals.contains_key(queue) {
            let message = "the bucket has no such queue; `benthic s3 events status` lists its queues";
            return Err(Error::not_found(message).with("queue", queue));
        }
        if !is_possible(queue) {
            let message =
                "no rule of the bucket asks for these events any more; `benthic s3 events rm` removes them";
            return Err(Error::conflict(message).with("queue", queue));
        }
        totals.retain(|name, _| name == queue);
    }
    totals.retain(|name, _| is_possible(name));
    let mut moved = 0;
    for place in totals.values().flat_map(|total| &total.places) {
        let mut after = None;
        loop {
            let (events, more) = sal.events(&bucket, place, EventState::Dead, after, PAGE).await?;
            let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
            after = numbers.last().copied();
            moved += numbers.len() as u64;
            if !numbers.is_empty() {
                sal.settle(&bucket, place, &settle(numbers)).await?;
            }
            if !more {
                break;
            }
        }
    }
    Ok(moved)
}
