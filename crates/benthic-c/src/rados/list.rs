//! Listings of objects and attributes, as librados walks through them.

use crate::handles::Item;
use crate::rados::ioctx::Ioctx;
use crate::runtime::wait;
use benthic_core::names::is_reserved_namespace;
use benthic_core::{ListRequest, Namespaces, Pool, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::Arc;

/// A listing of a pool.
pub struct Objects {
    pool: Arc<dyn Pool>,
    state: Mutex<ObjectsState>,
}

struct ObjectsState {
    request: ListRequest,
    is_last: bool,
    page: VecDeque<(CString, CString)>,
    /// The current entry, to which the program has pointers.
    current: Option<(CString, CString)>,
}

impl Item for Objects {
    const TYPE: &str = "rados_list_ctx_t";
}

impl Objects {
    pub fn open(io: &Ioctx) -> Objects {
        let request = ListRequest { namespaces: io.namespaces(), ..ListRequest::default() };
        let state = ObjectsState { request, is_last: false, page: VecDeque::new(), current: None };
        Objects { pool: Arc::clone(&io.pool), state: Mutex::new(state) }
    }

    /// Goes to the next object, and shows its namespace and its name. They stay where they are
    /// until the next call. Returns `None` at the end.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn next<T>(&self, show: impl FnOnce(&CString, &CString) -> T) -> Result<Option<T>> {
        let mut state = self.state.lock();
        while state.page.is_empty() && !state.is_last {
            let page = wait(self.pool.list(state.request.clone()))?;
            state.is_last = page.next.is_none();
            state.request.after = page.next;
            let all = state.request.namespaces == Namespaces::All;
            let shown =
                page.objects.into_iter().filter(|object| !all || !is_reserved_namespace(object.namespace()));
            // Names have no NUL.
            let text = |text: &str| CString::new(text).unwrap_or_default();
            state.page.extend(shown.map(|object| (text(object.namespace()), text(object.name()))));
        }
        state.current = state.page.pop_front();
        Ok(state.current.as_ref().map(|(namespace, name)| show(namespace, name)))
    }
}

/// Entries that a program walks through: omap entries or attributes. A program gets the handle of
/// omap entries when it builds an operation, and the entries when the operation is complete.
#[derive(Default)]
pub struct Entries(Mutex<EntriesState>);

#[derive(Default)]
struct EntriesState {
    left: VecDeque<(CString, Bytes)>,
    /// The current entry, to which the program has pointers.
    current: Option<(CString, Bytes)>,
}

impl Item for Entries {
    const TYPE: &str = "rados_omap_iter_t or rados_xattrs_iter_t";
}

impl Entries {
    /// The first entry becomes the next one. C programs see a key up to its first NUL.
    pub fn fill(&self, entries: impl IntoIterator<Item = (Bytes, Bytes)>) {
        let key = |key: Bytes| {
            let key: Vec<u8> = key.iter().copied().take_while(|byte| *byte != 0).collect();
            CString::new(key).unwrap_or_default()
        };
        self.0.lock().left = entries.into_iter().map(|(name, value)| (key(name), value)).collect();
    }

    /// Goes to the next entry, and shows it. It stays where it is until the next call.
    pub fn next<T>(&self, show: impl FnOnce(&CString, &Bytes) -> T) -> Option<T> {
        let mut entries = self.0.lock();
        entries.current = entries.left.pop_front();
        entries.current.as_ref().map(|(key, value)| show(key, value))
    }
}
