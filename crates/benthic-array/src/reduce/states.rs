//! The states of one result, by kind of reduction.

use super::number::{Bits, Number};
use super::{Reduction, ReductionKind};
use crate::dtype::NumberKind;
use crate::values::Values;
use benthic_core::codec::{Decoded, Decoder, Wire};
use benthic_core::{Error, Result, wire_struct};

/// The state of one result over numbers of the type `V`.
pub trait ReductionState<V: Number>: Clone + Wire + Send + 'static {
    fn empty(reduction: &Reduction) -> Self;

    /// Adds a value. `position` is its position among the reduced axes.
    fn add(&mut self, reduction: &Reduction, value: V, position: u64);

    /// Adds values at positions that begin with `position` and have the distance `step`.
    fn add_run(&mut self, reduction: &Reduction, values: &[V], position: u64, step: u64) {
        for (index, value) in (0..).zip(values) {
            self.add(reduction, *value, position + index * step);
        }
    }

    fn merge(&mut self, reduction: &Reduction, other: &Self);

    /// Translates the position in the state, before it is merged into the states of a larger
    /// selection.
    fn move_position(&mut self, translate: &dyn Fn(u64) -> u64) {
        let _ = translate;
    }

    /// Appends the result.
    ///
    /// # Errors
    /// `InvalidArgument` for the minimum or maximum of no values.
    fn finish(&self, reduction: &Reduction, values: &mut Values) -> Result<()>;
}

fn is_skipped<V: Number>(reduction: &Reduction, value: V) -> bool {
    reduction.skip_nan && value.is_nan()
}

/// The number of values.
#[derive(Clone)]
pub struct Count {
    count: u64,
}

wire_struct! { Count { count } }

impl<V: Number> ReductionState<V> for Count {
    fn empty(_: &Reduction) -> Count {
        Count { count: 0 }
    }

    fn add(&mut self, _: &Reduction, value: V, _: u64) {
        self.count += u64::from(!value.is_nan());
    }

    fn merge(&mut self, _: &Reduction, other: &Count) {
        self.count = self.count.saturating_add(other.count);
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        values.push_integer(self.count);
        Ok(())
    }
}

/// A compensated sum.
#[derive(Clone, Copy, Default)]
pub struct FloatSum {
    sum: f64,
    /// The sum of the rounding errors of `sum`.
    error: f64,
    pub(super) count: u64,
}

wire_struct! { FloatSum { sum, error, count } }

/// Up to 4,096 values are added in this many sums, so that a processor adds several at once.
const LANES: usize = 8;

/// Returns the rounded sum and its error (Knuth's TwoSum, which needs no comparison).
#[inline]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let from_b = sum - a;
    (sum, (a - (sum - from_b)) + (b - from_b))
}

impl FloatSum {
    fn of(reduction: &Reduction, values: &[f64]) -> FloatSum {
        let mut lanes = [FloatSum::default(); LANES];
        let groups = values.chunks_exact(LANES);
        for (lane, value) in lanes.iter_mut().zip(groups.remainder()) {
            lane.add_value(reduction, *value);
        }
        for group in groups {
            for (lane, value) in lanes.iter_mut().zip(group) {
                lane.add_value(reduction, *value);
            }
        }
        let mut total = FloatSum::default();
        lanes.iter().for_each(|lane| total.plus(lane));
        total
    }

    /// Has no branch, because this is the inner loop of most reductions.
    #[inline]
    fn add_value(&mut self, reduction: &Reduction, value: f64) {
        let skip = is_skipped(reduction, value);
        let (sum, error) = two_sum(self.sum, if skip { 0.0 } else { value });
        self.sum = sum;
        self.error += error;
        self.count = self.count.wrapping_add(u64::from(!skip));
    }

    fn plus(&mut self, other: &FloatSum) {
        let (sum, error) = two_sum(self.sum, other.sum);
        *self = FloatSum {
            sum,
            error: self.error + other.error + error,
            count: self.count.saturating_add(other.count),
        };
    }

    /// The error of an infinite sum is NaN and means nothing.
    pub(super) fn value(&self) -> f64 {
        if self.sum.is_finite() { self.sum + self.error } else { self.sum }
    }
}

impl ReductionState<f64> for FloatSum {
    fn empty(_: &Reduction) -> FloatSum {
        FloatSum::default()
    }

