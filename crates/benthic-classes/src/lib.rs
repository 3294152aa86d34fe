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
pub mod picture;

use benthic_core::ClassRegistry;

/// A registry of all built-in classes.
pub fn registry() -> ClassRegistry {
    ClassRegistry::new()
        .with(bucket::Bucket)
        .with(digest::Digest)
        .with(hello::Hello)
        .with(lock::Lock)
        .with(picture::Picture)
}
