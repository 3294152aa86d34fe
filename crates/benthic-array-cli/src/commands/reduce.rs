//! `benthic array reduce`: computes one value, or one for each position along the other axes.

use super::{ReadingArgs, open, watch};
use crate::mask::MaskArgs;
use crate::output::deliver;
use crate::selection::{SelectionArgs, axis};
use benthic_array::{ArrayAddress, AxisRole, Bounded, Groups, ReadStats, Reduction, ReductionKind};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Arguments of `benthic array reduce`.
#[derive(Args)]
#[command(after_help = "\
Values are decoded by the CF conventions unless --raw is given. NaN and missing values are skipped unless --keep-nan is given. \
Sums of floats are compensated, and the result has the same bits wherever the chunks are reduced. \
argmin and argmax print the first position of the minimum or maximum among the reduced axes, in C order. \
Quantiles are exact for up to 4096 different values for each result. Of more values they are approximate, with a relative error that \
grows with the range of the values: 0.05 % for values from 130 to 500, and about 1 % for values of both signs down to 0.001.

Examples:
  benthic array reduce climate/era5/t2m mean
  benthic array reduce climate/era5/t2m mean --where lat=10:40,lon=0:90 --over time --out mean.npy
  benthic array reduce climate/era5/t2m max --select time=0 --coarsen lat=10,lon=10
  benthic array reduce climate/era5/t2m count --values 300: --over time
  benthic array reduce climate/era5/t2m mean --over lat,lon --mask climate/era5/lsm --mask-values 0.5:
  benthic array reduce climate/era5/t2m quantile --q 0.05,0.5,0.95 --select time=0
  benthic array reduce climate/era5/t2m histogram --edges 200,250,273.15,300,350")]
pub struct ReduceArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    /// The reduction
    #[arg(value_enum)]
    kind: KindArg,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    mask: MaskArgs,
    /// Reduce these dimensions, by name or number; all if neither these nor --coarsen are given
    #[arg(long, value_name = "DIM,…", value_delimiter = ',')]
    over: Vec<String>,
    /// Reduce each N neighbours along a dimension to one; the last group may be smaller
    #[arg(long, value_name = "DIM=N,…", value_delimiter = ',')]
    coarsen: Vec<Coarsen>,
    /// Do not skip NaN and missing values: sums, means, variances, minima and maxima of them are
    /// nan
    #[arg(long)]
    keep_nan: bool,
    /// Divide by the number of values minus N in var and std
    #[arg(long, value_name = "N", default_value_t = 0)]
    ddof: u32,
    /// Edges of the histogram's bins; the last bin includes its upper edge
    #[arg(long, value_name = "NUMBER,…", value_delimiter = ',', allow_hyphen_values = true)]
    edges: Vec<f64>,
    /// The quantiles, each from 0 to 1; the result has one more axis if there are several
    #[arg(long, value_name = "NUMBER,…", value_delimiter = ',')]
    q: Vec<f64>,
    /// Save the result in this file, in NumPy's format
    #[arg(long, value_name = "FILE.npy")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// A dimension, and the number of neighbours in a group.
#[derive(Clone, Debug)]
struct Coarsen {
    dimension: String,
    neighbours: u64,
}

impl FromStr for Coarsen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Coarsen> {
        let parsed = text.split_once('=').and_then(|(dimension, neighbours)| {
            let neighbours = neighbours.parse().ok().filter(|neighbours| *neighbours > 0)?;
            Some(Coarsen { dimension: dimension.to_owned(), neighbours })
        });
        parsed.ok_or_else(|| {
            Error::invalid_argument("--coarsen takes DIM=N, with N neighbours of 1 or more").with("got", text)
        })
    }
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
    /// The values of --q
    Quantile,
    /// The quantile 0.5
    Median,
}

impl ReduceArgs {
    fn kind(&self) -> Result<ReductionKind> {
        let invalid = |message: &str| Err(Error::invalid_argument(message));
        match (self.kind, self.edges.is_empty()) {
            (KindArg::Histogram, true) => return invalid("histogram needs --edges"),
            (KindArg::Histogram, false) | (_, true) => {}
            _ => return invalid("--edges is only for histogram"),
        }
        if (self.kind == KindArg::Quantile) == self.q.is_empty() {
            return invalid("quantile needs --q, and no other reduction takes it");
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
            KindArg::Quantile => ReductionKind::Quantile { q: Bounded(self.q.clone()) },
            KindArg::Median => ReductionKind::Quantile { q: Bounded(vec![0.5]) },
        })
    }
}

pub async fn run(args: ReduceArgs, session: &Session) -> Outcome {
    let kind = args.kind()?;
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let slices = args.selection.resolve(&array, pushdown).await?;
    let reduces_all = args.over.is_empty() && args.coarsen.is_empty();
    let mut axes = vec![AxisRole::reduce_if(reduces_all); slices.len()];
    for name in &args.over {
        axes[axis(&array, name)?] = AxisRole::Reduce {};
    }
    for Coarsen { dimension, neighbours } in &args.coarsen {
        let axis = axis(&array, dimension)?;
        if axes[axis] != (AxisRole::Keep {}) {
            let message = "a dimension is reduced twice; name it once in --over or --coarsen";
            return Err(Error::invalid_argument(message).with("dimension", dimension).into());
        }
        axes[axis] = AxisRole::Group { groups: Groups::of_neighbours(slices[axis].count, *neighbours)? };
    }
    let decoding = args.selection.decoding(&array)?;
    let stats = Arc::new(ReadStats::default());
    let mask = match &args.mask.mask {
        Some(address) => {
            let mask = open(address, session).await?;
            let read = args.mask.read(&mask, &array, &slices, pushdown, &stats).await;
            Some(read.map_err(|error| error.with("mask", address))?)
        }
        None => None,
    };
    let reduction = Reduction { kind, axes: Bounded(axes), skip_nan: !args.keep_nan, decoding };
    let has_one_quantile =
        matches!(&reduction.kind, ReductionKind::Quantile { q: Bounded(q) } if q.len() == 1);
    let mut values =
        watch("reducing", &stats, array.reduce_masked(&slices, reduction, mask, pushdown, &stats)).await?;
    if has_one_quantile {
        values.shape.pop();
    }
    args.reading.print_stats(&stats, session);
    deliver(&values, args.out.as_deref(), &args.array, &stats, session)
}
