//! `benthic s3 gc`: shows the garbage of deleted objects, and collects it.

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
    /// Show the garbage that is not collected yet
    #[command(after_help = "Replaced and deleted data stay readable for an hour.\n\n\
        Example:\n  benthic s3 gc status")]
    Status,
    /// Collect the garbage that is due; every gateway does this once a minute
    #[command(after_help = "Examples:\n  benthic s3 gc run\n  benthic s3 gc run --all")]
    Run {
        /// Also collect garbage that is not due yet, to free space at once; running reads and
        /// writes may fail
        #[arg(long)]
        all: bool,
    },
}

/// A clock that is ahead, so that everything that waits is due.
struct ShiftedClock {
    clock: SystemClock,
    by_ms: u64,
}

impl Clock for ShiftedClock {
    fn unix_ns(&self) -> u64 {
        self.clock.unix_ns().saturating_add(self.by_ms.saturating_mul(1_000_000))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// Options of a driver without a grace period, whose clock is ahead by all retention times.
fn options_without_retention() -> Options {
    let options = Options::default();
    let by_ms = options.lease_ms + options.grace_ms + options.outcome_ms;
    let clock = Arc::new(ShiftedClock { clock: SystemClock, by_ms });
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

pub async fn run(command: GcCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let options = match command {
        GcCommand::Run { all: true } => options_without_retention(),
        _ => Options::default(),
    };
    let sal = pools.open_with(session, false, options).await?;
    match command {
        GcCommand::Status => {
            let pending = sal.pending().await?;
            let text = format!(
                "{} of garbage, {} due; {} in progress, {} kept for retries, {} to remove",
                count(pending.entries, "item"),
                pending.due_entries,
                count(pending.writes, "write"),
                count(pending.outcomes, "outcome"),
                count(pending.buckets, "bucket"),
            );
            session.out.result(text, || json!(pending))
        }
        GcCommand::Run { all } => {
            let done = if all { collect_all(&sal).await? } else { sal.collect().await? };
            let text = format!(
                "removed {} of {}, abandoned {}, dropped {}, removed {}",
                count(done.data_objects, "data object"),
                count(done.entries, "item"),
                count(done.expired_writes, "write"),
                count(done.forgotten_outcomes, "outcome"),
                count(done.buckets, "bucket"),
            );
            session.out.result(text, || json!(done))
        }
    }
}
