//! The write-ahead log: segments of frames. docs/formats.md draws them.
//!
//! A frame holds the records of one group of operations and is synced before the next one is written. So at most the
//! last frame can be torn by a power cut, and it was never acknowledged as durable. An invalid frame with a valid one
//! of the same log behind it was whole once: that is damage, and nothing is cut.

use crate::codec::{Decoder, Encode};
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const SEGMENT_MAGIC: &[u8; 8] = b"BENTHLOG";
const SEGMENT_VERSION: u32 = 1;
const SEGMENT_HEADER_BYTES: usize = 24;
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
    file: File,
    first_lsn: u64,
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

    fn seal(&mut self, segment_lsn: u64) -> &[u8] {
        let payload_len = (self.bytes.len() - FRAME_HEADER_BYTES) as u32;
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        header.put_u32(FRAME_MAGIC);
        header.put_u32(0);
        header.put_u32(payload_len);
        header.put_u32(self.records);
        header.put_u64(self.first_lsn);
        self.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        let crc = frame_crc(segment_lsn, &self.bytes);
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }
}

/// Checksum of a frame without its checksum field, bound to its segment.
fn frame_crc(segment_lsn: u64, frame: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&segment_lsn.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &frame[..4]), &frame[8..])
}

impl Log {
    /// Reads all that is behind `applied_lsn`, calling `replay` with every record in order, cuts a torn last frame,
    /// and is ready for more.
    ///
    /// # Errors
    /// `Corrupt` if a frame that was whole is damaged, or if operations are missing.
    pub fn open(
        dir: &Path,
        applied_lsn: u64,
        mut replay: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Log, u64)> {
        let mut segments = segments(dir)?;
        let mut next_lsn = applied_lsn + 1;
        let mut len_bytes = 0;
        let mut last = None;
        let mut ends_with_records = false;
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
            let tail = Tail { segment_lsn: first_lsn, path: &path, bytes: &bytes };
            let mut reader = match tail.check_header()? {
                true => tail.frames(),
                // A segment whose header was never synced holds nothing.
                false if segments.is_empty() && !tail.valid_frame_behind(0, 0) => {
                    fs::remove_file(&path)
                        .map_err(|e| io("an empty log segment cannot be removed", &path, e))?;
                    sync_dir(dir)?;
                    continue;
                }
                false => return Err(damaged(&path, 0, "the header of a log segment is damaged")),
            };
            let mut lsn = first_lsn;
            ends_with_records = false;
            while let Some((frame_lsn, records)) = reader.next_frame() {
                ends_with_records = !records.is_empty();
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
                if !segments.is_empty() || tail.valid_frame_behind(reader.at, lsn) {
                    return Err(damaged(
                        &path,
                        reader.at,
                        "a frame of the log is damaged and others follow it",
                    ));
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
            last = Some((first_lsn, path));
        }
        let (first_lsn, path) = last.ok_or_else(|| damaged(dir, 0, "the log has no whole segment"))?;
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|e| io("the log cannot be opened", &path, e))?;
        let segment = Segment { file, first_lsn };
        Ok((Log { dir: dir.to_owned(), segment, len_bytes, ends_with_records }, next_lsn))
    }

    /// Makes the first segment of a new store.
    pub fn create(dir: &Path) -> Result<()> {
        Segment::create(dir, 1).map(|_| ())
    }

