//! The write-ahead log: segments of frames. docs/formats.md draws them.
//!
//! A frame holds the records of one group of operations. The committer syncs a frame before it
//! writes the next one. So a power cut can tear only the last frame, and that frame was never
//! acknowledged as durable. If a valid frame of the same log follows an invalid one, the invalid
//! frame was complete once. That is damage, and opening the log fails instead of truncating it.

use super::checksum::crc32c;
use super::space::{self, SPARE};
use benthic_core::codec::{Decoder, Encode};
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use rustix::fs::{AtFlags, StatxFlags};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEGMENT_MAGIC: &[u8; 8] = b"BENTHLOG";
const SEGMENT_VERSION: u32 = 1;
const SEGMENT_HEADER_BYTES: usize = 32;
/// Size of a log to which no frame was ever written.
pub(crate) const EMPTY_LOG_BYTES: u64 = SEGMENT_HEADER_BYTES as u64;
/// Name of a segment during its creation. A complete segment is renamed to its final name.
const UNFINISHED: &str = "unfinished";
/// Maximum size of the [spare segment](SPARE); a longer one is truncated.
const SPARE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of positions at which the search for a valid frame tries to decode one in a
/// damaged segment.
const TRIES_MAX: usize = 4_096;
/// When a frame extends the written part of the file, the same write adds zeros after it, about as
/// many bytes as the segment already contains, within these limits. Later frames overwrite the
/// zeros. A sync of blocks that were written before needs no commit of the file system's own
/// journal and takes half the time.
const ZEROS_BYTES_MIN: u64 = 64 * 1024;
const ZEROS_BYTES_MAX: u64 = 1024 * 1024;
/// A frame of at least this size gets no zeros: it is worth a commit of the file system's journal.
const FRAME_BYTES_LARGE: u64 = ZEROS_BYTES_MAX / 4;
/// The log is read in pieces of this size. A longer frame is read as a whole.
const PIECE_BYTES: usize = 256 * 1024;
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"BNFR");
pub(crate) const FRAME_HEADER_BYTES: usize = 24;

/// The log, open for appending.
pub(crate) struct Log {
    dir: PathBuf,
    segment: Segment,
    pub len_bytes: u64,
    next_lsn: u64,
    /// The last frame contains records, so damage to it would look like a torn write.
    pub ends_with_records: bool,
}

struct Segment {
    file: Arc<File>,
    first_lsn: u64,
    end_bytes: u64,
    /// End of the written part of the file. Up to here, frames overwrite existing blocks.
    written_bytes: u64,
    /// Part of every frame's checksum, so that data that looks like a frame, or a frame of an
    /// earlier segment in the same file, is not taken for one.
    salt: u64,
}

/// A frame under construction.
#[derive(Default)]
pub(crate) struct Frame {
    pub first_lsn: u64,
    pub records: u32,
    /// The header, filled in by `seal`, and the payload.
    bytes: Vec<u8>,
}

impl Frame {
    pub fn new(first_lsn: u64) -> Frame {
        Frame { first_lsn, records: 0, bytes: vec![0; FRAME_HEADER_BYTES] }
    }

    /// Removes the last record. `len_bytes` is the length of the frame without it.
    pub fn pop(&mut self, len_bytes: usize) {
        assert!(self.records > 0, "the frame has a record to remove");
        assert!(
            (FRAME_HEADER_BYTES..self.bytes.len()).contains(&len_bytes),
            "the header stays, and the record goes"
        );
        self.bytes.truncate(len_bytes);
        self.records -= 1;
    }

