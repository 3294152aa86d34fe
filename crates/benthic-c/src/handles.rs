//! The table of the handles that C programs have open.
//!
//! C sees a handle as a pointer to an incomplete type, so that the compiler tells a store from a
//! pool. Its value is no address but the place in this table and a generation, which changes
//! whenever the place is used again. Bit 63 is set, so that no collector of garbage takes it for an
//! address of its own heap.

use benthic_core::{Error, Result};
use parking_lot::RwLock;
use std::any::Any;
use std::sync::Arc;

/// Maximum number of open handles in a process.
pub const HANDLES_MAX: usize = 1 << 20;

const TAG: u64 = 1 << 63;
const GENERATION_MAX: u32 = (1 << 31) - 1;

/// A value to which a handle can refer.
pub trait Item: Any + Send + Sync {
    /// The name of its C type.
    const TYPE: &str;
}

struct Slot {
    generation: u32,
    item: Option<Arc<dyn Any + Send + Sync>>,
}

struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// A table of handles.
pub struct Handles(RwLock<Slots>);

/// The handles of this process.
pub static HANDLES: Handles = Handles::new();

impl Handles {
    const fn new() -> Handles {
        Handles(RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }))
    }

    /// Adds an item. Returns its handle, which is not 0.
    ///
    /// # Errors
    /// `LimitExceeded` if too many handles are open.
    pub fn add<T: Item>(&self, item: Arc<T>) -> Result<u64> {
        let mut table = self.0.write();
        let place = match table.free.pop() {
            Some(place) => place as usize,
            None if table.slots.len() < HANDLES_MAX => {
                table.slots.push(Slot { generation: 0, item: None });
                table.slots.len() - 1
            }
            None => {
                let message = "too many open handles; close those that are no longer needed";
                let error = Error::limit_exceeded(message);
                return Err(error.with("handles_max", HANDLES_MAX));
            }
        };
        let slot = &mut table.slots[place];
        slot.generation = if slot.generation == GENERATION_MAX { 1 } else { slot.generation + 1 };
        slot.item = Some(item);
        Ok(TAG | u64::from(slot.generation) << 32 | place as u64)
    }

    /// The item of a handle.
    ///
    /// # Errors
    /// `InvalidArgument` if the handle is not open, or is of another type.
    pub fn get<T: Item>(&self, handle: u64) -> Result<Arc<T>> {
        let table = self.0.read();
        let item = table.find(handle).and_then(|place| table.slots[place].item.clone());
        drop(table);
        item.and_then(|item| item.downcast().ok()).ok_or_else(|| invalid::<T>(handle))
    }

    /// Closes a handle and returns its item.
    ///
    /// # Errors
    /// As [`Handles::get`].
    pub fn remove<T: Item>(&self, handle: u64) -> Result<Arc<T>> {
        let mut table = self.0.write();
        let Some(place) = table.find(handle).filter(|place| table.slots[*place].is::<T>()) else {
            return Err(invalid::<T>(handle));
        };
        let item = table.slots[place].item.take();
        table.free.push(place as u32);
        drop(table);
        item.and_then(|item| item.downcast().ok()).ok_or_else(|| invalid::<T>(handle))
    }
}

impl Slot {
    fn is<T: Item>(&self) -> bool {
        self.item.as_ref().is_some_and(|item| item.is::<T>())
    }
}

impl Slots {
    fn find(&self, handle: u64) -> Option<usize> {
        let place = (handle & u64::from(u32::MAX)) as usize;
        let slot = self.slots.get(place)?;
        let is_open = slot.item.is_some() && handle == TAG | u64::from(slot.generation) << 32 | place as u64;
        is_open.then_some(place)
    }
}

fn invalid<T: Item>(handle: u64) -> Error {
    let message = match handle {
        0 => format!("the {} is NULL", T::TYPE),
        _ => format!("this is no open {}; it was closed, or is of another type", T::TYPE),
    };
    Error::invalid_argument(message)
}

#[cfg(test)]
#[path = "handles_tests.rs"]
mod tests;
