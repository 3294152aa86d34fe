//! Compound write operations: a program creates one, adds guards and steps, and runs it any number
//! of times.

use crate::ffi::args::{Out, bytes, c_api, free, item, object_name, text};
use crate::ffi::object::class_call;
use crate::ffi::read_op::comparison;
use crate::ffi::{PoolHandle, WriteOpHandle};
use crate::op::Building;
use crate::runtime::wait;
use crate::store::Pool;
use benthic_core::op::{Guard, WriteOp, WriteStep};
use benthic_core::{Result, limits};
use std::ffi::{c_char, c_void};

/// A copy of the operation of a handle.
///
/// # Errors
/// As [`item`].
pub fn get(op: *const WriteOpHandle) -> Result<WriteOp> {
    Ok(item::<Building<WriteOp>, _>(op)?.build())
}

c_api! {
    /// Creates a compound write operation without steps. All guards hold and all steps happen, or
    /// nothing changes. Each function below adds a guard or a step; what it gets is copied. The
    /// operation is durable when it is complete, unless it is buffered.
    fn benthic_write_op_new(op: *mut *mut WriteOpHandle) {
        let op = Out::new(op, "op")?;
        op.set_handle(Building::<WriteOp>::default())
    }
}

/// Frees an operation. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle
/// is not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_write_op_free(op: *mut WriteOpHandle) -> i32 {
    free::<Building<WriteOp>, _>(op)
}

