//! Reductions: the states of partial results, how they merge, and the results.
//!
//! The class and the client run this code. Each computes the states of an object, adding the inner
//! chunks of a shard in C order; the client merges the states of the objects in C order. So the
//! result has the same bits wherever the objects were reduced.
//!
//! Sums of floats are compensated: each addition's rounding error is computed exactly (Knuth's
//! TwoSum) and summed beside the sum. Variances merge as Chan, Golub and LeVeque describe
//! ("Updating formulae and a pairwise algorithm for computing sample variances", 1979).

mod accumulator;
mod axes;
mod mask;
mod number;
mod regrid;
mod sketch;
mod states;
mod tally;

use crate::block::{Block, Tick};
use crate::dtype::{Dtype, NumberKind};
use crate::selection::{AXES_MAX, Bounded, Part, PerAxis, counts, elements};
use crate::values::Values;
use accumulator::Accumulator;
pub(crate) use axes::GROUPED_MAX;
pub use axes::{AxisRole, Groups};
use benthic_core::{Error, Result, wire_enum, wire_struct};
use bytes::Bytes;
pub use mask::Mask;
pub(crate) use number::Number;
pub use regrid::{Regrid, Weight, WeightParts, Weights};
use sketch::{BUCKET_BYTES, BUCKETS_MAX, Sketch};
pub(crate) use states::Summary;
use states::{Bins, Count, Extreme, Flag, FloatProduct, FloatSum, IntProduct, IntSum, Moments};
pub use tally::{Missing, Tallied, Tally, TallyKind};

/// Limit on the edges of a histogram.
const EDGES_MAX: usize = 65_536;
/// Limit on the quantiles of one reduction.
const QUANTILES_MAX: usize = 1000;
/// Limit on the memory of a reduction's states in the client.
const STATE_BYTES_MAX: u64 = 1 << 30;

/// The function that a reduction computes. Unless the reduction skips NaN, a NaN makes sums,
/// products, means, variances, minima and maxima NaN.
#[derive(Clone, Debug, PartialEq)]
pub enum ReductionKind {
    /// The number of values that are not NaN, as int64.
    Count {},
    /// As int64, uint64 or float64. Integers wrap around, as in NumPy.
    Sum {},
    Product {},
    /// In the array's own type.
    Min {},
    Max {},
    /// As float64.
    Mean {},
    /// As float64; the divisor is the number of values less `ddof`.
    Variance {
        ddof: u32,
    },
    Std {
        ddof: u32,
    },
    /// The first position of the minimum among the reduced axes, in C order, as int64.
    Argmin {},
    Argmax {},
    /// Whether any value is not zero. NaN counts as not zero.
    Any {},
    All {},
    /// The number of values from each edge to the next, as int64. The last edge belongs to the last
    /// bin. Values outside and NaN are not counted.
    Histogram {
        edges: Bounded<f64, EDGES_MAX>,
    },
    /// The values below which these parts of the values are, each from 0 to 1, as float64;
    /// interpolated as NumPy's are. Exact for up to 4,096 different values. Otherwise the values
    /// between which the result lies have a relative error of at most `b` / 4000, where `b` is the
    /// number of pairs of a sign and a power of two into which all values fall; that is 0.05 % for
    /// values from 130 to 500.
    Quantile {
        q: Bounded<f64, QUANTILES_MAX>,
    },
    /// The smallest value, the largest one, and the numbers of values and of NaN, as four float64
    /// along one more axis. NaN are always skipped; of no values, the smallest is more than the
    /// largest.
    Summary {},
}

wire_enum! {
    ReductionKind {
        0 Count {}
        1 Sum {}
        2 Product {}
        3 Min {}
        4 Max {}
        5 Mean {}
        6 Variance { ddof: ddof }
        7 Std { ddof: ddof }
        8 Argmin {}
        9 Argmax {}
        10 Any {}
        11 All {}
        12 Histogram { edges: edges }
        13 Quantile { q: q }
        14 Summary {}
    }
}

