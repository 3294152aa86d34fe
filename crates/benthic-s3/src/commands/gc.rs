//! `benthic s3 gc`.

use super::GatewayPools;
use benthic_core::{Clock, Environment, Result, SystemClock};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units::count;
use benthic_s3::sal::{CollectionStats, Garbage};
use benthic_s3::{Options, PoolSal};
use clap::Subcommand;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 gc status\n  benthic s3 gc run";

/// Maximum number of collections per command. The data that a copy of a copy refers to become free
/// two collections after its last reference.
const COLLECTIONS_MAX: usize = 8;

/// The verbs of `benthic s3 gc`.
#[derive(Subcommand)]
pub enum GcCommand {
    /// Show what waits to be collected
    #[command(after_help = "Data that were replaced or deleted may be read for an hour more.\n\n\
        Example:\n  benthic s3 gc status")]
    Status,
    /// Collect what may be collected now; every gateway does so once a minute
    #[command(after_help = "Examples:\n  benthic s3 gc run\n  benthic s3 gc run --all")]
    Run {
        /// What is not due yet too, when the space is needed at once: of requests that run now, writes and reads may fail
        #[arg(long)]
        all: bool,
    },
}

/// A clock that is ahead, so that everything that waits is due.
struct Later {
    clock: SystemClock,
    by_ms: u64,
}

impl Clock for Later {
    fn unix_ns(&self) -> u64 {
        self.clock.unix_ns().saturating_add(self.by_ms.saturating_mul(1_000_000))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// Options of a driver without a grace period, whose clock is ahead by all retention times.
fn impatient() -> Options {
    let options = Options::default();
    let by_ms = options.lease_ms + options.grace_ms + options.outcome_ms;
    let clock = Arc::new(Later { clock: SystemClock, by_ms });
    Options { grace_ms: 0, environment: Environment { clock, ..options.environment }, ..options }
}

/// Repeats the collection until there is nothing left to do, at most [`COLLECTIONS_MAX`] times.
async fn collect_all(sal: &PoolSal) -> Result<CollectionStats> {
    let mut done = CollectionStats::default();
    for _ in 0..COLLECTIONS_MAX {
        let more = sal.collect().await?;
        if more == CollectionStats::default() {
            break;
        }
        done.expired_writes += more.expired_writes;
        done.forgotten_outcomes += more.forgotten_outcomes;
        done.entries += more.entries;
        done.data_objects += more.data_objects;
        done.buckets += more.buckets;
    }
    Ok(done)
}

pub async fn run(command: GcCommand, place: &GatewayPools, session: &Session) -> Outcome {
    let options = match command {
        GcCommand::Run { all: true } => impatient(),
        _ => Options::default(),
    };
    let sal = place.open_with(session, false, options).await?;
    match command {
        GcCommand::Status => {
            let pending = sal.pending().await?;
            let text = format!(
                "{} of garbage, {} due; {} begun, {} remembered, {} without a name",
                count(pending.entries, "item"),
                pending.due_entries,
                count(pending.writes, "write"),
                count(pending.outcomes, "outcome"),
                count(pending.buckets, "bucket"),
            );
            session.out.result(text, || {
                json!({
                    "entries": pending.entries,
                    "due_entries": pending.due_entries,
                    "writes": pending.writes,
                    "outcomes": pending.outcomes,
                    "buckets": pending.buckets,
                })
            })
        }
        GcCommand::Run { all } => {
            let done = if all { collect_all(&sal).await? } else { sal.collect().await? };
            let text = format!(
                "removed {} of {}, gave up {}, forgot {}, cleared {}",
                count(done.data_objects, "data object"),
                count(done.entries, "item"),
                count(done.expired_writes, "write"),
                count(done.forgotten_outcomes, "outcome"),
                count(done.buckets, "bucket"),
            );
            session.out.result(text, || {
                json!({
                    "data_objects": done.data_objects,
                    "entries": done.entries,
                    "expired_writes": done.expired_writes,
                    "forgotten_outcomes": done.forgotten_outcomes,
                    "buckets": done.buckets,
                })
            })
        }
    }
}
