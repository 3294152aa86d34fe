//! Bindings to librbd. All unsafe code of this crate is in this folder.
//!
//! This folder relies on these promises of librbd:
//!
//! - Any thread may use an image and an I/O context at any time.
//! - It calls the callback of a completion exactly once if the submission returned 0 or more, else
//!   never. Until then it may use the buffer, which belongs to a [`Pending`](request::Pending).
//! - It copies all names that it gets.
//! - Strings and arrays that it returns belong to the caller, who frees them with the function
//!   for their type.

mod groups;
mod image;
mod pool;
mod quiesce;
mod request;
mod trash;

pub(crate) use groups::GroupSnapshot;
pub(crate) use image::{DiffExtent, RbdImage, Snapshot, Watcher};
pub(crate) use pool::{Features, RbdPool};
pub(crate) use quiesce::SnapshotPhase;
pub(crate) use request::{Request, send};
pub(crate) use trash::Trashed;

use benthic_core::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The result of a librbd call. The error is a positive errno.
pub(crate) type ErrnoResult<T> = std::result::Result<T, i32>;

/// An image, an I/O context, a completion or a set of options.
type Handle = *mut c_void;
type Callback = extern "C" fn(Handle, *mut c_void);
type UpdateCallback = extern "C" fn(*mut c_void);
type ProgressCallback = extern "C" fn(u64, u64, *mut c_void) -> c_int;
type DiffCallback = extern "C" fn(u64, usize, c_int, *mut c_void) -> c_int;

/// `rbd_image_spec_t`.
#[repr(C)]
struct ImageSpec {
    id: *mut c_char,
    name: *mut c_char,
}

/// `rbd_linked_image_spec_t`.
#[repr(C)]
struct LinkedImageSpec {
    pool_id: i64,
    pool_name: *mut c_char,
    pool_namespace: *mut c_char,
    image_id: *mut c_char,
    image_name: *mut c_char,
    is_in_trash: bool,
}

/// `rbd_snap_spec_t`.
#[repr(C)]
struct SnapSpec {
    id: u64,
    namespace_type: c_int,
    name: *mut c_char,
}

/// `rbd_snap_info_t`.
#[repr(C)]
struct SnapInfo {
    id: u64,
    size: u64,
    name: *const c_char,
}

/// `rbd_image_info_t`.
#[repr(C)]
struct ImageInfo {
    size: u64,
    object_size: u64,
    objects: u64,
    order: c_int,
    block_name_prefix: [c_char; 24],
    parent_pool: i64,
    parent_name: [c_char; 96],
}

/// `rbd_image_watcher_t`.
#[repr(C)]
struct ImageWatcher {
    address: *mut c_char,
    id: i64,
    cookie: u64,
}

/// `rbd_trash_image_info_t`.
#[repr(C)]
struct TrashInfo {
    id: *mut c_char,
    name: *mut c_char,
    source: c_int,
    trashed_s: i64,
    keep_until_s: i64,
}

/// `rbd_group_image_info_t`.
#[repr(C)]
struct GroupImageInfo {
    name: *mut c_char,
    pool: i64,
    state: c_int,
}

/// `rbd_group_info_t`.
#[repr(C)]
struct GroupInfo {
    name: *mut c_char,
    pool: i64,
}

/// `rbd_group_snap_info_t`.
#[repr(C)]
struct GroupSnapInfo {
    name: *mut c_char,
    state: c_int,
}

/// `struct timespec`.
#[repr(C)]
struct Timespec {
    s: i64,
    ns: i64,
}

