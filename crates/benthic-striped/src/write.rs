//! Writes striped objects, from a file or from another striped object.
//!
//! A write holds the exclusive lock and follows this order:
//!
//! 1. Find pieces that are already there, by their digests.
//! 2. Before the first change, remove `striper.size` from the first object and add the note
//!    `benthic.begun`.
//! 3. Write the pieces, each in one operation together with its digest.
//! 4. Remove pieces of the old object beyond the end of the new one.
//! 5. Add the layout, the size and the note of the file to the first object and remove
//!    `benthic.begun`, on condition that `benthic.begun` is still this run's.
//!
//! No program reads the object before step 5. If a run is killed earlier, the next run continues
//! with the pieces it left.

use super::layout::Layout;
use super::lock::{Lock, Watch};
use super::part::{cannot_read, gather};
use super::read::{CopyResult, Options, ReadPiece, StripedReader, Verification, digest_of_pieces};
use super::{
    BEGUN_XATTR, Head, NOTE_XATTR, Note, OBJECT_SIZE_XATTR, PIECE_XATTR, SIZE_XATTR, STRIPE_COUNT_XATTR,
    STRIPE_UNIT_XATTR, Striped, StripedState, blocking, digest, digest_in_store, encode, is_marked,
    modified_unix_ns, remove, window,
};
use benthic_classes::lock::wire::Mode;
use benthic_core::{
    Compare, Error, ErrorKind, Fetch, ObjectId, OptionalExtension, Pool, Result, WriteOp, WriteStep,
};
use bytes::Bytes;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{OnceCell, Semaphore};

/// Number of names to check at once. The checks carry no data and only wait for replies.
const CHECKS_AT_ONCE: usize = 128;

/// The source of a copy.
#[derive(Clone)]
pub enum Source {
    File(SourceFile),
    Striped(Arc<StripedReader>),
}

/// A file, with its size and time when it was opened.
#[derive(Clone)]
pub struct SourceFile {
    file: Arc<File>,
    path: PathBuf,
    size_bytes: u64,
    modified_unix_ns: i64,
}

impl SourceFile {
    /// Opens a file. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a regular file; those of the file system.
    pub fn open(path: &Path) -> Result<SourceFile> {
        // Check before opening: opening a pipe waits for a writer.
        let metadata = std::fs::metadata(path).map_err(cannot_read(path))?;
        if !metadata.is_file() {
            let message = "only a regular file can be striped; use `benthic put` for a pipe and `benthic cp -r` for a \
                directory";
            return Err(Error::invalid_argument(message).with("path", path.display()));
        }
        Ok(SourceFile {
            file: Arc::new(File::open(path).map_err(cannot_read(path))?),
            path: path.to_owned(),
            size_bytes: metadata.len(),
            modified_unix_ns: modified_unix_ns(&metadata),
        })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fails if the file's size or time has changed. Blocks.
    fn check(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(cannot_read(&self.path))?;
        if (metadata.len(), modified_unix_ns(&metadata)) == (self.size_bytes, self.modified_unix_ns) {
            return Ok(());
        }
        let message = "the file changed while it was read; repeat the command";
        Err(Error::conflict(message).with("path", self.path.display()))
    }
}

impl Source {
    pub fn size_bytes(&self) -> u64 {
        match self {
            Source::File(file) => file.size_bytes,
            Source::Striped(reader) => reader.size_bytes,
        }
    }

    /// The modification time of the source, if `xxh3`, the digest of all data that was read,
    /// matches the source.
    fn modified_unix_ns(&self, xxh3: &str) -> Option<i64> {
        match self {
            Source::File(file) => Some(file.modified_unix_ns),
            Source::Striped(reader) => reader.matching_note(xxh3).map(|note| note.modified_unix_ns),
        }
    }

    /// Returns whether the note describes this source. Always false with `checksum`, which demands
    /// a comparison of contents.
    fn matches_note(&self, note: &Note, layout: Layout, noted_layout: Layout, checksum: bool) -> bool {
        !checksum
            && match self {
                Source::File(file) => {
                    (note.size_bytes, note.modified_unix_ns) == (file.size_bytes, file.modified_unix_ns)
                }
                Source::Striped(reader) => layout == noted_layout && reader.note.as_ref() == Some(note),
            }
    }

