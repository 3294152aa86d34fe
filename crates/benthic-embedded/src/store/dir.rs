//! The directory of a store: its files, its format and its owner process.

use super::checksum::crc32c;
use super::kv::Kv;
use super::log::{EMPTY_LOG_BYTES, Log, sync_dir};
use benthic_core::{Action, Error, ErrorKind, Finding, Result};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The format version that this build writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;
const FORMAT_PREFIX: &str = "benthic store, format ";
/// The names that a store's directory may contain. If a directory without a format file contains
/// any other name, it is not a store's.
const NAMES: [&str; 9] =
    ["closed", "closed.new", "control.sock", "data", "format", "format.new", "kv", "lock", "log"];
const CLOSED_PREFIX: &str = "closed, next operation ";

/// File systems on which locks or syncs may be unreliable (statfs' magic numbers).
const NETWORK_FILE_SYSTEMS: [(u64, &str); 7] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "CephFS"),
    (0x5346_414f, "AFS"),
];

/// The file that the owner of a store locks, and that has the owner's pid.
pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("lock")
}

/// The end of the lock file's text, which follows the owner's pid.
pub(crate) fn owner_mark(owner: u64) -> String {
    format!(" {owner:016x}\n")
}

/// A store's directory, owned by this process or opened read-only.
pub(crate) struct Dir {
    path: PathBuf,
    /// Exclusive for the owner, shared if read-only. `None` if read-only and there is no lock file.
    lock: Option<File>,
    read_only: Option<ReadOnlyReason>,
    /// A number that no other owner has.
    owner: u64,
}

pub(crate) enum Ownership {
    Owned(Dir),
    ReadOnly(Dir),
    Busy,
}

/// The reason why a store is opened read-only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadOnlyReason {
    Mount,
    Permission,
}

impl ReadOnlyReason {
    fn of(error: &std::io::Error) -> Option<ReadOnlyReason> {
        match error.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem => Some(ReadOnlyReason::Mount),
            std::io::ErrorKind::PermissionDenied => Some(ReadOnlyReason::Permission),
            _ => None,
        }
    }
}

impl fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadOnlyReason::Mount => "its file system is mounted read-only",
            ReadOnlyReason::Permission => "this user has no permission to write to it",
        })
    }
}

