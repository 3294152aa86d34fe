//! Local files and standard input. Reads return whole files, up to the object size limit. Writes
//! replace a file completely or not at all. All functions block, except [`read_stdin`]
//! and [`read_line`].

use crate::exit::{Failure, Outcome};
use crate::interrupt;
use benthic_core::error::errno;
use benthic_core::{Action, Error, ErrorKind, Result, limits};
use bytes::Bytes;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufRead, Read, StdinLock, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::{NamedTempFile, TempPath};

/// The end of the name of a file that is not complete.
const PART_SUFFIX: &str = ".benthic-part";
/// Limit on the length of the file's name within the name of a part, so that it does not become too
/// long.
const PART_NAME_BYTES_MAX: usize = 200;

/// Limit of a line of standard input, in bytes.
const LINE_BYTES_MAX: u64 = 4_096;

/// A file's content and modification time.
pub struct Content {
    pub data: Bytes,
    /// Modification time in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: i64,
}

/// Makes the error of a failed access to a local file: what was tried, the cause in plain words,
/// and the path.
pub fn failed<'a>(tried: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |error| {
        // Some libraries wrap the system's error and keep only its kind, whose own text is
        // unhelpful.
        let number = error.raw_os_error().or_else(|| match error.kind() {
            io::ErrorKind::NotFound => Some(errno::ENOENT),
            io::ErrorKind::PermissionDenied => Some(errno::EACCES),
            io::ErrorKind::ReadOnlyFilesystem => Some(errno::EROFS),
            io::ErrorKind::StorageFull => Some(errno::ENOSPC),
            io::ErrorKind::QuotaExceeded => Some(errno::EDQUOT),
            _ => None,
        });
        let (kind, cause) = match number {
            Some(number) => {
                let cause = io::Error::from_raw_os_error(number).to_string().to_lowercase();
                let cause = cause.split(" (os error").next().unwrap_or_default().to_owned();
                (ErrorKind::from_errno(number, Action::Admin), cause)
            }
            None => (ErrorKind::Internal, error.to_string()),
        };
        Error::new(kind, format!("{tried}: {cause}")).with("path", path.display())
    }
}

/// Reads a whole file, up to the object size limit.
///
/// # Errors
/// `InvalidArgument` for a directory; `LimitExceeded` if the file is larger than an object may be;
/// `Conflict` if the file changed during the read; those of the file system.
pub fn read_file(path: &Path) -> Result<Content> {
    let failed = failed("cannot read the file", path);
    let mut file = File::open(path).map_err(&failed)?;
    let before = file.metadata().map_err(&failed)?;
    if before.is_dir() {
        let message = "this is a directory; `benthic cp -r` copies directories";
        return Err(Error::invalid_argument(message).with("path", path.display()));
    }
    check_size(before.len())?;
    let data = read_limited(&mut file, before.len(), &failed)?;
    let after = file.metadata().map_err(failed)?;
    let unchanged = (before.len(), modified_unix_ns(&before)) == (after.len(), modified_unix_ns(&after));
    if before.is_file() && !(unchanged && data.len() as u64 == before.len()) {
        let message = "the file changed while it was read; repeat the command";
        return Err(Error::conflict(message).with("path", path.display()));
    }
    Ok(Content { data, modified_unix_ns: modified_unix_ns(&before) })
}

/// Reads standard input to its end, up to the object size limit. Returns early after a signal.
///
/// # Errors
/// `LimitExceeded` if the input is larger than an object may be; [`Failure::Interrupted`] after a
/// signal.
pub async fn read_stdin() -> Outcome<Bytes> {
    from_stdin(|stdin| read_limited(stdin, 0, failed("cannot read standard input", Path::new("-")))).await
}

/// Reads a line of standard input, without its end. Returns early after a signal. A line that is
/// too long for any name is cut off.
///
/// # Errors
/// [`Failure::Interrupted`] after a signal; those of the file system.
pub async fn read_line() -> Outcome<String> {
    from_stdin(|stdin| {
        let mut line = Vec::new();
        stdin
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .map_err(failed("cannot read standard input", Path::new("-")))?;
        Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    })
    .await
}

