//! Striped objects: a file in many objects, in libradosstriper's own layout, so that `rados --striper` reads what is written
//! here and the other way round. docs/formats.md has the names and attributes, and the order of writes.
//!
//! [`layout`] is the arithmetic, [`lock`] the lock that all who work on a striped object take; [`write`] and [`read`] move
//! the pieces, [`part`] is the file that a download fills. Calls run in a tokio runtime with time.

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

/// What the names of first objects end with.
pub const FIRST_SUFFIX: &str = ".0000000000000000";

const OBJECT_SIZE_XATTR: &str = "striper.layout.object_size";
const STRIPE_UNIT_XATTR: &str = "striper.layout.stripe_unit";
const STRIPE_COUNT_XATTR: &str = "striper.layout.stripe_count";
/// The size of the file. Without it nobody reads the striped object.
const SIZE_XATTR: &str = "striper.size";
/// Of a first object without a size: what is begun, as [`Begun`].
const BEGUN_XATTR: &str = "benthic.begun";
/// Of a first object: what the file was, as [`Note`].
const NOTE_XATTR: &str = "benthic.striped";
/// Of every piece: the XXH3 digest of what it holds.
const PIECE_XATTR: &str = "benthic.piece";

/// Memory for pieces that are on their way; as much again for those that have arrived and are not yet written.
const WINDOW_BYTES: u64 = 128 * 1024 * 1024;
/// How often an object is read anew that changed meanwhile.
const ATTEMPTS_MAX: u32 = 10;

/// A striped object by its name.
#[derive(Clone)]
pub struct Striped {
    /// The pool.
    pub pool: Arc<dyn Pool>,
    /// The name without the numbers of the pieces.
    pub object: ObjectId,
    /// How it is locked there.
    pub locks: Locks,
    /// The time of leases.
    pub clock: Arc<dyn Clock>,
    /// Whether the user has interrupted the program: no further piece is begun then.
    pub is_interrupted: fn() -> bool,
}

/// What is known of the file that a striped object was made of: the value of [`NOTE_XATTR`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Size of the file.
    pub size_bytes: u64,
    /// Its modification time, in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: i64,
    /// How many pieces there are.
    pub pieces: u64,
    /// The XXH3 digest of the pieces' digests, see [`digest_of_all`].
    pub xxh3: String,
}

/// What is being written or removed, or was when somebody was interrupted: the value of [`BEGUN_XATTR`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Whoever began it; another value each time.
    pub run: String,
    /// No piece from this number on is there.
    pub pieces: u64,
}

/// What the first object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripedState {
    /// There is a striped object.
    Whole {
        /// How it is cut.
        layout: Layout,
        /// Size of the file.
        size_bytes: u64,
        /// What is known of the file; nothing if another program wrote it, or changed its size since.
        note: Option<Note>,
    },
    /// It is incomplete.
    Begun(Begun),
    /// The first object has neither size nor note, or no note that can be.
    Bare,
}

/// The first object.
#[derive(Clone, Debug)]
pub struct Head {
    /// What it says.
    pub state: StripedState,
    /// Whether it has an attribute of libradosstriper, or one of ours. Without any it may be an object of something else.
    pub is_marked: bool,
    /// Its own size and time.
    pub stat: Stat,
}

impl Head {
    /// Size and time of the file; nothing if the striped object is incomplete.
    pub fn stat_of_file(&self) -> Option<Stat> {
        let StripedState::Whole { size_bytes, note, .. } = &self.state else { return None };
        let modified = note.as_ref().and_then(|note| u64::try_from(note.modified_unix_ns).ok());
        Some(Stat {
            size_bytes: *size_bytes,
            modified_unix_ns: modified.unwrap_or(self.stat.modified_unix_ns),
        })
    }
}

/// The striped object whose first object this is; nothing if it is none.
///
/// # Errors
/// None that is possible: a part of a name is a name.
pub fn whole_of(object: ObjectId) -> Result<Option<ObjectId>> {
    match object.name().strip_suffix(FIRST_SUFFIX) {
        Some(name) if !name.is_empty() => ObjectId::in_namespace(object.namespace(), name).map(Some),
        _ => Ok(None),
    }
}