    /// Writes a frame and makes it durable.
    ///
    /// # Errors
    /// After an error nothing is known of the frame; the log takes no more.
    pub fn append(&mut self, mut frame: Frame) -> Result<()> {
        self.ends_with_records = frame.records > 0;
        let bytes = frame.seal(self.segment.first_lsn);
        let file = &mut self.segment.file;
        file.write_all(bytes)
            .and_then(|()| file.sync_data())
            .map_err(|e| Error::io(Action::Write, "the log cannot be written", e))?;
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begins a new segment, whose first frame has `first_lsn`, unless the last one begins there.
    pub fn rotate(&mut self, first_lsn: u64) -> Result<()> {
        if self.segment.first_lsn != first_lsn {
            self.segment = Segment::create(&self.dir, first_lsn)?;
            self.ends_with_records = false;
            self.len_bytes += SEGMENT_HEADER_BYTES as u64;
        }
        Ok(())
    }
}

/// Removes the segments that hold nothing behind `applied_lsn`; gives back how many bytes they had.
pub(crate) fn remove_applied(dir: &Path, applied_lsn: u64) -> Result<u64> {
    let segments = segments(dir)?;
    let ends = segments.iter().skip(1).map(|(first_lsn, _)| *first_lsn);
    let mut removed_bytes = 0;
    for ((_, path), end_lsn) in segments.iter().zip(ends) {
        if end_lsn <= applied_lsn + 1 {
            removed_bytes += fs::metadata(path).map_or(0, |metadata| metadata.len());
            fs::remove_file(path).map_err(|e| io("a log segment cannot be removed", path, e))?;
        }
    }
    if removed_bytes > 0 {
        sync_dir(dir)?;
    }
    Ok(removed_bytes)
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
    fn create(dir: &Path, first_lsn: u64) -> Result<Segment> {
        let path = dir.join(format!("{first_lsn:016x}.log"));
        let mut header = SEGMENT_MAGIC.to_vec();
        header.put_u32(SEGMENT_VERSION);
        header.put_u64(first_lsn);
        let crc = crc32c::crc32c(&header);
        header.put_u32(crc);
        let create = || {
            let mut file = OpenOptions::new().append(true).create_new(true).open(&path)?;
            file.write_all(&header)?;
            file.sync_all()?;
            Ok(file)
        };
        let file = create().map_err(|e| Error::io(Action::Write, "a log segment cannot be made", e))?;
        sync_dir(dir)?;
        Ok(Segment { file, first_lsn })
    }
}

/// One segment as it was read.
struct Tail<'a> {
    segment_lsn: u64,
    path: &'a Path,
    bytes: &'a Bytes,
}

impl<'a> Tail<'a> {
    /// Whether the header is whole.
    fn check_header(&self) -> Result<bool> {
        let Some(header) = self.bytes.get(..SEGMENT_HEADER_BYTES) else { return Ok(false) };
        let (fields, crc) = header.split_at(SEGMENT_HEADER_BYTES - 4);
        if crc32c::crc32c(fields).to_le_bytes() != *crc || !fields.starts_with(SEGMENT_MAGIC) {
            return Ok(false);
        }
        if fields[8..12] != SEGMENT_VERSION.to_le_bytes() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the log was written by a newer Benthic; use that one",
            )
            .with("path", self.path.display()));
        }
        Ok(fields[12..20] == self.segment_lsn.to_le_bytes())
    }

    fn frames(&self) -> FrameReader<'a> {
        FrameReader { segment_lsn: self.segment_lsn, bytes: self.bytes, at: SEGMENT_HEADER_BYTES }
    }

    /// Whether a valid frame of this segment starts behind `at` with a sequence number of at least `lsn`.
    fn valid_frame_behind(&self, at: usize, lsn: u64) -> bool {
        (at + 1..self.bytes.len()).any(|at| {
            let mut reader = FrameReader { segment_lsn: self.segment_lsn, bytes: self.bytes, at };
            self.bytes[at..].starts_with(&FRAME_MAGIC.to_le_bytes())
                && reader.next_frame().is_some_and(|(frame_lsn, _)| frame_lsn >= lsn)
        })
    }
}

struct FrameReader<'a> {
    segment_lsn: u64,
    bytes: &'a Bytes,
    at: usize,
}

impl FrameReader<'_> {
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
        if frame_crc(self.segment_lsn, &self.bytes[self.at..end]) != crc {
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
