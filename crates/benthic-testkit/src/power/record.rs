//! Runs a process under the recorder and parses the record.

use std::ffi::OsString;
use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const SOURCE: &str = include_str!("../../power/record.c");

pub struct Recorder {
    folder: PathBuf,
    library: PathBuf,
}

/// A fault to inject: the `nth` call of a `kind` (a letter of `record.c`) fails with `errno`.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: char,
    /// Counted from 1.
    pub nth: u32,
    pub errno: i32,
}

/// All changes of a process below one directory, in order.
pub struct Record {
    pub events: Vec<Event>,
    pub status: ExitStatus,
    pub stderr: String,
}

/// One recorded call of a thread.
#[derive(Debug)]
pub struct Event {
    pub thread: u32,
    pub call: Call,
}

/// A recorded call. Paths are relative to the recorded directory.
#[derive(Debug)]
pub enum Call {
    Open { fd: i32, path: String, created: bool, truncated: bool },
    Close { fd: i32 },
    Duplicate { fd: i32, twin: i32 },
    Write { fd: i32, offset_bytes: u64, data: Vec<u8> },
    SetSize { fd: i32, size_bytes: u64 },
    Allocate { fd: i32, mode: i32, offset_bytes: u64, len_bytes: u64 },
    Rename { from: String, to: String },
    Unlink { path: String },
    MakeDir { path: String },
    RemoveDir { path: String },
    SyncBegin { fd: i32, sync: u64 },
    SyncEnd { fd: i32, sync: u64, errno: i32 },
    Mark { text: String },
    Fault { kind: char, errno: i32 },
}

impl Recorder {
    /// Compiles the recorder into `folder`, which must lie outside the recorded directory.
    ///
    /// # Errors
    /// If the C compiler `cc` is missing or fails.
    pub fn build(folder: &Path) -> Result<Recorder> {
        let (source, library) = (folder.join("record.c"), folder.join("record.so"));
        fs::write(&source, SOURCE)?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-D_GNU_SOURCE", "-o"])
            .args([&library, &source])
            .args(["-ldl", "-lpthread"])
            .output()?;
        if !compiled.status.success() {
            return Err(Error::other(String::from_utf8_lossy(&compiled.stderr).into_owned()));
        }
        Ok(Recorder { folder: folder.to_owned(), library })
    }

    /// Runs `command` to completion and returns the record of its changes below `dir`. The process
    /// finds the path of the marks file in `BENTHIC_POWER_MARKS` and the path of the directory in
    /// `BENTHIC_POWER_DIR`.
    ///
    /// # Errors
    /// If the process cannot be started or the record is incomplete.
    pub fn run(&self, mut command: Command, dir: &Path, name: &str, fault: Option<Fault>) -> Result<Record> {
        let dir = dir.parent().unwrap_or(dir).canonicalize()?.join(dir.file_name().unwrap_or_default());
        let record = self.folder.join(format!("{name}.record"));
        command
            .env("LD_PRELOAD", &self.library)
            .env("BENTHIC_POWER_DIR", &dir)
            .env("BENTHIC_POWER_RECORD", &record)
            .env("BENTHIC_POWER_MARKS", self.folder.join("marks"));
        if let Some(Fault { kind, nth, errno }) = fault {
            command.env("BENTHIC_POWER_FAULT", format!("{kind}:{nth}:{errno}"));
        }
        let ended = command.output()?;
        let prefix: OsString = dir.into();
        let bytes = fs::read(&record)?;
        fs::remove_file(&record)?;
        let events =
            parse(&bytes, &prefix.to_string_lossy()).ok_or_else(|| Error::other("a malformed record"))?;
        Ok(Record {
            events,
            status: ended.status,
            stderr: String::from_utf8_lossy(&ended.stderr).into_owned()
                + &String::from_utf8_lossy(&ended.stdout),
        })
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_ne_bytes)
    }
}

/// Parses a sequence of `struct line` of `record.c`, each followed by its payload.
fn parse(bytes: &[u8], prefix: &str) -> Option<Vec<Event>> {
    let mut input = Input(bytes);
    let mut events = Vec::new();
    while !input.0.is_empty() {
        let (kind, thread, fd) = (input.u32()?, input.u32()?, input.u32()? as i32);
        let lens = [input.u32()?, input.u32()?, input.u32()?];
        let (a, b) = (input.i64()?, input.i64()?);
        let path = |bytes: &[u8]| {
            let path = String::from_utf8_lossy(bytes);
            path.strip_prefix(prefix).unwrap_or(&path).trim_start_matches('/').to_owned()
        };
        let (first, second) = (path(input.take(lens[0] as usize)?), path(input.take(lens[1] as usize)?));
        let data = input.take(lens[2] as usize)?;
        let call = match kind {
            1 => Call::Open { fd, path: first, created: a & 1 != 0, truncated: a & 2 != 0 },
            2 => Call::Close { fd },
            3 => Call::Write { fd, offset_bytes: a as u64, data: data.to_vec() },
            4 => Call::SetSize { fd, size_bytes: a as u64 },
            5 => Call::Allocate {
                fd,
                mode: i32::from_ne_bytes(data.try_into().ok()?),
                offset_bytes: a as u64,
                len_bytes: b as u64,
            },
            6 => Call::Rename { from: first, to: second },
            7 => Call::Unlink { path: first },
            8 => Call::MakeDir { path: first },
            9 => Call::RemoveDir { path: first },
            10 => Call::SyncBegin { fd, sync: a as u64 },
            11 => Call::SyncEnd { fd, sync: a as u64, errno: b as i32 },
            12 => Call::Mark { text: String::from_utf8_lossy(data).into_owned() },
            13 => Call::Duplicate { fd, twin: a as i32 },
            14 => Call::Fault { kind: a as u8 as char, errno: b as i32 },
            _ => return None,
        };
        events.push(Event { thread, call });
    }
    Some(events)
}
