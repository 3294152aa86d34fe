//! Compound read operations: a program creates one, adds guards and steps, and runs it any number
//! of times.

use crate::ffi::args::{Out, bytes, call, check_len, free, item, object_name, text};
use crate::ffi::object::class_call;
use crate::ffi::{ErrorHandle, PoolHandle, ReadOpHandle, ReplyHandle};
use crate::op::Building;
use crate::reply::Reply;
use crate::runtime::wait;
use crate::store::Pool;
use benthic_core::op::{Compare, Guard, ReadOp, ReadStep};
use benthic_core::{Error, ErrorKind, Result, limits};
use std::ffi::{c_char, c_void};

/// How a guard compares the stored value with the given one: stored OP given, bytewise.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Comparison {
    Equal = 0,
    NotEqual = 1,
    Greater = 2,
    GreaterOrEqual = 3,
    Less = 4,
    LessOrEqual = 5,
}

/// The comparison with this number.
///
/// # Errors
/// `InvalidArgument` if there is none.
pub fn comparison(number: i32) -> Result<Compare> {
    const ALL: [(Comparison, Compare); 6] = [
        (Comparison::Equal, Compare::Eq),
        (Comparison::NotEqual, Compare::Ne),
        (Comparison::Greater, Compare::Gt),
        (Comparison::GreaterOrEqual, Compare::Ge),
        (Comparison::Less, Compare::Lt),
        (Comparison::LessOrEqual, Compare::Le),
    ];
    let found = ALL.into_iter().find(|(comparison, _)| *comparison as i32 == number);
    found.map(|(_, compare)| compare).ok_or_else(|| {
        let error = Error::new(ErrorKind::InvalidArgument, "there is no such comparison");
        error.with("comparison", number)
    })
}

/// A copy of the operation of a handle.
///
/// # Errors
/// As [`item`].
pub fn get(op: *const ReadOpHandle) -> Result<ReadOp> {
    Ok(item::<Building<ReadOp>, _>(op)?.built())
}

/// Creates a compound read operation without steps. All its guards and steps see one state of the
/// object. It fails at the first guard or step that fails. Each function below adds a guard or a
/// step; what it gets is copied. Steps count from 0 in the order in which they are added; each has
/// one output in the reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_new(
    op: *mut *mut ReadOpHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let op = unsafe { Out::new(op, "op")? };
        op.set_handle(Building::<ReadOp>::default())
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Frees an operation. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle
/// is not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_read_op_free(op: *mut ReadOpHandle) -> i32 {
    free::<Building<ReadOp>, _>(op)
}

/// Adds a guard: the object exists. Otherwise the operation fails with `BENTHIC_KIND_NOT_FOUND`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_assert_exists(
    op: *mut ReadOpHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || item::<Building<ReadOp>, _>(op)?.guard(Guard::Exists, 0);
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a guard: the object has this version. Otherwise the operation fails with
/// `BENTHIC_KIND_CONFLICT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_assert_version(
    op: *mut ReadOpHandle,
    version: u64,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || item::<Building<ReadOp>, _>(op)?.guard(Guard::Version(version), 0);
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a guard on the value of an attribute. A missing attribute compares as an empty value.
/// `comparison` is one of `BENTHIC_COMPARISON_*`. Otherwise the operation fails with
/// `BENTHIC_KIND_CONFLICT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_compare_xattr(
    op: *mut ReadOpHandle,
    name: *const c_char,
    comparison: i32,
    value: *const c_void,
    value_bytes: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        let compare = self::comparison(comparison)?;
        // SAFETY: the caller's promises; see `ffi`.
        let name = unsafe { text(name, "name", limits::XATTR_NAME_BYTES_MAX)? };
        // SAFETY: as above.
        let value = unsafe { bytes(value, value_bytes, "value")? };
        let len_bytes = name.len() + value.len();
        item::<Building<ReadOp>, _>(op)?
            .guard(Guard::Xattr { name: name.to_owned(), compare, value }, len_bytes)
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a guard: the value of an omap key equals the given one. A missing key counts as an empty
/// value. Otherwise the operation fails with `BENTHIC_KIND_CONFLICT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_compare_omap(
    op: *mut ReadOpHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let (key, value) = unsafe { (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?) };
        let len_bytes = key.len() + value.len();
        item::<Building<ReadOp>, _>(op)?.guard(Guard::Omap { key, value }, len_bytes)
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: reads data from an offset. The output is short at the end of the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_read(
    op: *mut ReadOpHandle,
    offset_bytes: u64,
    len_bytes: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        check_len(len_bytes, "len_bytes")?;
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::Read { offset_bytes, len_bytes: len_bytes as u64 }, 0)
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: the size and the time of the last change; see `benthic_reply_stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_stat(op: *mut ReadOpHandle, error: *mut *mut ErrorHandle) -> i32 {
    let run = || item::<Building<ReadOp>, _>(op)?.step(ReadStep::Stat, 0);
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: the value of an attribute. A missing attribute fails with `BENTHIC_KIND_NOT_FOUND`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_get_xattr(
    op: *mut ReadOpHandle,
    name: *const c_char,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let name = unsafe { text(name, "name", limits::XATTR_NAME_BYTES_MAX)? };
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::GetXattr { name: name.to_owned() }, name.len())
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: all attributes, as entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_list_xattrs(
    op: *mut ReadOpHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || item::<Building<ReadOp>, _>(op)?.step(ReadStep::ListXattrs, 0);
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: the entry of an omap key. A missing key gives no entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_omap_get(
    op: *mut ReadOpHandle,
    key: *const c_void,
    key_bytes: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let key = unsafe { bytes(key, key_bytes, "key")? };
        let len_bytes = key.len();
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::OmapGet { keys: vec![key] }, len_bytes)
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: a page of omap entries in the bytewise order of keys, only of keys after `after`
/// and with `prefix`. An `after` or `prefix` that is empty selects all. A page has at most
/// `entries_max` entries, and no more than the limits of the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_omap_range(
    op: *mut ReadOpHandle,
    after: *const c_void,
    after_bytes: usize,
    prefix: *const c_void,
    prefix_bytes: usize,
    entries_max: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let (after, prefix) =
            unsafe { (bytes(after, after_bytes, "after")?, bytes(prefix, prefix_bytes, "prefix")?) };
        let len_bytes = after.len() + prefix.len();
        let after = (!after.is_empty()).then_some(after);
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::OmapRange { after, prefix, entries_max }, len_bytes)
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Adds a step: the output of a method of one of the store's classes that does not write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_exec(
    op: *mut ReadOpHandle,
    class_name: *const c_char,
    method: *const c_char,
    input: *const c_void,
    len_bytes: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let call = unsafe { class_call(class_name, method, input, len_bytes)? };
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::Exec(call), len_bytes)
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Runs an operation and waits for it. The operation can be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_read_op_run(
    pool: *mut PoolHandle,
    object: *const c_char,
    op: *const ReadOpHandle,
    reply: *mut *mut ReplyHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let (object, reply) = unsafe { (object_name(object)?, Out::new(reply, "reply")?) };
        let (pool, op) = (item::<Pool, _>(pool)?, get(op)?);
        let object = pool.object(object)?;
        reply.set_handle(Reply::from(wait(pool.engine()?.read(&object, op))?))
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}
