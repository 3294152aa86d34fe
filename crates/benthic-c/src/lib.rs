//! Benthic for C, in two shared libraries.
//!
//! - `libbenthic.so.1` is Benthic's own API, `include/benthic.h`, over every engine.
//! - `librados.so.2` is librados' C API over the embedded engine, so that unmodified programs run
//!   without a cluster.
//!
//! Both come out of this one static library: `link.sh` links it twice, each time with a list of the
//! symbols to export and their version. rustc would write its own list, which has no versions.
//!
//! A handle of Benthic's own API looks like a pointer and is a number that [`handles`] looks up. So
//! a handle that is closed, invented, or of another type is an error and no crash. Only access to
//! the caller's memory remains `unsafe`; it is all in [`ffi`].

mod completion;
mod ffi;
mod handles;
mod op;
mod rados;
mod reply;
mod runtime;
mod store;
