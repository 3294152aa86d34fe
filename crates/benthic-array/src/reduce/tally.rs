//! Reductions of one chunk that also count the values, for servers of other protocols.
//!
//! A [`Reduction`] with missing values computes in floats. A tally compares elements with the
//! missing ones in their own type and skips them, so sums and extremes of 64-bit integers stay
//! exact. Its results need no merging.

use super::number::Number;
use super::states::{FloatSum, IntSum, ReductionState};
use super::{MISSING_MAX, Reduction, ReductionKind, STATE_BYTES_MAX};
use crate::block::{Block, Tick};
use crate::dtype::{Dtype, Element, NumberKind, with_element};
use crate::selection::{Bounded, Part, PerAxis, Slice, strides};
use crate::values::Values;
use benthic_core::codec::Wire;
use benthic_core::{Error, Result, wire_enum, wire_struct};
use bytes::Bytes;

/// The number of values that are read from a row at once, to save memory.
const RUN_VALUES: usize = 4096;

/// The result that a tally computes of the values that are not missing. A NaN makes sums, minima
/// and maxima NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TallyKind {
    Count {},
    Sum {},
    Min {},
    Max {},
}

/// The values that a tally skips. Elements are in the array's type, little-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    pub values: Bounded<Bytes, MISSING_MAX>,
    /// Lesser values are missing. NaN is not less.
    pub min: Option<Bytes>,
    /// Greater values are missing.
    pub max: Option<Bytes>,
}

/// A reduction of the selected elements of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub kind: TallyKind,
    /// Whether an axis is reduced. The results have the others.
    pub reduced: PerAxis<bool>,
    pub missing: Missing,
}

wire_struct! {
    Missing { values, min, max }
    Tally { kind, reduced, missing }
}

wire_enum! {
    TallyKind {
        0 Count {}
        1 Sum {}
        2 Min {}
        3 Max {}
    }
}

impl Missing {
    fn check(&self, dtype: Dtype) -> Result<()> {
        let size_bytes = dtype.size_bytes();
        if self.values.0.len() > MISSING_MAX {
            return Err(Error::limit_exceeded("there are too many missing values")
                .with("missing", self.values.0.len())
                .with("missing_max", MISSING_MAX));
        }
        let elements = self.values.0.iter().chain(&self.min).chain(&self.max);
        match elements.map(Bytes::len).all(|len| len == size_bytes) {
            true => Ok(()),
            false => Err(Error::invalid_argument("a missing value does not have the size of an element")),
        }
    }

    /// Tells for each element whether it is a value. The elements must have this type.
    pub fn are_values(&self, dtype: Dtype, elements: &[u8]) -> Vec<bool> {
        fn are_values<T: Element>(missing: &Missing, elements: &[u8]) -> Vec<bool> {
            let missing = Skipped::of(missing, T::from_le);
            elements.chunks_exact(T::SIZE_BYTES).map(|element| !missing.has(T::from_le(element))).collect()
        }
        with_element!(dtype, are_values::<_>(self, elements))
    }
}

/// The values to skip, decoded.
struct Skipped<V> {
    values: Vec<V>,
    min: Option<V>,
    max: Option<V>,
}

impl<V: Copy + PartialOrd> Skipped<V> {
    fn of(missing: &Missing, decode: impl Fn(&[u8]) -> V) -> Skipped<V> {
        Skipped {
            values: missing.values.0.iter().map(|value| decode(value)).collect(),
            min: missing.min.as_deref().map(&decode),
            max: missing.max.as_deref().map(&decode),
        }
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.min.is_none() && self.max.is_none()
    }

    fn has(&self, value: V) -> bool {
        self.values.contains(&value)
            || self.min.is_some_and(|min| value < min)
            || self.max.is_some_and(|max| value > max)
    }
}

/// The minimum or maximum, and the number of values.
#[derive(Clone)]
struct CountedExtreme {
    bits: u64,
    count: u64,
}

wire_struct! { CountedExtreme { bits, count } }

