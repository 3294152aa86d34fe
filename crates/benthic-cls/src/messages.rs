//! The recent log messages of a library's methods, for the authors of classes. They need no access
//! to the OSD's own log, and no higher log level of the OSD.

use benthic_core::{LogMessage, cut};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const MESSAGES_MAX: usize = 256;
/// Limit of a message's text. Its other texts are names, which have limits of their own.
const TEXT_BYTES_MAX: usize = 512;

/// The recent messages of all methods of a library, in memory.
#[derive(Default)]
pub struct RecentMessages(Mutex<VecDeque<LogMessage>>);

impl RecentMessages {
    pub fn add(&self, mut message: LogMessage) {
        message.text = cut(message.text, TEXT_BYTES_MAX);
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() >= MESSAGES_MAX {
            messages.pop_front();
        }
        messages.push_back(message);
    }

    /// All messages, the latest last.
    pub fn read(&self) -> Vec<LogMessage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
