//! `benthic table diff`: prints the rows that differ between two snapshots.

use super::{SnapshotName, TableAddress};
use crate::commands::rows::{self, Format, View};
use benthic_core::{Stopwatch, SystemClock};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_sql::session::{Settings, SqlSession};
use benthic_sql::work::Work;
use benthic_table::SnapshotSelector;
use clap::Args;
use datafusion::execution::memory_pool::FairSpillPool;
use std::sync::Arc;

/// Memory for rows that are compared. More rows need temporary files.
const MEMORY_BYTES: usize = 1024 * 1024 * 1024;

/// Arguments of `benthic table diff`.
#[derive(Args)]
#[command(after_help = "\
The column `change` is 1 for a row that only TO has, and -1 for a row that only FROM has. A changed row is printed as two \
rows. Of equal rows it is the difference of their numbers. Only rows of objects that changed are read.

Examples:
  benthic table history lake/trips
  benthic table diff lake/trips 7
  benthic table diff lake/trips release-1 9 --output csv > changes.csv")]
pub struct DiffArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// The snapshot to compare with: its number or a tag
    from: SnapshotName,
    /// The other snapshot: its number or a tag; by default the newest
    to: Option<SnapshotName>,
    /// Output format; by default a table, or JSON with --json
    #[arg(long, value_enum)]
    output: Option<Format>,
    /// Show all rows on a terminal, instead of the first 40
    #[arg(long)]
    all: bool,
}

pub async fn run(args: DiffArgs, session: &Session) -> Outcome {
    let view = View::of_options(&session.out, args.output, args.all)?;
    let table = args.table.open(session).await?;
    let from = table.snapshot(args.from.selector()).await?;
    let to = args.to.as_ref().map_or(SnapshotSelector::Current, SnapshotName::selector);
    let to = table.snapshot(to).await?;
    let settings =
        Settings { memory: Some(Arc::new(FairSpillPool::new(MEMORY_BYTES))), ..Settings::default() };
    let queries = SqlSession::new(session.store().await?, settings);
    let (work, start) = (Arc::new(Work::default()), Stopwatch::start(&SystemClock));
    let rows = queries.diff(from, to, &work).await?;
    let printed = rows::print(&session.out, rows, &work, &view, |error| error).await?;
    view.summarize(&session.out, &printed, start.elapsed(), "--all")
}
