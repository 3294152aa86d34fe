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
use super::part::gather;
use super::read::{Checked, Copied, Options, Reading, Seen, digest_of_seen};
use super::{
    BEGUN_XATTR, Begun, Head, NOTE_XATTR, Note, OBJECT_SIZE_XATTR, PIECE_XATTR, SIZE_XATTR,
    STRIPE_COUNT_XATTR, STRIPE_UNIT_XATTR, Striped, StripedState, blocking, digest, digest_beside, is_marked,
    modified_unix_ns, remove, window,
};
use benthic_classes::lock::wire::Mode;
use benthic_core::{Action, Compare, Error, ErrorKind, Fetch, ObjectId, Pool, Result, WriteOp, WriteStep};
use bytes::Bytes;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{OnceCell, Semaphore};

/// Number of names to check at once. The checks carry no data and only wait for replies.
const LOOKS: usize = 128;

/// The source of a copy.
#[derive(Clone)]
pub enum Source {
    /// A local file.
    File(SourceFile),
    /// Another striped object.
    Striped(Arc<Reading>),
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
        let failed =
            |error| Error::io(Action::Admin, "cannot read the file", error).with("path", path.display());
        // Check before opening: opening a pipe waits for a writer.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            let message =
                "only a regular file is striped; `benthic put` reads pipes, `benthic cp -r` directories";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with("path", path.display()));
        }
        Ok(SourceFile {
            file: Arc::new(File::open(path).map_err(failed)?),
            path: path.to_owned(),
            size_bytes: metadata.len(),
            modified_unix_ns: modified_unix_ns(&metadata),
        })
    }

    /// Size of the file.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fails if the file's size or time has changed. Blocks.
    fn check(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(|error| {
            Error::io(Action::Admin, "cannot read the file", error).with("path", self.path.display())
        })?;
        if (metadata.len(), modified_unix_ns(&metadata)) == (self.size_bytes, self.modified_unix_ns) {
            return Ok(());
        }
        let message = "the file changed while it was read; repeat the command";
        Err(Error::new(ErrorKind::Conflict, message).with("path", self.path.display()))
    }
}

