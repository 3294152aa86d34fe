//! Snapshots of groups: librbd asks every program that has an image open for writing to pause its
//! writes, and tells it when they may continue.

use super::{Api, ErrnoResult, Handle, RbdImage, check};
use parking_lot::Mutex;
use std::ffi::c_void;

/// A notice of librbd about a snapshot that another program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotPhase {
    /// It waits for [`RbdImage::answer_quiesce`].
    Quiesce,
    Unquiesce,
}

type Notify = Box<dyn Fn(SnapshotPhase) + Send + Sync>;

/// A registered watch. librbd has its address until the image is closed.
pub(super) struct QuiesceWatch {
    api: &'static Api,
    image: Handle,
    state: Mutex<QuiesceState>,
    notify: Notify,
}

#[derive(Default)]
struct QuiesceState {
    is_unanswered: bool,
    is_closing: bool,
}

impl QuiesceWatch {
    fn answer(&self, state: &mut QuiesceState) {
        if std::mem::take(&mut state.is_unanswered) {
            // SAFETY: the image is live: it is open, or its close has not begun. librbd waits for
            // one answer. It uses the handle of the watch (here 0) only to name a watch that has
            // failed.
            unsafe { (self.api.quiesce_complete)(self.image, 0, 0) };
        }
    }

    /// Answers, and lets later snapshots of others wait for nothing. librbd cannot close an image
    /// that owes an answer.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        self.answer(&mut state);
    }
}

extern "C" fn quiesce(watch: *mut c_void) {
    // SAFETY: the box lives until the image is closed, and librbd calls nothing after.
    let watch = unsafe { &*watch.cast::<QuiesceWatch>() };
    let mut state = watch.state.lock();
    state.is_unanswered = true;
    if state.is_closing {
        watch.answer(&mut state);
    } else {
        (watch.notify)(SnapshotPhase::Quiesce);
    }
}

extern "C" fn unquiesce(watch: *mut c_void) {
    // SAFETY: as above.
    let watch = unsafe { &*watch.cast::<QuiesceWatch>() };
    (watch.notify)(SnapshotPhase::Unquiesce);
}

impl RbdImage {
    /// Calls `notify` before and after each snapshot that another program takes, on a thread of
    /// librbd. It must not block. The watch ends when the image is closed: librbd's own way to end
    /// it earlier waits forever if a snapshot begins at that moment.
    pub fn watch_quiesce(&mut self, notify: Notify) -> ErrnoResult<()> {
        let api = self.pool.api;
        let state = Mutex::default();
        let watch = Box::new(QuiesceWatch { api, image: self.handle, state, notify });
        let address = std::ptr::from_ref::<QuiesceWatch>(&watch).cast_mut().cast();
        let mut handle = 0;
        // SAFETY: the image is live, and the box lives until it is closed.
        check(unsafe { (api.quiesce_watch)(self.handle, quiesce, unquiesce, address, &mut handle) })?;
        self.quiesce = Some(watch);
        Ok(())
    }

    /// Answers a waiting snapshot, so that it begins.
    pub fn answer_quiesce(&self) {
        if let Some(watch) = &self.quiesce {
            watch.answer(&mut watch.state.lock());
        }
    }
}
