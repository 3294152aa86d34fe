//! Write operations.
//!
//! A store does not compare data, orders no omap values and removes no range of omap keys. So a
//! condition reads its part of the object, and the operation then runs only on the version that was
//! read. If another client changed the object in between, it starts again.

use crate::handles::Item;
use crate::rados::ioctx::Done;
use crate::rados::read::{compare, page};
use benthic_core::error::errno;
use benthic_core::op::{Compare, Guard, ReadOp, ReadOutput, WriteOp, WriteStep};
use benthic_core::{Error, ErrorKind, Fetch, ObjectId, OptionalExtension, Pool, Result, limits};
use bytes::Bytes;
use parking_lot::Mutex;

/// How often an operation starts again because another client changed the object.
const ATTEMPTS: usize = 100;

/// A compound write operation under construction. As with librados, running it makes it empty.
#[derive(Default)]
pub struct Building(pub Mutex<Parts>);

impl Item for Building {
    const TYPE: &str = "rados_write_op_t";
}

/// The guards and steps of a write operation.
#[derive(Default)]
pub struct Parts {
    pub op: WriteOp,
    pub checks: Vec<Check>,
    /// Removals of ranges: the places of the steps, and the first and the end key.
    pub ranges: Vec<(usize, Bytes, Bytes)>,
    /// Store the result of the operation.
    pub results: Vec<Box<dyn FnOnce(i32) + Send>>,
    /// The error of a part that this library does not have, or that is not valid.
    pub error: Option<Error>,
    pub len_bytes: u64,
}

/// A condition that is checked on one version of the object.
pub enum Check {
    /// The data at an offset.
    Data {
        offset_bytes: u64,
        data: Bytes,
    },
    Omap {
        key: Bytes,
        compare: Compare,
        value: Bytes,
    },
    /// librados has an error of its own for each direction.
    Version(u64),
}

impl Parts {
    /// Adds a step, within the limits of an operation.
    pub fn add(&mut self, len_bytes: usize, add: impl FnOnce(&mut Parts)) {
        self.len_bytes = self.len_bytes.saturating_add(len_bytes as u64 + limits::ENTRY_BYTES);
        let steps = self.op.steps.len() + self.op.guards.len() + self.checks.len();
        if self.len_bytes > limits::OPERATION_BYTES_MAX || steps >= limits::OPERATION_STEPS_MAX {
            self.error = Some(Error::limit_exceeded("the operation is too large"));
        }
        if self.error.is_none() {
            add(self);
        }
    }
}

/// Runs an operation.
pub async fn operate(pool: &dyn Pool, object: &ObjectId, mut parts: Parts) -> Result<Done> {
    let results = std::mem::take(&mut parts.results);
    let outcome = run(pool, object, parts).await;
    let code = match &outcome {
        Ok(done) => done.result,
        Err(error) => crate::rados::code(error),
    };
    results.into_iter().for_each(|store| store(code));
    outcome
}