impl Source {
    /// Size of the file.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Source::File(file) => file.size_bytes,
            Source::Striped(reading) => reading.size_bytes,
        }
    }

    /// The modification time of the source, if `xxh3`, the digest of all data that was read,
    /// matches the source.
    fn modified_unix_ns(&self, xxh3: &str) -> Option<i64> {
        match self {
            Source::File(file) => Some(file.modified_unix_ns),
            Source::Striped(reading) => reading.noted(xxh3).map(|note| note.modified_unix_ns),
        }
    }

    /// Returns whether the note describes this source. Always false with `checksum`, which demands
    /// a comparison of contents.
    fn is_noted(&self, note: &Note, layout: Layout, noted_layout: Layout, checksum: bool) -> bool {
        match self {
            Source::File(file) => {
                !checksum
                    && (note.size_bytes, note.modified_unix_ns) == (file.size_bytes, file.modified_unix_ns)
            }
            Source::Striped(reading) => {
                !checksum && layout == noted_layout && reading.note.as_ref() == Some(note)
            }
        }
    }

    async fn piece(&self, layout: Layout, piece: u64) -> Result<(Bytes, Seen)> {
        match self {
            Source::Striped(reading) => reading.piece(piece).await,
            Source::File(file) => {
                let (file, extents) = (file.clone(), layout.extents(file.size_bytes, piece));
                blocking(move || match gather(&file.file, &extents) {
                    Ok(data) => {
                        let read = digest(&data);
                        Ok((data.into(), Seen { read, kept: None, version: None }))
                    }
                    Err(error) => {
                        file.check()?;
                        Err(Error::io(Action::Admin, "cannot read the file", error)
                            .with("path", file.path.display()))
                    }
                })
                .await
            }
        }
    }

    /// Fails if the data that was read do not match the source.
    async fn judge(&self, seen: &Arc<Vec<Seen>>, jobs: usize) -> Result<Checked> {
        match self {
            Source::Striped(reading) => {
                reading.confirm(seen, jobs).await?;
                reading.judge(seen).await
            }
            Source::File(file) => {
                let file = file.clone();
                blocking(move || file.check()).await?;
                Ok(Checked::Digest)
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
pub async fn store(source: Source, to: &Striped, layout: Layout, options: Options) -> Result<Copied> {
    let size_bytes = source.size_bytes();
    let pieces = layout.pieces(size_bytes);
    // Check the longest name first, so that a name that is too long changes nothing.
    to.piece(pieces)?;
    let head = to.look().await?;
    if let Some(Head { state: StripedState::Whole { layout: noted_layout, note: Some(note), .. }, .. }) =
        &head
        && source.is_noted(note, layout, *noted_layout, options.checksum)
    {
        let checked = Checked::No;
        return Ok(Copied { size_bytes, pieces, pieces_kept: pieces, unchanged: true, checked });
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
                Some(false) => Err(to.something_else(piece)?),
                _ => Ok(()),
            }
        }
    };
    to.each(known..pieces, LOOKS, job, |_, ()| {}).await
}

async fn store_locked(
    lock: &Lock,
    source: Source,
    to: &Striped,
    layout: Layout,
    options: Options,
) -> Result<Copied> {
    let size_bytes = source.size_bytes();
    let pieces = layout.pieces(size_bytes);
    let Some(head) = to.look().await? else {
        let message = "the first object was removed under the lock; repeat the command";
        return Err(Error::new(ErrorKind::Conflict, message).with("object", &to.object));
    };
    let pieces_before = to.pieces_of(&head.state).await?;
    // The first object always exists, because it holds the lock.
    let may_be_there = pieces_before > 1 || head.stat.size_bytes > 0;
    let begins =
        Begins { watch: lock.watch(), pieces: pieces.max(pieces_before), begun: Arc::new(OnceCell::new()) };
    let progress = (options.progress)(size_bytes);
    let mut seen = vec![None; usize::try_from(pieces).unwrap_or(0)];
    let mut pieces_kept = 0;
    // A piece that is being verified is no longer in memory, so verification doubles the number of
    // jobs.
    let jobs = window(options.jobs, layout);
    let room = Arc::new(Semaphore::new(jobs));
    let job = |piece| {
        let writing = Writing {
            room: Arc::clone(&room),
            source: source.clone(),
            to: to.clone(),
            layout,
            check: options.check,
            may_be_there: may_be_there && piece < pieces_before,
            was_begun: !matches!(head.state, StripedState::Whole { .. }),
            begins: begins.clone(),
        };
        async move { writing.piece(piece).await }
    };
    let at_once = if options.check { 2 * jobs } else { jobs };
    let written = to.each(0..pieces, at_once, job, |piece, (found, was_there)| {
        progress(layout.piece_len(size_bytes, piece));
        pieces_kept += u64::from(was_there);
        if let Some(slot) = usize::try_from(piece).ok().and_then(|piece| seen.get_mut(piece)) {
            *slot = Some(found);
        }
    });
    written.await?;
    let seen: Arc<Vec<Seen>> = Arc::new(seen.into_iter().flatten().collect());
    let checked = source.judge(&seen, jobs).await?;
    // Without `check`, the stored data were not verified.
    let checked = if options.check { checked } else { Checked::No };
    let xxh3 = digest_of_seen(&seen);
    let modified_unix_ns = source.modified_unix_ns(&xxh3);
    let note = modified_unix_ns.map(|modified_unix_ns| Note { size_bytes, modified_unix_ns, pieces, xxh3 });
    let is_noted = match &head.state {
        StripedState::Whole { layout: noted_layout, note: noted, .. } => {
            *noted_layout == layout && note.is_some() && *noted == note
        }
        _ => false,
    };
    if is_noted && !begins.have_begun() {
        // This succeeds only if the lock is still held. Then it was held during all comparisons.
        lock.watch().write_held(WriteOp::new()).await?;
        return Ok(Copied { size_bytes, pieces, pieces_kept, unchanged: true, checked });
    }
    let begun = begins.begun().await?;
    remove::pieces(to, pieces..pieces_before, options.jobs, &lock.watch(), &begun).await?;
    complete(to, &begun, layout, size_bytes, note.as_ref()).await?;
    Ok(Copied { size_bytes, pieces, pieces_kept, unchanged: false, checked })
}

/// Marks a striped object as incomplete, so that no program reads it, and notes an upper bound of
/// its pieces. Returns the note, which stays until another run starts a change.
///
/// # Errors
/// As [`Watch::write_held`].
pub async fn begin(watch: &Watch, pieces: u64) -> Result<Bytes> {
    let begun = encode(&Begun { run: watch.unique(), pieces })?;
    let op = WriteOp::new().set_xattr(BEGUN_XATTR, begun.clone());
    watch.write_held(op.remove_xattr(SIZE_XATTR).remove_xattr(NOTE_XATTR)).await?;
    Ok(begun)
}

/// Calls [`begin`] once, before the first change. Until then an unchanged object stays readable.
#[derive(Clone)]
struct Begins {
    watch: Watch,
    pieces: u64,
    begun: Arc<OnceCell<Bytes>>,
}

impl Begins {
    /// Returns the note of [`begin`] and writes it on the first call.
    async fn begun(&self) -> Result<Bytes> {
        self.begun.get_or_try_init(|| begin(&self.watch, self.pieces)).await.cloned()
    }

    fn have_begun(&self) -> bool {
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
    let op = match note {
        Some(note) => op.set_xattr(NOTE_XATTR, encode(note)?),
        None => op,
    };
    at.pool.write(&at.piece(0)?, op).await.map(|_| ()).map_err(|error| match error.kind() {
        ErrorKind::Conflict | ErrorKind::NotFound => {
            let message =
                "somebody else wrote to the striped object, or removed it, meanwhile; repeat the command";
            Error::new(ErrorKind::Conflict, message).with_source(error)
        }
        _ => error,
    })
}

fn encode(value: &impl serde::Serialize) -> Result<Bytes> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the attribute").with_source(error))
}

/// The job that writes one piece.
struct Writing {
    room: Arc<Semaphore>,
    source: Source,
    to: Striped,
    layout: Layout,
    check: bool,
    may_be_there: bool,
    /// Another run left the object incomplete and may still have writes in flight.
    was_begun: bool,
    begins: Begins,
}

impl Writing {
    /// Writes a piece unless it is already there. Returns whether it was.
    async fn piece(self, piece: u64) -> Result<(Seen, bool)> {
        let (object, pool) = (self.to.piece(piece)?, &*self.to.pool);
        // The semaphore is never closed.
        let in_memory = self.room.acquire().await;
        let (data, seen) = self.source.piece(self.layout, piece).await?;
        let len_bytes = data.len() as u64;
        let mut found = Found::Nothing;
        if self.may_be_there {
            found = find(pool, &object, len_bytes, &seen.read).await?;
        }
        let op = WriteOp::new();
        let op = op.write_full(data).set_xattr(PIECE_XATTR, seen.read.clone());
        loop {
            if let Found::Same(_) = found {
                // Bump the version so that in-flight writes by former lock holders fail their
                // guard.
                if self.was_begun {
                    let begun = self.begins.begun().await?;
                    self.check(piece, found, &begun).await?;
                    let op = WriteOp::new().set_xattr(PIECE_XATTR, seen.read.clone());
                    pool.write(&object, guarded(op, piece, found, begun)).await.map_err(written_by_others)?;
                }
                return Ok((seen, true));
            }
            let begun = self.begins.begun().await?;
            self.check(piece, found, &begun).await?;
            match pool.write(&object, guarded(op.clone(), piece, found, begun)).await {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && found == Found::Nothing => {
                    found = find(pool, &object, len_bytes, &seen.read).await?;
                }
                written => {
                    written.map_err(written_by_others)?;
                    break;
                }
            }
        }
        drop((in_memory, op));
        if self.check {
            let stored = digest_beside(pool, &object).await?;
            if stored != seen.read {
                // The stored data may be another run's.
                self.begins.watch.check_begun(&self.begins.begun().await?).await?;
                let message = "what is stored is not what was read; copy it again";
                return Err(Error::new(ErrorKind::Corrupt, message)
                    .with("object", &object)
                    .with("stored", stored)
                    .with("read", &seen.read));
            }
        }
        Ok((seen, false))
    }

    /// Fails if the found piece may be another run's. A missing piece and the first piece need only
    /// the check of the lock: the write of a missing piece creates the object exclusively, and the
    /// guard of the first piece is the note.
    async fn check(&self, piece: u64, found: Found, begun: &Bytes) -> Result<()> {
        match found {
            Found::Same(_) | Found::Other(_) if piece > 0 => self.begins.watch.check_begun(begun).await,
            _ => self.begins.watch.check(),
        }
    }
}

/// The object found under a piece's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// No object exists.
    Nothing,
    /// The object has the data to be written, at this version.
    Same(u64),
    /// The object has other data, at this version.
    Other(u64),
}