impl<V: Number> ReductionState<V> for CountedExtreme {
    fn empty(_: &Reduction) -> CountedExtreme {
        CountedExtreme { bits: V::ZERO.bits(), count: 0 }
    }

    fn add(&mut self, reduction: &Reduction, value: V, _: u64) {
        let old = V::from_bits(self.bits);
        let is_kept = self.count > 0
            && (old.is_nan() || if reduction.finds_minimum() { old <= value } else { old >= value });
        self.count += 1;
        if !is_kept {
            self.bits = value.bits();
        }
    }

    /// Keeps the best value of the run in a register.
    fn add_run(&mut self, reduction: &Reduction, values: &[V], _: u64, _: u64) {
        let Some((first, rest)) = values.split_first() else { return };
        let is_smallest = reduction.finds_minimum();
        let mut best = *first;
        for value in rest {
            let is_better = if is_smallest { *value < best } else { *value > best };
            // Once the best is NaN, no comparison is true.
            if is_better || value.is_nan() {
                best = *value;
            }
        }
        self.add(reduction, best, 0);
        self.count += rest.len() as u64;
    }

    fn merge(&mut self, reduction: &Reduction, other: &CountedExtreme) {
        if other.count > 0 {
            self.add(reduction, V::from_bits(other.bits), 0);
            self.count = self.count.saturating_add(other.count - 1);
        }
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        V::from_bits(self.bits).push_to(values);
        Ok(())
    }
}

/// The states of the results of a chunk.
pub(crate) trait TallyStates {
    /// Adds the elements of a decoded block, which must lie in the selection.
    fn add(&mut self, block: &Block, part: &Part, tick: Tick<'_>) -> Result<()>;

    fn encode(&self) -> Bytes;
}

struct States<'t, V, S> {
    reduction: Reduction,
    tally: &'t Tally,
    missing: Skipped<V>,
    counts: Vec<u64>,
    /// Distance of the results of two neighbours along an axis. 0 for a reduced axis.
    strides: Vec<u64>,
    states: Vec<S>,
    /// Values of a row; kept for its memory.
    values: Vec<V>,
}

impl<V: Number, S: ReductionState<V>> TallyStates for States<'_, V, S> {
    fn add(&mut self, block: &Block, part: &Part, tick: Tick<'_>) -> Result<()> {
        let States { reduction, tally, missing, counts, strides, states, values } = self;
        part.check_within(counts)?;
        let is_row_reduced = tally.reduced.0.last().copied().unwrap_or(true);
        block.rows(&part.slices, tick, |row, indexes, tick| {
            let places = strides.iter().zip(&part.first).zip(indexes);
            let mut at =
                places.map(|((stride, first), index)| stride * (first + index)).sum::<u64>() as usize;
            for (index, run) in row.runs(RUN_VALUES).enumerate() {
                if index > 0 {
                    tick()?;
                }
                values.clear();
                V::read(&run, None, values);
                if is_row_reduced {
                    if !missing.is_empty() {
                        values.retain(|value| !missing.has(*value));
                    }
                    states[at].add_run(reduction, values, 0, 0);
                    continue;
                }
                for (state, value) in states[at..].iter_mut().zip(&*values) {
                    if !missing.has(*value) {
                        state.add(reduction, *value, 0);
                    }
                }
                at += values.len();
            }
            Ok(())
        })
    }

    fn encode(&self) -> Bytes {
        self.states.encode()
    }
}

/// The results of a tally, in C order.
#[derive(Debug, PartialEq, Eq)]
pub struct Tallied {
    /// Of the array's type, or int64 for counts. The minimum of no values is the largest number of
    /// the type, and the maximum the smallest.
    pub values: Values,
    /// The number of values of each result.
    pub counts: Vec<u64>,
}

