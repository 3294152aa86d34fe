//! Regridding: each result is a weighted sum of elements along the last axes, such as latitude and
//! longitude.
//!
//! The weights are a sparse matrix, as ESMF, xESMF, CDO and SCRIP store it. The class gets only the
//! weights of the elements of its object, and a number for each cell that these touch. So its
//! states have only these cells, and the client, which has all weights, adds them to the others. A
//! dense list of cells for each element would be simpler, but most objects touch a small part of
//! the cells.

use super::states::two_sum;
use super::{Decoding, Number, STATE_BYTES_MAX, check_decoding};
use crate::block::{Block, Tick};
use crate::dtype::Dtype;
use crate::selection::{Bounded, Part, PerAxis, counts, elements, strides};
use crate::values::Values;
use benthic_core::codec::{Decoded, Decoder, Encode, Wire};
use benthic_core::{Error, Result, wire_struct};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Limit on the weights of a regridding: 1 GiB in memory.
const WEIGHTS_MAX: usize = 1 << 26;
/// Limit on the weights in one call of the class: 16 MiB.
const CALL_WEIGHTS_MAX: usize = 1 << 20;
/// The size of an encoded weight, and of one in memory.
const WEIGHT_BYTES: u64 = 16;
/// The size of an encoded sum.
const SUM_BYTES: usize = 16;
/// The number of values that are read from a row at once, to save memory.
const RUN_VALUES: usize = 4096;
/// The number of weights between two ticks.
const TICK_WEIGHTS: usize = 1 << 18;
/// A cell is missing if the valid weights are less, so that rounding errors do not decide. As in
/// xESMF.
const VALID_MIN: f64 = 1e-6;

/// One weight: an element's part of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// The index of the element among the selected positions of the source axes, in C order.
    pub source: u32,
    pub cell: u32,
    pub weight: f64,
}

/// A sparse matrix that makes cells of the elements along the last axes of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The number of selected positions along each of the last axes.
    pub source_shape: PerAxis<u64>,
    /// The number of cells.
    pub cells: u32,
    /// In the order of the sources. Several weights of a source and a cell are added.
    pub list: Arc<Vec<Weight>>,
    /// Not encoded, and not compared.
    pub parts: WeightParts,
}

/// The weights of parts of the source axes that were asked for, so that chunks of different times
/// cut them once. A source is in one chunk, so all parts together are as large as the weights.
#[derive(Clone, Default)]
pub struct WeightParts(Arc<Mutex<HashMap<PartPlace, CutWeights>>>);

/// The first position along each source axis, and the number of positions.
type PartPlace = Vec<(u64, u64)>;

/// The weights of a part, and the number that each of their cells has in the whole.
type CutWeights = Arc<(Weights, Vec<u32>)>;

impl PartialEq for WeightParts {
    fn eq(&self, _: &WeightParts) -> bool {
        true
    }
}

impl fmt::Debug for WeightParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeightParts")
    }
}

/// A regridding. Elements become float64 numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Regrid {
    pub weights: Weights,
    /// `None` makes a cell missing (NaN) if an element with a weight of it is missing. Otherwise
    /// missing elements are skipped, and the sum is divided by the weights of the others. The
    /// number is the largest part of a cell that may be missing, from 0 to 1; 1 makes a cell
    /// missing if all its elements are.
    pub missing_max: Option<f64>,
    pub decoding: Option<Decoding>,
}

wire_struct! {
    Weight { source, cell, weight }
    Regrid { weights, missing_max, decoding }
}

impl Wire for Weights {
    fn put(&self, out: &mut Vec<u8>) {
        self.source_shape.put(out);
        self.cells.put(out);
        out.put_len(self.list.len());
        self.list.iter().for_each(|weight| weight.put(out));
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Weights> {
        let (source_shape, cells) = (Wire::get(input)?, Wire::get(input)?);
        let Bounded(list) = Bounded::<Weight, CALL_WEIGHTS_MAX>::get(input)?;
        Ok(Weights { source_shape, cells, list: Arc::new(list), parts: WeightParts::default() })
    }
}

impl Weights {
    /// The weights of a selection with these numbers of positions along its last axes, in any
    /// order. Drops zeros, so that a missing element without a part in a cell does not make it
    /// missing.
    ///
    /// # Errors
    /// `InvalidArgument` for a source or cell that does not exist, or a weight that is not finite;
    /// `LimitExceeded`.
    pub fn new(source_shape: Vec<u64>, cells: u32, mut list: Vec<Weight>) -> Result<Weights> {
        list.retain(|weight| weight.weight != 0.0);
        list.sort_by_key(|weight| (weight.source, weight.cell));
        let (source_shape, list) = (Bounded(source_shape), Arc::new(list));
        let weights = Weights { source_shape, cells, list, parts: WeightParts::default() };
        weights.check()?;
        Ok(weights)
    }

