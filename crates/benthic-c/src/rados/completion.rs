//! The completion of an asynchronous operation: its result, the threads that wait for it, and its
//! callback.

use crate::handles::Item;
use parking_lot::{Condvar, Mutex};

/// A completion, for which a program waits.
pub struct Completion {
    state: Mutex<CompletionState>,
    changed: Condvar,
    /// Runs the callbacks of the program.
    callback: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct CompletionState {
    result: Option<i32>,
    was_called: bool,
}

impl Item for Completion {
    const TYPE: &str = "rados_completion_t";
}

impl Completion {
    pub fn new(callback: Box<dyn Fn() + Send + Sync>) -> Completion {
        Completion { state: Mutex::default(), changed: Condvar::new(), callback }
    }

    pub fn complete(&self, result: i32) {
        self.state.lock().result = Some(result);
        self.changed.notify_all();
    }

    pub fn call_back(&self) {
        (self.callback)();
        self.state.lock().was_called = true;
        self.changed.notify_all();
    }

    pub fn wait(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| state.result.is_none());
    }

    pub fn wait_for_callback(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| !state.was_called);
    }

    /// The result; `None` while the operation is in flight.
    pub fn result(&self) -> Option<i32> {
        self.state.lock().result
    }
}