impl Striped {
    /// The object that a piece is in.
    ///
    /// # Errors
    /// `LimitExceeded` if the name gets too long.
    pub fn piece(&self, piece: u64) -> Result<ObjectId> {
        ObjectId::in_namespace(self.object.namespace(), format!("{}.{piece:016x}", self.object.name()))
    }

    /// An identifier that no other run has.
    fn unique(&self) -> String {
        format!("{}.{}", std::process::id(), self.clock.unix_ns())
    }

    /// Runs a job for every piece, `jobs` at a time. After the first failure, and after an
    /// interrupt, no further job starts, and it returns when the running ones have ended.
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

    /// What the first object says; nothing if there is none.
    ///
    /// # Errors
    /// `Corrupt` for attributes that are no layout; as [`Pool::read`].
    pub async fn look(&self) -> Result<Option<Head>> {
        let found = self.pool.fetch(&self.piece(0)?, Fetch::stat().and(Fetch::list_xattrs())).await;
        let ((stat, xattrs), _) = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        Ok(Some(Head { state: StripedState::parse(&xattrs)?, is_marked: has_mark(&xattrs), stat }))
    }

    /// What the first object says, which must be there and say that the striped object is whole.
    ///
    /// # Errors
    /// `NotFound`; as [`Striped::look`].
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

    /// Fails if the objects of this name are not those of a striped object: other programs give objects such names too, as that
    /// of the images of block devices does, `rbd_data.ID.%016x`.
    async fn check_striped(&self, head: &Head) -> Result<()> {
        // An empty object may be what a program left that was killed when it had taken the lock.
        let is_other = !head.is_marked
            && (head.stat.size_bytes > 0 || is_marked(&*self.pool, &self.piece(1)?).await? == Some(false));
        if is_other { Err(self.something_else(0)?) } else { Ok(()) }
    }

    /// That a piece is none.
    fn something_else(&self, piece: u64) -> Result<Error> {
        let message = "this object has the name of a striped object's piece and none of its attributes, so it is something else, \
            as an image's data; choose another name, or remove such objects one by one with `benthic rm`";
        let error = Error::new(ErrorKind::InvalidArgument, message).with("pool", self.pool.name());
        Ok(error.with("object", self.piece(piece)?))
    }

    /// No piece from this number on is there.
    async fn pieces_of(&self, state: &StripedState) -> Result<u64> {
        match state {
            StripedState::Whole { layout, size_bytes, .. } => Ok(layout.pieces(*size_bytes)),
            StripedState::Begun(begun) => Ok(begun.pieces.max(1)),
            // As libradosstriper counts them.
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

/// If an object is missing because it is striped, the error says which `verb` means those.
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

/// The XXH3 digest of an object as it is now, computed beside it, or here where the pool runs no classes.
///
/// There is no guard on its version, because every renewal of a lock makes another one of the first object.
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

/// Whether an object has an attribute of libradosstriper, or one of ours; nothing if it is missing.
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

/// A number as libradosstriper writes it.
fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok().filter(|number| i64::try_from(*number).is_ok())
}

/// The XXH3 digest of bytes.
fn digest(data: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(data);
    hasher.finish()
}

/// The digest of a file: XXH3 of its pieces' digests in their order, each as 32 hexadecimal digits and a line end.
fn digest_of_all<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    for digest in digests {
        hasher.update(digest.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finish()
}

/// As many jobs as memory has room for pieces.
pub fn window(jobs: usize, layout: Layout) -> usize {
    let room = usize::try_from(WINDOW_BYTES / layout.object_size.max(1)).unwrap_or(1);
    jobs.clamp(1, room.max(1))
}

/// Runs what blocks: file work and hashing.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|panic| Err(panicked(panic)))
}

fn panicked(panic: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, "a task panicked").with_source(panic)
}

/// When a file was last changed, in nanoseconds since 1970.
fn modified_unix_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

#[cfg(test)]
mod tests;
