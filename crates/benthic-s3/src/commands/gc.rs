//! `benthic s3 gc`.

use super::Place;
use benthic_cli::exit::Outcome;
use benthic_cli::store::Session;
use benthic_cli::units::count;
use benthic_s3::sal::Garbage;
use clap::Subcommand;
use serde_json::json;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 gc status\n  benthic s3 gc run";

/// The verbs of `benthic s3 gc`.
#[derive(Subcommand)]
pub enum GcCommand {
    /// Show what waits to be collected
    #[command(after_help = "Data that were replaced or deleted may be read for an hour more.\n\n\
        Example:\n  benthic s3 gc status")]
    Status,
    /// Collect what may be collected now; every gateway does so once a minute
    #[command(after_help = "Example:\n  benthic s3 gc run")]
    Run,
}

pub async fn run(command: GcCommand, place: &Place, session: &Session) -> Outcome {
    let sal = place.open(session, false).await?;
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
        GcCommand::Run => {
            let done = sal.collect().await?;
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
