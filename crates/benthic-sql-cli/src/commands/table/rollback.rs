//! `benthic table rollback`: returns a table to an earlier snapshot.

use super::{SnapshotName, TableAddress, describe_size, line};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table rollback`.
#[derive(Args)]
#[command(after_help = "\
Adds a snapshot with the rows and columns of an earlier one. Nothing is removed: the snapshots in between stay until \
`benthic table vacuum` removes them, so that a rollback can be rolled back.

Examples:
  benthic table history lake/trips
  benthic table rollback lake/trips 7
  benthic table rollback lake/trips release-1")]
pub struct RollbackArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// The snapshot: its number or a tag
    snapshot: SnapshotName,
}

pub async fn run(args: RollbackArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let snapshot = table.rollback(args.snapshot.selector()).await?;
    let text =
        format!("{} is as it was in {}: {}", line(&args.table), args.snapshot, describe_size(&snapshot));
    session.out.result(text, || {
        let mut fields = args.table.size_fields(&snapshot);
        fields.insert("rolled_back_to".to_owned(), json!(args.snapshot.to_string()));
        Value::Object(fields)
    })
}
