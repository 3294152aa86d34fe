//! From a striped object: its pieces, and whether they are what was stored.

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

/// How much one operation reads.
const RANGE_BYTES: u64 = 32 * 1024 * 1024;

/// A striped object that is read.
#[derive(Clone)]
pub struct Reading {
    /// What is read.
    pub at: Striped,
    /// How it is cut.
    pub layout: Layout,
    /// Size of the file.
    pub size_bytes: u64,
    /// What is known of the file.
    pub note: Option<Note>,
    /// Whether it is checked.
    pub check: bool,
    /// Pieces that are on their way at once.
    room: Arc<Semaphore>,
    /// Of the lock that it is read under.
    watch: Watch,
}

/// What is left of a piece when its bytes are where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The digest of what was read.
    pub read: String,
    /// The digest that was kept with the piece, if one was.
    pub kept: Option<String>,
    /// The version of the piece, if it was read as one.
    pub version: Option<u64>,
}

/// What a check of everything found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is what was copied.
    Digest,
    /// Another program wrote it, so there is no digest; every piece is as long as it should be.
    Lengths,
    /// The user wanted none.
    No,
}

impl Checked {
    /// Its name in JSON.
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

    /// Pieces to read.
    pub fn pieces(&self) -> u64 {
        self.layout.pieces(self.size_bytes)
    }

    /// What was kept with a piece, before it is read.
    ///
    /// # Errors
    /// As [`benthic_core::Pool::read`].
    pub async fn kept(&self, piece: u64) -> Result<Option<String>> {
        match self.at.pool.fetch(&self.at.piece(piece)?, Fetch::list_xattrs()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => Ok(found?.0.get(PIECE_XATTR).and_then(|value| text(value))),
        }
    }

    /// A piece; all but the first are one version of it.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or too short, unless it is not to be checked: then there are zeros, as libradosstriper reads
    /// them; `Conflict` if the lock was lost; as [`benthic_core::Pool::read`].
    pub async fn piece(&self, piece: u64) -> Result<(Bytes, Seen)> {
        let (object, len_bytes) = (self.at.piece(piece)?, self.layout.piece_len(self.size_bytes, piece));
        let first_bytes = len_bytes.min(RANGE_BYTES);
        // It is never closed.
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
                    // Every renewal of a lock makes another version of the first piece.
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

    /// Fails if it may be another one by now than the one whose pieces were read as `seen`.
    ///
    /// Where there is no digest of the whole, every piece must be what it was, for the lock does not keep libradosstriper's
    /// writers out.
    ///
    /// # Errors
    /// `Conflict`; as [`benthic_core::Pool::read`].
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
        // Another version may be no more than the renewal of a lock.
        Ok(seen.version == Some(version) || self.piece(piece).await?.1.read == seen.read)
    }

    fn changed(&self) -> Error {
        let message = "the striped object was changed while it was read; repeat the command";
        Error::new(ErrorKind::Conflict, message).with("object", &self.at.object)
    }

    /// Judges what was read of all pieces, in their order.
    ///
    /// # Errors
    /// `Corrupt` if it is not what was stored.
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
        // Other programs that replace a striped object keep the attributes of the first piece, and remove the others. Where
        // there are no others, a first piece that has its own digest is not theirs, but one of another copy of ours.
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

    /// What is known of the file, if what was read is that file: `xxh3` is the digest of all of it.
    pub fn noted(&self, xxh3: &str) -> Option<&Note> {
        self.note.as_ref().filter(|note| note.xxh3 == xxh3)
    }

    /// Whether the only piece that was read is what is stored, computed beside it.
    async fn is_stored(&self, seen: &[Seen]) -> Result<bool> {
        let object = self.at.piece(0)?;
        let (stat, _) = self.at.pool.stat(&object).await?;
        let Some(first) = seen.first().filter(|_| stat.size_bytes == self.size_bytes) else {
            return Ok(false);
        };
        match compute(&*self.at.pool, &object, Algorithm::Xxh3, 1).await {
            Ok(beside) => Ok(beside == first.read),
            // Where nothing can be computed, what another program changed cannot be told from damage.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The digest of all that was read.
pub fn digest_of_seen(seen: &[Seen]) -> String {
    digest_of_all(seen.iter().map(|seen| seen.read.as_str()))
}

fn text(value: &[u8]) -> Option<String> {
    std::str::from_utf8(value).ok().map(str::to_owned)
}

/// What a copy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Size of the file.
    pub size_bytes: u64,
    /// Pieces.
    pub pieces: u64,
    /// Those that were there before.
    pub pieces_kept: u64,
    /// Whether all was there before, and nothing was done.
    pub unchanged: bool,
    /// What was checked.
    pub checked: Checked,
}

/// How a copy is done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Pieces at once, as far as memory has room.
    pub jobs: usize,
    /// Whether contents are compared to find what is copied already, instead of size and time.
    pub checksum: bool,
    /// Whether what was copied is checked.
    pub check: bool,
    /// How long others that hold the lock are waited for.
    pub lock_wait: Duration,
    /// Gets the number of all bytes and returns what counts those that have arrived.
    pub progress: fn(u64) -> Box<dyn Fn(u64)>,
}

/// Fetches a striped object into a file, which appears under its name when it is complete.
///
/// # Errors
/// `NotFound`, `Busy`, `Corrupt`; `Conflict` if it was changed meanwhile; those of the file system.
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
    // Other programs that change a piece leave the digest that was kept with it, so what was here may be of the file before.
    if pieces_kept > 0 && reading.noted(&digest_of_seen(&seen)).is_none() {
        (seen, pieces_kept) = fetch_pieces(&reading, &part, options, false).await?;
    }
    let seen = Arc::new(seen);
    reading.confirm(&seen, options.jobs).await?;
    let checked = reading.judge(&seen).await?;
    // The time of the file is known only if the content is that of the file.
    let noted = reading.noted(&digest_of_seen(&seen));
    let modified =
        noted.map(|note| note.modified_unix_ns).or_else(|| i64::try_from(stat.modified_unix_ns).ok());
    let Some(part) = Arc::into_inner(part) else {
        return Err(Error::new(ErrorKind::Internal, "a job still has the file"));
    };
    blocking(move || part.finish(modified)).await?;
    Ok(Copied { size_bytes, pieces, pieces_kept, unchanged: false, checked })
}

/// Brings all pieces into the file, those that may be there already too unless `resumes`. Returns what is left of them, and how
/// many were there.
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
    // What has arrived is hashed and written while others are on their way.
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

/// Brings a piece into the file, and says whether it was there.
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

/// Opens a striped object to be copied elsewhere, under a shared lock.
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
