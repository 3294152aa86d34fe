//! `benthic s3 lifecycle`: applies the lifecycle rules of buckets, and shows the last run. A
//! gateway runs the same code once an hour.

use super::{GatewayPools, all_buckets, time};
use benthic_core::{Environment, Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units::count;
use benthic_s3::PoolSal;
use benthic_s3::identity::Identities;
use benthic_s3::lease;
use benthic_s3::lifecycle::{self, Calendar, Lifecycle, RunResult, RunStats, Task};
use benthic_s3::sal::{Bucket, Buckets, RecordKind};
use clap::Subcommand;
use serde_json::{Value, json};
use std::time::Duration;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 lifecycle status\n  benthic s3 lifecycle run photos";

/// The verbs of `benthic s3 lifecycle`.
#[derive(Subcommand)]
pub enum LifecycleCommand {
    /// Show the last run of the rules of each bucket, and a run that is not finished
    #[command(after_help = "Example:\n  benthic s3 lifecycle status")]
    Status {
        /// Only this bucket
        bucket: Option<String>,
    },
    /// Apply the rules now; every gateway does this once an hour
    #[command(
        after_help = "A bucket at which a gateway works is skipped. An interrupted run continues where it stopped.\n\n\
        Examples:\n  benthic s3 lifecycle run\n  benthic s3 lifecycle run photos"
    )]
    Run {
        /// Only this bucket
        bucket: Option<String>,
    },
}

/// Applies the rules of all buckets whose last run is older than `every`. The failure of one bucket
/// does not stop the others.
pub async fn run_due(
    sal: &PoolSal,
    identities: &Identities,
    calendar: Calendar,
    every: Duration,
) -> Result<()> {
    let environment = Environment::default();
    let lifecycle = Lifecycle { sal, environment: &environment, calendar };
    let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
    let mut failure = None;
    for bucket in all_buckets(sal, identities, None).await? {
        if !bucket.attributes.contains_key(lifecycle::ATTRIBUTE) {
            continue;
        }
        let done = async {
            let last_ms = lifecycle::task(sal, &bucket).await?.and_then(|task| task.finished_ms);
            // Half of the time, so that two gateways do not both skip a turn. A time in the future
            // comes from a wrong clock.
            let now_ms = environment.unix_ms();
            let is_recent = |last_ms| (now_ms.saturating_sub(every_ms / 2) + 1..=now_ms).contains(&last_ms);
            if !last_ms.is_some_and(is_recent) {
                let done = lifecycle.run(&bucket).await?;
                tracing::debug!(bucket = bucket.name, ?done, "applied lifecycle rules");
            }
            Ok(())
        };
        if let Err(error) = done.await {
            failure.get_or_insert(Error::with(error, "bucket", &bucket.name));
        }
    }
    lease::forget_removed(sal, RecordKind::Task).await?;
    failure.map_or(Ok(()), Err)
}

/// The buckets with rules, or the named one, which must have rules.
async fn selected_buckets(sal: &PoolSal, pools: &GatewayPools, name: Option<&str>) -> Result<Vec<Bucket>> {
    let has_rules = |bucket: &Bucket| bucket.attributes.contains_key(lifecycle::ATTRIBUTE);
    let Some(name) = name else {
        let mut all = all_buckets(sal, &pools.identities(sal), None).await?;
        all.retain(has_rules);
        return Ok(all);
    };
    let bucket = sal.bucket(name).await?;
    if has_rules(&bucket) {
        return Ok(vec![bucket]);
    }
    let message =
        "the bucket has no lifecycle rules; `aws s3api put-bucket-lifecycle-configuration` sets them";
    Err(Error::not_found(message).with("bucket", name))
}

pub async fn run(command: LifecycleCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let sal = pools.open(session, false).await?;
    match command {
        LifecycleCommand::Status { bucket } => {
            for bucket in selected_buckets(&sal, pools, bucket.as_deref()).await? {
                let task = lifecycle::task(&sal, &bucket).await?.unwrap_or_default();
                session.out.result(status(&bucket, &task), || status_json(&bucket, &task))?;
            }
        }
        LifecycleCommand::Run { bucket } => {
            let environment = Environment::default();
            let lifecycle = Lifecycle { sal: &sal, environment: &environment, calendar: Calendar::default() };
            for bucket in selected_buckets(&sal, pools, bucket.as_deref()).await? {
                let name = &bucket.name;
                match lifecycle.run(&bucket).await? {
                    RunResult::Finished(stats) => session.out.result(
                        format!("{name}: {}", summary(&stats)),
                        || json!({ "bucket": name, "done": stats }),
                    )?,
                    RunResult::Held => session.out.result(
                        format!("{name}: a gateway is applying the rules"),
                        || json!({ "bucket": name, "done": null }),
                    )?,
                    // The rules were removed meanwhile.
                    RunResult::NoRules => {}
                }
            }
        }
    }
    Ok(())
}

fn summary(stats: &RunStats) -> String {
    let RunStats { versions, expired, removed, moved, aborted_uploads, locked, failed } = *stats;
    let mut text = format!(
        "{} looked at, {} expired, {removed} removed, {} aborted",
        count(versions, "version"),
        count(expired, "object"),
        count(aborted_uploads, "upload"),
    );
    if moved > 0 {
        text += &format!(", {moved} moved to another storage class");
    }
    if locked > 0 {
        text += &format!(", {locked} kept because of locks");
    }
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    text
}

fn status(bucket: &Bucket, task: &Task) -> String {
    let last = match task.finished_ms {
        Some(finished_ms) => format!("last run {}: {}", time(finished_ms), summary(&task.finished)),
        None => "no run has finished".to_owned(),
    };
    let now =
        task.began_ms.map(|began_ms| format!("; a run began {}: {}", time(began_ms), summary(&task.stats)));
    format!("{}: {last}{}", bucket.name, now.unwrap_or_default())
}

fn status_json(bucket: &Bucket, task: &Task) -> Value {
    json!({
        "bucket": bucket.name,
        "finished_ms": task.finished_ms,
        "finished": task.finished_ms.map(|_| task.finished),
        "began_ms": task.began_ms,
        "running": task.began_ms.map(|_| task.stats),
    })
}
