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
mod tests {
    use super::{MESSAGES_MAX, RecentMessages, TEXT_BYTES_MAX};
    use benthic_core::LogMessage;

    #[test]
    fn messages_and_their_texts_have_a_limit() {
        let recent = RecentMessages::default();
        for number in 0..2 * MESSAGES_MAX as u64 {
            recent.add(LogMessage {
                unix_ms: number,
                class: "hello".to_owned(),
                version: None,
                method: "record".to_owned(),
                client: "client.1".to_owned(),
                level: "info".to_owned(),
                text: "é".repeat(TEXT_BYTES_MAX),
            });
        }
        let messages = recent.read();
        assert_eq!(messages.len(), MESSAGES_MAX);
        assert_eq!(messages[0].unix_ms, MESSAGES_MAX as u64, "the oldest are dropped");
        assert!(messages.iter().all(|message| message.text.len() <= TEXT_BYTES_MAX));
    }
}
