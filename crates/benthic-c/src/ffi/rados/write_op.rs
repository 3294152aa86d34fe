//! Compound write operations. Running one makes it empty, as with librados.

use super::object::{call, repeated};
use super::{Handle, ResultPointer, api, unsupported, void_api};
use crate::ffi::args::{bytes, free, item, object_name, text};
use crate::handles::HANDLES;
use crate::rados::completion::Completion;
use crate::rados::ioctx::{Ioctx, Work};
use crate::rados::write::{Building, Check, Parts, operate};
use benthic_core::op::{Compare, WriteStep};
use benthic_core::{Error, Result, limits};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

/// `LIBRADOS_OP_FLAG_FAILOK`: the other steps happen although this one fails.
const FAIL_OK: c_int = 2;

/// Adds a part to an operation. An error is that of running the operation.
fn add(op: Handle, build: impl FnOnce() -> Result<(usize, Box<dyn FnOnce(&mut Parts)>)>) -> Result<()> {
    let op = item::<Building, _>(op)?;
    match build() {
        Ok((len_bytes, add)) => op.0.lock().add(len_bytes, add),
        Err(error) => op.0.lock().error = Some(error),
    }
    Ok(())
}

fn step(op: Handle, len_bytes: usize, step: Result<WriteStep>) -> Result<()> {
    add(op, || {
        let step = step?;
        Ok((len_bytes, Box::new(move |parts: &mut Parts| parts.op.steps.push(step))))
    })
}

fn check(op: Handle, len_bytes: usize, check: Result<Check>, result: ResultPointer<c_int>) -> Result<()> {
    add(op, || {
        let check = check?;
        Ok((
            len_bytes,
            Box::new(move |parts: &mut Parts| {
                parts.checks.push(check);
                parts.results.push(Box::new(move |code| result.set(code)));
            }),
        ))
    })
}

/// # Safety
/// As in `librados.h`; the same holds for the functions below.
unsafe fn data(data: *const c_char, len: usize) -> Result<Bytes> {
    // SAFETY: the caller's promise.
    unsafe { bytes(data.cast(), len, "buffer") }
}

/// An omap key that ends with a NUL.
pub unsafe fn omap_key(key: *const c_char) -> Result<Bytes> {
    // SAFETY: the caller's promise. Keys need not be UTF-8, so `text` does not do.
    unsafe {
        if key.is_null() {
            return Err(Error::invalid_argument("an omap key is NULL"));
        }
        let is_end = |at: &usize| key.add(*at).read() == 0;
        if !(0..=limits::OMAP_KEY_BYTES_MAX).any(|at| is_end(&at)) {
            return Err(Error::limit_exceeded("an omap key is too long"));
        }
        Ok(Bytes::copy_from_slice(CStr::from_ptr(key).to_bytes()))
    }
}

/// A list of omap keys.
pub unsafe fn omap_keys(keys: *const *const c_char, count: usize) -> Result<Vec<Bytes>> {
    if count as u64 > limits::OPERATION_BYTES_MAX / limits::ENTRY_BYTES {
        return Err(Error::limit_exceeded("too many omap keys").with("keys", count));
    }
    if count > 0 && keys.is_null() {
        return Err(Error::invalid_argument("the list of omap keys is NULL"));
    }
    // SAFETY: the caller's promise.
    (0..count).map(|at| unsafe { omap_key(keys.add(at).read()) }).collect()
}

unsafe fn name(name: *const c_char) -> Result<String> {
    // SAFETY: the caller's promise.
    unsafe { text(name, "name", limits::XATTR_NAME_BYTES_MAX) }.map(str::to_owned)
}

fn comparison(number: u8) -> Result<Compare> {
    const ALL: [Compare; 6] = [Compare::Eq, Compare::Ne, Compare::Gt, Compare::Ge, Compare::Lt, Compare::Le];
    let found = usize::from(number).checked_sub(1).and_then(|at| ALL.get(at));
    found.copied().ok_or_else(|| Error::invalid_argument("there is no such comparison"))
}

/// The operation, which is empty afterwards, on an object.
unsafe fn work(op: Handle, io: Handle, object: *const c_char) -> Result<Work> {
    // SAFETY: the caller's promise.
    let (object, op) = (unsafe { object_name(object)? }, item::<Building, _>(op)?);
    let io = item::<Ioctx, _>(io)?;
    let parts = std::mem::take(&mut *op.0.lock());
    io.work(object, false, |pool, object| async move { operate(&*pool, &object, parts).await })
}

/// Creates an operation. Returns NULL if too many handles are open.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_create_write_op() -> Handle {
    HANDLES.add(Arc::<Building>::default()).map_or(null_mut(), |handle| handle as Handle)
}

