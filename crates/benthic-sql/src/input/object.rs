//! Objects of a pool as input: finds them by a pattern, and reads them by ranges.
//!
//! The client reads the whole object, also where a class could run beside it. Loading needs every
//! value of every row, and `docs/design/0009-changes-of-rows.md` says what code beside the object
//! would save and cost.

use super::Format;
use super::unknown_format;
use benthic_core::{
    Error, ErrorKind, Fetch, ListRequest, Namespaces, ObjectAddress, ObjectId, OptionalExtension, Pool,
    Result,
};
use bytes::{Buf, Bytes};
use futures::executor::block_on;
use futures::stream::{StreamExt, TryStreamExt};
use glob::{MatchOptions, Pattern};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As for local files: a wildcard matches neither `/` nor a leading dot.
const MATCH_OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
/// Limit of the objects that one pattern may match.
const OBJECTS_MAX: usize = 100_000;
const STATS_AT_ONCE: usize = 16;
/// Bytes of one read.
const READ_BYTES: u64 = 4 * 1024 * 1024;

/// An object of rows in a pool, as it was when it was found.
#[derive(Clone)]
pub struct PoolObject {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    size_bytes: u64,
    version: u64,
}

/// Finds the objects at an address, sorted by name. If there is no object of this name, `*`, `?`,
/// `[a-z]` and `**` in it match several.
///
/// # Errors
/// `NotFound` if there is none; `InvalidArgument` for an invalid pattern; `LimitExceeded` for too
/// many objects; as [`Pool::list`].
pub async fn find_objects(pool: &Arc<dyn Pool>, at: &ObjectAddress) -> Result<Vec<PoolObject>> {
    let named = |error: Error| error.with("object", at);
    if let Some(found) = PoolObject::find(pool, at.object.clone()).await.optional()? {
        return Ok(vec![found]);
    }
    let name = at.object.name();
    let Some(first_wildcard) = name.find(['*', '?', '[']) else {
        return Err(named(Error::not_found("no such object; `benthic ls POOL` lists them")));
    };
    let pattern = Pattern::new(name)
        .map_err(|error| named(Error::invalid_argument("the pattern is invalid").with_source(error)))?;
    let mut request = ListRequest {
        namespaces: Namespaces::One(at.object.namespace().to_owned()),
        prefix: name[..first_wildcard].to_owned(),
        ..ListRequest::default()
    };
    let mut objects: Vec<ObjectId> = Vec::new();
    loop {
        let page = pool.list(request.clone()).await?;
        let is_match = |object: &ObjectId| pattern.matches_with(object.name(), MATCH_OPTIONS);
        objects.extend(page.objects.into_iter().filter(is_match));
        if objects.len() > OBJECTS_MAX {
            let message = "the pattern matches too many objects; load them in several steps";
            return Err(named(Error::limit_exceeded(message).with("objects_max", OBJECTS_MAX)));
        }
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    if objects.is_empty() {
        return Err(named(Error::not_found("no object matches this pattern")));
    }
    objects.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    let found = objects.into_iter().map(|object| PoolObject::find(pool, object));
    futures::stream::iter(found).buffered(STATS_AT_ONCE).try_collect().await
}

impl PoolObject {
    async fn find(pool: &Arc<dyn Pool>, object: ObjectId) -> Result<PoolObject> {
        let (stat, version) = pool.stat(&object).await?;
        Ok(PoolObject { pool: Arc::clone(pool), object, size_bytes: stat.size_bytes, version })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The object's address, for messages.
    pub fn path(&self) -> PathBuf {
        let address = ObjectAddress { pool: self.pool.name().to_owned(), object: self.object.clone() };
        PathBuf::from(address.to_string())
    }

    pub(super) fn format(&self) -> Option<Format> {
        Format::of(Path::new(self.object.name()))
    }

    /// Checks that the format is known.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, options: &super::Options) -> Result<()> {
        let format = options.format.or_else(|| self.format());
        format.map(drop).ok_or_else(|| unknown_format(false).with("path", self.path().display()))
    }

    pub(super) fn stream(&self) -> ObjectStream {
        ObjectStream { from: self.clone(), next: 0, read: Bytes::new() }
    }

    fn read_range(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        let fetch = Fetch::read_exact(self.version, offset_bytes, len_bytes);
        let read = block_on(self.pool.fetch(&self.object, fetch));
        read.map(|(data, _)| data).map_err(|error| match error.kind() {
            ErrorKind::Conflict | ErrorKind::NotFound => {
                Error::conflict("the object was changed while it was read; load it again").with_source(error)
            }
            _ => error,
        })
    }
}

/// The bytes of an object from the beginning to the end.
pub(super) struct ObjectStream {
    from: PoolObject,
    next: u64,
    read: Bytes,
}

impl Read for ObjectStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() && self.next < self.from.size_bytes {
            let len_bytes = READ_BYTES.min(self.from.size_bytes - self.next);
            self.read = self.from.read_range(self.next, len_bytes).map_err(io::Error::other)?;
            self.next += len_bytes;
        }
        let len_bytes = to.len().min(self.read.len());
        self.read.copy_to_slice(&mut to[..len_bytes]);
        Ok(len_bytes)
    }
}
