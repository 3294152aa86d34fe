//! Groups of images.

use super::{ErrnoResult, GroupImageInfo, GroupSnapInfo, RbdPool, check, filled, text};
use std::ffi::CStr;
use std::ptr::null_mut;

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
        let list = |names: *mut u8, len: &mut usize| unsafe {
            (self.api.group_list)(self.handle(), names.cast(), len)
        };
        // The names are in one buffer, and each ends in NUL.
        let names = filled(|| 0_u8, list)?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
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
        let mut found = filled(empty, |items, len| {
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

    pub fn list_group_snapshots(&self, group: &CStr) -> ErrnoResult<Vec<String>> {
        const SIZE: usize = size_of::<GroupSnapInfo>();
        let empty = || GroupSnapInfo { name: null_mut(), state: 0 };
        let mut found = filled(empty, |items, len| {
            // SAFETY: the array has the stated length.
            unsafe { (self.api.group_snap_list)(self.handle(), group.as_ptr(), items, SIZE, len) }
        })?;
        // SAFETY: librbd has filled the array; it is freed after the names are copied.
        unsafe {
            let names = found.iter().map(|snapshot| text(snapshot.name)).collect();
            (self.api.group_snap_list_cleanup)(found.as_mut_ptr(), SIZE, found.len());
            Ok(names)
        }
    }
}
