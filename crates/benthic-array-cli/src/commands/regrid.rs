//! `benthic array regrid`: regrids the last axes of an array.

use super::{ReadingArgs, open, watch};
use crate::output::deliver;
use crate::selection::SelectionArgs;
use crate::weights;
use benthic_array::{ArrayAddress, ReadStats, Regrid};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `benthic array regrid`.
#[derive(Args)]
#[command(after_help = "\
Each cell of the new grid is a weighted sum of elements of the last dimensions. The weights are a netCDF file of ESMF, xESMF, CDO or SCRIP \
(variables row, col and S, or dst_address, src_address and remap_matrix), made for the selected positions. \
A cell is nan if it has no weights, or a weight of a missing value. \
Values are decoded by the CF conventions unless --raw is given. \
Sums are compensated, and the result has the same bits wherever the chunks are regridded.

Examples:
  benthic array regrid climate/era5/t2m --weights era5-to-1x1.nc --select time=0:24 --out t2m.npy
  benthic array regrid climate/era5/t2m --weights xesmf.nc --shape 180,360 --skip-missing=0.5 --out t2m.npy")]
pub struct RegridArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    /// The file of weights
    #[arg(long, value_name = "FILE.nc")]
    weights: PathBuf,
    /// The shape of the new grid, if the file lacks it, as xESMF's files do
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    shape: Vec<u64>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Skip missing values, and divide by the weights of the others. PART is the largest part of a
    /// cell that may be missing, from 0 to 1; with 1, a cell is nan only if all of it is missing
    #[arg(long, value_name = "PART", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    skip_missing: Option<f64>,
    /// Save the result in this file, in NumPy's format
    #[arg(long, value_name = "FILE.npy")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub async fn run(args: RegridArgs, session: &Session) -> Outcome {
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let slices = args.selection.resolve(&array, pushdown).await?;
    let selected: Vec<u64> = slices.iter().map(|slice| slice.count).collect();
    let file = weights::read(&args.weights, &selected, &args.shape);
    let file = file.map_err(|error| error.with("path", args.weights.display()))?;
    let decoding = args.selection.decoding(&array)?;
    let regrid = Regrid { weights: file.weights, missing_max: args.skip_missing, decoding };
    let stats = Arc::new(ReadStats::default());
    let mut values = watch("regridding", &stats, array.regrid(&slices, regrid, pushdown, &stats)).await?;
    values.shape.pop();
    values.shape.extend(file.shape);
    args.reading.print_stats(&stats, session);
    deliver(&values, args.out.as_deref(), &args.array, &stats, session)
}
