//! Striped objects: a file stored in many objects, its pieces.
//!
//! The layout is libradosstriper's, so that `rados --striper` reads the objects of Benthic and the
//! reverse. docs/formats.md describes the names, the attributes and the order of writes.
//!
//! [`layout`] computes which bytes are in which piece. [`lock`] is the lock that every reader and
//! writer of a striped object takes. [`write`] and [`read`] transfer the pieces, [`remove`] removes
//! them, and [`part`] is the local file that a download fills. The functions need a tokio runtime
//! with its timer enabled.

pub mod layout;
pub mod lock;
pub mod part;
pub mod read;
pub mod remove;
pub mod write;

use benthic_classes::digest::client::{compute, hash_in_client};
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{Clock, Error, ErrorKind, Fetch, ObjectId, OptionalExtension, Pool, Result, Stat};
use bytes::Bytes;
use layout::Layout;
use lock::Locks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use tokio::task::{JoinSet, spawn_blocking};

/// Name suffix of a striped object's first object.
pub const FIRST_SUFFIX: &str = ".0000000000000000";

const OBJECT_SIZE_XATTR: &str = "striper.layout.object_size";
const STRIPE_UNIT_XATTR: &str = "striper.layout.stripe_unit";
const STRIPE_COUNT_XATTR: &str = "striper.layout.stripe_count";
/// The size of the file. No program reads a striped object without this attribute.
const SIZE_XATTR: &str = "striper.size";
/// On a first object without a size: the unfinished write or removal, as [`UnfinishedChange`].
const BEGUN_XATTR: &str = "benthic.begun";
/// On a first object: the source file, as [`Note`].
const NOTE_XATTR: &str = "benthic.striped";
/// On every piece: the XXH3 digest of its data.
const PIECE_XATTR: &str = "benthic.piece";

/// Memory limit for pieces in transit. Pieces that have arrived but are not yet written may take as
/// much again.
const WINDOW_BYTES: u64 = 128 * 1024 * 1024;
const ATTEMPTS_MAX: u32 = 10;

/// A striped object, identified by its name.
#[derive(Clone)]
pub struct Striped {
    pub pool: Arc<dyn Pool>,
    /// The name without the piece numbers.
    pub object: ObjectId,
    pub locks: Locks,
    pub clock: Arc<dyn Clock>,
    /// Returns true once the user has interrupted the program. No further piece is started then.
    pub is_interrupted: fn() -> bool,
}

/// The file that a striped object was copied from: the value of [`NOTE_XATTR`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub size_bytes: u64,
    /// Modification time in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: i64,
    pub pieces: u64,
    /// The XXH3 digest of the pieces' digests, see [`digest_of_all`].
    pub xxh3: String,
}

/// A write or removal that is in progress or was interrupted: the value of [`BEGUN_XATTR`], as
/// JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedChange {
    /// Identifier of the run that started it; unique per run.
    pub run: String,
    /// Upper bound: no piece with this number or a higher one exists.
    pub pieces: u64,
}

/// The state that the first object's attributes describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripedState {
    Complete {
        layout: Layout,
        size_bytes: u64,
        /// The source file; `None` if another program wrote the object, or has changed its size
        /// since.
        note: Option<Note>,
    },
    Unfinished(UnfinishedChange),
    /// The first object has no size and no valid note of an unfinished write or removal.
    Bare,
}

/// The first object of a striped object.
#[derive(Clone, Debug)]
pub struct Head {
    pub state: StripedState,
    /// True if it has an attribute of libradosstriper or Benthic. An object without any may belong
    /// to another program.
    pub is_marked: bool,
    pub stat: Stat,
}

impl Head {
    /// Size and modification time of the file; `None` if the striped object is incomplete.
    pub fn stat_of_file(&self) -> Option<Stat> {
        let StripedState::Complete { size_bytes, note, .. } = &self.state else { return None };
        let modified = note.as_ref().and_then(|note| u64::try_from(note.modified_unix_ns).ok());
        Some(Stat {
            size_bytes: *size_bytes,
            modified_unix_ns: modified.unwrap_or(self.stat.modified_unix_ns),
        })
    }
}

/// The striped object that has `object` as its first object; `None` if the name is not that of a
/// first object.
pub fn striped_object_of(object: ObjectId) -> Result<Option<ObjectId>> {
    match object.name().strip_suffix(FIRST_SUFFIX) {
        Some(name) if !name.is_empty() => ObjectId::in_namespace(object.namespace(), name).map(Some),
        _ => Ok(None),
    }
}

impl Striped {
    pub fn piece(&self, piece: u64) -> Result<ObjectId> {
        ObjectId::in_namespace(self.object.namespace(), format!("{}.{piece:016x}", self.object.name()))
    }

    fn unique(&self) -> String {
        format!("{}.{}", std::process::id(), self.clock.unix_ns())
    }