/// Declares the functions to look up in the library: `rbd_` and the name.
macro_rules! functions {
    ($(fn $name:ident($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Api {
            fn load(library: &libloading::Library) -> std::result::Result<Api, libloading::Error> {
                // SAFETY: the signatures are those of librbd.h.
                unsafe { Ok(Api { $($name: *library.get(concat!("rbd_", stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    fn image_options_create(*mut Handle);
    fn image_options_destroy(Handle);
    fn image_options_set_uint64(Handle, c_int, u64) -> c_int;
    fn image_options_set_string(Handle, c_int, *const c_char) -> c_int;
    fn create4(Handle, *const c_char, u64, Handle) -> c_int;
    fn clone3(Handle, *const c_char, *const c_char, Handle, *const c_char, Handle) -> c_int;
    fn list2(Handle, *mut ImageSpec, *mut usize) -> c_int;
    fn image_spec_list_cleanup(*mut ImageSpec, usize);
    fn remove(Handle, *const c_char) -> c_int;
    fn namespace_list(Handle, *mut c_char, *mut usize) -> c_int;
    fn rename(Handle, *const c_char, *const c_char) -> c_int;
    fn trash_move(Handle, *const c_char, u64) -> c_int;
    fn trash_list(Handle, *mut TrashInfo, *mut usize) -> c_int;
    fn trash_list_cleanup(*mut TrashInfo, usize);
    fn trash_restore(Handle, *const c_char, *const c_char) -> c_int;
    fn trash_remove(Handle, *const c_char, bool) -> c_int;
    fn group_create(Handle, *const c_char) -> c_int;
    fn group_remove(Handle, *const c_char) -> c_int;
    fn group_list(Handle, *mut c_char, *mut usize) -> c_int;
    fn get_group(Handle, *mut GroupInfo, usize) -> c_int;
    fn group_info_cleanup(*mut GroupInfo, usize) -> c_int;
    fn group_image_add(Handle, *const c_char, Handle, *const c_char) -> c_int;
    fn group_image_remove(Handle, *const c_char, Handle, *const c_char) -> c_int;
    fn group_image_list(Handle, *const c_char, *mut GroupImageInfo, usize, *mut usize) -> c_int;
    fn group_image_list_cleanup(*mut GroupImageInfo, usize, usize) -> c_int;
    fn group_snap_create(Handle, *const c_char, *const c_char) -> c_int;
    fn group_snap_remove(Handle, *const c_char, *const c_char) -> c_int;
    fn group_snap_rollback(Handle, *const c_char, *const c_char) -> c_int;
    fn group_snap_list(Handle, *const c_char, *mut GroupSnapInfo, usize, *mut usize) -> c_int;
    fn group_snap_list_cleanup(*mut GroupSnapInfo, usize, usize) -> c_int;
    fn open(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    fn open_read_only(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    fn open_by_id_read_only(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    fn close(Handle) -> c_int;
    fn get_id(Handle, *mut c_char, usize) -> c_int;
    fn stat(Handle, *mut ImageInfo, usize) -> c_int;
    fn get_stripe_unit(Handle, *mut u64) -> c_int;
    fn get_stripe_count(Handle, *mut u64) -> c_int;
    fn get_features(Handle, *mut u64) -> c_int;
    fn get_parent(Handle, *mut LinkedImageSpec, *mut SnapSpec) -> c_int;
    fn linked_image_spec_cleanup(*mut LinkedImageSpec);
    fn snap_spec_cleanup(*mut SnapSpec);
    fn list_children3(Handle, *mut LinkedImageSpec, *mut usize) -> c_int;
    fn linked_image_spec_list_cleanup(*mut LinkedImageSpec, usize);
    fn snap_list(Handle, *mut SnapInfo, *mut c_int) -> c_int;
    fn snap_list_end(*mut SnapInfo);
    fn snap_get_namespace_type(Handle, u64, *mut c_int) -> c_int;
    fn snap_get_timestamp(Handle, u64, *mut Timespec) -> c_int;
    fn snap_create(Handle, *const c_char) -> c_int;
    fn snap_create2(Handle, *const c_char, u32, ProgressCallback, *mut c_void) -> c_int;
    fn snap_remove(Handle, *const c_char) -> c_int;
    fn snap_rollback(Handle, *const c_char) -> c_int;
    fn snap_protect(Handle, *const c_char) -> c_int;
    fn snap_unprotect(Handle, *const c_char) -> c_int;
    fn snap_is_protected(Handle, *const c_char, *mut c_int) -> c_int;
    fn resize(Handle, u64) -> c_int;
    fn flatten(Handle) -> c_int;
    fn get_flags(Handle, *mut u64) -> c_int;
    fn rebuild_object_map(Handle, ProgressCallback, *mut c_void) -> c_int;
    fn diff_iterate2(Handle, *const c_char, u64, u64, u8, u8, DiffCallback, *mut c_void) -> c_int;
    fn metadata_get(Handle, *const c_char, *mut c_char, *mut usize) -> c_int;
    fn lock_acquire(Handle, c_int) -> c_int;
    fn lock_release(Handle) -> c_int;
    fn lock_get_owners(Handle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
    fn lock_get_owners_cleanup(*mut *mut c_char, usize);
    fn lock_break(Handle, c_int, *const c_char) -> c_int;
    fn watchers_list(Handle, *mut ImageWatcher, *mut usize) -> c_int;
    fn watchers_list_cleanup(*mut ImageWatcher, usize);
    fn update_watch(Handle, *mut u64, UpdateCallback, *mut c_void) -> c_int;
    fn update_unwatch(Handle, u64) -> c_int;
    fn quiesce_watch(Handle, UpdateCallback, UpdateCallback, *mut c_void, *mut u64) -> c_int;
    fn quiesce_complete(Handle, u64, c_int);
    fn aio_create_completion(*mut c_void, Callback, *mut Handle) -> c_int;
    fn aio_get_return_value(Handle) -> isize;
    fn aio_release(Handle);
    fn aio_read(Handle, u64, usize, *mut c_char, Handle) -> c_int;
    fn aio_write(Handle, u64, usize, *const c_char, Handle) -> c_int;
    fn aio_write_zeroes(Handle, u64, usize, Handle, c_int, c_int) -> c_int;
    fn aio_flush(Handle, Handle) -> c_int;
}

/// Opens librbd once per process and never closes it: it has threads of its own.
fn api() -> Result<&'static Api> {
    static API: OnceLock<std::result::Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| {
        // SAFETY: librbd's initialisers have no preconditions.
        let library =
            unsafe { libloading::Library::new("librbd.so.1") }.map_err(|error| error.to_string())?;
        let api = Api::load(&library).map_err(|error| error.to_string());
        std::mem::forget(library);
        api
    });
    loaded.as_ref().map_err(|reason| {
        let message = "cannot open librbd; install Ceph's block library (Debian: apt-get install librbd1)";
        Error::unsupported(message).with_source(reason.clone())
    })
}

fn check(result: c_int) -> ErrnoResult<()> {
    if result < 0 { Err(result.saturating_neg()) } else { Ok(()) }
}

/// Copies a string that librbd returned.
///
/// # Safety
/// `start` is null or points at a string that ends in NUL.
unsafe fn text(start: *const c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees the string.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}

/// Calls a function that fills a buffer with names, each of which ends in NUL.
fn names(fill: impl FnMut(*mut u8, &mut usize) -> c_int) -> ErrnoResult<Vec<String>> {
    let names = fill_array(|| 0_u8, fill)?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Calls a function that fills an array of unknown length: with ever longer arrays, until it no
/// longer answers that the array is too short (ERANGE). `fill` gets the array and its length, and
/// changes the length to the one that it needs. Returns the array with its length.
fn fill_array<T>(
    empty: impl Fn() -> T,
    mut fill: impl FnMut(*mut T, &mut usize) -> c_int,
) -> ErrnoResult<Vec<T>> {
    let mut len = 16;
    loop {
        let mut items: Vec<T> = std::iter::repeat_with(&empty).take(len).collect();
        let given = len;
        match check(fill(items.as_mut_ptr(), &mut len)) {
            Ok(()) => {
                items.truncate(len);
                return Ok(items);
            }
            Err(benthic_core::error::errno::ERANGE) => len = len.max(given * 2),
            Err(number) => return Err(number),
        }
    }
}