    /// Appends a record. `encode` writes its contents.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.put_u32(0);
        encode(&mut self.bytes);
        let len = self.bytes.len() - at - 4;
        assert!(u32::try_from(len).is_ok(), "the length of a record fits its field");
        self.bytes[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
        self.records += 1;
    }

    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn seal(&mut self, salt: u64) {
        let payload_len = self.bytes.len() - FRAME_HEADER_BYTES;
        assert!(u32::try_from(payload_len).is_ok(), "the length of a frame fits its field");
        assert_eq!(self.records == 0, payload_len == 0, "a frame has the records that it counts");
        assert!(self.first_lsn > 0, "sequence numbers begin with 1");
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        header.put_u32(FRAME_MAGIC);
        header.put_u32(0);
        header.put_u32(payload_len as u32);
        header.put_u32(self.records);
        header.put_u64(self.first_lsn);
        assert_eq!(header.len(), FRAME_HEADER_BYTES, "the header has its fixed length");
        self.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        let crc = frame_crc(salt, &self.bytes);
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Checksum of a frame without its checksum field, seeded with the segment's salt.
fn frame_crc(salt: u64, frame: &[u8]) -> u32 {
    crc32c(&[&salt.to_le_bytes(), &frame[..4], &frame[8..]])
}

/// Gives a made-up segment valid checksums, as far as it consists of frames. Without them a fuzzer
/// would never get past the checksum test.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn seal(segment: &mut [u8]) {
    let Some((header, mut frames)) = segment.split_at_mut_checked(SEGMENT_HEADER_BYTES) else { return };
    let (fields, crc) = header.split_at_mut(SEGMENT_HEADER_BYTES - 4);
    crc.copy_from_slice(&crc32c(&[fields]).to_le_bytes());
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
    /// Reads the log and opens it for appending; see [`Log::read`] and [`UnopenedLog::open`].
    pub fn open(
        dir: &Path,
        applied_lsn: u64,
        closed_lsn: u64,
        replay: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Log, u64)> {
        let log = Log::read(dir, applied_lsn, closed_lsn, replay)?;
        let next_lsn = log.next_lsn;
        Ok((log.open()?, next_lsn))
    }

    /// Reads the log and changes nothing. Calls `replay` in order for every record after
    /// `applied_lsn`, up to the first invalid frame. Records before `closed_lsn` were durable when
    /// the store was last closed, so they cannot be torn.
    ///
    /// # Errors
    /// `Corrupt` if a frame that was complete once is damaged, or if operations are missing.
    pub fn read(
        dir: &Path,
        applied_lsn: u64,
        closed_lsn: u64,
        mut replay: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<UnopenedLog> {
        let mut segments = segments(dir)?;
        let mut next_lsn = applied_lsn + 1;
        let mut len_bytes = 0;
        let mut last = None;
        // An interrupted checkpoint may leave some of the segments before the one with the next
        // operation.
        let Some(start) = segments.iter().rposition(|(first_lsn, _)| *first_lsn <= next_lsn) else {
            return Err(damaged(dir, 0, "operations are missing at the start of the log")
                .with("wanted_lsn", next_lsn));
        };
        let obsolete = segments.drain(..start).map(|(_, path)| path).collect();
        while let Some((first_lsn, path)) = segments.first().cloned() {
            segments.remove(0);
            let failed = |e| io("the log cannot be read", &path, e);
            let mut reader = SegmentReader::open(first_lsn, &path)?;
            let mut lsn = first_lsn;
            let mut last_frame = None;
            while let Some(frame) = reader.next_frame().map_err(failed)? {
                if frame.first_lsn != lsn {
                    return Err(damaged(&path, reader.at, "operations are missing in the log")
                        .with("wanted_lsn", lsn));
                }
                let has_records = !frame.records.is_empty();
                for record in frame.records {
                    if lsn == next_lsn {
                        replay(lsn, record)?;
                        next_lsn += 1;
                    }
                    lsn += 1;
                }
                last_frame = Some((reader.at - frame.bytes.len() as u64, frame.bytes, has_records));
            }
            // Anything may follow the last frame: a torn frame, zeros, or frames of the old segment
            // whose file this segment reuses.
            let known_lsn = segments.first().map_or(closed_lsn, |(following, _)| *following);
            let end_bytes = reader.at;
            if lsn < known_lsn && end_bytes < reader.file_bytes
                || reader.valid_frame_behind(lsn).map_err(failed)?
            {
                return Err(damaged(
                    &path,
                    end_bytes,
                    "a frame of the log is damaged that was once complete",
                ));
            }
            if let Some((following, path)) = segments.first()
                && *following != lsn
            {
                return Err(
                    damaged(path, 0, "operations are missing before this segment").with("wanted_lsn", lsn)
                );
            }
            len_bytes += end_bytes;
            let has_records = last_frame.as_ref().is_some_and(|(_, _, has_records)| *has_records);
            let last_frame = last_frame.map(|(at, frame, _)| (at, frame));
            let SegmentReader { file_bytes, salt, .. } = reader;
            let segment =
                UnopenedSegment { first_lsn, end_bytes, written_bytes: file_bytes, salt, path, last_frame };
            last = Some((segment, has_records));
        }
        if next_lsn < closed_lsn {
            return Err(damaged(
                dir,
                0,
                "the end of the log is missing; it had more operations when the store was closed",
            )
            .with("wanted_lsn", closed_lsn - 1));
        }
        let (segment, ends_with_records) = last.ok_or_else(|| damaged(dir, 0, "the log has no segment"))?;
        assert!(next_lsn > applied_lsn, "the next operation follows the applied ones");
        Ok(UnopenedLog { dir: dir.to_owned(), obsolete, segment, len_bytes, next_lsn, ends_with_records })
    }

    pub fn create(dir: &Path) -> Result<()> {
        UnnamedSegment::create(dir, 1, 0)?.name(0)?;
        sync_dir(dir)
    }

    /// Writes a frame and makes it durable. The segment's blocks are allocated up to
    /// `allocated_bytes`.
    ///
    /// # Errors
    /// After an error the state of the frame is unknown, and the caller must not append to the log
    /// again.
    pub fn append(&mut self, mut frame: Frame, allocated_bytes: u64) -> Result<()> {
        assert_eq!(frame.first_lsn, self.next_lsn, "a frame follows the one before it");
        assert!(frame.first_lsn >= self.segment.first_lsn, "a frame goes into the segment of its numbers");
        self.ends_with_records = frame.records > 0;
        let next_lsn = self.next_lsn + u64::from(frame.records);
        frame.seal(self.segment.salt);
        let Segment { file, end_bytes, written_bytes, .. } = &mut self.segment;
        let frame_bytes = frame.bytes.len() as u64;
        let frame_end = *end_bytes + frame_bytes;
        assert!(*end_bytes >= EMPTY_LOG_BYTES, "a frame is written after the header of its segment");
        assert!(*end_bytes <= *written_bytes, "all frames are in the written part of the file");
        if frame_end > *written_bytes {
            let zeros_end =
                allocated_bytes.min(frame_end + frame_end.clamp(ZEROS_BYTES_MIN, ZEROS_BYTES_MAX));
            if frame_bytes < FRAME_BYTES_LARGE && zeros_end > frame_end {
                frame.bytes.resize((zeros_end - *end_bytes) as usize, 0);
            }
            *written_bytes = *end_bytes + frame.bytes.len() as u64;
        }
        assert!(frame_end <= *written_bytes, "the frame is in the written part of the file");
        file.write_all_at(&frame.bytes, *end_bytes)
            .and_then(|()| file.sync_data())
            .map_err(|e| Error::io(Action::Write, "the log cannot be written", e))?;
        if is_removed(file) {
            // The frame is on the disk, but the file has no name and cannot be found again.
            return Err(Error::unavailable("the log was removed while the store was open"));
        }
        *end_bytes = frame_end;
        self.len_bytes += frame_bytes;
        self.next_lsn = next_lsn;
        assert!(self.len_bytes >= self.segment.end_bytes, "the log is at least as long as its last segment");
        Ok(())
    }

    /// Returns the open segment's file, the length of all earlier segments, and the end of the
    /// written part of the open segment.
    pub fn segment(&self) -> (Arc<File>, u64, u64) {
        let Segment { file, end_bytes, written_bytes, .. } = &self.segment;
        assert!(self.len_bytes >= *end_bytes, "the log is at least as long as its last segment");
        (Arc::clone(file), self.len_bytes - end_bytes, *written_bytes)
    }

    /// Creates a segment whose first frame has `first_lsn`, with blocks for `promised_bytes` of
    /// frames. Returns `None` if the open segment already starts there.
    ///
    /// # Errors
    /// `LimitExceeded` if the disk is full or no file can be created. The open segment then stays
    /// in use.
    pub fn next(&self, first_lsn: u64, promised_bytes: u64) -> Result<Option<UnnamedSegment>> {
        assert_eq!(first_lsn, self.next_lsn, "a segment begins with the next record");
        if self.segment.first_lsn == first_lsn {
            return Ok(None);
        }
        UnnamedSegment::create(&self.dir, first_lsn, promised_bytes).map(Some)
    }

    /// Switches to the next segment. The caller must call [`Log::settle`] before it appends.
    ///
    /// # Errors
    /// `LimitExceeded` if the disk is full. The open segment then stays in use.
    pub fn rotate(&mut self, next: UnnamedSegment, promised_bytes: u64) -> Result<()> {
        assert!(
            next.segment.first_lsn > self.segment.first_lsn,
            "segments are in the order of their records"
        );
        assert_eq!(next.segment.first_lsn, self.next_lsn, "a segment begins with the next record");
        self.segment = next.name(promised_bytes)?;
        assert_eq!(self.segment.end_bytes, EMPTY_LOG_BYTES, "a new segment has no frames");
        self.ends_with_records = false;
        self.len_bytes += EMPTY_LOG_BYTES;
        Ok(())
    }

    /// Makes the open segment's file name durable.
    pub fn settle(&self) -> Result<()> {
        sync_dir(&self.dir)
    }

    /// Removes the segments before the open one, whose operations must all be applied. The last of
    /// them becomes the spare segment. A segment that cannot be removed does no harm.
    pub fn cut(&mut self) -> Result<()> {
        let mut applied = segments(&self.dir)?;
        applied.retain(|(first_lsn, _)| *first_lsn < self.segment.first_lsn);
        let spare = applied.pop().map(|(_, path)| path);
        let removed = applied.iter().map(|(_, path)| fs::remove_file(path));
        let kept = spare.map(|path| {
            let file = OpenOptions::new().write(true).open(&path)?;
            if file.metadata()?.len() > SPARE_BYTES_MAX {
                file.set_len(SPARE_BYTES_MAX)?;
            }
            fs::rename(path, self.dir.join(SPARE))
        });
        if let Some(error) = removed.chain(kept).find_map(std::io::Result::err) {
            tracing::warn!(%error, "a log segment cannot be removed");
        }
        sync_dir(&self.dir)?;
        assert!(self.len_bytes >= self.segment.end_bytes, "a cut makes the log no longer");
        self.len_bytes = self.segment.end_bytes;
        Ok(())
    }

    /// Returns the space after the last frame and the spare segment to the file system. Returns the
    /// end of the last frame.
    pub fn trim(&mut self) -> std::io::Result<u64> {
        space::remove_spare(&self.dir);
        let Segment { file, end_bytes, written_bytes, .. } = &mut self.segment;
        assert!(*end_bytes <= *written_bytes, "no frame is cut");
        file.set_len(*end_bytes)?;
        *written_bytes = *end_bytes;
        Ok(*end_bytes)
    }
}

pub(crate) fn first_lsn(dir: &Path) -> Result<Option<u64>> {
    Ok(segments(dir)?.first().map(|(first_lsn, _)| *first_lsn))
}

/// Lists the log's segments in order, each with its first sequence number.
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

/// A complete segment that does not have its final name yet.
pub(crate) struct UnnamedSegment {
    segment: Segment,
    path: PathBuf,
    room_bytes: u64,
}

impl UnnamedSegment {
    fn create(dir: &Path, first_lsn: u64, promised_bytes: u64) -> Result<UnnamedSegment> {
        let salt = RandomState::new().hash_one(first_lsn);
        let mut header = SEGMENT_MAGIC.to_vec();
        header.put_u32(SEGMENT_VERSION);
        header.put_u64(first_lsn);
        header.put_u64(salt);
        let crc = crc32c(&[&header]);
        header.put_u32(crc);
        assert_eq!(header.len(), SEGMENT_HEADER_BYTES, "the frames begin directly after the header");
        let path = dir.join(UNFINISHED);
        let failed = |e| Error::io(Action::Write, "a log segment cannot be created", e);
        let recycled = fs::rename(dir.join(SPARE), &path).is_ok();
        let file = OpenOptions::new().write(true).create(true).truncate(!recycled).open(&path);
        // Nothing has happened yet. If the process has too many open files, the open segment stays
        // in use.
        let file = file.map_err(|e| failed(e).with_kind(ErrorKind::LimitExceeded))?;
        let room_bytes = EMPTY_LOG_BYTES + promised_bytes;
        let made = space::room(&file, room_bytes).and_then(|()| {
            file.write_all_at(&header, 0).and_then(|()| file.sync_all()).map_err(failed)?;
            file.metadata().map(|metadata| metadata.len()).map_err(failed)
        });
        let written_bytes = made.inspect_err(|_| {
            // On a full disk, return the allocated blocks.
            let _ = fs::remove_file(&path);
        })?;
        let file = Arc::new(file);
        let segment = Segment { file, first_lsn, end_bytes: EMPTY_LOG_BYTES, written_bytes, salt };
        Ok(UnnamedSegment { segment, path, room_bytes })
    }

    /// Renames the segment to its final name. From then on it may exist after a crash, so nothing
    /// may be appended to the segment before it.
    fn name(self, promised_bytes: u64) -> Result<Segment> {
        let room_bytes = EMPTY_LOG_BYTES + promised_bytes;
        if room_bytes > self.room_bytes {
            space::room(&self.segment.file, room_bytes).inspect_err(|_| drop(fs::remove_file(&self.path)))?;
        }
        fs::rename(&self.path, self.path.with_file_name(segment_name(self.segment.first_lsn))).map_err(
            |e| Error::io(Action::Write, "a log segment cannot be renamed", e).with_kind(ErrorKind::Internal),
        )?;
        Ok(self.segment)
    }
}

/// A log that was read and is not open for appending.
pub(crate) struct UnopenedLog {
    dir: PathBuf,
    /// Segments whose operations are all applied.
    obsolete: Vec<PathBuf>,
    segment: UnopenedSegment,
    len_bytes: u64,
    pub next_lsn: u64,
    ends_with_records: bool,
}

impl UnopenedLog {
    /// Removes obsolete segments and opens the log for appending.
    pub fn open(self) -> Result<Log> {
        let UnopenedLog { dir, obsolete, segment, len_bytes, next_lsn, ends_with_records } = self;
        for path in obsolete {
            fs::remove_file(&path).map_err(|e| io("a log segment cannot be removed", &path, e))?;
        }
        let path = segment.path.clone();
        let segment = segment.open().map_err(|e| io("the log cannot be opened", &path, e))?;
        sync_dir(&dir)?;
        Ok(Log { dir, segment, len_bytes, next_lsn, ends_with_records })
    }
}

/// The last segment, not yet open for appending.
struct UnopenedSegment {
    first_lsn: u64,
    end_bytes: u64,
    written_bytes: u64,
    salt: u64,
    path: PathBuf,
    /// The last frame and its position.
    last_frame: Option<(u64, Bytes)>,
}

impl UnopenedSegment {
    /// Opens the segment at its end. The last frame may never have been synced, and after an
    /// earlier failed sync it may exist only in the page cache. So it is written again and synced
    /// before other frames follow it.
    fn open(self) -> std::io::Result<Segment> {
        let UnopenedSegment { first_lsn, end_bytes, written_bytes, salt, path, last_frame } = self;
        let file = OpenOptions::new().write(true).open(path)?;
        if let Some((at, frame)) = last_frame {
            file.write_all_at(&frame, at)?;
            file.sync_data()?;
        }
        Ok(Segment { file: Arc::new(file), first_lsn, end_bytes, written_bytes, salt })
    }
}

fn segment_name(first_lsn: u64) -> String {
    format!("{first_lsn:016x}.log")
}

/// Reads the frames of a segment. It reads the file in pieces, so that a long log takes little
/// memory.
struct SegmentReader {
    file: File,
    file_bytes: u64,
    salt: u64,
    /// Position of the next frame.
    at: u64,
    /// A piece of the file, and its position.
    piece: Bytes,
    piece_at: u64,
}

struct StoredFrame {
    first_lsn: u64,
    records: Vec<Bytes>,
    /// The frame with its header.
    bytes: Bytes,
}

impl SegmentReader {
    /// Opens a segment and checks its header.
    fn open(first_lsn: u64, path: &Path) -> Result<SegmentReader> {
        let failed = |e| io("the log cannot be read", path, e);
        let file = File::open(path).map_err(failed)?;
        let file_bytes = file.metadata().map_err(failed)?.len();
        let mut reader = SegmentReader {
            file,
            file_bytes,
            salt: 0,
            at: SEGMENT_HEADER_BYTES as u64,
            piece: Bytes::new(),
            piece_at: 0,
        };
        let damage = || damaged(path, 0, "the header of a log segment is damaged");
        let header = reader.bytes(0, SEGMENT_HEADER_BYTES).map_err(failed)?.ok_or_else(damage)?;
        let (fields, crc) = header.split_at(SEGMENT_HEADER_BYTES - 4);
        if crc32c(&[fields]).to_le_bytes() != *crc || !fields.starts_with(SEGMENT_MAGIC) {
            return Err(damage());
        }
        if fields[8..12] != SEGMENT_VERSION.to_le_bytes() {
            let message = "a newer version of Benthic wrote the log; use that version";
            return Err(Error::unsupported(message).with("path", path.display()));
        }
        if fields[12..20] != first_lsn.to_le_bytes() {
            return Err(damage());
        }
        reader.salt = fields[20..28].iter().rev().fold(0, |salt, byte| salt << 8 | u64::from(*byte));
        Ok(reader)
    }

    /// Returns a range of the file, or `None` if the file ends before the range does.
    fn bytes(&mut self, at: u64, len: usize) -> std::io::Result<Option<Bytes>> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.file_bytes) {
            return Ok(None);
        }
        let within = at.checked_sub(self.piece_at).map(|from| from as usize);
        if let Some(from) = within.filter(|from| from + len <= self.piece.len()) {
            return Ok(Some(self.piece.slice(from..from + len)));
        }
        let left_bytes = self.file_bytes - at;
        let mut piece = vec![0; len.max(PIECE_BYTES.min(left_bytes as usize))];
        self.file.read_exact_at(&mut piece, at)?;
        (self.piece, self.piece_at) = (piece.into(), at);
        Ok(Some(self.piece.slice(..len)))
    }

