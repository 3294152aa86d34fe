//! The limits of every engine. A limit is part of the contract: what is over it is refused with
//! [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) before anything is stored.

/// Longest object name, in bytes of UTF-8.
pub const OBJECT_NAME_BYTES_MAX: usize = 2_048;
/// Longest namespace, in bytes of UTF-8.
pub const NAMESPACE_BYTES_MAX: usize = 256;
/// Longest pool name, in bytes of UTF-8.
pub const POOL_NAME_BYTES_MAX: usize = 128;
/// Longest name of an extended attribute, in bytes of UTF-8.
pub const XATTR_NAME_BYTES_MAX: usize = 100;
/// Longest value of an extended attribute.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Longest omap key.
pub const OMAP_KEY_BYTES_MAX: usize = 4_096;
/// Longest omap value.
pub const OMAP_VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Most omap entries that one page of a range holds (Ceph 16.2: `osd_max_omap_entries_per_request`).
pub const OMAP_PAGE_ENTRIES_MAX: usize = 1_024;
/// Most that one page of an omap range holds, and one entry more.
pub const OMAP_PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest object. An OSD takes a write that ends here, but no truncation to it.
pub const OBJECT_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Most that one operation carries, in either direction: data, names, keys, values and method input. Every attribute and
/// omap key counts for [`ENTRY_BYTES`] more.
pub const OPERATION_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What an attribute or an omap key costs beyond its bytes.
pub const ENTRY_BYTES: u64 = 16;
/// Most steps and guards of one operation.
pub const OPERATION_STEPS_MAX: usize = 1_024;
/// Most objects in one page of a listing.
pub const LIST_PAGE_OBJECTS_MAX: usize = 10_000;
/// Longest class or method name.
pub const CLASS_NAME_BYTES_MAX: usize = 64;
/// Most that a method may return.
pub const METHOD_OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Memory that one method call may hold through its context: data it read, writes it staged, what it charged.
pub const METHOD_MEMORY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Time that one method call may take. An OSD calls an operation slow after 15 s and gives up after 150 s.
pub const METHOD_DEADLINE_MS: u64 = 10_000;
