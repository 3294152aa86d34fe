//! Disk space for writes that must not fail on a full disk: the next frames of the log, and the
//! next checkpoint.
//!
//! Before an operation is accepted, two allocations must exist: the open segment has blocks for its
//! record, and the file `reserve` has as many blocks as the table of the next checkpoint could
//! need. The last part of a segment's blocks is set aside for operations that free space. So a full
//! disk rejects an operation before anything is stored, and an operation that frees space always
//! finds room.

use benthic_core::{Action, Error, Reason, Result};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Room in the open segment for operations that free space. The largest object has 32,768 extents,
/// and the record that removes it takes 561 KB.
pub(crate) const FREEING_BYTES: u64 = 768 * 1024;
/// Space that a checkpoint may need in addition to the size of the log: a new segment, maps of used
/// blocks, the list of tables, and the tables of a few more checkpoints, which hold removed data
/// until they are merged.
const CHECKPOINT_BYTES: u64 = 1024 * 1024;
/// Space that a partial reserve leaves to the store's smallest files.
const LEFT_BYTES: u64 = 64 * 1024;
/// A segment's allocation grows by a quarter of the log's size, within these limits.
const STEP_BYTES_MIN: u64 = 256 * 1024;
const STEP_BYTES_MAX: u64 = 4 * 1024 * 1024;

const RESERVE: &str = "reserve";
/// A segment that is no longer needed and whose file the next segment reuses. The new segment has a
/// different salt, so the old frames are not valid in it.
pub(crate) const SPARE: &str = "spare";

pub(crate) struct Space {
    log_dir: PathBuf,
    segment: Arc<File>,
    reserve: File,
    before_bytes: u64,
    /// End of the room promised to frames.
    promised_bytes: u64,
    allocated_bytes: u64,
    /// The file system supports allocation ahead of a write.
    preallocates: bool,
    reserved_bytes: u64,
    /// Size of the reserve that a running checkpoint or merge has borrowed.
    lent_bytes: Option<u64>,
}

impl Space {
    /// Manages the space after `end_bytes` of the open segment.
    pub fn open(log_dir: &Path, segment: Arc<File>, before_bytes: u64, end_bytes: u64) -> Result<Space> {
        let path = log_dir.join(RESERVE);
        let reserve =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(|e| {
                Error::io(Action::Admin, "the reserve cannot be opened", e).with("path", path.display())
            })?;
        let mut space = Space {
            log_dir: log_dir.to_owned(),
            segment,
            reserve,
            before_bytes,
            promised_bytes: end_bytes,
            allocated_bytes: end_bytes,
            preallocates: false,
            reserved_bytes: 0,
            lent_bytes: None,
        };
        // On a full disk, blocks that an earlier owner allocated may still be there. If not, an
        // operation that needs more fails.
        if let Ok(preallocates) = space.allocate(&space.segment, end_bytes, FREEING_BYTES) {
            space.allocated_bytes += FREEING_BYTES;
            space.preallocates = preallocates;
        }
        space.refill();
        Ok(space)
    }

    /// End of the open segment's allocated blocks, or 0 if the file system does not allocate ahead.
    pub fn allocated_bytes(&self) -> u64 {
        if self.preallocates { self.allocated_bytes } else { 0 }
    }

    /// Promises room for a record of `len_bytes`.
    ///
    /// # Errors
    /// `LimitExceeded` if the disk is full.
    pub fn take(&mut self, len_bytes: u64, frees: bool) -> Result<()> {
        assert!(len_bytes > 0, "a record is not empty");
        let promised_bytes = self.promised_bytes + len_bytes;
        let log_bytes = self.before_bytes + promised_bytes;
        let step_bytes = (log_bytes / 4).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        let kept_bytes = if frees { 0 } else { FREEING_BYTES };
        if !frees || promised_bytes > self.allocated_bytes {
            self.reserve(log_bytes, step_bytes)?;
        }
        if promised_bytes + kept_bytes > self.allocated_bytes {
            let end_bytes = promised_bytes + FREEING_BYTES + step_bytes;
            self.allocate(&self.segment, self.allocated_bytes, end_bytes - self.allocated_bytes)?;
            self.allocated_bytes = end_bytes;
        }
        self.promised_bytes = promised_bytes;
        assert!(promised_bytes + kept_bytes <= self.allocated_bytes, "promised space is allocated");
        Ok(())
    }

    /// Switches to a segment that [`room`] prepared for the first `promised_bytes`, or whose blocks
    /// are allocated up to `written_bytes`.
    pub fn move_to(
        &mut self,
        segment: Arc<File>,
        before_bytes: u64,
        written_bytes: u64,
        promised_bytes: u64,
    ) {
        self.segment = segment;
        self.before_bytes = before_bytes;
        self.promised_bytes = promised_bytes;
        self.allocated_bytes = written_bytes.max(promised_bytes + FREEING_BYTES);
        assert!(
            self.promised_bytes <= self.allocated_bytes,
            "the space promised to the frames of a new segment is allocated"
        );
    }

    /// Records that the open segment's blocks after `end_bytes` were freed and that no room is
    /// promised. Allocates the minimum again.
    pub fn trim(&mut self, end_bytes: u64) {
        self.promised_bytes = end_bytes;
        self.allocated_bytes = end_bytes;
        if self.allocate(&self.segment, end_bytes, FREEING_BYTES).is_ok() {
            self.allocated_bytes += FREEING_BYTES;
        }
        if self.reserve.set_len(0).is_ok() {
            self.reserved_bytes = 0;
            self.refill();
        }
    }

