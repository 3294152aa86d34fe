//! The built-in classes, one folder each.
//!
//! In each class `mod.rs` holds the methods, `wire.rs` their inputs and outputs, `client.rs` typed
//! calls for clients, `tests.rs` the tests. A class depends on [`benthic_core`] and on no engine,
//! because it is linked twice: into the embedded engine and into the library that ceph-osd loads.

pub mod bucket;
pub mod digest;
pub mod hello;
mod input;
pub mod lock;
// These have decoders, and are not built as WebAssembly modules.
#[cfg(not(target_family = "wasm"))]
pub mod picture;
#[cfg(not(target_family = "wasm"))]
pub mod select;

use benthic_core::ClassRegistry;

/// A registry of all built-in classes.
pub fn registry() -> ClassRegistry {
    let registry =
        ClassRegistry::new().with(bucket::Bucket).with(digest::Digest).with(hello::Hello).with(lock::Lock);
    #[cfg(not(target_family = "wasm"))]
    let registry = registry.with(picture::Picture).with(select::SelectClass);
    registry
}