    fn check(&self) -> Result<()> {
        let sources = elements(&self.source_shape.0)?;
        if self.list.len() > WEIGHTS_MAX {
            let message = "there are too many weights; regrid to a part of the cells at a time";
            return Err(Error::limit_exceeded(message)
                .with("weights", self.list.len())
                .with("weights_max", WEIGHTS_MAX));
        }
        if !self.list.is_sorted_by_key(|weight| weight.source) {
            return Err(Error::invalid_argument("weights must be in the order of their sources"));
        }
        let is_valid = |weight: &&Weight| {
            u64::from(weight.source) < sources && weight.cell < self.cells && weight.weight.is_finite()
        };
        match self.list.iter().find(|weight| !is_valid(weight)) {
            None => Ok(()),
            Some(weight) => {
                let message = "a weight is not a finite number, or its source or cell does not exist";
                Err(Error::invalid_argument(message)
                    .with("weight", weight.weight)
                    .with("source", weight.source)
                    .with("sources", sources)
                    .with("cell", weight.cell)
                    .with("cells", self.cells))
            }
        }
    }

    /// The weights of these sources.
    fn of_sources(&self, sources: Range<u64>) -> &[Weight] {
        let place = |source: u64| self.list.partition_point(|weight| u64::from(weight.source) < source);
        &self.list[place(sources.start)..place(sources.end)]
    }

    /// The weights of a part of the selection.
    fn of_part(&self, part: &Part) -> CutWeights {
        let outer = part.slices.len() - self.source_shape.0.len();
        let (first, counts) = (&part.first[outer..], counts(&part.slices[outer..]));
        let place = first.iter().copied().zip(counts.iter().copied()).collect();
        let mut parts = self.parts.0.lock();
        Arc::clone(parts.entry(place).or_insert_with(|| Arc::new(self.cut(first, counts))))
    }

    fn cut(&self, first: &[u64], counts: Vec<u64>) -> (Weights, Vec<u32>) {
        let row_len = counts.last().copied().unwrap_or(1);
        let part_strides = strides(&counts);
        let whole_strides = strides(&self.source_shape.0);
        let mut list = Vec::new();
        for start in (0..counts.iter().product()).step_by(row_len.max(1) as usize) {
            let axes = part_strides.iter().zip(&counts).zip(&whole_strides).zip(first);
            let in_whole: u64 =
                axes.map(|(((part, count), whole), first)| (first + start / part % count) * whole).sum();
            let row = self.of_sources(in_whole..in_whole + row_len).iter();
            list.extend(row.map(|weight| {
                let source = u64::from(weight.source) - in_whole + start;
                Weight { source: source as u32, ..*weight }
            }));
        }
        let mut cells: Vec<u32> = list.iter().map(|weight| weight.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        for weight in &mut list {
            // Each cell is in the list.
            weight.cell = cells.binary_search(&weight.cell).map_or(u32::MAX, |index| index as u32);
        }
        let (source_shape, list) = (Bounded(counts), Arc::new(list));
        let parts = WeightParts::default();
        (Weights { source_shape, cells: cells.len() as u32, list, parts }, cells)
    }
}

/// A compensated sum.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    /// The sum of the rounding errors of `sum`.
    error: f64,
}

wire_struct! { Sum { sum, error } }

impl Sum {
    fn add(&mut self, value: f64) {
        let (sum, error) = two_sum(self.sum, value);
        *self = Sum { sum, error: self.error + error };
    }

    fn merge(&mut self, other: Sum) {
        self.add(other.sum);
        self.error += other.error;
    }

