//! librbd's functions for the trash of a pool.

use super::{ErrnoResult, RbdPool, TrashInfo, check, fill_array, text};
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

/// Images that a user has moved to the trash, or whose removal waits for a clone that is being
/// removed too. Others belong to mirroring and to migrations.
const USER_SOURCES: [c_int; 2] = [0, 4];

/// An image in the trash.
pub(crate) struct Trashed {
    pub id: String,
    pub name: String,
    pub trashed_s: i64,
    pub keep_until_s: i64,
}

impl RbdPool {
    pub fn move_to_trash(&self, name: &CStr, keep_s: u64) -> ErrnoResult<()> {
        // SAFETY: the context is live and the name ends in NUL; as in the functions below.
        check(unsafe { (self.api.trash_move)(self.handle(), name.as_ptr(), keep_s) })
    }

    pub fn list_trash(&self) -> ErrnoResult<Vec<Trashed>> {
        let empty =
            || TrashInfo { id: null_mut(), name: null_mut(), source: 0, trashed_s: 0, keep_until_s: 0 };
        // SAFETY: the array has the stated length.
        let list = |items, len: &mut usize| unsafe { (self.api.trash_list)(self.handle(), items, len) };
        let mut found = fill_array(empty, list)?;
        // SAFETY: librbd has filled the array; it is freed after the strings are copied.
        unsafe {
            let images = found.iter().filter(|image| USER_SOURCES.contains(&image.source));
            let images = images
                .map(|image| Trashed {
                    id: text(image.id),
                    name: text(image.name),
                    trashed_s: image.trashed_s,
                    keep_until_s: image.keep_until_s,
                })
                .collect();
            (self.api.trash_list_cleanup)(found.as_mut_ptr(), found.len());
            Ok(images)
        }
    }

    pub fn restore(&self, id: &CStr, name: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.api.trash_restore)(self.handle(), id.as_ptr(), name.as_ptr()) })
    }

    /// Removes an image from the trash, also before its time is over.
    pub fn purge(&self, id: &CStr) -> ErrnoResult<()> {
        // SAFETY: as above.
        check(unsafe { (self.api.trash_remove)(self.handle(), id.as_ptr(), true) })
    }
}
