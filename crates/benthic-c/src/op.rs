//! Compound operations to which a C program still adds guards and steps. Limits on each keep their
//! memory small.

use crate::handles::Item;
use benthic_core::op::{Guard, ReadOp, ReadStep, WriteOp, WriteStep};
use benthic_core::{Error, Result, limits};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The bytes that a key of the omap counts in addition to its own, as in
/// [`limits::OPERATION_BYTES_MAX`]. Only keys can be more than the steps of an operation.
const ENTRY_BYTES: usize = limits::ENTRY_BYTES as usize;

/// A compound operation to which steps are added. It is checked against all limits when it runs;
/// while it is built, its memory and its number of steps are limited.
pub struct Building<Op>(Mutex<Parts<Op>>);

struct Parts<Op> {
    op: Op,
    len_bytes: u64,
}

/// The common part of both kinds of operations.
pub trait CompoundOp: Clone + Default + Send + 'static {
    type Step;

    fn guards(&mut self) -> &mut Vec<Guard>;
    fn steps(&mut self) -> &mut Vec<Self::Step>;
}

impl CompoundOp for ReadOp {
    type Step = ReadStep;

    fn guards(&mut self) -> &mut Vec<Guard> {
        &mut self.guards
    }

    fn steps(&mut self) -> &mut Vec<ReadStep> {
        &mut self.steps
    }
}

impl CompoundOp for WriteOp {
    type Step = WriteStep;

    fn guards(&mut self) -> &mut Vec<Guard> {
        &mut self.guards
    }

    fn steps(&mut self) -> &mut Vec<WriteStep> {
        &mut self.steps
    }
}

impl Item for Building<ReadOp> {
    const TYPE: &str = "benthic_read_op";
}

impl Item for Building<WriteOp> {
    const TYPE: &str = "benthic_write_op";
}

impl<Op: CompoundOp> Default for Building<Op> {
    fn default() -> Building<Op> {
        Building(Mutex::new(Parts { op: Op::default(), len_bytes: 0 }))
    }
}

impl<Op: CompoundOp> Building<Op> {
    /// A copy of the operation, to run it.
    pub fn build(&self) -> Op {
        self.0.lock().op.clone()
    }

    /// # Errors
    /// `LimitExceeded`; the operation is as before.
    pub fn guard(&self, guard: Guard, len_bytes: usize) -> Result<()> {
        self.add(len_bytes, |op| op.guards().push(guard))
    }

    /// # Errors
    /// `LimitExceeded`; the operation is as before.
    pub fn step(&self, step: Op::Step, len_bytes: usize) -> Result<()> {
        self.add(len_bytes, |op| op.steps().push(step))
    }

    fn add(&self, len_bytes: usize, add: impl FnOnce(&mut Op)) -> Result<()> {
        let mut parts = self.0.lock();
        let len_bytes = parts.len_bytes.saturating_add(len_bytes as u64);
        if len_bytes > limits::OPERATION_BYTES_MAX {
            let error = Error::limit_exceeded("the operation is too large; split it into several");
            return Err(error
                .with("len_bytes", len_bytes)
                .with("len_bytes_max", limits::OPERATION_BYTES_MAX));
        }
        let mut op = std::mem::take(&mut parts.op);
        let steps = (op.guards().len(), op.steps().len());
        add(&mut op);
        let is_too_long = op.guards().len() + op.steps().len() > limits::OPERATION_STEPS_MAX;
        if is_too_long {
            op.guards().truncate(steps.0);
            op.steps().truncate(steps.1);
        } else {
            parts.len_bytes = len_bytes;
        }
        parts.op = op;
        if !is_too_long {
            return Ok(());
        }
        let error = Error::limit_exceeded("too many guards and steps in one operation");
        Err(error.with("steps_max", limits::OPERATION_STEPS_MAX))
    }
}

impl Building<WriteOp> {
    /// Lets the engine acknowledge the operation before it is durable.
    pub fn set_buffered(&self) {
        let mut parts = self.0.lock();
        parts.op = std::mem::take(&mut parts.op).buffered();
    }

    /// Sets an omap entry. Entries that are set one after the other are one step.
    ///
    /// # Errors
    /// `LimitExceeded`; the operation is as before.
    pub fn omap_set(&self, key: Bytes, value: Bytes) -> Result<()> {
        self.add(key.len() + value.len() + ENTRY_BYTES, |op| match op.steps.last_mut() {
            Some(WriteStep::OmapSet { entries }) => drop(entries.insert(key, value)),
            _ => op.steps.push(WriteStep::OmapSet { entries: BTreeMap::from([(key, value)]) }),
        })
    }

    /// Removes an omap key. Keys that are removed one after the other are one step.
    ///
    /// # Errors
    /// `LimitExceeded`; the operation is as before.
    pub fn omap_remove(&self, key: Bytes) -> Result<()> {
        self.add(key.len() + ENTRY_BYTES, |op| match op.steps.last_mut() {
            Some(WriteStep::OmapRemove { keys }) => keys.push(key),
            _ => op.steps.push(WriteStep::OmapRemove { keys: vec![key] }),
        })
    }
}
