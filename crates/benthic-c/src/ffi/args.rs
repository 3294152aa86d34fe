//! Arguments, results and errors of calls from C: handles, texts, memory of the caller, and
//! pointers where a result goes.

use crate::ffi::ErrorHandle;
use crate::handles::{HANDLES, Item};
use crate::reply::{Failure, kind_number};
use benthic_core::{Error, ErrorKind, Result, limits};
use bytes::Bytes;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum length of a store's URI.
const URI_BYTES_MAX: usize = 4_096;

/// Declares functions of C's API. Each has one more argument, `error`, through which it stores an
/// error, and returns 0 or the number of the error's kind.
macro_rules! c_api {
    ($($(#[$docs:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$docs])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($arg: $type,)*
            error: *mut *mut $crate::ffi::ErrorHandle,
        ) -> i32 {
            // SAFETY: the caller's promises; see `ffi`.
            unsafe { $crate::ffi::args::call(error, || $body) }
        }
    )*};
}

pub(super) use c_api;

/// Runs a call from C. Returns 0, or the number of the error's kind, and stores the error.
///
/// # Safety
/// `error` is NULL or valid for writing.
pub unsafe fn call(error: *mut *mut ErrorHandle, run: impl FnOnce() -> Result<()>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(Error::internal("the call panicked; the panic is on the standard error output"))
    });
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { fail(error, failure.into()) }
        }
    }
}

/// Stores an error.
///
/// # Safety
/// `error` is NULL or valid for writing.
pub unsafe fn fail(error: *mut *mut ErrorHandle, failure: Failure) -> i32 {
    let kind = kind_number(failure.kind);
    if !error.is_null() {
        let handle = HANDLES.add(Arc::new(failure)).unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { error.write(handle as *mut ErrorHandle) };
    }
    kind
}

/// The item of a handle. `T` is the item's type, and `H` the type of the handle in C.
///
/// # Errors
/// `InvalidArgument` if the handle is not open, or is of another type.
pub fn item<T: Item, H>(handle: *const H) -> Result<Arc<T>> {
    HANDLES.get(handle as u64)
}

/// Closes a handle. Returns 0, or the number of the error's kind.
pub fn free<T: Item, H>(handle: *const H) -> i32 {
    let freed = catch_unwind(AssertUnwindSafe(|| match handle.is_null() {
        true => Ok(()),
        false => HANDLES.remove::<T>(handle as u64).map(drop),
    }));
    match freed {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => kind_number(error.kind()),
        Err(_) => kind_number(ErrorKind::Internal),
    }
}

/// Where a call stores a result.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Errors
    /// `InvalidArgument` if the pointer is NULL.
    ///
    /// # Safety
    /// The pointer is NULL or valid for writing until the call returns.
    pub unsafe fn new(pointer: *mut T, name: &'static str) -> Result<Out<T>> {
        check_pointer(pointer, name)?;
        Ok(Out(pointer))
    }

    pub fn set(&self, value: T) {
        // SAFETY: `new` was promised that.
        unsafe { self.0.write(value) }
    }
}

impl<H> Out<*mut H> {
    /// Stores a new handle of an item.
    ///
    /// # Errors
    /// `LimitExceeded` if too many handles are open.
    pub fn set_handle<T: Item>(&self, item: T) -> Result<()> {
        self.set(HANDLES.add(Arc::new(item))? as *mut H);
        Ok(())
    }
}

fn check_pointer<T>(pointer: *const T, name: &'static str) -> Result<()> {
    let invalid = |message: &str| Err(Error::invalid_argument(message).with("argument", name));
    if pointer.is_null() {
        return invalid("an argument is NULL");
    }
    if !pointer.is_aligned() {
        return invalid("an argument is a pointer that is not aligned");
    }
    Ok(())
}

