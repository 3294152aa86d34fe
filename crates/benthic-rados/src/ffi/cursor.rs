//! Cursors: positions in the order of a pool's objects, and listings that start at one.

use super::{ErrnoResult, Handle, IoCtx, ListItem, check, copy};
use std::ptr::null;

pub(crate) struct Cursor<'a> {
    io: &'a IoCtx,
    handle: Handle,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: we own the cursor, and it belongs to this context.
        unsafe { (self.io.cluster.api.object_list_cursor_free)(self.io.handle, self.handle) };
    }
}

pub(crate) struct ListedObject {
    pub namespace: Vec<u8>,
    pub name: Vec<u8>,
    /// The key that places the object instead of its name; mostly empty.
    pub locator: Vec<u8>,
}

// SAFETY of all calls below: cursors and context are live, and one thread at a time uses a cursor.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one comment for all, above")]
impl IoCtx {
    fn begin(&self) -> Cursor<'_> {
        Cursor { io: self, handle: unsafe { (self.cluster.api.object_list_begin)(self.handle) } }
    }

    /// The position behind the last object.
    pub fn end(&self) -> Cursor<'_> {
        Cursor { io: self, handle: unsafe { (self.cluster.api.object_list_end)(self.handle) } }
    }

    /// The start of slice `index` when the order is cut into `count` equal slices; the end if
    /// `index >= count`.
    pub fn slice(&self, index: usize, count: usize) -> Cursor<'_> {
        // librados counts hashes in 64 bits: 2^32 times the slice behind the last one overflows to
        // 0, the beginning.
        if index >= count {
            return self.end();
        }
        let (start, end) = (self.begin(), self.end());
        let (mut from, mut to) = (self.begin(), self.begin());
        unsafe {
            (self.cluster.api.object_list_slice)(
                self.handle,
                start.handle,
                end.handle,
                index,
                count,
                &mut from.handle,
                &mut to.handle,
            );
        }
        from
    }

    /// Lists at most `objects_max` objects from `from` up to but excluding `to`, and returns the
    /// position to continue from.
    pub fn list(
        &self,
        from: &Cursor<'_>,
        to: &Cursor<'_>,
        objects_max: usize,
    ) -> ErrnoResult<(Vec<ListedObject>, Cursor<'_>)> {
        let none = ListItem {
            name_len: 0,
            name: null(),
            namespace_len: 0,
            namespace: null(),
            locator_len: 0,
            locator: null(),
        };
        let mut items = vec![none; objects_max];
        let mut next = self.begin();
        unsafe {
            let result = (self.cluster.api.object_list)(
                self.handle,
                from.handle,
                to.handle,
                items.len(),
                null(),
                0,
                items.as_mut_ptr(),
                &mut next.handle,
            );
            let count = check(result)? as usize;
            let listed = items[..count].iter().map(|item| ListedObject {
                namespace: copy(item.namespace, item.namespace_len),
                name: copy(item.name, item.name_len),
                locator: copy(item.locator, item.locator_len),
            });
            let listed = listed.collect();
            (self.cluster.api.object_list_free)(items.len(), items.as_mut_ptr());
            Ok((listed, next))
        }
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "as above")]
impl Cursor<'_> {
    pub fn is_end(&self) -> bool {
        unsafe { (self.io.cluster.api.object_list_is_end)(self.io.handle, self.handle) != 0 }
    }

    /// Compares the position with that of another cursor of the same context.
    pub fn order(&self, other: &Cursor<'_>) -> std::cmp::Ordering {
        let order = unsafe {
            (self.io.cluster.api.object_list_cursor_cmp)(self.io.handle, self.handle, other.handle)
        };
        order.cmp(&0)
    }
}
