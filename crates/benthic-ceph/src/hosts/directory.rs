//! A directory of class libraries on a host: its contents, and their changes.
//!
//! `host.sh` runs on the host. Its arguments are quoted words ahead of it, so it needs no shell but
//! `sh`, and other users of the host do not see them. Its statuses are in [`failure`], and its
//! output in [`Directory::parse`].

use super::ssh::{Ended, Program, Ssh};
use benthic_core::names::shell_word;
use benthic_core::{Error, ErrorKind, Reason, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

const SCRIPT: &str = include_str!("host.sh");
/// The first line of the script's output. Output of a host before it belongs to the login.
const GREETING: &str = "benthic host 1";
/// The script's word for a file that does not exist.
const NONE: &str = "none";
const PATH_BYTES_MAX: usize = 1024;

/// A library to install, or its name.
pub struct Library {
    /// NAME of `libcls_NAME.so`.
    pub name: String,
    pub content: Vec<u8>,
    pub sha256: String,
}

impl Library {
    pub fn new(name: &str, content: Vec<u8>) -> Library {
        let sha256 = Sha256::digest(&content).iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        Library { name: name.to_owned(), content, sha256 }
    }

    fn file(&self) -> String {
        format!("libcls_{}.so", self.name)
    }

    /// The architecture for which the library is built, as `uname -m` calls it; `None` for one that
    /// is not known here.
    pub fn arch(&self) -> Option<&'static str> {
        // e_machine of the ELF header.
        match self.content.get(18..20)? {
            [0x3e, 0] => Some("x86_64"),
            [0xb7, 0] => Some("aarch64"),
            [0xf3, 0] => Some("riscv64"),
            _ => None,
        }
    }
}

/// A process of the host that uses a file of the library's name in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub pid: u32,
    /// N of `osd.N`; `None` if the process is no OSD.
    pub osd: Option<i32>,
    /// Whether the file has been replaced since the process opened it.
    pub is_older: bool,
}

/// A directory of libraries on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    pub arch: String,
    /// Without symbolic links.
    pub path: String,
    pub is_writable: bool,
    pub free_bytes: u64,
    /// SHA-256 of the library in it; `None` if there is none.
    pub sha256: Option<String>,
    /// The build that the library in it names; empty if it names none.
    pub build: String,
    /// The last installation, if it was not undone.
    pub record: Option<Record>,
    pub loaded: Vec<Loaded>,
}

/// The last installation in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub new: String,
    /// The library before it; `None` if there was none.
    pub old: Option<String>,
}

