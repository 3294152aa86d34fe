//! The write-ahead log: segments of frames. docs/formats.md draws them.
//!
//! A frame holds the records of one group of operations and is synced before the next one is written. So at most the
//! last frame can be torn by a power cut, and it was never acknowledged as durable. An invalid frame with a valid one
//! of the same log behind it was whole once: that is damage, and nothing is cut.

use super::space;
use crate::codec::{Decoder, Encode};
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEGMENT_MAGIC: &[u8; 8] = b"BENTHLOG";
const SEGMENT_VERSION: u32 = 1;
const SEGMENT_HEADER_BYTES: usize = 32;
/// Size of a log in which nothing was ever written.
pub(crate) const EMPTY_LOG_BYTES: u64 = SEGMENT_HEADER_BYTES as u64;
/// A segment is made under this name and gets its own when it is whole.
const UNFINISHED: &str = "unfinished";
/// Places in a damaged segment that are tried for a frame.
const TRIES_MAX: usize = 4_096;
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"BNFR");
pub(crate) const FRAME_HEADER_BYTES: usize = 24;

/// The open end of the log.
pub(crate) struct Log {
    dir: PathBuf,
    segment: Segment,
    /// Bytes of all segments.
    pub len_bytes: u64,
    /// Whether the last frame has records, so that damage to it would look like a torn write.
    pub ends_with_records: bool,
}

struct Segment {
    file: Arc<File>,
    first_lsn: u64,
    /// Goes into the checksum of every frame, so that data which looks like a frame is none.
    salt: u64,
}

/// A frame that is being filled.
#[derive(Default)]
pub(crate) struct Frame {
    pub first_lsn: u64,
    pub records: u32,
    /// Header, to be filled in, and payload.
    bytes: Vec<u8>,
}

impl Frame {
    pub fn new(first_lsn: u64) -> Frame {
        Frame { first_lsn, records: 0, bytes: vec![0; FRAME_HEADER_BYTES] }
    }

    /// Drops the record that was added last, behind `len_bytes` of the frame.
    pub fn pop(&mut self, len_bytes: usize) {
        self.bytes.truncate(len_bytes);
        self.records -= 1;
    }

    /// Adds a record that `encode` appends.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.put_u32(0);
        encode(&mut self.bytes);
        let len = (self.bytes.len() - at - 4) as u32;
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        self.records += 1;
    }

    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn seal(&mut self, salt: u64) -> &[u8] {
        let payload_len = (self.bytes.len() - FRAME_HEADER_BYTES) as u32;
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        header.put_u32(FRAME_MAGIC);
        header.put_u32(0);
        header.put_u32(payload_len);
        header.put_u32(self.records);
        header.put_u64(self.first_lsn);
        self.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        let crc = frame_crc(salt, &self.bytes);
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }
}

/// Checksum of a frame without its checksum field, bound to its segment.
fn frame_crc(salt: u64, frame: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&salt.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &frame[..4]), &frame[8..])
}

/// Gives a segment that somebody made up valid checksums, as far as it has frames: else a fuzzer would never get past them.
pub(crate) fn seal(segment: &mut [u8]) {
    let Some((header, mut frames)) = segment.split_at_mut_checked(SEGMENT_HEADER_BYTES) else { return };
    let (fields, crc) = header.split_at_mut(SEGMENT_HEADER_BYTES - 4);
    crc.copy_from_slice(&crc32c::crc32c(fields).to_le_bytes());
    let salt = fields[20..28].iter().rev().fold(0, |salt, byte| salt << 8 | u64::from(*byte));
    while let Some(Ok(payload)) = frames.get(8..12).map(<[u8; 4]>::try_from) {
        let len = FRAME_HEADER_BYTES.saturating_add(u32::from_le_bytes(payload) as usize);
        let Some((frame, rest)) = frames.split_at_mut_checked(len) else { return };
        let crc = frame_crc(salt, frame);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        frames = rest;
    }
}

