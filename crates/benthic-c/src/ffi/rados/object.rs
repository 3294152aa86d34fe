//! Operations on one object, each in a form that waits and in one that does not.

use super::{Handle, Memory, ResultPointer, api, copy_all, result, with_nuls};
use crate::ffi::args::{Out, bytes, check_len, item, object_name, text};
use crate::rados::completion::Completion;
use crate::rados::ioctx::{Done, Ioctx, Work};
use crate::rados::lock::{acquire, find, release};
use crate::rados::read::{compare, range};
use benthic_classes::lock::client::LockRequest;
use benthic_classes::lock::wire::Mode;
use benthic_core::error::errno;
use benthic_core::op::WriteOp;
use benthic_core::{ClassCall, Error, Fetch, Result, limits};
use bytes::Bytes;
use std::ffi::{c_char, c_int, c_long};
use std::sync::Arc;
use std::sync::mpsc::channel;

const NS_PER_S: u64 = 1_000_000_000;

/// Maximum length of names in locks.
const LOCK_BYTES_MAX: usize = 1_024;

/// `struct timeval`.
#[repr(C)]
pub struct Duration {
    seconds: c_long,
    microseconds: c_long,
}

fn completion(handle: Handle) -> Result<Arc<Completion>> {
    item(handle)
}

/// # Safety
/// As in `librados.h`; the same holds for the functions below.
unsafe fn write(io: Handle, object: *const c_char, op: WriteOp) -> Result<Work> {
    // SAFETY: the caller's promise.
    let object = unsafe { object_name(object)? };
    item::<Ioctx, _>(io)?.work(object, false, |pool, object| async move {
        let reply = pool.write(&object, op).await?;
        Ok(Done { result: 0, version: Some(reply.version) })
    })
}

unsafe fn data(data: *const c_char, len: usize) -> Result<Bytes> {
    // SAFETY: the caller's promise.
    unsafe { bytes(data.cast(), len, "buf") }
}

/// The data of `writesame`: a pattern, repeated up to a length.
///
/// # Errors
/// `InvalidArgument` if the length is no multiple of the pattern's.
pub unsafe fn repeated(pattern: *const c_char, len: usize, write_len: usize) -> Result<Bytes> {
    check_len(write_len, "write_len")?;
    // SAFETY: the caller's promise.
    let pattern = unsafe { data(pattern, len)? };
    if pattern.is_empty() || !write_len.is_multiple_of(pattern.len()) {
        return Err(Error::invalid_argument("the length is no multiple of the pattern's"));
    }
    Ok(pattern.repeat(write_len / pattern.len()).into())
}

unsafe fn read(io: Handle, object: *const c_char, buffer: Memory, offset: u64) -> Result<Work> {
    // SAFETY: the caller's promise.
    let object = unsafe { object_name(object)? };
    item::<Ioctx, _>(io)?.work(object, true, |pool, object| async move {
        let (data, version) = range(&*pool, &object, offset, buffer.len_bytes as u64).await?;
        buffer.copy(&data)?;
        Ok(Done::bytes(data.len(), version))
    })
}

unsafe fn stat(
    io: Handle,
    object: *const c_char,
    size: ResultPointer<u64>,
    modified: ResultPointer<i64>,
) -> Result<Work> {
    // SAFETY: the caller's promise.
    let object = unsafe { object_name(object)? };
    item::<Ioctx, _>(io)?.work(object, true, |pool, object| async move {
        let (stat, version) = pool.stat(&object).await?;
        size.set(stat.size_bytes);
        modified.set((stat.modified_unix_ns / NS_PER_S) as i64);
        Ok(Done { result: 0, version: Some(version) })
    })
}

unsafe fn compare_data(io: Handle, object: *const c_char, given: Bytes, offset: u64) -> Result<Work> {
    // SAFETY: the caller's promise.
    let object = unsafe { object_name(object)? };
    item::<Ioctx, _>(io)?.work(object, true, |pool, object| async move {
        let (stored, version) = range(&*pool, &object, offset, given.len() as u64).await?;
        Ok(Done { result: compare(&stored, &given), version: Some(version) })
    })
}

