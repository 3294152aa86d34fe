//! The states of all results of a reduction.

use super::number::Number;
use super::states::State;
use super::{Accumulate, Reduction, ReductionKind};
use crate::block::{Block, Tick};
use crate::dtype::Dtype;
use crate::selection::{Part, strides};
use crate::values::Values;
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;

/// The number of values that are read from a row at once, to save memory.
const RUN_VALUES: u64 = 4096;

/// The states of the results of a selection, in C order of the axes that are not reduced.
pub struct Accumulator<V, S> {
    reduction: Reduction,
    dtype: Dtype,
    axes: Axes,
    states: Vec<S>,
    /// Values of a row; kept for its memory.
    values: Vec<V>,
}

/// How an element's index in a selection gives its result and its position among the reduced axes.
struct Axes {
    counts: Vec<u64>,
    /// 0 for a reduced axis.
    result_strides: Vec<u64>,
    /// 0 for the other axes.
    position_strides: Vec<u64>,
    results: u64,
}

impl Axes {
    fn new(counts: &[u64], reduced: &[bool]) -> Axes {
        // The strides of the axes for which `counts_in` holds, and the number of their elements.
        let select = |counts_in: bool| {
            let lens: Vec<u64> = counts
                .iter()
                .zip(reduced)
                .map(|(count, reduced)| if *reduced == counts_in { *count } else { 1 })
                .collect();
            let mut strides = strides(&lens);
            for (stride, reduced) in strides.iter_mut().zip(reduced) {
                if *reduced != counts_in {
                    *stride = 0;
                }
            }
            (strides, lens.iter().fold(1u64, |product, len| product.saturating_mul(*len)))
        };
        let (result_strides, results) = select(false);
        let (position_strides, _) = select(true);
        Axes { counts: counts.to_vec(), result_strides, position_strides, results }
    }

    fn offset(strides: &[u64], first: &[u64], indexes: &[u64]) -> u64 {
        strides.iter().zip(first).zip(indexes).map(|((stride, first), index)| stride * (first + index)).sum()
    }

    /// Translates an offset with our strides into one with those of a larger selection, in which ours
    /// begins at `first`.
    fn translate(&self, ours: &[u64], theirs: &[u64], first: &[u64], offset: u64) -> u64 {
        let axes = ours.iter().zip(theirs).zip(first).zip(&self.counts);
        let along = |(((ours, theirs), first), count): (((&u64, &u64), &u64), &u64)| match ours {
            0 => 0,
            ours => (first + offset / ours % count) * theirs,
        };
        axes.map(along).sum()
    }
}

impl<V: Number, S: State<V>> Accumulator<V, S> {
    pub fn new(reduction: &Reduction, dtype: Dtype, counts: &[u64]) -> Accumulator<V, S> {
        let axes = Axes::new(counts, &reduction.reduced.0);
        let states = vec![S::empty(reduction); axes.results as usize];
        Accumulator { reduction: reduction.clone(), dtype, axes, states, values: Vec::new() }
    }
}

impl<V: Number, S: State<V>> Accumulate for Accumulator<V, S> {
    fn add(&mut self, block: &Block, part: &Part, tick: Tick<'_>) -> Result<()> {
        let Accumulator { reduction, axes, states, values, .. } = self;
        let Axes { counts, result_strides, position_strides, .. } = &*axes;
        let fits =
            part.slices.iter().zip(&part.first).zip(counts).all(|((slice, first), count)| {
                first.checked_add(slice.count).is_some_and(|end| end <= *count)
            });
        if !fits || part.slices.len() != counts.len() {
            return Err(Error::new(ErrorKind::Internal, "a block is not in the selection"));
        }
        let result_step = result_strides.last().copied().unwrap_or(0);
        let position_step = position_strides.last().copied().unwrap_or(0);
        block.rows(&part.slices, tick, |row, indexes, tick| {
            let mut result = Axes::offset(result_strides, &part.first, indexes) as usize;
            let mut position = Axes::offset(position_strides, &part.first, indexes);
            for (index, run) in row.runs(RUN_VALUES as usize).enumerate() {
                if index > 0 {
                    tick()?;
                }
                values.clear();
                V::read(&run, reduction.decoding.as_ref(), values);
                if result_step == 0 {
                    states[result].add_run(reduction, values, position, position_step);
                    position += RUN_VALUES * position_step;
                } else {
                    for (state, value) in states[result..].iter_mut().zip(&*values) {
                        state.add(reduction, *value, position);
                    }
                    result += RUN_VALUES as usize;
                }
            }
            Ok(())
        })
    }

    fn merge(&mut self, states: &[u8], counts: &[u64], first: &[u64]) -> Result<()> {
        let part = Axes::new(counts, &self.reduction.reduced.0);
        let states = Vec::<S>::decode(states).ok().filter(|states| states.len() as u64 == part.results);
        let states = states.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the output of the class array does not have the requested states",
            )
        })?;
        for (index, mut state) in (0..).zip(states) {
            let ours = part.translate(&part.result_strides, &self.axes.result_strides, first, index);
            state.move_position(&|position| {
                part.translate(&part.position_strides, &self.axes.position_strides, first, position)
            });
            self.states[ours as usize].merge(&self.reduction, &state);
        }
        Ok(())
    }

    fn encode(&self) -> Bytes {
        self.states.encode()
    }

    fn finish(&self) -> Result<Values> {
        let kept = self.axes.counts.iter().zip(&self.reduction.reduced.0).filter(|(_, reduced)| !**reduced);
        let mut shape: Vec<u64> = kept.map(|(count, _)| *count).collect();
        if let ReductionKind::Histogram { edges } = &self.reduction.kind {
            shape.push(edges.0.len() as u64 - 1);
        }
        let has_nothing = self
            .axes
            .counts
            .iter()
            .zip(&self.reduction.reduced.0)
            .any(|(count, reduced)| *reduced && *count == 0);
        if has_nothing && !self.states.is_empty() && self.reduction.is_extreme() {
            return Err(super::states::no_value());
        }
        let dtype = self.reduction.result_dtype(self.dtype);
        let mut values = Values { dtype, shape, data: Vec::new() };
        self.states.iter().try_for_each(|state| state.finish(&self.reduction, &mut values))?;
        Ok(values)
    }
}