impl Log {
    /// Reads all that is behind `applied_lsn`, calling `replay` with every record in order, cuts a torn last frame,
    /// and is ready for more. What is before `closed_lsn` was durable when the store was closed: it cannot be torn.
    ///
    /// # Errors
    /// `Corrupt` if a frame that was whole is damaged, or if operations are missing.
    pub fn open(
        dir: &Path,
        applied_lsn: u64,
        closed_lsn: u64,
        mut replay: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Log, u64)> {
        let mut segments = segments(dir)?;
        let mut next_lsn = applied_lsn + 1;
        let mut len_bytes = 0;
        let mut last = None;
        // Segments before the one with the next operation are left over from a checkpoint, some of them perhaps.
        let Some(start) = segments.iter().rposition(|(first_lsn, _)| *first_lsn <= next_lsn) else {
            return Err(damaged(dir, 0, "operations are missing at the start of the log")
                .with("wanted_lsn", next_lsn));
        };
        for (_, path) in segments.drain(..start) {
            fs::remove_file(&path).map_err(|e| io("a log segment cannot be removed", &path, e))?;
        }
        while let Some((first_lsn, path)) = segments.first().cloned() {
            segments.remove(0);
            let bytes = Bytes::from(fs::read(&path).map_err(|e| io("the log cannot be read", &path, e))?);
            let tail = Tail { first_lsn, path: &path, bytes: &bytes };
            let salt = tail.check_header()?;
            let mut reader = FrameReader { salt, bytes: &bytes, at: SEGMENT_HEADER_BYTES };
            let mut lsn = first_lsn;
            let mut last_frame = None;
            let mut frame_at = reader.at;
            while let Some((frame_lsn, records)) = reader.next_frame() {
                last_frame = (!records.is_empty()).then_some(frame_at);
                frame_at = reader.at;
                if frame_lsn != lsn {
                    return Err(damaged(&path, reader.at, "operations are missing in the log")
                        .with("wanted_lsn", lsn));
                }
                for record in records {
                    if lsn == next_lsn {
                        replay(lsn, record)?;
                        next_lsn += 1;
                    }
                    lsn += 1;
                }
            }
            if reader.at < bytes.len() {
                if !segments.is_empty() || lsn < closed_lsn || reader.valid_frame_behind(lsn) {
                    return Err(damaged(&path, reader.at, "a frame of the log that was whole is damaged"));
                }
                tracing::warn!(path = %path.display(), at = reader.at, "the last frame of the log is torn and was cut");
                let file = OpenOptions::new().write(true).open(&path);
                file.and_then(|file| file.set_len(reader.at as u64).and_then(|()| file.sync_all()))
                    .map_err(|e| io("the log cannot be cut", &path, e))?;
            }
            if let Some((following, path)) = segments.first()
                && *following != lsn
            {
                return Err(
                    damaged(path, 0, "operations are missing before this segment").with("wanted_lsn", lsn)
                );
            }
            len_bytes += reader.at as u64;
            let last_frame = last_frame.map(|at| (at as u64, bytes.slice(at..reader.at)));
            last = Some((Unopened { first_lsn, salt, path }, last_frame));
        }
        if next_lsn < closed_lsn {
            return Err(damaged(dir, 0, "the log ends before the last operation of a store that was closed")
                .with("wanted_lsn", closed_lsn - 1));
        }
        let (unopened, last_frame) = last.ok_or_else(|| damaged(dir, 0, "the log has no segment"))?;
        let ends_with_records = last_frame.is_some();
        let path = unopened.path.clone();
        let segment = unopened.open(last_frame).map_err(|e| io("the log cannot be opened", &path, e))?;
        sync_dir(dir)?;
        Ok((Log { dir: dir.to_owned(), segment, len_bytes, ends_with_records }, next_lsn))
    }

    /// Makes the first segment of a new store.
    pub fn create(dir: &Path) -> Result<()> {
        Segment::create(dir, 1, 0).map(|_| ())
    }

