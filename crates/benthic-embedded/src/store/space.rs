//! Space on the disk for what must never fail for want of it: the next frames of the log, and the next checkpoint.
//!
//! Before an operation is taken, the file system has given the open segment the blocks for its record, and the file
//! `reserve` as many as the table could need that the next checkpoint writes. The last part of a segment's blocks is for
//! operations that free something. So a full disk refuses what would need more, before anything is stored, and what
//! frees space always finds room.

use benthic_core::{Action, Error, Reason, Result};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Room in the open segment that only operations which free something may use: the largest object has 32,768 extents, whose
/// removal takes 561 KB.
pub(crate) const FREEING_BYTES: u64 = 768 * 1024;
/// What a checkpoint may need beyond the bytes of the log: a new segment, maps of used blocks, the list of tables; and the
/// tables of a few more, which hold what was removed until they are merged.
const CHECKPOINT_BYTES: u64 = 1024 * 1024;
/// What a reserve that is too small leaves to the store's smallest files.
const LEFT_BYTES: u64 = 64 * 1024;
/// A segment grows by a quarter of the log, within these.
const STEP_BYTES_MIN: u64 = 256 * 1024;
const STEP_BYTES_MAX: u64 = 4 * 1024 * 1024;

const RESERVE: &str = "reserve";
/// A segment that is not needed any more, to be written over: its frames have another salt than those of the next.
pub(crate) const SPARE: &str = "spare";

pub(crate) struct Space {
    log_dir: PathBuf,
    segment: Arc<File>,
    reserve: File,
    /// Bytes of the segments before the open one.
    before_bytes: u64,
    /// The end of all that frames were promised.
    promised_bytes: u64,
    /// The end of what the file system gave to the segment.
    given_bytes: u64,
    /// Whether the file system gives blocks ahead at all.
    gives: bool,
    /// What it gave to the reserve.
    reserved_bytes: u64,
    /// What of that a running checkpoint was given.
    lent_bytes: Option<u64>,
}