    async fn piece(&self, layout: Layout, piece: u64) -> Result<(Bytes, ReadPiece)> {
        match self {
            Source::Striped(reader) => reader.piece(piece).await,
            Source::File(file) => {
                let (file, extents) = (file.clone(), layout.extents(file.size_bytes, piece));
                blocking(move || match gather(&file.file, &extents) {
                    Ok(data) => {
                        let digest = digest(&data);
                        Ok((data.into(), ReadPiece { digest, stored_digest: None, version: None }))
                    }
                    Err(error) => {
                        file.check()?;
                        Err(cannot_read(&file.path)(error))
                    }
                })
                .await
            }
        }
    }

    /// Fails if the data that was read do not match the source.
    async fn verify(&self, read_pieces: &Arc<Vec<ReadPiece>>, jobs: usize) -> Result<Verification> {
        match self {
            Source::Striped(reader) => {
                reader.check_unchanged(read_pieces, jobs).await?;
                reader.verify(read_pieces).await
            }
            Source::File(file) => {
                let file = file.clone();
                blocking(move || file.check()).await?;
                Ok(Verification::Digest)
            }
        }
    }
}

/// Copies a file or a striped object to a striped object. The old object with this name is lost
/// when the first differing piece is written.
///
/// # Errors
/// `InvalidArgument` if objects of another program have names of the pieces (they stay unchanged);
/// `Busy`; `Conflict` if another run wrote to the target, or the source changed, in the meantime;
/// `Corrupt` if the stored data differ from the data sent; as [`Pool::write`]. The striped object
/// is then unchanged or incomplete. No program reads an incomplete one, and the same copy continues
/// it.
pub async fn store(source: Source, to: &Striped, layout: Layout, options: Options) -> Result<CopyResult> {
    let size_bytes = source.size_bytes();
    let pieces = layout.pieces(size_bytes);
    // Check the longest name first, so that a name that is too long changes nothing.
    to.piece(pieces)?;
    let head = to.read_head().await?;
    if let Some(Head { state: StripedState::Complete { layout: noted_layout, note: Some(note), .. }, .. }) =
        &head
        && source.matches_note(note, layout, *noted_layout, options.checksum)
    {
        let checked = Verification::Skipped;
        return Ok(CopyResult { size_bytes, pieces, pieces_kept: pieces, unchanged: true, checked });
    }
    check_names(to, head.as_ref(), pieces).await?;
    let lock = Lock::take(to, Mode::Exclusive, true, options.lock_wait).await?;
    let stored = store_locked(&lock, source, to, layout, options).await;
    lock.release().await;
    stored
}

/// Fails if an object of another program has the name of a piece: an object that the first object
/// does not account for and that has no attribute of libradosstriper or Benthic. Block device
/// images have such names, with gaps.
async fn check_names(to: &Striped, head: Option<&Head>, pieces: u64) -> Result<()> {
    let known = match head {
        Some(head) => {
            to.check_striped(head).await?;
            to.pieces_of(&head.state).await?
        }
        None => 1,
    };
    let job = |piece| {
        let to = to.clone();
        async move {
            match is_marked(&*to.pool, &to.piece(piece)?).await? {
                Some(false) => Err(to.foreign_object(piece)?),
                _ => Ok(()),
            }
        }
    };
    to.run_jobs(known..pieces, CHECKS_AT_ONCE, job, |_, ()| {}).await
}

async fn store_locked(
    lock: &Lock,
    source: Source,
    to: &Striped,
    layout: Layout,
    options: Options,
) -> Result<CopyResult> {
    let size_bytes = source.size_bytes();
    let pieces = layout.pieces(size_bytes);
    let Some(head) = to.read_head().await? else {
        let message = "the first object was removed under the lock; repeat the command";
        return Err(Error::conflict(message).with("object", &to.object));
    };
    let pieces_before = to.pieces_of(&head.state).await?;
    // The first object always exists, because it holds the lock.
    let may_exist = pieces_before > 1 || head.stat.size_bytes > 0;
    let begin_once = BeginOnce {
        watch: lock.watch(),
        pieces: pieces.max(pieces_before),
        begun: Arc::new(OnceCell::new()),
    };
    let progress = (options.progress)(size_bytes);
    let mut read_pieces = vec![None; usize::try_from(pieces).unwrap_or(0)];
    let mut pieces_kept = 0;
    // A piece that is being verified is no longer in memory, so verification doubles the number of
    // jobs.
    let jobs = window(options.jobs, layout);
    let room = Arc::new(Semaphore::new(jobs));
    let job = |piece| {
        let writer = PieceWriter {
            room: Arc::clone(&room),
            source: source.clone(),
            to: to.clone(),
            layout,
            check: options.check,
            may_exist: may_exist && piece < pieces_before,
            was_unfinished: !matches!(head.state, StripedState::Complete { .. }),
            begin_once: begin_once.clone(),
        };
        async move { writer.piece(piece).await }
    };
    let at_once = if options.check { 2 * jobs } else { jobs };
    let written = to.run_jobs(0..pieces, at_once, job, |piece, (found, existed)| {
        progress(layout.piece_len(size_bytes, piece));
        pieces_kept += u64::from(existed);
        if let Some(slot) = usize::try_from(piece).ok().and_then(|piece| read_pieces.get_mut(piece)) {
            *slot = Some(found);
        }
    });
    written.await?;
    let read_pieces: Arc<Vec<ReadPiece>> = Arc::new(read_pieces.into_iter().flatten().collect());
    let checked = source.verify(&read_pieces, jobs).await?;
    // Without `check`, the stored data were not verified.
    let checked = if options.check { checked } else { Verification::Skipped };
    let xxh3 = digest_of_pieces(&read_pieces);
    let modified_unix_ns = source.modified_unix_ns(&xxh3);
    let note = modified_unix_ns.map(|modified_unix_ns| Note { size_bytes, modified_unix_ns, pieces, xxh3 });
    let is_noted = match &head.state {
        StripedState::Complete { layout: noted_layout, note: noted, .. } => {
            *noted_layout == layout && note.is_some() && *noted == note
        }
        _ => false,
    };
    if is_noted && !begin_once.has_begun() {
        // This succeeds only if the lock is still held. Then it was held during all comparisons.
        lock.watch().write_held(WriteOp::new()).await?;
        return Ok(CopyResult { size_bytes, pieces, pieces_kept, unchanged: true, checked });
    }
    let begun = begin_once.note().await?;
    remove::pieces(to, pieces..pieces_before, options.jobs, &lock.watch(), &begun).await?;
    complete(to, &begun, layout, size_bytes, note.as_ref()).await?;
    Ok(CopyResult { size_bytes, pieces, pieces_kept, unchanged: false, checked })
}

/// Calls [`Watch::begin_change`] once, before the first change. Until then an unchanged object
/// stays readable.
#[derive(Clone)]
struct BeginOnce {
    watch: Watch,
    pieces: u64,
    begun: Arc<OnceCell<Bytes>>,
}

impl BeginOnce {
    /// Returns the note of [`Watch::begin_change`] and writes it on the first call.
    async fn note(&self) -> Result<Bytes> {
        self.begun.get_or_try_init(|| self.watch.begin_change(self.pieces)).await.cloned()
    }

