//! Intents that are stored before anybody needs them: a `put` notes one for the next write to its shard, which so saves the call
//! that would note it. What nobody takes expires, as the intent of a gateway that died.

use crate::sal::Id;
use benthic_core::ObjectId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// A shard that was written no longer ago than this will probably be written again soon.
const SOON_MS: u64 = 10_000;
/// Intents kept for a shard: about as many as writes to it are under way at once.
const INTENTS_MAX: usize = 64;
/// Shards that are remembered.
const SHARDS_MAX: usize = 4_096;

/// The intents that this gateway keeps.
#[derive(Default)]
pub(super) struct Reserved {
    shards: Mutex<HashMap<ObjectId, OfShard>>,
}

#[derive(Default)]
struct OfShard {
    /// When it was last written. All times are of the clock that never goes back.
    written_ms: u64,
    intents: Vec<Intent>,
}

/// A stored intent of a write of one data object.
#[derive(Clone, Copy)]
pub(super) struct Intent {
    pub write: Id,
    /// Since when its lease runs.
    pub begun_ms: u64,
}

impl Reserved {
    /// Whether a `put` at this time should note one more.
    pub fn is_wanted(&self, shard: &ObjectId, now_ms: u64) -> bool {
        let mut shards = self.shards.lock();
        if shards.len() >= SHARDS_MAX && !shards.contains_key(shard) {
            shards.retain(|_, of| now_ms.saturating_sub(of.written_ms) <= SOON_MS);
            if shards.len() >= SHARDS_MAX {
                return false;
            }
        }
        let is_first = !shards.contains_key(shard);
        let of = shards.entry(shard.clone()).or_default();
        let is_soon = !is_first && now_ms.saturating_sub(of.written_ms) <= SOON_MS;
        of.written_ms = now_ms;
        is_soon && of.intents.len() < INTENTS_MAX
    }

    /// Keeps an intent that was stored.
    pub fn keep(&self, shard: &ObjectId, intent: Intent) {
        if let Some(of) = self.shards.lock().get_mut(shard) {
            of.intents.push(intent);
        }
    }

    /// An intent that is not older than that.
    pub fn take(&self, shard: &ObjectId, now_ms: u64, age_max_ms: u64) -> Option<Intent> {
        let mut shards = self.shards.lock();
        let intents = &mut shards.get_mut(shard)?.intents;
        intents.retain(|intent| now_ms.saturating_sub(intent.begun_ms) < age_max_ms);
        intents.pop()
    }

    /// Forgets a shard's: one of them was given up, and then the others were probably too.
    pub fn forget(&self, shard: &ObjectId) {
        self.shards.lock().remove(shard);
    }
}

#[cfg(test)]
mod tests {
    use super::{INTENTS_MAX, Intent, Reserved, SHARDS_MAX, SOON_MS};
    use crate::sal::Id;
    use benthic_core::ObjectId;

    fn shard(number: usize) -> ObjectId {
        ObjectId::new(format!("shard.{number}")).unwrap()
    }

    #[test]
    fn only_a_shard_that_is_written_often_has_some() {
        let reserved = Reserved::default();
        assert!(!reserved.is_wanted(&shard(0), 1));
        assert!(reserved.is_wanted(&shard(0), 1 + SOON_MS));
        assert!(!reserved.is_wanted(&shard(0), 2 + 2 * SOON_MS));
        assert!(!reserved.is_wanted(&shard(1), 2 + 2 * SOON_MS));
    }

    #[test]
    fn an_intent_is_taken_once_and_not_when_it_is_old() {
        let reserved = Reserved::default();
        assert!(reserved.take(&shard(0), 0, 100).is_none());
        reserved.is_wanted(&shard(0), 1);
        for number in 0..2 {
            reserved.keep(&shard(0), Intent { write: Id([number; 16]), begun_ms: 1 });
        }
        assert_eq!(reserved.take(&shard(0), 100, 100).map(|intent| intent.write), Some(Id([1; 16])));
        assert!(reserved.take(&shard(0), 101, 100).is_none());
        assert!(reserved.take(&shard(0), 50, 100).is_none());
        reserved.keep(&shard(0), Intent { write: Id([2; 16]), begun_ms: 1 });
        reserved.forget(&shard(0));
        assert!(reserved.take(&shard(0), 2, 100).is_none());
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let reserved = Reserved::default();
        for number in 0..SHARDS_MAX + 10 {
            reserved.is_wanted(&shard(number), 1);
        }
        assert_eq!(reserved.shards.lock().len(), SHARDS_MAX);
        assert!(!reserved.is_wanted(&shard(SHARDS_MAX + 20), 2 + SOON_MS));
        assert_eq!(reserved.shards.lock().len(), 1);
        for _ in 0..INTENTS_MAX {
            assert!(reserved.is_wanted(&shard(SHARDS_MAX + 20), 2 + SOON_MS));
            reserved.keep(&shard(SHARDS_MAX + 20), Intent { write: Id([0; 16]), begun_ms: 1 });
        }
        assert!(!reserved.is_wanted(&shard(SHARDS_MAX + 20), 2 + SOON_MS));
    }
}
