//! The data file: extents of object data, in whole blocks. What an extent holds is said, with its checksum, in the
//! metadata only.

use super::alloc::GRANULE_BLOCKS;
use super::keys::{BLOCK_BYTES, Extent};
use super::space;
use benthic_core::error::errno;
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{ReadWriteFlags, pread, preadv2};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as Io, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shorter runs wait until their neighbours are free too.
const PUNCH_BYTES_MIN: u64 = GRANULE_BLOCKS * BLOCK_BYTES;

/// A read of more is worth a thread of its own, even from memory.
const MEMORY_BYTES_MAX: u64 = 256 * 1024;

/// Where the bytes of a read may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// From the system's cache, and not many: else the read is `Busy`.
    Memory,
    Disk,
}

impl Source {
    /// Whether so many bytes may come from here.
    pub fn check(self, len_bytes: u64) -> Result<()> {
        if self == Source::Memory && len_bytes > MEMORY_BYTES_MAX {
            return Err(Error::new(ErrorKind::Busy, "so much takes a while"));
        }
        Ok(())
    }
}

pub(crate) struct DataFile {
    file: File,
    /// Blocks that count as written though they are not: when a damaged store is read, which nothing may change.
    overlay: BTreeMap<u64, Bytes>,
    /// Whether something was refused because the disk is full.
    pub full: AtomicBool,
    sync_failed: Mutex<bool>,
}

impl DataFile {
    pub fn open(path: &Path) -> Result<DataFile> {
        DataFile::open_with(path, OpenOptions::new().read(true).write(true), BTreeMap::new())
    }

    /// Opens a data file to be read only, as if these blocks had been written: number, bytes from the block's start.
    pub fn open_below(path: &Path, overlay: BTreeMap<u64, Bytes>) -> Result<DataFile> {
        DataFile::open_with(path, OpenOptions::new().read(true), overlay)
    }

    fn open_with(path: &Path, how: &OpenOptions, overlay: BTreeMap<u64, Bytes>) -> Result<DataFile> {
        let file = how.open(path).map_err(|e| {
            let error = match e.kind() {
                Io::NotFound => Error::new(ErrorKind::Corrupt, "the data file is missing").with_source(e),
                _ => Error::io(Action::Admin, "the data file cannot be opened", e),
            };
            error.with("path", path.display())
        })?;
        Ok(DataFile { file, overlay, full: AtomicBool::new(false), sync_failed: Mutex::new(false) })
    }

    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()> {
        assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "what is written starts with a block");
        assert!(!data.is_empty(), "an extent is not empty");
        assert!(self.overlay.is_empty(), "a damaged store is only read");
        self.file.write_all_at(data, offset_bytes).map_err(|e| {
            if e.raw_os_error() == Some(errno::ENOSPC) {
                self.full.store(true, Ordering::Relaxed);
                return space::full().with_source(e);
            }
            Error::io(Action::Write, "the data file cannot be written", e)
        })
    }

    /// Fills `buffer`; a file that ends before is damage.
    pub fn read(&self, offset_bytes: u64, buffer: &mut [u8], source: Source) -> Result<()> {
        assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "what is read starts with a block");
        if source == Source::Memory {
            return self.read_cached(offset_bytes, buffer);
        }
        if self.overlay.is_empty() {
            return self.read_file(offset_bytes, buffer);
        }
        // Whatever is read starts with a block.
        for (index, part) in buffer.chunks_mut(BLOCK_BYTES as usize).enumerate() {
            let block = offset_bytes / BLOCK_BYTES + index as u64;
            match self.overlay.get(&block) {
                Some(bytes) if bytes.len() >= part.len() => part.copy_from_slice(&bytes[..part.len()]),
                _ => self.read_file(block * BLOCK_BYTES, part)?,
            }
        }
        Ok(())
    }

    /// Reads an extent with one call, into memory that nobody zeroed; `None` if that does not give all of it.
    pub fn read_whole(&self, extent: Extent) -> Option<Vec<u8>> {
        let len_bytes = extent.len_bytes as usize;
        assert!(extent.offset_bytes.is_multiple_of(BLOCK_BYTES), "what is read starts with a block");
        let mut buffer = Vec::with_capacity(len_bytes);
        if self.overlay.is_empty() {
            pread(&self.file, spare_capacity(&mut buffer), extent.offset_bytes).ok()?;
        }
        buffer.truncate(len_bytes);
        (buffer.len() == len_bytes).then_some(buffer)
    }

    fn read_cached(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        let wanted_bytes = buffer.len();
        let read = preadv2(&self.file, &mut [IoSliceMut::new(buffer)], offset_bytes, ReadWriteFlags::NOWAIT);
        match read {
            Ok(read_bytes) if read_bytes == wanted_bytes => Ok(()),
            // Whatever else it is, whoever reads from the disk will see it.
            _ => Err(Error::new(ErrorKind::Busy, "the data is not in memory")),
        }
    }

    fn read_file(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
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

    /// What the file takes of the disk.
    pub fn disk_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.blocks() * 512)
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
        if freed.len_bytes >= PUNCH_BYTES_MIN {
            self.give_back(freed);
        }
    }

    /// Gives the space of an extent that nobody uses back to the file system, however short it is.
    pub fn give_back(&self, freed: Extent) {
        let (from, len) = (freed.offset_bytes, freed.len_bytes);
        assert!(
            len > 0 && from.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES),
            "only whole blocks are free"
        );
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes keeps the space until it is reused.
        if let Err(error) = fallocate(&self.file, flags, from, len) {
            tracing::debug!(%error, "freed space cannot be given back to the file system");
        }
    }
}
