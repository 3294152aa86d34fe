//! `benthic table compact`: writes small objects, and objects with deleted rows, again as fewer
//! whole ones.

use super::rewriting::{Done, LimitArgs, rewrite_groups};
use super::{TableAddress, count, line};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::SnapshotSelector;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table compact`.
#[derive(Args)]
#[command(after_help = "\
Chooses objects with deleted rows, and objects below half of the table's object size if fewer can be made of them. \
Commits about 1 GiB at a time: an interrupted compaction keeps what it has committed, and the next one continues. \
Queries and appends run meanwhile. `benthic table vacuum` removes the old objects.

Examples:
  benthic table compact lake/trips
  benthic table compact lake/trips --all --rate 50MiB")]
pub struct CompactArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Write all objects again
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

pub async fn run(args: CompactArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let start = table.snapshot(SnapshotSelector::Current).await?;
    let groups = start.to_compact(args.all, &args.limits.options()).await?;
    let mut done = Done::default();
    rewrite_groups(&table, &groups, &format!("compacting {}", args.table), &args.limits, &mut done).await?;
    done.warn(session);
    if done.conflicts > 0 {
        let message = "other changes of the table prevented a part of the compaction; run the command again";
        session.out.warning(message);
    }
    let end = table.snapshot(SnapshotSelector::Current).await?;
    let text = format!(
        "{}: {}, {} were written again; {} now, {}",
        line(&args.table),
        count(done.objects, "object"),
        units::size(done.bytes),
        count(end.objects(), "object"),
        units::size(end.data_bytes()),
    );
    session.out.result(text, || {
        let mut fields = args.table.size_fields(&end);
        fields.insert("objects_rewritten".to_owned(), json!(done.objects));
        fields.insert("size_bytes_rewritten".to_owned(), json!(done.bytes));
        fields.insert("commits".to_owned(), json!(done.commits));
        Value::Object(fields)
    })
}
