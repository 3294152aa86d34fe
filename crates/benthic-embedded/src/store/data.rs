//! The data file: extents of object data, in whole blocks. The file does not describe itself: the
//! metadata says which object an extent belongs to, and has its checksum.

use super::alloc::GRANULE_BLOCKS;
use super::buffers::Buffers;
use super::keys::{BLOCK_BYTES, Extent};
use super::space;
use benthic_core::error::errno;
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{ReadWriteFlags, preadv2};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as Io, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shorter runs stay allocated until their neighbours are free too.
const PUNCH_BYTES_MIN: u64 = GRANULE_BLOCKS * BLOCK_BYTES;

/// A longer read runs on a worker thread, even if its data is in memory.
const MEMORY_BYTES_MAX: u64 = 256 * 1024;

/// Where a read may get its data from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Only the page cache, and only for short reads. Otherwise the read fails with `Busy`.
    Memory,
    Disk,
}

impl Source {
    /// Checks that a read of this length may use the source.
    pub fn check(self, len_bytes: u64) -> Result<()> {
        if self == Source::Memory && len_bytes > MEMORY_BYTES_MAX {
            return Err(Error::new(ErrorKind::Busy, "the read is too long to run at once"));
        }
        Ok(())
    }
}

pub(crate) struct DataFile {
    file: File,
    /// Blocks of log replay that are not in the file. Used to read a store without changing it.
    overlay: BTreeMap<u64, Bytes>,
    /// Buffers for the data that readers get.
    pub buffers: Arc<Buffers>,
    pub full: AtomicBool,
    sync_failed: Mutex<bool>,
}

impl DataFile {
    pub fn open(path: &Path) -> Result<DataFile> {
        DataFile::open_with(path, OpenOptions::new().read(true).write(true), BTreeMap::new())
    }

    /// Opens a data file read-only, as if the blocks of the overlay had been written. The overlay
    /// maps the number of a block to its bytes from the start of the block.
    pub fn open_with_overlay(path: &Path, overlay: BTreeMap<u64, Bytes>) -> Result<DataFile> {
        let mut data = DataFile::open_with(path, OpenOptions::new().read(true), overlay)?;
        // Drop blocks that the file has, as it usually does: reads without overlay are faster.
        let file = &data.file;
        data.overlay.retain(|block, bytes| {
            let mut found = vec![0; bytes.len()];
            file.read_exact_at(&mut found, block * BLOCK_BYTES).is_err() || found != *bytes
        });
        Ok(data)
    }

    fn open_with(path: &Path, how: &OpenOptions, overlay: BTreeMap<u64, Bytes>) -> Result<DataFile> {
        let file = how.open(path).map_err(|e| {
            let error = match e.kind() {
                Io::NotFound => Error::new(ErrorKind::Corrupt, "the data file is missing").with_source(e),
                _ => Error::io(Action::Admin, "the data file cannot be opened", e),
            };
            error.with("path", path.display())
        })?;
        let (full, sync_failed) = (AtomicBool::new(false), Mutex::new(false));
        Ok(DataFile { file, overlay, buffers: Arc::default(), full, sync_failed })
    }

    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()> {
        assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "a write starts at a block boundary");
        assert!(!data.is_empty(), "an extent is not empty");
        assert!(self.overlay.is_empty(), "a store with an overlay is only read");
        self.file.write_all_at(data, offset_bytes).map_err(|e| {
            if e.raw_os_error() == Some(errno::ENOSPC) {
                self.full.store(true, Ordering::Relaxed);
                return space::full().with_source(e);
            }
            Error::io(Action::Write, "the data file cannot be written", e)
        })
    }

    /// Fills `buffer`. A file that is too short is damaged.
    pub fn read(&self, offset_bytes: u64, buffer: &mut [u8], source: Source) -> Result<()> {
        assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "a read starts at a block boundary");
        if source == Source::Memory {
            return self.read_cached(offset_bytes, buffer);
        }
        if self.overlay.is_empty() {
            return self.read_file(offset_bytes, buffer);
        }
        // Every read starts at a block boundary.
        for (index, part) in buffer.chunks_mut(BLOCK_BYTES as usize).enumerate() {
            let block = offset_bytes / BLOCK_BYTES + index as u64;
            match self.overlay.get(&block) {
                Some(bytes) if bytes.len() >= part.len() => part.copy_from_slice(&bytes[..part.len()]),
                _ => self.read_file(block * BLOCK_BYTES, part)?,
            }
        }
        Ok(())
    }

    fn read_cached(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        let wanted_bytes = buffer.len();
        if !self.overlay.is_empty() {
            return Err(Error::new(ErrorKind::Busy, "a part of the data may not be in the file"));
        }
        let read = preadv2(&self.file, &mut [IoSliceMut::new(buffer)], offset_bytes, ReadWriteFlags::NOWAIT);
        match read {
            Ok(read_bytes) if read_bytes == wanted_bytes => Ok(()),
            // For any other failure, the read from disk returns the error.
            _ => Err(Error::new(ErrorKind::Busy, "the data is not in memory")),
        }
    }

    fn read_file(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset_bytes).map_err(|e| match e.kind() {
            Io::UnexpectedEof => Error::io(Action::Read, "the data file is truncated", e),
            _ => Error::io(Action::Read, "the data file cannot be read", e),
        })
    }

    /// Makes written data durable. Syncs run one at a time, and none runs after a failed one: the
    /// kernel reports a failure only once, to the first sync, and the next sync would wrongly
    /// succeed.
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

    pub fn disk_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Returns the space of free extents to the file system. Merges adjacent extents first.
    pub fn punch_all(&self, mut freed: Vec<Extent>) {
        freed.sort_by_key(|extent| extent.offset_bytes);
        freed.dedup_by(|next, run| {
            let adjacent = run.offset_bytes + run.len_bytes == next.offset_bytes;
            if adjacent {
                run.len_bytes += next.len_bytes;
            }
            adjacent
        });
        freed.into_iter().filter(|run| run.len_bytes >= PUNCH_BYTES_MIN).for_each(|run| self.punch(run));
    }

    /// Returns the space of an unused extent of any length to the file system.
    pub fn punch(&self, freed: Extent) {
        let (from, len) = (freed.offset_bytes, freed.len_bytes);
        assert!(
            len > 0 && from.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES),
            "a free extent consists of whole blocks"
        );
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without hole punching keeps the space until the extent is reused.
        if let Err(error) = fallocate(&self.file, flags, from, len) {
            tracing::debug!(%error, "freed space cannot be returned to the file system");
        }
    }
}
