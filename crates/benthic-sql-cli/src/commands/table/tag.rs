//! `benthic table tag`: names snapshots.

use super::{SnapshotName, TableAddress, line};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_table::SnapshotSelector;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table tag`.
#[derive(Args)]
#[command(after_help = "\
`benthic table vacuum` keeps snapshots with tags. Queries read one with FOR VERSION AS OF 'TAG'. Without NAME, the \
command lists the tags, one per line: the snapshot and the name.

Examples:
  benthic table tag lake/trips release-1
  benthic table tag lake/trips release-1 --snapshot 7
  benthic table tag lake/trips
  benthic table tag lake/trips release-1 --delete
  benthic sql \"SELECT count(*) FROM lake.trips FOR VERSION AS OF 'release-1'\"")]
pub struct TagArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// The tag; an existing one moves to the snapshot
    name: Option<String>,
    /// The snapshot: its number or a tag; by default the newest
    #[arg(long, value_name = "SNAPSHOT", requires = "name", conflicts_with = "delete")]
    snapshot: Option<SnapshotName>,
    /// Remove the tag; its snapshot stays until it is vacuumed
    #[arg(long, requires = "name")]
    delete: bool,
}

pub async fn run(args: TagArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let fields = |name: &str, snapshot: Option<u64>| {
        let mut fields = args.table.fields();
        fields.insert("tag".to_owned(), json!(name));
        fields.insert("snapshot".to_owned(), json!(snapshot));
        Value::Object(fields)
    };
    let Some(name) = &args.name else {
        for (name, snapshot) in table.tags().await? {
            session.out.result(format!("{snapshot:>6} {}", line(&name)), || fields(&name, Some(snapshot)))?;
        }
        return Ok(());
    };
    if args.delete {
        table.untag(name).await?;
        return session
            .out
            .result(format!("{} has no tag {} any more", line(&args.table), line(name)), || {
                fields(name, None)
            });
    }
    let at = args.snapshot.as_ref().map_or(SnapshotSelector::Current, SnapshotName::selector);
    let id = table.tag(name, at).await?;
    session
        .out
        .result(format!("{}: snapshot {id} is {}", line(&args.table), line(name)), || fields(name, Some(id)))
}
