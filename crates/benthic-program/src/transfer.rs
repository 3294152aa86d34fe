//! Transfers of whole objects to and from a pool.
//!
//! An object may be larger than one operation carries. An upload then appends the rest under
//! version guards, and a download reads ranges of one version.

use benthic_core::{ClassCall, Error, ErrorKind, Fetch, ObjectId, Pool, Result, Stat, WriteOp, limits};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The attribute in which `cp` records the source file of an object.
pub const SOURCE_XATTR: &str = "benthic.source";

/// The attribute in which a copy records the version and time of its source, as JSON.
pub const COPIED_XATTR: &str = "benthic.copied";

/// Bytes that one read fetches.
const RANGE_BYTES: u64 = 8 * 1024 * 1024;

/// A file's state when it was copied: the value of [`SOURCE_XATTR`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub size_bytes: u64,
    /// Modification time in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: i64,
    /// The XXH3 digest of the content.
    pub xxh3: String,
}

impl Source {
    /// Parses the attribute. Returns `None` for a value of another form, which some other program
    /// wrote.
    pub fn parse(value: &[u8]) -> Option<Source> {
        serde_json::from_slice(value).ok()
    }
}

/// The state of a stored object.
pub struct StoredObject {
    pub stat: Stat,
    pub version: u64,
    /// The source file; `None` if it is unknown, or if the object's size has changed since.
    pub source: Option<Source>,
}

/// Reads an object's state.
pub async fn read_state(pool: &dyn Pool, object: &ObjectId) -> Result<StoredObject> {
    let ((stat, xattrs), version) = pool.fetch(object, Fetch::stat().and(Fetch::list_xattrs())).await?;
    let source = xattrs.get(SOURCE_XATTR).and_then(|value| Source::parse(value));
    let source = source.filter(|source| source.size_bytes == stat.size_bytes);
    Ok(StoredObject { stat, version, source })
}

/// Computes the XXH3 digest of one version of an object, in the process that stores it.
///
/// # Errors
/// `Conflict` if the object's version has changed; as [`Pool::read`].
pub async fn stored_xxh3(pool: &dyn Pool, object: &ObjectId, version: u64) -> Result<String> {
    let digest = Fetch::exec(ClassCall::new("digest", "compute", "xxh3")).assert_version(version);
    let (digest, _) = pool.fetch(object, digest).await?;
    Ok(String::from_utf8_lossy(&digest).into_owned())
}

/// The object that an upload may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// Any object, or none.
    Any,
    /// The object in this version.
    Version(u64),
    /// The object must not exist.
    Nothing,
}

impl Replaced {
    fn guard(self, op: WriteOp) -> WriteOp {
        match self {
            Replaced::Any => op,
            Replaced::Version(version) => op.assert_version(version),
            Replaced::Nothing => op.create(true),
        }
    }
}

/// Replaces an object's data and records its source. Without a source, it removes the old record.
///
/// Data that fit into one operation are written atomically. Larger data take two or three
/// operations: the first replaces the object, the others append to it, each with a version guard
/// against other writers. If an append fails, the function removes the incomplete object.
///
/// Returns the new version of the object.
///
/// # Errors
/// `LimitExceeded` for data larger than an object may be, with nothing stored; `Conflict` if the
/// object is not the one in `replaced`, or if another client wrote to the object between two
/// operations; as [`Pool::write`].
pub async fn upload(
    pool: &dyn Pool,
    object: &ObjectId,
    replaced: Replaced,
    data: Bytes,
    source: Option<&Source>,
) -> Result<u64> {
    benthic_core::op::check_object_size(data.len() as u64)?;
    let record = source
        .map(serde_json::to_vec)
        .transpose()
        .map_err(|error| Error::internal("cannot write the source attribute").with_source(error))?;
    let with_record = |op: WriteOp| match &record {
        Some(record) => op.set_xattr(SOURCE_XATTR, record.clone()),
        None => op.remove_xattr(SOURCE_XATTR),
    };
    // The object is no copy of an object any more.
    let replace = |data| replaced.guard(WriteOp::new()).write_full(data).remove_xattr(COPIED_XATTR);
    let explain = |error: Error| match error.kind() {
        ErrorKind::Conflict | ErrorKind::AlreadyExists => conflict(error),
        _ => error,
    };
    let whole = with_record(replace(data.clone()));
    if whole.check().is_ok() {
        return pool.write(object, whole).await.map(|reply| reply.version).map_err(explain);
    }
    let piece_bytes = usize::try_from(limits::OPERATION_BYTES_MAX / 2).unwrap_or(usize::MAX);
    let (first, mut rest) = (data.slice(..piece_bytes), data.slice(piece_bytes..));
    let begin = replace(first).remove_xattr(SOURCE_XATTR);
    let mut version = pool.write(object, begin).await.map_err(explain)?.version;
    while !rest.is_empty() {
        let piece = rest.split_to(piece_bytes.min(rest.len()));
        let append = WriteOp::new().assert_version(version).append(piece);
        let append = if rest.is_empty() { with_record(append) } else { append };
        match write_next(pool, object, append, replaced != Replaced::Nothing).await {
            Ok(next) => version = next,
            Err(error) => return Err(remove_incomplete(pool, object, version, error).await),
        }
    }
    Ok(version)
}

