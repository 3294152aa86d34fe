//! The commit queue: gives every operation its place in the log, makes it visible, and acknowledges it when it is
//! durable. One sync serves all operations that arrived while the last one ran.

use super::disk::Disk;
use super::keys::{self, Extent, Meta};
use super::log::{EMPTY_LOG_BYTES, FRAME_HEADER_BYTES, Frame, Log};
use super::object::Prepared;
use super::record::Record;
use super::space::{FREEING_BYTES, Space};
use crate::Options;
use benthic_core::{Clock, Durability, Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What runs when an operation is done.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// What a new segment has for operations that come while it is made.
const SEGMENT_ROOM_BYTES: u64 = 256 * 1024;
/// How long a group waits for operations that are on their way, and how large it becomes meanwhile.
const GATHER_MAX: Duration = Duration::from_micros(500);
const GATHER_BYTES: u64 = 1024 * 1024;
/// A group this large is written out though nobody waits for it.
const GROUP_BYTES_WANTED: u64 = 4 * 1024 * 1024;
/// On a full disk a log of this size is cut: before there is no more room for what frees something.
const LOG_BYTES_FULL: u64 = FREEING_BYTES / 4;
/// A log of this size is replayed by the next opener sooner than a checkpoint is made.
const LOG_BYTES_LEFT: u64 = 1024 * 1024;
/// A group this large takes no more until it is written out.
const GROUP_BYTES_MAX: u64 = 128 * 1024 * 1024;

pub(crate) struct Commit {
    disk: Arc<Disk>,
    clock: Arc<dyn Clock>,
    buffered_ms_max: u64,
    /// Held while a group is written; taken before `queue`.
    log: Mutex<Log>,
    queue: Mutex<Queue>,
    /// Something for the committer to do.
    work: Condvar,
    /// Room in the group.
    room: Condvar,
    durable_lsn: AtomicU64,
    /// The last operation whose durability somebody waits for.
    awaited_lsn: AtomicU64,
    log_bytes: AtomicU64,
    /// A log of this size is to be cut; writers wait when it is four times as large.
    log_bytes_max: u64,
    /// Whether the last checkpoint failed: then it helps nobody to wait for the next.
    checkpoint_failed: AtomicBool,
    /// Held by whoever makes a checkpoint: what one seals, no other may write before it is logged.
    checkpointing: Mutex<()>,
    /// Extents whose freeing is durable, until the cleaner gives them to the allocator.
    freed: Mutex<Vec<Extent>>,
    /// Durable operations that were taken and are not in the queue yet.
    arriving: AtomicUsize,
    /// Whether the committer waits for them.
    gathering: AtomicBool,
    /// Whether something was freed since the key-value store was last merged as a whole.
    removed: AtomicBool,
}

struct Queue {
    group: Group,
    next_lsn: u64,
    space: Space,
    checkpoint_lsn: u64,
    /// Why the store takes no writes.
    failed: Option<String>,
    stopping: bool,
}

#[derive(Default)]
struct Group {
    frame: Frame,
    waiters: Vec<Done<()>>,
    freed: Vec<Extent>,
    /// Data that was written to extents and must be synced before the frame is.
    unsynced_bytes: u64,
    /// When the first buffered operation came.
    since_ms: Option<u64>,
    awaited: bool,
}

impl Queue {
    /// What the group that is being filled takes of the log.
    fn promised_bytes(&self) -> u64 {
        if self.group.frame.records > 0 { self.group.frame.len_bytes() as u64 } else { 0 }
    }
}

impl Group {
    fn new(first_lsn: u64) -> Group {
        Group { frame: Frame::new(first_lsn), ..Group::default() }
    }

    fn len_bytes(&self) -> u64 {
        self.frame.len_bytes() as u64 + self.unsynced_bytes
    }
}

impl Commit {
    /// A queue behind a log that was opened: `next_lsn` comes next, the key-value store on disk has `applied_lsn`.
    pub fn new(
        disk: Arc<Disk>,
        log_dir: &Path,
        log: Log,
        next_lsn: u64,
        applied_lsn: u64,
        options: &Options,
    ) -> Result<Commit> {
        let (segment, before_bytes, _) = log.segment();
        let space = Space::open(log_dir, segment, before_bytes, log.len_bytes - before_bytes)?;
        Ok(Commit {
            disk,
            clock: Arc::clone(&options.clock),
            buffered_ms_max: options.buffered_ms_max,
            log_bytes: AtomicU64::new(log.len_bytes),
            log: Mutex::new(log),
            queue: Mutex::new(Queue {
                group: Group::new(next_lsn),
                next_lsn,
                space,
                checkpoint_lsn: applied_lsn,
                failed: None,
                stopping: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            durable_lsn: AtomicU64::new(next_lsn - 1),
            awaited_lsn: AtomicU64::new(next_lsn - 1),
            log_bytes_max: options.log_bytes_max,
            checkpoint_failed: AtomicBool::new(false),
            checkpointing: Mutex::new(()),
            freed: Mutex::default(),
            arriving: AtomicUsize::new(0),
            gathering: AtomicBool::new(false),
            removed: AtomicBool::new(true),
        })
    }

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
        let lsn = queue.next_lsn;
        if !key.is_empty() {
            let value = onode.map(|onode| keys::Onode { version: lsn, ..onode }.encode());
            record.changes.push((key.into(), value.map(Bytes::from)));
        }
        let Queue { group, space, next_lsn, .. } = &mut *queue;
        let before_bytes = group.frame.len_bytes();
        group.frame.push(|out| record.encode(out));
        let header_bytes = if group.frame.records == 1 { FRAME_HEADER_BYTES } else { 0 };
        let record_bytes = (group.frame.len_bytes() - before_bytes + header_bytes) as u64;
        if let Err(error) = space.take(record_bytes, frees) {
            group.frame.pop(before_bytes);
            drop(queue);
            self.disk.data.full.store(true, Ordering::Relaxed);
            self.refuse(&record, error, done);
            return false;
        }
        *next_lsn += 1;
        if frees {
            self.removed.store(true, Ordering::Relaxed);
        }
        group.unsynced_bytes += unsynced_bytes;
        let mut allocator = self.disk.allocator.lock();
        record.allocated.iter().for_each(|extent| allocator.log(*extent, true));
        record.freed.iter().for_each(|extent| allocator.log(*extent, false));
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
                self.awaited_lsn.store(lsn, Ordering::Release);
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

    /// Whether the log is to be cut.
    pub fn log_is_long(&self) -> bool {
        self.log_bytes() > self.log_bytes_max
    }

    /// Whether the log is to be cut if the disk is full.
    pub fn log_is_long_if_full(&self) -> bool {
        self.log_bytes() > LOG_BYTES_FULL
    }

    /// Whether the disk was full since the last call: a checkpoint may gain space.
    pub fn take_full(&self) -> bool {
        self.disk.data.full.swap(false, Ordering::Relaxed)
    }

    /// The sequence number of the next operation.
    pub fn next_lsn(&self) -> u64 {
        self.queue.lock().next_lsn
    }

    /// Why the store takes no writes, if so.
    pub fn check_writable(&self) -> Result<()> {
        self.queue.lock().failed.as_ref().map_or(Ok(()), |why| Err(read_only(why)))
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
        let until = Instant::now() + GATHER_MAX;
        self.gathering.store(true, Ordering::SeqCst);
        while self.arriving.load(Ordering::SeqCst) > 0
            && queue.group.len_bytes() < GATHER_BYTES
            && !self.work.wait_until(queue, until).timed_out()
        {}
        self.gathering.store(false, Ordering::SeqCst);
    }

    /// Makes everything durable, leaves little to replay, and tells the committer to stop. Nothing is submitted any more.
    pub fn close(&self) -> Result<()> {
        let cut = self.log_bytes() > LOG_BYTES_LEFT && self.checkpoint().is_ok();
        // Without a checkpoint the next opener replays what is there.
        let outcome = if cut { Ok(()) } else { self.write_end() };
        self.trim();
        self.queue.lock().stopping = true;
        self.work.notify_one();
        outcome
    }

    /// Leaves little to replay, and takes little space for what is to come.
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
            Err(error) => tracing::debug!(%error, "the log cannot be made shorter"),
        }
    }

    /// Writes what is in the queue, and a frame without records behind it: now the last frame with records is not the last
    /// one, so that damage to it does not look like a torn write.
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

    fn take_group(&self, queue: &mut MutexGuard<'_, Queue>) -> Group {
        let next = Group::new(queue.next_lsn);
        self.room.notify_all();
        std::mem::replace(&mut queue.group, next)
    }

    fn write_group(&self, log: &mut Log, group: Group) -> Result<()> {
        let Group { frame, waiters, freed, unsynced_bytes, .. } = group;
        let last_lsn = frame.first_lsn + u64::from(frame.records) - 1;
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
            self.durable_lsn.fetch_max(last_lsn, Ordering::Release);
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

    /// Takes no more writes from now on; says why.
    fn fail(&self, error: &Error) -> String {
        let why = error.to_string();
        self.queue.lock().failed.get_or_insert_with(|| why.clone());
        self.room.notify_all();
        why
    }

    /// Brings the key-value store on the disk up to date and cuts the log.
    pub fn checkpoint(&self) -> Result<()> {
        let _checkpointing = self.checkpointing.lock();
        // Before anything takes space.
        let merged = self.merged(self.disk.kv.merge_if_many());
        let outcome = merged.and_then(|()| self.checkpoint_now());
        self.checkpoint_failed.store(outcome.is_err(), Ordering::Relaxed);
        // Under the lock, so that nobody misses the call between looking and waiting.
        self.queue.lock().space.take_back();
        self.room.notify_all();
        outcome
    }

    fn checkpoint_now(&self) -> Result<()> {
        let mut log = self.log.lock();
        let mut queue = self.queue.lock();
        if let Some(why) = &queue.failed {
            return Err(read_only(why));
        }
        let applied_lsn = queue.next_lsn - 1;
        if applied_lsn == queue.checkpoint_lsn {
            return Ok(());
        }
        let next_id = self.disk.next_id.load(Ordering::Relaxed);
        let mut changes = vec![(keys::META.into(), Some(Meta { applied_lsn, next_id }.encode().into()))];
        for (region, bitmap) in self.disk.allocator.lock().take_dirty() {
            changes.push((keys::allocation(region).into(), Some(bitmap.into())));
        }
        self.disk.kv.apply(changes);
        self.disk.kv.seal();
        let group = self.take_group(&mut queue);
        drop(queue);
        // What is sealed may reach the disk only after the log and the data that it speaks of.
        self.write_group(&mut log, group)?;
        self.queue.lock().space.lend();
        let rotated = self.rotate(&mut log, applied_lsn + 1);
        rotated.inspect_err(|error| drop((!nothing_changed(error)).then(|| self.fail(error))))?;
        drop(log);
        self.disk.data.sync().inspect_err(|error| drop(self.fail(error)))?;
        let written = self.disk.kv.write_sealed();
        written.inspect_err(|error| drop((!nothing_changed(error)).then(|| self.fail(error))))?;
        let mut log = self.log.lock();
        log.cut()?;
        self.log_bytes.store(log.len_bytes, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.checkpoint_lsn = applied_lsn;
        queue.space.cut();
        Ok(())
    }

    /// Begins a new segment of the log, unless the last one begins with `first_lsn`.
    fn rotate(&self, log: &mut Log, first_lsn: u64) -> Result<()> {
        // Made while operations go on: it takes syncs.
        let promised_bytes = self.queue.lock().promised_bytes();
        let Some(next) = log.next(first_lsn, promised_bytes + SEGMENT_ROOM_BYTES)? else { return Ok(()) };
        let mut queue = self.queue.lock();
        let promised_bytes = queue.promised_bytes();
        log.rotate(next, promised_bytes)?;
        let (segment, before_bytes, written_bytes) = log.segment();
        queue.space.move_to(segment, before_bytes, written_bytes, EMPTY_LOG_BYTES + promised_bytes);
        drop(queue);
        log.settle().map_err(|error| error.with_kind(ErrorKind::Internal))
    }

    /// Merges tables of the key-value store.
    pub fn compact(&self) -> Result<()> {
        self.merged(self.disk.kv.compact())
    }

    /// Merges all tables if something was removed, whose keys take space until then. On a full disk there may be no room for
    /// what is left of them but the reserve.
    pub fn compact_removed(&self) -> Result<()> {
        let _checkpointing = self.checkpointing.lock();
        self.queue.lock().space.remove_spare();
        if !self.removed.swap(false, Ordering::Relaxed) {
            return self.compact();
        }
        self.queue.lock().space.lend();
        let merged = self.merged(self.disk.kv.compact_fully());
        self.queue.lock().space.take_back();
        merged.inspect_err(|_| self.removed.store(true, Ordering::Relaxed))
    }

    fn merged(&self, merged: Result<()>) -> Result<()> {
        merged.inspect_err(|error| {
            if !nothing_changed(error) {
                self.fail(error);
            }
        })
    }

    fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// Gives extents that nothing refers to any more to the allocator.
    pub fn release_freed(&self) {
        let freed = std::mem::take(&mut *self.freed.lock());
        self.disk.data.punch_all(freed.clone());
        let mut allocator = self.disk.allocator.lock();
        freed.iter().for_each(|extent| allocator.release(*extent));
        // Small ones whose neighbours were free before. Nobody may take them meanwhile.
        self.disk.data.punch_all(allocator.free_granules(&freed));
    }

    /// Runs `look` while no operation can change the store.
    pub fn paused<T>(&self, look: impl FnOnce() -> T) -> T {
        let _queue = self.queue.lock();
        self.disk.kv.settle();
        look()
    }
}

/// Whether a step of a checkpoint failed before it changed anything: a full disk may be freed again, and tables that
/// cannot be read stay as they are. After any other failure nothing is known of what was to be durable.
fn nothing_changed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::Corrupt)
}

/// A durable operation on its way to the queue.
pub(crate) struct Arriving {
    commit: Arc<Commit>,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let last = self.commit.arriving.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.commit.gathering.load(Ordering::SeqCst) {
            self.commit.work.notify_one();
        }
    }
}

fn read_only(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, "the store is read-only since a write failed; open it again")
        .with("cause", why)
}