impl Tally {
    /// Checks a tally of a selection with these counts.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, dtype: Dtype, counts: &[u64]) -> Result<()> {
        if self.reduced.0.len() != counts.len() {
            return Err(Error::invalid_argument("a tally must state for each axis whether it is reduced"));
        }
        self.missing.check(dtype)
    }

    /// The size of an encoded state.
    pub fn state_record_bytes(&self) -> usize {
        match self.kind {
            TallyKind::Count {} => 8,
            TallyKind::Sum {} => 24,
            TallyKind::Min {} | TallyKind::Max {} => 16,
        }
    }

    /// The size of the states of a selection with these counts. Saturates.
    pub fn state_bytes(&self, counts: &[u64]) -> u64 {
        let record_bytes = self.state_record_bytes() as u64;
        self.result_shape(counts).iter().fold(record_bytes, |product, len| product.saturating_mul(*len))
    }

    /// The shape of the results of a selection with these counts.
    pub fn result_shape(&self, counts: &[u64]) -> Vec<u64> {
        let kept = self.reduced.0.iter().zip(counts).filter(|(is_reduced, _)| !**is_reduced);
        kept.map(|(_, count)| *count).collect()
    }

    /// Empty states for a selection with these counts.
    ///
    /// # Errors
    /// `LimitExceeded` if the states need too much memory.
    pub(crate) fn states(&self, dtype: Dtype, counts: &[u64]) -> Result<Box<dyn TallyStates + '_>> {
        if self.state_bytes(counts) > STATE_BYTES_MAX {
            return Err(Error::limit_exceeded("the result of the reduction is too large")
                .with("state_bytes", self.state_bytes(counts))
                .with("state_bytes_max", STATE_BYTES_MAX));
        }
        Ok(match dtype.number_kind() {
            NumberKind::Float => self.of_numbers::<f64, FloatSum>(dtype, counts),
            NumberKind::Signed => self.of_numbers::<i64, IntSum>(dtype, counts),
            NumberKind::Unsigned => self.of_numbers::<u64, IntSum>(dtype, counts),
        })
    }

    fn of_numbers<V: Number, Sum: ReductionState<V>>(
        &self,
        dtype: Dtype,
        counts: &[u64],
    ) -> Box<dyn TallyStates + '_> {
        match self.kind {
            TallyKind::Count {} => Box::new(self.of_state::<V, ValueCount>(dtype, counts)),
            TallyKind::Sum {} => Box::new(self.of_state::<V, Sum>(dtype, counts)),
            TallyKind::Min {} | TallyKind::Max {} => {
                Box::new(self.of_state::<V, CountedExtreme>(dtype, counts))
            }
        }
    }

    fn of_state<V: Number, S: ReductionState<V>>(&self, dtype: Dtype, counts: &[u64]) -> States<'_, V, S> {
        let reduction = self.reduction();
        let shape = self.result_shape(counts);
        let mut kept = strides(&shape).into_iter();
        let strides = self.reduced.0.iter().map(|is_reduced| match is_reduced {
            true => 0,
            false => kept.next().unwrap_or(0),
        });
        States {
            tally: self,
            missing: Skipped::of(&self.missing, |element| number(dtype, element)),
            counts: counts.to_vec(),
            strides: strides.collect(),
            states: vec![S::empty(&reduction); shape.iter().product::<u64>() as usize],
            reduction,
            values: Vec::new(),
        }
    }

    /// The properties of the reduction that its states use.
    fn reduction(&self) -> Reduction {
        let kind = match self.kind {
            TallyKind::Count {} => ReductionKind::Count {},
            TallyKind::Sum {} => ReductionKind::Sum {},
            TallyKind::Min {} => ReductionKind::Min {},
            TallyKind::Max {} => ReductionKind::Max {},
        };
        Reduction { kind, axes: Bounded::default(), skip_nan: false, decoding: None }
    }

    /// Decodes the states that the class or the client computed for a selection with these counts.
    ///
    /// # Errors
    /// `InvalidArgument` if the sum of integers does not fit the array's type; `Internal` for other
    /// states.
    pub fn finish(&self, states: &[u8], dtype: Dtype, counts: &[u64]) -> Result<Tallied> {
        let shape = self.result_shape(counts);
        let len = shape.iter().fold(1, |product: u64, len| product.saturating_mul(*len));
        let result = if self.kind == (TallyKind::Count {}) { Dtype::Int64 } else { dtype };
        let mut tallied =
            Tallied { values: Values { dtype: result, shape, data: Vec::new() }, counts: Vec::new() };
        match (self.kind, dtype.number_kind()) {
            (TallyKind::Count {}, _) => {
                let counts = decode::<ValueCount>(states, len)?;
                tallied.counts = counts.into_iter().map(|state| state.count).collect();
                tallied.counts.iter().for_each(|count| tallied.values.push_integer(*count));
            }
            (TallyKind::Sum {}, NumberKind::Float) => {
                for sum in decode::<FloatSum>(states, len)? {
                    tallied.counts.push(sum.count);
                    tallied.values.push_f64(sum.value());
                }
            }
            (TallyKind::Sum {}, _) => {
                let (min, max) = integer_range(dtype);
                for sum in decode::<IntSum>(states, len)? {
                    if !(min..=max).contains(&sum.sum()) {
                        let message = "a sum of integers does not fit the type of the elements";
                        return Err(Error::invalid_argument(message)
                            .with("dtype", dtype)
                            .with("sum", sum.sum()));
                    }
                    tallied.counts.push(sum.count);
                    tallied.values.push_integer(sum.sum() as u64);
                }
            }
            (TallyKind::Min {} | TallyKind::Max {}, kind) => {
                let is_minimum = self.kind == (TallyKind::Min {});
                let none = none_bits(dtype, is_minimum);
                for extreme in decode::<CountedExtreme>(states, len)? {
                    let bits = if extreme.count == 0 { none } else { extreme.bits };
                    tallied.counts.push(extreme.count);
                    match kind {
                        NumberKind::Float => tallied.values.push_f64(f64::from_bits(bits)),
                        _ => tallied.values.push_integer(bits),
                    }
                }
            }
        }
        Ok(tallied)
    }
}

