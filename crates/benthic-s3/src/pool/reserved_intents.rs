//! Intents that are stored ahead of need. A write usually takes a call that stores its intent. To
//! save that call, a `put` also stores an intent for the next write to its shard (docs/design/0006,
//! "Intents ahead of need"). Unused intents expire like those of a crashed gateway.

use crate::sal::Id;
use benthic_core::ObjectId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// If the previous write to a shard is at most this old, the next one will probably follow soon.
const SOON_MS: u64 = 10_000;
/// Maximum number of intents per shard: about the number of concurrent writes to it.
const INTENTS_MAX: usize = 64;
const SHARDS_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct ReservedIntents {
    shards: Mutex<HashMap<ObjectId, ShardIntents>>,
}

#[derive(Default)]
struct ShardIntents {
    /// Time of the last write. All times here are those of the monotonic clock.
    written_ms: u64,
    intents: Vec<Intent>,
}

/// A stored intent for a write of one data object.
#[derive(Clone, Copy)]
pub(super) struct Intent {
    pub write: Id,
    /// Start of the lease.
    pub begun_ms: u64,
}

impl ReservedIntents {
    /// Whether a `put` at this time should store one more intent. Records the write.
    pub fn should_reserve(&self, shard: &ObjectId, now_ms: u64) -> bool {
        let mut shards = self.shards.lock();
        if shards.len() >= SHARDS_MAX && !shards.contains_key(shard) {
            shards.retain(|_, state| now_ms.saturating_sub(state.written_ms) <= SOON_MS);
            if shards.len() >= SHARDS_MAX {
                return false;
            }
        }
        let is_first = !shards.contains_key(shard);
        let state = shards.entry(shard.clone()).or_default();
        let is_soon = !is_first && now_ms.saturating_sub(state.written_ms) <= SOON_MS;
        state.written_ms = now_ms;
        is_soon && state.intents.len() < INTENTS_MAX
    }

    pub fn keep(&self, shard: &ObjectId, intent: Intent) {
        if let Some(state) = self.shards.lock().get_mut(shard) {
            state.intents.push(intent);
        }
    }

    /// Takes an intent that is younger than `age_max_ms`.
    pub fn take(&self, shard: &ObjectId, now_ms: u64, age_max_ms: u64) -> Option<Intent> {
        let mut shards = self.shards.lock();
        let intents = &mut shards.get_mut(shard)?.intents;
        intents.retain(|intent| now_ms.saturating_sub(intent.begun_ms) < age_max_ms);
        intents.pop()
    }

    /// Forgets all intents of a shard. The caller found that one was swept, so the others probably
    /// were too.
    pub fn forget(&self, shard: &ObjectId) {
        self.shards.lock().remove(shard);
    }
}

#[cfg(test)]
#[path = "reserved_intents_tests.rs"]
mod tests;