    /// Runs a job for every piece, at most `jobs` at a time. After the first failure or an
    /// interrupt it starts no further job, waits for the running ones, and fails.
    async fn run_jobs<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        mut pieces: Range<u64>,
        jobs: usize,
        job: impl Fn(u64) -> F,
        mut done: impl FnMut(u64, T),
    ) -> Result<()> {
        let mut failure = None;
        let mut running = JoinSet::new();
        loop {
            while failure.is_none() && running.len() < jobs.max(1) && !(self.is_interrupted)() {
                let Some(piece) = pieces.next() else { break };
                let job = job(piece);
                running.spawn(async move { (piece, job.await) });
            }
            match running.join_next().await {
                Some(Ok((piece, Ok(result)))) => done(piece, result),
                Some(Ok((piece, Err(error)))) => _ = failure.get_or_insert(error.with("piece", piece)),
                Some(Err(panic)) => return Err(panicked(panic)),
                None => break,
            }
        }
        match failure {
            Some(error) => Err(error),
            None if (self.is_interrupted)() => Err(Error::unavailable("interrupted")),
            None => Ok(()),
        }
    }

    /// Reads the state of the first object; `None` if it does not exist.
    ///
    /// # Errors
    /// `Corrupt` for attributes that do not form a valid layout; as [`Pool::read`].
    pub async fn read_head(&self) -> Result<Option<Head>> {
        let found = self.pool.fetch(&self.piece(0)?, Fetch::stat().and(Fetch::list_xattrs())).await;
        let Some(((stat, xattrs), _)) = found.optional()? else { return Ok(None) };
        Ok(Some(Head { state: StripedState::parse(&xattrs)?, is_marked: has_mark(&xattrs), stat }))
    }

    /// Reads the state of a striped object that must exist and be complete.
    ///
    /// # Errors
    /// `NotFound` if it is missing or incomplete; as [`Striped::read_head`].
    pub async fn read_complete(&self) -> Result<(Layout, u64, Option<Note>, Stat)> {
        match self.read_head().await? {
            Some(Head { state: StripedState::Complete { layout, size_bytes, note }, stat, .. }) => {
                Ok((layout, size_bytes, note, stat))
            }
            Some(Head { state: StripedState::Unfinished(_), .. }) => Err(self.missing(
                "the striped object is incomplete: a copy or a removal is running or was interrupted; repeat the copy, or \
                 remove the striped object with `benthic rm --stripe`",
            )),
            Some(Head { is_marked: true, .. }) => Err(self.missing(
                "the first object has no striper.size: another program is writing or removing the striped object, or was \
                 interrupted; `benthic rm --stripe` removes the pieces",
            )),
            Some(_) => Err(self.missing(
                "this is not a striped object: the object with the name of the first piece has no striper attributes",
            )),
            None => Err(self.no_first_object()),
        }
    }

    fn no_first_object(&self) -> Error {
        self.missing("no striped object has this name; `benthic ls --stripe` lists the striped objects")
    }

    fn missing(&self, message: &str) -> Error {
        Error::not_found(message).with("pool", self.pool.name()).with("object", &self.object)
    }

    /// Fails if the objects with these names belong to another program. Some programs use such
    /// names too: the data objects of a block device image are called `rbd_data.ID.%016x`.
    async fn check_striped(&self, head: &Head) -> Result<()> {
        // An empty first object may be left over from a program that was killed right after it took
        // the lock.
        let is_other = !head.is_marked
            && (head.stat.size_bytes > 0 || is_marked(&*self.pool, &self.piece(1)?).await? == Some(false));
        if is_other { Err(self.foreign_object(0)?) } else { Ok(()) }
    }

    fn foreign_object(&self, piece: u64) -> Result<Error> {
        let message = "another program's object, for example a part of a disk image, has the name of a piece; choose another \
            name, or remove such objects one by one with `benthic rm`";
        let error = Error::invalid_argument(message).with("pool", self.pool.name());
        Ok(error.with("object", self.piece(piece)?))
    }

    /// Upper bound of the piece numbers: no piece with this number or a higher one exists.
    async fn pieces_of(&self, state: &StripedState) -> Result<u64> {
        match state {
            StripedState::Complete { layout, size_bytes, .. } => Ok(layout.pieces(*size_bytes)),
            StripedState::Unfinished(begun) => Ok(begun.pieces.max(1)),
            // Count consecutive objects, as libradosstriper does.
            StripedState::Bare => {
                let mut pieces = 1;
                while exists(&*self.pool, &self.piece(pieces)?).await? {
                    pieces += 1;
                }
                Ok(pieces)
            }
        }
    }
}

