//! The partial file that a download fills, piece by piece in any order. All functions block.
//!
//! The file is called `.NAME.benthic-part` and lies beside its target. If the pieces have digests,
//! the file stays after an interrupted download, and the next download fetches only the missing
//! pieces.

use super::layout::{Extent, Layout};
use super::{Note, digest, digest_of_all, modified_unix_ns};
use benthic_core::{Action, Error, Result};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Bytes between two syncs. Syncing on the way leaves little to wait for at the end.
const SYNC_BYTES: u64 = 64 * 1024 * 1024;
/// Attempts to lock a partial file that other copies are completing or removing at the same time.
const CLAIMS_MAX: u32 = 10;

/// A partial file.
pub struct PartialFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
    may_have_data: bool,
    keep: bool,
    written_bytes: AtomicU64,
}

pub(super) fn cannot_read(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::io(Action::Admin, "cannot read the file", error).with("path", path.display())
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::io(Action::Admin, "cannot write the file", error).with("path", path.display())
}

impl PartialFile {
    /// Creates a partial file, or continues an existing one if `resumable`. A file that has the
    /// target's name keeps its content until [`PartialFile::finish`].
    ///
    /// # Errors
    /// `InvalidArgument` if the target is not a file; `Busy` if another copy fills the same file;
    /// those of the file system.
    pub fn open(target: &Path, size_bytes: u64, resumable: bool) -> Result<PartialFile> {
        let target = match fs::metadata(target) {
            Ok(metadata) if metadata.is_file() => fs::canonicalize(target).map_err(cannot_write(target))?,
            Ok(_) => {
                let message = "the target of a striped object must be a regular file";
                return Err(Error::invalid_argument(message).with("path", target.display()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => target.to_owned(),
            Err(error) => return Err(cannot_write(target)(error)),
        };
        let Some(name) = target.file_name() else {
            return Err(Error::invalid_argument("the path has no file name").with("path", target.display()));
        };
        let path = target.with_file_name(format!(".{}.benthic-part", name.to_string_lossy()));
        let (file, existed) = claim(&path)?;
        if !(existed && resumable) {
            file.set_len(0).map_err(cannot_write(&path))?;
        }
        file.set_len(size_bytes).map_err(cannot_write(&path))?;
        let (may_have_data, written_bytes) = (existed && resumable, AtomicU64::new(0));
        Ok(PartialFile { file, path, target, may_have_data, keep: resumable, written_bytes })
    }

    /// Returns true if the file may already contain data of an earlier download.
    pub fn may_have_data(&self) -> bool {
        self.may_have_data
    }

    pub fn read(&self, extents: &[Extent]) -> Result<Vec<u8>> {
        gather(&self.file, extents).map_err(cannot_write(&self.path))
    }

    /// Writes the extents of a piece. `data` has the length of all extents.
    pub fn write(&self, extents: &[Extent], mut data: &[u8]) -> Result<()> {
        for extent in extents {
            let len = usize::try_from(extent.len_bytes).unwrap_or(usize::MAX).min(data.len());
            let (now, rest) = data.split_at(len);
            self.file.write_all_at(now, extent.offset_bytes).map_err(cannot_write(&self.path))?;
            data = rest;
        }
        let len_bytes: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
        let before_bytes = self.written_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if before_bytes / SYNC_BYTES < (before_bytes + len_bytes) / SYNC_BYTES {
            self.file.sync_data().map_err(cannot_write(&self.path))?;
        }
        Ok(())
    }

    /// Sets the modification time if one is given, syncs the file, and renames it to its target.
    /// The sync comes first, so that after a crash of the machine a file with the target's name is
    /// always complete.
    pub fn finish(mut self, modified_unix_ns: Option<i64>) -> Result<()> {
        if let Some(modified_unix_ns) = modified_unix_ns {
            let distance = Duration::from_nanos(modified_unix_ns.unsigned_abs());
            let modified = if modified_unix_ns < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance };
            self.file.set_modified(modified).map_err(cannot_write(&self.path))?;
        }
        self.file.sync_all().map_err(cannot_write(&self.path))?;
        fs::rename(&self.path, &self.target).map_err(cannot_write(&self.target))?;
        self.keep = true;
        let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(cannot_write(directory))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.keep {
            // A destructor cannot report an error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a partial file, creates it if it is missing, and locks it. Returns whether it existed
/// before. Another user may have put a file, a link or a pipe there, in a directory that several
/// users write to; such a file is not opened, or at least not changed.
fn claim(path: &Path) -> Result<(File, bool)> {
    let busy = || {
        let message = "another copy to this file is running; wait until it ends, or stop it";
        Error::busy(message).with("path", path.display())
    };
    let in_the_way = || {
        let message = "a download needs this name for its partial file; remove what has the name";
        Error::invalid_argument(message).with("path", path.display())
    };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    for _ in 0..CLAIMS_MAX {
        let existed = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() => true,
            Ok(_) => return Err(in_the_way()),
            Err(_) => false,
        };
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create_new(!existed).custom_flags(flags).open(path);
        // Another copy created or removed the file in between.
        let passing = if existed { io::ErrorKind::NotFound } else { io::ErrorKind::AlreadyExists };
        let file = match opened {
            Err(error) if error.kind() == passing => continue,
            opened => opened.map_err(cannot_write(path))?,
        };
        let found = file.metadata().map_err(cannot_write(path))?;
        if existed && (!found.is_file() || found.uid() != geteuid().as_raw() || found.nlink() > 1) {
            return Err(in_the_way());
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy()),
            // Some file systems do not support locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(cannot_write(path)(error)),
        }
        if is_at(&file, path) {
            return Ok((file, existed));
        }
    }
    Err(busy())
}

/// Returns whether the open file is still the one at `path`. A previous lock holder may have
/// completed it and renamed it to its target.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Reads the extents of a file and concatenates them.
///
/// # Errors
/// Those of the file system; `UnexpectedEof` for an extent beyond the end.
pub fn gather(file: &File, extents: &[Extent]) -> io::Result<Vec<u8>> {
    let len_bytes: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
    let mut data = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
    let mut at = 0;
    for extent in extents {
        let end = at + usize::try_from(extent.len_bytes).unwrap_or(usize::MAX);
        file.read_exact_at(&mut data[at..end], extent.offset_bytes)?;
        at = end;
    }
    Ok(data)
}

/// Returns whether a file matches the note: by size and time, or with `checksum` by content.
pub fn matches_note(path: &Path, layout: Layout, note: &Note, checksum: bool) -> Result<bool> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(false) };
    if !metadata.is_file() || metadata.len() != note.size_bytes {
        return Ok(false);
    }
    if !checksum {
        return Ok(modified_unix_ns(&metadata) == note.modified_unix_ns);
    }
    let file = File::open(path).map_err(cannot_read(path))?;
    let piece_digest =
        |piece| gather(&file, &layout.extents(note.size_bytes, piece)).map(|data| digest(&data));
    let digests: io::Result<Vec<String>> = (0..note.pieces).map(piece_digest).collect();
    Ok(digest_of_all(digests.map_err(cannot_read(path))?.iter().map(String::as_str)) == note.xxh3)
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
