//! Handles that fail with a clear error once their store is closed, or in a forked process.

use benthic_core::{Error, Result};
use parking_lot::Mutex;
use std::process;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// A part of an open store, which closing the store removes. Release the interpreter lock before
/// you call a method that may wait for the contents.
pub struct Slot<T> {
    pid: u32,
    state: Mutex<SlotState<T>>,
    closing: Notify,
}

enum SlotState<T> {
    Filled(T),
    /// The content will be put back.
    CheckedOut,
    Closed,
}

impl<T> Slot<T> {
    pub fn new(content: T) -> Slot<T> {
        Slot { pid: process::id(), state: Mutex::new(SlotState::Filled(content)), closing: Notify::new() }
    }

    /// Clones the contents.
    ///
    /// # Errors
    /// `InvalidArgument` if the slot was closed, is checked out, or belongs to another process.
    pub fn get(&self) -> Result<T>
    where
        T: Clone,
    {
        self.check()?;
        match &*self.state.lock() {
            SlotState::Filled(content) => Ok(content.clone()),
            SlotState::CheckedOut => Err(checked_out_error()),
            SlotState::Closed => Err(closed_error()),
        }
    }

    /// Checks the contents out; the checkout can put them back.
    ///
    /// # Errors
    /// As [`Slot::get`].
    pub fn take(&self) -> Result<(T, Checkout<'_, T>)> {
        self.check()?;
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, SlotState::CheckedOut) {
            SlotState::Filled(content) => Ok((content, Checkout { slot: self, is_filled: false })),
            SlotState::CheckedOut => Err(checked_out_error()),
            SlotState::Closed => {
                *state = SlotState::Closed;
                Err(closed_error())
            }
        }
    }

    /// Closes the slot. Returns its contents; None if they are checked out or it was closed
    /// already.
    ///
    /// # Errors
    /// `InvalidArgument` in another process.
    pub fn close(&self) -> Result<Option<T>> {
        self.check()?;
        Ok(self.empty())
    }

    fn empty(&self) -> Option<T> {
        let state = std::mem::replace(&mut *self.state.lock(), SlotState::Closed);
        self.closing.notify_one();
        match state {
            SlotState::Filled(content) => Some(content),
            SlotState::CheckedOut | SlotState::Closed => None,
        }
    }

    /// Fails in a forked process: it has none of the parent's threads, so waiting for them would
    /// never end.
    fn check(&self) -> Result<()> {
        if self.pid == process::id() {
            return Ok(());
        }
        let message = "the store was opened before this process was forked; connect again in the new process";
        Err(Error::invalid_argument(message))
    }
}

/// Puts the contents of a [`Slot`] back. If it is dropped before that, the slot is closed.
pub struct Checkout<'a, T> {
    slot: &'a Slot<T>,
    is_filled: bool,
}

impl<T> Checkout<'_, T> {
    /// Puts the contents back, unless the slot was closed meanwhile.
    pub fn put_back(mut self, content: T) {
        self.fill(SlotState::Filled(content));
    }

    /// Returns the error to report, once the slot is closed.
    pub async fn closed(&self) -> Error {
        self.slot.closing.notified().await;
        closed_error()
    }

    fn fill(&mut self, with: SlotState<T>) {
        self.is_filled = true;
        let mut state = self.slot.state.lock();
        if matches!(*state, SlotState::CheckedOut) {
            *state = with;
        }
    }
}

impl<T> Drop for Checkout<'_, T> {
    fn drop(&mut self) {
        if !self.is_filled {
            self.fill(SlotState::Closed);
        }
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        if self.pid != process::id() {
            // The contents belong to the parent process. Dropping them would need its threads and
            // locks.
            std::mem::forget(std::mem::replace(self.state.get_mut(), SlotState::Closed));
        }
    }
}

fn closed_error() -> Error {
    Error::invalid_argument("the handle is closed; open it again")
}

fn checked_out_error() -> Error {
    Error::invalid_argument("another thread uses this handle; open one for each thread")
}

trait Close: Send + Sync {
    fn close_slot(&self);
}

impl<T: Send> Close for Slot<T> {
    fn close_slot(&self) {
        drop(self.empty());
    }
}

#[derive(Default)]
pub struct Slots(Mutex<Vec<Weak<dyn Close>>>);

impl Slots {
    /// Creates a slot that [`Slots::close`] closes.
    pub fn add<T: Send + 'static>(&self, content: T) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot::new(content));
        let mut slots = self.0.lock();
        // Remove slots without handles only when the list would grow, so that an addition is cheap
        // on average.
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
        }
        let weak: Weak<dyn Close> = Arc::downgrade(&(Arc::clone(&slot) as Arc<dyn Close>));
        slots.push(weak);
        slot
    }

    pub fn close(&self) {
        let slots = std::mem::take(&mut *self.0.lock());
        slots.iter().filter_map(Weak::upgrade).for_each(|slot| slot.close_slot());
    }
}
