//! Operations with one step on one object.

use crate::ffi::args::{Out, bytes, c_api, check_len, copy_to, item, object_name, text};
use crate::ffi::{PoolHandle, ReplyHandle};
use crate::reply::Reply;
use crate::runtime::wait;
use crate::store::Pool;
use benthic_core::op::{ClassCall, WriteOp};
use benthic_core::{Result, limits};
use std::ffi::{c_char, c_void};

fn write(pool: *mut PoolHandle, object: &str, op: WriteOp) -> Result<()> {
    let pool = item::<Pool, _>(pool)?;
    let object = pool.writable(object)?;
    wait(pool.engine()?.write(&object, op)).map(drop)
}

c_api! {
    /// Reads data from an offset into memory of the caller. Stores the number of bytes, which is
    /// smaller than `len_bytes` at the end of the object.
    fn benthic_read(
        pool: *mut PoolHandle,
        object: *const c_char,
        offset_bytes: u64,
        data: *mut c_void,
        len_bytes: usize,
        read_bytes: *mut usize,
    ) {
        let (object, read_bytes) = (object_name(object)?, Out::new(read_bytes, "read_bytes")?);
        check_len(len_bytes, "data")?;
        let pool = item::<Pool, _>(pool)?;
        let object = pool.object(object)?;
        let found = wait(pool.engine()?.read_range(&object, offset_bytes, len_bytes as u64))?;
        copy_to(data, len_bytes, &found)?;
        read_bytes.set(found.len());
        Ok(())
    }

    /// Writes data at an offset. The write is durable.
    fn benthic_write(
        pool: *mut PoolHandle,
        object: *const c_char,
        offset_bytes: u64,
        data: *const c_void,
        len_bytes: usize,
    ) {
        let (object, data) = (object_name(object)?, bytes(data, len_bytes, "data")?);
        write(pool, object, WriteOp::new().write(offset_bytes, data))
    }

    /// Replaces an object's data. Attributes and omap are kept. The write is durable.
    fn benthic_write_full(
        pool: *mut PoolHandle,
        object: *const c_char,
        data: *const c_void,
        len_bytes: usize,
    ) {
        let (object, data) = (object_name(object)?, bytes(data, len_bytes, "data")?);
        write(pool, object, WriteOp::new().write_full(data))
    }

    /// Writes data at the end of an object. The write is durable.
    fn benthic_append(pool: *mut PoolHandle, object: *const c_char, data: *const c_void, len_bytes: usize) {
        let (object, data) = (object_name(object)?, bytes(data, len_bytes, "data")?);
        write(pool, object, WriteOp::new().append(data))
    }

    /// Stores the size of an object, the time of its last change in nanoseconds since 1970 (UTC),
    /// and its version. A pointer that is NULL is left out.
    fn benthic_stat(
        pool: *mut PoolHandle,
        object: *const c_char,
        size_bytes: *mut u64,
        modified_unix_ns: *mut u64,
        version: *mut u64,
    ) {
        let object = object_name(object)?;
        let pool = item::<Pool, _>(pool)?;
        let object = pool.object(object)?;
        let (stat, found) = wait(pool.engine()?.stat(&object))?;
        let outs =
            [(size_bytes, stat.size_bytes), (modified_unix_ns, stat.modified_unix_ns), (version, found)];
        for (out, value) in outs.into_iter().filter(|(out, _)| !out.is_null()) {
            Out::new(out, "size_bytes, modified_unix_ns or version")?.set(value);
        }
        Ok(())
    }

    /// Removes an object. The removal is durable.
    fn benthic_remove(pool: *mut PoolHandle, object: *const c_char) {
        let object = object_name(object)?;
        write(pool, object, WriteOp::new().remove())
    }

    /// Runs a method of a class beside an object, and waits for it. The method's output is the
    /// reply's output of step 0. If the method keeps its result in an attribute, as methods that
    /// write do, the output is the value of this attribute. The class is one of the store, or a
    /// WebAssembly class that was deployed to the pool.
    fn benthic_exec(
        pool: *mut PoolHandle,
        object: *const c_char,
        class_name: *const c_char,
        method: *const c_char,
        input: *const c_void,
        len_bytes: usize,
        reply: *mut *mut ReplyHandle,
    ) {
        let (object, reply) = (object_name(object)?, Out::new(reply, "reply")?);
        let call = class_call(class_name, method, input, len_bytes)?;
        let pool = item::<Pool, _>(pool)?;
        reply.set_handle(Reply::of_data(wait(pool.exec(object, call))?))
    }
}

/// The call of a method.
///
/// # Errors
/// # Safety
/// As [`text`] and [`bytes`].
pub unsafe fn class_call(
    class: *const c_char,
    method: *const c_char,
    input: *const c_void,
    len_bytes: usize,
) -> Result<ClassCall> {
    let name_bytes_max = limits::CLASS_NAME_BYTES_MAX;
    // SAFETY: the caller's promises; see `ffi`.
    let (class, method) =
        unsafe { (text(class, "class_name", name_bytes_max)?, text(method, "method", name_bytes_max)?) };
    // SAFETY: as above.
    Ok(ClassCall::new(class, method, unsafe { bytes(input, len_bytes, "input")? }))
}
