//! Read operations with librados' results: compound ones, and reads of any length.

use crate::handles::Item;
use crate::rados::ioctx::Done;
use benthic_core::op::{OmapPage, ReadOp, ReadOutput, ReadStep};
use benthic_core::{Error, ErrorKind, Fetch, ObjectId, Pool, Result, limits};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

/// How often a read of several parts starts again because the object changed.
const ATTEMPTS: usize = 10;

/// librados returns this number plus the place of the first byte that differs.
const MISMATCH: i32 = 4_095;

/// A compound read operation under construction. As with librados, running it makes it empty.
#[derive(Default)]
pub struct Building(pub Mutex<Parts>);

/// The guards and steps of a read operation.
#[derive(Default)]
pub struct Parts {
    pub steps: Vec<Step>,
    /// The error of a step that is not valid.
    pub error: Option<Error>,
}

impl Item for Building {
    const TYPE: &str = "rados_read_op_t";
}

/// A step, and where its output goes.
pub struct Step {
    pub step: ReadStep,
    pub output: Box<dyn FnOnce(ReadOutput) -> i32 + Send>,
    /// Stores the result of the operation.
    pub result: Box<dyn FnOnce(i32) + Send>,
}

/// Runs a compound operation.
pub async fn operate(pool: &dyn Pool, object: &ObjectId, parts: Parts) -> Result<Done> {
    let Parts { steps, error } = parts;
    if let Some(error) = error {
        return Err(error);
    }
    let mut op = ReadOp::new().assert_exists();
    op.steps.extend(steps.iter().map(|step| step.step.clone()));
    let reply = match pool.read(object, op).await {
        Ok(reply) => reply,
        Err(error) => {
            let code = crate::rados::code(&error);
            steps.into_iter().for_each(|step| (step.result)(code));
            return Err(error);
        }
    };
    let mut done = Done { result: 0, version: Some(reply.version) };
    for (step, output) in steps.into_iter().zip(reply.outputs) {
        let result = (step.output)(output);
        (step.result)(result);
        if done.result == 0 && result < 0 {
            done.result = result;
        }
    }
    Ok(done)
}

/// Compares data with the data of an object, which reads as zeros beyond its end. Returns 0, or the
/// number that librados returns for the first byte that differs.
pub fn compare(stored: &[u8], given: &[u8]) -> i32 {
    let stored = stored.iter().chain(std::iter::repeat(&0));
    let differs = given.iter().zip(stored).position(|(given, stored)| given != stored);
    differs.map_or(0, |at| -MISMATCH - i32::try_from(at).unwrap_or(i32::MAX - MISMATCH))
}

/// The entries of an omap step.
pub fn page(output: ReadOutput) -> Result<OmapPage> {
    match output {
        ReadOutput::Omap(page) => Ok(page),
        _ => Err(Error::internal("the reply does not fit the request")),
    }
}

/// Reads a range of any length, of one version of the object.
pub async fn range(
    pool: &dyn Pool,
    object: &ObjectId,
    offset_bytes: u64,
    len_bytes: u64,
) -> Result<(Bytes, u64)> {
    // No object has more.
    let len_bytes = len_bytes.min(limits::OBJECT_BYTES_MAX);
    let part_bytes = limits::OPERATION_BYTES_MAX / 2;
    let mut attempt = 0;
    'again: loop {
        attempt += 1;
        let first = Fetch::read(offset_bytes, len_bytes.min(part_bytes));
        let (first, version) = pool.fetch(object, first).await?;
        let mut data = BytesMut::from(first);
        while (data.len() as u64) < len_bytes
            && (data.len() as u64).is_multiple_of(part_bytes)
            && !data.is_empty()
        {
            let left_bytes = (len_bytes - data.len() as u64).min(part_bytes);
            let part = Fetch::read(offset_bytes + data.len() as u64, left_bytes).assert_version(version);
            match pool.fetch(object, part).await {
                Ok((part, _)) if part.is_empty() => break,
                Ok((part, _)) => data.extend_from_slice(&part),
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => continue 'again,
                Err(error) => return Err(error),
            }
        }
        return Ok((data.freeze(), version));
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
