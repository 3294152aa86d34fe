//! The commit queue: assigns every operation its place in the log, makes it visible, and
//! acknowledges it when it is durable.
//!
//! It uses group commit: one sync serves all operations that arrived during the previous sync.

use super::{Commit, Group, Queue, read_only};
use crate::store::keys;
use crate::store::log::{FRAME_HEADER_BYTES, Log};
use crate::store::object::PreparedOp;
use crate::store::record::Record;
use benthic_core::{Durability, Error, Result, Stopwatch};
use bytes::Bytes;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) type Completion<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// Limits on the wait for announced operations, in time and group size.
const GATHER_MAX: Duration = Duration::from_micros(500);
const GATHER_BYTES: u64 = 1024 * 1024;
/// A group of this size is written even if no caller waits for it.
const GROUP_BYTES_WANTED: u64 = 4 * 1024 * 1024;
/// A group of this size accepts no more operations until it is written.
const GROUP_BYTES_MAX: u64 = 128 * 1024 * 1024;

impl Commit {
    /// Announces an operation whose caller will wait. The committer then waits briefly, so that the
    /// operation may join the current group.
    pub fn announce(self: &Arc<Commit>) -> Announcement {
        self.announced.fetch_add(1, Ordering::AcqRel);
        Announcement { commit: Arc::clone(self) }
    }

    /// Adds an operation to the log's order and makes it visible. The caller holds the object's
    /// lock. `done` gets the operation's sequence number: at once if it is buffered, otherwise when
    /// it is durable. If the function returns true, the caller should release its locks and call
    /// [`Commit::lead`].
    #[must_use]
    pub fn submit(
        &self,
        prepared: PreparedOp,
        durability: Durability,
        announcement: Option<Announcement>,
        done: Completion<u64>,
    ) -> bool {
        let PreparedOp { mut record, onode: (key, onode), mut unsynced_bytes, frees } = prepared;
        let mut queue = self.queue.lock();
        while queue.group.len_bytes() > GROUP_BYTES_MAX && queue.failed.is_none() {
            queue.group.awaited = true;
            self.work.notify_one();
            self.room.wait(&mut queue);
        }
        if let Some(why) = &queue.failed {
            let error = read_only(why);
            drop(queue);
            self.refuse(&record, error, done);
            return false;
        }
        // The freed blocks come from metadata on disk, so a wrong value may be damage rather than a
        // bug.
        if !self.disk.allocator.lock().are_in_use(&record.freed) {
            drop(queue);
            let message = "blocks of the object are marked as free; fsck names the object";
            self.refuse(&record, Error::corrupt(message), done);
            return false;
        }
        let lsn = queue.next_lsn;
        assert!(!queue.stopping, "the committer still accepts operations");
        assert_eq!(queue.group.next_lsn(), lsn, "an operation follows the last one of its group");
        assert!(
            lsn > self.durable_lsn.load(Ordering::Acquire),
            "an operation is not durable before it is submitted"
        );
        if !key.is_empty() {
            let value = onode.map(|onode| keys::Onode { version: lsn, ..onode }.encode());
            record.changes.push((key.into(), value.map(Bytes::from)));
        }
        let Queue { group, space, next_lsn, removed_lsn, .. } = &mut *queue;
        let is_buffered = durability == Durability::Buffered;
        if group.unsynced_bytes > 0 || (is_buffered && group.len_bytes() > self.logged_bytes_max) {
            // The data is in its extents, which are synced before the frame is written.
            let unlogged = std::mem::take(&mut record.data);
            unsynced_bytes += unlogged.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
        }
        let before_bytes = group.frame.len_bytes();
        group.frame.push(|out| record.encode(out));
        let header_bytes = if group.frame.records == 1 { FRAME_HEADER_BYTES } else { 0 };
        let record_bytes = (group.frame.len_bytes() - before_bytes + header_bytes) as u64;
        assert!(record_bytes > header_bytes as u64, "a record is not empty");
        if let Err(error) = space.take(record_bytes, frees) {
            group.frame.pop(before_bytes);
            assert_eq!(group.next_lsn(), lsn, "a rejected operation takes no sequence number");
            drop(queue);
            self.disk.data.full.store(true, Ordering::Relaxed);
            self.refuse(&record, error, done);
            return false;
        }
        *next_lsn += 1;
        assert_eq!(group.next_lsn(), *next_lsn, "an operation is added to its group once");
        if frees {
            *removed_lsn = lsn;
            self.removed.store(true, Ordering::Relaxed);
        }
        group.unsynced_bytes += unsynced_bytes;
        let mut allocator = self.disk.allocator.lock();
        record.allocated.iter().for_each(|extent| allocator.log_taken(*extent));
        record.freed.iter().for_each(|extent| allocator.log_freed(*extent));
        drop(allocator);
        group.freed.append(&mut record.freed);
        // The committer sees the group only after this thread releases the queue's lock.
        let announced = announcement.is_some();
        drop(announcement);
        let applying = self.disk.kv.begin();
        match durability {
            Durability::Durable => {
                // Set this before other callers can see the change, so that their answers wait
                // until it is durable. Apply the change before its own caller gets the
                // acknowledgement.
                let awaited_lsn = self.awaited_lsn.swap(lsn, Ordering::AcqRel);
                assert!(awaited_lsn < lsn, "operations are awaited in the order of the log");
                applying.apply(record.changes);
                group.awaited = true;
                group.waiters.push(Box::new(move |outcome| done(outcome.map(|()| lsn))));
                let leads = announced && self.announced.load(Ordering::SeqCst) == 0;
                if !leads {
                    self.work.notify_one();
                }
                leads
            }
            Durability::Buffered => {
                if group.since_ms.is_none() || group.len_bytes() > GROUP_BYTES_WANTED {
                    group.since_ms.get_or_insert_with(|| self.clock.monotonic_ms());
                    self.work.notify_one();
                }
                drop(queue);
                // Other operations continue meanwhile.
                applying.apply(record.changes);
                done(Ok(lsn));
                false
            }
        }
    }

