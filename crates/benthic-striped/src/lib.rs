//! Striped objects: a file stored in many objects, its pieces.
//!
//! The layout is libradosstriper's, so that `rados --striper` reads what Benthic writes, and
//! Benthic reads what `rados --striper` writes. docs/formats.md describes the names, the attributes
//! and the order of writes.
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

use benthic_classes::digest::client::{compute, hash_here};
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{Clock, Error, ErrorKind, Fetch, ObjectId, Pool, Result, Stat};
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
/// On a first object without a size: the unfinished write or removal, as [`Begun`].
const BEGUN_XATTR: &str = "benthic.begun";
/// On a first object: the source file, as [`Note`].
const NOTE_XATTR: &str = "benthic.striped";
/// On every piece: the XXH3 digest of its data.
const PIECE_XATTR: &str = "benthic.piece";

/// Memory limit for pieces in transit. Pieces that have arrived but are not yet written may take as
/// much again.
const WINDOW_BYTES: u64 = 128 * 1024 * 1024;
/// Attempts to read an object that changes during the read.
const ATTEMPTS_MAX: u32 = 10;

/// A striped object, identified by its name.
#[derive(Clone)]
pub struct Striped {
    /// The pool that holds the pieces.
    pub pool: Arc<dyn Pool>,
    /// The name without the piece numbers.
    pub object: ObjectId,
    /// The class that holds the lock.
    pub locks: Locks,
    /// The clock that measures leases.
    pub clock: Arc<dyn Clock>,
    /// Returns true once the user has interrupted the program. No further piece is started then.
    pub is_interrupted: fn() -> bool,
}

/// The file that a striped object was copied from: the value of [`NOTE_XATTR`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Size of the file.
    pub size_bytes: u64,
    /// Modification time in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: i64,
    /// The number of pieces.
    pub pieces: u64,
    /// The XXH3 digest of the pieces' digests, see [`digest_of_all`].
    pub xxh3: String,
}

/// A write or removal that is in progress or was interrupted: the value of [`BEGUN_XATTR`], as
/// JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Identifier of the run that started it; unique per run.
    pub run: String,
    /// Upper bound: no piece with this number or a higher one exists.
    pub pieces: u64,
}

/// The state that the first object's attributes describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripedState {
    /// The striped object is complete.
    Whole {
        /// The layout of the pieces.
        layout: Layout,
        /// Size of the file.
        size_bytes: u64,
        /// The source file; `None` if another program wrote the object, or has changed its size
        /// since.
        note: Option<Note>,
    },
    /// A write or removal is unfinished.
    Begun(Begun),
    /// The first object has no size and no valid note of an unfinished write or removal.
    Bare,
}

/// The first object of a striped object.
#[derive(Clone, Debug)]
pub struct Head {
    /// The state that its attributes describe.
    pub state: StripedState,
    /// True if it has an attribute of libradosstriper or Benthic. An object without any may belong
    /// to another program.
    pub is_marked: bool,
    /// Size and time of the first object itself.
    pub stat: Stat,
}

impl Head {
    /// Size and modification time of the file; `None` if the striped object is incomplete.
    pub fn stat_of_file(&self) -> Option<Stat> {
        let StripedState::Whole { size_bytes, note, .. } = &self.state else { return None };
        let modified = note.as_ref().and_then(|note| u64::try_from(note.modified_unix_ns).ok());
        Some(Stat {
            size_bytes: *size_bytes,
            modified_unix_ns: modified.unwrap_or(self.stat.modified_unix_ns),
        })
    }
}

/// The striped object that has `object` as its first object; `None` if the name is not that of a
/// first object.
///
/// # Errors
/// None in practice: a prefix of a valid name is valid.
pub fn whole_of(object: ObjectId) -> Result<Option<ObjectId>> {
    match object.name().strip_suffix(FIRST_SUFFIX) {
        Some(name) if !name.is_empty() => ObjectId::in_namespace(object.namespace(), name).map(Some),
        _ => Ok(None),
    }
}