/// The number of values. A NaN counts.
#[derive(Clone)]
struct ValueCount {
    count: u64,
}

wire_struct! { ValueCount { count } }

impl<V: Number> ReductionState<V> for ValueCount {
    fn empty(_: &Reduction) -> ValueCount {
        ValueCount { count: 0 }
    }

    fn add(&mut self, _: &Reduction, _: V, _: u64) {
        self.count += 1;
    }

    fn add_run(&mut self, _: &Reduction, values: &[V], _: u64, _: u64) {
        self.count += values.len() as u64;
    }

    fn merge(&mut self, _: &Reduction, other: &ValueCount) {
        self.count = self.count.saturating_add(other.count);
    }

    fn finish(&self, _: &Reduction, values: &mut Values) -> Result<()> {
        values.push_integer(self.count);
        Ok(())
    }
}

fn number<V: Number>(dtype: Dtype, element: &[u8]) -> V {
    let block = Block { dtype, data: Bytes::copy_from_slice(element), strides: vec![1] };
    let mut numbers = Vec::new();
    let read = block.rows(&[Slice::all(1)], &mut || Ok(()), |row, _, _| {
        V::read(&row, None, &mut numbers);
        Ok(())
    });
    debug_assert!(read.is_ok(), "reading memory does not fail");
    numbers.first().copied().unwrap_or(V::ZERO)
}

fn decode<S: Wire>(states: &[u8], len: u64) -> Result<Vec<S>> {
    let states = Vec::<S>::decode(states).ok().filter(|states| states.len() as u64 == len);
    states.ok_or_else(|| Error::internal("the output of the class array does not have the requested states"))
}

/// The range of an integer type.
fn integer_range(dtype: Dtype) -> (i128, i128) {
    let bits = 8 * dtype.size_bytes() as u32;
    match dtype.number_kind() {
        NumberKind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The minimum or maximum of no values, as [`Number::bits`].
fn none_bits(dtype: Dtype, is_minimum: bool) -> u64 {
    let largest = match dtype {
        Dtype::Float32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    match dtype.number_kind() {
        NumberKind::Float => (if is_minimum { largest } else { -largest }).to_bits(),
        _ => {
            let (min, max) = integer_range(dtype);
            (if is_minimum { max } else { min }) as u64
        }
    }
}
