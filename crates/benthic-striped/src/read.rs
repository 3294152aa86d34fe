//! Reads striped objects under the shared lock, and verifies their data.
//!
//! A read compares the digest of all data with the digest recorded at the write. If another program
//! wrote the object, no such digest exists, and the read checks the lengths of the pieces.
//! docs/formats.md describes the rules.

use super::layout::Layout;
use super::lock::{Lock, Watch};
use super::part::Part;
use super::{Note, PIECE_XATTR, Striped, blocking, digest, digest_of_all, window};
use benthic_classes::digest::Algorithm;
use benthic_classes::digest::client::compute;
use benthic_classes::lock::wire::Mode;
use benthic_core::{Error, ErrorKind, Fetch, Result, Stat};
use bytes::{Bytes, BytesMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Largest read of one operation.
const RANGE_BYTES: u64 = 32 * 1024 * 1024;

/// A striped object that is being read under a shared lock.
#[derive(Clone)]
pub struct Reading {
    /// The striped object.
    pub at: Striped,
    /// The layout of its pieces.
    pub layout: Layout,
    /// Size of the file.
    pub size_bytes: u64,
    /// The source file, if it is known.
    pub note: Option<Note>,
    /// Verify the data.
    pub check: bool,
    /// Limits the number of pieces in transit.
    room: Arc<Semaphore>,
    /// The handle of the lock for this read.
    watch: Watch,
}

/// The digests and version of a piece whose data have been passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The digest of the data that was read.
    pub read: String,
    /// The digest stored with the piece, if there is one.
    pub kept: Option<String>,
    /// The version of the piece, if all its data come from one version.
    pub version: Option<u64>,
}

/// The result of verifying a whole striped object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The data match the digest of the copied file.
    Digest,
    /// Another program wrote the object, so it has no digest. Every piece has its expected length.
    Lengths,
    /// The user turned verification off.
    No,
}

impl Checked {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Checked::Digest => "digest",
            Checked::Lengths => "lengths",
            Checked::No => "no",
        }
    }
}

impl Reading {
    fn new(lock: &Lock, at: Striped, whole: (Layout, u64, Option<Note>, Stat), options: Options) -> Reading {
        let (layout, size_bytes, note, _) = whole;
        let room = Arc::new(Semaphore::new(window(options.jobs, layout)));
        Reading { at, layout, size_bytes, note, check: options.check, room, watch: lock.watch() }
    }

    /// The number of pieces.
    pub fn pieces(&self) -> u64 {
        self.layout.pieces(self.size_bytes)
    }

    /// The digest stored with a piece. Does not read the piece's data.
    ///
    /// # Errors
    /// As [`benthic_core::Pool::read`].
    pub async fn kept(&self, piece: u64) -> Result<Option<String>> {
        match self.at.pool.fetch(&self.at.piece(piece)?, Fetch::list_xattrs()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => Ok(found?.0.get(PIECE_XATTR).and_then(|value| text(value))),
        }
    }