    fn has_begun(&self) -> bool {
        self.begun.initialized()
    }
}

/// Marks the striped object as complete, unless another run has started a change.
async fn complete(
    at: &Striped,
    begun: &Bytes,
    layout: Layout,
    size_bytes: u64,
    note: Option<&Note>,
) -> Result<()> {
    let op = WriteOp::new().cmp_xattr(BEGUN_XATTR, Compare::Eq, begun.clone());
    let op = op
        .set_xattr(OBJECT_SIZE_XATTR, layout.object_size.to_string())
        .set_xattr(STRIPE_UNIT_XATTR, layout.stripe_unit.to_string())
        .set_xattr(STRIPE_COUNT_XATTR, layout.stripe_count.to_string())
        .set_xattr(SIZE_XATTR, size_bytes.to_string())
        .remove_xattr(BEGUN_XATTR);
    let op = if let Some(note) = note { op.set_xattr(NOTE_XATTR, encode(note)?) } else { op };
    let written = at.pool.write(&at.piece(0)?, op).await;
    written.map(|_| ()).map_err(|error| explain_conflict(error, "the striped object"))
}

struct PieceWriter {
    room: Arc<Semaphore>,
    source: Source,
    to: Striped,
    layout: Layout,
    check: bool,
    may_exist: bool,
    /// Another run left the object incomplete and may still have writes in flight.
    was_unfinished: bool,
    begin_once: BeginOnce,
}

impl PieceWriter {
    /// Writes a piece unless it is already there. Returns whether it was.
    async fn piece(self, piece: u64) -> Result<(ReadPiece, bool)> {
        let (object, pool) = (self.to.piece(piece)?, &*self.to.pool);
        // The semaphore is never closed.
        let permit = self.room.acquire().await;
        let (data, read_piece) = self.source.piece(self.layout, piece).await?;
        let (len_bytes, digest) = (data.len() as u64, &read_piece.digest);
        let mut found = FoundPiece::Missing;
        if self.may_exist {
            found = find_piece(pool, &object, len_bytes, digest).await?;
        }
        let op = WriteOp::new().write_full(data).set_xattr(PIECE_XATTR, digest.clone());
        loop {
            let is_same = matches!(found, FoundPiece::Same(_));
            if is_same && !self.was_unfinished {
                return Ok((read_piece, true));
            }
            let op = match is_same {
                // Bump the version so that in-flight writes by former lock holders fail their
                // guard.
                true => WriteOp::new().set_xattr(PIECE_XATTR, digest.clone()),
                false => op.clone(),
            };
            let begun = self.begin_once.note().await?;
            self.check(piece, found, &begun).await?;
            match pool.write(&object, guarded_write(op, piece, found, begun)).await {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && found == FoundPiece::Missing => {
                    found = find_piece(pool, &object, len_bytes, digest).await?;
                }
                Err(error) => return Err(explain_conflict(error, "the piece")),
                Ok(_) if is_same => return Ok((read_piece, true)),
                Ok(_) => break,
            }
        }
        drop((permit, op));
        if self.check {
            let stored = digest_in_store(pool, &object).await?;
            if stored != *digest {
                // The stored data may be another run's.
                self.begin_once.watch.check_begun(&self.begin_once.note().await?).await?;
                let message = "the stored data differ from the data that were read; copy the file again";
                return Err(Error::corrupt(message)
                    .with("object", &object)
                    .with("stored", stored)
                    .with("read", digest));
            }
        }
        Ok((read_piece, false))
    }

