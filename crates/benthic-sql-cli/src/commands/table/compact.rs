//! `benthic table compact`: writes small objects, and objects with deleted rows, again as fewer
//! whole ones.

use super::{TableAddress, count, line};
use benthic_core::ErrorKind;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::{FileEntry, Operation, Snapshot, SnapshotSelector, Table, Writer, WriterOptions};
use clap::Args;
use futures::TryStreamExt;
use serde_json::{Value, json};

/// Attempts at one group. Each failed attempt means that another change succeeded.
const ATTEMPTS_MAX: u32 = 5;

/// Arguments of `benthic table compact`.
#[derive(Args)]
#[command(after_help = "\
Chooses objects with deleted rows, and objects below half of the table's object size if a partition has several of them. \
Commits about 1 GiB at a time: an interrupted compaction keeps what it has committed, and the next one continues. \
Queries and appends run meanwhile. `benthic table vacuum` removes the old objects.

Examples:
  benthic table compact lake/trips
  benthic table compact lake/trips --all")]
pub struct CompactArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Write all objects again
    #[arg(long)]
    all: bool,
}

#[derive(Default)]
struct Done {
    before: u64,
    bytes_before: u64,
    commits: u64,
}

pub async fn run(args: CompactArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let start = table.snapshot(SnapshotSelector::Current).await?;
    let groups = start.to_compact(args.all).await?;
    let total_bytes = groups.iter().flatten().map(|entry| entry.bytes).sum();
    let progress = Progress::bytes(&format!("compacting {}", args.table), total_bytes);
    let mut done = Done::default();
    for group in groups {
        compact_group(&table, group, &progress, &mut done).await?;
    }
    drop(progress);
    let end = table.snapshot(SnapshotSelector::Current).await?;
    let text = format!(
        "{}: {}, {} were written again; {} now, {}",
        line(&args.table),
        count(done.before, "object"),
        units::size(done.bytes_before),
        count(end.objects(), "object"),
        units::size(end.data_bytes()),
    );
    session.out.result(text, || {
        let mut fields = args.table.size_fields(&end);
        fields.insert("objects_rewritten".to_owned(), json!(done.before));
        fields.insert("size_bytes_rewritten".to_owned(), json!(done.bytes_before));
        fields.insert("commits".to_owned(), json!(done.commits));
        Value::Object(fields)
    })
}

/// Compacts the objects of a group. If another change of the same objects comes first, leaves
/// those out that changed.
async fn compact_group(
    table: &Table,
    mut group: Vec<FileEntry>,
    progress: &Progress,
    done: &mut Done,
) -> Outcome {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let base = table.snapshot(SnapshotSelector::Current).await?;
        if attempts > 1 {
            let current: Vec<FileEntry> = base.entries().try_collect().await?;
            group.retain(|entry| current.contains(entry));
        }
        let outcome = match base.change(Operation::Compact, WriterOptions::default()).await {
            Ok(writer) => write_group(writer, &base, &group, progress).await,
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(()) => break,
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Conflict && attempts < ATTEMPTS_MAX => {}
            Err(failure) => return Err(failure),
        }
    }
    done.before += group.len() as u64;
    done.bytes_before += group.iter().map(|entry| entry.bytes).sum::<u64>();
    done.commits += 1;
    Ok(())
}

async fn write_group(
    mut writer: Writer,
    base: &Snapshot,
    group: &[FileEntry],
    progress: &Progress,
) -> Outcome {
    let mut written = Ok(());
    for entry in group {
        written = write_object(&mut writer, base, entry).await;
        if written.is_err() {
            break;
        }
        progress.advance(entry.bytes);
    }
    match written {
        Ok(()) => {
            writer.finish().await?;
            Ok(())
        }
        Err(failure) => {
            if let Err(error) = writer.abort().await {
                tracing::warn!(%error, "unused objects remain; `benthic table vacuum` removes them");
            }
            Err(failure)
        }
    }
}

async fn write_object(writer: &mut Writer, base: &Snapshot, entry: &FileEntry) -> Outcome {
    let mut rows = base.read(entry, base.schema()).await?;
    while let Some(batch) = rows.try_next().await? {
        // Encoding never waits. Yield so that the task that watches for signals can run.
        tokio::task::yield_now().await;
        interrupt::check()?;
        writer.write(&batch).await?;
    }
    writer.delete(entry, &entry.stored()?)?;
    Ok(())
}