c_api! {
    /// Adds a guard: the object exists. Otherwise the operation fails with
    /// `BENTHIC_KIND_NOT_FOUND`.
    fn benthic_write_op_assert_exists(op: *mut WriteOpHandle) {
        item::<Building<WriteOp>, _>(op)?.guard(Guard::Exists, 0)
    }

    /// Adds a guard: the object has this version. Otherwise the operation fails with
    /// `BENTHIC_KIND_CONFLICT`.
    fn benthic_write_op_assert_version(op: *mut WriteOpHandle, version: u64) {
        item::<Building<WriteOp>, _>(op)?.guard(Guard::Version(version), 0)
    }

    /// Adds a guard on the value of an attribute. A missing attribute compares as an empty value.
    /// `comparison` is one of `BENTHIC_COMPARISON_*`. Otherwise the operation fails with
    /// `BENTHIC_KIND_CONFLICT`.
    fn benthic_write_op_compare_xattr(
        op: *mut WriteOpHandle,
        name: *const c_char,
        comparison: i32,
        value: *const c_void,
        value_bytes: usize,
    ) {
        let compare = self::comparison(comparison)?;
        let name = text(name, "name", limits::XATTR_NAME_BYTES_MAX)?;
        let value = bytes(value, value_bytes, "value")?;
        let len_bytes = name.len() + value.len();
        item::<Building<WriteOp>, _>(op)?
            .guard(Guard::Xattr { name: name.to_owned(), compare, value }, len_bytes)
    }

    /// Adds a guard: the value of an omap key equals the given one. A missing key counts as an
    /// empty value. Otherwise the operation fails with `BENTHIC_KIND_CONFLICT`.
    fn benthic_write_op_compare_omap(
        op: *mut WriteOpHandle,
        key: *const c_void,
        key_bytes: usize,
        value: *const c_void,
        value_bytes: usize,
    ) {
        let (key, value) = (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?);
        let len_bytes = key.len() + value.len();
        item::<Building<WriteOp>, _>(op)?.guard(Guard::Omap { key, value }, len_bytes)
    }

    /// Lets the engine acknowledge the operation before it is durable. A later
    /// `benthic_store_flush` or durable operation makes it durable. On Ceph every write is durable.
    fn benthic_write_op_set_buffered(op: *mut WriteOpHandle) {
        item::<Building<WriteOp>, _>(op)?.set_buffered();
        Ok(())
    }

    /// Adds a step: creates the object if it is missing. If `exclusive`, an existing object fails
    /// with `BENTHIC_KIND_ALREADY_EXISTS`.
    fn benthic_write_op_create(op: *mut WriteOpHandle, exclusive: bool) {
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Create { exclusive }, 0)
    }

    /// Adds a step: writes data at an offset.
    fn benthic_write_op_write(
        op: *mut WriteOpHandle,
        offset_bytes: u64,
        data: *const c_void,
        len_bytes: usize,
    ) {
        let data = bytes(data, len_bytes, "data")?;
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Write { offset_bytes, data }, len_bytes)
    }

    /// Adds a step: replaces all data. Attributes and omap are kept.
    fn benthic_write_op_write_full(op: *mut WriteOpHandle, data: *const c_void, len_bytes: usize) {
        let data = bytes(data, len_bytes, "data")?;
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::WriteFull { data }, len_bytes)
    }

    /// Adds a step: writes data at the end of the object.
    fn benthic_write_op_append(op: *mut WriteOpHandle, data: *const c_void, len_bytes: usize) {
        let data = bytes(data, len_bytes, "data")?;
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Append { data }, len_bytes)
    }

    /// Adds a step: cuts the data, or extends it with zeros. On a missing object the step does
    /// nothing.
    fn benthic_write_op_truncate(op: *mut WriteOpHandle, size_bytes: u64) {
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Truncate { size_bytes }, 0)
    }

    /// Adds a step: makes a range of at least one byte read as zeros. If the range reaches the end
    /// of the object, the object is truncated to the offset.
    fn benthic_write_op_zero(op: *mut WriteOpHandle, offset_bytes: u64, len_bytes: u64) {
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Zero { offset_bytes, len_bytes }, 0)
    }

    /// Adds a step: removes the object. A missing object fails with `BENTHIC_KIND_NOT_FOUND`.
    fn benthic_write_op_remove(op: *mut WriteOpHandle) {
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Remove, 0)
    }

    /// Adds a step: sets an attribute.
    fn benthic_write_op_set_xattr(
        op: *mut WriteOpHandle,
        name: *const c_char,
        value: *const c_void,
        value_bytes: usize,
    ) {
        let name = text(name, "name", limits::XATTR_NAME_BYTES_MAX)?;
        let value = bytes(value, value_bytes, "value")?;
        let len_bytes = name.len() + value.len();
        item::<Building<WriteOp>, _>(op)?
            .step(WriteStep::SetXattr { name: name.to_owned(), value }, len_bytes)
    }

    /// Adds a step: removes an attribute. A missing attribute is not an error.
    fn benthic_write_op_remove_xattr(op: *mut WriteOpHandle, name: *const c_char) {
        let name = text(name, "name", limits::XATTR_NAME_BYTES_MAX)?;
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::RemoveXattr { name: name.to_owned() }, name.len())
    }

    /// Adds a step: sets an omap entry. Entries that are added one after the other are one step.
    fn benthic_write_op_omap_set(
        op: *mut WriteOpHandle,
        key: *const c_void,
        key_bytes: usize,
        value: *const c_void,
        value_bytes: usize,
    ) {
        let (key, value) = (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?);
        item::<Building<WriteOp>, _>(op)?.omap_set(key, value)
    }

    /// Adds a step: removes an omap key. A missing key is not an error. Keys that are added one
    /// after the other are one step.
    fn benthic_write_op_omap_remove(op: *mut WriteOpHandle, key: *const c_void, key_bytes: usize) {
        let key = bytes(key, key_bytes, "key")?;
        item::<Building<WriteOp>, _>(op)?.omap_remove(key)
    }

    /// Adds a step: removes all omap entries.
    fn benthic_write_op_omap_clear(op: *mut WriteOpHandle) {
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::OmapClear, 0)
    }

    /// Adds a step: runs a method of one of the store's classes. An operation has at most one such
    /// step, and it must be the first one.
    fn benthic_write_op_exec(
        op: *mut WriteOpHandle,
        class_name: *const c_char,
        method: *const c_char,
        input: *const c_void,
        len_bytes: usize,
    ) {
        let call = class_call(class_name, method, input, len_bytes)?;
        item::<Building<WriteOp>, _>(op)?.step(WriteStep::Exec(call), len_bytes)
    }

    /// Runs an operation and waits for it. Stores the version of the object after the operation,
    /// unless `version` is NULL. The operation can be used again.
    fn benthic_write_op_run(
        pool: *mut PoolHandle,
        object: *const c_char,
        op: *const WriteOpHandle,
        version: *mut u64,
    ) {
        let object = object_name(object)?;
        let (pool, op) = (item::<Pool, _>(pool)?, get(op)?);
        let object = pool.writable(object)?;
        let reply = wait(pool.engine()?.write(&object, op))?;
        if !version.is_null() {
            Out::new(version, "version")?.set(reply.version);
        }
        Ok(())
    }
}