    /// Fails if the found piece may be another run's. A missing piece and the first piece need only
    /// the check of the lock: the write of a missing piece creates the object exclusively, and the
    /// guard of the first piece is the note.
    async fn check(&self, piece: u64, found: FoundPiece, begun: &Bytes) -> Result<()> {
        match found {
            FoundPiece::Same(_) | FoundPiece::Other(_) if piece > 0 => {
                self.begin_once.watch.check_begun(begun).await
            }
            _ => self.begin_once.watch.check(),
        }
    }
}

/// The object found under a piece's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundPiece {
    Missing,
    /// The object has the data to be written, at this version.
    Same(u64),
    /// The object has other data, at this version.
    Other(u64),
}

/// Adds guards so that the operation applies only to the piece that was found and
/// [checked](PieceWriter::check). An in-flight write of a run that lost the lock then cannot
/// replace newer data of another run. The guard of the first piece is the note `benthic.begun`,
/// because every renewal of the lock changes that piece's version.
fn guarded_write(mut op: WriteOp, piece: u64, found: FoundPiece, begun: Bytes) -> WriteOp {
    match found {
        _ if piece == 0 => op.cmp_xattr(BEGUN_XATTR, Compare::Eq, begun),
        FoundPiece::Same(version) | FoundPiece::Other(version) => op.assert_version(version),
        FoundPiece::Missing => {
            op.steps.insert(0, WriteStep::Create { exclusive: true });
            op
        }
    }
}

fn explain_conflict(error: Error, changed: &str) -> Error {
    if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) {
        return error;
    }
    let message = format!("another program changed {changed} during the copy; repeat the command");
    Error::conflict(message).with_source(error)
}

/// Finds out whether a piece is already there: its length, its stored digest and a digest computed
/// from the data must match. The stored digest alone is not enough, because other programs change a
/// piece and leave the attribute in place.
async fn find_piece(pool: &dyn Pool, object: &ObjectId, len_bytes: u64, digest: &str) -> Result<FoundPiece> {
    let found = pool.fetch(object, Fetch::stat().and(Fetch::list_xattrs())).await;
    let Some(((stat, xattrs), version)) = found.optional()? else { return Ok(FoundPiece::Missing) };
    let is_kept = xattrs.get(PIECE_XATTR).is_some_and(|kept| kept == digest.as_bytes());
    if is_kept && stat.size_bytes == len_bytes && digest_in_store(pool, object).await? == digest {
        return Ok(FoundPiece::Same(version));
    }
    Ok(FoundPiece::Other(version))
}
