//! An open image: the calls that block. `request.rs` has the asynchronous ones.

use super::quiesce::QuiesceWatch;
use super::request::IN_CALLBACK;
use super::{
    ErrnoResult, GroupInfo, Handle, ImageInfo, ImageWatcher, LinkedImageSpec, RbdPool, SnapInfo, SnapSpec,
    Timespec, check, fill_array, text,
};
use benthic_block::Geometry;
use benthic_core::error::errno;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::Arc;

const LOCK_EXCLUSIVE: c_int = 0;
/// RBD_SNAP_CREATE_SKIP_QUIESCE.
const SKIP_QUIESCE: u32 = 1;
/// The namespace of snapshots that people create. Others belong to groups, to mirroring, and to
/// removed snapshots that have clones.
const USER_NAMESPACE: c_int = 0;

/// An open image. Dropping it closes it, which blocks.
pub(crate) struct RbdImage {
    pub(super) pool: Arc<RbdPool>,
    pub(super) handle: Handle,
    watch: Option<UpdateWatch>,
    pub(super) quiesce: Option<Box<QuiesceWatch>>,
}

// SAFETY: any thread may use an image of librbd at any time.
unsafe impl Send for RbdImage {}
// SAFETY: as above.
unsafe impl Sync for RbdImage {}

/// The properties that change when an image is resized or flattened.
pub(crate) struct Stat {
    pub size_bytes: u64,
    pub geometry: Geometry,
    /// `POOL/IMAGE@SNAPSHOT`, or `POOL/NAMESPACE/IMAGE@SNAPSHOT`.
    pub parent: Option<String>,
}

pub(crate) struct Snapshot {
    pub id: u64,
    pub name: String,
    pub size_bytes: u64,
    pub created_unix_ms: u64,
    pub is_protected: bool,
}

/// A client that has an image open for writing.
pub(crate) struct Watcher {
    pub address: String,
    pub client_id: i64,
}

/// A range of the image that has data, or whose data were removed.
pub(crate) struct DiffExtent {
    pub offset_bytes: u64,
    pub len_bytes: u64,
    pub is_data: bool,
}

/// A registered callback. librbd has the address of the boxed function.
struct UpdateWatch {
    handle: u64,
    _notify: Box<Notify>,
}

type Notify = Box<dyn Fn() + Send + Sync>;

extern "C" fn updated(notify: *mut c_void) {
    // SAFETY: the box lives until `update_unwatch` has returned, and librbd calls nothing after.
    let notify = unsafe { &*notify.cast::<Notify>() };
    notify();
}

/// Collects the extents of a diff.
extern "C" fn collect(offset_bytes: u64, len: usize, exists: c_int, found: *mut c_void) -> c_int {
    // SAFETY: `found` is the vector of the call to `diff_iterate2` below, which waits.
    let found = unsafe { &mut *found.cast::<Vec<DiffExtent>>() };
    found.push(DiffExtent { offset_bytes, len_bytes: len as u64, is_data: exists != 0 });
    0
}

extern "C" fn no_progress(_: u64, _: u64, _: *mut c_void) -> c_int {
    0
}

fn as_ptr(name: Option<&CStr>) -> *const std::ffi::c_char {
    name.map_or(null(), CStr::as_ptr)
}

impl RbdImage {
    /// Opens an image, or one of its snapshots. An image that is opened for writing registers a
    /// watch, which other clients see.
    pub fn open(
        pool: &Arc<RbdPool>,
        name: &CStr,
        snapshot: Option<&CStr>,
        is_read_only: bool,
    ) -> ErrnoResult<RbdImage> {
        let open = if is_read_only { pool.api.open_read_only } else { pool.api.open };
        let mut handle = null_mut();
        // SAFETY: the context is live, the names end in NUL, and the out pointer is valid.
        check(unsafe { open(pool.handle(), name.as_ptr(), &mut handle, as_ptr(snapshot)) })?;
        pool.end_opening();
        Ok(RbdImage { pool: Arc::clone(pool), handle, watch: None, quiesce: None })
    }

