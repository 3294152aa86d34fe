//! The class `array`, which selects and reduces a chunk in the process that stores it.

use crate::block::{Block, Tick};
use crate::format::{ByteRange, ObjectFormat, ReadObject};
use crate::gather;
use crate::pack::{Packed, pack};
use crate::reduce::{Mask, Reduction, ReductionKind, Regrid, Tally};
use crate::selection::{Part, PerAxis, Slice, counts, elements};
use benthic_core::codec::Wire;
use benthic_core::{
    Class, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, Permits, Result, limits, wire_enum,
    wire_struct,
};
use bytes::Bytes;
use std::ops::Range;

/// The class `array`.
pub struct ArrayClass;

/// The input of the method `compute`.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub format: ObjectFormat,
    /// The bytes that hold the chunk or shard. `None` means all bytes of the object.
    pub range: Option<ByteRange>,
    /// One slice for each axis, in positions within the object.
    pub slices: PerAxis<Slice>,
    pub task: Task,
    /// Whether the class may pack the result, because the link is slow.
    pub may_pack: bool,
}

/// The computation on an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// The selected elements, in C order, little-endian.
    Select {},
    /// The states of a reduction of the selected elements.
    Reduce { reduction: Reduction },
    /// The states of a tally of the selected elements.
    Tally { tally: Tally },
    /// The states of a reduction of the selected elements that a mask keeps.
    ReduceMasked { reduction: Reduction, mask: Mask },
    /// The sums of a regridding of the selected elements.
    Regrid { regrid: Regrid },
}

/// The output of the method.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done {
        data: Bytes,
    },
    /// The process already runs the maximum number of these methods. Retry later.
    Busy {},
    /// The call needs more memory than a method may take. A client that fetches the object has
    /// more. (A call that needs more time fails with `LimitExceeded`.)
    TooLarge {},
    /// As `Done`, packed.
    Packed {
        packed: Packed,
    },
}

impl Task {
    /// The same task for a part of a selection.
    pub fn of_part(&self, part: &Part) -> Task {
        match self {
            Task::Select {} => Task::Select {},
            Task::Reduce { reduction } => Task::Reduce { reduction: reduction.of_part(part) },
            Task::Tally { tally } => Task::Tally { tally: tally.clone() },
            Task::ReduceMasked { reduction, mask } => {
                Task::ReduceMasked { reduction: reduction.of_part(part), mask: mask.of_part(part) }
            }
            Task::Regrid { regrid } => Task::Regrid { regrid: regrid.of_part(part) },
        }
    }

    /// The reduction, if missing values do not change its result.
    pub fn skipping_reduction(&self) -> Option<&Reduction> {
        match self {
            // A summary counts missing values.
            Task::Reduce { reduction } | Task::ReduceMasked { reduction, .. } => {
                let skips = reduction.skip_nan && reduction.kind != ReductionKind::Summary {};
                skips.then_some(reduction)
            }
            _ => None,
        }
    }

    /// Whether the elements of a part of the selection cannot change the result, because a mask
    /// leaves them all out.
    pub fn leaves_out(&self, part: &Part) -> bool {
        self.skipping_reduction().is_some() && self.mask().is_some_and(|mask| mask.leaves_out(part))
    }

    fn mask(&self) -> Option<&Mask> {
        if let Task::ReduceMasked { mask, .. } = self { Some(mask) } else { None }
    }

    /// The size of the weights in the task. Other parts of tasks are small.
    pub fn weight_bytes(&self) -> u64 {
        if let Task::Regrid { regrid } = self { regrid.weight_bytes() } else { 0 }
    }

    /// Whether the task is small enough for a call of the class.
    pub fn fits_call(&self) -> bool {
        match self {
            Task::Regrid { regrid } => regrid.fits_call(),
            _ => true,
        }
    }
}

wire_struct! { Input { format, range, slices, task, may_pack } }

