//! Listings of objects, attributes and omap entries.

use super::{Handle, ResultPointer, api, void_api};
use crate::ffi::args::{Out, free, item, object_name};
use crate::handles::HANDLES;
use crate::rados::ioctx::{Done, Ioctx};
use crate::rados::list::{Entries, Objects};
use benthic_core::error::errno;
use benthic_core::{Fetch, Result};
use bytes::Bytes;
use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;

fn value(value: &Bytes) -> (*const c_char, usize) {
    (value.as_ptr().cast(), value.len())
}

/// Shows the name, the locator and the namespace of the next object, and their lengths.
///
/// # Safety
/// The pointers are NULL or valid for writing.
unsafe fn next_object(
    list: Handle,
    [entry, key, namespace]: [*mut *const c_char; 3],
    lens: [*mut usize; 3],
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    let (entry, key, space, lens) = unsafe {
        let lens = lens.map(|len| ResultPointer::new(len));
        (Out::new(entry, "entry")?, ResultPointer::new(key), ResultPointer::new(namespace), lens)
    };
    let show = |namespace: &CString, name: &CString| {
        entry.set(name.as_ptr());
        key.set(null());
        space.set(namespace.as_ptr());
        for (len, text) in lens.iter().zip([name.as_bytes(), &[], namespace.as_bytes()]) {
            len.set(text.len());
        }
    };
    Ok(item::<Objects, _>(list)?.next(show)?.map_or(-errno::ENOENT, |()| 0))
}

api! {
    fn rados_nobjects_list_open(io: Handle, list: *mut Handle) {
        let list = Out::new(list, "ctx")?;
        list.set_handle(Objects::open(&*item::<Ioctx, _>(io)?))?;
        Ok(0)
    }

    fn rados_nobjects_list_next(
        list: Handle, entry: *mut *const c_char, key: *mut *const c_char, namespace: *mut *const c_char,
    ) {
        next_object(list, [entry, key, namespace], [null_mut(); 3])
    }

    fn rados_nobjects_list_next2(
        list: Handle, entry: *mut *const c_char, key: *mut *const c_char, namespace: *mut *const c_char,
        entry_len: *mut usize, key_len: *mut usize, namespace_len: *mut usize,
    ) {
        next_object(list, [entry, key, namespace], [entry_len, key_len, namespace_len])
    }

    fn rados_getxattrs(io: Handle, object: *const c_char, list: *mut Handle) {
        let (object, list) = (object_name(object)?, Out::new(list, "iter")?);
        let entries = Arc::<Entries>::default();
        let filled = Arc::clone(&entries);
        let work = item::<Ioctx, _>(io)?.work(object, true, |pool, object| async move {
            let (xattrs, version) = pool.fetch(&object, Fetch::list_xattrs()).await?;
            filled.fill(xattrs.into_iter().map(|(name, value)| (Bytes::from(name), value)));
            Ok(Done { result: 0, version: Some(version) })
        });
        let result = work?.wait()?;
        list.set(HANDLES.add(entries)? as Handle);
        Ok(result)
    }

    fn rados_getxattrs_next(
        list: Handle, name: *mut *const c_char, content: *mut *const c_char, len: *mut usize,
    ) {
        let (name, content, len) = (Out::new(name, "name")?, Out::new(content, "val")?, Out::new(len, "len")?);
        let found = item::<Entries, _>(list)?.next(|key, bytes| {
            name.set(key.as_ptr());
            content.set(value(bytes).0);
            len.set(value(bytes).1);
        });
        if found.is_none() {
            name.set(null());
            content.set(null());
            len.set(0);
        }
        Ok(0)
    }

    fn rados_omap_get_next(
        list: Handle, key: *mut *const c_char, content: *mut *const c_char, len: *mut usize,
    ) {
        let (key, content, len) = (Out::new(key, "key")?, Out::new(content, "val")?, Out::new(len, "len")?);
        let found = item::<Entries, _>(list)?.next(|name, bytes| {
            key.set(name.as_ptr());
            // A list of keys has no values.
            content.set(if bytes.is_empty() { null() } else { value(bytes).0 });
            len.set(value(bytes).1);
        });
        if found.is_none() {
            key.set(null());
            content.set(null());
            len.set(0);
        }
        Ok(0)
    }
}

void_api! {
    fn rados_nobjects_list_close(list: Handle) {
        free::<Objects, _>(list);
    }

    fn rados_getxattrs_end(list: Handle) {
        free::<Entries, _>(list);
    }

    fn rados_omap_get_end(list: Handle) {
        free::<Entries, _>(list);
    }
}
