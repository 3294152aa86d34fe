//! Counters of a query's progress, and the signal that stops the query.

use benthic_table::Snapshot;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The work of one query so far. No counter decreases.
#[derive(Debug, Default)]
pub struct Work {
    objects: AtomicU64,
    done_objects: AtomicU64,
    moved_bytes: AtomicU64,
    round_trip_us: AtomicU64,
    is_change: AtomicBool,
    stop: watch::Sender<bool>,
}

impl Work {
    /// Number of objects to read or to prune with a dynamic filter. It is known after planning.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    pub fn done_objects(&self) -> u64 {
        self.done_objects.load(Ordering::Relaxed)
    }

    /// Bytes transferred: data of objects, replies, and sent fragments. Heads and file lists of
    /// tables do not count.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// The shortest round trip to read the head of a table, or zero if none was read.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_us.load(Ordering::Relaxed))
    }

    /// Records the round trip that read the head of a table.
    pub fn note_round_trip(&self, snapshot: &Snapshot) {
        let Some(time) = snapshot.table().round_trip() else { return };
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let shorter = |known| (known == 0 || time_us < known).then_some(time_us);
        // The update fails if the new time is not shorter, and then nothing must change.
        let _ = self.round_trip_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }

    /// Records that the statement changes a table, so that it must end in order.
    pub fn note_change(&self) {
        self.is_change.store(true, Ordering::Relaxed);
    }

    /// Requests that a statement which changes a table ends early, without effect. Returns whether
    /// it is one; other statements end when they are dropped.
    pub fn stop(&self) -> bool {
        self.stop.send_replace(true);
        self.is_change.load(Ordering::Relaxed)
    }

    /// Waits for [`stop`](Work::stop).
    pub async fn wait_for_stop(&self) {
        // The sender lives as long as this value, so the wait cannot fail.
        let _ = self.stop.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    pub fn add_objects(&self, objects: u64) {
        self.objects.fetch_add(objects, Ordering::Relaxed);
    }

    pub fn object_is_done(&self) {
        self.done_objects.fetch_add(1, Ordering::Relaxed);
    }

    pub fn add_moved(&self, len_bytes: u64) {
        self.moved_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
}
