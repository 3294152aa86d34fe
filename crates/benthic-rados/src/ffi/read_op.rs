//! Builds read operations and reads their outputs.
//!
//! librados writes the output of each step through a pointer that it got when the step was added,
//! some time before the operation completes. So each step has a boxed output buffer, whose address
//! never changes. [`ReadOp`] collects the buffers, and [`ReadBuffers`] owns them from the
//! submission until librados is done. Then it converts them to [`StepOutput`]s.

use super::{Api, Handle, IoCtx, Operator, Timespec, copy, parts};
use crate::in_flight::Permit;
use std::ffi::{CStr, c_char, c_int, c_uchar};
use std::ptr::{null, null_mut};

/// The output buffer of one step of a read operation.
pub(super) struct ReadBuffer {
    api: &'static Api,
    /// 0 or more, or a negative errno.
    pub(super) result: c_int,
    pub(super) output: RawOutput,
}

/// An output as librados writes it.
pub(super) enum RawOutput {
    Data { buffer: Vec<u8>, len: usize },
    Stat { size_bytes: u64, modified: Timespec },
    Xattrs { iterator: Handle },
    Omap { iterator: Handle, more: c_uchar },
    Exec { buffer: *mut c_char, len: usize },
}

impl RawOutput {
    pub(super) fn of_exec() -> RawOutput {
        RawOutput::Exec { buffer: null_mut(), len: 0 }
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        // SAFETY: librados allocated the iterators and buffers, and we free each exactly once. The
        // operation is complete or was never sent.
        unsafe {
            match self.output {
                RawOutput::Xattrs { iterator } if !iterator.is_null() => (self.api.getxattrs_end)(iterator),
                RawOutput::Omap { iterator, .. } if !iterator.is_null() => (self.api.omap_get_end)(iterator),
                RawOutput::Exec { buffer, .. } if !buffer.is_null() => (self.api.buffer_free)(buffer),
                _ => {}
            }
        }
    }
}

/// An output as the caller gets it.
pub(crate) enum StepOutput {
    Data(Vec<u8>),
    Stat { size_bytes: u64, modified: Timespec },
    Xattrs(Vec<(Vec<u8>, Vec<u8>)>),
    Omap { entries: Vec<(Vec<u8>, Vec<u8>)>, more: bool },
    Exec(Vec<u8>),
}

/// The output buffers of a read operation that was sent, one for each step with an output. They are
/// boxed, so that moving the vector does not change the addresses that librados holds.
#[expect(clippy::vec_box, reason = "librados holds their addresses")]
pub(crate) struct ReadBuffers(Vec<Box<ReadBuffer>>);

// SAFETY: librados writes to the buffers only before the callback; iterators are not bound to a
// thread.
unsafe impl Send for ReadBuffers {}

impl ReadBuffers {
    /// Takes the buffers of an operation that is about to be sent.
    pub(super) fn take_from(op: &mut ReadOp) -> ReadBuffers {
        ReadBuffers(std::mem::take(&mut op.buffers))
    }

    /// The result of every step of the operation; 0 for a step that did not run.
    pub fn results(&self) -> impl Iterator<Item = i32> {
        self.0.iter().map(|buffer| buffer.result)
    }

    /// The output of the method call at this step. A failed method may have one, too.
    pub fn exec_output(&self, step: usize) -> Vec<u8> {
        self.0.get(step).map(|buffer| buffer.exec_output()).unwrap_or_default()
    }

    /// The outputs of an operation that succeeded.
    pub fn outputs(mut self) -> Vec<StepOutput> {
        self.0.iter_mut().map(|buffer| buffer.take_output()).collect()
    }
}

impl ReadBuffer {
    pub(super) fn new(api: &'static Api, output: RawOutput) -> Box<ReadBuffer> {
        Box::new(ReadBuffer { api, result: 0, output })
    }

    /// The output of a method call that ended; empty for other steps.
    pub(super) fn exec_output(&self) -> Vec<u8> {
        match self.output {
            // SAFETY: the pointer is null or points at `len` bytes from librados, which no longer
            // changes them.
            RawOutput::Exec { buffer, len } => unsafe { copy(buffer, len) },
            _ => Vec::new(),
        }
    }

