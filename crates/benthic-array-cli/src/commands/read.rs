//! `benthic array read`: prints or saves a part of an array.

use super::{ReadingArgs, open, watch};
use crate::output::deliver;
use crate::selection::SelectionArgs;
use benthic_array::{ArrayAddress, ReadStats};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `benthic array read`.
#[derive(Args)]
#[command(after_help = "\
Values are decoded by the CF conventions, with nan for missing values, unless --raw is given.

Examples:
  benthic array read climate/era5/t2m --select time=0,lat=0:4,lon=0:4
  benthic array read climate/era5/t2m --where lat=10:40 --select time=0 --out t2m.npy")]
pub struct ReadArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Save the values in this file, in NumPy's format
    #[arg(long, value_name = "FILE.npy")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub async fn run(args: ReadArgs, session: &Session) -> Outcome {
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let slices = args.selection.resolve(&array, pushdown).await?;
    let decoding = args.selection.decoding(&array)?;
    let stats = Arc::new(ReadStats::default());
    let read = array.read_decoded(&slices, decoding.as_ref(), pushdown, &stats);
    let values = watch("reading", &stats, read).await?;
    args.reading.print_stats(&stats, session);
    deliver(&values, args.out.as_deref(), &args.array, &stats, session)
}
