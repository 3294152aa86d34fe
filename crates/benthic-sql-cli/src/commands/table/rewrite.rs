//! `benthic table rewrite`: changes how the objects of a table store the rows.

use super::layout::{LayoutArgs, describe_layout, layout_fields};
use super::limits::LimitArgs;
use super::rewriting::{Done, rewrite_groups};
use super::{TableAddress, count, line};
use benthic_core::Result;
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::{FileEntry, Layout, LayoutChange, Snapshot, SnapshotSelector};
use clap::Args;
use serde_json::{Value, json};

/// Passes over the table. A later pass finds the objects of writers that started before the change,
/// and objects that others changed during the pass before.
const PASSES_MAX: u32 = 3;
/// Objects that a dry run encodes for its estimate.
const SAMPLES_MAX: usize = 3;

/// Arguments of `benthic table rewrite`.
#[derive(Args)]
#[command(after_help = "\
Sets how the table's objects store rows, also for later appends and compactions, and writes the objects again that were \
written in another way. Without an option, the table keeps its setting. No row changes. Commits about 1 GiB at a time: after an interruption, run the command again, \
without options, to continue. Queries, appends and changes run meanwhile. Old snapshots keep their objects until \
`benthic table vacuum` removes them. `benthic table history` shows the commits as compactions.

Examples:
  benthic table rewrite lake/trips --codec zstd:9 --dry-run
  benthic table rewrite lake/trips --codec zstd --sort-by day,fare
  benthic table rewrite lake/trips --unsorted --object-size 64MiB --rate 20MiB
  benthic table rewrite lake/photos --group image,thumbnail --group embedding
  benthic table rewrite lake/photos --one-group")]
pub struct RewriteArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    #[command(flatten)]
    layout: LayoutArgs,
    /// End the sort order
    #[arg(long, conflicts_with = "sort_by")]
    unsorted: bool,
    /// Write no Bloom filters
    #[arg(long, conflicts_with = "bloom")]
    no_bloom: bool,
    /// Join the column groups
    #[arg(long, conflicts_with = "group")]
    one_group: bool,
    /// Show what would be written, and estimate the new size from a sample; change nothing
    #[arg(long, conflicts_with_all = ["rate", "memory"])]
    dry_run: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

impl RewriteArgs {
    fn change(&self) -> LayoutChange {
        let mut change = self.layout.change();
        if self.unsorted {
            change.sort = Some(Vec::new());
        }
        if self.no_bloom {
            change.bloom = Some(Vec::new());
        }
        if self.one_group {
            change.groups = Some(Vec::new());
        }
        change
    }
}

pub async fn run(args: RewriteArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    if args.dry_run {
        return dry_run(&args, &table.snapshot(SnapshotSelector::Current).await?, session).await;
    }
    table.set_layout(&args.change()).await?;
    let (mut done, label) = (Done::default(), format!("rewriting {}", args.table));
    let mut passes = 0;
    let remaining = loop {
        // Another process may have changed the layout once more.
        let snapshot = table.snapshot(SnapshotSelector::Current).await?;
        let groups = snapshot.to_rewrite(snapshot.layout()).await?;
        if groups.is_empty() || passes == PASSES_MAX {
            break groups.iter().map(Vec::len).sum::<usize>();
        }
        passes += 1;
        rewrite_groups(&table, &groups, None, &label, &args.limits, &mut done).await?;
    };
    done.warn(session);
    if remaining > 0 {
        session.out.warning(format_args!(
            "{} changed meanwhile and still do not have the table's settings; run the command again, without options",
            count(remaining as u64, "object"),
        ));
    }
    let end = table.snapshot(SnapshotSelector::Current).await?;
    let text = format!(
        "{}: {}, {} were written again; {} now, {}; {}",
        line(&args.table),
        count(done.objects, "object"),
        units::size(done.bytes),
        count(end.objects(), "object"),
        units::size(end.data_bytes()),
        line(describe_layout(end.layout(), end.schema())),
    );
    session.out.result(text, || {
        let mut fields = args.table.size_fields(&end);
        fields.extend(layout_fields(end.layout(), end.schema()));
        fields.insert("objects_rewritten".to_owned(), json!(done.objects));
        fields.insert("size_bytes_rewritten".to_owned(), json!(done.bytes));
        fields.insert("objects_remaining".to_owned(), json!(remaining));
        fields.insert("commits".to_owned(), json!(done.commits));
        Value::Object(fields)
    })
}

async fn dry_run(args: &RewriteArgs, snapshot: &Snapshot, session: &Session) -> Outcome {
    let layout = snapshot.layout().with(&args.change(), snapshot.schema());
    let layout = layout.map_err(|error| error.with("table", &args.table))?;
    let entries: Vec<FileEntry> = snapshot.to_rewrite(&layout).await?.into_iter().flatten().collect();
    let bytes: u64 = entries.iter().map(FileEntry::all_bytes).sum();
    let samples = entries.len().min(SAMPLES_MAX);
    let estimated = estimate(snapshot, &entries, &layout).await?;
    let (from, to) =
        (describe_layout(snapshot.layout(), snapshot.schema()), describe_layout(&layout, snapshot.schema()));
    let mut text = format!(
        "{}: {} of {} ({}) would be written again\n  from  {}\n  to    {}",
        line(&args.table),
        entries.len(),
        count(snapshot.objects(), "object"),
        units::size(bytes),
        line(from),
        line(to),
    );
    if let Some(estimated) = estimated {
        text += &format!(
            "\n  they would take about {} (estimated from {})",
            units::size(estimated),
            count(samples as u64, "object")
        );
    }
    session.out.result(text, || {
        let mut fields = args.table.size_fields(snapshot);
        fields.extend(layout_fields(&layout, snapshot.schema()));
        fields.insert("dry_run".to_owned(), json!(true));
        fields.insert("objects_to_rewrite".to_owned(), json!(entries.len()));
        fields.insert("size_bytes_to_rewrite".to_owned(), json!(bytes));
        fields.insert("size_bytes_estimated".to_owned(), json!(estimated));
        fields.insert("objects_sampled".to_owned(), json!(samples));
        Value::Object(fields)
    })
}

/// Estimates the size of objects in a layout, from a few of them at equal distances.
async fn estimate(snapshot: &Snapshot, entries: &[FileEntry], layout: &Layout) -> Outcome<Option<u64>> {
    let samples = entries.len().min(SAMPLES_MAX);
    let (mut before, mut after) = (0_u64, 0_u64);
    for sample in 0..samples {
        interrupt::check()?;
        let entry = &entries[sample * entries.len() / samples];
        let size: Result<u64> = snapshot.size_in(entry, layout).await;
        after += size?;
        before += entry.all_bytes();
    }
    let bytes: u128 = entries.iter().map(|entry| u128::from(entry.all_bytes())).sum();
    let estimated = (bytes * u128::from(after)).checked_div(u128::from(before));
    Ok(estimated.and_then(|bytes| u64::try_from(bytes).ok()))
}
