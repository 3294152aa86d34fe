//! How operations get into the log and become durable.
//!
//! [`queue`] gives every operation its place in the log and writes groups of operations, [`checkpoint`] brings the key-value
//! store on disk up to date and cuts the log, and [`compaction`] merges the tables of the key-value store. All three work on
//! one [`Commit`], whose locks they take in the order `checkpointing`, `log`, `queue`, what is being applied, allocator.

mod checkpoint;
mod compaction;
mod queue;

pub(crate) use queue::{Arriving, Done};

use super::disk::Disk;
use super::keys::Extent;
use super::log::{Frame, Log};
use super::space::{FREEING_BYTES, Space};
use crate::Options;
use benthic_core::{Clock, Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// On a full disk a log of this size is cut: before there is no more room for what frees something.
const LOG_BYTES_FULL: u64 = FREEING_BYTES / 4;

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

    /// The sequence number that the next operation of the group gets.
    fn next_lsn(&self) -> u64 {
        self.frame.first_lsn + u64::from(self.frame.records)
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
        assert!(applied_lsn < next_lsn, "the key-value store does not lead the log");
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

    /// Takes no more writes from now on; says why.
    fn fail(&self, error: &Error) -> String {
        let why = error.to_string();
        self.queue.lock().failed.get_or_insert_with(|| why.clone());
        self.room.notify_all();
        why
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

fn read_only(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, "the store is read-only since a write failed; open it again")
        .with("cause", why)
}