    fn add(&mut self, reduction: &Reduction, value: f64, _: u64) {
        self.add_value(reduction, value);
    }

    fn add_run(&mut self, reduction: &Reduction, values: &[f64], _: u64, _: u64) {
        self.plus(&FloatSum::of(reduction, values));
    }

    fn merge(&mut self, _: &Reduction, other: &FloatSum) {
        self.plus(other);
    }

    fn finish(&self, reduction: &Reduction, values: &mut Values) -> Result<()> {
        let sum = self.value();
        values.push_f64(if reduction.kind == (ReductionKind::Mean {}) {
            sum / self.count as f64
        } else {
            sum
        });
        Ok(())
    }
}

/// An exact sum: there are fewer than 2⁶⁴ values, so their sum has fewer than 128 bits.
#[derive(Clone)]
pub struct IntSum {
    low_bits: u64,
    high_bits: u64,
    pub(super) count: u64,
}

wire_struct! { IntSum { low_bits, high_bits, count } }

impl IntSum {
    pub(super) fn sum(&self) -> i128 {
        (u128::from(self.high_bits) << 64 | u128::from(self.low_bits)).cast_signed()
    }

    fn plus(&mut self, sum: i128, count: u64) {
        let sum = self.sum().wrapping_add(sum).cast_unsigned();
        (self.low_bits, self.high_bits) = (sum as u64, (sum >> 64) as u64);
        self.count = self.count.saturating_add(count);
    }
}

impl<V: Number> ReductionState<V> for IntSum {
    fn empty(_: &Reduction) -> IntSum {
        IntSum { low_bits: 0, high_bits: 0, count: 0 }
    }

    fn add(&mut self, _: &Reduction, value: V, _: u64) {
        self.plus(value.to_i128(), 1);
    }

    fn add_run(&mut self, _: &Reduction, values: &[V], _: u64, _: u64) {
        self.plus(values.iter().map(|value| value.to_i128()).sum(), values.len() as u64);
    }

    fn merge(&mut self, _: &Reduction, other: &IntSum) {
        self.plus(other.sum(), other.count);
    }

    fn finish(&self, reduction: &Reduction, values: &mut Values) -> Result<()> {
        if reduction.kind == (ReductionKind::Mean {}) {
            values.push_f64(self.sum() as f64 / self.count as f64);
        } else {
            values.push_integer(self.low_bits);
        }
        Ok(())
    }
}

/// A product of floats, in the order of the values.
#[derive(Clone)]
pub struct FloatProduct {
    product: f64,
}

wire_struct! { FloatProduct { product } }

impl ReductionState<f64> for FloatProduct {
    fn empty(_: &Reduction) -> FloatProduct {
        FloatProduct { product: 1.0 }
    }

    fn add(&mut self, reduction: &Reduction, value: f64, _: u64) {
        if !is_skipped(reduction, value) {
            self.product *= value;
        }
    }

    fn merge(&mut self, _: &Reduction, other: &FloatProduct) {
        self.product *= other.product;
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        values.push_f64(self.product);
        Ok(())
    }
}

/// A product of integers, modulo 2⁶⁴.
#[derive(Clone)]
pub struct IntProduct {
    product: u64,
}

wire_struct! { IntProduct { product } }

impl<V: Number> ReductionState<V> for IntProduct {
    fn empty(_: &Reduction) -> IntProduct {
        IntProduct { product: 1 }
    }

    fn add(&mut self, _: &Reduction, value: V, _: u64) {
        self.product = self.product.wrapping_mul(value.bits());
    }

    fn merge(&mut self, _: &Reduction, other: &IntProduct) {
        self.product = self.product.wrapping_mul(other.product);
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        values.push_integer(self.product);
        Ok(())
    }
}

/// The error for the minimum or maximum of no values.
pub fn no_value() -> Error {
    let message =
        "no value to take the minimum or maximum of; the selection is empty, or all its values are missing";
    Error::invalid_argument(message)
}

/// The minimum or maximum, and its first position. A NaN that is not skipped is both.
#[derive(Clone)]
pub struct Extreme<V: Number> {
    best: Option<(Bits<V>, u64)>,
}

