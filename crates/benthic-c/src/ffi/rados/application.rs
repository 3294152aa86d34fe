//! Applications of pools: Ceph's record of the programs that a pool is for, with their metadata.

use super::{Handle, api, copy_all, with_nuls};
use crate::ffi::args::{item, text};
use crate::rados::applications::{self, TEXT_BYTES_MAX};
use crate::rados::ioctx::Ioctx;
use crate::runtime::wait;
use benthic_core::error::errno;
use benthic_core::{Error, ErrorKind, Result};
use std::ffi::{c_char, c_int};

/// # Safety
/// As in `librados.h`; the same holds for the functions below.
unsafe fn name<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(name, "application, key or value", TEXT_BYTES_MAX) };
    text.map_err(|error| match error.kind() {
        // As with monitors.
        ErrorKind::LimitExceeded => {
            Error::invalid_argument("an application, a key or a value is too long").with_source(error)
        }
        _ => error,
    })
}

api! {
    fn rados_application_enable(io: Handle, application: *const c_char, force: c_int) {
        let (io, application) = (item::<Ioctx, _>(io)?, name(application)?);
        wait(applications::enable(&*io.pool, application, force != 0))
    }

    fn rados_application_list(io: Handle, values: *mut c_char, len: *mut usize) {
        let applications = wait(applications::read(&*item::<Ioctx, _>(io)?.pool))?;
        copy_all([(with_nuls(applications.keys()), values, len)])
    }

    fn rados_application_metadata_get(
        io: Handle, application: *const c_char, key: *const c_char, value: *mut c_char, len: *mut usize,
    ) {
        let (application, key) = (name(application)?, name(key)?);
        let applications = wait(applications::read(&*item::<Ioctx, _>(io)?.pool))?;
        match applications.get(application).and_then(|texts| texts.get(key)) {
            Some(text) => copy_all([(with_nuls([text]), value, len)]),
            None => Ok(-errno::ENOENT),
        }
    }

    fn rados_application_metadata_set(
        io: Handle, application: *const c_char, key: *const c_char, value: *const c_char,
    ) {
        let (io, application) = (item::<Ioctx, _>(io)?, name(application)?);
        wait(applications::set(&*io.pool, application, name(key)?, Some(name(value)?)))
    }

    fn rados_application_metadata_remove(io: Handle, application: *const c_char, key: *const c_char) {
        let (io, application) = (item::<Ioctx, _>(io)?, name(application)?);
        wait(applications::set(&*io.pool, application, name(key)?, None))
    }

    fn rados_application_metadata_list(
        io: Handle, application: *const c_char, keys: *mut c_char, keys_len: *mut usize, values: *mut c_char,
        values_len: *mut usize,
    ) {
        let application = name(application)?;
        let applications = wait(applications::read(&*item::<Ioctx, _>(io)?.pool))?;
        let Some(texts) = applications.get(application) else { return Ok(-errno::ENOENT) };
        copy_all([
            (with_nuls(texts.keys()), keys, keys_len),
            (with_nuls(texts.values()), values, values_len),
        ])
    }
}
