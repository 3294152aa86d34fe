//! Reads striped objects under the shared lock, and verifies their data.
//!
//! A read compares the digest of all data with the digest recorded at the write. If another program
//! wrote the object, no such digest exists, and the read checks the lengths of the pieces.
//! docs/formats.md describes the rules.

use super::layout::Layout;
use super::lock::{Lock, Watch};
use super::part::PartialFile;
use super::{Note, PIECE_XATTR, Striped, blocking, digest, digest_of_all, window};
use benthic_classes::digest::Algorithm;
use benthic_classes::digest::client::compute;
use benthic_classes::lock::wire::Mode;
use benthic_core::{Error, ErrorKind, Fetch, OptionalExtension, Result, Stat};
use bytes::{Bytes, BytesMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const RANGE_BYTES: u64 = 32 * 1024 * 1024;

/// A striped object that is being read under a shared lock.
#[derive(Clone)]
pub struct StripedReader {
    pub at: Striped,
    pub layout: Layout,
    pub size_bytes: u64,
    /// The source file, if it is known.
    pub note: Option<Note>,
    pub check: bool,
    /// Limits the number of pieces in transit.
    room: Arc<Semaphore>,
    watch: Watch,
}

/// The digests and version of a piece whose data have been passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPiece {
    pub digest: String,
    pub stored_digest: Option<String>,
    /// The version of the piece, if all its data come from one version.
    pub version: Option<u64>,
}

/// The result of verifying a whole striped object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The data match the digest of the copied file.
    Digest,
    /// Another program wrote the object, so it has no digest. Every piece has its expected length.
    Lengths,
    Skipped,
}

impl Verification {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verification::Digest => "digest",
            Verification::Lengths => "lengths",
            Verification::Skipped => "no",
        }
    }
}

impl StripedReader {
    fn new(
        lock: &Lock,
        at: Striped,
        state: (Layout, u64, Option<Note>, Stat),
        options: Options,
    ) -> StripedReader {
        let (layout, size_bytes, note, _) = state;
        let room = Arc::new(Semaphore::new(window(options.jobs, layout)));
        StripedReader { at, layout, size_bytes, note, check: options.check, room, watch: lock.watch() }
    }

    pub fn pieces(&self) -> u64 {
        self.layout.pieces(self.size_bytes)
    }

    /// The digest stored with a piece. Does not read the piece's data.
    pub async fn stored_digest(&self, piece: u64) -> Result<Option<String>> {
        let found = self.at.pool.fetch(&self.at.piece(piece)?, Fetch::list_xattrs()).await.optional()?;
        Ok(found.and_then(|(xattrs, _)| xattrs.get(PIECE_XATTR).and_then(|value| text(value))))
    }