unsafe fn exec(
    io: Handle,
    object: *const c_char,
    class: *const c_char,
    method: *const c_char,
    input: Bytes,
    output: Memory,
) -> Result<Work> {
    // SAFETY: the caller's promise.
    let (object, call) = unsafe { (object_name(object)?, call(class, method, input)?) };
    // A method may write, so it runs alone.
    item::<Ioctx, _>(io)?.work(object, false, |pool, object| async move {
        let data = pool.exec(&object, call).await?;
        if !output.fits(data.len()) {
            return Ok(Done::new(-errno::ERANGE));
        }
        output.copy(&data)?;
        Ok(Done { version: None, ..Done::bytes(data.len(), 0) })
    })
}

/// The call of a method.
pub unsafe fn call(class: *const c_char, method: *const c_char, input: Bytes) -> Result<ClassCall> {
    let name_bytes_max = limits::CLASS_NAME_BYTES_MAX;
    // SAFETY: the caller's promise.
    let (class, method) =
        unsafe { (text(class, "cls", name_bytes_max)?, text(method, "method", name_bytes_max)?) };
    Ok(ClassCall::new(class, method, input))
}

unsafe fn xattr_name<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(name, "name", limits::XATTR_NAME_BYTES_MAX) }
}

/// A lock of this client, for a time or without an end.
unsafe fn lock(
    io: Handle,
    object: *const c_char,
    [name, cookie]: [*const c_char; 2],
    mode: Mode,
    duration: *const Duration,
    flags: u8,
) -> Result<Work> {
    // SAFETY: the caller's promise.
    let (object, name, cookie) = unsafe { (object_name(object)?, lock_text(name)?, lock_text(cookie)?) };
    // SAFETY: as above.
    let duration = if duration.is_null() { None } else { Some(unsafe { duration.read_unaligned() }) };
    let lease_ms = duration.map(|duration| {
        let seconds = u64::try_from(duration.seconds).unwrap_or(0);
        seconds
            .saturating_mul(1_000)
            .saturating_add(u64::try_from(duration.microseconds).unwrap_or(0).div_ceil(1_000))
    });
    let io = item::<Ioctx, _>(io)?;
    let request = LockRequest {
        name: name.to_owned(),
        owner: owner(&io),
        cookie: cookie.to_owned(),
        mode,
        lease_ms: lease_ms.filter(|lease_ms| *lease_ms > 0),
    };
    io.work(object, false, |pool, object| acquire(pool, object, request, flags))
}

/// The name of the context's client in locks.
fn owner(io: &Ioctx) -> String {
    format!("client.{}", io.cluster.instance)
}

/// Releases the lock of an owner.
unsafe fn unlock(
    io: &Arc<Ioctx>,
    object: *const c_char,
    [name, cookie]: [*const c_char; 2],
    owner: String,
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    let (object, name, cookie) =
        unsafe { (object_name(object)?, lock_text(name)?.to_owned(), lock_text(cookie)?.to_owned()) };
    let work = io.work(object, false, |pool, object| async move {
        release(&*pool, &object, &name, &owner, &cookie).await
    });
    work?.wait()
}

/// Lists the holders of a lock: their names, cookies and addresses. Clients of a directory have no
/// address, and locks no tag. Returns how many there are.
///
/// # Safety
/// As in `librados.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_list_lockers(
    io: Handle,
    object: *const c_char,
    name: *const c_char,
    exclusive: *mut c_int,
    tag: *mut c_char,
    tag_len: *mut usize,
    clients: *mut c_char,
    clients_len: *mut usize,
    cookies: *mut c_char,
    cookies_len: *mut usize,
    addresses: *mut c_char,
    addresses_len: *mut usize,
) -> isize {
    let list = || {
        // SAFETY: the caller's promise.
        let (object, name, exclusive) =
            unsafe { (object_name(object)?, lock_text(name)?.to_owned(), Out::new(exclusive, "exclusive")?) };
        let (send, found) = channel();
        let work = item::<Ioctx, _>(io)?.work(object, true, |pool, object| async move {
            // The receiver waits for this operation.
            let _ = send.send(find(&*pool, &object, &name).await?);
            Ok(Done::new(0))
        });
        work?.wait()?;
        let found = found.recv().ok().flatten();
        exclusive.set(c_int::from(found.as_ref().is_some_and(|lock| lock.mode == Mode::Exclusive)));
        let holders: Vec<_> = found.iter().flat_map(|lock| &lock.holders).collect();
        let none = String::new();
        let texts = [
            (with_nuls([&none]), tag, tag_len),
            (with_nuls(holders.iter().map(|holder| &holder.owner)), clients, clients_len),
            (with_nuls(holders.iter().map(|holder| &holder.cookie)), cookies, cookies_len),
            (with_nuls(holders.iter().map(|_| &none)), addresses, addresses_len),
        ];
        // SAFETY: the caller's promise.
        let copied = unsafe { copy_all(texts)? };
        Ok(if copied < 0 { copied } else { c_int::try_from(holders.len()).unwrap_or(-errno::ERANGE) })
    };
    result(list) as isize
}

