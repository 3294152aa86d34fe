//! The commit queue: gives every operation its place in the log, makes it visible, and acknowledges it when it is
//! durable. One sync serves all operations that arrived while the last one ran.

use super::{Commit, Group, Queue, read_only};
use crate::store::keys;
use crate::store::log::{FRAME_HEADER_BYTES, Log};
use crate::store::object::Prepared;
use crate::store::record::Record;
use benthic_core::{Durability, Error, ErrorKind, Result, Stopwatch};
use bytes::Bytes;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What runs when an operation is done.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// How long a group waits for operations that are on their way, and how large it becomes meanwhile.
const GATHER_MAX: Duration = Duration::from_micros(500);
const GATHER_BYTES: u64 = 1024 * 1024;
/// A group this large is written out though nobody waits for it.
const GROUP_BYTES_WANTED: u64 = 4 * 1024 * 1024;
/// A group this large takes no more until it is written out.
const GROUP_BYTES_MAX: u64 = 128 * 1024 * 1024;

impl Commit {
    /// Announces an operation that somebody will wait for, so that it may be in the same group as those before it.
    pub fn announce(self: &Arc<Commit>) -> Arriving {
        self.arriving.fetch_add(1, Ordering::AcqRel);
        Arriving { commit: Arc::clone(self) }
    }

    /// Puts an operation into the log's order and makes it visible; the caller holds the object's lock. `done` gets
    /// the operation's sequence number: when it is durable, or, if buffered, at once. Says whether the caller should
    /// [`Commit::lead`] when it has let go of its locks.
    #[must_use]
    pub fn submit(
        &self,
        prepared: Prepared,
        durability: Durability,
        arriving: Option<Arriving>,
        done: Done<u64>,
    ) -> bool {
        let Prepared { mut record, onode: (key, onode), unsynced_bytes, frees } = prepared;
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
        // Metadata on the disk say which blocks an object has, so that this may be damage.
        if !self.disk.allocator.lock().are_in_use(&record.freed) {
            drop(queue);
            let message = "the object has blocks that are marked as free; fsck names them";
            self.refuse(&record, Error::new(ErrorKind::Corrupt, message), done);
            return false;
        }
        let lsn = queue.next_lsn;
        assert!(!queue.stopping, "the committer still takes operations");
        assert_eq!(queue.group.next_lsn(), lsn, "an operation follows the last one of its group");
        assert!(lsn > self.durable_lsn.load(Ordering::Acquire), "nothing is durable before it is submitted");
        if !key.is_empty() {
            let value = onode.map(|onode| keys::Onode { version: lsn, ..onode }.encode());
            record.changes.push((key.into(), value.map(Bytes::from)));
        }
        let Queue { group, space, next_lsn, .. } = &mut *queue;
        let before_bytes = group.frame.len_bytes();
        group.frame.push(|out| record.encode(out));
        let header_bytes = if group.frame.records == 1 { FRAME_HEADER_BYTES } else { 0 };
        let record_bytes = (group.frame.len_bytes() - before_bytes + header_bytes) as u64;
        assert!(record_bytes > header_bytes as u64, "a record takes room");
        if let Err(error) = space.take(record_bytes, frees) {
            group.frame.pop(before_bytes);
            assert_eq!(group.next_lsn(), lsn, "what is refused takes no sequence number");
            drop(queue);
            self.disk.data.full.store(true, Ordering::Relaxed);
            self.refuse(&record, error, done);
            return false;
        }
        *next_lsn += 1;
        assert_eq!(group.next_lsn(), *next_lsn, "an operation is in its group once");
        if frees {
            self.removed.store(true, Ordering::Relaxed);
        }
        group.unsynced_bytes += unsynced_bytes;
        let mut allocator = self.disk.allocator.lock();
        record.allocated.iter().for_each(|extent| allocator.log_taken(*extent));
        record.freed.iter().for_each(|extent| allocator.log_freed(*extent));
        drop(allocator);
        group.freed.append(&mut record.freed);
        // The committer sees the group only after the lock is released.
        let announced = arriving.is_some();
        drop(arriving);
        let applying = self.disk.kv.begin();
        match durability {
            Durability::Durable => {
                // Before anybody can see it: who does is told when it is durable. And it is applied before its own caller is
                // told.
                let awaited_lsn = self.awaited_lsn.swap(lsn, Ordering::AcqRel);
                assert!(awaited_lsn < lsn, "operations are awaited in the order of the log");
                applying.apply(record.changes);
                group.awaited = true;
                group.waiters.push(Box::new(move |outcome| done(outcome.map(|()| lsn))));
                let leads = announced && self.arriving.load(Ordering::SeqCst) == 0;
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
                // Others go on meanwhile.
                applying.apply(record.changes);
                done(Ok(lsn));
                false
            }
        }
    }