impl Striped {
    /// The object that holds a piece.
    ///
    /// # Errors
    /// `LimitExceeded` if the name is too long.
    pub fn piece(&self, piece: u64) -> Result<ObjectId> {
        ObjectId::in_namespace(self.object.namespace(), format!("{}.{piece:016x}", self.object.name()))
    }

    /// An identifier that no other run uses.
    fn unique(&self) -> String {
        format!("{}.{}", std::process::id(), self.clock.unix_ns())
    }

    /// Runs a job for every piece, at most `jobs` at a time. After the first failure or an
    /// interrupt it starts no further job. It returns when the running jobs have ended.
    ///
    /// # Errors
    /// The first failure; `Unavailable` after an interrupt.
    async fn each<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
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
            None if (self.is_interrupted)() => Err(Error::new(ErrorKind::Unavailable, "interrupted")),
            None => Ok(()),
        }
    }

    /// Reads the state of the first object; `None` if it does not exist.
    ///
    /// # Errors
    /// `Corrupt` for attributes that do not form a valid layout; as [`Pool::read`].
    pub async fn look(&self) -> Result<Option<Head>> {
        let found = self.pool.fetch(&self.piece(0)?, Fetch::stat().and(Fetch::list_xattrs())).await;
        let ((stat, xattrs), _) = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        Ok(Some(Head { state: StripedState::parse(&xattrs)?, is_marked: has_mark(&xattrs), stat }))
    }

    /// Reads the state of a striped object that must exist and be complete.
    ///
    /// # Errors
    /// `NotFound` if it is missing or incomplete; as [`Striped::look`].
    pub async fn look_whole(&self) -> Result<(Layout, u64, Option<Note>, Stat)> {
        match self.look().await? {
            Some(Head { state: StripedState::Whole { layout, size_bytes, note }, stat, .. }) => {
                Ok((layout, size_bytes, note, stat))
            }
            Some(Head { state: StripedState::Begun(_), .. }) => Err(self.missing(
                "this striped object is incomplete: a copy to it, or its removal, goes on or was interrupted; the same copy \
                 completes it, `benthic rm --stripe` removes it",
            )),
            Some(Head { is_marked: true, .. }) => Err(self.missing(
                "the first object has no striper.size: another program copies to this striped object or removes it, or was \
                 interrupted; `benthic rm --stripe` removes the pieces",
            )),
            Some(_) => Err(self.missing(
                "an object has the name of a striped object's first one, but none of its attributes, so this is something else",
            )),
            None => Err(self.no_first_object()),
        }
    }

    fn no_first_object(&self) -> Error {
        self.missing("no striped object has this name; `benthic ls --stripe` lists those that are there")
    }

    fn missing(&self, message: &str) -> Error {
        Error::new(ErrorKind::NotFound, message).with("pool", self.pool.name()).with("object", &self.object)
    }

    /// Fails if the objects with these names belong to another program. Some programs use such
    /// names too: the data objects of a block device image are called `rbd_data.ID.%016x`.
    async fn check_striped(&self, head: &Head) -> Result<()> {
        // An empty first object may be left over from a program that was killed right after it took
        // the lock.
        let is_other = !head.is_marked
            && (head.stat.size_bytes > 0 || is_marked(&*self.pool, &self.piece(1)?).await? == Some(false));
        if is_other { Err(self.something_else(0)?) } else { Ok(()) }
    }

    /// The error for an object that has a piece's name but belongs to another program.
    fn something_else(&self, piece: u64) -> Result<Error> {
        let message = "this object has the name of a striped object's piece and none of its attributes, so it is something else, \
            as an image's data; choose another name, or remove such objects one by one with `benthic rm`";
        let error = Error::new(ErrorKind::InvalidArgument, message).with("pool", self.pool.name());
        Ok(error.with("object", self.piece(piece)?))
    }

    /// Upper bound of the piece numbers: no piece with this number or a higher one exists.
    async fn pieces_of(&self, state: &StripedState) -> Result<u64> {
        match state {
            StripedState::Whole { layout, size_bytes, .. } => Ok(layout.pieces(*size_bytes)),
            StripedState::Begun(begun) => Ok(begun.pieces.max(1)),
            // Count consecutive objects, as libradosstriper does.
            StripedState::Bare => {
                let mut pieces = 1;
                while is_there(&*self.pool, &self.piece(pieces)?).await? {
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
async fn digest_beside(pool: &dyn Pool, object: &ObjectId) -> Result<String> {
    match compute(pool, object, Algorithm::Xxh3, 1).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        digest => return digest.map_err(|error| error.with("while", "checking")),
    }
    let mut attempt = 1;
    loop {
        match hash_here(pool, object, Algorithm::Xxh3).await {
            Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS_MAX => attempt += 1,
            digest => return digest,
        }
    }
}

/// Returns whether an object has an attribute of libradosstriper or Benthic; `None` if it is
/// missing.
async fn is_marked(pool: &dyn Pool, object: &ObjectId) -> Result<Option<bool>> {
    match pool.fetch(object, Fetch::list_xattrs()).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => Ok(Some(has_mark(&found?.0))),
    }
}

fn has_mark(xattrs: &BTreeMap<String, Bytes>) -> bool {
    xattrs.keys().any(|name| name.starts_with("striper.") || name.starts_with("benthic."))
}

async fn is_there(pool: &dyn Pool, object: &ObjectId) -> Result<bool> {
    match pool.stat(object).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl StripedState {
    fn parse(xattrs: &BTreeMap<String, Bytes>) -> Result<StripedState> {
        let Some(size) = xattrs.get(SIZE_XATTR) else {
            let begun = xattrs.get(BEGUN_XATTR).and_then(|value| serde_json::from_slice(value).ok());
            let begun = begun.filter(|begun: &Begun| begun.pieces <= layout::PIECES_MAX);
            return Ok(begun.map_or(StripedState::Bare, StripedState::Begun));
        };
        let damaged = |message: &str| {
            Error::new(ErrorKind::Corrupt, format!("{message}; `benthic rm --stripe` removes it"))
        };
        let part = |name: &str| {
            let value = xattrs.get(name);
            value.and_then(|value| number(value)).ok_or_else(|| {
                damaged("the first object of the striped object has no such attribute with a number in it")
                    .with("attribute", name)
            })
        };
        let layout = Layout {
            object_size: part(OBJECT_SIZE_XATTR)?,
            stripe_unit: part(STRIPE_UNIT_XATTR)?,
            stripe_count: part(STRIPE_COUNT_XATTR)?,
        };
        layout.check().map_err(|error| damaged(error.message()).with("layout", layout))?;
        let size_bytes = number(size).filter(|size_bytes| layout.pieces(*size_bytes) <= layout::PIECES_MAX);
        let size_bytes = size_bytes.ok_or_else(|| {
            damaged("the size of the striped object is no number, or one of too many pieces")
                .with("attribute", SIZE_XATTR)
        })?;
        let note: Option<Note> = xattrs.get(NOTE_XATTR).and_then(|value| serde_json::from_slice(value).ok());
        let note =
            note.filter(|note| note.size_bytes == size_bytes && note.pieces == layout.pieces(size_bytes));
        Ok(StripedState::Whole { layout, size_bytes, note })
    }
}

/// Parses a decimal number in libradosstriper's form.
fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok().filter(|number| i64::try_from(*number).is_ok())
}

/// The XXH3 digest of `data`.
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
    Error::new(ErrorKind::Internal, "a task panicked").with_source(panic)
}

/// A file's modification time in nanoseconds since 1970 (UTC).
fn modified_unix_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

#[cfg(test)]
mod tests;
