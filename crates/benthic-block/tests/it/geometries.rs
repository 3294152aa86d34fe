//! Geometries with small objects, so that small images have many.

use benthic_block::{CreateOptions, Geometry};

pub const KIB: u64 = 1024;

/// Objects of 128 KiB: an object has many blocks that are copied separately, and an image many
/// objects.
pub fn small(size_bytes: u64) -> CreateOptions {
    let geometry = Geometry { object_bytes: 128 * KIB, stripe_unit_bytes: 128 * KIB, stripe_count: 1 };
    CreateOptions::new(size_bytes, geometry)
}

pub fn striped(size_bytes: u64) -> CreateOptions {
    let geometry = Geometry { object_bytes: 128 * KIB, stripe_unit_bytes: 4 * KIB, stripe_count: 3 };
    CreateOptions::new(size_bytes, geometry)
}
