//! Limits of every driver.

/// Longest key of an object, in bytes of UTF-8. A key has at least one byte.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Longest entity tag.
pub const ETAG_BYTES_MAX: usize = 128;
/// Most attributes of a version, an upload or a part.
pub const ATTRIBUTES_MAX: usize = 256;
/// Most bytes of names and values of attributes.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of names and values of the attributes of a part.
pub const PART_ATTRIBUTES_BYTES_MAX: usize = 1_024;
/// Largest number of a part; the least is 1.
pub const PART_NUMBER_MAX: u16 = 10_000;
/// Most entries of a page of a listing.
pub const LIST_ENTRIES_MAX: u32 = 1_000;
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