/// How stored numbers become values, by the CF conventions: a missing value and a value out of the
/// valid range become NaN; others are multiplied by `scale` and shifted by `offset`. Then values
/// out of the wanted range become NaN, too. The result is a float.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoding {
    /// Elements in the array's type, little-endian, at most [`MISSING_MAX`].
    pub missing: Bounded<Bytes, MISSING_MAX>,
    pub valid_min: Option<f64>,
    pub valid_max: Option<f64>,
    pub scale: Option<f64>,
    pub offset: Option<f64>,
    /// Computes in float32 instead of float64.
    pub is_single: bool,
    /// Of the decoded values, both ends included.
    pub wanted_min: Option<f64>,
    pub wanted_max: Option<f64>,
}

/// Limit on the different missing values.
pub(crate) const MISSING_MAX: usize = 16;

/// Checks a decoding of elements of this type.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
fn check_decoding(decoding: &Decoding, dtype: Dtype) -> Result<()> {
    if decoding.missing.0.iter().any(|element| element.len() != dtype.size_bytes()) {
        return Err(Error::invalid_argument("a missing value does not have the size of an element"));
    }
    if decoding.missing.0.len() > MISSING_MAX {
        return Err(Error::limit_exceeded("there are too many missing values")
            .with("missing", decoding.missing.0.len())
            .with("missing_max", MISSING_MAX));
    }
    Ok(())
}

/// A reduction of an array, or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    pub kind: ReductionKind,
    pub axes: PerAxis<AxisRole>,
    pub skip_nan: bool,
    pub decoding: Option<Decoding>,
}

wire_struct! {
    Decoding { missing, valid_min, valid_max, scale, offset, is_single, wanted_min, wanted_max }
    Reduction { kind, axes, skip_nan, decoding }
}

/// The states of a reduction over a selection.
pub trait Accumulate: Send {
    /// Adds the elements of a decoded block, which a mask of the selection may make missing.
    ///
    /// # Errors
    /// `Internal` if the part does not lie in the selection; those of the tick.
    fn add(&mut self, block: &Block, part: &Part, mask: Option<&Mask>, tick: Tick<'_>) -> Result<()>;

    /// Merges the states of a part of the selection: their encoding, the number of elements of the
    /// part along each axis, and the index of its first element.
    ///
    /// # Errors
    /// `Internal` if the states do not fit the part.
    fn merge(&mut self, states: &[u8], counts: &[u64], first: &[u64]) -> Result<()>;

    /// The encoded states, for [`Accumulate::merge`].
    fn encode(&self) -> Bytes;

    /// The result.
    ///
    /// # Errors
    /// `InvalidArgument` for the minimum or maximum of no values. That of floats that are all
    /// missing, or of a group of floats without a position, is NaN; its position is an error, too.
    fn finish(&self) -> Result<Values>;
}

impl Reduction {
    /// Checks a reduction of a selection with these counts.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self, dtype: Dtype, counts: &[u64]) -> Result<()> {
        let invalid = |message: &str| Err(Error::invalid_argument(message));
        if self.axes.0.len() != counts.len() || counts.len() > AXES_MAX {
            return invalid("a reduction needs one role for each axis");
        }
        self.axes.0.iter().zip(counts).try_for_each(|(role, count)| role.check(*count))?;
        if matches!(self.kind, ReductionKind::Argmin {} | ReductionKind::Argmax {}) && self.has_groups() {
            return invalid("positions of the minimum and maximum cannot be grouped");
        }
        if let ReductionKind::Histogram { edges: Bounded(edges) } = &self.kind {
            if edges.len() < 2 || !edges.windows(2).all(|pair| pair[0] < pair[1]) {
                return invalid("the edges of a histogram must be two or more numbers in increasing order");
            }
            if edges.len() > EDGES_MAX {
                return Err(Error::limit_exceeded("a histogram has too many edges")
                    .with("edges", edges.len())
                    .with("edges_max", EDGES_MAX));
            }
        }
        if let ReductionKind::Quantile { q: Bounded(q) } = &self.kind {
            if q.is_empty() || !q.iter().all(|q| (0.0..=1.0).contains(q)) {
                return invalid("quantiles must be one or more numbers from 0 to 1");
            }
            if q.len() > QUANTILES_MAX {
                return Err(Error::limit_exceeded("a reduction has too many quantiles")
                    .with("quantiles", q.len())
                    .with("quantiles_max", QUANTILES_MAX));
            }
        }
        self.decoding.iter().try_for_each(|decoding| check_decoding(decoding, dtype))
    }

