//! Compound read operations: a program creates one, adds guards and steps, and runs it any number
//! of times.

use crate::ffi::args::{Out, bytes, c_api, check_len, free, item, object_name, text};
use crate::ffi::object::class_call;
use crate::ffi::{PoolHandle, ReadOpHandle, ReplyHandle};
use crate::op::Building;
use crate::reply::Reply;
use crate::runtime::wait;
use crate::store::Pool;
use benthic_core::op::{Compare, Guard, ReadOp, ReadStep};
use benthic_core::{Error, Result, limits};
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
        let error = Error::invalid_argument("there is no such comparison");
        error.with("comparison", number)
    })
}

/// A copy of the operation of a handle.
///
/// # Errors
/// As [`item`].
pub fn get(op: *const ReadOpHandle) -> Result<ReadOp> {
    Ok(item::<Building<ReadOp>, _>(op)?.build())
}

c_api! {
    /// Creates a compound read operation without steps. All its guards and steps see one state of
    /// the object. It fails at the first guard or step that fails. Each function below adds a guard
    /// or a step; what it gets is copied. Steps count from 0 in the order in which they are added;
    /// each has one output in the reply.
    fn benthic_read_op_new(op: *mut *mut ReadOpHandle) {
        let op = Out::new(op, "op")?;
        op.set_handle(Building::<ReadOp>::default())
    }
}

/// Frees an operation. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle
/// is not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_read_op_free(op: *mut ReadOpHandle) -> i32 {
    free::<Building<ReadOp>, _>(op)
}

c_api! {
    /// Adds a guard: the object exists. Otherwise the operation fails with
    /// `BENTHIC_KIND_NOT_FOUND`.
    fn benthic_read_op_assert_exists(op: *mut ReadOpHandle) {
        item::<Building<ReadOp>, _>(op)?.guard(Guard::Exists, 0)
    }

    /// Adds a guard: the object has this version. Otherwise the operation fails with
    /// `BENTHIC_KIND_CONFLICT`.
    fn benthic_read_op_assert_version(op: *mut ReadOpHandle, version: u64) {
        item::<Building<ReadOp>, _>(op)?.guard(Guard::Version(version), 0)
    }

    /// Adds a guard on the value of an attribute. A missing attribute compares as an empty value.
    /// `comparison` is one of `BENTHIC_COMPARISON_*`. Otherwise the operation fails with
    /// `BENTHIC_KIND_CONFLICT`.
    fn benthic_read_op_compare_xattr(
        op: *mut ReadOpHandle,
        name: *const c_char,
        comparison: i32,
        value: *const c_void,
        value_bytes: usize,
    ) {
        let compare = self::comparison(comparison)?;
        let name = text(name, "name", limits::XATTR_NAME_BYTES_MAX)?;
        let value = bytes(value, value_bytes, "value")?;
        let len_bytes = name.len() + value.len();
        item::<Building<ReadOp>, _>(op)?
            .guard(Guard::Xattr { name: name.to_owned(), compare, value }, len_bytes)
    }

    /// Adds a guard: the value of an omap key equals the given one. A missing key counts as an
    /// empty value. Otherwise the operation fails with `BENTHIC_KIND_CONFLICT`.
    fn benthic_read_op_compare_omap(
        op: *mut ReadOpHandle,
        key: *const c_void,
        key_bytes: usize,
        value: *const c_void,
        value_bytes: usize,
    ) {
        let (key, value) = (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?);
        let len_bytes = key.len() + value.len();
        item::<Building<ReadOp>, _>(op)?.guard(Guard::Omap { key, value }, len_bytes)
    }

    /// Adds a step: reads data from an offset. The output is short at the end of the object.
    fn benthic_read_op_read(op: *mut ReadOpHandle, offset_bytes: u64, len_bytes: usize) {
        check_len(len_bytes, "len_bytes")?;
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::Read { offset_bytes, len_bytes: len_bytes as u64 }, 0)
    }

    /// Adds a step: the size and the time of the last change; see `benthic_reply_stat`.
    fn benthic_read_op_stat(op: *mut ReadOpHandle) {
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::Stat, 0)
    }

    /// Adds a step: the value of an attribute. A missing attribute fails with
    /// `BENTHIC_KIND_NOT_FOUND`.
    fn benthic_read_op_get_xattr(op: *mut ReadOpHandle, name: *const c_char) {
        let name = text(name, "name", limits::XATTR_NAME_BYTES_MAX)?;
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::GetXattr { name: name.to_owned() }, name.len())
    }

    /// Adds a step: all attributes, as entries.
    fn benthic_read_op_list_xattrs(op: *mut ReadOpHandle) {
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::ListXattrs, 0)
    }

    /// Adds a step: the entry of an omap key. A missing key gives no entry.
    fn benthic_read_op_omap_get(op: *mut ReadOpHandle, key: *const c_void, key_bytes: usize) {
        let key = bytes(key, key_bytes, "key")?;
        let len_bytes = key.len();
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::OmapGet { keys: vec![key] }, len_bytes)
    }

    /// Adds a step: a page of omap entries in the bytewise order of keys, only of keys after
    /// `after` and with `prefix`. An `after` or `prefix` that is empty selects all. A page has at
    /// most `entries_max` entries, and no more than the limits of the engine.
    fn benthic_read_op_omap_range(
        op: *mut ReadOpHandle,
        after: *const c_void,
        after_bytes: usize,
        prefix: *const c_void,
        prefix_bytes: usize,
        entries_max: usize,
    ) {
        let (after, prefix) = (bytes(after, after_bytes, "after")?, bytes(prefix, prefix_bytes, "prefix")?);
        let len_bytes = after.len() + prefix.len();
        let after = (!after.is_empty()).then_some(after);
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::OmapRange { after, prefix, entries_max }, len_bytes)
    }

    /// Adds a step: the output of a method of one of the store's classes that does not write.
    fn benthic_read_op_exec(
        op: *mut ReadOpHandle,
        class_name: *const c_char,
        method: *const c_char,
        input: *const c_void,
        len_bytes: usize,
    ) {
        let call = class_call(class_name, method, input, len_bytes)?;
        item::<Building<ReadOp>, _>(op)?.step(ReadStep::Exec(call), len_bytes)
    }

    /// Runs an operation and waits for it. The operation can be used again.
    fn benthic_read_op_run(
        pool: *mut PoolHandle,
        object: *const c_char,
        op: *const ReadOpHandle,
        reply: *mut *mut ReplyHandle,
    ) {
        let (object, reply) = (object_name(object)?, Out::new(reply, "reply")?);
        let (pool, op) = (item::<Pool, _>(pool)?, get(op)?);
        let object = pool.object(object)?;
        reply.set_handle(Reply::from(wait(pool.engine()?.read(&object, op))?))
    }
}
