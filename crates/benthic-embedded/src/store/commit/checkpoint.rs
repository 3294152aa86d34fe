//! Checkpoints: bring the key-value store on disk up to date with the log, then cut the log.

use super::{Commit, read_only};
use crate::store::keys::{self, Meta};
use crate::store::kv::changed_nothing;
use crate::store::log::{EMPTY_LOG_BYTES, Frame, Log};
use benthic_core::{ErrorKind, Result};
use std::sync::atomic::Ordering;

/// Room in a new segment for operations that arrive during its creation.
const SEGMENT_ROOM_BYTES: u64 = 256 * 1024;
/// Replaying a log of at most this size takes less time than a checkpoint.
const LOG_BYTES_LEFT: u64 = 1024 * 1024;

impl Commit {
    /// Makes everything durable, leaves little to replay, and stops the committer. The caller must
    /// submit nothing after this.
    pub fn close(&self) -> Result<()> {
        let cut = self.log_bytes() > LOG_BYTES_LEFT && self.checkpoint().is_ok();
        // Without a checkpoint the next owner replays the log.
        let outcome = if cut { Ok(()) } else { self.write_end() };
        self.trim();
        let stopped = std::mem::replace(&mut self.queue.lock().stopping, true);
        assert!(!stopped, "the queue is closed once");
        self.work.notify_one();
        outcome
    }

    /// Shortens the log, so that the next owner has little to replay and the store occupies little
    /// space.
    pub fn tidy(&self) -> Result<()> {
        let outcome = if self.log_bytes() > LOG_BYTES_LEFT { self.checkpoint() } else { Ok(()) };
        self.trim();
        outcome
    }

    fn trim(&self) {
        let mut log = self.log.lock();
        let mut queue = self.queue.lock();
        if queue.failed.is_some() || queue.group.frame.records > 0 {
            return;
        }
        match log.trim() {
            Ok(end_bytes) => queue.space.trim(end_bytes),
            Err(error) => tracing::debug!(%error, "the log cannot be shortened"),
        }
    }

    /// Writes the queue, and then a frame without records if the log ends with records. The last
    /// frame with records is then not the last frame, so damage to it does not look like a torn
    /// write.
    fn write_end(&self) -> Result<()> {
        let mut log = self.log.lock();
        let mut queue = self.queue.lock();
        let next_lsn = queue.next_lsn;
        let group = self.take_group(&mut queue);
        drop(queue);
        self.write_group(&mut log, group)?;
        if log.ends_with_records {
            log.append(Frame::new(next_lsn), 0).inspect_err(|error| drop(self.fail(error)))
        } else {
            Ok(())
        }
    }

    /// Brings the key-value store on disk up to date and cuts the log.
    pub fn checkpoint(&self) -> Result<()> {
        let _checkpointing = self.checkpointing.lock();
        // Merge first, before the checkpoint itself takes space.
        let merged = self.check_merge(self.disk.kv.merge_if_many());
        let outcome = merged.and_then(|()| self.checkpoint_now());
        self.checkpoint_failed.store(outcome.is_err(), Ordering::Relaxed);
        // Notify while holding the lock, so that no waiter misses the signal between its check and
        // its wait.
        self.queue.lock().space.take_back();
        self.room.notify_all();
        outcome
    }

    fn checkpoint_now(&self) -> Result<()> {
        assert!(self.checkpointing.is_locked(), "checkpoints are made one after the other");
        let mut log = self.log.lock();
        let mut queue = self.queue.lock();
        if let Some(why) = &queue.failed {
            return Err(read_only(why));
        }
        let applied_lsn = queue.next_lsn - 1;
        if applied_lsn == queue.checkpoint_lsn {
            return Ok(());
        }
        assert!(applied_lsn > queue.checkpoint_lsn, "a checkpoint follows the one before it");
        let next_id = self.disk.next_id.load(Ordering::Relaxed);
        let mut changes = vec![(keys::META.into(), Some(Meta { applied_lsn, next_id }.encode().into()))];
        for (region, bitmap) in self.disk.allocator.lock().take_dirty() {
            changes.push((keys::allocation(region).into(), Some(bitmap.into())));
        }
        self.disk.kv.apply(changes);
        self.disk.kv.seal();
        let group = self.take_group(&mut queue);
        drop(queue);
        // Sealed tables may reach the disk only after the log and the data that they refer to.
        self.write_group(&mut log, group)?;
        let durable_lsn = self.durable_lsn.load(Ordering::Acquire);
        assert_eq!(durable_lsn, applied_lsn, "sealed operations are durable in the log");
        self.queue.lock().space.lend();
        let rotated = self.rotate(&mut log, applied_lsn + 1);
        rotated.inspect_err(|error| drop((!changed_nothing(error)).then(|| self.fail(error))))?;
        drop(log);
        self.disk.data.sync().inspect_err(|error| drop(self.fail(error)))?;
        let written = self.disk.kv.write_sealed();
        written.inspect_err(|error| drop((!changed_nothing(error)).then(|| self.fail(error))))?;
        let mut log = self.log.lock();
        log.cut()?;
        self.note_sizes(&log);
        let mut queue = self.queue.lock();
        assert!(queue.checkpoint_lsn < applied_lsn, "no other checkpoint ran meanwhile");
        assert!(applied_lsn < queue.next_lsn, "a checkpoint holds only operations that were submitted");
        if queue.removed_lsn > queue.checkpoint_lsn {
            // An earlier merge may have run while these removals were only in memory.
            self.removed.store(true, Ordering::Relaxed);
        }
        queue.checkpoint_lsn = applied_lsn;
        queue.space.cut();
        Ok(())
    }

    /// Starts a new segment of the log, unless the open segment begins with `first_lsn`.
    fn rotate(&self, log: &mut Log, first_lsn: u64) -> Result<()> {
        // Create the segment while operations continue, because its creation needs syncs.
        let promised_bytes = self.queue.lock().promised_bytes();
        let Some(next) = log.next(first_lsn, promised_bytes + SEGMENT_ROOM_BYTES)? else { return Ok(()) };
        let mut queue = self.queue.lock();
        assert!(queue.promised_bytes() >= promised_bytes, "no group is taken while the log is held");
        let promised_bytes = queue.promised_bytes();
        log.rotate(next, promised_bytes)?;
        let (segment, before_bytes, written_bytes) = log.segment();
        queue.space.move_to(segment, before_bytes, written_bytes, EMPTY_LOG_BYTES + promised_bytes);
        drop(queue);
        log.settle().map_err(|error| error.with_kind(ErrorKind::Internal))
    }
}