    /// Checks a mask for this reduction of a selection with these counts.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check_mask(&self, mask: &Mask, dtype: Dtype, counts: &[u64]) -> Result<()> {
        if self.number_kind(dtype) != NumberKind::Float {
            let message =
                "integers have no missing value for a mask; give a decoding, which makes them floats";
            return Err(Error::invalid_argument(message).with("dtype", dtype));
        }
        mask.check(counts)
    }

    /// The type of the numbers during the reduction.
    fn number_kind(&self, dtype: Dtype) -> NumberKind {
        if self.decoding.is_some() { NumberKind::Float } else { dtype.number_kind() }
    }

    /// Whether the reduction is the minimum, the maximum, or the position of one.
    fn is_extreme(&self) -> bool {
        use ReductionKind as K;
        matches!(self.kind, K::Min {} | K::Max {} | K::Argmin {} | K::Argmax {})
    }

    /// Whether the reduction is the minimum, or its position.
    fn finds_minimum(&self) -> bool {
        matches!(self.kind, ReductionKind::Min {} | ReductionKind::Argmin {})
    }

    /// The type of the result.
    pub fn result_dtype(&self, dtype: Dtype) -> Dtype {
        let sum = match self.number_kind(dtype) {
            NumberKind::Float => Dtype::Float64,
            NumberKind::Signed => Dtype::Int64,
            NumberKind::Unsigned if dtype == Dtype::Bool => Dtype::Int64,
            NumberKind::Unsigned => Dtype::Uint64,
        };
        match self.kind {
            ReductionKind::Count {}
            | ReductionKind::Argmin {}
            | ReductionKind::Argmax {}
            | ReductionKind::Histogram { .. } => Dtype::Int64,
            ReductionKind::Sum {} | ReductionKind::Product {} => sum,
            ReductionKind::Mean {}
            | ReductionKind::Variance { .. }
            | ReductionKind::Std { .. }
            | ReductionKind::Quantile { .. }
            | ReductionKind::Summary {} => Dtype::Float64,
            ReductionKind::Any {} | ReductionKind::All {} => Dtype::Bool,
            ReductionKind::Min {} | ReductionKind::Max {} => match &self.decoding {
                None => dtype,
                Some(decoding) if decoding.is_single => Dtype::Float32,
                Some(_) => Dtype::Float64,
            },
        }
    }

    /// Whether an axis is divided into groups.
    pub fn has_groups(&self) -> bool {
        self.axes.0.iter().any(|role| matches!(role, AxisRole::Group { .. }))
    }

    /// The same reduction of a part of the selection.
    pub fn of_part(&self, part: &Part) -> Reduction {
        let counts = counts(&part.slices);
        let axes = self.axes.0.iter().zip(part.first.iter().zip(counts));
        let axes = axes.map(|(role, (first, count))| role.part(*first, count)).collect();
        let (kind, decoding) = (self.kind.clone(), self.decoding.clone());
        Reduction { kind, axes: Bounded(axes), skip_nan: self.skip_nan, decoding }
    }

    /// The number of results of a selection with these counts, without the bins of a histogram and
    /// the list of quantiles.
    fn cells(&self, counts: &[u64]) -> u64 {
        let lens = self.axes.0.iter().zip(counts).filter_map(|(role, count)| role.result_len(*count));
        lens.fold(1, |product: u64, len| product.saturating_mul(len))
    }

    /// The size of the states of a selection with these counts, in memory; their encoding is about
    /// as large. Saturates.
    pub fn state_bytes(&self, counts: &[u64]) -> u64 {
        self.cells_bytes(self.cells(counts), counts)
    }

    /// Limit on the size of the states of a part of this shape. Saturates.
    pub fn part_state_bytes_max(&self, shape: &[u64]) -> u64 {
        let lens =
            self.axes.0.iter().zip(shape).filter_map(|(role, len)| Some(role.result_len(*len)?.min(*len)));
        self.cells_bytes(lens.fold(1, |product: u64, len| product.saturating_mul(len)), shape)
    }

    fn cells_bytes(&self, cells: u64, counts: &[u64]) -> u64 {
        let fixed_bytes = cells.saturating_mul(self.cell_bytes());
        if !matches!(self.kind, ReductionKind::Quantile { .. }) {
            return fixed_bytes;
        }
        // Each bucket has a value. The memory of a list that grows is up to twice its size.
        let values = counts.iter().fold(1, |product: u64, count| product.saturating_mul(*count));
        let buckets = cells.saturating_mul(BUCKETS_MAX as u64).min(values);
        fixed_bytes.saturating_add(buckets.saturating_mul(2 * BUCKET_BYTES))
    }

    fn cell_bytes(&self) -> u64 {
        match &self.kind {
            ReductionKind::Histogram { edges } => 8 * (edges.0.len() as u64 + 3),
            ReductionKind::Any {} | ReductionKind::All {} => 1,
            ReductionKind::Count {} => 8,
            ReductionKind::Product {} => 16,
            ReductionKind::Variance { .. } | ReductionKind::Std { .. } | ReductionKind::Summary {} => 32,
            ReductionKind::Quantile { .. } => size_of::<Sketch>() as u64,
            _ => 24,
        }
    }

    /// The size of an encoded state.
    pub fn state_record_bytes(&self) -> usize {
        match &self.kind {
            ReductionKind::Count {} | ReductionKind::Product {} => 8,
            ReductionKind::Sum {} | ReductionKind::Mean {} => 24,
            ReductionKind::Variance { .. } | ReductionKind::Std { .. } | ReductionKind::Summary {} => 32,
            ReductionKind::Any {} | ReductionKind::All {} => 1,
            ReductionKind::Histogram { edges } => 4 + 8 * edges.0.len().saturating_sub(1),
            // Sizes differ; most bytes are numbers of 64 bits.
            ReductionKind::Quantile { .. } => BUCKET_BYTES as usize,
            // With a value.
            ReductionKind::Min {}
            | ReductionKind::Max {}
            | ReductionKind::Argmin {}
            | ReductionKind::Argmax {} => 17,
        }
    }

    /// Empty states for a selection of an array of this type with this number of elements along
    /// each axis.
    ///
    /// # Errors
    /// `LimitExceeded` if the states need too much memory.
    pub fn accumulator(&self, dtype: Dtype, counts: &[u64]) -> Result<Box<dyn Accumulate>> {
        elements(counts)?;
        let state_bytes = self.state_bytes(counts);
        if state_bytes > STATE_BYTES_MAX {
            let message = match self.kind {
                ReductionKind::Quantile { .. } => {
                    "the quantiles need too much memory: each result may have 4096 buckets; select a part, or keep less"
                }
                _ => "the result of the reduction is too large",
            };
            return Err(Error::limit_exceeded(message)
                .with("state_bytes", state_bytes)
                .with("state_bytes_max", STATE_BYTES_MAX));
        }
        macro_rules! accumulator {
            ($float:ty, $signed:ty, $unsigned:ty) => {
                match self.number_kind(dtype) {
                    NumberKind::Float => {
                        Box::new(Accumulator::<f64, $float>::new(self, dtype, counts)) as Box<dyn Accumulate>
                    }
                    NumberKind::Signed => Box::new(Accumulator::<i64, $signed>::new(self, dtype, counts)),
                    NumberKind::Unsigned => Box::new(Accumulator::<u64, $unsigned>::new(self, dtype, counts)),
                }
            };
            ($state:ty) => {
                accumulator!($state, $state, $state)
            };
        }
        Ok(match self.kind {
            ReductionKind::Count {} => accumulator!(Count),
            ReductionKind::Sum {} | ReductionKind::Mean {} => accumulator!(FloatSum, IntSum, IntSum),
            ReductionKind::Product {} => accumulator!(FloatProduct, IntProduct, IntProduct),
            ReductionKind::Min {}
            | ReductionKind::Max {}
            | ReductionKind::Argmin {}
            | ReductionKind::Argmax {} => accumulator!(Extreme<f64>, Extreme<i64>, Extreme<u64>),
            ReductionKind::Variance { .. } | ReductionKind::Std { .. } => accumulator!(Moments),
            ReductionKind::Any {} | ReductionKind::All {} => accumulator!(Flag),
            ReductionKind::Histogram { .. } => accumulator!(Bins),
            ReductionKind::Quantile { .. } => accumulator!(Sketch),
            ReductionKind::Summary {} => accumulator!(Summary),
        })
    }
}