    fn take_output(&mut self) -> StepOutput {
        // SAFETY: the operation succeeded, so librados has filled all outputs: `len` bytes of a
        // buffer with at least that capacity, and iterators at their first entry. Entries stay
        // valid until the iterator moves.
        unsafe {
            match &mut self.output {
                RawOutput::Data { buffer, len } => {
                    let mut data = std::mem::take(buffer);
                    data.set_len((*len).min(data.capacity()));
                    data.shrink_to_fit();
                    StepOutput::Data(data)
                }
                RawOutput::Stat { size_bytes, modified } => {
                    StepOutput::Stat { size_bytes: *size_bytes, modified: *modified }
                }
                RawOutput::Xattrs { iterator } => {
                    let mut xattrs = Vec::new();
                    loop {
                        let (mut name, mut value, mut len) = (null(), null(), 0);
                        let result = (self.api.getxattrs_next)(*iterator, &mut name, &mut value, &mut len);
                        if result < 0 || name.is_null() {
                            break StepOutput::Xattrs(xattrs);
                        }
                        xattrs.push((CStr::from_ptr(name).to_bytes().to_vec(), copy(value, len)));
                    }
                }
                RawOutput::Omap { iterator, more } => {
                    let mut entries = Vec::new();
                    loop {
                        let (mut key, mut value) = (null_mut(), null_mut());
                        let (mut key_len, mut len) = (0, 0);
                        let result = (self.api.omap_get_next2)(
                            *iterator,
                            &mut key,
                            &mut value,
                            &mut key_len,
                            &mut len,
                        );
                        if result < 0 || key.is_null() {
                            break StepOutput::Omap { entries, more: *more != 0 };
                        }
                        entries.push((copy(key, key_len), copy(value, len)));
                    }
                }
                RawOutput::Exec { .. } => StepOutput::Exec(self.exec_output()),
            }
        }
    }
}

/// Defines the guards of an operation. librados has each of these functions twice: for operations
/// that read, and for those that write.
macro_rules! guards {
    ($op:ident: $exists:ident, $version:ident, $xattr:ident, $omap:ident) => {
        // SAFETY of all calls below: as for `WriteOp`.
        #[allow(clippy::undocumented_unsafe_blocks, reason = "one comment for all, above")]
        impl $op {
            /// Adds the permit to be in flight, which the operation holds until it completes.
            pub fn with_permit(mut self, permit: Permit) -> Self {
                self.permit = Some(permit);
                self
            }

            pub fn assert_exists(&mut self) {
                unsafe { (self.api.$exists)(self.handle) }
            }

            pub fn assert_version(&mut self, version: u64) {
                unsafe { (self.api.$version)(self.handle, version) }
            }

            pub fn compare_xattr(&mut self, name: &CStr, operator: Operator, value: &[u8]) {
                let (value, len) = parts(value);
                unsafe { (self.api.$xattr)(self.handle, name.as_ptr(), operator as u8, value, len) }
            }

            /// Compares for equality only: OSDs do not order bytes above 0x7f.
            pub fn compare_omap(&mut self, key: &[u8], value: &[u8]) {
                let ((key, key_len), (value, len)) = (parts(key), parts(value));
                unsafe {
                    (self.api.$omap)(self.handle, key, Operator::Eq as u8, value, key_len, len, null_mut());
                }
            }
        }
    };
}

pub(super) use guards;

/// A read operation under construction.
pub(crate) struct ReadOp {
    api: &'static Api,
    pub(super) handle: Handle,
    #[expect(clippy::vec_box, reason = "librados holds their addresses")]
    buffers: Vec<Box<ReadBuffer>>,
    pub(super) permit: Option<Permit>,
}

impl Drop for ReadOp {
    fn drop(&mut self) {
        // SAFETY: librados took the data it needs when the operation was sent.
        unsafe { (self.api.release_read_op)(self.handle) };
    }
}

