//! The background thread of an open store. It makes checkpoints, returns freed extents to the
//! allocator, and deletes what removed objects and pools left behind.

use super::commit::Commit;
use super::disk::Disk;
use super::keys::{self, BLOCK_BYTES, Onode};
use super::kv::malformed;
use super::object::{Garbage, PreparedOp};
use super::{layout, record::Record};
use benthic_core::{Durability, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

/// Maximum time that freed extents wait for the cleaner.
const IDLE_MS: u64 = 100;
/// A store without changes for this many times [`IDLE_MS`] is compacted and trimmed.
const IDLE_ROUNDS: u32 = 10;
/// Size at which a step's record is written. On a full disk there is little more room than this.
const STEP_BYTES: usize = 64 * 1024;

/// The background work of one open store, and the signal that wakes it.
pub(crate) struct Cleaner {
    disk: Arc<Disk>,
    commit: Arc<Commit>,
    signal: Mutex<CleanerSignal>,
    wake: Condvar,
}

#[derive(Default)]
struct CleanerSignal {
    awake: bool,
    stopping: bool,
}

/// Runs until the cleaner is stopped or dropped.
pub(crate) fn run(cleaner: &Weak<Cleaner>) {
    // The store's last run may have left garbage.
    let mut garbage = true;
    let mut full = false;
    let (mut seen_lsn, mut idle_rounds) = (0, 0);
    while let Some(cleaner) = cleaner.upgrade() {
        cleaner.release_and_cut();
        let next_lsn = cleaner.commit.next_lsn();
        idle_rounds = if next_lsn == seen_lsn { idle_rounds + 1 } else { 0_u32 };
        seen_lsn = next_lsn;
        let was_full = cleaner.commit.take_disk_full();
        full |= was_full;
        if full && cleaner.may_free_space(idle_rounds) {
            cleaner.free_space();
            full = false;
        }
        if was_full {
            cleaner.punch_free_runs(|| true);
        }
        if idle_rounds == IDLE_ROUNDS {
            cleaner.tidy();
        }
        let mut again = false;
        if std::mem::take(&mut garbage)
            && let Err(error) = cleaner.remove_garbage()
        {
            tracing::warn!(%error, "the remains of removed objects cannot be deleted now");
            // A full disk has room again after the next checkpoint.
            again = error.kind() == ErrorKind::LimitExceeded;
        }
        let mut signal = cleaner.signal.lock();
        if !signal.awake && !signal.stopping {
            cleaner.wake.wait_for(&mut signal, Duration::from_millis(IDLE_MS));
        }
        garbage = std::mem::take(&mut signal.awake) || again;
        if signal.stopping {
            return;
        }
    }
}

impl Cleaner {
    pub fn new(disk: Arc<Disk>, commit: Arc<Commit>) -> Cleaner {
        Cleaner { disk, commit, signal: Mutex::default(), wake: Condvar::new() }
    }

    pub fn wake(&self) {
        self.signal.lock().awake = true;
        self.wake.notify_one();
    }

    pub fn stop(&self) {
        self.signal.lock().stopping = true;
        self.wake.notify_one();
    }

    fn stopping(&self) -> bool {
        self.signal.lock().stopping
    }

    /// Deletes what removed objects and pools left behind. Stops early when the store closes.
    fn remove_garbage(&self) -> Result<()> {
        for entry in self.disk.kv.scan(&[keys::PREFIX_REMOVED_POOL], None) {
            let pool = entry?.0.get(1..).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
            self.remove_objects(pool.ok_or_else(|| malformed("the key of a removed pool"))?)?;
        }
        for entry in self.disk.kv.scan(&[keys::PREFIX_GARBAGE], None) {
            self.remove_keys(&entry?.0)?;
        }
        Ok(())
    }

    fn remove_keys(&self, mark: &[u8]) -> Result<()> {
        let prefix = match mark.get(keys::TAIL_AT) {
            Some(&what) if what == Garbage::Xattrs as u8 => keys::PREFIX_XATTR,
            Some(&what) if what == Garbage::Omap as u8 => keys::PREFIX_OMAP,
            _ => return Err(malformed("a mark of the cleaner")),
        };
        let prefix = [&[prefix], &mark[1..keys::TAIL_AT]].concat();
        let mut record = Record::default();
        let mut len_bytes = 0;
        for entry in self.disk.kv.scan(&prefix, None) {
            let (key, _) = entry?;
            len_bytes += key.len();
            record.changes.push((Bytes::copy_from_slice(&key), None));
            if len_bytes >= STEP_BYTES {
                len_bytes = 0;
                if !self.step(std::mem::take(&mut record))? {
                    return Ok(());
                }
            }
        }
        record.changes.push((Bytes::copy_from_slice(mark), None));
        self.step(record).map(|_| ())
    }

    fn remove_objects(&self, pool: u32) -> Result<()> {
        let mut record = Record::default();
        for entry in self.disk.kv.scan(&keys::onodes(pool, b""), None) {
            let (key, value) = entry?;
            let onode = Onode::decode(&value).map_err(|_| malformed("the object's metadata"))?;
            layout::free_all(&self.disk, &onode, &mut record)?;
            super::object::mark_garbage(&onode, &mut record);
            record.changes.push((Bytes::copy_from_slice(&key), None));
            if record.len_bytes() >= STEP_BYTES && !self.step(std::mem::take(&mut record))? {
                return Ok(());
            }
        }
        record.changes.push((keys::removed_pool(pool).into(), None));
        self.step(record).map(|_| ())
    }

    /// Does one step. Returns true if the cleaner should continue. Nobody waits for the step: after
    /// a crash it is done again.
    fn step(&self, record: Record) -> Result<bool> {
        self.commit.check_writable()?;
        let prepared =
            PreparedOp { frees: true, ..PreparedOp::keys(&self.disk, record.changes, record.freed) };
        let (done, outcome) = mpsc::sync_channel(1);
        let done = Box::new(move |result| drop(done.send(result)));
        // A buffered operation completes immediately and never leads the group.
        let _ = self.commit.submit(prepared, Durability::Buffered, None, done);
        self.release_and_cut();
        if let Ok(Err(error)) = outcome.try_recv() {
            return Err(error);
        }
        Ok(!self.stopping())
    }

    /// Shortens the log, and returns space that the store holds for its next operations to the file
    /// system.
    fn tidy(&self) {
        let outcome = self.commit.tidy().and_then(|()| self.commit.compact());
        if let Err(error) = outcome {
            tracing::debug!(%error, "the log and the tables cannot be shortened now");
        }
        let used_bytes = self.disk.allocator.lock().used_blocks() * BLOCK_BYTES;
        if self.disk.data.disk_bytes() > used_bytes + used_bytes / 8 {
            let next_lsn = self.commit.next_lsn();
            self.punch_free_runs(|| self.commit.next_lsn() == next_lsn);
        }
    }

    /// Returns the free runs to the file system while `wanted` returns true. It includes short
    /// runs, each of which takes a system call.
    fn punch_free_runs(&self, wanted: impl Fn() -> bool) {
        let runs = self.disk.allocator.lock().free_runs();
        for run in runs {
            if self.stopping() || !wanted() {
                return;
            }
            // Take the run, so that no operation allocates it meanwhile.
            let taken = self.disk.allocator.lock().take_run(run);
            if taken {
                self.disk.data.punch(run);
                self.disk.allocator.lock().release(run);
            }
        }
    }

    /// Returns freed extents to the allocator, and cuts the log if it is long.
    fn release_and_cut(&self) {
        self.commit.release_freed();
        if self.commit.log_is_long()
            && let Err(error) = self.commit.checkpoint().and_then(|()| self.commit.compact())
        {
            tracing::warn!(%error, "the log cannot be cut now");
        }
    }

    /// Returns true if a checkpoint and a merge of tables may free space on a full disk. A
    /// checkpoint with few changes only adds one more table to merge. So the cleaner waits until
    /// enough was removed. If the store is idle, it retries with exponential backoff, and waits
    /// longer the more unmerged tables there are.
    fn may_free_space(&self, idle_rounds: u32) -> bool {
        let patient = idle_rounds.is_power_of_two() && idle_rounds as usize >= self.disk.kv.fresh_runs();
        patient || self.commit.log_is_long_if_full()
    }

    /// Frees space on a full disk. Each step may free the space that the other one needs.
    fn free_space(&self) {
        for outcome in [self.commit.checkpoint(), self.commit.compact_removed()] {
            if let Err(error) = outcome {
                tracing::warn!(%error, "the disk is full, and no space can be freed now");
            }
        }
        self.commit.release_freed();
    }
}
