//! The limits of every engine. They are part of the contract: an engine rejects a request that
//! exceeds a limit with [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) before it
//! stores anything.

/// Maximum length of an object name, in bytes of UTF-8.
pub const OBJECT_NAME_BYTES_MAX: usize = 2_048;
/// Maximum length of a namespace, in bytes of UTF-8.
pub const NAMESPACE_BYTES_MAX: usize = 256;
/// Maximum length of a pool name, in bytes of UTF-8.
pub const POOL_NAME_BYTES_MAX: usize = 128;
/// Maximum length of an attribute name, in bytes of UTF-8.
pub const XATTR_NAME_BYTES_MAX: usize = 100;
/// Maximum length of an attribute value.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of an omap key.
pub const OMAP_KEY_BYTES_MAX: usize = 4_096;
/// Maximum length of an omap value.
pub const OMAP_VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of omap entries in one page of a range (Ceph 16.2:
/// `osd_max_omap_entries_per_request`).
pub const OMAP_PAGE_ENTRIES_MAX: usize = 1_024;
/// Maximum size of a page of an omap range. A page may exceed it by one entry.
pub const OMAP_PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum size of an object. An OSD accepts a write that ends at this size, but not a truncation
/// to it.
pub const OBJECT_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Maximum size of one operation, in either direction: data, names, keys, values and method input.
/// Every attribute and omap key counts [`ENTRY_BYTES`] extra.
pub const OPERATION_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The overhead that is charged for each attribute or omap key.
pub const ENTRY_BYTES: u64 = 16;
/// Maximum number of steps and guards in one operation.
pub const OPERATION_STEPS_MAX: usize = 1_024;
/// Maximum number of objects in one page of a listing.
pub const LIST_PAGE_OBJECTS_MAX: usize = 10_000;
/// Maximum length of a class or method name.
pub const CLASS_NAME_BYTES_MAX: usize = 64;
/// Maximum size of a method's output.
pub const METHOD_OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum memory that one method call may hold through its context: data it read, writes it
/// staged, and memory it charged itself.
pub const METHOD_MEMORY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum run time of one method call. An OSD calls an operation slow after 15 s and gives up
/// after 150 s.
pub const METHOD_DEADLINE_MS: u64 = 10_000;

/// Limit of the calls of methods by methods, one in the other.
pub const NESTED_CALLS_MAX: u32 = 4;