    /// Writes a frame and makes it durable.
    ///
    /// # Errors
    /// After an error nothing is known of the frame; the log takes no more.
    pub fn append(&mut self, mut frame: Frame) -> Result<()> {
        self.ends_with_records = frame.records > 0;
        let bytes = frame.seal(self.segment.salt);
        let mut file = &*self.segment.file;
        file.write_all(bytes)
            .and_then(|()| file.sync_data())
            .map_err(|e| Error::io(Action::Write, "the log cannot be written", e))?;
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }

    /// The open segment, and how many bytes the ones before it have.
    pub fn segment(&self) -> std::io::Result<(Arc<File>, u64)> {
        let len_bytes = self.segment.file.metadata()?.len();
        Ok((Arc::clone(&self.segment.file), self.len_bytes.saturating_sub(len_bytes)))
    }

    /// Begins a new segment, whose first frame has `first_lsn`, unless the last one begins there. It has room for
    /// `promised_bytes` of frames. Says whether it did.
    ///
    /// # Errors
    /// `LimitExceeded` if the disk is full, and then the last segment goes on.
    pub fn rotate(&mut self, first_lsn: u64, promised_bytes: u64) -> Result<bool> {
        let begins = self.segment.first_lsn != first_lsn;
        if begins {
            self.segment = Segment::create(&self.dir, first_lsn, promised_bytes)?;
            self.ends_with_records = false;
            self.len_bytes += SEGMENT_HEADER_BYTES as u64;
        }
        Ok(begins)
    }
}

/// Removes the segments that hold nothing behind `applied_lsn`; gives back how many bytes the others have. A segment that
/// cannot be removed does no harm.
pub(crate) fn remove_applied(dir: &Path, applied_lsn: u64) -> Result<u64> {
    let segments = segments(dir)?;
    let live = segments.iter().rposition(|(first_lsn, _)| *first_lsn <= applied_lsn + 1).unwrap_or(0);
    for (_, path) in &segments[..live] {
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(%error, path = %path.display(), "a log segment cannot be removed");
        }
    }
    if live > 0 {
        sync_dir(dir)?;
    }
    Ok(segments[live..].iter().map(|(_, path)| fs::metadata(path).map_or(0, |metadata| metadata.len())).sum())
}

/// The first sequence number of the log's first segment.
pub(crate) fn first_lsn(dir: &Path) -> Result<Option<u64>> {
    Ok(segments(dir)?.first().map(|(first_lsn, _)| *first_lsn))
}

/// The log's segments in order, each with the first sequence number that it holds.
fn segments(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| io("the log cannot be listed", dir, e))? {
        let path = entry.map_err(|e| io("the log cannot be listed", dir, e))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".log"));
        if let Some(first_lsn) = name.and_then(|name| u64::from_str_radix(name, 16).ok()) {
            found.push((first_lsn, path));
        }
    }
    found.sort();
    Ok(found)
}

impl Segment {
    fn create(dir: &Path, first_lsn: u64, promised_bytes: u64) -> Result<Segment> {
        let salt = RandomState::new().hash_one(first_lsn);
        let mut header = SEGMENT_MAGIC.to_vec();
        header.put_u32(SEGMENT_VERSION);
        header.put_u64(first_lsn);
        header.put_u64(salt);
        let crc = crc32c::crc32c(&header);
        header.put_u32(crc);
        let unfinished = dir.join(UNFINISHED);
        let failed = |e| Error::io(Action::Write, "a log segment cannot be made", e);
        let mut file = File::create(&unfinished).map_err(failed)?;
        space::room(&file, EMPTY_LOG_BYTES + promised_bytes)?;
        let mut name = || {
            file.write_all(&header)?;
            file.sync_all()?;
            fs::rename(&unfinished, dir.join(segment_name(first_lsn)))
        };
        name().map_err(failed)?;
        // Now it is there, perhaps: nothing may go into the one before it.
        sync_dir(dir).map_err(|error| error.with_kind(ErrorKind::Internal))?;
        Ok(Segment { file: Arc::new(file), first_lsn, salt })
    }
}

/// The last segment, before it is opened for more.
struct Unopened {
    first_lsn: u64,
    salt: u64,
    path: PathBuf,
}