    /// Writes out what was submitted on this thread, which spares a change of threads; if somebody is writing, leaves it to
    /// the committer. Callers hold no lock.
    pub fn lead(&self) {
        if let Some(mut log) = self.log.try_lock() {
            let group = self.take_group(&mut self.queue.lock());
            // The outcome went to those who wait for it.
            let _ = self.write_group(&mut log, group);
        } else {
            let _queue = self.queue.lock();
            self.work.notify_one();
        }
    }

    /// Gives back what an operation took that is not done.
    fn refuse(&self, record: &Record, error: Error, done: Done<u64>) {
        // A full disk wants it at once.
        self.disk.data.punch_all(record.allocated.clone());
        let mut allocator = self.disk.allocator.lock();
        record.allocated.iter().for_each(|extent| allocator.release(*extent));
        drop(allocator);
        done(Err(error));
    }

    /// Calls `done` when all that was submitted before is durable.
    pub fn flush(&self, done: Done<()>) {
        let mut queue = self.queue.lock();
        queue.group.awaited = true;
        queue.group.waiters.push(done);
        self.work.notify_one();
    }

    /// Calls `done` at once, or, if somebody waits for operation `lsn` or an earlier one to become durable, when it is:
    /// nobody learns of what a power cut could still take back from under a writer that waits.
    pub fn when_durable(&self, lsn: u64, done: Done<()>) {
        let awaited_lsn = self.awaited_lsn.load(Ordering::Acquire).min(lsn);
        if awaited_lsn <= self.durable_lsn.load(Ordering::Acquire) {
            return done(Ok(()));
        }
        self.flush(done);
    }

    /// As [`Commit::when_durable`], of all operations: for answers that name none, such as "not found".
    pub fn when_all_durable(&self, done: impl FnOnce() + Send + 'static) {
        self.when_durable(u64::MAX, Box::new(move |_| done()));
    }

    /// Waits while the log is much larger than it should be. Not for the cleaner, who cuts it.
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

    /// The committer's life: writes out groups until it is told to stop.
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
            // The outcome went to those who wait for it.
            let _ = self.write_group(&mut log, group);
            if stopping {
                return;
            }
        }
    }

    /// Waits a little for operations that are on their way: one sync for all of them is sooner done than two.
    fn gather(&self, queue: &mut MutexGuard<'_, Queue>) {
        let gathering = Stopwatch::start(&*self.clock);
        let gathers = self.gathering.swap(true, Ordering::SeqCst);
        assert!(!gathers, "only the committer gathers");
        while self.arriving.load(Ordering::SeqCst) > 0
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
            "what changes something has a record"
        );
        let (failed, given_bytes) = {
            let queue = self.queue.lock();
            (queue.failed.clone(), queue.space.given_bytes())
        };
        let outcome = match failed {
            Some(why) => Err(why),
            None if frame.records == 0 => Ok(()),
            None => {
                let synced = if unsynced_bytes > 0 { self.disk.data.sync() } else { Ok(()) };
                synced.and_then(|()| log.append(frame, given_bytes)).map_err(|error| {
                    tracing::error!(%error, "a group of operations could not be written; the store is read-only now");
                    self.fail(&error)
                })
            }
        };
        if outcome.is_ok() {
            let durable_lsn = self.durable_lsn.swap(last_lsn, Ordering::AcqRel);
            assert_eq!(durable_lsn + 1, first_lsn, "groups become durable in the order of the log");
            self.freed.lock().extend(freed);
            self.log_bytes.store(log.len_bytes, Ordering::Relaxed);
        }
        for done in waiters {
            done(outcome.clone().map_err(|why| {
                Error::new(
                    ErrorKind::OutcomeUnknown,
                    "the write may not be durable; open the store again and look",
                )
                .with("cause", why)
            }));
        }
        outcome.map_err(|why| read_only(&why))
    }
}

/// A durable operation on its way to the queue.
pub(crate) struct Arriving {
    commit: Arc<Commit>,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let arriving = self.commit.arriving.fetch_sub(1, Ordering::SeqCst);
        assert!(arriving > 0, "an operation arrives once");
        let last = arriving == 1;
        if last && self.commit.gathering.load(Ordering::SeqCst) {
            self.commit.work.notify_one();
        }
    }
}
