//! librbd's functions for groups of images.

use super::{ErrnoResult, GroupImageInfo, GroupSnapInfo, RbdImage, RbdPool, check, fill_array, names, text};
use benthic_core::error::errno;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

/// RBD_GROUP_SNAP_STATE_INCOMPLETE.
const INCOMPLETE: std::ffi::c_int = 0;

/// A snapshot of a group.
pub(crate) struct GroupSnapshot {
    pub name: String,
    /// False while it is taken, and if its program was killed meanwhile.
    pub is_complete: bool,
}

impl RbdPool {
    pub fn create_group(&self, group: &CStr) -> ErrnoResult<()> {
        // SAFETY: the context is live and the names end in NUL; as in the functions below.
        check(unsafe { (self.api.group_create)(self.handle(), group.as_ptr()) })
    }

    pub fn remove_group(&self, group: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.api.group_remove)(self.handle(), group.as_ptr()) })
    }

    pub fn list_groups(&self) -> ErrnoResult<Vec<String>> {
        // SAFETY: the buffer has the stated length.
        names(|names, len| unsafe { (self.api.group_list)(self.handle(), names.cast(), len) })
    }

    pub fn add_to_group(&self, group: &CStr, image: &CStr) -> ErrnoResult<()> {
        let pool = self.handle();
        // SAFETY: as above.
        check(unsafe { (self.api.group_image_add)(pool, group.as_ptr(), pool, image.as_ptr()) })
    }

    pub fn remove_from_group(&self, group: &CStr, image: &CStr) -> ErrnoResult<()> {
        let pool = self.handle();
        // SAFETY: as above.
        check(unsafe { (self.api.group_image_remove)(pool, group.as_ptr(), pool, image.as_ptr()) })
    }

    /// The names of a group's images, also of those in other pools.
    pub fn list_group_images(&self, group: &CStr) -> ErrnoResult<Vec<String>> {
        const SIZE: usize = size_of::<GroupImageInfo>();
        let empty = || GroupImageInfo { name: null_mut(), pool: 0, state: 0 };
        let mut found = fill_array(empty, |items, len| {
            // SAFETY: the array has the stated length.
            unsafe { (self.api.group_image_list)(self.handle(), group.as_ptr(), items, SIZE, len) }
        })?;
        // SAFETY: librbd has filled the array; it is freed after the names are copied.
        unsafe {
            let names = found.iter().map(|image| text(image.name)).collect();
            (self.api.group_image_list_cleanup)(found.as_mut_ptr(), SIZE, found.len());
            Ok(names)
        }
    }

    pub fn create_group_snapshot(&self, group: &CStr, snapshot: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.api.group_snap_create)(self.handle(), group.as_ptr(), snapshot.as_ptr()) })
    }

    pub fn remove_group_snapshot(&self, group: &CStr, snapshot: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.api.group_snap_remove)(self.handle(), group.as_ptr(), snapshot.as_ptr()) })
    }

    pub fn roll_group_back(&self, group: &CStr, snapshot: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.api.group_snap_rollback)(self.handle(), group.as_ptr(), snapshot.as_ptr()) })
    }

    pub fn list_group_snapshots(&self, group: &CStr) -> ErrnoResult<Vec<GroupSnapshot>> {
        const SIZE: usize = size_of::<GroupSnapInfo>();
        let empty = || GroupSnapInfo { name: null_mut(), state: 0 };
        let mut found = fill_array(empty, |items, len| {
            // SAFETY: the array has the stated length.
            unsafe { (self.api.group_snap_list)(self.handle(), group.as_ptr(), items, SIZE, len) }
        })?;
        // SAFETY: librbd has filled the array; it is freed after the names are copied.
        unsafe {
            let describe = |snapshot: &GroupSnapInfo| GroupSnapshot {
                name: text(snapshot.name),
                is_complete: snapshot.state != INCOMPLETE,
            };
            let snapshots = found.iter().map(describe).collect();
            (self.api.group_snap_list_cleanup)(found.as_mut_ptr(), SIZE, found.len());
            Ok(snapshots)
        }
    }
}

impl RbdImage {
    /// Whether a program takes a snapshot of the image's group, or was killed while it did. False
    /// for a group in another pool.
    pub fn is_in_group_snapshot(&self) -> ErrnoResult<bool> {
        let Some(group) = self.group()? else { return Ok(false) };
        let group = CString::new(group).map_err(|_| errno::EBADMSG)?;
        Ok(self.pool.list_group_snapshots(&group)?.iter().any(|snapshot| !snapshot.is_complete))
    }
}
