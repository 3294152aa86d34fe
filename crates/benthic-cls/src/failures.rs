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
mod tests {
    use super::{ENTRIES_MAX, MESSAGE_BYTES_MAX, RecentFailures};
    use benthic_core::CallFailure;

    fn failure(unix_ms: u64, client: &str, message: &str) -> CallFailure {
        CallFailure {
            unix_ms,
            class: "lock".to_owned(),
            version: None,
            method: "acquire".to_owned(),
            client: client.to_owned(),
            kind: "busy".to_owned(),
            message: message.to_owned(),
            times: 0,
        }
    }

    #[test]
    fn equal_failures_are_one_entry_with_the_latest_time_and_client() {
        let recent = RecentFailures::default();
        recent.add(failure(1, "client.1", "held"));
        recent.add(failure(2, "client.2", "other"));
        recent.add(failure(3, "client.3", "held"));
        let entries = recent.read();
        let rows: Vec<_> =
            entries.iter().map(|entry| (entry.unix_ms, &entry.client[..], entry.times)).collect();
        assert_eq!(rows, [(2, "client.2", 1), (3, "client.3", 2)]);
    }

    #[test]
    fn entries_and_messages_have_a_limit() {
        let recent = RecentFailures::default();
        for number in 0..2 * ENTRIES_MAX as u64 {
            recent.add(failure(number, "client.1", &format!("{number}{}", "é".repeat(MESSAGE_BYTES_MAX))));
        }
        let entries = recent.read();
        assert_eq!(entries.len(), ENTRIES_MAX);
        assert_eq!(entries[0].unix_ms, ENTRIES_MAX as u64, "the oldest are dropped");
        assert!(entries.iter().all(|entry| entry.message.len() <= MESSAGE_BYTES_MAX));
    }
}
