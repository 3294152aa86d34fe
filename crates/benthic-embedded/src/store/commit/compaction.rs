//! Compaction: merges tables of the key-value store, so that reads visit few tables and tombstones
//! release their space.

use super::Commit;
use crate::store::kv::changed_nothing;
use benthic_core::Result;
use std::sync::atomic::Ordering;

impl Commit {
    pub fn compact(&self) -> Result<()> {
        self.check_merge(self.disk.kv.compact())
    }

    /// Merges all tables if something was removed, because removed entries occupy space until then.
    /// On a full disk only the reserve may have room for the merged tables.
    pub fn compact_removed(&self) -> Result<()> {
        let _checkpointing = self.checkpointing.lock();
        self.queue.lock().space.remove_spare();
        if !self.removed.swap(false, Ordering::Relaxed) {
            return self.compact();
        }
        self.queue.lock().space.lend();
        let merged = self.check_merge(self.disk.kv.compact_fully());
        self.queue.lock().space.take_back();
        merged.inspect_err(|_| self.removed.store(true, Ordering::Relaxed))
    }

    pub(super) fn check_merge(&self, merged: Result<()>) -> Result<()> {
        merged.inspect_err(|error| {
            if !changed_nothing(error) {
                self.fail(error);
            }
        })
    }
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