/// Writes the next part of an object, unless the user has interrupted the program. If the object
/// replaces an older one, whose data are gone, it is completed first.
pub(crate) async fn write_next(
    pool: &dyn Pool,
    object: &ObjectId,
    append: WriteOp,
    replaces: bool,
) -> Result<u64> {
    if crate::interrupt::is_set() && !replaces {
        return Err(Error::unavailable("interrupted before the object was complete"));
    }
    pool.write(object, append).await.map(|reply| reply.version)
}

fn conflict(cause: Error) -> Error {
    Error::conflict(
        "another client wrote to the object during the upload; check the object, then repeat the command",
    )
    .with_source(cause)
}

/// Removes an incomplete object, unless another client has written to it since. Returns the error
/// to report: `cause`, or the error of the removal.
pub(crate) async fn remove_incomplete(
    pool: &dyn Pool,
    object: &ObjectId,
    version: u64,
    cause: Error,
) -> Error {
    if cause.kind() == ErrorKind::Conflict {
        return conflict(cause);
    }
    match pool.write(object, WriteOp::new().assert_version(version).remove()).await {
        Ok(_) => cause,
        Err(error) => Error::new(
            cause.kind(),
            "the object is incomplete and could not be removed; repeat the command or use `benthic rm`",
        )
        .with("removal", error)
        .with_source(cause),
    }
}

/// Reads one version of an object, range by range.
pub struct Download<'a> {
    pool: &'a dyn Pool,
    object: &'a ObjectId,
    version: u64,
    size_bytes: u64,
    offset_bytes: u64,
}

impl<'a> Download<'a> {
    /// Starts a download of the version and size that an earlier read returned.
    pub fn of_version(
        pool: &'a dyn Pool,
        object: &'a ObjectId,
        version: u64,
        size_bytes: u64,
    ) -> Download<'a> {
        Download { pool, object, version, size_bytes, offset_bytes: 0 }
    }

    /// Skips the data before an offset.
    #[must_use]
    pub fn skip_to(self, offset_bytes: u64) -> Download<'a> {
        Download { offset_bytes: offset_bytes.min(self.size_bytes), ..self }
    }

    /// Starts a download of the object's current version.
    pub async fn start(pool: &'a dyn Pool, object: &'a ObjectId) -> Result<Download<'a>> {
        let (stat, version) = pool.stat(object).await?;
        Ok(Download::of_version(pool, object, version, stat.size_bytes))
    }

    /// The next range of at most 8 MiB; `None` at the end.
    ///
    /// # Errors
    /// `Conflict` if the object's version has changed; as [`Pool::read`].
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let len_bytes = (self.size_bytes - self.offset_bytes).min(RANGE_BYTES);
        if len_bytes == 0 {
            return Ok(None);
        }
        let range = Fetch::read_exact(self.version, self.offset_bytes, len_bytes);
        let (data, _) = self.pool.fetch(self.object, range).await.map_err(explain_change)?;
        self.offset_bytes += len_bytes;
        Ok(Some(data))
    }
}

/// Reads one version of an object's omap, page by page.
pub struct OmapDownload<'a> {
    pool: &'a dyn Pool,
    object: &'a ObjectId,
    version: u64,
    after: Option<Bytes>,
    is_complete: bool,
}

impl<'a> OmapDownload<'a> {
    /// Starts a download of the version that an earlier read returned.
    pub fn of_version(pool: &'a dyn Pool, object: &'a ObjectId, version: u64) -> OmapDownload<'a> {
        OmapDownload { pool, object, version, after: None, is_complete: false }
    }

    /// The next entries, in bytewise key order; none at the end.
    ///
    /// # Errors
    /// `Conflict` if the object's version has changed; as [`Pool::read`].
    pub async fn next(&mut self) -> Result<Vec<(Bytes, Bytes)>> {
        if self.is_complete {
            return Ok(Vec::new());
        }
        let page = Fetch::omap_range(self.after.take(), "", limits::OMAP_PAGE_ENTRIES_MAX);
        let page = page.assert_version(self.version);
        let (page, _) = self.pool.fetch(self.object, page).await.map_err(explain_change)?;
        self.after = page.entries.last().map(|(key, _)| key.clone());
        self.is_complete = !page.more;
        Ok(page.entries)
    }
}

fn explain_change(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Conflict => Error::conflict("the object changed while it was read; read it again"),
        _ => error,
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
