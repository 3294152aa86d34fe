//! Classes that are WebAssembly modules.
//!
//! A native class is trusted code: only an administrator installs one, and one that never returns
//! takes its OSD down. A module is code that a user may bring. It can call only the functions of
//! [`host`], which are those of [`MethodContext`](benthic_core::MethodContext), and it runs within
//! limits of time and memory. It has no files, network, threads, clock or random numbers.
//!
//! - A module is identified by its SHA-256 ([`ModuleId`]) and describes itself in a custom section
//!   ([`Manifest`]).
//! - The native class [`Wasm`] runs modules, on every engine. It has a cache of modules. A call
//!   ([`Call`]) names a module and may attach it; if neither the call nor the cache has the module,
//!   the class answers `Busy`, and the client repeats the call with the module attached ([`exec`]).
//!   The reason: a class sees only its own object and cannot fetch the module.
//! - Two runtimes run the same interface. wasmi, here, interprets. The library for ceph-osd also
//!   has a compiler, for modules that are called again ([`Wasm::with_compiler`]). docs/design/0007
//!   has the measurements.
//!
//! - A module may import a deterministic subset of WASI ([`wasi`]), because Go cannot do without
//!   it.
//!
//! Rejected: the component model, because few languages produce components; all of WASI, because a
//! method has no files and no real clock.

mod call;
mod check;
mod class;
pub mod deployed;
mod function;
pub mod host;
mod interpreter;
mod manifest;
mod module;
pub mod names;
mod nan;
mod objects;
pub mod rules;
#[allow(unsafe_code, reason = "a runtime's store cannot hold a borrowed context")]
pub mod runtime;
mod signature;
pub mod wasi;

pub use call::{Call, exec};
pub use class::Wasm;
pub use function::{Calls, Function, call_function};
pub use manifest::{MANIFEST_SECTION, Manifest, MethodManifest, put_leb128, with_manifest};
pub use module::{Limits, MODULE_BYTES_MAX, Module, ModuleId};
pub use nan::canonicalize as canonicalize_nans;
pub use objects::{COLLECTED_BYTES_MAX, check_collected, list};
pub use signature::{Signatures, SigningKey};

/// The functions of the interface for classes in Rust, as a source file.
pub const GUEST_RUST: &str = include_str!("../guest/benthic.rs");
/// The functions of the interface for classes in C and C++, as a header.
pub const GUEST_C: &str = include_str!("../guest/benthic.h");
/// The functions of the interface for classes in Zig, AssemblyScript and Go, as source files.
pub const GUEST_ZIG: &str = include_str!("../guest/benthic.zig");
pub const GUEST_ASSEMBLYSCRIPT: &str = include_str!("../guest/benthic.ts");
pub const GUEST_GO: &str = include_str!("../guest/benthic.go");