impl<V: Number> Wire for Extreme<V> {
    fn put(&self, out: &mut Vec<u8>) {
        self.best.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Extreme<V>> {
        Ok(Extreme { best: Wire::get(input)? })
    }
}

impl<V: Number> Extreme<V> {
    fn take(&mut self, reduction: &Reduction, value: V, position: u64) {
        let Some((Bits(old), old_position)) = self.best else {
            self.best = Some((Bits(value), position));
            return;
        };
        let is_smallest = reduction.finds_minimum();
        let is_better = match (value.is_nan(), old.is_nan()) {
            (true, true) => position < old_position,
            (is_nan, false) if is_nan => true,
            (false, true) => false,
            _ if value == old => position < old_position,
            _ => (value < old) == is_smallest,
        };
        if is_better {
            self.best = Some((Bits(value), position));
        }
    }
}

impl<V: Number> ReductionState<V> for Extreme<V> {
    fn empty(_: &Reduction) -> Extreme<V> {
        Extreme { best: None }
    }

    fn add(&mut self, reduction: &Reduction, value: V, position: u64) {
        if !is_skipped(reduction, value) {
            self.take(reduction, value, position);
        }
    }

    /// Takes only the best value of the run.
    fn add_run(&mut self, reduction: &Reduction, values: &[V], position: u64, step: u64) {
        let is_smallest = reduction.finds_minimum();
        let mut kept = (0..).zip(values).filter(|(_, value)| !is_skipped(reduction, **value));
        let Some(mut best) = kept.next() else { return };
        for (index, value) in kept {
            // Both comparisons are false if one value is NaN.
            let is_better = if is_smallest { *value < *best.1 } else { *value > *best.1 };
            if is_better || (value.is_nan() && !best.1.is_nan()) {
                best = (index, value);
            }
        }
        self.take(reduction, *best.1, position + best.0 * step);
    }

    fn merge(&mut self, reduction: &Reduction, other: &Extreme<V>) {
        if let Some((Bits(value), position)) = other.best {
            self.take(reduction, value, position);
        }
    }

    fn move_position(&mut self, translate: &dyn Fn(u64) -> u64) {
        if let Some((_, position)) = &mut self.best {
            *position = translate(*position);
        }
    }

    fn finish(&self, reduction: &Reduction, values: &mut Values) -> Result<()> {
        let is_value = matches!(reduction.kind, ReductionKind::Min {} | ReductionKind::Max {});
        match self.best {
            Some((Bits(value), _)) if is_value => value.push_to(values),
            Some((_, position)) => values.push_integer(position),
            None if is_value && values.dtype.number_kind() == NumberKind::Float => {
                values.push_f64(f64::NAN);
            }
            None => return Err(no_value()),
        }
        Ok(())
    }
}

/// The sum, and the sum of the squared deviations from the mean.
#[derive(Clone)]
pub struct Moments {
    sum: FloatSum,
    squares: f64,
}

wire_struct! { Moments { sum, squares } }

impl FloatSum {
    /// The mean, as a rounded number and the rest. The difference of two means that are large and
    /// close needs the rest.
    fn mean(&self) -> (f64, f64) {
        let count = self.count as f64;
        let mean = self.value() / count;
        (mean, (mean.mul_add(-count, self.sum) + self.error) / count)
    }
}

impl Moments {
    fn plus(&mut self, sum: FloatSum, squares: f64) {
        if sum.count == 0 {
            return;
        }
        if self.sum.count > 0 {
            let ((ours, ours_rest), (theirs, theirs_rest)) = (self.sum.mean(), sum.mean());
            let difference = (theirs - ours) + (theirs_rest - ours_rest);
            let (ours, theirs) = (self.sum.count as f64, sum.count as f64);
            self.squares += difference * difference * (ours * (theirs / (ours + theirs)));
        }
        self.squares += squares;
        self.sum.plus(&sum);
    }
}

impl<V: Number> ReductionState<V> for Moments {
    fn empty(_: &Reduction) -> Moments {
        Moments { sum: FloatSum::default(), squares: 0.0 }
    }

    fn add(&mut self, reduction: &Reduction, value: V, _: u64) {
        if !is_skipped(reduction, value) {
            self.plus(FloatSum { sum: value.to_f64(), error: 0.0, count: 1 }, 0.0);
        }
    }

    /// Computes the mean of the run first, so that the deviations from it are small.
    fn add_run(&mut self, reduction: &Reduction, values: &[V], _: u64, _: u64) {
        let values: Vec<f64> = values.iter().map(|value| value.to_f64()).collect();
        let sum = FloatSum::of(reduction, &values);
        let (mean, _) = sum.mean();
        let squares: Vec<f64> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
        self.plus(sum, FloatSum::of(reduction, &squares).value());
    }