void_api! {
    fn rados_release_write_op(op: Handle) {
        free::<Building, _>(op);
    }

    // The other flags are hints.
    fn rados_write_op_set_flags(op: Handle, flags: c_int) {
        let exclusive = flags & 1 != 0;
        add(op, || match flags & FAIL_OK {
            0 => Ok((0, Box::new(move |parts: &mut Parts| {
                if let (true, Some(WriteStep::Create { exclusive })) = (exclusive, parts.op.steps.last_mut()) {
                    *exclusive = true;
                }
            }))),
            _ => Err(unsupported("a store runs all steps of an operation or none")),
        })?;
    }

    fn rados_write_op_assert_version(op: Handle, version: u64) {
        check(op, 0, Ok(Check::Version(version)), ResultPointer::new(null_mut()))?;
    }

    fn rados_write_op_cmpext(op: Handle, buffer: *const c_char, len: usize, offset: u64, result: *mut c_int) {
        let given = data(buffer, len).map(|data| Check::Data { offset_bytes: offset, data });
        check(op, len, given, ResultPointer::new(result))?;
    }

    fn rados_write_op_omap_cmp(
        op: Handle, key: *const c_char, operator: u8, value: *const c_char, len: usize, result: *mut c_int,
    ) {
        let given = || Ok(Check::Omap { key: omap_key(key)?, compare: comparison(operator)?, value: data(value, len)? });
        check(op, len, given(), ResultPointer::new(result))?;
    }

    fn rados_write_op_setxattr(op: Handle, key: *const c_char, value: *const c_char, len: usize) {
        let made = || Ok(WriteStep::SetXattr { name: name(key)?, value: data(value, len)? });
        step(op, len, made())?;
    }

    fn rados_write_op_rmxattr(op: Handle, key: *const c_char) {
        step(op, 0, name(key).map(|name| WriteStep::RemoveXattr { name }))?;
    }

    fn rados_write_op_create(op: Handle, exclusive: c_int, _category: *const c_char) {
        step(op, 0, Ok(WriteStep::Create { exclusive: exclusive != 0 }))?;
    }

    fn rados_write_op_write(op: Handle, buffer: *const c_char, len: usize, offset: u64) {
        step(op, len, data(buffer, len).map(|data| WriteStep::Write { offset_bytes: offset, data }))?;
    }

    fn rados_write_op_write_full(op: Handle, buffer: *const c_char, len: usize) {
        step(op, len, data(buffer, len).map(|data| WriteStep::WriteFull { data }))?;
    }

    fn rados_write_op_writesame(op: Handle, buffer: *const c_char, len: usize, write_len: usize, offset: u64) {
        let made = repeated(buffer, len, write_len);
        step(op, write_len, made.map(|data| WriteStep::Write { offset_bytes: offset, data }))?;
    }

    fn rados_write_op_append(op: Handle, buffer: *const c_char, len: usize) {
        step(op, len, data(buffer, len).map(|data| WriteStep::Append { data }))?;
    }

    fn rados_write_op_remove(op: Handle) {
        step(op, 0, Ok(WriteStep::Remove))?;
    }

    fn rados_write_op_truncate(op: Handle, size: u64) {
        step(op, 0, Ok(WriteStep::Truncate { size_bytes: size }))?;
    }

    fn rados_write_op_zero(op: Handle, offset: u64, len: u64) {
        step(op, 0, Ok(WriteStep::Zero { offset_bytes: offset, len_bytes: len }))?;
    }

    fn rados_write_op_exec(
        op: Handle, class: *const c_char, method: *const c_char, input: *const c_char, len: usize,
        result: *mut c_int,
    ) {
        let (made, result) = (data(input, len).and_then(|input| call(class, method, input)), ResultPointer::new(result));
        add(op, || {
            let call = made?;
            Ok((len, Box::new(move |parts: &mut Parts| {
                parts.op.steps.push(WriteStep::Exec(call));
                parts.results.push(Box::new(move |code| result.set(code)));
            })))
        })?;
    }

    fn rados_write_op_omap_set(
        op: Handle, keys: *const *const c_char, values: *const *const c_char, lens: *const usize, count: usize,
    ) {
        let entries = || {
            let keys = omap_keys(keys, count)?;
            if count > 0 && (values.is_null() || lens.is_null()) {
                return Err(Error::invalid_argument("the list of omap values is NULL"));
            }
            let value = |(at, key)| Ok((key, data(values.add(at).read(), lens.add(at).read())?));
            keys.into_iter().enumerate().map(value).collect::<Result<BTreeMap<Bytes, Bytes>>>()
        };
        let entries = entries();
        let len_bytes = entries.iter().flatten().map(|(key, value)| key.len() + value.len() + 16).sum();
        step(op, len_bytes, entries.map(|entries| WriteStep::OmapSet { entries }))?;
    }

    fn rados_write_op_omap_rm_keys(op: Handle, keys: *const *const c_char, count: usize) {
        let keys = omap_keys(keys, count);
        let len_bytes = keys.iter().flatten().map(|key| key.len() + 16).sum();
        step(op, len_bytes, keys.map(|keys| WriteStep::OmapRemove { keys }))?;
    }

    fn rados_write_op_omap_rm_range2(
        op: Handle, begin: *const c_char, begin_len: usize, end: *const c_char, end_len: usize,
    ) {
        let range = || Ok::<_, Error>((data(begin, begin_len)?, data(end, end_len)?));
        let range = range();
        add(op, || {
            let (begin, end) = range?;
            Ok((begin.len() + end.len(), Box::new(move |parts: &mut Parts| {
                parts.ranges.push((parts.op.steps.len(), begin, end));
                parts.op.steps.push(WriteStep::OmapRemove { keys: Vec::new() });
            })))
        })?;
    }

    fn rados_write_op_omap_clear(op: Handle) {
        step(op, 0, Ok(WriteStep::OmapClear))?;
    }
}

// The engine sets the time of a change, and the flags are hints.
api! {
    fn rados_write_op_operate(
        op: Handle, io: Handle, object: *const c_char, _modified: *mut i64, _flags: c_int,
    ) {
        work(op, io, object)?.wait()
    }

    fn rados_aio_write_op_operate(
        op: Handle, io: Handle, done: Handle, object: *const c_char, _modified: *mut i64, _flags: c_int,
    ) {
        let done = item::<Completion, _>(done)?;
        work(op, io, object)?.start(done)
    }
}