    /// Calls `notify` whenever the image was changed otherwise than by writing, also by another
    /// client. The callback runs on a thread of librbd and must not block.
    pub fn watch(&mut self, notify: Notify) -> ErrnoResult<()> {
        let notify = Box::new(notify);
        let address = std::ptr::from_ref::<Notify>(&notify).cast_mut().cast();
        let mut handle = 0;
        // SAFETY: the image is live; the box lives as long as the watch.
        check(unsafe { (self.pool.api.update_watch)(self.handle, &mut handle, updated, address) })?;
        self.watch = Some(UpdateWatch { handle, _notify: notify });
        Ok(())
    }

    pub fn stat(&self) -> ErrnoResult<Stat> {
        let api = self.pool.api;
        // SAFETY: the structure has only numbers, for which 0 is valid.
        let mut info: ImageInfo = unsafe { zeroed() };
        let (mut stripe_unit_bytes, mut stripe_count) = (0, 0);
        // SAFETY: the image is live and the out pointers are valid.
        unsafe {
            check((api.stat)(self.handle, &mut info, size_of::<ImageInfo>()))?;
            check((api.get_stripe_unit)(self.handle, &mut stripe_unit_bytes))?;
            check((api.get_stripe_count)(self.handle, &mut stripe_count))?;
        }
        let geometry = Geometry { object_bytes: info.object_size, stripe_unit_bytes, stripe_count };
        Ok(Stat { size_bytes: info.size, geometry, parent: self.parent()? })
    }

    fn parent(&self) -> ErrnoResult<Option<String>> {
        let api = self.pool.api;
        // SAFETY: null pointers, numbers and false are valid values.
        let (mut image, mut snapshot): (LinkedImageSpec, SnapSpec) = unsafe { (zeroed(), zeroed()) };
        // SAFETY: the image is live; librbd's memory is freed after it is copied.
        unsafe {
            match check((api.get_parent)(self.handle, &mut image, &mut snapshot)) {
                Err(errno::ENOENT) => return Ok(None),
                found => found?,
            }
            let namespace = text(image.pool_namespace);
            let namespace = if namespace.is_empty() { namespace } else { namespace + "/" };
            let (pool, name, snapshot_name) =
                (text(image.pool_name), text(image.image_name), text(snapshot.name));
            (api.linked_image_spec_cleanup)(&mut image);
            (api.snap_spec_cleanup)(&mut snapshot);
            Ok(Some(format!("{pool}/{namespace}{name}@{snapshot_name}")))
        }
    }

    pub fn features(&self) -> ErrnoResult<u64> {
        let mut features = 0;
        // SAFETY: the image is live and the out pointer is valid.
        check(unsafe { (self.pool.api.get_features)(self.handle, &mut features) })?;
        Ok(features)
    }

    /// The identifier in the names of the image's objects.
    pub fn id(&self) -> ErrnoResult<CString> {
        let mut id = [0_u8; 256];
        // SAFETY: the image is live and the buffer has the stated length.
        check(unsafe { (self.pool.api.get_id)(self.handle, id.as_mut_ptr().cast(), id.len()) })?;
        CStr::from_bytes_until_nul(&id).map(CStr::to_owned).map_err(|_| errno::EBADMSG)
    }

    /// The name of the group that the image belongs to.
    pub fn group(&self) -> ErrnoResult<Option<String>> {
        const SIZE: usize = size_of::<GroupInfo>();
        let mut group = GroupInfo { name: null_mut(), pool: 0 };
        // SAFETY: the image is live and the out pointer is valid; librbd's string is freed after it
        // is copied.
        unsafe {
            check((self.pool.api.get_group)(self.handle, &mut group, SIZE))?;
            let name = text(group.name);
            (self.pool.api.group_info_cleanup)(&mut group, SIZE);
            Ok(Some(name).filter(|name| !name.is_empty()))
        }
    }