    fn merge(&mut self, _: &Reduction, other: &Moments) {
        self.plus(other.sum, other.squares);
    }

    fn finish(&self, reduction: &Reduction, values: &mut Values) -> Result<()> {
        let (ddof, is_std) = match reduction.kind {
            ReductionKind::Std { ddof } => (ddof, true),
            ReductionKind::Variance { ddof } => (ddof, false),
            _ => (0, false),
        };
        let divisor = self.sum.count as f64 - f64::from(ddof);
        // The squares of an infinite value are not a number.
        let is_finite = self.sum.sum.is_finite() || self.sum.count == 0;
        let variance = if divisor > 0.0 && is_finite { self.squares / divisor } else { f64::NAN };
        values.push_f64(if is_std { variance.sqrt() } else { variance });
        Ok(())
    }
}

/// Whether any or all values are not zero.
#[derive(Clone)]
pub struct Flag {
    flag: bool,
}

wire_struct! { Flag { flag } }

impl Flag {
    fn combine(&mut self, reduction: &Reduction, other: bool) {
        let is_any = reduction.kind == (ReductionKind::Any {});
        self.flag = if is_any { self.flag || other } else { self.flag && other };
    }
}

impl<V: Number> ReductionState<V> for Flag {
    fn empty(reduction: &Reduction) -> Flag {
        Flag { flag: reduction.kind == (ReductionKind::All {}) }
    }

    fn add(&mut self, reduction: &Reduction, value: V, _: u64) {
        if !is_skipped(reduction, value) {
            self.combine(reduction, value != V::ZERO);
        }
    }

    fn merge(&mut self, reduction: &Reduction, other: &Flag) {
        self.combine(reduction, other.flag);
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        values.push_integer(self.flag.into());
        Ok(())
    }
}

/// The bins of a histogram.
#[derive(Clone)]
pub struct Bins {
    counts: Vec<u64>,
}

wire_struct! { Bins { counts } }

fn edges(reduction: &Reduction) -> &[f64] {
    if let ReductionKind::Histogram { edges } = &reduction.kind { &edges.0 } else { &[] }
}

impl<V: Number> ReductionState<V> for Bins {
    fn empty(reduction: &Reduction) -> Bins {
        Bins { counts: vec![0; edges(reduction).len().saturating_sub(1)] }
    }

    fn add(&mut self, reduction: &Reduction, value: V, _: u64) {
        let (edges, value) = (edges(reduction), value.to_f64());
        let after = edges.partition_point(|edge| *edge <= value);
        // The last bin includes its upper edge.
        let is_last_edge = edges.last() == Some(&value);
        let bin = if is_last_edge { after.checked_sub(2) } else { after.checked_sub(1) };
        // There is no bin for values outside and NaN.
        if let Some(count) = bin.and_then(|bin| self.counts.get_mut(bin)) {
            *count += 1;
        }
    }

    fn merge(&mut self, _: &Reduction, other: &Bins) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*other);
        }
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        self.counts.iter().for_each(|count| values.push_integer(*count));
        Ok(())
    }
}

/// The range of the values, and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub min: f64,
    pub max: f64,
    pub values: u64,
    /// The number of NaN.
    pub missing: u64,
}

wire_struct! { Summary { min, max, values, missing } }

impl<V: Number> ReductionState<V> for Summary {
    fn empty(_: &Reduction) -> Summary {
        Summary { min: f64::INFINITY, max: f64::NEG_INFINITY, values: 0, missing: 0 }
    }

    fn add(&mut self, _: &Reduction, value: V, _: u64) {
        if value.is_nan() {
            self.missing += 1;
            return;
        }
        // Adding 0 makes one zero of both, so that their order changes no bit.
        let value = value.to_f64() + 0.0;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.values += 1;
    }

    fn merge(&mut self, _: &Reduction, other: &Summary) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.values = self.values.saturating_add(other.values);
        self.missing = self.missing.saturating_add(other.missing);
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        let counts = [self.values as f64, self.missing as f64];
        [self.min, self.max].into_iter().chain(counts).for_each(|number| values.push_f64(number));
        Ok(())
    }
}
