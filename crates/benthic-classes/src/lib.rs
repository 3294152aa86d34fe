//! The built-in classes, one folder each.
//!
//! Per class: `mod.rs` holds the methods, `wire.rs` what goes in and out, `client.rs` typed calls for those
//! who use it, `tests.rs` the tests. A class depends on [`benthic_core`] and nothing of an engine, because it
//! is linked twice: into the embedded engine and into the library that ceph-osd loads.

pub mod bucket;
pub mod digest;
pub mod hello;
pub mod lock;
pub mod picture;

use benthic_core::ClassRegistry;

/// All built-in classes.
pub fn registry() -> ClassRegistry {
    ClassRegistry::new()
        .with(bucket::Bucket)
        .with(digest::Digest)
        .with(hello::Hello)
        .with(lock::Lock)
        .with(picture::Picture)
}