wire_enum! {
    Task {
        0 Select {}
        1 Reduce { reduction: reduction }
        2 Tally { tally: tally }
        3 ReduceMasked { reduction: reduction, mask: mask }
        4 Regrid { regrid: regrid }
    }
    Reply {
        0 Done { data: data }
        1 Busy {}
        2 TooLarge {}
        3 Packed { packed: packed }
    }
}

impl Class for ArrayClass {
    fn name(&self) -> &'static str {
        "array"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "selects and reduces a chunk of an array"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 1] = [Method {
    name: "compute",
    flags: MethodFlags::READ,
    run: compute_beside,
    result: MethodResult::Output,
    summary: "selects or reduces a part of a chunk or shard",
    input: "the format of the object, a slice for each axis, and what to compute",
    output: "the elements or states; or that the process is busy; or that the call needs too much memory",
    examples: &[],
}];

static PERMITS: Permits = Permits::new();

/// Limit on the result for one object. Half of the limit of outputs leaves room for the encoding.
const RESULT_BYTES_MAX: u64 = limits::METHOD_OUTPUT_BYTES_MAX as u64 / 2;

fn compute_beside(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Input::from_input(input)?;
    input.check()?;
    let object_bytes = context.stat()?.size_bytes;
    let range = input.range.unwrap_or(ByteRange { offset_bytes: 0, len_bytes: object_bytes });
    range.check_within(object_bytes)?;
    if input.result_bytes() > RESULT_BYTES_MAX {
        return Ok(Reply::TooLarge {}.encode().into());
    }
    let Some(_permit) = PERMITS.try_acquire() else { return Ok(Reply::Busy {}.encode().into()) };
    let reply = match compute(&input, &mut MethodObject { context, range, block_bytes: 0 }) {
        Ok(data) => match input.may_pack.then(|| pack(&data, input.record_bytes())).flatten() {
            Some(packed) => Reply::Packed { packed },
            None => Reply::Done { data },
        },
        Err(error) if error.kind() == ErrorKind::LimitExceeded => Reply::TooLarge {},
        Err(error) => return Err(error),
    };
    Ok(reply.encode().into())
}

impl Input {
    /// Checks an input that a client sent.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self) -> Result<()> {
        self.format.check()?;
        self.format.check_slices(&self.slices.0)?;
        self.range.map_or(Ok(()), |range| range.check())?;
        match &self.task {
            Task::Select {} => Ok(()),
            Task::Reduce { reduction } => reduction.check(self.format.dtype, &counts(&self.slices.0)),
            Task::Tally { tally } => tally.check(self.format.dtype, &counts(&self.slices.0)),
            Task::ReduceMasked { reduction, mask } => {
                let counts = counts(&self.slices.0);
                reduction.check(self.format.dtype, &counts)?;
                reduction.check_mask(mask, self.format.dtype, &counts)
            }
            Task::Regrid { regrid } => regrid.check(self.format.dtype, &counts(&self.slices.0)),
        }
    }

    /// The size of the records that a result consists of.
    pub fn record_bytes(&self) -> usize {
        match &self.task {
            Task::Select {} => self.format.dtype.size_bytes(),
            Task::Reduce { reduction } | Task::ReduceMasked { reduction, .. } => {
                reduction.state_record_bytes()
            }
            Task::Tally { tally } => tally.state_record_bytes(),
            Task::Regrid { regrid } => regrid.state_record_bytes(),
        }
    }

    /// The size of the result in memory; its encoding is about as large. Saturates.
    pub fn result_bytes(&self) -> u64 {
        let counts = counts(&self.slices.0);
        match &self.task {
            Task::Select {} => {
                let size_bytes = self.format.dtype.size_bytes() as u64;
                counts.iter().fold(size_bytes, |product, count| product.saturating_mul(*count))
            }
            Task::Reduce { reduction } | Task::ReduceMasked { reduction, .. } => {
                reduction.state_bytes(&counts)
            }
            Task::Tally { tally } => tally.state_bytes(&counts),
            Task::Regrid { regrid } => regrid.state_bytes(&counts),
        }
    }
}

