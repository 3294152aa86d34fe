//! `benthic table history`: lists the snapshots of a table.

use super::{TableAddress, time, with_separators};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table history`.
#[derive(Args)]
#[command(
    after_help = "Prints one line per snapshot, oldest first: id, time, operation, rows, objects, size. Snapshots stay until \
    `benthic table vacuum` removes them.\n\n\
    Example:\n  benthic table history lake/trips"
)]
pub struct HistoryArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
}

pub async fn run(args: HistoryArgs, session: &Session) -> Outcome {
    for snapshot in args.table.open(session).await?.history().await? {
        let text = format!(
            "{:>6} {} {:<8} {:>15} {:>9} {:>11}",
            snapshot.id(),
            time(snapshot.time_ms()),
            snapshot.operation().name(),
            with_separators(snapshot.rows()),
            with_separators(snapshot.objects()),
            units::size(snapshot.data_bytes())
        );
        session.out.result(text, || {
            let mut fields = args.table.size_fields(&snapshot);
            fields.insert("operation".to_owned(), json!(snapshot.operation().name()));
            fields.insert("time_unix_ms".to_owned(), json!(snapshot.time_ms()));
            Value::Object(fields)
        })?;
    }
    Ok(())
}
