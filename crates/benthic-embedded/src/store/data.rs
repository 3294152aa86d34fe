//! The data file: extents of object data, in whole blocks. What an extent holds is said, with its checksum, in the
//! metadata only.

use super::keys::Extent;
use benthic_core::{Action, Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind as Io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Shorter runs are used again, not given back to the file system.
const PUNCH_BYTES_MIN: u64 = 65_536;

pub(crate) struct DataFile {
    file: File,
    sync_failed: Mutex<bool>,
}

impl DataFile {
    pub fn open(path: &Path) -> Result<DataFile> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| {
            Error::io(Action::Admin, "the data file cannot be opened", e).with("path", path.display())
        })?;
        Ok(DataFile { file, sync_failed: Mutex::new(false) })
    }

    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.file.write_all_at(data, offset_bytes).map_err(|e| {
            let message = match e.raw_os_error() {
                Some(benthic_core::error::errno::ENOSPC) => "the disk is full; remove objects or add space",
                _ => "the data file cannot be written",
            };
            Error::io(Action::Write, message, e)
        })
    }

    /// Fills `buffer`; a file that ends before is damage.
    pub fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset_bytes).map_err(|e| match e.kind() {
            Io::UnexpectedEof => Error::io(Action::Read, "the data file is cut", e),
            _ => Error::io(Action::Read, "the data file cannot be read", e),
        })
    }

    /// Makes durable what was written. One at a time, and none after one that failed: the system tells a failure once, to
    /// whoever syncs first, and the next one would believe that all is durable.
    pub fn sync(&self) -> Result<()> {
        let mut failed = self.sync_failed.lock();
        if *failed {
            return Err(Error::new(ErrorKind::Internal, "the data file could not be synced before"));
        }
        self.file.sync_data().map_err(|e| {
            *failed = true;
            Error::io(Action::Write, "the data file cannot be synced", e)
        })
    }

    /// Gives the space of free extents back to the file system, neighbours together.
    pub fn punch_all(&self, mut freed: Vec<Extent>) {
        freed.sort_by_key(|extent| extent.offset_bytes);
        freed.dedup_by(|next, run| {
            let adjacent = run.offset_bytes + run.len_bytes == next.offset_bytes;
            if adjacent {
                run.len_bytes += next.len_bytes;
            }
            adjacent
        });
        freed.into_iter().for_each(|run| self.punch(run));
    }

    fn punch(&self, freed: Extent) {
        if freed.len_bytes < PUNCH_BYTES_MIN {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes keeps the space until it is reused.
        if let Err(error) = fallocate(&self.file, flags, freed.offset_bytes, freed.len_bytes) {
            tracing::debug!(%error, "freed space cannot be given back to the file system");
        }
    }
}
