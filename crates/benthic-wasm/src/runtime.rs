//! The interface of a runtime of modules ([`Code`]), and how its store holds a borrowed
//! [`MethodContext`].
//!
//! Runtimes demand that the data of a store live for `'static`, and a context is borrowed for one
//! call. [`lend`] erases the lifetime for the length of a closure.

use crate::{Limits, Module, host};
use benthic_core::{GuestCost, MethodContext, Result};
use std::ptr::NonNull;
use std::sync::Arc;

/// Limit of the entries of a module's tables.
const TABLE_ENTRIES_MAX: usize = 100_000;

/// The function without parameters and results that a runtime calls before the method, if the
/// module exports it. The runtimes of languages initialize themselves in it.
pub const INITIALIZE: &str = "_initialize";

/// A module, translated by a runtime.
pub trait Code: Send + Sync {
    /// Runs the exported function of this name in a new instance. Returns its outcome, with the
    /// errors of [`exec`](crate::exec), and its fuel and peak memory.
    fn run(
        &self,
        context: &mut MethodContext<'_>,
        method: &str,
        call: host::Call,
        limits: Limits,
    ) -> (Result<Vec<u8>>, GuestCost);
}

/// The memory of an instance. Both runtimes ask it before they grow a memory or a table.
pub struct Growth {
    memory_bytes: u64,
    memory_bytes_max: u64,
    /// Whether the instance wanted more memory than it may have.
    is_refused: bool,
}

impl Growth {
    pub fn new(limits: Limits) -> Growth {
        Growth { memory_bytes: 0, memory_bytes_max: limits.memory_bytes, is_refused: false }
    }

    /// Whether the memory may grow to this size. `own_max_bytes` is the limit that the module gave
    /// it.
    pub fn allows_memory(&mut self, len_bytes: usize, own_max_bytes: Option<usize>) -> bool {
        // Not every runtime asks in this case.
        if own_max_bytes.is_some_and(|max| len_bytes > max) {
            return false;
        }
        let is_allowed = len_bytes as u64 <= self.memory_bytes_max;
        match is_allowed {
            true => self.memory_bytes = len_bytes as u64,
            false => self.is_refused = true,
        }
        is_allowed
    }

    /// Whether a table may grow to this number of entries.
    pub fn allows_table(&self, entries: usize) -> bool {
        entries <= TABLE_ENTRIES_MAX
    }

    /// Whether a request for memory was refused. A trap afterwards is reported as `LimitExceeded`.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

/// Has a module compiled, now or later: see [`Module::set_compiled`](crate::Module::set_compiled).
/// It must return soon, because a call waits for it.
pub type Compile = fn(&Arc<Module>);

/// A context that [`lend`] lent.
pub struct Borrowed(NonNull<MethodContext<'static>>);

impl Borrowed {
    pub(crate) fn get(&mut self) -> &mut MethodContext<'static> {
        // SAFETY: the pointer is valid while the closure of `lend` runs, because `lend` holds the
        // unique reference for that long and takes the `Borrowed` back before it returns. `&mut
        // self` makes this reference the only one. `MethodContext` hands out nothing that borrows
        // from the objects behind its lifetime.
        unsafe { self.0.as_mut() }
    }
}

/// Calls `run` with a store's data that hold `context`. The data must come back from `run`, so that
/// nothing keeps the context.
pub fn lend<T>(context: &mut MethodContext<'_>, run: impl FnOnce(Borrowed) -> (Borrowed, T)) -> T {
    let pointer = NonNull::from(context).cast::<MethodContext<'static>>();
    let (returned, value) = run(Borrowed(pointer));
    assert!(returned.0 == pointer, "the context that was lent comes back");
    value
}
