//! `benthic table fsck`: verifies a whole table, and rebuilds damaged indexes.

use super::index::watch;
use super::{TableAddress, count, describe_size, line};
use benthic_core::Error;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::{FsckResult, SnapshotSelector};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table fsck`.
#[derive(Args)]
#[command(after_help = "\
Reads every list and data object of the newest snapshot in full. Checks that all objects exist, that their rows, bounds \
and nulls match the lists, and that indexes match their columns. Prints all findings, and the exit status is then 12. \
--repair rebuilds damaged parts of indexes; all other data have no second copy.

Examples:
  benthic table fsck lake/trips
  benthic table fsck lake/trips --repair")]
pub struct FsckArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Rebuild damaged parts of indexes
    #[arg(long)]
    repair: bool,
}

pub async fn run(args: FsckArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    let (mut findings, mut repaired, mut unindexed) = (Vec::new(), 0, 0);
    let add = |checked: FsckResult| {
        findings.extend(checked.findings);
        repaired += checked.repaired;
        unindexed += checked.unindexed;
        checked.bytes
    };
    watch(&format!("checking {}", args.table), &snapshot, snapshot.fsck(args.repair), add).await?;
    for finding in &findings {
        session.out.note(units::no_control(&finding.to_string()))?;
    }
    let mut text = format!(
        "{}: {}, {}",
        line(&args.table),
        describe_size(&snapshot),
        count(findings.len() as u64, "finding")
    );
    if repaired > 0 {
        text += &format!(", {} rebuilt", count(repaired as u64, "index part"));
    }
    if unindexed > 0 {
        text += &format!(", {} not built yet", count(unindexed as u64, "index part"));
    }
    session.out.result(text, || {
        let mut fields = args.table.size_fields(&snapshot);
        fields.insert("findings".to_owned(), findings.iter().map(finding).collect());
        fields.insert("parts_repaired".to_owned(), json!(repaired));
        fields.insert("parts_missing".to_owned(), json!(unindexed));
        Value::Object(fields)
    })?;
    if findings.len() == repaired {
        return Ok(());
    }
    let message = match args.repair {
        true => "the table is damaged; load the data of the objects above again",
        false => {
            "the table is damaged; --repair rebuilds indexes; load the data of the other objects above again"
        }
    };
    let left = findings.len() - repaired;
    Err(Error::corrupt(message).with("table", &args.table).with("findings", left).into())
}

fn finding(error: &Error) -> Value {
    let object = error.context().find(|(key, _)| *key == "object").map(|(_, value)| value.to_string());
    json!({ "object": object, "message": error.to_string() })
}