    /// How many clones a snapshot has.
    pub fn count_clones(&self, snapshot: &CStr) -> ErrnoResult<usize> {
        let api = self.pool.api;
        let id = self.id()?;
        let mut handle = null_mut();
        // SAFETY: the context is live, the strings end in NUL, and the out pointer is valid.
        check(unsafe {
            (api.open_by_id_read_only)(self.pool.handle(), id.as_ptr(), &mut handle, snapshot.as_ptr())
        })?;
        self.pool.end_opening();
        let at_snapshot = RbdImage { pool: Arc::clone(&self.pool), handle, watch: None, quiesce: None };
        // SAFETY: null pointers, numbers and false are valid values.
        let empty = || unsafe { zeroed::<LinkedImageSpec>() };
        let mut found = fill_array(empty, |items, len| {
            // SAFETY: the array has the stated length.
            unsafe { (api.list_children3)(at_snapshot.handle, items, len) }
        })?;
        // SAFETY: librbd has filled the array.
        unsafe { (api.linked_image_spec_list_cleanup)(found.as_mut_ptr(), found.len()) };
        Ok(found.len())
    }

    /// The snapshots that people created, oldest first.
    pub fn snapshots(&self) -> ErrnoResult<Vec<Snapshot>> {
        let api = self.pool.api;
        let mut len_max: c_int = 16;
        let (mut listed, len) = loop {
            let empty = || SnapInfo { id: 0, size: 0, name: null() };
            let mut listed: Vec<_> = std::iter::repeat_with(empty).take(len_max as usize).collect();
            let given = len_max;
            // SAFETY: the array has the stated length.
            let len = unsafe { (api.snap_list)(self.handle, listed.as_mut_ptr(), &mut len_max) };
            match check(len) {
                Ok(()) => break (listed, len as usize),
                Err(errno::ERANGE) => len_max = len_max.max(given * 2),
                Err(number) => return Err(number),
            }
        };
        let mut found = Vec::new();
        for snapshot in &listed[..len] {
            // SAFETY: librbd has filled `len` items.
            found.push((snapshot.id, snapshot.size, unsafe { text(snapshot.name) }));
        }
        if len > 0 {
            // SAFETY: librbd ends the array with an empty item; the names are copied.
            unsafe { (api.snap_list_end)(listed.as_mut_ptr()) };
        }
        let mut snapshots = Vec::new();
        for (id, size_bytes, name) in found {
            let mut namespace = USER_NAMESPACE;
            let mut created = Timespec { s: 0, ns: 0 };
            // SAFETY: the image is live and the out pointers are valid.
            let described = unsafe {
                check((api.snap_get_namespace_type)(self.handle, id, &mut namespace))
                    .and_then(|()| check((api.snap_get_timestamp)(self.handle, id, &mut created)))
            };
            match described {
                // Removed since it was listed.
                Err(errno::ENOENT) => continue,
                described => described?,
            }
            if namespace == USER_NAMESPACE {
                let created_unix_ms =
                    (created.s.max(0) as u64) * 1_000 + (created.ns.max(0) as u64) / 1_000_000;
                let is_protected = match self.is_protected(&name) {
                    Err(errno::ENOENT) => continue,
                    found => found?,
                };
                snapshots.push(Snapshot { id, name, size_bytes, created_unix_ms, is_protected });
            }
        }
        snapshots.sort_by_key(|snapshot| snapshot.id);
        Ok(snapshots)
    }

    fn is_protected(&self, snapshot: &str) -> ErrnoResult<bool> {
        let snapshot = CString::new(snapshot).map_err(|_| errno::EBADMSG)?;
        let mut is_protected = 0;
        // SAFETY: the image is live, the name ends in NUL, and the out pointer is valid.
        check(unsafe {
            (self.pool.api.snap_is_protected)(self.handle, snapshot.as_ptr(), &mut is_protected)
        })?;
        Ok(is_protected != 0)
    }

    pub fn create_snapshot(&self, name: &CStr) -> ErrnoResult<()> {
        // SAFETY: the image is live and the name ends in NUL; as in the functions below.
        check(unsafe { (self.pool.api.snap_create)(self.handle, name.as_ptr()) })
    }

