//! Stores and pools: opening and closing stores, and creating, listing, opening and removing pools.

use crate::ffi::args::{Out, call, free, item, namespace, pool_name, uri};
use crate::ffi::{ErrorHandle, PageHandle, PoolHandle, ReplyHandle, StoreHandle};
use crate::handles::HANDLES;
use crate::reply::{Page, Reply};
use crate::runtime::wait;
use crate::store::{Pool, Store};
use benthic_core::{Error, ErrorKind};
use std::ffi::c_char;
use std::sync::Arc;

/// Opens a store: `file:DIR`, `mem:`, or `ceph:` with options, such as
/// `ceph:?conf=FILE&id=client.x`. With `create`, it creates a store in a directory that has none.
/// Any number of processes can open the same directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_store_open(
    uri: *const c_char,
    create: bool,
    store: *mut *mut StoreHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let (uri, store) = unsafe { (self::uri(uri)?, Out::new(store, "store")?) };
        store.set_handle(Store::open(uri, create)?)
    };
    // SAFETY: as above.
    unsafe { call(error, run) }
}

/// Closes a store. Afterwards all acknowledged writes are on disk. Handles of the store's pools
/// stay open, and calls with them fail. Operations in flight still become complete, and their
/// callbacks run. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_store_close(store: *mut StoreHandle, error: *mut *mut ErrorHandle) -> i32 {
    let run = || match store.is_null() {
        true => Ok(()),
        false => HANDLES.remove::<Store>(store as u64)?.close(),
    };
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Waits until every write acknowledged before this call is durable. Only buffered writes need
/// this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_store_flush(store: *mut StoreHandle, error: *mut *mut ErrorHandle) -> i32 {
    let run = || wait(item::<Store, _>(store)?.open_store()?.store.flush());
    // SAFETY: the caller's promises; see `ffi`.
    unsafe { call(error, run) }
}

/// Describes the classes of a store as a JSON text, which is the reply's output of step 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_store_classes(
    store: *mut StoreHandle,
    json: *mut *mut ReplyHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let json = unsafe { Out::new(json, "json")? };
        let classes = wait(item::<Store, _>(store)?.open_store()?.store.classes())?;
        let text = serde_json::to_vec(&classes).map_err(|error| {
            Error::new(ErrorKind::Internal, "the classes cannot be described").with_source(error)
        })?;
        json.set_handle(Reply::of_data(text))
    };
    // SAFETY: as above.
    unsafe { call(error, run) }
}

/// Creates a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_pool_create(
    store: *mut StoreHandle,
    name: *const c_char,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let name = unsafe { pool_name(name)? };
        wait(item::<Store, _>(store)?.open_store()?.store.create_pool(name))
    };
    // SAFETY: as above.
    unsafe { call(error, run) }
}

/// Removes a pool with all its objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_pool_remove(
    store: *mut StoreHandle,
    name: *const c_char,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let name = unsafe { pool_name(name)? };
        wait(item::<Store, _>(store)?.open_store()?.store.remove_pool(name))
    };
    // SAFETY: as above.
    unsafe { call(error, run) }
}

/// Lists the names of all pools, sorted, as one page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_pool_list(
    store: *mut StoreHandle,
    page: *mut *mut PageHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let page = unsafe { Out::new(page, "page")? };
        page.set_handle(Page::of_pools(wait(item::<Store, _>(store)?.open_store()?.store.list_pools())?))
    };
    // SAFETY: as above.
    unsafe { call(error, run) }
}

/// Opens a pool, and a namespace in it; NULL is the default namespace. After the pool is removed,
/// calls with the handle fail with `BENTHIC_KIND_NOT_FOUND`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_pool_open(
    store: *mut StoreHandle,
    name: *const c_char,
    namespace: *const c_char,
    pool: *mut *mut PoolHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let (name, namespace, pool) =
            unsafe { (pool_name(name)?, self::namespace(namespace)?, Out::new(pool, "pool")?) };
        let store: Arc<Store> = item(store)?;
        pool.set_handle(wait(store.pool(name, namespace))?)
    };
    // SAFETY: as above.
    unsafe { call(error, run) }
}

/// Closes the handle of a pool. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if
/// the handle is not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_pool_close(pool: *mut PoolHandle) -> i32 {
    free::<Pool, _>(pool)
}