unsafe fn lock_text<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(name, "lock or cookie", LOCK_BYTES_MAX) }
}

api! {
    fn rados_write(io: Handle, object: *const c_char, buffer: *const c_char, len: usize, offset: u64) {
        write(io, object, WriteOp::new().write(offset, data(buffer, len)?))?.wait()
    }

    fn rados_write_full(io: Handle, object: *const c_char, buffer: *const c_char, len: usize) {
        write(io, object, WriteOp::new().write_full(data(buffer, len)?))?.wait()
    }

    fn rados_append(io: Handle, object: *const c_char, buffer: *const c_char, len: usize) {
        write(io, object, WriteOp::new().append(data(buffer, len)?))?.wait()
    }

    fn rados_writesame(
        io: Handle, object: *const c_char, buffer: *const c_char, len: usize, write_len: usize, offset: u64,
    ) {
        write(io, object, WriteOp::new().write(offset, repeated(buffer, len, write_len)?))?.wait()
    }

    fn rados_trunc(io: Handle, object: *const c_char, size: u64) {
        write(io, object, WriteOp::new().truncate(size))?.wait()
    }

    fn rados_remove(io: Handle, object: *const c_char) {
        write(io, object, WriteOp::new().remove())?.wait()
    }

    fn rados_setxattr(io: Handle, object: *const c_char, name: *const c_char, value: *const c_char, len: usize) {
        write(io, object, WriteOp::new().set_xattr(xattr_name(name)?, data(value, len)?))?.wait()
    }

    fn rados_rmxattr(io: Handle, object: *const c_char, name: *const c_char) {
        write(io, object, WriteOp::new().remove_xattr(xattr_name(name)?))?.wait()
    }

    fn rados_read(io: Handle, object: *const c_char, buffer: *mut c_char, len: usize, offset: u64) {
        read(io, object, Memory::new(buffer, len), offset)?.wait()
    }

    fn rados_stat(io: Handle, object: *const c_char, size: *mut u64, modified: *mut i64) {
        stat(io, object, ResultPointer::new(size), ResultPointer::new(modified))?.wait()
    }

    fn rados_cmpext(io: Handle, object: *const c_char, buffer: *const c_char, len: usize, offset: u64) {
        compare_data(io, object, data(buffer, len)?, offset)?.wait()
    }

    fn rados_getxattr(io: Handle, object: *const c_char, name: *const c_char, buffer: *mut c_char, len: usize) {
        let (object, name) = (object_name(object)?, xattr_name(name)?.to_owned());
        let buffer = Memory::new(buffer, len);
        let work = item::<Ioctx, _>(io)?.work(object, true, |pool, object| async move {
            let (mut xattrs, version) = pool.fetch(&object, Fetch::list_xattrs()).await?;
            let Some(value) = xattrs.remove(&name) else { return Ok(Done::new(-errno::ENODATA)) };
            if !buffer.fits(value.len()) {
                return Ok(Done::new(-errno::ERANGE));
            }
            buffer.copy(&value)?;
            Ok(Done::bytes(value.len(), version))
        });
        work?.wait()
    }

    fn rados_exec(
        io: Handle, object: *const c_char, class: *const c_char, method: *const c_char,
        input: *const c_char, in_len: usize, output: *mut c_char, out_len: usize,
    ) {
        exec(io, object, class, method, data(input, in_len)?, Memory::new(output, out_len))?.wait()
    }

    fn rados_lock_exclusive(
        io: Handle, object: *const c_char, name: *const c_char, cookie: *const c_char,
        _description: *const c_char, duration: *const Duration, flags: u8,
    ) {
        lock(io, object, [name, cookie], Mode::Exclusive, duration, flags)?.wait()
    }

    fn rados_lock_shared(
        io: Handle, object: *const c_char, name: *const c_char, cookie: *const c_char,
        _tag: *const c_char, _description: *const c_char, duration: *const Duration, flags: u8,
    ) {
        lock(io, object, [name, cookie], Mode::Shared, duration, flags)?.wait()
    }

    fn rados_unlock(io: Handle, object: *const c_char, name: *const c_char, cookie: *const c_char) {
        let io = item::<Ioctx, _>(io)?;
        let owner = owner(&io);
        unlock(&io, object, [name, cookie], owner)
    }

    fn rados_break_lock(
        io: Handle, object: *const c_char, name: *const c_char, client: *const c_char, cookie: *const c_char,
    ) {
        let owner = lock_text(client)?;
        if owner.strip_prefix("client.").and_then(|number| number.parse::<u64>().ok()).is_none() {
            let error = Error::invalid_argument("the client is not of the form client.NUMBER");
            return Err(error.with("client", owner));
        }
        unlock(&item(io)?, object, [name, cookie], owner.to_owned())
    }

    fn rados_aio_write(
        io: Handle, object: *const c_char, done: Handle, buffer: *const c_char, len: usize, offset: u64,
    ) {
        write(io, object, WriteOp::new().write(offset, data(buffer, len)?))?.start(completion(done)?)
    }

    fn rados_aio_write_full(io: Handle, object: *const c_char, done: Handle, buffer: *const c_char, len: usize) {
        write(io, object, WriteOp::new().write_full(data(buffer, len)?))?.start(completion(done)?)
    }

    fn rados_aio_append(io: Handle, object: *const c_char, done: Handle, buffer: *const c_char, len: usize) {
        write(io, object, WriteOp::new().append(data(buffer, len)?))?.start(completion(done)?)
    }

    fn rados_aio_writesame(
        io: Handle, object: *const c_char, done: Handle, buffer: *const c_char, len: usize, write_len: usize,
        offset: u64,
    ) {
        let op = WriteOp::new().write(offset, repeated(buffer, len, write_len)?);
        write(io, object, op)?.start(completion(done)?)
    }

    fn rados_aio_remove(io: Handle, object: *const c_char, done: Handle) {
        write(io, object, WriteOp::new().remove())?.start(completion(done)?)
    }

    fn rados_aio_setxattr(
        io: Handle, object: *const c_char, done: Handle, name: *const c_char, value: *const c_char, len: usize,
    ) {
        let op = WriteOp::new().set_xattr(xattr_name(name)?, data(value, len)?);
        write(io, object, op)?.start(completion(done)?)
    }

    fn rados_aio_rmxattr(io: Handle, object: *const c_char, done: Handle, name: *const c_char) {
        write(io, object, WriteOp::new().remove_xattr(xattr_name(name)?))?.start(completion(done)?)
    }

    fn rados_aio_read(
        io: Handle, object: *const c_char, done: Handle, buffer: *mut c_char, len: usize, offset: u64,
    ) {
        read(io, object, Memory::new(buffer, len), offset)?.start(completion(done)?)
    }

    fn rados_aio_stat(io: Handle, object: *const c_char, done: Handle, size: *mut u64, modified: *mut i64) {
        stat(io, object, ResultPointer::new(size), ResultPointer::new(modified))?.start(completion(done)?)
    }

    fn rados_aio_cmpext(
        io: Handle, object: *const c_char, done: Handle, buffer: *const c_char, len: usize, offset: u64,
    ) {
        compare_data(io, object, data(buffer, len)?, offset)?.start(completion(done)?)
    }

    fn rados_aio_exec(
        io: Handle, object: *const c_char, done: Handle, class: *const c_char, method: *const c_char,
        input: *const c_char, in_len: usize, output: *mut c_char, out_len: usize,
    ) {
        let work = exec(io, object, class, method, data(input, in_len)?, Memory::new(output, out_len))?;
        work.start(completion(done)?)
    }
}
