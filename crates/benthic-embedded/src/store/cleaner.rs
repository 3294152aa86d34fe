//! What happens behind the operations: checkpoints, freeing of extents, and removal of what removed objects and pools
//! left.

use super::commit::Commit;
use super::disk::Disk;
use super::keys::{self, BLOCK_BYTES, Onode};
use super::kv::malformed;
use super::object::{Garbage, Prepared};
use super::{layout, record::Record};
use benthic_core::{Durability, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

/// Extents that are free wait for the cleaner at most so long.
const IDLE_MS: u64 = 100;
/// A store that nobody changed for so many times [`IDLE_MS`] is tidied.
const IDLE_ROUNDS: u32 = 10;
/// A step's record is written when it has so much: on a full disk there is room for little more.
const STEP_BYTES: usize = 64 * 1024;

/// The background work of one open store, and the signal that starts it.
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
    // Something may be left from the last run of the store.
    let mut garbage = true;
    let mut full = false;
    let (mut seen_lsn, mut idle_rounds) = (0, 0);
    while let Some(cleaner) = cleaner.upgrade() {
        cleaner.release_and_cut();
        let next_lsn = cleaner.commit.next_lsn();
        idle_rounds = if next_lsn == seen_lsn { idle_rounds + 1 } else { 0_u32 };
        seen_lsn = next_lsn;
        let refused = cleaner.commit.take_full();
        full |= refused;
        if full && cleaner.may_gain(idle_rounds) {
            cleaner.gain();
            full = false;
        }
        if refused {
            cleaner.give_back(|| true);
        }
        if idle_rounds == IDLE_ROUNDS {
            cleaner.tidy();
        }
        let mut again = false;
        if std::mem::take(&mut garbage)
            && let Err(error) = cleaner.remove_garbage()
        {
            tracing::warn!(%error, "what was removed cannot be cleaned up now");
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

    /// Removes what removed objects and pools left. Stops early when the store closes.
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

    /// Does one step; says whether to go on. Nobody waits for the cleaner's work: a crash only means that it is done again.
    fn step(&self, record: Record) -> Result<bool> {
        self.commit.check_writable()?;
        let prepared = Prepared { frees: true, ..Prepared::keys(&self.disk, record.changes, record.freed) };
        let (done, outcome) = mpsc::sync_channel(1);
        let done = Box::new(move |result| {
            let _ = done.send(result);
        });
        // A buffered operation is answered at once, and never leads.
        let _ = self.commit.submit(prepared, Durability::Buffered, None, done);
        self.release_and_cut();
        if let Ok(Err(error)) = outcome.try_recv() {
            return Err(error);
        }
        Ok(!self.stopping())
    }

    /// Leaves little to replay, and gives back to the file system what the store keeps for its next operations.
    fn tidy(&self) {
        let outcome = self.commit.tidy().and_then(|()| self.commit.compact());
        if let Err(error) = outcome {
            tracing::debug!(%error, "the store cannot be tidied now");
        }
        let used_bytes = self.disk.allocator.lock().used_blocks() * BLOCK_BYTES;
        if self.disk.data.disk_bytes() > used_bytes + used_bytes / 8 {
            let next_lsn = self.commit.next_lsn();
            self.give_back(|| self.commit.next_lsn() == next_lsn);
        }
    }

    /// Gives all free runs back to the file system, short ones too, which takes a call for each, while `wanted`.
    fn give_back(&self, wanted: impl Fn() -> bool) {
        let runs = self.disk.allocator.lock().free_runs();
        for run in runs {
            if self.stopping() || !wanted() {
                return;
            }
            // Nobody may take it meanwhile.
            let taken = self.disk.allocator.lock().take_run(run);
            if taken {
                self.disk.data.give_back(run);
                self.disk.allocator.lock().release(run);
            }
        }
    }

    /// Gives freed extents back, and cuts the log if it is long.
    fn release_and_cut(&self) {
        self.commit.release_freed();
        if self.commit.log_is_long()
            && let Err(error) = self.commit.checkpoint().and_then(|()| self.commit.compact())
        {
            tracing::warn!(%error, "the log cannot be cut now");
        }
    }

    /// Whether a full disk may have more room after a checkpoint and a merge of tables. A checkpoint of little only makes one
    /// more table to be merged, so that it waits for more to be removed; or, if nothing changes any more, the longer the more
    /// such tables there are and the more often it was in vain.
    fn may_gain(&self, idle_rounds: u32) -> bool {
        let patient = idle_rounds.is_power_of_two() && idle_rounds as usize >= self.disk.kv.fresh_runs();
        patient || self.commit.log_is_long_if_full()
    }

    /// Gains room on a full disk. Each step may gain what the other lacks.
    fn gain(&self) {
        for outcome in [self.commit.checkpoint(), self.commit.compact_removed()] {
            if let Err(error) = outcome {
                tracing::warn!(%error, "the disk is full, and no room can be gained now");
            }
        }
        self.commit.release_freed();
    }
}
