//! Compound read operations. Running one makes it empty, as with librados.

use super::write_op::{omap_key, omap_keys};
use super::{Handle, ResultPointer, api, void_api};
use crate::ffi::args::{bytes, free, item, object_name};
use crate::handles::HANDLES;
use crate::rados::code;
use crate::rados::completion::Completion;
use crate::rados::ioctx::{Ioctx, Work};
use crate::rados::list::Entries;
use crate::rados::read::{Building, Step, compare, operate, page};
use benthic_core::op::{ReadOutput, ReadStep};
use benthic_core::{Error, Result, limits};
use bytes::Bytes;
use std::ffi::{c_char, c_int, c_uchar};
use std::ptr::null_mut;
use std::sync::Arc;

/// Adds a step to an operation. An error is that of running the operation.
fn add(op: Handle, step: impl FnOnce() -> Result<Step>) -> Result<()> {
    let op = item::<Building, _>(op)?;
    let step = step();
    let mut parts = op.0.lock();
    match step {
        Ok(_) if parts.steps.len() >= limits::OPERATION_STEPS_MAX => {
            parts.error = Some(Error::limit_exceeded("too many steps in one operation"));
        }
        Ok(step) => parts.steps.push(step),
        Err(error) => parts.error = Some(error),
    }
    Ok(())
}

/// Adds a step that reads omap entries. Stores the handle of the entries, which are there when the
/// operation is complete.
fn add_omap(
    op: Handle,
    step: Result<ReadStep>,
    has_values: bool,
    list: ResultPointer<Handle>,
    more: ResultPointer<c_uchar>,
    result: ResultPointer<c_int>,
) -> Result<()> {
    list.set(null_mut());
    add(op, || {
        let step = step?;
        let entries = Arc::<Entries>::default();
        list.set(HANDLES.add(Arc::clone(&entries))? as Handle);
        let output = move |output: ReadOutput| match page(output) {
            Ok(page) => {
                more.set(page.more.into());
                let value = |value: Bytes| if has_values { value } else { Bytes::new() };
                entries.fill(page.entries.into_iter().map(|(key, found)| (key, value(found))));
                0
            }
            Err(error) => code(&error),
        };
        Ok(Step { step, output: Box::new(output), result: Box::new(move |code| result.set(code)) })
    })
}

/// A page of omap entries. As with librados, it may have fewer entries than the program asked for.
fn range(after: Bytes, prefix: Bytes, max: u64) -> ReadStep {
    match usize::try_from(max).unwrap_or(usize::MAX).min(limits::OMAP_PAGE_ENTRIES_MAX) {
        0 => ReadStep::OmapGet { keys: Vec::new() },
        entries_max => {
            ReadStep::OmapRange { after: Some(after).filter(|key| !key.is_empty()), prefix, entries_max }
        }
    }
}

/// # Safety
/// As in `librados.h`.
unsafe fn optional_key(key: *const c_char) -> Result<Bytes> {
    // SAFETY: the caller's promise.
    if key.is_null() { Ok(Bytes::new()) } else { unsafe { omap_key(key) } }
}

/// # Safety
/// As in `librados.h`.
unsafe fn work(op: Handle, io: Handle, object: *const c_char) -> Result<Work> {
    // SAFETY: the caller's promise.
    let (object, op) = (unsafe { object_name(object)? }, item::<Building, _>(op)?);
    let io = item::<Ioctx, _>(io)?;
    let parts = std::mem::take(&mut *op.0.lock());
    io.work(object, true, |pool, object| async move { operate(&*pool, &object, parts).await })
}

/// Creates an operation. Returns NULL if too many handles are open.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_create_read_op() -> Handle {
    HANDLES.add(Arc::<Building>::default()).map_or(null_mut(), |handle| handle as Handle)
}

void_api! {
    fn rados_release_read_op(op: Handle) {
        free::<Building, _>(op);
    }

    // The flags are hints.
    fn rados_read_op_set_flags(_op: Handle, _flags: c_int) {}

    fn rados_read_op_cmpext(op: Handle, buffer: *const c_char, len: usize, offset: u64, result: *mut c_int) {
        let (given, result) = (bytes(buffer.cast(), len, "cmp_buf"), ResultPointer::new(result));
        add(op, || {
            let given = given?;
            let compared = move |output| match output {
                ReadOutput::Data(stored) => compare(&stored, &given),
                _ => code(&Error::internal("the reply does not fit the request")),
            };
            let step = ReadStep::Read { offset_bytes: offset, len_bytes: len as u64 };
            Ok(Step { step, output: Box::new(compared), result: Box::new(move |code| result.set(code)) })
        })?;
    }

    fn rados_read_op_omap_get_vals2(
        op: Handle, after: *const c_char, prefix: *const c_char, max: u64, list: *mut Handle,
        more: *mut c_uchar, result: *mut c_int,
    ) {
        let step = || Ok(range(optional_key(after)?, optional_key(prefix)?, max));
        add_omap(op, step(), true, ResultPointer::new(list), ResultPointer::new(more), ResultPointer::new(result))?;
    }

    fn rados_read_op_omap_get_keys2(
        op: Handle, after: *const c_char, max: u64, list: *mut Handle, more: *mut c_uchar, result: *mut c_int,
    ) {
        let step = optional_key(after).map(|after| range(after, Bytes::new(), max));
        add_omap(op, step, false, ResultPointer::new(list), ResultPointer::new(more), ResultPointer::new(result))?;
    }

    fn rados_read_op_omap_get_vals_by_keys(
        op: Handle, keys: *const *const c_char, count: usize, list: *mut Handle, result: *mut c_int,
    ) {
        let step = omap_keys(keys, count).map(|keys| ReadStep::OmapGet { keys });
        add_omap(op, step, true, ResultPointer::new(list), ResultPointer::new(null_mut()), ResultPointer::new(result))?;
    }
}

api! {
    fn rados_read_op_operate(op: Handle, io: Handle, object: *const c_char, _flags: c_int) {
        work(op, io, object)?.wait()
    }

    fn rados_aio_read_op_operate(op: Handle, io: Handle, done: Handle, object: *const c_char, _flags: c_int) {
        let done = item::<Completion, _>(done)?;
        work(op, io, object)?.start(done)
    }
}