    /// Returns true if a valid frame with a sequence number of at least `lsn` starts after the
    /// current position. Also returns true if more than [`TRIES_MAX`] positions look like one,
    /// because checking them all would take too long.
    fn valid_frame_behind(&mut self, lsn: u64) -> std::io::Result<bool> {
        let mut tries = 0;
        let mut at = self.at + 1;
        loop {
            let left_bytes = self.file_bytes.saturating_sub(at);
            let len = PIECE_BYTES.min(left_bytes as usize);
            let Some(piece) = self.bytes(at, len)?.filter(|piece| piece.len() >= FRAME_HEADER_BYTES) else {
                return Ok(false);
            };
            for found in memchr::memmem::find_iter(&piece, &FRAME_MAGIC.to_le_bytes()) {
                let first_lsn = piece.get(found + 16..found + 24).and_then(|bytes| bytes.try_into().ok());
                if first_lsn.is_none_or(|bytes| u64::from_le_bytes(bytes) < lsn) {
                    continue;
                }
                tries += 1;
                if tries > TRIES_MAX || self.frame(at + found as u64)?.is_some() {
                    return Ok(true);
                }
            }
            // The next piece begins with the part of a header that may end this piece.
            at += (piece.len() - (FRAME_HEADER_BYTES - 1)) as u64;
        }
    }