async fn from_stdin<T: Send + 'static>(
    read: impl FnOnce(&mut StdinLock<'_>) -> Result<T> + Send + 'static,
) -> Outcome<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A blocking read from a terminal cannot be cancelled. A detached thread performs it, so that
    // the process can exit without waiting for it.
    std::thread::spawn(move || sender.send(read(&mut io::stdin().lock())));
    tokio::select! {
        read = receiver => match read {
            Ok(read) => Ok(read?),
            Err(_) => Err(Error::internal("the thread that read stdin ended early").into()),
        },
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}

fn read_limited(
    from: &mut impl Read,
    expected_bytes: u64,
    failed: impl Fn(io::Error) -> Error,
) -> Result<Bytes> {
    let mut data = Vec::with_capacity(usize::try_from(expected_bytes).unwrap_or(0));
    from.take(limits::OBJECT_BYTES_MAX + 1).read_to_end(&mut data).map_err(failed)?;
    check_size(data.len() as u64)?;
    Ok(Bytes::from(data))
}

/// Fails with `LimitExceeded` if a file of this size does not fit into an object.
pub fn check_size(len_bytes: u64) -> Result<()> {
    if len_bytes <= limits::OBJECT_BYTES_MAX {
        return Ok(());
    }
    Err(Error::limit_exceeded(
        "an object holds at most 128 MiB; `benthic cp --stripe` spreads a file over several objects",
    )
    .with("len_bytes_max", limits::OBJECT_BYTES_MAX))
}

/// The file system and inode number of a file or directory. They are equal for all paths to it,
/// also through other mounts. `None` if it cannot be found.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Whether the path is the directory or inside it. The last parts of the path need not exist.
pub fn is_inside(path: &Path, directory: &Path) -> bool {
    let real = path.ancestors().find_map(|part| {
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        fs::canonicalize(part).ok()
    });
    real.is_some_and(|real| real.starts_with(directory))
}

/// The local path of an object below a directory.
///
/// # Errors
/// `InvalidArgument` for a name that leads outside the directory.
pub fn local_path(directory: &Path, name: &str) -> Result<PathBuf> {
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        let message = "the object's name is not a path inside the destination; fetch it with `benthic get`";
        return Err(Error::invalid_argument(message).with("name", name));
    }
    Ok(directory.join(name))
}

/// Whether a file of this name belongs to an unfinished copy to a file.
pub fn is_part(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(PART_SUFFIX.as_bytes())
}

/// A file's modification time in nanoseconds since 1970 (UTC).
pub fn modified_unix_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

/// Whether the path names an open file of the program. Such a file must not be replaced.
fn is_descriptor(path: &Path) -> bool {
    let directories = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    directories.iter().any(|directory| path.starts_with(directory))
        || ["/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Opens a part, or creates it, and locks it. Returns whether the file system has locks. Another
/// user may have put a file, a link or a pipe there, in a directory that several users write to;
/// such a part is not opened.
fn claim(part: &Path, mode: u32) -> io::Result<(File, bool)> {
    let in_the_way = || {
        let message = format!("{} is in the way; remove it", part.display());
        io::Error::new(io::ErrorKind::AlreadyExists, message)
    };
    if fs::symlink_metadata(part).is_ok_and(|found| !found.is_file()) {
        return Err(in_the_way());
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(mode).custom_flags(flags).open(part)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() || found.nlink() > 1 {
        return Err(in_the_way());
    }
    let has_locks = match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
        Err(TryLockError::Error(error)) => {
            let lacks_locks = error.kind() == io::ErrorKind::Unsupported
                || error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error());
            if !lacks_locks {
                return Err(error);
            }
            false
        }
    };
    // Another program may have completed the part since it was opened.
    match fs::symlink_metadata(part) {
        Ok(named) if named.ino() == found.ino() => Ok((file, has_locks)),
        _ => Err(io::ErrorKind::ResourceBusy.into()),
    }
}

/// Removes the parts with this prefix that no program writes, except for one.
fn remove_parts(parent: &Path, prefix: &str, except: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(PART_SUFFIX));
        let is_part = number.is_some_and(|text| text.len() == 16 && u64::from_str_radix(text, 16).is_ok());
        if is_part
            && path != except
            && let Ok((_locked, true)) = claim(&path, 0o600)
        {
            // If this fails, the part stays until the next call.
            let _ = fs::remove_file(path);
        }
    }
}

