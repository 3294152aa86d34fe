//! Benthic's Ceph engine: [`RadosStore`], a client of a real cluster.
//!
//! librados is opened when a store is connected, not when the program is built: one program works with and without
//! Ceph, and says which package is missing. Every operation on an object is one asynchronous call of librados with many
//! in flight; what librados can only do blocking (monitor commands, listings) runs on a few threads.
//!
//! How the contract's operations become an OSD's is in `read.rs` and `write.rs`; why, in
//! docs/design/0003-what-an-osd-does.md.

mod admin;
mod blocking;
mod connection;
mod errors;
mod explain;
#[allow(unsafe_code, reason = "calls into librados; nothing outside this folder is unsafe")]
mod ffi;
mod in_flight;
mod inspect;
mod libraries;
mod listing;
mod pool;
mod read;
mod store;
mod write;

pub use connection::Options;
pub use ffi::end_process;
pub use store::RadosStore;

/// The class that ceph-osd knows our library by; our classes are methods of it, as `CLASS.METHOD`. The number grows with
/// the wire version, so that an upgrade is a new file beside the old one.
pub const CLASS_LIBRARY: &str = "benthic_1";