impl Space {
    /// Space behind `end_bytes` of the open segment.
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
            given_bytes: end_bytes,
            gives: false,
            reserved_bytes: 0,
            lent_bytes: None,
        };
        // A full disk may still have what an earlier owner left. If not, whoever needs more is told.
        if let Ok(gives) = space.allocate(&space.segment, end_bytes, FREEING_BYTES) {
            space.given_bytes += FREEING_BYTES;
            space.gives = gives;
        }
        space.refill();
        Ok(space)
    }

    /// The end of the open segment's blocks, as far as there are any that nothing was written to.
    pub fn given_bytes(&self) -> u64 {
        if self.gives { self.given_bytes } else { 0 }
    }

    /// Promises room to a record of `len_bytes`.
    ///
    /// # Errors
    /// `LimitExceeded` if the disk has no more.
    pub fn take(&mut self, len_bytes: u64, frees: bool) -> Result<()> {
        assert!(len_bytes > 0, "a record takes room");
        let promised_bytes = self.promised_bytes + len_bytes;
        let log_bytes = self.before_bytes + promised_bytes;
        let step_bytes = (log_bytes / 4).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        let kept_bytes = if frees { 0 } else { FREEING_BYTES };
        if !frees || promised_bytes > self.given_bytes {
            self.reserve(log_bytes, step_bytes)?;
        }
        if promised_bytes + kept_bytes > self.given_bytes {
            let end_bytes = promised_bytes + FREEING_BYTES + step_bytes;
            self.allocate(&self.segment, self.given_bytes, end_bytes - self.given_bytes)?;
            self.given_bytes = end_bytes;
        }
        self.promised_bytes = promised_bytes;
        assert!(promised_bytes + kept_bytes <= self.given_bytes, "what is promised was given before");
        Ok(())
    }

    /// Goes over to a segment that was made with [`room`] for the first `promised_bytes`, or that has blocks up to
    /// `written_bytes`.
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
        self.given_bytes = written_bytes.max(promised_bytes + FREEING_BYTES);
        assert!(self.promised_bytes <= self.given_bytes, "a new segment has what its frames were promised");
    }

    /// The open segment has no blocks behind `end_bytes` any more, and none are promised: takes as few as there can be.
    pub fn trim(&mut self, end_bytes: u64) {
        self.promised_bytes = end_bytes;
        self.given_bytes = end_bytes;
        if self.allocate(&self.segment, end_bytes, FREEING_BYTES).is_ok() {
            self.given_bytes += FREEING_BYTES;
        }
        if self.reserve.set_len(0).is_ok() {
            self.reserved_bytes = 0;
            self.refill();
        }
    }

    /// Earlier segments are gone.
    pub fn cut(&mut self) {
        self.before_bytes = 0;
    }

    /// Gives the reserve to the file system, for a checkpoint or a merge of tables to use. Until it ended, what needs a
    /// reserve is only taken if the disk has room for both: whoever writes on would else take the space that it was to have.
    pub fn lend(&mut self) {
        if let Err(error) = self.reserve.set_len(0) {
            tracing::warn!(%error, "the reserve cannot be released");
        }
        assert!(self.lent_bytes.is_none(), "the reserve is lent to one at a time");
        self.lent_bytes = Some(self.reserved_bytes);
        self.reserved_bytes = 0;
    }

    /// A full disk gets the spare segment back.
    pub fn remove_spare(&self) -> bool {
        remove_spare(&self.log_dir)
    }

    /// It ended; there is to be a reserve for the next one.
    pub fn take_back(&mut self) {
        self.lent_bytes = None;
        self.refill();
    }

    /// Reserves what the log as it is could need, or what there is of that: a checkpoint after removals alone may do with it.
    /// On a full disk whoever needs more is told.
    fn refill(&mut self) {
        let log_bytes = self.before_bytes + self.promised_bytes;
        let _ = self.reserve(log_bytes, 0).or_else(|_| {
            let free_bytes = free_bytes(&self.reserve).unwrap_or(0);
            let part_bytes = self.reserved_bytes + free_bytes.saturating_sub(LEFT_BYTES);
            // A file system may refuse, and have more.
            self.grow(part_bytes.min(log_bytes + FREEING_BYTES + CHECKPOINT_BYTES))
        });
    }

    /// Makes the reserve larger, or leaves it as it is: what the file system gave before it was full, and keeps, may be what a
    /// merge of tables lacks.
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

    /// As [`allocate`]; a full disk gets the spare segment back first.
    fn allocate(&self, file: &File, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        allocate(file, offset_bytes, len_bytes).or_else(|error| {
            if self.remove_spare() { allocate(file, offset_bytes, len_bytes) } else { Err(error) }
        })
    }

    /// Holds back what a checkpoint of a log of `log_bytes` and of what may still be removed could need.
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

/// Gives the spare segment to the file system; says whether there was one.
pub(crate) fn remove_spare(dir: &Path) -> bool {
    fs::remove_file(dir.join(SPARE)).is_ok()
}

/// Gives the reserve of a store that nobody has open to the file system.
pub(crate) fn release_reserve(log_dir: &Path) -> std::io::Result<()> {
    remove_spare(log_dir);
    OpenOptions::new().write(true).open(log_dir.join(RESERVE))?.set_len(0)
}

/// Gives a new segment room for `promised_bytes` and what frees something behind them.
pub(crate) fn room(segment: &File, promised_bytes: u64) -> Result<()> {
    allocate(segment, 0, promised_bytes + FREEING_BYTES).map(|_| ())
}

/// The error of an operation for which the disk has no room.
pub(crate) fn full() -> Error {
    Error::because(Reason::StoreFull, "the disk is full; remove objects or add space")
}

/// What the file system of this file has left, if it says so.
fn free_bytes(file: &File) -> Option<u64> {
    let room = fstatvfs(file).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Says whether the file has blocks now.
fn allocate(file: &File, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset_bytes, len_bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(full().with_source(error)),
        Err(error) => {
            // A file system that cannot promise space, or a failing disk: the write itself will tell.
            tracing::debug!(%error, "space for the log cannot be allocated ahead");
            Ok(false)
        }
        Ok(()) => Ok(true),
    }
}