impl Directory {
    /// Reads the state of a directory on a host. `is_stopped` as for [`Ssh::run`].
    ///
    /// # Errors
    /// Those of [`Ssh::run`]; `NotFound` if the host has no such directory, `Unsupported` if it
    /// lacks a program.
    pub fn inspect(
        ssh: &Ssh,
        host: &str,
        dir: &str,
        library: &Library,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Directory> {
        run(ssh, host, ["inspect", dir, &library.file(), NONE, NONE, "0"], &[], is_stopped)
    }

    /// Installs a library in this directory, unless it has it, and returns the directory as it is
    /// then. Atomic for OSDs and durable; the library that was there is kept for
    /// [`undo`](Directory::undo).
    ///
    /// # Errors
    /// Those of [`inspect`](Directory::inspect); `PermissionDenied` for a read-only directory,
    /// `LimitExceeded` for a full disk, `Busy` while another command changes the directory,
    /// `Conflict` if the library in it changed since `self` was read; `OutcomeUnknown` if the
    /// connection fails: the library is installed or not.
    pub fn install(
        &self,
        ssh: &Ssh,
        host: &str,
        library: &Library,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Directory> {
        let old = self.sha256.as_deref().unwrap_or(NONE);
        let size = library.content.len().to_string();
        let args = ["install", &self.path, &library.file(), &library.sha256, old, &size];
        run(ssh, host, args, &library.content, is_stopped)
    }

    /// Returns to the library before the last installation, or removes the library if there was
    /// none, and returns the directory as it is then. Does nothing without a
    /// [`record`](Directory::record).
    ///
    /// # Errors
    /// As [`install`](Directory::install); `Conflict` if the library is not the one that was
    /// installed last, and `Corrupt` if the previous one is missing or damaged.
    pub fn undo(
        &self,
        ssh: &Ssh,
        host: &str,
        library: &Library,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Directory> {
        run(ssh, host, ["undo", &self.path, &library.file(), NONE, NONE, "0"], &[], is_stopped)
    }

    /// Parses the script's output; `None` if it is not complete.
    fn parse(output: &str) -> Option<Directory> {
        let mut found = Directory::default();
        let lines = output.lines().skip_while(|line| *line != GREETING).skip(1);
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "arch" => value.clone_into(&mut found.arch),
                "dir" => value.clone_into(&mut found.path),
                "writable" => found.is_writable = value == "yes",
                "free_bytes" => found.free_bytes = value.parse().unwrap_or(0),
                "file" => found.sha256 = some(value),
                "record" => {
                    let (new, old) = value.split_once(' ')?;
                    found.record = some(new).map(|new| Record { new, old: some(old) });
                }
                "build" => value.clone_into(&mut found.build),
                "process" => found.loaded.push(process(value)?),
                "end" => return Some(found),
                _ => return None,
            }
        }
        None
    }
}

fn some(value: &str) -> Option<String> {
    (value != NONE).then(|| value.to_owned())
}

/// `PID OSD current|older`.
fn process(line: &str) -> Option<Loaded> {
    let mut words = line.split(' ');
    let (pid, osd, state) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    Some(Loaded { pid, osd: osd.parse().ok(), is_older: state == "older" })
}

fn run(
    ssh: &Ssh,
    host: &str,
    args: [&str; 6],
    input: &[u8],
    is_stopped: &dyn Fn() -> bool,
) -> Result<Directory> {
    let dir = args[1];
    check_path(dir)?;
    let words: Vec<String> = args.iter().map(|word| shell_word(word)).collect();
    let text = format!("set -- {}\n{SCRIPT}", words.join(" "));
    let ended = ssh.run(host, &Program { text, input }, is_stopped).map_err(|error| match error.kind() {
        // The program may have begun.
        ErrorKind::Unavailable if args[0] != "inspect" => error.with_kind(ErrorKind::OutcomeUnknown),
        _ => error,
    })?;
    let named = |error: Error| error.with("host", host).with("dir", dir);
    match ended.status.code() {
        Some(0) => Directory::parse(&ended.stdout)
            .ok_or_else(|| named(Error::unavailable("the host's answer is not complete"))),
        status => Err(named(failure(status.unwrap_or(-1), &ended))),
    }
}

/// The error for an exit status of the script.
fn failure(status: i32, ended: &Ended) -> Error {
    if !ended.stdout.lines().any(|line| line == GREETING) {
        let message = format!(
            "cannot become root on the host: {}; connect as root, or allow the user `sudo` without a password",
            if ended.stderr_line.is_empty() { "no reason given" } else { &ended.stderr_line }
        );
        return Error::permission_denied(message).with("status", status);
    }
    let error = |kind| Error::new(kind, ended.stderr_line.clone());
    match status {
        70 => error(ErrorKind::Unsupported),
        71 => error(ErrorKind::NotFound),
        73 => error(ErrorKind::PermissionDenied),
        74 => Error::because(Reason::StoreFull, ended.stderr_line.clone()),
        75 => error(ErrorKind::Busy),
        76 => error(ErrorKind::Corrupt),
        78 => error(ErrorKind::Conflict),
        // 72: a system call failed. 77: the input ended early.
        72 | 77 => error(ErrorKind::Unavailable),
        _ => Error::unavailable(format!("the script failed: {}", ended.stderr_line)).with("status", status),
    }
}

/// Checks a directory that a cluster's setting or a host names.
fn check_path(dir: &str) -> Result<()> {
    if dir.starts_with('/') && dir.len() <= PATH_BYTES_MAX && !dir.contains(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid_argument("osd_class_dir is no absolute path").with("dir", dir))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
