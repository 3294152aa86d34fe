//! Benthic's contracts.
//!
//! Everything in Benthic hangs on two traits:
//!
//! - [`Store`] → [`Pool`], the client side: what an engine offers. A pool holds named objects; an object has
//!   bytes, extended attributes and an *omap* (ordered key → value).
//! - [`Class`] + [`MethodContext`], the storage side: what code beside the data sees.
//!
//! The semantics are RADOS', because one of the engines is a real Ceph cluster and the same class runs inside
//! its OSDs:
//!
//! - Operations on one object compose into one atomic [`ReadOp`] or [`WriteOp`], with [guards](Guard).
//! - There is **no transaction over two objects**. Whoever changes two writes down the order and the repair.
//! - A method reads before it writes; `stat` shows what it did so far.
//! - A write method returns nothing; what it has to say it stores, and the caller reads it back.
//! - A time-out of a write is [`ErrorKind::OutcomeUnknown`], not failure.
//!
//! Why not a file system interface? A file system promises names in a tree, renames, locks and partial writes of
//! any size to one open handle; object stores promise none of these, but atomic operations with conditions and
//! code beside the data, which no file system has.
//!
//! The conformance suite in `benthic-testkit` is the definition of both contracts; every engine runs all of it.

mod class;
mod clock;
pub mod codec;
mod context;
mod environment;
pub mod error;
mod fetch;
pub mod limits;
mod meter;
pub mod names;
pub mod op;
mod store;

pub use class::{
    BUILD, CALLS, Class, ClassCalls, ClassInfo, ClassRegistry, DESCRIBE, LibraryCalls, LibraryInfo, Method,
    MethodCalls, MethodFlags, MethodInfo, MethodResult,
};
pub use clock::{Clock, ManualClock, Stopwatch, SystemClock};
pub use context::{LogLevel, MethodContext, MethodLimits, ObjectAccess, call_method};
pub use environment::{Environment, Random, SystemRandom};
pub use error::{Action, Error, ErrorKind, Reason, Result};
pub use fetch::{Fetch, Outputs};
pub use meter::Meter;
pub use names::{ObjectAddress, ObjectId, PoolAddress};
pub use op::{
    ClassCall, Compare, Durability, ExecOp, Guard, OmapPage, ReadOp, ReadOutput, ReadReply, ReadStep, Stat,
    WriteOp, WriteReply, WriteStep,
};
pub use store::{
    ClassHost, Damage, Finding, FsckReport, ListPage, ListRequest, ListToken, Namespaces, Pool, ScrubPage,
    Store,
};

/// The name of threads on which a method, or a library that reads damaged input, may panic. The
/// panic becomes an error of the operation, so programs need not print it.
pub const WORKER_THREAD: &str = "benthic-work";
