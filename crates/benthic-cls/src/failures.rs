//! The recent failures of a library's methods, for operators.
//!
//! The list is in memory and bounded. Equal failures share an entry, so that a client which polls
//! for a busy lock does not push out the failures of others.

use benthic_core::{CallFailure, cut};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const ENTRIES_MAX: usize = 128;
/// Limit of a message. The other texts of an entry are names, which have limits of their own.
const MESSAGE_BYTES_MAX: usize = 512;

/// The recent failures of all methods of a library.
#[derive(Default)]
pub struct RecentFailures(Mutex<VecDeque<CallFailure>>);

impl RecentFailures {
    /// Adds a failure. Its `times` is ignored.
    pub fn add(&self, mut failure: CallFailure) {
        failure.message = cut(failure.message, MESSAGE_BYTES_MAX);
        let is_equal = |entry: &CallFailure| {
            entry.method == failure.method
                && entry.class == failure.class
                && entry.version == failure.version
                && entry.kind == failure.kind
                && entry.message == failure.message
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let equal = entries.iter().position(is_equal).and_then(|at| entries.remove(at));
        failure.times = equal.map_or(0, |entry| entry.times) + 1;
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(failure);
    }

    /// All entries, the latest last.
    pub fn read(&self) -> Vec<CallFailure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
#[path = "failures_tests.rs"]
mod tests;