    /// As [`RbdImage::create_snapshot`], for the program that has the exclusive lock: it asks no
    /// program to pause its writes, because there is no other writer.
    pub fn create_snapshot_as_owner(&self, name: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above; the callback uses no data.
        check(unsafe {
            (self.pool.api.snap_create2)(self.handle, name.as_ptr(), SKIP_QUIESCE, no_progress, null_mut())
        })
    }

    pub fn remove_snapshot(&self, name: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.pool.api.snap_remove)(self.handle, name.as_ptr()) })
    }

    /// Protects a snapshot, or ends that. Succeeds if it already is so.
    pub fn protect_snapshot(&self, name: &CStr, protect: bool) -> ErrnoResult<()> {
        let api = self.pool.api;
        let change = if protect { api.snap_protect } else { api.snap_unprotect };
        // SAFETY: as above.
        match check(unsafe { change(self.handle, name.as_ptr()) }) {
            Err(errno::EBUSY) if protect => Ok(()),
            Err(errno::EINVAL) if !protect => Ok(()),
            changed => changed,
        }
    }

    pub fn roll_back(&self, name: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.pool.api.snap_rollback)(self.handle, name.as_ptr()) })
    }

    pub fn resize(&self, size_bytes: u64) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.pool.api.resize)(self.handle, size_bytes) })
    }

    pub fn flags(&self) -> ErrnoResult<u64> {
        let mut flags = 0;
        // SAFETY: the image is live and the out pointer is valid.
        check(unsafe { (self.pool.api.get_flags)(self.handle, &mut flags) })?;
        Ok(flags)
    }

    pub fn rebuild_object_map(&self) -> ErrnoResult<()> {
        // SAFETY: the image is live, and the callback uses no data.
        check(unsafe { (self.pool.api.rebuild_object_map)(self.handle, no_progress, null_mut()) })
    }

    pub fn flatten(&self) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.pool.api.flatten)(self.handle) })
    }

    /// The extents with data, or with `since`, those that changed since that snapshot; in any
    /// order. With `whole_objects`, extents are whole objects. Then librbd reads only the object
    /// map, if the image has one; otherwise it asks the OSDs about each object.
    pub fn diff(
        &self,
        since: Option<&CStr>,
        offset_bytes: u64,
        len_bytes: u64,
        whole_objects: bool,
    ) -> ErrnoResult<Vec<DiffExtent>> {
        let mut found: Vec<DiffExtent> = Vec::new();
        // SAFETY: the image is live and the name ends in NUL. librbd calls the callback only before
        // the function returns, from one thread at a time.
        check(unsafe {
            (self.pool.api.diff_iterate2)(
                self.handle,
                as_ptr(since),
                offset_bytes,
                len_bytes,
                1,
                whole_objects.into(),
                collect,
                std::ptr::from_mut(&mut found).cast(),
            )
        })?;
        Ok(found)
    }

    /// A value of the image's metadata, of at most 4 KiB.
    pub fn metadata(&self, key: &CStr) -> ErrnoResult<Option<String>> {
        let mut value = vec![0_u8; 4096];
        let mut len = value.len();
        // SAFETY: the image is live, the key ends in NUL, and the buffer has the stated length.
        let found = unsafe {
            (self.pool.api.metadata_get)(self.handle, key.as_ptr(), value.as_mut_ptr().cast(), &mut len)
        };
        match check(found) {
            Err(errno::ENOENT) => return Ok(None),
            found => found?,
        }
        let text = CStr::from_bytes_until_nul(&value).map_err(|_| errno::EBADMSG)?;
        Ok(Some(text.to_string_lossy().into_owned()))
    }

    /// Takes the exclusive lock, and keeps it until the image is closed. Breaks the lock of a
    /// client that is gone, after the cluster has blocked it.
    pub fn acquire_lock(&self) -> ErrnoResult<()> {
        // SAFETY: the image is live.
        check(unsafe { (self.pool.api.lock_acquire)(self.handle, LOCK_EXCLUSIVE) })
    }

    /// Gives up the exclusive lock. Writes fail until [`RbdImage::acquire_lock`].
    pub fn release_lock(&self) -> ErrnoResult<()> {
        // SAFETY: the image is live.
        check(unsafe { (self.pool.api.lock_release)(self.handle) })
    }

    /// The client that has the exclusive lock, in librbd's words. It may be gone.
    pub fn lock_owner(&self) -> ErrnoResult<Option<CString>> {
        let api = self.pool.api;
        let mut mode = 0;
        let owners = fill_array(null_mut, |items, len| {
            // SAFETY: the array has the stated length.
            unsafe { (api.lock_get_owners)(self.handle, &mut mode, items, len) }
        });
        let mut owners = match owners {
            Err(errno::ENOENT) => return Ok(None),
            owners => owners?,
        };
        // SAFETY: librbd has filled the array with strings, which are copied before they are freed.
        unsafe {
            let owner = owners.first().map(|owner| CStr::from_ptr(*owner).to_owned());
            (api.lock_get_owners_cleanup)(owners.as_mut_ptr(), owners.len());
            Ok(owner)
        }
    }

    /// Blocks the owner of the exclusive lock in the cluster, and then breaks the lock.
    pub fn break_lock(&self, owner: &CStr) -> ErrnoResult<()> {
        // SAFETY: the image is live and the string ends in NUL.
        check(unsafe { (self.pool.api.lock_break)(self.handle, LOCK_EXCLUSIVE, owner.as_ptr()) })
    }

    /// The clients that have the image open for writing.
    pub fn watchers(&self) -> ErrnoResult<Vec<Watcher>> {
        let api = self.pool.api;
        let empty = || ImageWatcher { address: null_mut(), id: 0, cookie: 0 };
        // SAFETY: the array has the stated length.
        let mut found =
            fill_array(empty, |items, len| unsafe { (api.watchers_list)(self.handle, items, len) })?;
        // SAFETY: librbd has filled the array, which is freed after the strings are copied.
        unsafe {
            let watchers = found
                .iter()
                .map(|watcher| Watcher { address: text(watcher.address), client_id: watcher.id })
                .collect();
            (api.watchers_list_cleanup)(found.as_mut_ptr(), found.len());
            Ok(watchers)
        }
    }

    /// Closes the image, which writes back and gives up the lock.
    pub fn close(mut self) -> ErrnoResult<()> {
        self.closing().close()
    }

    fn closing(&mut self) -> Closing {
        let handle = std::mem::replace(&mut self.handle, null_mut());
        let (watch, quiesce) = (self.watch.take(), self.quiesce.take());
        Closing { pool: Arc::clone(&self.pool), handle, watch, quiesce }
    }
}

