//! Stores and pools: opening and closing stores, and creating, listing, opening and removing pools.

use crate::ffi::args::{Out, c_api, free, item, namespace, pool_name, uri};
use crate::ffi::{PageHandle, PoolHandle, ReplyHandle, StoreHandle};
use crate::handles::HANDLES;
use crate::reply::{Page, Reply};
use crate::runtime::wait;
use crate::store::{Pool, Store};
use benthic_core::Error;
use std::ffi::c_char;
use std::sync::Arc;

c_api! {
    /// Opens a store: `file:DIR`, `mem:`, or `ceph:` with options, such as
    /// `ceph:?conf=FILE&id=client.x`. With `create`, it creates a store in a directory that has
    /// none. Any number of processes can open the same directory.
    fn benthic_store_open(uri: *const c_char, create: bool, store: *mut *mut StoreHandle) {
        let (uri, store) = (self::uri(uri)?, Out::new(store, "store")?);
        store.set_handle(Store::open(uri, create)?)
    }

    /// Closes a store. Afterwards all acknowledged writes are on disk. Handles of the store's pools
    /// stay open, and calls with them fail. Operations in flight still become complete, and their
    /// callbacks run. Does nothing for NULL.
    fn benthic_store_close(store: *mut StoreHandle) {
        if store.is_null() { Ok(()) } else { HANDLES.remove::<Store>(store as u64)?.close() }
    }

    /// Waits until every write acknowledged before this call is durable. Only buffered writes need
    /// this.
    fn benthic_store_flush(store: *mut StoreHandle) {
        wait(item::<Store, _>(store)?.open_store()?.store.flush())
    }

    /// Describes the classes of a store as a JSON text, which is the reply's output of step 0.
    fn benthic_store_classes(store: *mut StoreHandle, json: *mut *mut ReplyHandle) {
        let json = Out::new(json, "json")?;
        let classes = wait(item::<Store, _>(store)?.open_store()?.store.classes())?;
        let text = serde_json::to_vec(&classes).map_err(|error| {
            Error::internal("the classes cannot be described").with_source(error)
        })?;
        json.set_handle(Reply::of_data(text))
    }

    /// Creates a pool.
    fn benthic_pool_create(store: *mut StoreHandle, name: *const c_char) {
        let name = pool_name(name)?;
        wait(item::<Store, _>(store)?.open_store()?.store.create_pool(name))
    }

    /// Removes a pool with all its objects.
    fn benthic_pool_remove(store: *mut StoreHandle, name: *const c_char) {
        let name = pool_name(name)?;
        wait(item::<Store, _>(store)?.open_store()?.store.remove_pool(name))
    }

    /// Lists the names of all pools, sorted, as one page.
    fn benthic_pool_list(store: *mut StoreHandle, page: *mut *mut PageHandle) {
        let page = Out::new(page, "page")?;
        page.set_handle(Page::of_pools(wait(item::<Store, _>(store)?.open_store()?.store.list_pools())?))
    }

    /// Opens a pool, and a namespace in it; NULL is the default namespace. After the pool is
    /// removed, calls with the handle fail with `BENTHIC_KIND_NOT_FOUND`.
    fn benthic_pool_open(
        store: *mut StoreHandle,
        name: *const c_char,
        namespace: *const c_char,
        pool: *mut *mut PoolHandle,
    ) {
        let (name, namespace, pool) =
            (pool_name(name)?, self::namespace(namespace)?, Out::new(pool, "pool")?);
        let store: Arc<Store> = item(store)?;
        pool.set_handle(wait(store.pool(name, namespace))?)
    }
}

/// Closes the handle of a pool. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if
/// the handle is not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_pool_close(pool: *mut PoolHandle) -> i32 {
    free::<Pool, _>(pool)
}
