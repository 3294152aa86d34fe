//! What every driver refuses beyond. The limits of keys, attributes, parts and listings are those of the class `bucket`.

pub use benthic_classes::bucket::wire::{
    ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, ETAG_BYTES_MAX, KEY_BYTES_MAX, LIST_ENTRIES_MAX,
    PART_ATTRIBUTES_BYTES_MAX, PART_NUMBER_MAX,
};

/// Longest name of a record, in bytes of UTF-8.
pub const RECORD_NAME_BYTES_MAX: usize = 512;
/// Largest record.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Most records that change together.
pub const RECORD_CHANGES_MAX: usize = 16;
/// Longest name of a bucket or of its owner, in bytes of UTF-8. What names S3 allows is the gateway's to know.
pub const BUCKET_NAME_BYTES_MAX: usize = 255;
/// Largest attributes of a bucket, all names and values together.
pub const BUCKET_ATTRIBUTES_BYTES_MAX: usize = 256 * 1024;
/// Most shards of a bucket.
pub const SHARDS_MAX: u32 = 256;