impl Dir {
    /// Takes ownership of the directory. With `create`, makes a new store if there is none. Opens
    /// an existing store read-only if this process cannot write to the lock file.
    ///
    /// # Errors
    /// `NotFound` if there is no store, `InvalidArgument` if the directory is not a store,
    /// `Unsupported` for a newer format or a network file system, `PermissionDenied`.
    pub fn open(path: &Path, create: bool) -> Result<Ownership> {
        if create {
            match fs::create_dir_all(path) {
                // The path is not a directory. Reading it as one below returns the error.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => made.map_err(|e| io("the directory cannot be created", path, e))?,
            }
        }
        let entries = names(path)?;
        let has_format = entries.iter().any(|name| name == "format");
        if !has_format {
            let stranger = entries.iter().find(|name| !NAMES.contains(&name.as_str()));
            if let Some(stranger) = stranger {
                let message =
                    "the directory is not a store and is not empty; name an empty or a new directory";
                return Err(Error::invalid_argument(message)
                    .with("dir", path.display())
                    .with("found", stranger));
            }
            if !create {
                let message = "there is no store here; creating a pool creates the store";
                return Err(Error::not_found(message).with("dir", path.display()));
            }
        }
        check_file_system(path)?;
        let lock_path = lock_path(path);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let mut lock = match lock.map_err(|e| (ReadOnlyReason::of(&e), e)) {
            Ok(lock) => lock,
            Err((Some(reason), _)) if has_format => return Dir::open_read_only(path, reason),
            Err((_, e)) => return Err(io("the store cannot be locked", &lock_path, e)),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Ownership::Busy),
            Err(TryLockError::Error(e)) => return Err(io("the store cannot be locked", &lock_path, e)),
        }
        // Clients of the last owner that read the data file themselves must see that it is gone. On
        // a full disk the text may stay empty: then this owner's clients do not read the file.
        lock.set_len(0).map_err(|e| io("the store cannot be locked", &lock_path, e))?;
        let owner = RandomState::new().hash_one(std::process::id());
        let _ = write!(lock, "{}{}", std::process::id(), owner_mark(owner));
        let dir = Dir { path: path.to_owned(), lock: Some(lock), read_only: None, owner };
        // A previous owner may have created the store after the check above.
        if path.join("format").exists() {
            dir.check_format()?;
            // The process that created the store may have died before the file names were durable.
            sync_dir(path)?;
        } else {
            dir.make()?;
        }
        Ok(Ownership::Owned(dir))
    }

    /// Keeps owners out with a shared lock, which needs no permission to write.
    fn open_read_only(path: &Path, reason: ReadOnlyReason) -> Result<Ownership> {
        let lock_path = lock_path(path);
        let lock = match File::open(&lock_path) {
            Ok(lock) => match lock.try_lock_shared() {
                Ok(()) => Some(lock),
                Err(TryLockError::WouldBlock) => return Ok(Ownership::Busy),
                Err(TryLockError::Error(e)) => return Err(io("the store cannot be locked", &lock_path, e)),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => {
                let message = "the lock file cannot be read, so another process may be changing the store";
                return Err(io(message, &lock_path, e));
            }
        };
        let dir = Dir { path: path.to_owned(), lock, read_only: Some(reason), owner: 0 };
        dir.check_format()?;
        Ok(Ownership::ReadOnly(dir))
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only.is_some()
    }

    /// # Errors
    /// `PermissionDenied` if the store is opened read-only.
    pub fn check_writable(&self) -> Result<()> {
        let Some(reason) = self.read_only else { return Ok(()) };
        let message = format!("writes are disabled because the store is opened read-only: {reason}");
        Err(Error::permission_denied(message).with("dir", self.path.display()))
    }

    /// Checks the data that were read before this call: without a lock file an owner may have come.
    /// Every owner creates the file before it changes anything.
    ///
    /// # Errors
    /// `Unavailable` if there is an owner, or was one.
    pub fn check_no_owner(&self) -> Result<()> {
        if self.lock.is_some() || !self.path.join("lock").exists() {
            return Ok(());
        }
        let message = "another process opened the store for writing while this one read it; open it again";
        Err(Error::unavailable(message).with("dir", self.path.display()))
    }

    /// Returns true if readers, and no owner, hold the lock.
    pub fn is_held_by_readers(path: &Path) -> bool {
        File::open(path.join("lock")).is_ok_and(|lock| lock.try_lock_shared().is_ok())
    }

    /// Takes ownership of a damaged store's directory, for reading only. A damaged format file is
    /// added to `lost`.
    ///
    /// # Errors
    /// `Busy` if a process owns the directory, `NotFound`, `Unsupported` for a newer format.
    pub fn open_damaged(path: &Path, lost: &mut Vec<Finding>) -> Result<Dir> {
        let names = names(path)?;
        if !["format", "kv", "log", "data"].iter().any(|part| names.iter().any(|name| name == part)) {
            return Err(
                Error::not_found("there is no store here, and no part of one").with("dir", path.display())
            );
        }
        // Open it read-only, because a failing disk is often mounted read-only.
        let lock_path = lock_path(path);
        let lock = match File::open(&lock_path) {
            // An open store always has a lock file, so lock the directory instead.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => File::open(path),
            lock => lock,
        };
        let lock = lock.map_err(|e| io("the store cannot be locked", &lock_path, e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "a process owns the store; stop it first; the file lock has its pid";
                return Err(Error::busy(message).with("dir", path.display()));
            }
            Err(TryLockError::Error(e)) => return Err(io("the store cannot be locked", &lock_path, e)),
        }
        let dir = Dir { path: path.to_owned(), lock: Some(lock), read_only: None, owner: 0 };
        match dir.check_format() {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
            Err(error) => lost.push(Finding { object: None, message: error.to_string() }),
            Ok(()) => {}
        }
        Ok(dir)
    }

    pub fn owner(&self) -> u64 {
        self.owner
    }

    pub fn kv(&self) -> PathBuf {
        self.path.join("kv")
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub fn release(&self) -> Result<()> {
        let unlocked = self.lock.as_ref().map_or(Ok(()), File::unlock);
        unlocked.map_err(|e| io("the store cannot be unlocked", &self.path, e))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores the end of the log at the time of closing. The log only grows from there, so even an
    /// old note shows that a part of the log is missing. The note is optional.
    pub fn note_closed(&self, next_lsn: u64) -> Result<()> {
        let (path, temporary) = (self.path.join("closed"), self.path.join("closed.new"));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(closed_text(next_lsn).as_bytes())?;
            file.sync_data()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|e| io("the end of the log cannot be noted", &path, e))
    }

    /// The sequence number of the last closing note, or 0 without a note. The log must contain all
    /// operations before it.
    pub fn closed_lsn(&self) -> u64 {
        let path = self.path.join("closed");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return 0,
            Err(_) => String::new(),
        };
        let number = text.strip_prefix(CLOSED_PREFIX).and_then(|rest| rest.split(',').next()?.parse().ok());
        number.filter(|lsn| closed_text(*lsn) == text).unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "the note of the log's end is damaged; nothing else depends on it");
            0
        })
    }

    pub fn disk_bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let mut total = 0;
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                    Ok(metadata) => total += metadata.blocks() * 512,
                    Err(_) => {}
                }
            }
        }
        total
    }

    fn check_format(&self) -> Result<()> {
        let path = self.path.join("format");
        let text = fs::read(&path).map_err(|e| io("the store's format cannot be read", &path, e))?;
        let text = String::from_utf8_lossy(&text);
        let version =
            text.strip_prefix(FORMAT_PREFIX).and_then(|rest| rest.strip_suffix('\n')?.parse::<u32>().ok());
        match version {
            Some(FORMAT_VERSION) => Ok(()),
            Some(newer) if newer > FORMAT_VERSION => {
                Err(Error::unsupported("a newer version of Benthic wrote the store; use that version")
                    .with("dir", self.path.display())
                    .with("format", newer)
                    .with("format_known", FORMAT_VERSION))
            }
            _ => Err(Error::corrupt("the store's format file is damaged").with("path", path.display())),
        }
    }

    /// Checks that a directory without a format file contains only leftovers of an unfinished
    /// creation.
    fn check_unused(&self) -> Result<()> {
        let len_bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        // Use the largest file instead of the sum: after a power cut one segment may have two
        // names.
        let folder_bytes = |folder: &Path| -> u64 {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            files.map(|entry| len_bytes(&entry.path())).max().unwrap_or(0)
        };
        let used = len_bytes(&self.data()) > 0
            || folder_bytes(&self.log()) > EMPTY_LOG_BYTES
            || folder_bytes(&self.kv().join("tables")) > 0;
        if used {
            return Err(Error::corrupt(
                "the store's format file is missing; write the line \"benthic store, format 1\" into it",
            )
            .with("path", self.path.join("format").display()));
        }
        Ok(())
    }

    /// Creates an empty store. The format file is written last, because it marks the store as
    /// complete.
    fn make(&self) -> Result<()> {
        self.check_unused()?;
        // Leftovers of a process that died while it created a store.
        let removed = |path: &Path, outcome: std::io::Result<()>| match outcome {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(io("the remains of an earlier store cannot be removed", path, e))
            }
            _ => Ok(()),
        };
        for folder in [self.kv(), self.log()] {
            removed(&folder, fs::remove_dir_all(&folder))?;
        }
        // Remove the closing note of a deleted store. With it, the new store's log would look
        // incomplete.
        let note = self.path.join("closed");
        removed(&note, fs::remove_file(&note))?;
        fs::create_dir(self.log()).map_err(|e| io("the log cannot be created", &self.log(), e))?;
        Log::create(&self.log())?;
        drop(Kv::create(&self.kv(), 0)?);
        let made = File::create(self.data()).and_then(|data| data.sync_all());
        made.map_err(|e| io("the data file cannot be created", &self.data(), e))?;
        let (path, temporary) = (self.path.join("format"), self.path.join("format.new"));
        let write = || {
            let mut file = File::create(&temporary)?;
            writeln!(file, "{FORMAT_PREFIX}{FORMAT_VERSION}")?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        sync_dir(&self.path)?;
        write().map_err(|e| io("the store cannot be created", &path, e))?;
        sync_dir(&self.path)?;
        if let Some(parent) = self.path.canonicalize().ok().as_deref().and_then(Path::parent) {
            // The directory itself may be new.
            let _ = sync_dir(parent);
        }
        Ok(())
    }
}

fn closed_text(next_lsn: u64) -> String {
    format!("{CLOSED_PREFIX}{next_lsn}, checksum {:08x}\n", crc32c(&[&next_lsn.to_le_bytes()]))
}

fn names(path: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found("there is no store here; creating a pool creates the store")
                .with("dir", path.display())
        }
        std::io::ErrorKind::NotADirectory => {
            Error::invalid_argument("a store is a directory, and this is a file").with("dir", path.display())
        }
        _ => io("the directory cannot be read", path, e),
    })?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn check_file_system(path: &Path) -> Result<()> {
    let Ok(stat) = rustix::fs::statfs(path) else { return Ok(()) };
    let magic = stat.f_type as u64 & 0xffff_ffff;
    match NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic) {
        None => Ok(()),
        Some((_, name)) => Err(Error::unsupported(
            "locks and syncs are not reliable on a network file system; use a local disk for the store",
        )
        .with("dir", path.display())
        .with("file_system", name)),
    }
}

fn io(message: &str, path: &Path, source: std::io::Error) -> Error {
    let error = Error::io(Action::Admin, message, source).with("path", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => {
            error.with("next", "check who owns the directory, its mode, and how it is mounted")
        }
        _ => error,
    }
}
