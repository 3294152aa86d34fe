//! A cache of bucket records for reads of objects.
//!
//! A GET needs the record of the bucket, the entry of the key, and the data. On a cluster, each is
//! a request to an OSD. So reads of objects use a record for up to a second after its read began.
//! The gateway forgets a record when it changes the bucket itself, and sees changes by other
//! gateways within that second. All other operations read the current record. Rejected:
//! notifications of changes, which not every engine has.

use crate::sal::Bucket;
use parking_lot::Mutex;
use std::collections::HashMap;

const AGE_MS_MAX: u64 = 1_000;
/// Maximum number of remembered records.
const BUCKETS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct RecentBuckets(Mutex<KnownBuckets>);

#[derive(Default)]
struct KnownBuckets {
    /// Number of changes that this gateway has made to buckets.
    changes: u64,
    /// The record, with the time at which its read began, by the monotonic clock.
    by_name: HashMap<String, (u64, Bucket)>,
}

/// A read of a record that is about to begin.
pub(super) struct Begun {
    at_ms: u64,
    changes: u64,
}

impl RecentBuckets {
    pub fn get(&self, name: &str, now_ms: u64) -> Option<Bucket> {
        let known = self.0.lock();
        let (begun_ms, bucket) = known.by_name.get(name)?;
        (now_ms.saturating_sub(*begun_ms) < AGE_MS_MAX).then(|| bucket.clone())
    }

    pub fn begin(&self, now_ms: u64) -> Begun {
        Begun { at_ms: now_ms, changes: self.0.lock().changes }
    }

    /// Remembers a record, unless this gateway has changed a bucket since the read began.
    pub fn remember(&self, begun: &Begun, bucket: &Bucket) {
        let mut known = self.0.lock();
        if known.changes != begun.changes {
            return;
        }
        if known.by_name.len() >= BUCKETS_MAX && !known.by_name.contains_key(&bucket.name) {
            known.by_name.clear();
        }
        known.by_name.insert(bucket.name.clone(), (begun.at_ms, bucket.clone()));
    }

    /// Forgets a bucket that this gateway has changed, or may have changed.
    pub fn forget(&self, name: &str) {
        let mut known = self.0.lock();
        known.changes += 1;
        known.by_name.remove(name);
    }
}

#[cfg(test)]
#[path = "recent_buckets_tests.rs"]
mod tests;
