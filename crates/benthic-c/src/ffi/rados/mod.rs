//! librados' C API. `librados.h` of Ceph declares and documents these functions; this library has
//! those that python3-rados and fio call.
//!
//! As elsewhere in [`crate::ffi`], handles are looked up. The callers' promises are those of
//! `librados.h`, which for operations in flight means that buffers and places for results stay
//! valid until the completion is complete.

mod absent;
mod aio;
mod application;
mod cluster;
mod command;
mod list;
mod object;
mod pool;
mod read_op;
mod write_op;

use crate::ffi::args::{Out, copy_to};
use crate::rados::code;
use benthic_core::error::errno;
use benthic_core::{Error, Result};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A handle of librados.
type Handle = *mut c_void;

/// Declares functions that return a negative errno or a result.
macro_rules! api {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some functions touch no memory of the caller")]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
            $crate::ffi::rados::result(|| {
                // SAFETY: the caller's promises; see `librados.h`.
                unsafe { $body }
            })
        }
    )*};
}

/// Declares functions that return nothing.
macro_rules! void_api {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some functions touch no memory of the caller")]
        pub unsafe extern "C" fn $name($($arg: $type),*) {
            $crate::ffi::rados::result(|| {
                // SAFETY: the caller's promises; see `librados.h`.
                unsafe { $body };
                Ok(0)
            });
        }
    )*};
}

use {api, void_api};

unsafe extern "C" {
    /// Memory that a program frees with `free` or `rados_buffer_free` comes from the C library.
    fn malloc(len_bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// Runs a call, and returns its result or a negative errno.
fn result(run: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a call of librados failed");
            code(&error)
        }
        Err(_) => -errno::EREMOTEIO,
    }
}

/// Memory of the caller for a result.
struct Memory {
    data: *mut c_void,
    len_bytes: usize,
}

// SAFETY: the caller promised the memory until the operation is complete, on any thread.
unsafe impl Send for Memory {}

impl Memory {
    /// # Safety
    /// NULL, or valid for writing until the operation is complete.
    unsafe fn new(data: *mut c_char, len_bytes: usize) -> Memory {
        Memory { data: data.cast(), len_bytes }
    }

    /// # Errors
    /// `InvalidArgument` if the memory is NULL; `Internal` if it is too small.
    fn copy(&self, from: &[u8]) -> Result<()> {
        // SAFETY: `new` was promised that.
        unsafe { copy_to(self.data, self.len_bytes, from) }
    }

    fn fits(&self, len_bytes: usize) -> bool {
        len_bytes <= self.len_bytes
    }

    /// Copies a text and its NUL. Returns its length, or `-ERANGE` if there is no room.
    fn copy_text(&self, text: &str) -> Result<c_int> {
        if !self.fits(text.len() + 1) {
            return Ok(-errno::ERANGE);
        }
        self.copy(&[text.as_bytes(), &[0]].concat())?;
        Ok(c_int::try_from(text.len()).unwrap_or(-errno::ERANGE))
    }
}

/// The caller's pointer to a result; NULL if the caller does not want it.
struct ResultPointer<T>(*mut T);

// SAFETY: as `Memory`.
unsafe impl<T> Send for ResultPointer<T> {}

impl<T> ResultPointer<T> {
    /// # Safety
    /// NULL, or valid for writing until the operation is complete.
    unsafe fn new(pointer: *mut T) -> ResultPointer<T> {
        ResultPointer(pointer)
    }

    fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: `new` was promised that. The caller's pointer may be unaligned.
            unsafe { self.0.write_unaligned(value) }
        }
    }
}

fn unsupported(message: &str) -> Error {
    Error::unsupported(message)
}

/// The texts, each with a NUL.
fn with_nuls<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    texts.into_iter().flat_map(|text| [text.as_str(), "\0"]).collect()
}

/// Copies texts to the caller if there is room for all of them, and stores how many bytes they
/// take. Returns `-ERANGE` if there is not.
///
/// # Safety
/// Each pointer to a text is NULL or valid for writing as many bytes as its length says, which the
/// caller stored.
unsafe fn copy_all<const N: usize>(texts: [(String, *mut c_char, *mut usize); N]) -> Result<c_int> {
    let mut fits = true;
    for (text, _, len) in &texts {
        // SAFETY: the caller's promise; `Out` refuses NULL and pointers that are not aligned.
        unsafe {
            let out = Out::new(*len, "length")?;
            fits &= text.len() <= len.read();
            out.set(text.len());
        }
    }
    if !fits {
        return Ok(-errno::ERANGE);
    }
    for (text, memory, _) in &texts {
        // SAFETY: the caller's promise, and the length is at most the caller's.
        unsafe { Memory::new(*memory, text.len()) }.copy(text.as_bytes())?;
    }
    Ok(0)
}
