//! Builds write operations.

use super::read_op::{RawOutput, ReadBuffer, guards};
use super::{Api, Handle, IoCtx, Operator, parts};
use crate::in_flight::Permit;
use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};

/// The result and output of a write operation's only method call.
#[derive(Default)]
pub(crate) struct MethodResult(Option<Box<ReadBuffer>>);

// SAFETY: as for `ReadBuffers`.
unsafe impl Send for MethodResult {}

impl MethodResult {
    /// The return value; 0 if the method did not run.
    pub fn code(&self) -> i32 {
        self.0.as_ref().map_or(0, |buffer| buffer.result)
    }

    pub fn output(&self) -> Vec<u8> {
        self.0.as_ref().map(|buffer| buffer.exec_output()).unwrap_or_default()
    }
}

pub(crate) struct WriteOp {
    api: &'static Api,
    pub(super) handle: Handle,
    pub(super) method: MethodResult,
    pub(super) permit: Option<Permit>,
}

impl Drop for WriteOp {
    fn drop(&mut self) {
        // SAFETY: librados took the data it needs when the operation was sent.
        unsafe { (self.api.release_write_op)(self.handle) };
    }
}

guards! { WriteOp: write_op_assert_exists, write_op_assert_version, write_op_cmpxattr, write_op_omap_cmp2 }

// SAFETY of all calls below: the operation is live and used by one thread. Pointers are valid
// during the call, and librados copies the data behind them, except for outputs; the methods with
// outputs name the owner.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one comment for all, above")]
impl WriteOp {
    pub fn new(io: &IoCtx) -> WriteOp {
        let api = io.cluster.api;
        let handle = unsafe { (api.create_write_op)() };
        WriteOp { api, handle, method: MethodResult::default(), permit: None }
    }

    pub fn create(&mut self, exclusive: bool) {
        unsafe { (self.api.write_op_create)(self.handle, c_int::from(exclusive), null()) }
    }

    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        let (data, len) = parts(data);
        unsafe { (self.api.write_op_write)(self.handle, data, len, offset_bytes) }
    }

    pub fn write_full(&mut self, data: &[u8]) {
        let (data, len) = parts(data);
        unsafe { (self.api.write_op_write_full)(self.handle, data, len) }
    }

    pub fn append(&mut self, data: &[u8]) {
        let (data, len) = parts(data);
        unsafe { (self.api.write_op_append)(self.handle, data, len) }
    }

    pub fn truncate(&mut self, size_bytes: u64) {
        unsafe { (self.api.write_op_truncate)(self.handle, size_bytes) }
    }

    /// Zeroes a range. The length must not be 0: an OSD would abort.
    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) {
        assert!(len_bytes > 0, "an OSD aborts when it zeroes 0 bytes");
        unsafe { (self.api.write_op_zero)(self.handle, offset_bytes, len_bytes) }
    }

    pub fn remove(&mut self) {
        unsafe { (self.api.write_op_remove)(self.handle) }
    }

    pub fn set_xattr(&mut self, name: &CStr, value: &[u8]) {
        let (value, len) = parts(value);
        unsafe { (self.api.write_op_setxattr)(self.handle, name.as_ptr(), value, len) }
    }

    pub fn remove_xattr(&mut self, name: &CStr) {
        unsafe { (self.api.write_op_rmxattr)(self.handle, name.as_ptr()) }
    }

    pub fn omap_set<'a>(&mut self, entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        let (keys, values): (Vec<_>, Vec<_>) = entries.map(|(key, value)| (parts(key), parts(value))).unzip();
        let (keys, key_lens): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        let (values, value_lens): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        unsafe {
            (self.api.write_op_omap_set2)(
                self.handle,
                keys.as_ptr(),
                values.as_ptr(),
                key_lens.as_ptr(),
                value_lens.as_ptr(),
                keys.len(),
            );
        }
    }

    pub fn omap_remove<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        let (keys, lens): (Vec<_>, Vec<_>) = keys.map(parts).unzip();
        unsafe {
            (self.api.write_op_omap_rm_keys2)(self.handle, keys.as_ptr(), lens.as_ptr(), keys.len());
        }
    }

    pub fn omap_clear(&mut self) {
        unsafe { (self.api.write_op_omap_clear)(self.handle) }
    }

    /// Calls a method, at most once per operation. Its result and output go to the operation's
    /// [`MethodResult`], which the pending operation owns.
    ///
    /// `rados_write_op_exec` has no parameter for the output, in which a failed method explains
    /// itself. To librados, operations that write and operations that read have one type, so this
    /// adds the call as to an operation that reads.
    pub fn exec(&mut self, class: &CStr, method: &CStr, input: &[u8]) {
        let (input, input_len) = parts(input);
        let buffer = self.method.0.insert(ReadBuffer::new(self.api, RawOutput::of_exec()));
        if let RawOutput::Exec { buffer: output, len } = &mut buffer.output {
            let (class, method) = (class.as_ptr(), method.as_ptr());
            let result = &mut buffer.result;
            unsafe {
                (self.api.read_op_exec)(self.handle, class, method, input, input_len, output, len, result);
            }
        }
    }
}