/// A text in UTF-8 that ends with a NUL.
///
/// # Errors
/// `InvalidArgument` if it is NULL or not UTF-8; `LimitExceeded` if it has no NUL in the first
/// `len_bytes_max + 1` bytes.
///
/// # Safety
/// The pointer is NULL or valid for reading up to a NUL. The text stays unchanged during the call,
/// and `'a` ends with the call.
pub unsafe fn text<'a>(text: *const c_char, name: &'static str, len_bytes_max: usize) -> Result<&'a str> {
    check_pointer(text, name)?;
    let is_end = |at: &usize| {
        // SAFETY: the bytes up to the first NUL are valid, and none before this one is NUL.
        unsafe { text.add(*at).read() == 0 }
    };
    let Some(len_bytes) = (0..=len_bytes_max).find(is_end) else {
        let error = Error::limit_exceeded("a text is too long");
        return Err(error.with("argument", name).with("len_bytes_max", len_bytes_max));
    };
    // SAFETY: these are the bytes before the NUL.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len_bytes) };
    std::str::from_utf8(bytes)
        .map_err(|_| Error::invalid_argument("a text is not UTF-8").with("argument", name))
}

/// The name of an object.
///
/// # Errors
/// # Safety
/// As [`text`].
pub unsafe fn object_name<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(name, "object", limits::OBJECT_NAME_BYTES_MAX) }
}

/// The name of a pool.
///
/// # Errors
/// # Safety
/// As [`text`].
pub unsafe fn pool_name<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(name, "name", limits::POOL_NAME_BYTES_MAX) }
}

/// A namespace; NULL is the default one.
///
/// # Errors
/// # Safety
/// As [`text`].
pub unsafe fn namespace<'a>(namespace: *const c_char) -> Result<&'a str> {
    if namespace.is_null() {
        return Ok("");
    }
    // SAFETY: the caller's promise.
    unsafe { text(namespace, "namespace", limits::NAMESPACE_BYTES_MAX) }
}

/// The URI of a store.
///
/// # Errors
/// # Safety
/// As [`text`].
pub unsafe fn uri<'a>(uri: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(uri, "uri", URI_BYTES_MAX) }
}

/// A copy of bytes of the caller.
///
/// # Errors
/// `InvalidArgument` if the pointer is NULL and the length is not 0; `LimitExceeded` for more bytes
/// than an operation may have.
///
/// # Safety
/// The pointer is NULL or valid for reading that many bytes.
pub unsafe fn bytes(data: *const c_void, len_bytes: usize, name: &'static str) -> Result<Bytes> {
    if len_bytes == 0 {
        return Ok(Bytes::new());
    }
    check_len(len_bytes, name)?;
    check_pointer(data.cast::<u8>(), name)?;
    // SAFETY: the caller's promise; the length is far below isize::MAX.
    Ok(Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len_bytes) }))
}

/// Copies bytes to the caller.
///
/// # Errors
/// As [`bytes`]. `Internal` if there are more bytes than the caller has room for.
///
/// # Safety
/// The pointer is NULL or valid for writing that many bytes.
pub unsafe fn copy_to(data: *mut c_void, len_bytes_max: usize, from: &[u8]) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    if from.len() > len_bytes_max {
        return Err(Error::internal("the store returned more bytes than it was asked for"));
    }
    check_pointer(data.cast::<u8>(), "data")?;
    // SAFETY: the caller's promise; `from` is memory of this library.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), data.cast::<u8>(), from.len()) };
    Ok(())
}

/// Checks a length before anything is read or allocated.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_len(len_bytes: usize, name: &'static str) -> Result<()> {
    if len_bytes as u64 <= limits::OPERATION_BYTES_MAX {
        return Ok(());
    }
    let message = "there are more bytes than an operation may have; split it into several";
    let error = Error::limit_exceeded(message).with("argument", name);
    Err(error.with("len_bytes", len_bytes).with("len_bytes_max", limits::OPERATION_BYTES_MAX))
}
