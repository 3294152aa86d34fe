//! Benthic's contracts.
//!
//! Benthic is built on two traits:
//!
//! - [`Store`] → [`Pool`], the client side: the interface of an engine. A pool holds named objects.
//!   An object has bytes, extended attributes and an *omap* (ordered key → value).
//! - [`Class`] + [`MethodContext`], the storage side: the interface of code that runs beside the
//!   data.
//!
//! The semantics are those of RADOS, because one of the engines is a real Ceph cluster and the same
//! class runs inside its OSDs:
//!
//! - Operations on one object compose into one atomic [`ReadOp`] or [`WriteOp`], with
//!   [guards](Guard).
//! - There is **no transaction over two objects**. Code that changes two objects documents the
//!   order of the changes and the repair.
//! - A method reads before it writes. `stat` shows the method's own changes.
//! - A write method returns no output. It stores its result, and the caller reads it back.
//! - A write that times out is [`ErrorKind::OutcomeUnknown`], not a failure.
//!
//! Why not a file system interface? A file system promises names in a tree, renames, locks and
//! partial writes of any size to an open handle. Object stores promise none of these. They offer
//! atomic operations with conditions and code beside the data, which no file system has.
//!
//! The conformance suite in `benthic-testkit` defines both contracts. Every engine runs all of it.

mod build_name;
mod class;
mod clock;
pub mod codec;
mod context;
mod environment;
pub mod error;
mod failure;
mod fetch;
pub mod limits;
mod meter;
pub mod names;
mod no_object;
pub mod op;
mod permit;
pub mod pushdown;
mod store;

/// The crate whose [`Bytes`](bytes::Bytes) hold all data of the contracts.
pub use bytes;

pub use build_name::build;
pub use class::{
    CALLS, Class, ClassCalls, ClassInfo, ClassRegistry, DESCRIBE, LibraryCalls, LibraryInfo, Method,
    MethodCalls, MethodFlags, MethodInfo, MethodResult,
};
pub use clock::{Clock, ManualClock, Stopwatch, SystemClock};
pub use context::{GuestCost, GuestMethod, LogLevel, MethodContext, MethodLimits, ObjectAccess, call_method};
pub use environment::{Environment, Random, SystemRandom};
pub use error::{Action, Error, ErrorKind, OptionalExtension, Reason, Result};
pub use failure::{CallFailure, ERASURE_CODED, FAILURES, FailureReport, LibraryFailures, LogMessage, cut};
pub use fetch::{Fetch, Outputs};
pub use meter::Meter;
pub use names::{ObjectAddress, ObjectId, PoolAddress};
pub use no_object::{CallFunction, FunctionCall, NoObject};
pub use op::{
    ClassCall, Compare, Durability, ExecOp, Guard, OmapPage, ReadOp, ReadOutput, ReadReply, ReadStep, Stat,
    WriteOp, WriteReply, WriteStep,
};
pub use permit::{Permit, Permits};
pub use store::{
    ClassHost, Damage, Finding, FsckReport, ListPage, ListRequest, ListToken, Namespaces, Pool, ScrubPage,
    Store, Wait,
};

/// The name of threads on which a panic is expected: they run methods or libraries that read
/// damaged input. The panic becomes an error of the operation, so programs need not print it.
pub const WORKER_THREAD: &str = "benthic-work";