guards! { ReadOp: read_op_assert_exists, read_op_assert_version, read_op_cmpxattr, read_op_omap_cmp2 }

// SAFETY of all calls below: as for `WriteOp`. The pending operation owns the boxed output buffers
// until it completes.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one comment for all, above")]
impl ReadOp {
    pub fn new(io: &IoCtx) -> ReadOp {
        let api = io.cluster.api;
        ReadOp { api, handle: unsafe { (api.create_read_op)() }, buffers: Vec::new(), permit: None }
    }

    /// Reads a range. The length must not be 0: librados would read to the end, into an empty
    /// buffer.
    pub fn read(&mut self, offset_bytes: u64, len_bytes: usize) {
        assert!(len_bytes > 0, "librados would read to the end");
        let buffer = Vec::with_capacity(len_bytes);
        let (api, handle) = (self.api, self.handle);
        let (result, output) = self.push_buffer(RawOutput::Data { buffer, len: 0 });
        if let RawOutput::Data { buffer, len } = output {
            unsafe {
                (api.read_op_read)(handle, offset_bytes, len_bytes, buffer.as_mut_ptr().cast(), len, result);
            }
        }
    }

    pub fn stat(&mut self) {
        let (api, handle) = (self.api, self.handle);
        let (result, output) =
            self.push_buffer(RawOutput::Stat { size_bytes: 0, modified: Timespec::default() });
        if let RawOutput::Stat { size_bytes, modified } = output {
            unsafe {
                match api.read_op_stat2 {
                    Some(stat2) => stat2(handle, size_bytes, modified, result),
                    None => (api.read_op_stat)(handle, size_bytes, &mut modified.seconds, result),
                }
            }
        }
    }

    pub fn xattrs(&mut self) {
        let (api, handle) = (self.api, self.handle);
        let (result, output) = self.push_buffer(RawOutput::Xattrs { iterator: null_mut() });
        if let RawOutput::Xattrs { iterator } = output {
            unsafe { (api.read_op_getxattrs)(handle, iterator, result) }
        }
    }

    pub fn omap_get<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        let (keys, lens): (Vec<_>, Vec<_>) = keys.map(parts).unzip();
        let (api, handle) = (self.api, self.handle);
        let (result, output) = self.push_buffer(RawOutput::Omap { iterator: null_mut(), more: 0 });
        if let RawOutput::Omap { iterator, .. } = output {
            unsafe {
                (api.read_op_omap_get_vals_by_keys2)(
                    handle,
                    keys.as_ptr(),
                    keys.len(),
                    lens.as_ptr(),
                    iterator,
                    result,
                );
            }
        }
    }

    pub fn omap_range(&mut self, after: &CStr, prefix: &CStr, entries_max: u64) {
        let (api, handle) = (self.api, self.handle);
        let (result, output) = self.push_buffer(RawOutput::Omap { iterator: null_mut(), more: 0 });
        if let RawOutput::Omap { iterator, more } = output {
            unsafe {
                (api.read_op_omap_get_vals2)(
                    handle,
                    after.as_ptr(),
                    prefix.as_ptr(),
                    entries_max,
                    iterator,
                    more,
                    result,
                );
            }
        }
    }

    pub fn exec(&mut self, class: &CStr, method: &CStr, input: &[u8]) {
        let (input, input_len) = parts(input);
        let (api, handle) = (self.api, self.handle);
        let (result, output) = self.push_buffer(RawOutput::of_exec());
        if let RawOutput::Exec { buffer, len } = output {
            unsafe {
                (api.read_op_exec)(
                    handle,
                    class.as_ptr(),
                    method.as_ptr(),
                    input,
                    input_len,
                    buffer,
                    len,
                    result,
                );
            }
        }
    }

    /// Adds a buffer for the next step. Returns the places for the step's result and output.
    fn push_buffer(&mut self, output: RawOutput) -> (&mut c_int, &mut RawOutput) {
        let buffer = self.buffers.push_mut(ReadBuffer::new(self.api, output));
        (&mut buffer.result, &mut buffer.output)
    }
}