/// A new file that appears under its name only when it is complete. Dropping it earlier leaves
/// nothing behind, except for a [`NewFile::resume`] one.
pub enum NewFile {
    /// A temporary file in the target's directory.
    Regular {
        temporary: NamedTempFile,
        /// The path that [`NewFile::finish`] renames it to.
        target: PathBuf,
    },
    /// A device, a pipe, or an open file of the program, such as `/dev/stdout`. Data goes to it
    /// directly.
    Special { file: File, path: PathBuf },
}

impl NewFile {
    /// Creates a file. An existing file keeps its content until [`NewFile::finish`]. If `path` is a
    /// symbolic link to a file, the link stays and the file that it refers to is replaced. The new
    /// file has the permissions of the one that it replaces.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory; `NotFound` if the parent directory does not exist; those
    /// of the file system.
    pub fn create(path: &Path) -> Result<NewFile> {
        NewFile::create_as(path, |parent, _, mode| {
            tempfile::Builder::new()
                .prefix(".")
                .suffix(PART_SUFFIX)
                .permissions(Permissions::from_mode(mode))
                .tempfile_in(parent)
        })
    }

    /// As [`NewFile::create`], but continues the part that an earlier program has left with this
    /// number, which identifies the content. Returns the part's length, 0 for a new file, a device
    /// or a pipe. The part stays when the file is dropped, until [`NewFile::discard`] or the next
    /// call for this path with another number.
    ///
    /// # Errors
    /// Those of [`NewFile::create`]; `Busy` if another program writes the same part.
    pub fn resume(path: &Path, number: u64) -> Result<(NewFile, u64)> {
        let mut len_bytes = 0;
        let file = NewFile::create_as(path, |parent, target, mode| {
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            let prefix = format!(".{}.", &name[..name.floor_char_boundary(PART_NAME_BYTES_MAX)]);
            let part = parent.join(format!("{prefix}{number:016x}{PART_SUFFIX}"));
            remove_parts(parent, &prefix, &part);
            let (file, _) = claim(&part, mode)?;
            // Only a file that is replaced has permissions to keep.
            if target.exists() {
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            len_bytes = file.metadata()?.len();
            let mut temporary = NamedTempFile::from_parts(file, TempPath::try_from_path(part)?);
            temporary.disable_cleanup(true);
            Ok(temporary)
        })?;
        Ok((file, len_bytes))
    }

    /// Creates a file; `open` creates it in a directory, for a target, with permissions.
    fn create_as(
        path: &Path,
        open: impl FnOnce(&Path, &Path, u32) -> io::Result<NamedTempFile>,
    ) -> Result<NewFile> {
        let failed = failed("cannot create the file", path);
        let mut mode = 0o666;
        let target = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Error::invalid_argument("this is a directory; name a file in it")
                    .with("path", path.display()));
            }
            Ok(metadata) if metadata.is_file() && is_descriptor(path) => {
                let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
                return Ok(NewFile::Special { file, path: path.to_owned() });
            }
            Ok(metadata) if metadata.is_file() => {
                mode = metadata.mode() & 0o777;
                fs::canonicalize(path).map_err(&failed)?
            }
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                return Ok(NewFile::Special { file, path: path.to_owned() });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed(error)),
        };
        let parent = parent_of(&target);
        if !parent.is_dir() {
            return Err(Error::not_found("there is no such directory; create it first")
                .with("path", parent.display()));
        }
        // The original error names the temporary file, which means nothing to the user.
        let temporary = open(parent, &target, mode).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let message = "no permission to create a file in this directory";
                Error::permission_denied(message).with("path", parent.display())
            }
            io::ErrorKind::AlreadyExists => Error::already_exists(error.to_string()),
            io::ErrorKind::ResourceBusy => {
                let message = "another program writes this file; wait until it has ended";
                Error::busy(message).with("path", path.display())
            }
            _ => failed(error),
        })?;
        Ok(NewFile::Regular { temporary, target })
    }

    /// Writes a whole file. It replaces an existing file when it is complete.
    pub fn write_whole(path: &Path, data: &[u8]) -> Result<()> {
        let mut file = NewFile::create(path)?;
        file.write(data)?;
        file.finish(None)
    }

    /// As [`NewFile::write_whole`], and durable: after a power cut, the file has the old or the new
    /// content.
    ///
    /// # Errors
    /// `InvalidArgument` for a device or pipe; those of [`NewFile::create`].
    pub fn write_durable(path: &Path, data: &[u8]) -> Result<()> {
        let mut file = NewFile::create(path)?;
        file.write(data)?;
        if !file.is_regular() {
            let message = "this is a device or a pipe; name a file";
            return Err(Error::invalid_argument(message).with("path", path.display()));
        }
        file.finish_durably()
    }

    /// Appends bytes.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        let (written, path) = match self {
            NewFile::Regular { temporary, target } => (temporary.write_all(data), target),
            NewFile::Special { file, path } => (file.write_all(data), path),
        };
        written.map_err(failed("cannot write the file", path))
    }

    /// Appends zeros. A regular file does not store them.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_hole(&mut self, len_bytes: u64) -> Result<()> {
        use std::io::Seek;
        match self {
            NewFile::Regular { temporary, target } => {
                let end = temporary.stream_position().map(|at| at + len_bytes);
                let extended = end.and_then(|end| {
                    temporary.as_file().set_len(end)?;
                    temporary.seek(io::SeekFrom::Start(end))
                });
                extended.map(|_| ()).map_err(failed("cannot write the file", target))
            }
            NewFile::Special { file, path } => {
                let written = io::copy(&mut io::repeat(0).take(len_bytes), file);
                written.map(|_| ()).map_err(failed("cannot write the file", path))
            }
        }
    }

    /// Discards the data behind a length.
    ///
    /// # Errors
    /// `Unsupported` for a device or pipe; those of the file system.
    pub fn truncate(&mut self, len_bytes: u64) -> Result<()> {
        use std::io::Seek;
        match self {
            NewFile::Regular { temporary, target } => {
                let cut = temporary.as_file().set_len(len_bytes);
                let cut = cut.and_then(|()| temporary.seek(io::SeekFrom::Start(len_bytes)));
                cut.map(|_| ()).map_err(failed("cannot write the file", target))
            }
            NewFile::Special { .. } => Err(Error::unsupported(
                "cannot discard data that a device or pipe has received; write to a file",
            )),
        }
    }

    /// Makes the data written so far durable; has no effect on a device or pipe.
    pub fn sync(&self) -> Result<()> {
        let NewFile::Regular { temporary, target } = self else { return Ok(()) };
        temporary.as_file().sync_data().map_err(failed("cannot write the file", target))
    }

    /// Whether [`NewFile::resume`] can continue the file.
    pub fn is_regular(&self) -> bool {
        matches!(self, NewFile::Regular { .. })
    }

    /// Removes the part of the file.
    pub fn discard(self) {
        if let NewFile::Regular { mut temporary, .. } = self {
            temporary.disable_cleanup(false);
        }
    }

    /// As [`NewFile::finish`], and durable: after a power cut, the file has the old or the new
    /// content.
    pub fn finish_durably(self) -> Result<()> {
        let NewFile::Regular { temporary, target } = &self else { return Ok(()) };
        temporary.as_file().sync_all().map_err(failed("cannot write the file", target))?;
        let parent = parent_of(target).to_owned();
        self.finish(None)?;
        // The new name is durable when the directory is.
        let synced = File::open(&parent).and_then(|directory| directory.sync_all());
        synced.map_err(failed("cannot write the directory", &parent))
    }

    /// Sets the modification time if one is given, and renames the file to its target.
    pub fn finish(self, modified_unix_ns: Option<i64>) -> Result<()> {
        let NewFile::Regular { temporary, target } = self else { return Ok(()) };
        let failed = failed("cannot complete the file", &target);
        if let Some(modified_unix_ns) = modified_unix_ns {
            let distance = Duration::from_nanos(modified_unix_ns.unsigned_abs());
            let modified = if modified_unix_ns < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance };
            temporary.as_file().set_modified(modified).map_err(&failed)?;
        }
        temporary.persist(&target).map(|_| ()).map_err(|error| failed(error.error))
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