    /// Reads a piece. The data of every piece except the first come from one version.
    ///
    /// # Errors
    /// `Corrupt` if the piece is missing or too short (without verification, zeros replace missing
    /// data, as in libradosstriper); `Conflict` if the lock was lost; as
    /// [`benthic_core::Pool::read`].
    pub async fn piece(&self, piece: u64) -> Result<(Bytes, ReadPiece)> {
        let (object, len_bytes) = (self.at.piece(piece)?, self.layout.piece_len(self.size_bytes, piece));
        let first_bytes = len_bytes.min(RANGE_BYTES);
        // The semaphore is never closed.
        let permit = self.room.acquire().await;
        self.watch.check()?;
        let mut data;
        let (mut stored_digest, mut version) = (None, None);
        match self.at.pool.fetch(&object, Fetch::list_xattrs().and(Fetch::read(0, first_bytes))).await {
            Err(error) if error.kind() == ErrorKind::NotFound => data = Bytes::new(),
            found => {
                let ((xattrs, first), found_version) = found?;
                stored_digest = xattrs.get(PIECE_XATTR).and_then(|value| text(value));
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
        drop(permit);
        if (data.len() as u64) < len_bytes {
            if self.check {
                let message = "a piece is missing or too short: the striped object is damaged or was written with gaps; \
                    --no-check reads zeros there";
                return Err(Error::corrupt(message)
                    .with("object", &object)
                    .with("len_bytes", data.len())
                    .with("expected_bytes", len_bytes));
            }
            let mut filled = BytesMut::from(&data[..]);
            filled.resize(usize::try_from(len_bytes).unwrap_or(usize::MAX), 0);
            data = filled.freeze();
        }
        let (data, digest) = blocking(move || Ok((data.clone(), digest(&data)))).await?;
        Ok((data, ReadPiece { digest, stored_digest, version }))
    }

    /// Fails if the striped object may have changed since `read_pieces` were read.
    ///
    /// Without a digest of the whole file, every piece must be unchanged, because the lock does not
    /// exclude libradosstriper's writers.
    ///
    /// # Errors
    /// `Conflict` if it changed; as [`benthic_core::Pool::read`].
    pub async fn check_unchanged(&self, read_pieces: &Arc<Vec<ReadPiece>>, jobs: usize) -> Result<()> {
        self.watch.check()?;
        let whole = self.at.read_complete().await.optional()?;
        let is_same = whole.is_some_and(|(layout, size_bytes, note, _)| {
            (layout, size_bytes, &note) == (self.layout, self.size_bytes, &self.note)
        });
        if !is_same {
            return Err(self.change_error());
        }
        if !self.check || self.matching_note(&digest_of_pieces(read_pieces)).is_some() {
            return Ok(());
        }
        let job = |piece| {
            let (reader, read_pieces) = (self.clone(), Arc::clone(read_pieces));
            async move {
                let is_same = match usize::try_from(piece).ok().and_then(|piece| read_pieces.get(piece)) {
                    Some(read_piece) => reader.is_unchanged(piece, read_piece).await?,
                    None => false,
                };
                if is_same { Ok(()) } else { Err(reader.change_error()) }
            }
        };
        self.at.run_jobs(0..self.pieces(), jobs, job, |_, ()| {}).await
    }

    async fn is_unchanged(&self, piece: u64, read_piece: &ReadPiece) -> Result<bool> {
        let Some((_, version)) = self.at.pool.stat(&self.at.piece(piece)?).await.optional()? else {
            return Ok(false);
        };
        // A different version may result from a renewal of the lock, so compare the data too.
        Ok(read_piece.version == Some(version) || self.piece(piece).await?.1.digest == read_piece.digest)
    }

    fn change_error(&self) -> Error {
        let message = "the striped object changed while it was read; repeat the command";
        Error::conflict(message).with("object", &self.at.object)
    }

    /// Verifies the digests of all pieces, given in order.
    ///
    /// # Errors
    /// `Corrupt` if the data differ from those that were stored; as [`benthic_core::Pool::read`].
    pub async fn verify(&self, read_pieces: &[ReadPiece]) -> Result<Verification> {
        if !self.check {
            return Ok(Verification::Skipped);
        }
        let Some(note) = &self.note else { return Ok(Verification::Lengths) };
        if digest_of_pieces(read_pieces) == note.xxh3 {
            return Ok(Verification::Digest);
        }
        let differs = |piece: &ReadPiece| piece.stored_digest.as_ref() != Some(&piece.digest);
        let wrong = read_pieces.iter().position(differs).unwrap_or(0);
        // Other programs that replace a striped object keep the attributes of the first piece and
        // remove the other pieces. If there is only one piece and it matches its own digest,
        // another copy by Benthic wrote it, not another program.
        let others_replaced = match read_pieces {
            [only] => differs(only) && self.matches_stored_data(read_pieces).await?,
            _ => read_pieces.iter().skip(1).all(|piece| piece.stored_digest.is_none()),
        };
        if others_replaced {
            return Ok(Verification::Lengths);
        }
        let message = "a piece does not belong to the stored file: it is damaged, or another program changed it; \
            --no-check reads it without verification";
        Err(Error::corrupt(message).with("object", self.at.piece(wrong as u64)?))
    }

    /// The source file, if `xxh3`, the digest of all data that was read, matches it.
    pub fn matching_note(&self, xxh3: &str) -> Option<&Note> {
        self.note.as_ref().filter(|note| note.xxh3 == xxh3)
    }

    /// Returns whether the data read of the only piece match the stored data, by a digest computed
    /// in the process that stores it.
    async fn matches_stored_data(&self, read_pieces: &[ReadPiece]) -> Result<bool> {
        let object = self.at.piece(0)?;
        let (stat, _) = self.at.pool.stat(&object).await?;
        let Some(first) = read_pieces.first().filter(|_| stat.size_bytes == self.size_bytes) else {
            return Ok(false);
        };
        match compute(&*self.at.pool, &object, Algorithm::Xxh3, 1).await {
            Ok(stored) => Ok(stored == first.digest),
            // Without this digest, damage looks like a change by another program.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The digest of all pieces that were read.
pub fn digest_of_pieces(read_pieces: &[ReadPiece]) -> String {
    digest_of_all(read_pieces.iter().map(|piece| piece.digest.as_str()))
}

fn text(value: &[u8]) -> Option<String> {
    std::str::from_utf8(value).ok().map(str::to_owned)
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyResult {
    pub size_bytes: u64,
    pub pieces: u64,
    pub pieces_kept: u64,
    /// True if the target was already complete, so the copy changed nothing.
    pub unchanged: bool,
    pub checked: Verification,
}

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of pieces to transfer at once. The memory limit may reduce it.
    pub jobs: usize,
    /// Compare contents instead of size and time to find out what is already copied.
    pub checksum: bool,
    pub check: bool,
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
pub async fn fetch(at: Striped, path: &Path, options: Options) -> Result<CopyResult> {
    let (layout, size_bytes, note, _) = at.read_complete().await?;
    if let Some(note) = note.clone() {
        let (path, checksum) = (path.to_owned(), options.checksum);
        if blocking(move || super::part::matches_note(&path, layout, &note, checksum)).await? {
            let pieces = layout.pieces(size_bytes);
            let checked = if options.checksum { Verification::Digest } else { Verification::Skipped };
            return Ok(CopyResult { size_bytes, pieces, pieces_kept: pieces, unchanged: true, checked });
        }
    }
    let lock = Lock::take(&at, Mode::Shared, false, options.lock_wait).await?;
    let fetched = fetch_locked(&lock, at, path, options).await;
    lock.release().await;
    fetched
}

async fn fetch_locked(lock: &Lock, at: Striped, path: &Path, options: Options) -> Result<CopyResult> {
    let state = at.read_complete().await?;
    let (size_bytes, stat) = (state.1, state.3);
    let reader = StripedReader::new(lock, at, state, options);
    let (target, resumable) = (path.to_owned(), reader.note.is_some());
    let part = Arc::new(blocking(move || PartialFile::open(&target, size_bytes, resumable)).await?);
    let pieces = reader.pieces();
    let (mut read_pieces, mut pieces_kept) =
        fetch_pieces(&reader, &part, options, part.may_have_data()).await?;
    // Other programs that change a piece leave its stored digest in place. So a reused piece may
    // belong to an earlier version of the file.
    if pieces_kept > 0 && reader.matching_note(&digest_of_pieces(&read_pieces)).is_none() {
        (read_pieces, pieces_kept) = fetch_pieces(&reader, &part, options, false).await?;
    }
    let read_pieces = Arc::new(read_pieces);
    reader.check_unchanged(&read_pieces, options.jobs).await?;
    let checked = reader.verify(&read_pieces).await?;
    // The recorded time is valid only if the data have the recorded digest.
    let noted = reader.matching_note(&digest_of_pieces(&read_pieces));
    let modified =
        noted.map(|note| note.modified_unix_ns).or_else(|| i64::try_from(stat.modified_unix_ns).ok());
    let Some(part) = Arc::into_inner(part) else {
        return Err(Error::internal("a job still uses the file"));
    };
    blocking(move || part.finish(modified)).await?;
    Ok(CopyResult { size_bytes, pieces, pieces_kept, unchanged: false, checked })
}

/// Downloads all pieces into the file. With `resumes`, it keeps pieces that the file already has.
/// Returns the digests of all pieces and the number of pieces kept.
async fn fetch_pieces(
    reader: &StripedReader,
    part: &Arc<PartialFile>,
    options: Options,
    resumes: bool,
) -> Result<(Vec<ReadPiece>, u64)> {
    let (layout, size_bytes, pieces) = (reader.layout, reader.size_bytes, reader.pieces());
    let progress = (options.progress)(size_bytes);
    let mut read_pieces = vec![None; usize::try_from(pieces).unwrap_or(0)];
    let mut pieces_kept = 0;
    let job = |piece| {
        let (reader, part) = (reader.clone(), Arc::clone(part));
        async move { fetch_piece(&reader, part, piece, resumes).await }
    };
    // Hash and write pieces that have arrived while others are in transit.
    let jobs = 2 * window(options.jobs, layout);
    let fetched = reader.at.run_jobs(0..pieces, jobs, job, |piece, (found, existed)| {
        progress(layout.piece_len(size_bytes, piece));
        pieces_kept += u64::from(existed);
        if let Some(slot) = usize::try_from(piece).ok().and_then(|piece| read_pieces.get_mut(piece)) {
            *slot = Some(found);
        }
    });
    fetched.await?;
    Ok((read_pieces.into_iter().flatten().collect(), pieces_kept))
}

/// Downloads a piece into the file, and returns whether the file already had it.
async fn fetch_piece(
    reader: &StripedReader,
    part: Arc<PartialFile>,
    piece: u64,
    resumes: bool,
) -> Result<(ReadPiece, bool)> {
    let extents = reader.layout.extents(reader.size_bytes, piece);
    if resumes && let Some(kept) = reader.stored_digest(piece).await? {
        let (part, extents) = (Arc::clone(&part), extents.clone());
        let digest = blocking(move || Ok(digest(&part.read(&extents)?))).await?;
        if digest == kept {
            return Ok((ReadPiece { digest, stored_digest: Some(kept), version: None }, true));
        }
    }
    let (data, read_piece) = reader.piece(piece).await?;
    blocking(move || part.write(&extents, &data)).await?;
    Ok((read_piece, false))
}

/// Opens a striped object to copy it elsewhere, under a shared lock.
pub async fn open(at: Striped, options: Options) -> Result<(Lock, StripedReader)> {
    at.read_complete().await?;
    let lock = Lock::take(&at, Mode::Shared, false, options.lock_wait).await?;
    match at.read_complete().await {
        Ok(state) => {
            let reader = StripedReader::new(&lock, at, state, options);
            Ok((lock, reader))
        }
        Err(error) => {
            lock.release().await;
            Err(error)
        }
    }
}