/// Adds guards so that the operation applies only to the piece that was found and
/// [checked](Writing::check). An in-flight write of a run that lost the lock then cannot replace
/// newer data of another run. The guard of the first piece is the note `benthic.begun`, because
/// every renewal of the lock changes that piece's version.
fn guarded(mut op: WriteOp, piece: u64, found: Found, begun: Bytes) -> WriteOp {
    match found {
        _ if piece == 0 => op.cmp_xattr(BEGUN_XATTR, Compare::Eq, begun),
        Found::Same(version) | Found::Other(version) => op.assert_version(version),
        Found::Nothing => {
            op.steps.insert(0, WriteStep::Create { exclusive: true });
            op
        }
    }
}

fn written_by_others(error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) {
        return error;
    }
    let message = "somebody else wrote to this piece, or removed it, meanwhile; repeat the command";
    Error::new(ErrorKind::Conflict, message).with_source(error)
}

/// Finds out whether a piece is already there: its length, its stored digest and a digest computed
/// from the data must match. The stored digest alone is not enough, because other programs change a
/// piece and leave the attribute in place.
async fn find(pool: &dyn Pool, object: &ObjectId, len_bytes: u64, digest: &str) -> Result<Found> {
    let found = pool.fetch(object, Fetch::stat().and(Fetch::list_xattrs())).await;
    let ((stat, xattrs), version) = match found {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        found => found?,
    };
    let is_kept = xattrs.get(PIECE_XATTR).is_some_and(|kept| kept == digest.as_bytes());
    if is_kept && stat.size_bytes == len_bytes && digest_beside(pool, object).await? == digest {
        return Ok(Found::Same(version));
    }
    Ok(Found::Other(version))
}