    /// Records that the segments before the open one were removed.
    pub fn cut(&mut self) {
        self.before_bytes = 0;
    }

    /// Releases the reserve to the file system for a checkpoint or a merge of tables. Until it
    /// ends, an operation that needs a reserve is accepted only if the disk has room for both.
    /// Otherwise new writes would take the space that the checkpoint needs.
    pub fn lend(&mut self) {
        if let Err(error) = self.reserve.set_len(0) {
            tracing::warn!(%error, "the reserve cannot be released");
        }
        assert!(self.lent_bytes.is_none(), "the reserve is lent once at a time");
        self.lent_bytes = Some(self.reserved_bytes);
        self.reserved_bytes = 0;
    }

    /// Removes the spare segment to free space on a full disk. Returns true if there was one.
    pub fn remove_spare(&self) -> bool {
        remove_spare(&self.log_dir)
    }

    /// Ends the loan of [`Space::lend`] and builds the next reserve.
    pub fn take_back(&mut self) {
        self.lent_bytes = None;
        self.refill();
    }

    /// Reserves the space that the current log could need, or as much as the disk has: a checkpoint
    /// after nothing but removals may need no more. On a full disk a later operation that needs
    /// more fails.
    fn refill(&mut self) {
        let log_bytes = self.before_bytes + self.promised_bytes;
        let _ = self.reserve(log_bytes, 0).or_else(|_| {
            let free_bytes = free_bytes(&self.reserve).unwrap_or(0);
            let part_bytes = self.reserved_bytes + free_bytes.saturating_sub(LEFT_BYTES);
            // A file system may refuse one allocation and still have space for a smaller one.
            self.grow(part_bytes.min(log_bytes + FREEING_BYTES + CHECKPOINT_BYTES))
        });
    }

    /// Grows the reserve, or leaves it unchanged. Some file systems keep a partial allocation when
    /// they run out of space, and a merge of tables may need exactly that space; so it is undone.
    fn grow(&mut self, end_bytes: u64) -> Result<()> {
        let held_bytes = || self.reserve.metadata().map_or(0, |metadata| metadata.blocks() * 512);
        let before_bytes = held_bytes();
        assert!(end_bytes >= self.reserved_bytes, "the reserve grows");
        let grown = self.allocate(&self.reserve, self.reserved_bytes, end_bytes - self.reserved_bytes);
        if grown.is_ok() {
            self.reserved_bytes = end_bytes;
        } else if held_bytes() > before_bytes {
            let undone =
                self.reserve.set_len(0).is_ok() && allocate(&self.reserve, 0, self.reserved_bytes).is_ok();
            self.reserved_bytes = if undone { self.reserved_bytes } else { 0 };
        }
        grown.map(|_| ())
    }

    /// Like [`allocate`], but on a full disk it frees the spare segment and tries again.
    fn allocate(&self, file: &File, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        allocate(file, offset_bytes, len_bytes).or_else(|error| {
            if self.remove_spare() { allocate(file, offset_bytes, len_bytes) } else { Err(error) }
        })
    }

    /// Reserves the space that a checkpoint could need for a log of `log_bytes` and for the
    /// removals that may follow.
    fn reserve(&mut self, log_bytes: u64, step_bytes: u64) -> Result<()> {
        let wanted_bytes = log_bytes + FREEING_BYTES + CHECKPOINT_BYTES;
        if let Some(lent_bytes) = self.lent_bytes {
            let room = free_bytes(&self.reserve).is_none_or(|free| free > lent_bytes + wanted_bytes);
            return if room { Ok(()) } else { Err(full()) };
        }
        if wanted_bytes > self.reserved_bytes {
            self.grow(wanted_bytes + step_bytes)?;
        }
        Ok(())
    }
}

/// Removes the spare segment. Returns true if there was one.
pub(crate) fn remove_spare(dir: &Path) -> bool {
    fs::remove_file(dir.join(SPARE)).is_ok()
}

/// Releases the reserve of a store that is not open.
pub(crate) fn release_reserve(log_dir: &Path) -> std::io::Result<()> {
    remove_spare(log_dir);
    OpenOptions::new().write(true).open(log_dir.join(RESERVE))?.set_len(0)
}

/// Allocates blocks in a new segment for `promised_bytes` of frames, plus the room for operations
/// that free space.
pub(crate) fn room(segment: &File, promised_bytes: u64) -> Result<()> {
    allocate(segment, 0, promised_bytes + FREEING_BYTES).map(|_| ())
}

pub(crate) fn full() -> Error {
    Error::because(Reason::StoreFull, "the disk is full; remove objects or add space")
}

/// Free space of the file's file system, if it reports one.
fn free_bytes(file: &File) -> Option<u64> {
    let room = fstatvfs(file).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Allocates blocks for a range. Returns false if the file system could not allocate ahead.
fn allocate(file: &File, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset_bytes, len_bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(full().with_source(error)),
        Err(error) => {
            // The file system cannot allocate ahead, or the disk is failing. A later write reports
            // the error.
            tracing::debug!(%error, "space for the log cannot be allocated ahead");
            Ok(false)
        }
        Ok(()) => Ok(true),
    }
}