/// Adds a hint to a `NotFound` error if a striped object has this name: the hint names the `verb`
/// that works on striped objects.
pub async fn explain(error: Error, pool: Arc<dyn Pool>, object: &ObjectId, verb: &str) -> Error {
    let first = ObjectId::in_namespace(object.namespace(), format!("{}{FIRST_SUFFIX}", object.name()));
    let is_striped = match first {
        Ok(first) if error.kind() == ErrorKind::NotFound => {
            matches!(is_marked(&*pool, &first).await, Ok(Some(true)))
        }
        _ => false,
    };
    if is_striped {
        error.with("hint", format_args!("a striped object has this name: `benthic {verb} --stripe`"))
    } else {
        error
    }
}

/// Computes the XXH3 digest of an object's current data, in the process that stores it, or in this
/// process if the pool runs no classes.
///
/// It has no version guard, because every renewal of the lock changes the version of the first
/// object.
async fn digest_in_store(pool: &dyn Pool, object: &ObjectId) -> Result<String> {
    match compute(pool, object, Algorithm::Xxh3, 1).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        digest => return digest.map_err(|error| error.with("while", "checking")),
    }
    let mut attempt = 1;
    loop {
        match hash_in_client(pool, object, Algorithm::Xxh3).await {
            Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS_MAX => attempt += 1,
            digest => return digest,
        }
    }
}

async fn exists(pool: &dyn Pool, object: &ObjectId) -> Result<bool> {
    Ok(pool.stat(object).await.optional()?.is_some())
}

/// Returns whether an object has an attribute of libradosstriper or Benthic; `None` if it is
/// missing.
async fn is_marked(pool: &dyn Pool, object: &ObjectId) -> Result<Option<bool>> {
    Ok(pool.fetch(object, Fetch::list_xattrs()).await.optional()?.map(|found| has_mark(&found.0)))
}

fn encode(value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| Error::internal("cannot write the attribute").with_source(error))
}

fn has_mark(xattrs: &BTreeMap<String, Bytes>) -> bool {
    xattrs.keys().any(|name| name.starts_with("striper.") || name.starts_with("benthic."))
}

impl StripedState {
    fn parse(xattrs: &BTreeMap<String, Bytes>) -> Result<StripedState> {
        let Some(size) = xattrs.get(SIZE_XATTR) else {
            let begun = xattrs.get(BEGUN_XATTR).and_then(|value| serde_json::from_slice(value).ok());
            let begun = begun.filter(|begun: &UnfinishedChange| begun.pieces <= layout::PIECES_MAX);
            return Ok(begun.map_or(StripedState::Bare, StripedState::Unfinished));
        };
        let damaged = |message: &str| Error::corrupt(format!("{message}; `benthic rm --stripe` removes it"));
        let number_in = |name: &str| {
            xattrs.get(name).and_then(|value| number(value)).ok_or_else(|| {
                damaged("an attribute of the first object is missing or is not a number")
                    .with("attribute", name)
            })
        };
        let layout = Layout {
            object_size: number_in(OBJECT_SIZE_XATTR)?,
            stripe_unit: number_in(STRIPE_UNIT_XATTR)?,
            stripe_count: number_in(STRIPE_COUNT_XATTR)?,
        };
        layout.check().map_err(|error| damaged(error.message()).with("layout", layout))?;
        let size_bytes = number(size).filter(|size_bytes| layout.pieces(*size_bytes) <= layout::PIECES_MAX);
        let size_bytes = size_bytes.ok_or_else(|| {
            damaged("the size of the striped object is not a number or gives too many pieces")
                .with("attribute", SIZE_XATTR)
        })?;
        let note: Option<Note> = xattrs.get(NOTE_XATTR).and_then(|value| serde_json::from_slice(value).ok());
        let note =
            note.filter(|note| note.size_bytes == size_bytes && note.pieces == layout.pieces(size_bytes));
        Ok(StripedState::Complete { layout, size_bytes, note })
    }
}

/// Parses a decimal number in libradosstriper's form.
fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok().filter(|number| i64::try_from(*number).is_ok())
}

fn digest(data: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(data);
    hasher.finish()
}

/// The digest of a file: the XXH3 of its pieces' digests in order, each as 32 hexadecimal digits
/// and a line end.
fn digest_of_all<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    for digest in digests {
        hasher.update(digest.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finish()
}

/// The number of jobs that may run at once, so that their pieces fit into the memory limit.
pub fn window(jobs: usize, layout: Layout) -> usize {
    let room = usize::try_from(WINDOW_BYTES / layout.object_size.max(1)).unwrap_or(1);
    jobs.clamp(1, room.max(1))
}

/// Runs blocking work, such as file access and hashing, on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|panic| Err(panicked(panic)))
}

fn panicked(panic: tokio::task::JoinError) -> Error {
    Error::internal("a task panicked").with_source(panic)
}

fn modified_unix_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

#[cfg(test)]
mod tests;
