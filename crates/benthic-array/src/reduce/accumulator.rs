//! The states of all results of a reduction.

use super::axes::{Axes, AxisRole, Groups};
use super::mask::{Mask, MaskRows};
use super::number::Number;
use super::states::ReductionState;
use super::{Accumulate, Reduction, ReductionKind};
use crate::block::{Block, Tick};
use crate::dtype::Dtype;
use crate::selection::Part;
use crate::values::Values;
use benthic_core::codec::Wire;
use benthic_core::{Error, Result};
use bytes::Bytes;

/// The number of values that are read from a row at once, to save memory.
const RUN_VALUES: u64 = 4096;

/// A shorter run of values in a group is added value by value.
const GROUP_RUN_VALUES: usize = 16;

/// The states of the results of a selection, in C order.
pub struct Accumulator<V, S> {
    reduction: Reduction,
    dtype: Dtype,
    axes: Axes,
    states: Vec<S>,
    /// Values of a row; kept for its memory.
    values: Vec<V>,
}

impl<V: Number, S: ReductionState<V>> Accumulator<V, S> {
    pub fn new(reduction: &Reduction, dtype: Dtype, counts: &[u64]) -> Accumulator<V, S> {
        let axes = Axes::new(&reduction.axes.0, counts);
        let states = vec![S::empty(reduction); axes.results() as usize];
        Accumulator { reduction: reduction.clone(), dtype, axes, states, values: Vec::new() }
    }
}

impl<V: Number, S: ReductionState<V>> Accumulate for Accumulator<V, S> {
    fn add(&mut self, block: &Block, part: &Part, mask: Option<&Mask>, tick: Tick<'_>) -> Result<()> {
        let Accumulator { reduction, axes, states, values, .. } = self;
        part.check_within(axes.counts())?;
        let mask = mask.map(MaskRows::new);
        let position_step = axes.position_step();
        block.rows(&part.slices, tick, |row, indexes, tick| {
            let Some(result) = axes.row_result(&part.first, indexes) else { return Ok(()) };
            let result = result as usize;
            let mut position = axes.position(&part.first, indexes);
            let mut start = part.first.last().map_or(0, |first| *first as usize);
            for (index, run) in row.runs(RUN_VALUES as usize).enumerate() {
                if index > 0 {
                    tick()?;
                }
                values.clear();
                V::read(&run, reduction.decoding.as_ref(), values);
                if let Some(mask) = &mask {
                    mask.apply(&part.first, indexes, index * RUN_VALUES as usize, values);
                }
                match axes.last_role() {
                    AxisRole::Reduce {} => {
                        states[result].add_run(reduction, values, position, position_step);
                        position += RUN_VALUES * position_step;
                    }
                    AxisRole::Keep {} => {
                        for (state, value) in states[result + start..].iter_mut().zip(&*values) {
                            state.add(reduction, *value, position);
                        }
                    }
                    AxisRole::Group { groups } => {
                        let mut rest = &values[..];
                        let groups = &groups.of.0[start..start + rest.len()];
                        for neighbours in groups.chunk_by(|one, next| one == next) {
                            let (run, after) = rest.split_at(neighbours.len());
                            rest = after;
                            if neighbours[0] == Groups::NONE {
                                continue;
                            }
                            let state = &mut states[result + neighbours[0] as usize];
                            if run.len() < GROUP_RUN_VALUES {
                                run.iter().for_each(|value| state.add(reduction, *value, position));
                            } else {
                                state.add_run(reduction, run, position, 0);
                            }
                        }
                    }
                }
                start += values.len();
            }
            Ok(())
        })
    }

    fn merge(&mut self, states: &[u8], counts: &[u64], first: &[u64]) -> Result<()> {
        let results = self.axes.part_results(first, counts);
        let states = Vec::<S>::decode(states).ok().filter(|states| states.len() == results.len());
        let states = states.ok_or_else(|| {
            Error::internal("the output of the class array does not have the requested states")
        })?;
        let position = self.axes.part_position(first, counts);
        for (result, mut state) in results.into_iter().zip(states) {
            state.move_position(&position);
            self.states[result as usize].merge(&self.reduction, &state);
        }
        Ok(())
    }

    fn encode(&self) -> Bytes {
        self.states.encode()
    }

    fn finish(&self) -> Result<Values> {
        let mut shape = self.axes.result_shape();
        match &self.reduction.kind {
            ReductionKind::Histogram { edges } => shape.push(edges.0.len() as u64 - 1),
            ReductionKind::Quantile { q } => shape.push(q.0.len() as u64),
            ReductionKind::Summary {} => shape.push(4),
            _ => {}
        }
        if self.axes.reduces_nothing() && !self.states.is_empty() && self.reduction.is_extreme() {
            return Err(super::states::no_value());
        }
        let dtype = self.reduction.result_dtype(self.dtype);
        let mut values = Values { dtype, shape, data: Vec::new() };
        self.states.iter().try_for_each(|state| state.finish(&self.reduction, &mut values))?;
        Ok(values)
    }
}
