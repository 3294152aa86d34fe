//! Listings of a pool's objects, page by page. A page stays in memory until the caller frees it.

use crate::ffi::args::{Out, bytes, c_api, free, item, text};
use crate::ffi::{PageHandle, PoolHandle};
use crate::reply::Page;
use crate::runtime::wait;
use crate::store::Pool;
use benthic_core::{Error, limits};
use std::ffi::{c_char, c_void};
use std::ptr::null;

c_api! {
    /// Lists a page of a pool's objects in the namespace of the handle, or in all namespaces that
    /// Benthic does not reserve.
    ///
    /// `prefix` selects names; NULL selects all. `after` is the token of the previous page, and
    /// NULL for the first page. A page has at most `objects_max` objects, and no more than a limit
    /// of the engine. A page that is not the last may be empty.
    fn benthic_list(
        pool: *mut PoolHandle,
        prefix: *const c_char,
        all_namespaces: bool,
        after: *const c_void,
        after_bytes: usize,
        objects_max: usize,
        page: *mut *mut PageHandle,
    ) {
        let page = Out::new(page, "page")?;
        let prefix = match prefix.is_null() {
            true => "",
            false => text(prefix, "prefix", limits::OBJECT_NAME_BYTES_MAX)?,
        };
        let after = if after.is_null() { None } else { Some(bytes(after, after_bytes, "after")?) };
        let pool = item::<Pool, _>(pool)?;
        let listed = wait(pool.list(prefix, all_namespaces, after, objects_max))?;
        page.set_handle(Page::from(listed))
    }

    /// Stores the number of entries of a page.
    fn benthic_page_count(page: *const PageHandle, count: *mut usize) {
        let count = Out::new(count, "count")?;
        count.set(item::<Page, _>(page)?.entries.len());
        Ok(())
    }

    /// Stores an entry of a page: the namespace, which is empty for the default one, and the name.
    /// The texts are valid until the page is freed.
    fn benthic_page_entry(
        page: *const PageHandle,
        at: usize,
        namespace: *mut *const c_char,
        name: *mut *const c_char,
    ) {
        let (namespace, name) = (Out::new(namespace, "namespace")?, Out::new(name, "name")?);
        let page = item::<Page, _>(page)?;
        let Some(entry) = page.entries.get(at) else {
            let error = Error::invalid_argument("the page has no such entry");
            return Err(error.with("at", at).with("count", page.entries.len()));
        };
        namespace.set(entry.0.as_ptr());
        name.set(entry.1.as_ptr());
        Ok(())
    }

    /// Stores the token with which the listing continues; NULL if the page is the last. The token
    /// is valid until the page is freed. A copy of it is valid for the pool at any time, also after
    /// a restart.
    fn benthic_page_next(page: *const PageHandle, after: *mut *const c_void, after_bytes: *mut usize) {
        let (after, after_bytes) = (Out::new(after, "after")?, Out::new(after_bytes, "after_bytes")?);
        let page = item::<Page, _>(page)?;
        after.set(page.next.as_ref().map_or(null(), |token| token.as_ptr().cast()));
        after_bytes.set(page.next.as_ref().map_or(0, |token| token.len()));
        Ok(())
    }
}

/// Frees a page. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is
/// not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_page_free(page: *mut PageHandle) -> i32 {
    free::<Page, _>(page)
}
