//! librbd's functions for a pool: creating, cloning, listing, removing and renaming images.

use super::{Api, ErrnoResult, Handle, ImageSpec, api, check, fill_array, names, text};
use benthic_block::Geometry;
use benthic_core::Result;
use benthic_rados::PoolContext;
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

const FORMAT: c_int = 0;
const FEATURES: c_int = 1;
const ORDER: c_int = 2;
const STRIPE_UNIT: c_int = 3;
const STRIPE_COUNT: c_int = 4;
const DATA_POOL: c_int = 10;
const CLONE_FORMAT: c_int = 12;

/// The features of an image, as bits.
pub(crate) struct Features;

impl Features {
    pub const LAYERING: u64 = 1;
    pub const STRIPING: u64 = 1 << 1;
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    pub const OBJECT_MAP: u64 = 1 << 3;
    pub const FAST_DIFF: u64 = 1 << 4;
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    /// The names that `rbd info` shows, in the order of the bits.
    pub const NAMES: [&str; 12] = [
        "layering",
        "striping",
        "exclusive-lock",
        "object-map",
        "fast-diff",
        "deep-flatten",
        "journaling",
        "data-pool",
        "operations",
        "migrating",
        "non-primary",
        "dirty-cache",
    ];
    /// Those of a new image.
    const NEW: u64 = Features::LAYERING
        | Features::EXCLUSIVE_LOCK
        | Features::OBJECT_MAP
        | Features::FAST_DIFF
        | Features::DEEP_FLATTEN;
}

/// A pool. All its functions block.
pub(crate) struct RbdPool {
    pub(super) api: &'static Api,
    context: PoolContext,
}

impl RbdPool {
    pub fn new(context: PoolContext) -> Result<Arc<RbdPool>> {
        Ok(Arc::new(RbdPool { api: api()?, context }))
    }

    /// Ends the opening of an image. It is only then safe to close it.
    ///
    /// An image at a snapshot, or with a parent at one, is opened in a callback of librados. There
    /// librbd 16 wakes the thread that opens the image, and then locks a mutex of the image once
    /// more, in `ImageState::complete_action_unlock`. If the image has been closed in between, the
    /// mutex is freed memory, and the process ends: "terminate called after throwing an instance of
    /// 'std::system_error', what(): Invalid argument". That happened on busy machines.
    pub(super) fn end_opening(&self) {
        self.context.wait_for_callbacks();
    }

    pub(super) fn handle(&self) -> Handle {
        self.context.as_ptr()
    }

    pub fn create(
        &self,
        name: &CStr,
        size_bytes: u64,
        geometry: Geometry,
        data_pool: Option<&CStr>,
    ) -> ErrnoResult<()> {
        let options = Options::new(self.api, geometry)?;
        if let Some(data_pool) = data_pool {
            // SAFETY: the options are live and the name ends in NUL.
            check(unsafe {
                (self.api.image_options_set_string)(options.handle, DATA_POOL, data_pool.as_ptr())
            })?;
        }
        // SAFETY: the context and the options are live; the name ends in NUL.
        check(unsafe { (self.api.create4)(self.handle(), name.as_ptr(), size_bytes, options.handle) })
    }

    /// Clones a snapshot, in the format (2) that needs no protected snapshot.
    pub fn clone_snapshot(
        &self,
        name: &CStr,
        snapshot: &CStr,
        into: &RbdPool,
        clone: &CStr,
        geometry: Geometry,
    ) -> ErrnoResult<()> {
        let options = Options::new(self.api, geometry)?;
        options.set(CLONE_FORMAT, 2)?;
        // SAFETY: the contexts and the options are live; the names end in NUL.
        check(unsafe {
            (self.api.clone3)(
                self.handle(),
                name.as_ptr(),
                snapshot.as_ptr(),
                into.handle(),
                clone.as_ptr(),
                options.handle,
            )
        })
    }

    pub fn list(&self) -> ErrnoResult<Vec<String>> {
        let empty = || ImageSpec { id: null_mut(), name: null_mut() };
        // SAFETY: the array has the stated length.
        let mut found =
            fill_array(empty, |items, len| unsafe { (self.api.list2)(self.handle(), items, len) })?;
        // SAFETY: librbd has filled the array; it is freed after the names are copied.
        unsafe {
            let names = found.iter().map(|image| text(image.name)).collect();
            (self.api.image_spec_list_cleanup)(found.as_mut_ptr(), found.len());
            Ok(names)
        }
    }

    /// The pool's RADOS namespaces that have images of their own.
    pub fn list_namespaces(&self) -> ErrnoResult<Vec<String>> {
        // SAFETY: the buffer has the stated length.
        names(|names, len| unsafe { (self.api.namespace_list)(self.handle(), names.cast(), len) })
    }

    pub fn remove(&self, name: &CStr) -> ErrnoResult<()> {
        // SAFETY: the context is live and the name ends in NUL.
        check(unsafe { (self.api.remove)(self.handle(), name.as_ptr()) })
    }

    pub fn rename(&self, from: &CStr, to: &CStr) -> ErrnoResult<()> {
        // SAFETY: the context is live and the names end in NUL.
        check(unsafe { (self.api.rename)(self.handle(), from.as_ptr(), to.as_ptr()) })
    }
}

/// The options of a new image.
struct Options {
    api: &'static Api,
    handle: Handle,
}

impl Options {
    fn new(api: &'static Api, geometry: Geometry) -> ErrnoResult<Options> {
        let mut handle = null_mut();
        // SAFETY: the out pointer is valid.
        unsafe { (api.image_options_create)(&mut handle) };
        let options = Options { api, handle };
        let is_striped = geometry.stripe_unit_bytes != geometry.object_bytes || geometry.stripe_count != 1;
        let striping = if is_striped { Features::STRIPING } else { 0 };
        options.set(FORMAT, 2)?;
        options.set(FEATURES, Features::NEW | striping)?;
        options.set(ORDER, geometry.object_bytes.trailing_zeros().into())?;
        if is_striped {
            options.set(STRIPE_UNIT, geometry.stripe_unit_bytes)?;
            options.set(STRIPE_COUNT, geometry.stripe_count)?;
        }
        Ok(options)
    }

    fn set(&self, option: c_int, value: u64) -> ErrnoResult<()> {
        // SAFETY: the options are live.
        check(unsafe { (self.api.image_options_set_uint64)(self.handle, option, value) })
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: nothing uses the options any more.
        unsafe { (self.api.image_options_destroy)(self.handle) };
    }
}
