//! Writes operations to the log and makes them durable.
//!
//! [`queue`] assigns every operation its place in the log and writes groups of operations.
//! [`checkpoint`] brings the key-value store on disk up to date and cuts the log. [`compaction`]
//! merges the tables of the key-value store. All three work on one [`Commit`]. They take its locks
//! in the order `checkpointing`, `log`, `queue`, operations being applied, allocator.

mod checkpoint;
mod compaction;
mod queue;

pub(crate) use queue::{Announcement, Completion};

use super::disk::Disk;
use super::keys::Extent;
use super::log::{Frame, Log};
use super::space::{FREEING_BYTES, Space};
use crate::Options;
use benthic_core::{Clock, Error, Result};
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// On a full disk the log is cut at this size, while there is still room for operations that free
/// space.
const LOG_BYTES_FULL: u64 = FREEING_BYTES / 4;

pub(crate) struct Commit {
    disk: Arc<Disk>,
    clock: Arc<dyn Clock>,
    buffered_ms_max: u64,
    /// Held while a group is written. Taken before `queue`.
    log: Mutex<Log>,
    queue: Mutex<Queue>,
    /// Signals the committer that there is work.
    work: Condvar,
    /// Signals writers that the group has room again.
    room: Condvar,
    durable_lsn: AtomicU64,
    /// The last operation for whose durability a caller waits.
    awaited_lsn: AtomicU64,
    log_bytes: AtomicU64,
    /// The log is cut at this size. Writers wait when it is four times as large.
    log_bytes_max: u64,
    /// Approximate size of the changes of the key-value store since the last checkpoint.
    changes_bytes: AtomicU64,
    changes_bytes_max: u64,
    logged_bytes_max: u64,
    /// The last checkpoint failed, so writers must not wait for the next one.
    checkpoint_failed: AtomicBool,
    /// Held during a checkpoint. Without it, a second checkpoint could write tables that the first
    /// one sealed before their operations are durable in the log.
    checkpointing: Mutex<()>,
    /// Extents whose freeing is durable, until the cleaner returns them to the allocator.
    freed: Mutex<Vec<Extent>>,
    /// Number of announced durable operations that are not in the queue yet.
    announced: AtomicUsize,
    /// The committer is waiting for announced operations.
    gathering: AtomicBool,
    /// Since the last full merge of the key-value store, an operation freed space or a checkpoint
    /// wrote such operations to the store's tables.
    removed: AtomicBool,
}

struct Queue {
    group: Group,
    next_lsn: u64,
    space: Space,
    checkpoint_lsn: u64,
    /// The last operation that freed space.
    removed_lsn: u64,
    /// The reason why the store rejects writes.
    failed: Option<String>,
    stopping: bool,
}

#[derive(Default)]
struct Group {
    frame: Frame,
    waiters: Vec<Completion<()>>,
    freed: Vec<Extent>,
    /// Data written to extents. It must be synced before the frame is written.
    unsynced_bytes: u64,
    /// Arrival time of the first buffered operation.
    since_ms: Option<u64>,
    awaited: bool,
}

impl Queue {
    /// Bytes of the log that the current group will use.
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

    /// The sequence number of the group's next operation.
    fn next_lsn(&self) -> u64 {
        self.frame.first_lsn + u64::from(self.frame.records)
    }
}

impl Commit {
    /// Creates the commit queue for an opened log. `next_lsn` is the next sequence number; the
    /// key-value store on disk contains the operations up to `applied_lsn`.
    pub fn new(
        disk: Arc<Disk>,
        log_dir: &Path,
        log: Log,
        next_lsn: u64,
        applied_lsn: u64,
        options: &Options,
    ) -> Result<Commit> {
        assert!(applied_lsn < next_lsn, "the key-value store does not lead the log");
        let (segment, before_bytes, _) = log.segment();
        let changes_bytes = disk.kv.changes_bytes();
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
                // The log may contain removals.
                removed_lsn: next_lsn - 1,
                failed: None,
                stopping: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            durable_lsn: AtomicU64::new(next_lsn - 1),
            awaited_lsn: AtomicU64::new(next_lsn - 1),
            log_bytes_max: options.log_bytes_max,
            changes_bytes: AtomicU64::new(changes_bytes),
            changes_bytes_max: options.changes_bytes_max,
            logged_bytes_max: options.logged_bytes_max,
            checkpoint_failed: AtomicBool::new(false),
            checkpointing: Mutex::new(()),
            freed: Mutex::default(),
            announced: AtomicUsize::new(0),
            gathering: AtomicBool::new(false),
            removed: AtomicBool::new(true),
        })
    }

    /// Returns true if the log or the changes in memory need a checkpoint.
    pub fn log_is_long(&self) -> bool {
        self.log_bytes() > self.log_bytes_max
            || self.changes_bytes.load(Ordering::Relaxed) > self.changes_bytes_max
    }

    /// Returns true if the log needs a checkpoint on a full disk.
    pub fn log_is_long_if_full(&self) -> bool {
        self.log_bytes() > LOG_BYTES_FULL
    }

    /// Returns true if the disk was full since the last call. A checkpoint may then free space.
    pub fn take_disk_full(&self) -> bool {
        self.disk.data.full.swap(false, Ordering::Relaxed)
    }

    /// The sequence number of the next operation.
    pub fn next_lsn(&self) -> u64 {
        self.queue.lock().next_lsn
    }

    /// Fails if the store rejects writes. The error has the reason.
    pub fn check_writable(&self) -> Result<()> {
        self.queue.lock().failed.as_ref().map_or(Ok(()), |why| Err(read_only(why)))
    }

    /// Makes the store reject writes from now on. Returns the reason.
    fn fail(&self, error: &Error) -> String {
        let why = error.to_string();
        self.queue.lock().failed.get_or_insert_with(|| why.clone());
        self.room.notify_all();
        why
    }

    fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// Notes the sizes that [`Commit::log_is_long`] checks.
    fn note_sizes(&self, log: &Log) {
        self.log_bytes.store(log.len_bytes, Ordering::Relaxed);
        self.changes_bytes.store(self.disk.kv.changes_bytes(), Ordering::Relaxed);
    }

    /// Returns extents that nothing refers to any more to the allocator.
    pub fn release_freed(&self) {
        let freed = std::mem::take(&mut *self.freed.lock());
        self.disk.data.punch_all(freed.clone());
        let mut allocator = self.disk.allocator.lock();
        freed.iter().for_each(|extent| allocator.release(*extent));
        // The freed extents may complete granules whose other blocks were already free. The
        // allocator's lock prevents their reuse meanwhile.
        self.disk.data.punch_all(allocator.free_granules(&freed));
    }

    /// Runs `look` while no operation can change the store.
    pub fn run_paused<T>(&self, look: impl FnOnce() -> T) -> T {
        let _queue = self.queue.lock();
        self.disk.kv.settle();
        look()
    }
}

fn read_only(why: &str) -> Error {
    Error::unavailable("the store is read-only because a write failed; open it again").with("cause", why)
}
