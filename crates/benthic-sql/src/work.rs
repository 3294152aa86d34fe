//! What a query has done so far, for whoever watches it.

use benthic_table::Snapshot;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The work of one query. All of it only grows.
#[derive(Debug, Default)]
pub struct Work {
    objects: AtomicU64,
    done_objects: AtomicU64,
    moved_bytes: AtomicU64,
    round_trip_us: AtomicU64,
}

impl Work {
    /// Objects of tables that are to be read, or to be left out when a filter has tightened; known once the query is planned.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// How many of them are done.
    pub fn done_objects(&self) -> u64 {
        self.done_objects.load(Ordering::Relaxed)
    }

    /// Bytes of objects and of answers that came, and of fragments that were sent. A table's head and lists are not among them.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// The shortest that the head of a table took to come; zero if none was asked for.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_us.load(Ordering::Relaxed))
    }

    /// Notes how long the head of a table took to come.
    pub fn note_round_trip(&self, snapshot: &Snapshot) {
        let Some(time) = snapshot.table().round_trip() else { return };
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let shorter = |known| (known == 0 || time_us < known).then_some(time_us);
        // Nothing to do if it is not shorter.
        let _ = self.round_trip_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }

    /// So many objects more are to be read.
    pub fn add_objects(&self, objects: u64) {
        self.objects.fetch_add(objects, Ordering::Relaxed);
    }

    /// An object is done.
    pub fn object_is_done(&self) {
        self.done_objects.fetch_add(1, Ordering::Relaxed);
    }

    /// So many bytes came or went.
    pub fn add_moved(&self, len_bytes: u64) {
        self.moved_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
}
