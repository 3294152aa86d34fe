//! Read operations whose type is the type of their reply.
//!
//! An engine and a wire format take any list of steps and answer a list of outputs, so that [`Pool`](crate::Pool) can be a
//! trait object. A caller that matched on that list would need an error for every shape that it did not ask for. A [`Fetch`]
//! keeps the steps together with the function that takes their outputs out of the reply. Only [`Outputs::of`] can find a
//! reply that does not fit, which is a defect of the engine.

use crate::op::{ClassCall, OmapPage, ReadOp, ReadOutput, ReadReply, ReadStep, Stat};
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A read operation that gives a `T`; [`fetch`](crate::Pool#method.fetch) runs it. Build one from single steps with
/// [`and`](Fetch::and) and [`all`](Fetch::all).
pub struct Fetch<T> {
    op: ReadOp,
    outputs: Outputs<T>,
}

/// Takes the outputs of a [`Fetch`] out of the reply to its operation.
pub struct Outputs<T>(Take<T>);

/// Takes as many outputs as it needs; `None` if they are of other steps.
type Take<T> = Box<dyn FnOnce(&mut dyn Iterator<Item = ReadOutput>) -> Option<T> + Send>;

impl<T> Outputs<T> {
    /// The outputs, and the object's version when it was read.
    ///
    /// # Errors
    /// `Internal` if the engine answered other steps than those of the operation.
    pub fn of(self, reply: ReadReply) -> Result<(T, u64)> {
        let mut outputs = reply.outputs.into_iter();
        match (self.0(&mut outputs), outputs.next()) {
            (Some(output), None) => Ok((output, reply.version)),
            _ => Err(Error::new(ErrorKind::Internal, "the reply does not fit the request")),
        }
    }
}

/// A function from an output to what it holds if it is a `ReadOutput::$variant`.
macro_rules! only {
    ($variant:ident) => {
        |output| match output {
            ReadOutput::$variant(value) => Some(value),
            _ => None,
        }
    };
}

impl Fetch<Bytes> {
    /// [`ReadStep::Read`].
    pub fn read(offset_bytes: u64, len_bytes: u64) -> Fetch<Bytes> {
        Fetch::step(ReadStep::Read { offset_bytes, len_bytes }, only!(Data))
    }

    /// [`ReadStep::Read`] within a version whose size is known: fewer bytes are no reply.
    pub fn read_exact(version: u64, offset_bytes: u64, len_bytes: u64) -> Fetch<Bytes> {
        let exact = move |output| only!(Data)(output).filter(|data: &Bytes| data.len() as u64 == len_bytes);
        Fetch::step(ReadStep::Read { offset_bytes, len_bytes }, exact).assert_version(version)
    }

    /// [`ReadStep::GetXattr`].
    pub fn get_xattr(name: impl Into<String>) -> Fetch<Bytes> {
        Fetch::step(ReadStep::GetXattr { name: name.into() }, only!(Xattr))
    }

    /// [`ReadStep::Exec`].
    pub fn exec(call: ClassCall) -> Fetch<Bytes> {
        Fetch::step(ReadStep::Exec(call), only!(Exec))
    }
}

impl Fetch<Stat> {
    /// [`ReadStep::Stat`].
    pub fn stat() -> Fetch<Stat> {
        Fetch::step(ReadStep::Stat, only!(Stat))
    }
}

impl Fetch<BTreeMap<String, Bytes>> {
    /// [`ReadStep::ListXattrs`].
    pub fn list_xattrs() -> Fetch<BTreeMap<String, Bytes>> {
        Fetch::step(ReadStep::ListXattrs, only!(Xattrs))
    }
}

impl Fetch<OmapPage> {
    /// [`ReadStep::OmapGet`].
    pub fn omap_get<K: Into<Bytes>>(keys: impl IntoIterator<Item = K>) -> Fetch<OmapPage> {
        Fetch::step(ReadStep::OmapGet { keys: keys.into_iter().map(Into::into).collect() }, only!(Omap))
    }

    /// [`ReadStep::OmapRange`].
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

    /// Both in one operation, with the guards of both.
    #[must_use]
    pub fn and<U: 'static>(mut self, other: Fetch<U>) -> Fetch<(T, U)> {
        self.op.guards.extend(other.op.guards);
        self.op.steps.extend(other.op.steps);
        let (first, second) = (self.outputs.0, other.outputs.0);
        Fetch { op: self.op, outputs: Outputs(Box::new(|outputs| Some((first(outputs)?, second(outputs)?)))) }
    }

    /// All in one operation, with the guards of all.
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

    /// Adds [`Guard::Version`](crate::Guard::Version).
    #[must_use]
    pub fn assert_version(self, version: u64) -> Fetch<T> {
        Fetch { op: self.op.assert_version(version), ..self }
    }

    /// The operation, and what takes its outputs out of the reply to it.
    pub fn into_parts(self) -> (ReadOp, Outputs<T>) {
        (self.op, self.outputs)
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
