//! Limits that every driver enforces.

/// Maximum length of an object key, in bytes of UTF-8. A key has at least one byte.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Maximum length of an entity tag, in bytes.
pub const ETAG_BYTES_MAX: usize = 128;
/// Maximum number of attributes of a version, an upload or a part.
pub const ATTRIBUTES_MAX: usize = 256;
/// Maximum total size of the names and values of these attributes, in bytes.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// Maximum total size of the names and values of a part's attributes, in bytes.
pub const PART_ATTRIBUTES_BYTES_MAX: usize = 1_024;
/// Largest part number; the smallest is 1.
pub const PART_NUMBER_MAX: u16 = 10_000;
/// Maximum number of entries in a page of a listing.
pub const LIST_ENTRIES_MAX: u32 = 1_000;
/// Maximum length of a record's name, in bytes of UTF-8.
pub const RECORD_NAME_BYTES_MAX: usize = 512;
/// Maximum size of a record, in bytes.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of records in one atomic change.
pub const RECORD_CHANGES_MAX: usize = 128;
/// Maximum length of the name of a bucket or of its owner, in bytes of UTF-8. The gateway enforces
/// the stricter rules of S3.
pub const BUCKET_NAME_BYTES_MAX: usize = 255;
/// Maximum total size of the names and values of a bucket's attributes, in bytes.
pub const BUCKET_ATTRIBUTES_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of index shards of a bucket.
pub const SHARDS_MAX: u32 = 256;