    /// The error of an infinite sum is NaN and means nothing.
    fn value(self) -> f64 {
        if self.sum.is_finite() { self.sum + self.error } else { self.sum }
    }
}

/// The sums of each cell, for each position of the axes that are not regridded. If missing elements
/// are skipped, a cell has a second sum, of the weights of the others.
pub(crate) struct RegridStates<'r> {
    regrid: &'r Regrid,
    /// The number of positions along each axis of the selection.
    counts: Vec<u64>,
    sums: Vec<Sum>,
    /// Values of a row; kept for its memory.
    values: Vec<f64>,
}

impl Regrid {
    /// Checks a regridding of a selection with these counts.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self, dtype: Dtype, counts: &[u64]) -> Result<()> {
        let source_shape = &self.weights.source_shape.0;
        if source_shape.is_empty() || !counts.ends_with(source_shape) {
            let message = "the weights are not for the selected positions along the last axes";
            let text = |shape: &[u64]| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            return Err(Error::invalid_argument(message)
                .with("weights", text(source_shape))
                .with("selected", text(counts)));
        }
        if self.missing_max.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
            let message = "the part of a cell that may be missing is a number from 0 to 1";
            return Err(Error::invalid_argument(message));
        }
        self.decoding.iter().try_for_each(|decoding| check_decoding(decoding, dtype))?;
        self.weights.check()
    }

    /// The same regridding of a part of the selection.
    pub(crate) fn of_part(&self, part: &Part) -> Regrid {
        Regrid { weights: self.weights.of_part(part).0.clone(), ..self.clone() }
    }

    /// Whether the weights are few enough for a call of the class.
    pub(crate) fn fits_call(&self) -> bool {
        self.weights.list.len() <= CALL_WEIGHTS_MAX
    }

    /// The size of the weights, in memory and encoded.
    pub(crate) fn weight_bytes(&self) -> u64 {
        self.weights.list.len() as u64 * WEIGHT_BYTES
    }

    /// The number of sums of a cell.
    fn cell_sums(&self) -> usize {
        if self.missing_max.is_some() { 2 } else { 1 }
    }

    fn outer_counts<'c>(&self, counts: &'c [u64]) -> &'c [u64] {
        &counts[..counts.len().saturating_sub(self.weights.source_shape.0.len())]
    }

    /// The size of an encoded state.
    pub fn state_record_bytes(&self) -> usize {
        SUM_BYTES
    }

    /// The size of the states of a selection with these counts. Saturates.
    pub fn state_bytes(&self, counts: &[u64]) -> u64 {
        let cell_bytes = (SUM_BYTES * self.cell_sums()) as u64 * u64::from(self.weights.cells);
        self.outer_counts(counts).iter().fold(cell_bytes, |product, count| product.saturating_mul(*count))
    }

    /// Limit on the size of the states and weights of a part of this shape. Saturates.
    pub(crate) fn part_bytes_max(&self, shape: &[u64]) -> u64 {
        self.state_bytes(shape).saturating_add(2 * self.weight_bytes())
    }

    /// Empty states for a selection with these counts. The regridding must be valid for it.
    ///
    /// # Errors
    /// `LimitExceeded` if the states need too much memory.
    pub(crate) fn states(&self, counts: &[u64]) -> Result<RegridStates<'_>> {
        let state_bytes = self.state_bytes(counts);
        if state_bytes > STATE_BYTES_MAX {
            let message = "the result of the regridding is too large; select a part of the other axes";
            return Err(Error::limit_exceeded(message)
                .with("state_bytes", state_bytes)
                .with("state_bytes_max", STATE_BYTES_MAX));
        }
        let sums = vec![Sum::default(); state_bytes as usize / SUM_BYTES];
        Ok(RegridStates { regrid: self, counts: counts.to_vec(), sums, values: Vec::new() })
    }
}

