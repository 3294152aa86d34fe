//! `benthic array reduce`: computes one value, or one for each position along the other axes.

use super::{ReadingArgs, open, watch};
use crate::output::deliver;
use crate::selection::SelectionArgs;
use benthic_array::{ArrayAddress, Bounded, ReadStats, Reduction, ReductionKind};
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `benthic array reduce`.
#[derive(Args)]
#[command(after_help = "\
Values are decoded by the CF conventions unless --raw is given. NaN and missing values are skipped unless --keep-nan is given. \
Sums of floats are compensated, and the result has the same bits wherever the chunks are reduced. \
argmin and argmax print the first position of the minimum or maximum among the reduced axes, in C order.

Examples:
  benthic array reduce climate/era5/t2m mean
  benthic array reduce climate/era5/t2m mean --where lat=10:40,lon=0:90 --over time --out mean.npy
  benthic array reduce climate/era5/t2m histogram --edges 200,250,273.15,300,350")]
pub struct ReduceArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    /// The reduction
    #[arg(value_enum)]
    kind: KindArg,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Reduce these dimensions, by name or number; all if none are given
    #[arg(long, value_name = "DIM,…", value_delimiter = ',')]
    over: Vec<String>,
    /// Do not skip NaN and missing values: sums, means, variances, minima and maxima of them are nan
    #[arg(long)]
    keep_nan: bool,
    /// Divide by the number of values minus N in var and std
    #[arg(long, value_name = "N", default_value_t = 0)]
    ddof: u32,
    /// Edges of the histogram's bins; the last bin includes its upper edge
    #[arg(long, value_name = "NUMBER,…", value_delimiter = ',', allow_hyphen_values = true)]
    edges: Vec<f64>,
    /// Save the result in this file, in NumPy's format
    #[arg(long, value_name = "FILE.npy")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// The number of values that are not missing
    Count,
    Sum,
    Product,
    Min,
    Max,
    Mean,
    /// The variance
    Var,
    /// The standard deviation
    Std,
    Argmin,
    Argmax,
    /// Whether a value is not zero
    Any,
    /// Whether all values are not zero
    All,
    /// The number of values in each bin of --edges
    Histogram,
}

impl ReduceArgs {
    fn kind(&self) -> Result<ReductionKind> {
        let invalid = |message: &str| Err(Error::new(ErrorKind::InvalidArgument, message));
        match (self.kind, self.edges.is_empty()) {
            (KindArg::Histogram, true) => return invalid("histogram needs --edges"),
            (KindArg::Histogram, false) | (_, true) => {}
            _ => return invalid("--edges is only for histogram"),
        }
        if self.ddof > 0 && !matches!(self.kind, KindArg::Var | KindArg::Std) {
            return invalid("--ddof is only for var and std");
        }
        Ok(match self.kind {
            KindArg::Count => ReductionKind::Count {},
            KindArg::Sum => ReductionKind::Sum {},
            KindArg::Product => ReductionKind::Product {},
            KindArg::Min => ReductionKind::Min {},
            KindArg::Max => ReductionKind::Max {},
            KindArg::Mean => ReductionKind::Mean {},
            KindArg::Var => ReductionKind::Variance { ddof: self.ddof },
            KindArg::Std => ReductionKind::Std { ddof: self.ddof },
            KindArg::Argmin => ReductionKind::Argmin {},
            KindArg::Argmax => ReductionKind::Argmax {},
            KindArg::Any => ReductionKind::Any {},
            KindArg::All => ReductionKind::All {},
            KindArg::Histogram => ReductionKind::Histogram { edges: Bounded(self.edges.clone()) },
        })
    }
}

pub async fn run(args: ReduceArgs, session: &Session) -> Outcome {
    let kind = args.kind()?;
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let mut reduced = vec![args.over.is_empty(); array.metadata().shape.len()];
    for name in &args.over {
        reduced[crate::selection::axis(&array, name)?] = true;
    }
    let slices = args.selection.resolve(&array, pushdown).await?;
    let decoding = args.selection.decoding(&array)?;
    let reduction = Reduction { kind, reduced: Bounded(reduced), skip_nan: !args.keep_nan, decoding };
    let stats = Arc::new(ReadStats::default());
    let values = watch("reducing", &stats, array.reduce(&slices, reduction, pushdown, &stats)).await?;
    args.reading.print_stats(&stats, session);
    deliver(&values, args.out.as_deref(), &args.array, &stats, session)
}