/// Limit on an unpacked result.
pub const UNPACKED_BYTES_MAX: u64 = limits::METHOD_OUTPUT_BYTES_MAX as u64;

/// Computes the result for an object, beside it or in the client. The input must be valid.
///
/// # Errors
/// Those of the object; `Corrupt` for damaged data; `LimitExceeded`.
pub fn compute(input: &Input, object: &mut dyn ReadObject) -> Result<Bytes> {
    // The result, its encoding, and the packed one; the weights and their encoding.
    let weight_bytes = input.task.weight_bytes() * 2;
    object.reserve(input.result_bytes().saturating_mul(3).saturating_add(weight_bytes))?;
    compute_of(input, |visit| input.format.each_block(&input.slices.0, object, visit))
}

/// Computes the result for an object that is not stored: all its elements have the fill value.
///
/// # Errors
/// `LimitExceeded`.
pub fn compute_missing(input: &Input) -> Result<Bytes> {
    let whole = Part { slices: input.slices.0.clone(), first: vec![0; input.slices.0.len()] };
    compute_of(input, |visit| visit(&input.format.fill_block(), &whole, &mut || Ok(())))
}

type Visit<'a> = &'a mut dyn FnMut(&Block, &Part, Tick<'_>) -> Result<()>;

fn compute_of(input: &Input, each_block: impl FnOnce(Visit<'_>) -> Result<()>) -> Result<Bytes> {
    let counts = counts(&input.slices.0);
    let mask = input.task.mask();
    match &input.task {
        Task::Select {} => {
            let len = elements(&counts)? as usize * input.format.dtype.size_bytes();
            let mut data = vec![0; len];
            each_block(&mut |block, part, tick| gather::copy(block, part, &counts, &mut data, tick))?;
            Ok(data.into())
        }
        Task::Reduce { reduction } | Task::ReduceMasked { reduction, .. } => {
            let mut states = reduction.accumulator(input.format.dtype, &counts)?;
            each_block(&mut |block, part, tick| states.add(block, part, mask, tick))?;
            Ok(states.encode())
        }
        Task::Tally { tally } => {
            let mut states = tally.states(input.format.dtype, &counts)?;
            each_block(&mut |block, part, tick| states.add(block, part, tick))?;
            Ok(states.encode())
        }
        Task::Regrid { regrid } => {
            let mut states = regrid.states(&counts)?;
            each_block(&mut |block, part, tick| states.add(block, part, tick))?;
            Ok(states.encode())
        }
    }
}

struct MethodObject<'a, 'b> {
    context: &'a mut MethodContext<'b>,
    range: ByteRange,
    /// Memory is charged once for the largest block, because blocks are decoded one by one.
    block_bytes: u64,
}

/// Decoding Blosc holds the block, its parts before and after the shuffle, and the output of an
/// earlier codec, which may be an eighth larger.
const COPIES: u64 = 5;

impl ReadObject for MethodObject<'_, '_> {
    fn size_bytes(&mut self) -> Result<u64> {
        Ok(self.range.len_bytes)
    }

    fn read(&mut self, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        self.context.read(self.range.offset_bytes + range.start, range.end - range.start)
    }

    fn reserve(&mut self, len_bytes: u64) -> Result<()> {
        self.context.charge_memory(len_bytes)
    }

    fn before_decoding(&mut self, size_bytes: u64) -> Result<()> {
        let needed_bytes = size_bytes.saturating_mul(COPIES);
        if needed_bytes > self.block_bytes {
            self.context.charge_memory(needed_bytes - self.block_bytes)?;
            self.block_bytes = needed_bytes;
        }
        Ok(())
    }

    fn check_deadline(&mut self) -> Result<()> {
        self.context.check_deadline()
    }
}
