//! A history file that is kept between runs: reads have a size limit, and each write replaces the
//! whole file atomically.

use benthic_core::{Action, Error, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Reads a whole file; `None` if it does not exist.
///
/// # Errors
/// `InvalidArgument` if the path is not a regular file, `LimitExceeded` if the file exceeds
/// `size_bytes_max`, and errors of the file system.
pub fn read(file: &Path, size_bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let cannot =
        |error| Error::io(Action::Admin, "the history cannot be read", error).with("file", file.display());
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
        Ok(metadata) if !metadata.is_file() => {
            let message = "this is not a regular file; name another one, or one that does not exist yet";
            return Err(Error::invalid_argument(message).with("file", file.display()));
        }
        Ok(metadata) if metadata.len() > size_bytes_max => {
            let message = "the history file is too large; name another file";
            return Err(Error::limit_exceeded(message)
                .with("file", file.display())
                .with("size_bytes_max", size_bytes_max));
        }
        Ok(_) => {}
    }
    fs::read(file).map(Some).map_err(cannot)
}

/// Replaces a file atomically: after a crash, the file has either the old or the new content.
///
/// # Errors
/// Errors of the file system.
pub fn replace(file: &Path, content: &[u8]) -> Result<()> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let replaced = || -> io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(dir)?;
        temporary.write_all(content)?;
        temporary.as_file().sync_all()?;
        temporary.persist(file).map_err(|error| error.error)?;
        File::open(dir)?.sync_all()
    };
    replaced().map_err(|error| {
        Error::io(Action::Admin, "the history cannot be written", error).with("file", file.display())
    })
}