    /// Returns the next frame if it is valid, and advances. Otherwise the position does not change.
    fn next_frame(&mut self) -> std::io::Result<Option<StoredFrame>> {
        let frame = self.frame(self.at)?;
        self.at += frame.as_ref().map_or(0, |frame| frame.bytes.len() as u64);
        Ok(frame)
    }

    /// Returns the valid frame at a position, if there is one.
    fn frame(&mut self, at: u64) -> std::io::Result<Option<StoredFrame>> {
        let Some(header) = self.bytes(at, FRAME_HEADER_BYTES)? else { return Ok(None) };
        let Some(payload_len) = payload_len(&header) else { return Ok(None) };
        let bytes = self.bytes(at, FRAME_HEADER_BYTES + payload_len)?;
        Ok(bytes.and_then(|bytes| StoredFrame::decode(self.salt, bytes)))
    }
}

/// Returns the length of the payload of a frame with this header.
fn payload_len(header: &Bytes) -> Option<usize> {
    let mut header = Decoder::sharing(header);
    let is_frame = header.u32().ok()? == FRAME_MAGIC;
    let _crc = header.u32().ok()?;
    let payload_len = header.u32().ok()? as usize;
    is_frame.then_some(payload_len)
}

impl StoredFrame {
    /// Decodes a complete frame. Returns `None` if its checksum or its records are wrong.
    fn decode(salt: u64, bytes: Bytes) -> Option<StoredFrame> {
        if frame_crc(salt, &bytes).to_le_bytes() != bytes[4..8] {
            return None;
        }
        let rest = bytes.slice(12..);
        let mut input = Decoder::sharing(&rest);
        let (count, first_lsn) = (input.u32().ok()?, input.u64().ok()?);
        let mut records = Vec::new();
        while input.remaining() > 0 {
            records.push(input.bytes().ok()?);
        }
        (records.len() == count as usize).then_some(StoredFrame { first_lsn, records, bytes })
    }
}

/// Whether a file has no name any more. Asks for nothing else: since Linux 6.13, a query of a
/// file's times makes the next write change them, which takes a fifth of a durable write.
fn is_removed(file: &File) -> bool {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
    found.is_ok_and(|found| found.stx_nlink == 0)
}

fn damaged(path: &Path, at: u64, message: &str) -> Error {
    Error::corrupt(message).with("path", path.display()).with("offset_bytes", at)
}

fn io(message: &str, path: &Path, source: std::io::Error) -> Error {
    Error::io(Action::Admin, message, source).with("path", path.display())
}

/// Makes created, renamed and removed names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| io("a directory cannot be synced", dir, e))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
