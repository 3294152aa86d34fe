//! Read operations with typed replies.
//!
//! The [`Pool`](crate::Pool) trait must be usable as a trait object, so an engine takes a list of
//! steps and returns a list of outputs. A caller that matched on that list would need an error case
//! for every unexpected shape. A [`Fetch`] instead pairs the steps with the function that extracts
//! their outputs from the reply. Only [`Outputs::of`] can detect a reply that does not fit, which
//! is a bug in the engine.

use crate::op::{ClassCall, OmapPage, ReadOp, ReadOutput, ReadReply, ReadStep, Stat};
use crate::{Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A read operation that returns a `T`. [`Pool::fetch`](crate::Pool#method.fetch) runs it. Each
/// constructor creates the [`ReadStep`] of its name. Combine steps with [`and`](Fetch::and) and
/// [`all`](Fetch::all).
pub struct Fetch<T> {
    op: ReadOp,
    outputs: Outputs<T>,
}

type TakeOutputs<T> = dyn FnOnce(&mut dyn Iterator<Item = ReadOutput>) -> Option<T> + Send;

/// Extracts the outputs of a [`Fetch`] from the reply to its operation.
pub struct Outputs<T>(Box<TakeOutputs<T>>);

impl<T> Outputs<T> {
    /// Returns the outputs, and the object's version at the time of the read.
    ///
    /// # Errors
    /// `Internal` if the outputs in the reply do not match the steps of the operation.
    pub fn of(self, reply: ReadReply) -> Result<(T, u64)> {
        let mut outputs = reply.outputs.into_iter();
        match (self.0(&mut outputs), outputs.next()) {
            (Some(output), None) => Ok((output, reply.version)),
            _ => Err(Error::internal("the reply does not fit the request")),
        }
    }
}

/// A function that returns the value of a `ReadOutput::$variant`, and None for other variants.
macro_rules! only {
    ($variant:ident) => {
        |output| match output {
            ReadOutput::$variant(value) => Some(value),
            _ => None,
        }
    };
}

impl Fetch<Bytes> {
    pub fn read(offset_bytes: u64, len_bytes: u64) -> Fetch<Bytes> {
        Fetch::step(ReadStep::Read { offset_bytes, len_bytes }, only!(Data))
    }

    /// A fetch with the step [`ReadStep::Read`], guarded by the version. The caller knows the size
    /// of that version, so a shorter result does not fit the request.
    pub fn read_exact(version: u64, offset_bytes: u64, len_bytes: u64) -> Fetch<Bytes> {
        let exact = move |output| only!(Data)(output).filter(|data: &Bytes| data.len() as u64 == len_bytes);
        Fetch::step(ReadStep::Read { offset_bytes, len_bytes }, exact).assert_version(version)
    }

    pub fn get_xattr(name: impl Into<String>) -> Fetch<Bytes> {
        Fetch::step(ReadStep::GetXattr { name: name.into() }, only!(Xattr))
    }

    pub fn exec(call: ClassCall) -> Fetch<Bytes> {
        Fetch::step(ReadStep::Exec(call), only!(Exec))
    }
}

impl Fetch<Stat> {
    pub fn stat() -> Fetch<Stat> {
        Fetch::step(ReadStep::Stat, only!(Stat))
    }
}

impl Fetch<BTreeMap<String, Bytes>> {
    pub fn list_xattrs() -> Fetch<BTreeMap<String, Bytes>> {
        Fetch::step(ReadStep::ListXattrs, only!(Xattrs))
    }
}

impl Fetch<OmapPage> {
    pub fn omap_get<K: Into<Bytes>>(keys: impl IntoIterator<Item = K>) -> Fetch<OmapPage> {
        Fetch::step(ReadStep::OmapGet { keys: keys.into_iter().map(Into::into).collect() }, only!(Omap))
    }

    pub fn omap_range(after: Option<Bytes>, prefix: impl Into<Bytes>, entries_max: usize) -> Fetch<OmapPage> {
        Fetch::step(ReadStep::OmapRange { after, prefix: prefix.into(), entries_max }, only!(Omap))
    }
}

impl<T: 'static> Fetch<T> {
    fn step(step: ReadStep, take: impl FnOnce(ReadOutput) -> Option<T> + Send + 'static) -> Fetch<T> {
        Fetch {
            op: ReadOp { guards: Vec::new(), steps: vec![step] },
            outputs: Outputs(Box::new(|outputs| take(outputs.next()?))),
        }
    }

    /// Combines two fetches into one operation, with the guards of both.
    #[must_use]
    pub fn and<U: 'static>(mut self, other: Fetch<U>) -> Fetch<(T, U)> {
        self.op.guards.extend(other.op.guards);
        self.op.steps.extend(other.op.steps);
        let (first, second) = (self.outputs.0, other.outputs.0);
        Fetch { op: self.op, outputs: Outputs(Box::new(|outputs| Some((first(outputs)?, second(outputs)?)))) }
    }

    /// Combines any number of fetches into one operation, with all of their guards.
    pub fn all(fetches: impl IntoIterator<Item = Fetch<T>>) -> Fetch<Vec<T>> {
        let mut op = ReadOp::new();
        let mut takes = Vec::new();
        for fetch in fetches {
            op.guards.extend(fetch.op.guards);
            op.steps.extend(fetch.op.steps);
            takes.push(fetch.outputs.0);
        }
        let take = |outputs: &mut dyn Iterator<Item = ReadOutput>| {
            takes.into_iter().map(|take| take(outputs)).collect()
        };
        Fetch { op, outputs: Outputs(Box::new(take)) }
    }

    #[must_use]
    pub fn assert_version(self, version: u64) -> Fetch<T> {
        Fetch { op: self.op.assert_version(version), ..self }
    }

    /// Splits the fetch into its operation and the extractor for its reply.
    pub fn into_parts(self) -> (ReadOp, Outputs<T>) {
        (self.op, self.outputs)
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
