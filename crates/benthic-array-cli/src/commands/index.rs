//! `benthic array index`: stores the statistics of all chunks of an array.

use super::{ReadingArgs, open, watch_with};
use crate::output::stats_json;
use benthic_array::{ArrayAddress, IndexProgress, ReadStats};
use benthic_program::exit::Outcome;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::json;
use std::sync::Arc;

/// Arguments of `benthic array index`.
#[derive(Args)]
#[command(after_help = "\
Reductions with --values then skip the chunks that have no value in the range. The statistics of a chunk are void after any \
program has written it; run the command again to renew them. It computes only those that are missing or void, so it also \
continues after an interruption.

Examples:
  benthic array index climate/era5/rain
  benthic array reduce climate/era5/rain count --values 0.05: --over time --stats")]
pub struct IndexArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub async fn run(args: IndexArgs, session: &Session) -> Outcome {
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let (stats, progress) = (Arc::new(ReadStats::default()), IndexProgress::default());
    let bar = Progress::steps("indexing", 0);
    let index = array.index(pushdown, &stats, &progress);
    watch_with(|| bar.set_position(progress.done(), progress.chunks()), index).await?;
    drop(bar);
    args.reading.print_stats(&stats, session);
    let text = format!(
        "{}: {}, {} computed",
        units::one_line(&args.array.to_string()),
        units::count(progress.chunks(), "stored chunk"),
        progress.computed()
    );
    session.out.result(text, || {
        json!({
            "array": args.array.to_string(), "chunks": progress.chunks(), "computed_chunks": progress.computed(),
            "stats": stats_json(&stats),
        })
    })
}