    /// Writes the current group on the caller's thread, which saves a thread switch. If another
    /// thread is writing, the committer writes the group. The caller must hold no lock.
    pub fn lead(&self) {
        if let Some(mut log) = self.log.try_lock() {
            let group = self.take_group(&mut self.queue.lock());
            // The waiters already got the outcome.
            let _ = self.write_group(&mut log, group);
        } else {
            let _queue = self.queue.lock();
            self.work.notify_one();
        }
    }

    fn refuse(&self, record: &Record, error: Error, done: Completion<u64>) {
        // A full disk needs the space immediately.
        self.disk.data.punch_all(record.allocated.clone());
        let mut allocator = self.disk.allocator.lock();
        record.allocated.iter().for_each(|extent| allocator.release(*extent));
        drop(allocator);
        done(Err(error));
    }

    /// Calls `done` when all operations submitted before are durable.
    pub fn flush(&self, done: Completion<()>) {
        let mut queue = self.queue.lock();
        queue.group.awaited = true;
        queue.group.waiters.push(done);
        self.work.notify_one();
    }

    /// Calls `done` immediately if no caller waits for the durability of operation `lsn` or an
    /// earlier one. Otherwise calls it when all of them are durable. So no reader sees a change
    /// that a power cut could still undo while its writer waits.
    pub fn when_durable(&self, lsn: u64, done: Completion<()>) {
        let awaited_lsn = self.awaited_lsn.load(Ordering::Acquire).min(lsn);
        if awaited_lsn <= self.durable_lsn.load(Ordering::Acquire) {
            return done(Ok(()));
        }
        self.flush(done);
    }

    /// [`Commit::when_durable`] for all operations. Used for answers without a version, such as
    /// "not found".
    pub fn when_all_durable(&self, done: impl FnOnce() + Send + 'static) {
        self.when_durable(u64::MAX, Box::new(move |_| done()));
    }

    /// Blocks while the log is far over its limit. The cleaner must not call this, because it cuts
    /// the log.
    pub fn wait_for_cleaner(&self) {
        let too_long = || self.log_bytes() > 4 * self.log_bytes_max;
        if !too_long() {
            return;
        }
        let mut queue = self.queue.lock();
        while too_long() && queue.failed.is_none() && !self.checkpoint_failed.load(Ordering::Relaxed) {
            self.room.wait(&mut queue);
        }
    }

