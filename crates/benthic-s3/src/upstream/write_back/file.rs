//! The files of pending changes.
//!
//! A file has the data of an object, then a record as JSON, and an end of a fixed size:
//!
//! ```text
//! data | record | XXH3-128 of the record | length of the record | BNTHWB01
//!                          16                       4                 8
//! ```
//!
//! The record has an XXH3-64 of each MiB of the data, so readers of a range check the data that
//! they read. The file is complete and synced before it gets its name, a sequence number, and the
//! directory is synced after that. Rejected: a log of all changes, which would have to be
//! compacted.

use crate::sal::Attributes;
use crate::upstream::head::write_of;
use crate::upstream::{UPSTREAM, objects_error};
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

const MAGIC: &[u8; 8] = b"BNTHWB01";
const END_BYTES: u64 = 16 + 4 + 8;
/// Maximum size of a record, in bytes: the checksums of 5 GiB, and attributes.
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// Data for each checksum, in bytes.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;
/// The start of the names of files that are not complete.
pub(in crate::upstream) const NEW: &str = "new-";

/// A change of an object that is not at the upstream yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::upstream) struct Record {
    /// The URL of the upstream.
    pub origin: String,
    /// The name of the bucket at the upstream.
    pub bucket: String,
    pub key: String,
    /// Whether the change deletes the object.
    pub deletes: bool,
    pub etag: String,
    pub size_bytes: u64,
    pub changed_ms: u64,
    /// The SHA-256 of the data.
    pub sha256: String,
    /// The XXH3-64 of each block of the data.
    pub sums: Vec<u64>,
    pub attributes: BTreeMap<String, String>,
}

impl Record {
    pub fn attributes(&self) -> Attributes {
        self.attributes.iter().map(|(name, value)| (name.clone(), Bytes::from(value.clone()))).collect()
    }

    pub fn write(&self) -> crate::sal::Id {
        write_of(&self.etag, None)
    }
}

/// The checksums of the blocks of data that arrive in pieces.
pub(in crate::upstream) struct BlockSums {
    sums: Vec<u64>,
    hash: Xxh3,
    filled: u64,
}

impl BlockSums {
    pub fn new() -> BlockSums {
        BlockSums { sums: Vec::new(), hash: Xxh3::new(), filled: 0 }
    }

    pub fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = (BLOCK_BYTES - self.filled) as usize;
            let (now, rest) = data.split_at(room.min(data.len()));
            self.hash.update(now);
            self.filled += now.len() as u64;
            data = rest;
            if self.filled == BLOCK_BYTES {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        self.sums.push(self.hash.digest());
        self.hash.reset();
        self.filled = 0;
    }

    pub fn finish(mut self) -> Vec<u64> {
        if self.filled > 0 {
            self.end_block();
        }
        self.sums
    }
}

fn file_error(message: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(Action::Write, message, error).with_op(UPSTREAM).with("path", path.display())
}

/// The error of a read. Only a file that is too short is damaged: another error may pass, so the
/// file is kept and read again.
pub(super) fn unreadable(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => ErrorKind::Corrupt,
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    };
    Error::io(Action::Read, "cannot read a pending change", error).with_op(UPSTREAM).with_kind(kind)
}

fn damaged(path: &Path) -> Error {
    objects_error(ErrorKind::Corrupt, "a pending change is damaged").with("path", path.display())
}

/// Creates a file for a change that is not complete. It is removed if it is dropped.
pub(in crate::upstream) fn create(directory: &Path) -> Result<NamedTempFile> {
    let created = tempfile::Builder::new().prefix(NEW).tempfile_in(directory);
    created.map_err(|error| file_error("cannot create a file for a pending change", directory, error))
}

/// The bytes that follow the data.
pub(super) fn end_of(record: &Record) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(record).unwrap_or_default();
    if text.is_empty() || text.len() as u64 > RECORD_BYTES_MAX {
        return Err(objects_error(ErrorKind::LimitExceeded, "the attributes of the object are too large"));
    }
    let mut end = text.clone();
    end.extend_from_slice(&xxh3_128(&text).to_le_bytes());
    end.extend_from_slice(&(text.len() as u32).to_le_bytes());
    end.extend_from_slice(MAGIC);
    Ok(end)
}