/// A handle on its way to the thread that closes it.
struct Closing {
    pool: Arc<RbdPool>,
    handle: Handle,
    watch: Option<UpdateWatch>,
    quiesce: Option<Box<QuiesceWatch>>,
}

// SAFETY: as for `RbdImage`, which owned the handle.
unsafe impl Send for Closing {}

impl Closing {
    fn close(self) -> ErrnoResult<()> {
        let api = self.pool.api;
        if let Some(quiesce) = &self.quiesce {
            quiesce.end();
        }
        // SAFETY: nothing else uses the handle any more. The callbacks' boxes outlive the watches.
        unsafe {
            let unwatched = match &self.watch {
                Some(watch) => check((api.update_unwatch)(self.handle, watch.handle)),
                None => Ok(()),
            };
            // Also after a failure: once the image is closed, librbd calls nothing.
            check((api.close)(self.handle)).and(unwatched)
        }
    }
}

impl Drop for RbdImage {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let closing = self.closing();
        if !IN_CALLBACK.get() {
            // There is nobody to tell: `close` reports errors.
            let _ = closing.close();
            return;
        }
        // Closing waits for the thread that runs the callback, so another thread must do it. If
        // none can start, the image stays open until the process ends.
        drop(std::thread::Builder::new().name("rbd-close".to_owned()).spawn(move || closing.close()));
    }
}
