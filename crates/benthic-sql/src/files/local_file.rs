//! One version of a local file.

use benthic_core::{Action, Error, Result};
use bytes::Bytes;
use std::fs::{File, Metadata, metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A regular file in the version that it had when the query found it. It is open only during a
/// read, because a query may name more files than a process may open.
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    version: Version,
}

/// The identity of a file's content: device, inode, size, and time of the last change.
type Version = (u64, u64, u64, i64, i64);

fn version(metadata: &Metadata) -> Version {
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec())
}

impl LocalFile {
    /// Finds a file that this process may read.
    ///
    /// # Errors
    /// `NotFound`; `PermissionDenied`; `InvalidArgument` if it is not a regular file; errors of the
    /// file system.
    pub fn find(path: PathBuf) -> Result<LocalFile> {
        // Opening a pipe would wait for its writer, so ask for the type first.
        let metadata = metadata(&path).map_err(|error| unreadable(error, &path))?;
        if !metadata.is_file() {
            let message = "only regular files can be queried; copy the data to a file first";
            return Err(Error::invalid_argument(message).with("path", path.display()));
        }
        File::open(&path).map_err(|error| unreadable(error, &path))?;
        Ok(LocalFile { path, version: version(&metadata) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn size_bytes(&self) -> u64 {
        self.version.2
    }

    /// Reads byte ranges, which must be in the file, each completely. Blocks.
    ///
    /// # Errors
    /// `Conflict` if the file has changed; errors of the file system.
    pub fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let failed = |error| unreadable(error, &self.path);
        let file = File::open(&self.path).map_err(failed)?;
        if version(&file.metadata().map_err(failed)?) != self.version {
            let message = "the file changed while the query ran; run it again";
            return Err(Error::conflict(message).with("path", self.path.display()));
        }
        let read = |range: &Range<u64>| {
            let mut data = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut data, range.start).map_err(failed)?;
            Ok(Bytes::from(data))
        };
        ranges.iter().map(read).collect()
    }
}

/// The error for a path that cannot be read, with the next step.
pub(super) fn unreadable(error: io::Error, path: &Path) -> Error {
    let found = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            return missing("no such file or directory", path);
        }
        io::ErrorKind::PermissionDenied => {
            Error::permission_denied("no permission to read this path; `ls -ld` shows who has it")
        }
        io::ErrorKind::InvalidInput => Error::invalid_argument("this is not a valid path").with_source(error),
        _ => Error::io(Action::Read, "cannot read this path", error),
    };
    found.with("path", path.display())
}

/// The error for a path or pattern that names nothing. It names the working directory, because
/// relative paths start there.
pub(super) fn missing(message: &str, path: &Path) -> Error {
    let here = std::env::current_dir().ok().filter(|_| path.is_relative());
    let hint =
        if here.is_some() { "; check the path from the working directory" } else { "; check the path" };
    let error = Error::not_found(format!("{message}{hint}")).with("path", path.display());
    here.into_iter().fold(error, |error, here| error.with("directory", here.display()))
}