impl RegridStates<'_> {
    /// Adds the elements of a decoded block.
    ///
    /// # Errors
    /// `Internal` if the part does not lie in the selection; those of the tick.
    pub fn add(&mut self, block: &Block, part: &Part, tick: Tick<'_>) -> Result<()> {
        part.check_within(&self.counts)?;
        let RegridStates { regrid, counts, sums, values } = self;
        let Regrid { weights, missing_max, decoding } = regrid;
        let (outer, cell_sums) = (regrid.outer_counts(counts).len(), regrid.cell_sums());
        let (outer_strides, source_strides) = (strides(&counts[..outer]), strides(&counts[outer..]));
        let mut since_tick = 0;
        block.rows(&part.slices, tick, |row, indexes, tick| {
            let mut index = part.first.iter().zip(indexes).map(|(first, index)| first + index);
            let place: u64 = outer_strides.iter().zip(&mut index).map(|(stride, index)| stride * index).sum();
            let mut start: u64 = source_strides.iter().zip(index).map(|(stride, index)| stride * index).sum();
            let sums = &mut sums[place as usize * weights.cells as usize * cell_sums..];
            for run in row.runs(RUN_VALUES) {
                let of_run = weights.of_sources(start..start + run.count as u64);
                if !of_run.is_empty() {
                    values.clear();
                    f64::read(&run, decoding.as_ref(), values);
                }
                for some in of_run.chunks(TICK_WEIGHTS) {
                    for Weight { source, cell, weight } in some {
                        let value = values[(u64::from(*source) - start) as usize];
                        let sums = &mut sums[*cell as usize * cell_sums..];
                        match missing_max {
                            Some(_) if value.is_nan() => {}
                            Some(_) => {
                                sums[0].add(value * weight);
                                sums[1].add(*weight);
                            }
                            None => sums[0].add(value * weight),
                        }
                    }
                    since_tick += some.len();
                    if since_tick >= TICK_WEIGHTS {
                        since_tick = 0;
                        tick()?;
                    }
                }
                start += run.count as u64;
            }
            Ok(())
        })
    }

    /// Merges the states of a part of the selection.
    ///
    /// # Errors
    /// `Internal` if the states do not fit the part.
    pub fn merge(&mut self, states: &[u8], part: &Part) -> Result<()> {
        let cut = self.regrid.weights.of_part(part);
        let (_, cells) = &*cut;
        let cell_sums = self.regrid.cell_sums();
        let whole_strides = strides(self.regrid.outer_counts(&self.counts));
        let part_counts = counts(&part.slices[..whole_strides.len()]);
        let part_strides = strides(&part_counts);
        let places = part_counts.iter().product::<u64>();
        let len = places as usize * cells.len() * cell_sums;
        let states = Vec::<Sum>::decode(states).ok().filter(|states| states.len() == len);
        let states = states.ok_or_else(|| {
            Error::internal("the output of the class array does not have the requested states")
        })?;
        for (index, sums) in (0..places).zip(states.chunks((cells.len() * cell_sums).max(1))) {
            let axes = part_strides.iter().zip(&part_counts).zip(&whole_strides).zip(&part.first);
            let place: u64 =
                axes.map(|(((part, count), whole), first)| (first + index / part % count) * whole).sum();
            let place = place as usize * self.regrid.weights.cells as usize;
            for (cell, sums) in cells.iter().zip(sums.chunks(cell_sums)) {
                let start = (place + *cell as usize) * cell_sums;
                self.sums[start..].iter_mut().zip(sums).for_each(|(ours, theirs)| ours.merge(*theirs));
            }
        }
        Ok(())
    }

    pub fn encode(&self) -> Bytes {
        self.sums.encode()
    }

    /// The result, as float64. The last axis has the cells. A cell without weights is missing.
    pub fn finish(&self) -> Values {
        let Weights { cells, list, .. } = &self.regrid.weights;
        let mut shape = self.regrid.outer_counts(&self.counts).to_vec();
        shape.push((*cells).into());
        let mut has_weights = vec![false; *cells as usize];
        list.iter().for_each(|weight| has_weights[weight.cell as usize] = true);
        let mut values = Values { dtype: Dtype::Float64, shape, data: Vec::new() };
        for (sums, has_weights) in self.sums.chunks(self.regrid.cell_sums()).zip(has_weights.iter().cycle()) {
            let value = match (sums, self.regrid.missing_max) {
                _ if !has_weights => f64::NAN,
                ([sum, valid], Some(missing_max)) => {
                    let valid_min = (1.0 - missing_max).clamp(VALID_MIN, 1.0 - VALID_MIN);
                    if valid.value() < valid_min { f64::NAN } else { sum.value() / valid.value() }
                }
                _ => sums[0].value(),
            };
            // Different operations make different NaN.
            values.push_f64(if value.is_nan() { f64::NAN } else { value });
        }
        values
    }
}

#[cfg(test)]
#[path = "regrid_tests.rs"]
mod tests;