    /// Reads a piece. The data of every piece except the first come from one version.
    ///
    /// # Errors
    /// `Corrupt` if the piece is missing or too short (without verification, zeros replace missing
    /// data, as in libradosstriper); `Conflict` if the lock was lost; as
    /// [`benthic_core::Pool::read`].
    pub async fn piece(&self, piece: u64) -> Result<(Bytes, Seen)> {
        let (object, len_bytes) = (self.at.piece(piece)?, self.layout.piece_len(self.size_bytes, piece));
        let first_bytes = len_bytes.min(RANGE_BYTES);
        // The semaphore is never closed.
        let on_its_way = self.room.acquire().await;
        self.watch.check()?;
        let mut data;
        let (mut kept, mut version) = (None, None);
        match self.at.pool.fetch(&object, Fetch::list_xattrs().and(Fetch::read(0, first_bytes))).await {
            Err(error) if error.kind() == ErrorKind::NotFound => data = Bytes::new(),
            found => {
                let ((xattrs, first), found_version) = found?;
                kept = xattrs.get(PIECE_XATTR).and_then(|value| text(value));
                data = first;
                version = Some(found_version);
                if data.len() as u64 == first_bytes && first_bytes < len_bytes {
                    // Every renewal of the lock changes the version of the first piece.
                    version = version.filter(|_| piece > 0);
                    let mut whole = BytesMut::from(&data[..]);
                    while (whole.len() as u64) < len_bytes {
                        let offset_bytes = whole.len() as u64;
                        let range = Fetch::read(offset_bytes, (len_bytes - offset_bytes).min(RANGE_BYTES));
                        let range = match version {
                            Some(version) => range.assert_version(version),
                            None => range,
                        };
                        let (next, _) = self.at.pool.fetch(&object, range).await?;
                        if next.is_empty() {
                            break;
                        }
                        whole.extend_from_slice(&next);
                    }
                    data = whole.freeze();
                }
            }
        }
        drop(on_its_way);
        if (data.len() as u64) < len_bytes {
            if self.check {
                let message = "a piece is missing or too short: the striped object is damaged, or it was written with gaps; \
                    --no-check reads zeros there";
                return Err(Error::new(ErrorKind::Corrupt, message)
                    .with("object", &object)
                    .with("len_bytes", data.len())
                    .with("expected_bytes", len_bytes));
            }
            let mut filled = BytesMut::from(&data[..]);
            filled.resize(usize::try_from(len_bytes).unwrap_or(usize::MAX), 0);
            data = filled.freeze();
        }
        let (data, read) = blocking(move || {
            let read = digest(&data);
            Ok((data, read))
        })
        .await?;
        Ok((data, Seen { read, kept, version }))
    }

    /// Fails if the striped object may have changed since its pieces were read as `seen`.
    ///
    /// Without a digest of the whole file, every piece must be unchanged, because the lock does not
    /// exclude libradosstriper's writers.
    ///
    /// # Errors
    /// `Conflict` if it changed; as [`benthic_core::Pool::read`].
    pub async fn confirm(&self, seen: &Arc<Vec<Seen>>, jobs: usize) -> Result<()> {
        self.watch.check()?;
        let is_same = match self.at.look_whole().await {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            whole => {
                let (layout, size_bytes, note, _) = whole?;
                (layout, size_bytes, &note) == (self.layout, self.size_bytes, &self.note)
            }
        };
        if !is_same {
            return Err(self.changed());
        }
        if !self.check || self.noted(&digest_of_seen(seen)).is_some() {
            return Ok(());
        }
        let job = |piece| {
            let (reading, seen) = (self.clone(), Arc::clone(seen));
            async move {
                let seen = usize::try_from(piece).ok().and_then(|piece| seen.get(piece));
                let is_same = match seen {
                    Some(seen) => reading.is_as_seen(piece, seen).await?,
                    None => false,
                };
                if is_same { Ok(()) } else { Err(reading.changed()) }
            }
        };
        self.at.each(0..self.pieces(), jobs, job, |_, ()| {}).await
    }