    /// The main loop of the committer thread. It writes groups until it is stopped.
    pub fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            while !queue.stopping && !queue.group.awaited && queue.group.len_bytes() <= GROUP_BYTES_WANTED {
                let Some(since_ms) = queue.group.since_ms else {
                    self.work.wait(&mut queue);
                    continue;
                };
                let waited_ms = self.clock.monotonic_ms().saturating_sub(since_ms);
                if waited_ms >= self.buffered_ms_max {
                    break;
                }
                self.work.wait_for(&mut queue, Duration::from_millis(self.buffered_ms_max - waited_ms));
            }
            let stopping = queue.stopping;
            if queue.group.awaited && !stopping {
                self.gather(&mut queue);
            }
            drop(queue);
            let mut log = self.log.lock();
            let group = self.take_group(&mut self.queue.lock());
            // The waiters already got the outcome.
            let _ = self.write_group(&mut log, group);
            if stopping {
                return;
            }
        }
    }

    /// Waits briefly for announced operations. One sync for all of them takes less time than two.
    fn gather(&self, queue: &mut MutexGuard<'_, Queue>) {
        let gathering = Stopwatch::start(&*self.clock);
        let gathers = self.gathering.swap(true, Ordering::SeqCst);
        assert!(!gathers, "only the committer gathers");
        while self.announced.load(Ordering::SeqCst) > 0
            && queue.group.len_bytes() < GATHER_BYTES
            && !self.work.wait_for(queue, GATHER_MAX.saturating_sub(gathering.elapsed())).timed_out()
        {
        }
        self.gathering.store(false, Ordering::SeqCst);
    }

    pub(super) fn take_group(&self, queue: &mut MutexGuard<'_, Queue>) -> Group {
        assert!(self.log.is_locked(), "a group is taken by the thread that will write it");
        assert_eq!(queue.group.next_lsn(), queue.next_lsn, "a group ends with the last operation");
        let next = Group::new(queue.next_lsn);
        self.room.notify_all();
        std::mem::replace(&mut queue.group, next)
    }

    pub(super) fn write_group(&self, log: &mut Log, group: Group) -> Result<()> {
        let Group { frame, waiters, freed, unsynced_bytes, .. } = group;
        assert!(self.log.is_locked(), "groups are written one after the other");
        let (first_lsn, records) = (frame.first_lsn, frame.records);
        let last_lsn = first_lsn + u64::from(records) - 1;
        assert!(
            records > 0 || (freed.is_empty() && unsynced_bytes == 0),
            "a group with changes has a record"
        );
        let (failed, allocated_bytes) = {
            let queue = self.queue.lock();
            (queue.failed.clone(), queue.space.allocated_bytes())
        };
        let outcome = match failed {
            Some(why) => Err(why),
            None if frame.records == 0 => Ok(()),
            None => {
                let synced = if unsynced_bytes > 0 { self.disk.data.sync() } else { Ok(()) };
                synced.and_then(|()| log.append(frame, allocated_bytes)).map_err(|error| {
                    tracing::error!(%error, "a group of operations could not be written; the store is read-only now");
                    self.fail(&error)
                })
            }
        };
        if outcome.is_ok() {
            let durable_lsn = self.durable_lsn.swap(last_lsn, Ordering::AcqRel);
            assert_eq!(durable_lsn + 1, first_lsn, "groups become durable in the order of the log");
            self.freed.lock().extend(freed);
            self.note_sizes(log);
        }
        for done in waiters {
            done(outcome.clone().map_err(|why| {
                let message = "the write may not be durable; open the store again and read the object";
                Error::outcome_unknown(message).with("cause", why)
            }));
        }
        outcome.map_err(|why| read_only(&why))
    }
}

/// An announced durable operation that is not in the queue yet.
pub(crate) struct Announcement {
    commit: Arc<Commit>,
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let announced = self.commit.announced.fetch_sub(1, Ordering::SeqCst);
        assert!(announced > 0, "every announcement is counted");
        let last = announced == 1;
        if last && self.commit.gathering.load(Ordering::SeqCst) {
            self.commit.work.notify_one();
        }
    }
}
