//! From a request to the task of a chunk, and from its output to the result.

use super::failure::Failure;
use super::request::{Axes, Operation, PythonSlice, Request};
use benthic_array::class::Task;
use benthic_array::decoders::{ByteRange, Encoding, ObjectFormat, Pipeline};
use benthic_array::{Bounded, Dtype, Missing, Slice, Tally, TallyKind};
use benthic_core::{Error, Result};
use bytes::Bytes;

/// Limit on the elements or states of a result, as in the class.
const RESULT_BYTES_MAX: u64 = 32 << 20;

/// The work of a request.
#[derive(Debug)]
pub struct Plan {
    pub range: ByteRange,
    pub format: ObjectFormat,
    pub slices: Vec<Slice>,
    pub task: Task,
    /// The shape of the result.
    shape: Vec<u64>,
    /// The axes of the output of which the result has the opposite order.
    flipped: Vec<bool>,
    /// The shape of the output of the task. In Fortran's order, it has the axes of the result
    /// backwards.
    output_shape: Vec<u64>,
    operation: Operation,
    dtype: Dtype,
    missing: Missing,
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub data: Vec<u8>,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// The number of values behind each element; of a selection, the number of all its values.
    pub counts: Vec<u64>,
}

/// The positions of a slice along an axis, in ascending order, and whether the slice goes
/// backwards. The rules are Python's.
fn positions([start, end, step]: PythonSlice, len: u64) -> (Slice, bool) {
    let len = i128::from(len);
    let (start, end, step) = (i128::from(start), i128::from(end), i128::from(step));
    let is_backwards = step < 0;
    // The first position that a slice in this direction can have, and the one after the last.
    let (low, high) = if is_backwards { (-1, len - 1) } else { (0, len) };
    let clamp = |index: i128| (if index < 0 { index + len } else { index }).clamp(low, high);
    let (start, end) = (clamp(start), clamp(end));
    let span = if is_backwards { start - end } else { end - start };
    let count = if span > 0 { (span - 1) / step.abs() + 1 } else { 0 };
    if count == 0 {
        return (Slice { start: 0, step: 1, count: 0 }, false);
    }
    let first = if is_backwards { start + (count - 1) * step } else { start };
    (Slice { start: first as u64, step: step.unsigned_abs() as u64, count: count as u64 }, is_backwards)
}

impl Plan {
    /// Plans a request for an object of this size. `object_bytes` counts only if the request has no
    /// size.
    pub fn new(request: &Request, operation: Operation, object_bytes: u64) -> Result<Plan, Failure> {
        let dtype = request.dtype;
        let size_bytes = dtype.size_bytes() as u64;
        let len_bytes = match request.len_bytes {
            Some(len_bytes) => len_bytes,
            None => {
                object_bytes.checked_sub(request.offset_bytes).filter(|len| *len > 0).ok_or_else(|| {
                    Failure::bad_request(format!(
                        "the offset is not in the object, which has {object_bytes} bytes"
                    ))
                })?
            }
        };
        let shape = match &request.shape {
            Some(shape) => shape.clone(),
            None if len_bytes.is_multiple_of(size_bytes) => vec![len_bytes / size_bytes],
            None => return Err(Failure::bad_request("the size is not a multiple of the size of an element")),
        };
        let expected = shape.iter().try_fold(size_bytes, |product, len| product.checked_mul(*len));
        if !request.is_compressed() && expected != Some(len_bytes) {
            return Err(Failure::bad_request(format!(
                "the shape does not have the size of the data, {len_bytes} bytes"
            )));
        }
        let whole = || shape.iter().map(|len| (Slice::all(*len), false)).collect();
        let (slices, mut flipped): (Vec<Slice>, Vec<bool>) = match &request.selection {
            None => whole(),
            Some(selection) => {
                selection.iter().zip(&shape).map(|(slice, len)| positions(*slice, *len)).collect::<Vec<_>>()
            }
        }
        .into_iter()
        .unzip();
        let counts: Vec<u64> = slices.iter().map(|slice| slice.count).collect();
        // A reduction over no axis has a result for each element.
        let is_selection = operation == Operation::Select || request.axes == Axes::Some(Vec::new());
        let reduced: Vec<bool> = (0..shape.len())
            .map(|axis| match &request.axes {
                Axes::All => true,
                Axes::Some(axes) => axes.contains(&axis),
            })
            .collect();
        let kind = match operation {
            Operation::Sum => TallyKind::Sum {},
            Operation::Min => TallyKind::Min {},
            Operation::Max => TallyKind::Max {},
            Operation::Count | Operation::Select => TallyKind::Count {},
        };
        let missing = request.missing.clone();
        let tally = Tally { kind, reduced: Bounded(reduced.clone()), missing: missing.clone() };
        let result_shape = if is_selection { counts.clone() } else { tally.result_shape(&counts) };
        if !is_selection {
            flipped = flipped
                .into_iter()
                .zip(reduced)
                .filter(|(_, is_reduced)| !is_reduced)
                .map(|(flip, _)| flip)
                .collect();
        }
        let mut plan = Plan {
            range: ByteRange { offset_bytes: request.offset_bytes, len_bytes },
            format: ObjectFormat {
                dtype,
                fill: Bytes::from(vec![0; dtype.size_bytes()]),
                shape: Bounded(shape),
                encoding: Encoding::Chunk { pipeline: Pipeline::default() },
            },
            slices,
            task: if is_selection { Task::Select {} } else { Task::Tally { tally } },
            output_shape: result_shape.clone(),
            shape: result_shape,
            flipped,
            operation,
            dtype,
            missing,
        };
        let mut order = Vec::new();
        if request.is_fortran {
            if is_selection && operation != Operation::Count {
                // Elements are returned in the order in which they are stored, so they are selected
                // from a transposed array in C order.
                plan.format.shape.0.reverse();
                plan.slices.reverse();
                plan.output_shape.reverse();
                plan.flipped.reverse();
            } else {
                order = (0..plan.slices.len() as u8).rev().collect();
            }
        }
        let bytes = Bounded(request.codecs.clone());
        let pipeline = Pipeline { order: Bounded(order), is_big_endian: request.is_big_endian, bytes };
        plan.format.encoding = Encoding::Chunk { pipeline };
        plan.format.check().map_err(Failure::from)?;
        if plan.result_bytes() > RESULT_BYTES_MAX {
            return Err(Failure::bad_request(format!(
                "the result is larger than {RESULT_BYTES_MAX} bytes; select a part, or reduce more axes"
            )));
        }
        Ok(plan)
    }

