//! The background thread of an open store.
//!
//! An object can have a large omap, and a pool can have many objects. One operation that deletes
//! all of it would take long and need a large log record. So the removal of an object only writes
//! *garbage entries*, which name its attributes and omap, and the removal of a pool only marks the
//! pool as removed. The cleaner deletes the rest in small steps.
//!
//! The cleaner also returns freed extents to the allocator, writes checkpoints when the log is
//! long, merges tables of the key-value store, and frees space on a full disk.

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

/// Pause between two rounds of the cleaner, unless it is woken. Freed extents wait at most this
/// long.
const IDLE_MS: u64 = 100;
/// After this many rounds without a change, the cleaner compacts and trims the store.
const IDLE_ROUNDS: u32 = 10;
/// The cleaner submits a record of deletions when it has this size. Small records also fit into the
/// room that a full disk has left for operations that free space.
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
    /// There may be garbage to delete, or the log may be long.
    woken: bool,
    stopping: bool,
}

/// Runs until the cleaner is stopped or dropped.
pub(crate) fn run(cleaner: &Weak<Cleaner>) {
    // The store's last run may have left garbage.
    let mut garbage = true;
    // The disk was full, and the cleaner has not tried to free space since then.
    let mut full = false;
    let (mut seen_lsn, mut idle_rounds) = (0, 0);
    while let Some(cleaner) = cleaner.upgrade() {
        cleaner.release_and_checkpoint();
        let next_lsn = cleaner.commit.next_lsn();
        idle_rounds = if next_lsn == seen_lsn { idle_rounds + 1 } else { 0_u32 };
        seen_lsn = next_lsn;
        let found_full = cleaner.commit.take_disk_full();
        full |= found_full;
        if full && cleaner.may_free_space(idle_rounds) {
            cleaner.free_space();
            full = false;
        }
        if found_full {
            cleaner.punch_free_runs(|| true);
        }
        if idle_rounds == IDLE_ROUNDS {
            cleaner.compact_and_trim();
        }
        let mut retry = false;
        if std::mem::take(&mut garbage)
            && let Err(error) = cleaner.remove_garbage()
        {
            tracing::warn!(%error, "the remains of removed objects cannot be deleted now");
            // A full disk has room again after the next checkpoint.
            retry = error.kind() == ErrorKind::LimitExceeded;
        }
        let mut signal = cleaner.signal.lock();
        if !signal.woken && !signal.stopping {
            cleaner.wake.wait_for(&mut signal, Duration::from_millis(IDLE_MS));
        }
        garbage = std::mem::take(&mut signal.woken) || retry;
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
        self.signal.lock().woken = true;
        self.wake.notify_one();
    }

    pub fn stop(&self) {
        self.signal.lock().stopping = true;
        self.wake.notify_one();
    }

    fn is_stopping(&self) -> bool {
        self.signal.lock().stopping
    }

    /// Deletes the objects of removed pools, and the attributes and omaps of removed objects. Stops
    /// early when the store closes.
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

    /// Deletes the keys that a garbage entry names, and then the entry.
    fn remove_keys(&self, garbage_key: &[u8]) -> Result<()> {
        let prefix = match garbage_key.get(keys::TAIL_AT) {
            Some(&kind) if kind == Garbage::Xattrs as u8 => keys::PREFIX_XATTR,
            Some(&kind) if kind == Garbage::Omap as u8 => keys::PREFIX_OMAP,
            _ => return Err(malformed("the key of a garbage entry")),
        };
        let prefix = [&[prefix], &garbage_key[1..keys::TAIL_AT]].concat();
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
        record.changes.push((Bytes::copy_from_slice(garbage_key), None));
        self.step(record).map(|_| ())
    }

    /// Deletes the objects of a removed pool, and then the mark of the pool's removal.
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

    /// Submits one step of deletions. Returns true if the cleaner should continue. The step need
    /// not be durable: after a crash, the cleaner finds the same garbage and deletes it again.
    fn step(&self, record: Record) -> Result<bool> {
        self.commit.check_writable()?;
        let prepared =
            PreparedOp { frees: true, ..PreparedOp::keys(&self.disk, record.changes, record.freed) };
        let (done, outcome) = mpsc::sync_channel(1);
        let done = Box::new(move |result| drop(done.send(result)));
        // A buffered operation completes immediately and never leads the group.
        let _ = self.commit.submit(prepared, Durability::Buffered, None, done);
        self.release_and_checkpoint();
        if let Ok(Err(error)) = outcome.try_recv() {
            return Err(error);
        }
        Ok(!self.is_stopping())
    }

    /// Truncates the log, merges tables, and returns free blocks of the data file to the file
    /// system. A busy store keeps short free runs allocated, because its next operations use them.
    fn compact_and_trim(&self) {
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

    /// Returns the free runs of blocks to the file system until `should_continue` returns false.
    /// This includes short runs, although each run costs a system call.
    fn punch_free_runs(&self, should_continue: impl Fn() -> bool) {
        let runs = self.disk.allocator.lock().free_runs();
        for run in runs {
            if self.is_stopping() || !should_continue() {
                return;
            }
            // Take the run from the allocator, so that no operation gets it during the system call.
            let taken = self.disk.allocator.lock().take_run(run);
            if taken {
                self.disk.data.punch(run);
                self.disk.allocator.lock().release(run);
            }
        }
    }

    /// Returns freed extents to the allocator. If the log is long, writes a checkpoint, which
    /// truncates the log.
    fn release_and_checkpoint(&self) {
        self.commit.release_freed();
        if self.commit.log_is_long()
            && let Err(error) = self.commit.checkpoint().and_then(|()| self.commit.compact())
        {
            tracing::warn!(%error, "the log cannot be cut now");
        }
    }

    /// Returns true if a checkpoint and a merge of tables are likely to free space on a full disk.
    /// A checkpoint with few changes frees little and adds one more table to merge. So the cleaner
    /// waits until the log contains enough removals. If the store is idle, the cleaner tries
    /// anyway, with exponential backoff that starts later the more unmerged tables there are.
    fn may_free_space(&self, idle_rounds: u32) -> bool {
        let backoff_elapsed =
            idle_rounds.is_power_of_two() && idle_rounds as usize >= self.disk.kv.fresh_runs();
        backoff_elapsed || self.commit.log_is_long_if_full()
    }

    /// Frees space on a full disk with a checkpoint and a merge. Each may fail for lack of space
    /// that the other one frees, so the cleaner tries both.
    fn free_space(&self) {
        for outcome in [self.commit.checkpoint(), self.commit.compact_removed()] {
            if let Err(error) = outcome {
                tracing::warn!(%error, "the disk is full, and no space can be freed now");
            }
        }
        self.commit.release_freed();
    }
}