impl Unopened {
    /// Opens the segment at its end. The last frame may never have been synced: it is written once more, for a sync that
    /// failed before leaves it in memory only, and made durable before anything is built on it.
    fn open(self, last_frame: Option<(u64, Bytes)>) -> std::io::Result<Segment> {
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        if let Some((at, frame)) = last_frame {
            file.write_all_at(&frame, at)?;
            file.sync_data()?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Segment { file: Arc::new(file), first_lsn: self.first_lsn, salt: self.salt })
    }
}

fn segment_name(first_lsn: u64) -> String {
    format!("{first_lsn:016x}.log")
}

/// One segment as it was read.
struct Tail<'a> {
    first_lsn: u64,
    path: &'a Path,
    bytes: &'a Bytes,
}

impl Tail<'_> {
    /// Checks the header; gives back the segment's salt.
    fn check_header(&self) -> Result<u64> {
        let damage = || damaged(self.path, 0, "the header of a log segment is damaged");
        let header = self.bytes.get(..SEGMENT_HEADER_BYTES).ok_or_else(damage)?;
        let (fields, crc) = header.split_at(SEGMENT_HEADER_BYTES - 4);
        if crc32c::crc32c(fields).to_le_bytes() != *crc || !fields.starts_with(SEGMENT_MAGIC) {
            return Err(damage());
        }
        if fields[8..12] != SEGMENT_VERSION.to_le_bytes() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the log was written by a newer Benthic; use that one",
            )
            .with("path", self.path.display()));
        }
        if fields[12..20] != self.first_lsn.to_le_bytes() {
            return Err(damage());
        }
        Ok(fields[20..28].iter().rev().fold(0, |salt, byte| salt << 8 | u64::from(*byte)))
    }
}

struct FrameReader<'a> {
    salt: u64,
    bytes: &'a Bytes,
    at: usize,
}

impl FrameReader<'_> {
    /// Whether a valid frame with a sequence number of at least `lsn` starts behind this place, or so much looks like one
    /// that it cannot be told in reasonable time.
    fn valid_frame_behind(&self, lsn: u64) -> bool {
        let looks = |at: &usize| self.bytes[*at..].starts_with(&FRAME_MAGIC.to_le_bytes());
        let mut places = (self.at + 1..self.bytes.len()).filter(looks);
        let valid = |at| {
            let mut reader = FrameReader { salt: self.salt, bytes: self.bytes, at };
            reader.next_frame().is_some_and(|(frame_lsn, _)| frame_lsn >= lsn)
        };
        places.by_ref().take(TRIES_MAX).any(valid) || places.next().is_some()
    }

    /// The next frame's first sequence number and records, if it is whole; else stays where it is.
    fn next_frame(&mut self) -> Option<(u64, Vec<Bytes>)> {
        let mut header = Decoder::new(self.bytes.slice(self.at..));
        if header.u32().ok()? != FRAME_MAGIC {
            return None;
        }
        let crc = header.u32().ok()?;
        let payload_len = header.u32().ok()? as usize;
        let (count, first_lsn) = (header.u32().ok()?, header.u64().ok()?);
        let payload = header.take(payload_len).ok()?;
        let end = self.at + FRAME_HEADER_BYTES + payload_len;
        if frame_crc(self.salt, &self.bytes[self.at..end]) != crc {
            return None;
        }
        let mut payload = Decoder::new(payload);
        let mut records = Vec::new();
        while payload.remaining() > 0 {
            records.push(payload.bytes().ok()?);
        }
        if records.len() != count as usize {
            return None;
        }
        self.at = end;
        Some((first_lsn, records))
    }
}

fn damaged(path: &Path, at: usize, message: &str) -> Error {
    Error::new(ErrorKind::Corrupt, message).with("path", path.display()).with("offset_bytes", at)
}

fn io(message: &str, path: &Path, source: std::io::Error) -> Error {
    Error::io(Action::Admin, message, source).with("path", path.display())
}

/// Makes new and removed names of a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| io("a directory cannot be synced", dir, e))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