/// Adds the record to a file with the data, and syncs it.
pub(super) fn complete(file: &NamedTempFile, record: &Record, end: &[u8]) -> Result<()> {
    let done = file.as_file().write_all_at(end, record.size_bytes).and_then(|()| file.as_file().sync_all());
    done.map_err(|error| file_error("cannot store a pending change", file.path(), error))
}

/// Gives a complete file its name. It is durable when the directory is synced.
pub(super) fn publish(file: NamedTempFile, directory: &Path, name: &str) -> Result<()> {
    let path = directory.join(name);
    let temporary = file.into_temp_path();
    fs::rename(&temporary, &path)
        .map_err(|error| file_error("cannot store a pending change", &path, error))?;
    // Its old name is gone, so there is nothing to remove.
    let _ = temporary.keep();
    Ok(())
}

/// Removes the file of a change that is at the upstream, durably: otherwise it could come back
/// after a crash, and replace a later change. If the file is gone already, only the sync is left.
pub(super) fn remove(directory: &Path, name: &str) -> Result<()> {
    let path = directory.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(file_error("cannot remove a pending change", &path, error))
        }
        _ => sync_directory(directory),
    }
}

pub(super) fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| file_error("cannot sync the directory of pending changes", directory, error))
}

/// Writes a text that no crash leaves half written.
pub(super) fn replace_text(path: &Path, text: &str) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Opens the file of a change, and checks its record. The data are checked when they are read.
///
/// # Errors
/// `Corrupt` if the file is damaged; `NotFound` without one; `Unavailable` if it cannot be read.
pub(in crate::upstream) fn open(path: &Path) -> Result<(Record, Arc<File>, u64)> {
    let unreadable = |error| unreadable(error).with("path", path.display());
    let file = File::open(path).map_err(unreadable)?;
    let len_bytes = file.metadata().map_err(unreadable)?.len();
    let end_at = len_bytes.checked_sub(END_BYTES).ok_or_else(|| damaged(path))?;
    let mut end = [0; END_BYTES as usize];
    file.read_exact_at(&mut end, end_at).map_err(unreadable)?;
    let (sum, rest) = end.split_at(16);
    let (len, magic) = rest.split_at(4);
    let record_bytes = u64::from(u32::from_le_bytes(len.try_into().unwrap_or_default()));
    let is_end = magic == MAGIC && record_bytes <= RECORD_BYTES_MAX;
    let record_at = end_at.checked_sub(record_bytes).filter(|_| is_end).ok_or_else(|| damaged(path))?;
    let mut text = vec![0; record_bytes as usize];
    file.read_exact_at(&mut text, record_at).map_err(unreadable)?;
    if xxh3_128(&text).to_le_bytes() != sum {
        return Err(damaged(path));
    }
    let record: Record = serde_json::from_slice(&text).map_err(|_| damaged(path))?;
    if record.size_bytes != record_at || record.sums.len() as u64 != record_at.div_ceil(BLOCK_BYTES) {
        return Err(damaged(path));
    }
    Ok((record, Arc::new(file), len_bytes))
}

/// Reads a block of the data, and checks it.
///
/// # Errors
/// `Corrupt` if the block is damaged; `Unavailable` if it cannot be read.
pub(super) fn read_block(file: &File, record: &Record, index: u64) -> Result<Bytes> {
    let start = index * BLOCK_BYTES;
    let len = record.size_bytes.saturating_sub(start).min(BLOCK_BYTES);
    let mut data = vec![0; len as usize];
    let corrupt = || objects_error(ErrorKind::Corrupt, "the data of a pending change are damaged");
    match file.read_exact_at(&mut data, start) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(corrupt()),
        read => read.map_err(unreadable)?,
    }
    match usize::try_from(index).ok().and_then(|index| record.sums.get(index)) {
        Some(sum) if *sum == xxh3_64(&data) => Ok(data.into()),
        _ => Err(corrupt()),
    }
}