async fn run(pool: &dyn Pool, object: &ObjectId, parts: Parts) -> Result<Done> {
    if let Some(error) = parts.error {
        return Err(error);
    }
    if parts.checks.is_empty() && parts.ranges.is_empty() {
        if parts.op.steps.is_empty() && parts.op.guards.is_empty() {
            return Ok(Done::new(0));
        }
        let reply = pool.write(object, parts.op).await?;
        return Ok(Done { result: 0, version: Some(reply.version) });
    }
    for _ in 0..ATTEMPTS {
        let version = match check(pool, object, &parts.checks).await? {
            Ok(version) => version,
            Err(result) => return Ok(Done::new(result)),
        };
        let mut op = parts.op.clone();
        match version {
            Some(version) => {
                op.guards.push(Guard::Version(version));
                for (place, begin, end) in &parts.ranges {
                    match keys_between(pool, object, version, begin, end).await {
                        Ok(keys) => op.steps[*place] = WriteStep::OmapRemove { keys },
                        // The write below finds the same, and starts again.
                        Err(error) if error.kind() == ErrorKind::Conflict => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            None if parts.checks.is_empty() => return Err(Error::not_found("no such object")),
            None => op.steps.insert(0, WriteStep::Create { exclusive: true }),
        }
        if op.steps.is_empty() {
            return Ok(Done { result: 0, version });
        }
        match pool.write(object, op).await {
            Ok(reply) => return Ok(Done { result: 0, version: Some(reply.version) }),
            Err(error) if is_other_version(pool, object, version, &error).await => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::busy("other clients changed the object too often; try again"))
}

/// Whether a write failed because the object is no longer as it was checked.
async fn is_other_version(pool: &dyn Pool, object: &ObjectId, version: Option<u64>, error: &Error) -> bool {
    match (error.kind(), version) {
        (ErrorKind::Conflict, Some(version)) => {
            !matches!(pool.stat(object).await, Ok((_, found)) if found == version)
        }
        (ErrorKind::NotFound, Some(_)) => {
            pool.stat(object).await.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        }
        (ErrorKind::AlreadyExists, None) => pool.stat(object).await.is_ok(),
        _ => false,
    }
}

/// Checks the conditions. Returns the version on which they hold, `None` for a missing object, or
/// the result of the condition that does not hold.
async fn check(pool: &dyn Pool, object: &ObjectId, checks: &[Check]) -> Result<Result<Option<u64>, i32>> {
    let mut op = ReadOp::new().assert_exists();
    for check in checks {
        op = match check {
            Check::Data { offset_bytes, data } => op.read(*offset_bytes, data.len() as u64),
            Check::Omap { key, .. } => op.omap_get([key.clone()]),
            Check::Version(_) => op.stat(),
        };
    }
    let reply = pool.read(object, op).await.optional()?;
    let (version, outputs) = reply.map(|reply| (reply.version, reply.outputs)).unzip();
    let outputs = outputs.unwrap_or_default();
    let mut outputs = outputs.into_iter();
    for check in checks {
        let result = match (check, outputs.next()) {
            (Check::Data { data, .. }, Some(ReadOutput::Data(stored))) => compare(&stored, data),
            (Check::Data { data, .. }, None) => compare(&[], data),
            (Check::Omap { compare, value, .. }, output) => {
                let stored = match output {
                    Some(output) => page(output)?.entries.pop().map(|(_, value)| value).unwrap_or_default(),
                    None => Bytes::new(),
                };
                if compare.holds(&stored, value) { 0 } else { -errno::ECANCELED }
            }
            (Check::Version(given), _) => match version {
                Some(version) if version > *given => -errno::ERANGE,
                Some(version) if version < *given => -errno::EOVERFLOW,
                Some(_) => 0,
                None => -errno::ENOENT,
            },
            (Check::Data { .. }, Some(_)) => {
                return Err(Error::internal("the reply does not fit the request"));
            }
        };
        if result != 0 {
            return Ok(Err(result));
        }
    }
    Ok(Ok(version))
}

/// The omap keys from `begin` and before `end`, of one version.
async fn keys_between(
    pool: &dyn Pool,
    object: &ObjectId,
    version: u64,
    begin: &Bytes,
    end: &Bytes,
) -> Result<Vec<Bytes>> {
    if begin >= end {
        return Ok(Vec::new());
    }
    let mut keys = Vec::new();
    let mut len_bytes = 0;
    // `after` leaves out its own key.
    let mut after = Some(begin.clone()).filter(|key| !key.is_empty());
    let (first, _) = pool.fetch(object, Fetch::omap_get(after.clone()).assert_version(version)).await?;
    keys.extend(first.entries.into_iter().map(|(key, _)| key));
    loop {
        let page = Fetch::omap_range(after, Bytes::new(), limits::OMAP_PAGE_ENTRIES_MAX);
        let (found, _) = pool.fetch(object, page.assert_version(version)).await?;
        for (key, _) in &found.entries {
            if key >= end {
                return Ok(keys);
            }
            len_bytes += key.len() as u64 + limits::ENTRY_BYTES;
            keys.push(key.clone());
        }
        if !found.more {
            return Ok(keys);
        }
        if len_bytes > limits::OPERATION_BYTES_MAX {
            return Err(Error::limit_exceeded("the range has too many omap keys"));
        }
        after = found.entries.last().map(|(key, _)| key.clone());
    }
}