    async fn is_as_seen(&self, piece: u64, seen: &Seen) -> Result<bool> {
        let version = match self.at.pool.stat(&self.at.piece(piece)?).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            found => found?.1,
        };
        // A different version may result from a renewal of the lock, so compare the data too.
        Ok(seen.version == Some(version) || self.piece(piece).await?.1.read == seen.read)
    }

    fn changed(&self) -> Error {
        let message = "the striped object was changed while it was read; repeat the command";
        Error::new(ErrorKind::Conflict, message).with("object", &self.at.object)
    }

    /// Verifies the digests of all pieces, given in order.
    ///
    /// # Errors
    /// `Corrupt` if the data are not what was stored; as [`benthic_core::Pool::read`].
    pub async fn judge(&self, seen: &[Seen]) -> Result<Checked> {
        if !self.check {
            return Ok(Checked::No);
        }
        let Some(note) = &self.note else { return Ok(Checked::Lengths) };
        if digest_of_seen(seen) == note.xxh3 {
            return Ok(Checked::Digest);
        }
        let differs = |seen: &Seen| seen.kept.as_ref() != Some(&seen.read);
        let wrong = seen.iter().position(differs).unwrap_or(0);
        // Other programs that replace a striped object keep the attributes of the first piece and
        // remove the other pieces. If there is only one piece and it matches its own digest,
        // another copy by Benthic wrote it, not another program.
        let others_replaced = match seen {
            [only] => differs(only) && self.is_stored(seen).await?,
            seen => seen.iter().skip(1).all(|seen| seen.kept.is_none()),
        };
        if others_replaced {
            return Ok(Checked::Lengths);
        }
        let message = "a piece is not what was stored with the others: it is damaged, or another program changed it; \
            --no-check reads it as it is";
        Err(Error::new(ErrorKind::Corrupt, message).with("object", self.at.piece(wrong as u64)?))
    }

    /// The source file, if `xxh3`, the digest of all data that was read, matches it.
    pub fn noted(&self, xxh3: &str) -> Option<&Note> {
        self.note.as_ref().filter(|note| note.xxh3 == xxh3)
    }

    /// Returns whether the data read of the only piece match the stored data, by a digest computed
    /// in the process that stores it.
    async fn is_stored(&self, seen: &[Seen]) -> Result<bool> {
        let object = self.at.piece(0)?;
        let (stat, _) = self.at.pool.stat(&object).await?;
        let Some(first) = seen.first().filter(|_| stat.size_bytes == self.size_bytes) else {
            return Ok(false);
        };
        match compute(&*self.at.pool, &object, Algorithm::Xxh3, 1).await {
            Ok(beside) => Ok(beside == first.read),
            // Without a digest from there, damage cannot be told from a change by another program.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The digest of all pieces that were read.
pub fn digest_of_seen(seen: &[Seen]) -> String {
    digest_of_all(seen.iter().map(|seen| seen.read.as_str()))
}

fn text(value: &[u8]) -> Option<String> {
    std::str::from_utf8(value).ok().map(str::to_owned)
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Size of the file.
    pub size_bytes: u64,
    /// The number of pieces.
    pub pieces: u64,
    /// The number of pieces that the target already had.
    pub pieces_kept: u64,
    /// True if the target was already complete, so the copy changed nothing.
    pub unchanged: bool,
    /// How the data were verified.
    pub checked: Checked,
}

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of pieces to transfer at once. The memory limit may reduce it.
    pub jobs: usize,
    /// Compare contents instead of size and time to find out what is already copied.
    pub checksum: bool,
    /// Verify the copied data.
    pub check: bool,
    /// Time to wait for other lock holders.
    pub lock_wait: Duration,
    /// Starts a progress display for this many bytes. Returns a function to call with each number
    /// of bytes that have arrived.
    pub progress: fn(u64) -> Box<dyn Fn(u64)>,
}

/// Downloads a striped object into a file, which appears under its name when it is complete.
///
/// # Errors
/// `NotFound`; `Busy`; `Corrupt`; `Conflict` if the object changed during the download; those of
/// the file system.
pub async fn fetch(at: Striped, path: &Path, options: Options) -> Result<Copied> {
    let (layout, size_bytes, note, _) = at.look_whole().await?;
    if let Some(note) = note.clone() {
        let (path, checksum) = (path.to_owned(), options.checksum);
        if blocking(move || super::part::is_there(&path, layout, &note, checksum)).await? {
            let pieces = layout.pieces(size_bytes);
            let checked = if options.checksum { Checked::Digest } else { Checked::No };
            return Ok(Copied { size_bytes, pieces, pieces_kept: pieces, unchanged: true, checked });
        }
    }
    let lock = Lock::take(&at, Mode::Shared, false, options.lock_wait).await?;
    let fetched = fetch_locked(&lock, at, path, options).await;
    lock.release().await;
    fetched
}

async fn fetch_locked(lock: &Lock, at: Striped, path: &Path, options: Options) -> Result<Copied> {
    let whole = at.look_whole().await?;
    let (size_bytes, stat) = (whole.1, whole.3);
    let reading = Reading::new(lock, at, whole, options);
    let (target, resumable) = (path.to_owned(), reading.note.is_some());
    let part = Arc::new(blocking(move || Part::open(&target, size_bytes, resumable)).await?);
    let pieces = reading.pieces();
    let (mut seen, mut pieces_kept) = fetch_pieces(&reading, &part, options, part.was_begun()).await?;
    // Other programs that change a piece leave its stored digest in place. So a reused piece may
    // belong to an earlier version of the file.
    if pieces_kept > 0 && reading.noted(&digest_of_seen(&seen)).is_none() {
        (seen, pieces_kept) = fetch_pieces(&reading, &part, options, false).await?;
    }
    let seen = Arc::new(seen);
    reading.confirm(&seen, options.jobs).await?;
    let checked = reading.judge(&seen).await?;
    // The recorded time is valid only if the data have the recorded digest.
    let noted = reading.noted(&digest_of_seen(&seen));
    let modified =
        noted.map(|note| note.modified_unix_ns).or_else(|| i64::try_from(stat.modified_unix_ns).ok());
    let Some(part) = Arc::into_inner(part) else {
        return Err(Error::new(ErrorKind::Internal, "a job still has the file"));
    };
    blocking(move || part.finish(modified)).await?;
    Ok(Copied { size_bytes, pieces, pieces_kept, unchanged: false, checked })
}

/// Downloads all pieces into the file. With `resumes`, it keeps pieces that the file already has.
/// Returns the digests of all pieces and the number of pieces kept.
async fn fetch_pieces(
    reading: &Reading,
    part: &Arc<Part>,
    options: Options,
    resumes: bool,
) -> Result<(Vec<Seen>, u64)> {
    let (layout, size_bytes, pieces) = (reading.layout, reading.size_bytes, reading.pieces());
    let progress = (options.progress)(size_bytes);
    let mut seen = vec![None; usize::try_from(pieces).unwrap_or(0)];
    let mut pieces_kept = 0;
    let job = |piece| {
        let (reading, part) = (reading.clone(), Arc::clone(part));
        async move { fetch_piece(&reading, part, piece, resumes).await }
    };
    // Hash and write pieces that have arrived while others are in transit.
    let jobs = 2 * window(options.jobs, layout);
    let fetched = reading.at.each(0..pieces, jobs, job, |piece, (found, was_there)| {
        progress(layout.piece_len(size_bytes, piece));
        pieces_kept += u64::from(was_there);
        if let Some(slot) = usize::try_from(piece).ok().and_then(|piece| seen.get_mut(piece)) {
            *slot = Some(found);
        }
    });
    fetched.await?;
    Ok((seen.into_iter().flatten().collect(), pieces_kept))
}

/// Downloads a piece into the file, and returns whether the file already had it.
async fn fetch_piece(reading: &Reading, part: Arc<Part>, piece: u64, resumes: bool) -> Result<(Seen, bool)> {
    let extents = reading.layout.extents(reading.size_bytes, piece);
    if resumes && let Some(kept) = reading.kept(piece).await? {
        let (part, extents) = (Arc::clone(&part), extents.clone());
        let here = blocking(move || Ok(digest(&part.read(&extents)?))).await?;
        if here == kept {
            return Ok((Seen { read: here, kept: Some(kept), version: None }, true));
        }
    }
    let (data, seen) = reading.piece(piece).await?;
    blocking(move || part.write(&extents, &data)).await?;
    Ok((seen, false))
}

/// Opens a striped object to copy it elsewhere, under a shared lock.
///
/// # Errors
/// As [`fetch`].
pub async fn open(at: Striped, options: Options) -> Result<(Lock, Reading)> {
    at.look_whole().await?;
    let lock = Lock::take(&at, Mode::Shared, false, options.lock_wait).await?;
    match at.look_whole().await {
        Ok(whole) => {
            let reading = Reading::new(&lock, at, whole, options);
            Ok((lock, reading))
        }
        Err(error) => {
            lock.release().await;
            Err(error)
        }
    }
}
