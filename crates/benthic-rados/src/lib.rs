//! The Ceph engine: [`RadosStore`], a client of a Ceph cluster.
//!
//! The engine opens librados when a store connects, not when the program is built. So one program
//! works with and without Ceph, and its error names the missing package. Every operation on an
//! object is one asynchronous librados call, with many in flight. librados offers only blocking
//! calls for monitor commands and listings; they run on a few threads.
//!
//! `read.rs` and `write.rs` translate the contract's operations into OSD operations.
//! docs/design/0003-what-an-osd-does.md gives the reasons.

mod admin;
mod blocking;
mod call_timeouts;
mod connection;
mod errors;
mod explain;
#[allow(unsafe_code, reason = "calls into librados; nothing outside this folder is unsafe")]
mod ffi;
mod in_flight;
mod inspect;
mod key_types;
mod libraries;
mod listing;
mod pool;
mod pool_context;
mod read;
mod store;
mod wait;
mod write;

pub use connection::Options;
pub use ffi::end_process;
pub use pool_context::PoolContext;
pub use store::RadosStore;

/// The class name under which ceph-osd knows our library. The methods of our classes are
/// `CLASS.METHOD` in it. The number grows with the wire version, so that an upgrade installs a new
/// file beside the old one.
pub const CLASS_LIBRARY: &str = "benthic_1";