    /// The size of the task's output.
    pub fn result_bytes(&self) -> u64 {
        let element_bytes = match &self.task {
            Task::Tally { tally } => tally.state_record_bytes() as u64,
            _ => self.dtype.size_bytes() as u64,
        };
        self.shape.iter().fold(element_bytes, |product, len| product.saturating_mul(*len))
    }

    /// The decoded size of the chunk.
    pub fn decoded_bytes(&self) -> u64 {
        let element_bytes = self.dtype.size_bytes() as u64;
        self.format.shape.0.iter().fold(element_bytes, |product, len| product.saturating_mul(*len))
    }

    /// The result, from the output of the task.
    ///
    /// # Errors
    /// `InvalidArgument` if the sum of integers does not fit their type; `Internal` if the output
    /// is of another task.
    pub fn finish(self, output: Bytes) -> Result<Outcome> {
        let size_bytes = self.dtype.size_bytes();
        let (data, dtype, counts) = match &self.task {
            Task::Tally { tally } => {
                let counts: Vec<u64> = self.slices.iter().map(|slice| slice.count).collect();
                let tallied = tally.finish(&output, self.dtype, &counts)?;
                let counts = flip(to_bytes(&tallied.counts), &self.output_shape, 8, &self.flipped);
                let data = tallied.values.data;
                let data = flip(data, &self.output_shape, tallied.values.dtype.size_bytes(), &self.flipped);
                (data, tallied.values.dtype, from_bytes(&counts))
            }
            _ => {
                let elements = self.shape.iter().product::<u64>();
                if output.len() as u64 != elements * size_bytes as u64 {
                    return Err(Error::internal("the output of the class array has the wrong size"));
                }
                let data = flip(output.into(), &self.output_shape, size_bytes, &self.flipped);
                let are_values = self.missing.are_values(self.dtype, &data);
                match self.operation {
                    Operation::Select => {
                        let count = are_values.iter().filter(|is_value| **is_value).count() as u64;
                        (data, self.dtype, vec![count])
                    }
                    Operation::Count => {
                        let counts: Vec<u64> = are_values.into_iter().map(u64::from).collect();
                        (to_bytes(&counts), Dtype::Int64, counts)
                    }
                    _ => (data, self.dtype, are_values.into_iter().map(u64::from).collect()),
                }
            }
        };
        Ok(Outcome { data, dtype, shape: self.shape, counts })
    }
}

fn to_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<u64> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    bytes.chunks_exact(8).map(number).collect()
}

/// Reverses some axes of an array in C order.
fn flip(data: Vec<u8>, shape: &[u64], size_bytes: usize, flipped: &[bool]) -> Vec<u8> {
    if !flipped.contains(&true) {
        return data;
    }
    let elements = data.len() / size_bytes;
    let mut out = Vec::with_capacity(data.len());
    for index in 0..elements {
        let (mut rest, mut stride, mut from) = (index, 1, 0);
        for (len, is_flipped) in shape.iter().zip(flipped).rev() {
            let len = *len as usize;
            let position = rest % len;
            from += stride * if *is_flipped { len - 1 - position } else { position };
            rest /= len;
            stride *= len;
        }
        out.extend_from_slice(&data[from * size_bytes..][..size_bytes]);
    }
    out
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
