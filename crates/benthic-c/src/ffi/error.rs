//! The errors of the C API: a kind for programs, and a message for people. A failed call stores a
//! handle of its error, which the caller frees.

use crate::ffi::ErrorHandle;
use crate::ffi::args::{free, item};
use crate::reply::{Failure, kind_number};
use benthic_core::error::ERROR_TABLE;
use std::ffi::{CStr, CString, c_char};
use std::ptr::null;
use std::sync::LazyLock;

/// The result of a function: 0 for success, otherwise how the caller should react. The numbers are
/// the exit statuses of the `benthic` program.
#[expect(dead_code, reason = "the header has the variants")]
#[repr(C)]
pub enum Kind {
    Ok = 0,
    /// The pool, object, attribute or key does not exist.
    NotFound = 3,
    /// An exclusive creation found an existing item.
    AlreadyExists = 4,
    /// A guard failed because another client changed the object. Read the object again, then
    /// decide.
    Conflict = 5,
    /// The request is invalid; a retry will not help.
    InvalidArgument = 6,
    /// This engine, class or version lacks the feature.
    Unsupported = 7,
    /// The caller lacks the permission.
    PermissionDenied = 8,
    /// The store is unreachable or accepts no writes, or the operation was cancelled. Nothing was
    /// done.
    Unavailable = 9,
    /// Another client is using the item, or too many operations are in flight. Retry later.
    Busy = 10,
    /// A limit on size, count, time, memory or space was exceeded. Nothing was stored.
    LimitExceeded = 11,
    /// Stored bytes are damaged. Damaged bytes are never returned.
    Corrupt = 12,
    /// A class method failed. The object is unchanged.
    ClassFailed = 13,
    /// A write may or may not have happened. Read the object to find out; do not retry blindly.
    OutcomeUnknown = 14,
    /// A bug in Benthic.
    Internal = 15,
}

/// Returns the name of the library's build, such as "0.1.0+815.g4fc735709c06".
#[unsafe(no_mangle)]
pub extern "C" fn benthic_version() -> *const c_char {
    static VERSION: LazyLock<CString> =
        LazyLock::new(|| CString::new(benthic_core::build()).unwrap_or_default());
    VERSION.as_ptr()
}

/// Returns the name of a kind, such as "not_found"; NULL if there is no such kind.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_kind_name(kind: i32) -> *const c_char {
    static NAMES: LazyLock<Vec<(i32, CString)>> = LazyLock::new(|| {
        let name = |row: &benthic_core::error::ErrorRow| {
            (kind_number(row.kind), CString::new(row.name).unwrap_or_default())
        };
        ERROR_TABLE.iter().map(name).collect()
    });
    if kind == Kind::Ok as i32 {
        return c"ok".as_ptr();
    }
    NAMES.iter().find(|(number, _)| *number == kind).map_or(null(), |(_, name)| name.as_ptr())
}

/// Returns the kind of an error: one of `BENTHIC_KIND_*`. The kind of a handle that is not open is
/// `BENTHIC_KIND_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_error_kind(error: *const ErrorHandle) -> i32 {
    item::<Failure, _>(error).map_or(Kind::InvalidArgument as i32, |failure| kind_number(failure.kind))
}

/// Returns the message of an error: the operation, what failed, the next step if there is one, and
/// the values as key=value. It is valid until the error is freed. Returns NULL if the handle is not
/// open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_error_message(error: *const ErrorHandle) -> *const c_char {
    // The table keeps the item, and so the text, until the handle is freed.
    item::<Failure, _>(error).map_or(null(), |failure| CStr::as_ptr(&failure.message))
}

/// Frees an error. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is
/// not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_error_free(error: *mut ErrorHandle) -> i32 {
    free::<Failure, _>(error)
}
