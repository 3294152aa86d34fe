//! All unsafe code of this crate: the functions that C programs call.
//!
//! The functions rely on these promises of the caller, which the header repeats. Nothing else that
//! a caller does can break memory safety.
//!
//! - A pointer is NULL, or valid for the whole call: for reading a text up to its NUL, for reading
//!   or writing as many bytes as the call says, or for writing one result.
//! - A callback may be called on any thread, once, with the context that the caller gave.
//!
//! A function reads no more of a text than the longest valid one has, and checks lengths before it
//! uses them. Handles are no pointers (see [`crate::handles`]). A panic becomes the error
//! `internal`.

#![allow(unsafe_code)]

mod args;
mod completion;
mod error;
mod list;
mod object;
mod rados;
mod read_op;
mod reply;
mod store;
mod write_op;

/// An open store.
pub struct StoreHandle(());

/// An open pool, and the namespace of its objects.
pub struct PoolHandle(());

/// A compound read operation.
pub struct ReadOpHandle(());

/// A compound write operation.
pub struct WriteOpHandle(());

/// The results of an operation.
pub struct ReplyHandle(());

/// A page of a listing.
pub struct PageHandle(());

/// An operation that was started.
pub struct CompletionHandle(());

/// An error.
pub struct ErrorHandle(());
