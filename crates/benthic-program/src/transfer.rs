//! Moving whole objects in and out of a pool.

use benthic_core::{ClassCall, Error, ErrorKind, Fetch, ObjectId, Pool, Result, Stat, WriteOp, limits};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The attribute in which `cp` notes what an object was made from.
pub const SOURCE_XATTR: &str = "benthic.source";

/// How much one read fetches.
const RANGE_BYTES: u64 = 8 * 1024 * 1024;

/// What a file was when it was copied: the value of [`SOURCE_XATTR`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Size of the file.
    pub size_bytes: u64,
    /// Its modification time, in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: i64,
    /// The XXH3 digest of its content.
    pub xxh3: String,
}

impl Source {
    /// Reads the attribute; one that somebody else wrote in another form is as good as none.
    pub fn parse(value: &[u8]) -> Option<Source> {
        serde_json::from_slice(value).ok()
    }
}

/// An object as it is now.
pub struct StoredObject {
    /// Size and time.
    pub stat: Stat,
    /// Version.
    pub version: u64,
    /// What it was made from; nothing if that is not known, or if the object has another size by now.
    pub source: Option<Source>,
}

/// Looks at an object.
///
/// # Errors
/// As [`Pool::read`].
pub async fn look(pool: &dyn Pool, object: &ObjectId) -> Result<StoredObject> {
    let ((stat, xattrs), version) = pool.fetch(object, Fetch::stat().and(Fetch::list_xattrs())).await?;
    let source = xattrs.get(SOURCE_XATTR).and_then(|value| Source::parse(value));
    let source = source.filter(|source| source.size_bytes == stat.size_bytes);
    Ok(StoredObject { stat, version, source })
}

/// The XXH3 digest of one version of an object, computed beside it.
///
/// # Errors
/// `Conflict` if the object has another version by now; as [`Pool::read`].
pub async fn xxh3_beside(pool: &dyn Pool, object: &ObjectId, version: u64) -> Result<String> {
    let digest = Fetch::exec(ClassCall::new("digest", "compute", "xxh3")).assert_version(version);
    let (digest, _) = pool.fetch(object, digest).await?;
    Ok(String::from_utf8_lossy(&digest).into_owned())
}

/// Replaces an object's data and notes its source, or that it has none any more.
///
/// What one operation carries is written in one, atomically. More goes in two or three: the first replaces
/// the data, the others append to it, each on condition that nobody wrote in between. If a later one fails,
/// what was begun is removed.
///
/// Returns the object's version.
///
/// # Errors
/// As [`Pool::write`]; `LimitExceeded` for data over the limit, with nothing stored.
pub async fn upload(pool: &dyn Pool, object: &ObjectId, data: Bytes, source: Option<&Source>) -> Result<u64> {
    benthic_core::op::check_object_size(data.len() as u64)?;
    let note = match source {
        Some(source) => Some(Bytes::from(serde_json::to_vec(source).map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot write the source attribute").with_source(error)
        })?)),
        None => None,
    };
    let noted = |op: WriteOp| match &note {
        Some(note) => op.set_xattr(SOURCE_XATTR, note.clone()),
        None => op.remove_xattr(SOURCE_XATTR),
    };
    let whole = noted(WriteOp::new().write_full(data.clone()));
    if whole.check().is_ok() {
        return pool.write(object, whole).await.map(|reply| reply.version);
    }
    let piece_bytes = usize::try_from(limits::OPERATION_BYTES_MAX / 2).unwrap_or(usize::MAX);
    let (first, mut rest) = (data.slice(..piece_bytes), data.slice(piece_bytes..));
    let begin = WriteOp::new().write_full(first).remove_xattr(SOURCE_XATTR);
    let mut version = pool.write(object, begin).await?.version;
    while !rest.is_empty() {
        let piece = rest.split_to(piece_bytes.min(rest.len()));
        let append = WriteOp::new().assert_version(version).append(piece);
        let append = if rest.is_empty() { noted(append) } else { append };
        match write_next(pool, object, append).await {
            Ok(next) => version = next,
            Err(error) => return Err(take_back(pool, object, version, error).await),
        }
    }
    Ok(version)
}

async fn write_next(pool: &dyn Pool, object: &ObjectId, append: WriteOp) -> Result<u64> {
    if crate::interrupt::is_set() {
        return Err(Error::new(ErrorKind::Unavailable, "interrupted before the object was complete"));
    }
    pool.write(object, append).await.map(|reply| reply.version)
}

/// Removes an incomplete object unless somebody else wrote to it, which is then theirs.
async fn take_back(pool: &dyn Pool, object: &ObjectId, version: u64, cause: Error) -> Error {
    if cause.kind() == ErrorKind::Conflict {
        return Error::new(
            ErrorKind::Conflict,
            "somebody else wrote the object meanwhile; look at it, then repeat",
        )
        .with_source(cause);
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
    /// Starts with a version and size that a read reported.
    pub fn of_version(
        pool: &'a dyn Pool,
        object: &'a ObjectId,
        version: u64,
        size_bytes: u64,
    ) -> Download<'a> {
        Download { pool, object, version, size_bytes, offset_bytes: 0 }
    }

    /// Leaves out what is before an offset.
    #[must_use]
    pub fn skip_to(self, offset_bytes: u64) -> Download<'a> {
        Download { offset_bytes: offset_bytes.min(self.size_bytes), ..self }
    }

    /// Starts with the object as it is now.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub async fn start(pool: &'a dyn Pool, object: &'a ObjectId) -> Result<Download<'a>> {
        let (stat, version) = pool.stat(object).await?;
        Ok(Download::of_version(pool, object, version, stat.size_bytes))
    }

    /// The next range; none behind the end.
    ///
    /// # Errors
    /// `Conflict` if the object has another version by now; as [`Pool::read`].
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let len_bytes = (self.size_bytes - self.offset_bytes).min(RANGE_BYTES);
        if len_bytes == 0 {
            return Ok(None);
        }
        let range = Fetch::read_exact(self.version, self.offset_bytes, len_bytes);
        let (data, _) = self.pool.fetch(self.object, range).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                Error::new(ErrorKind::Conflict, "the object changed while it was read; read it again")
            }
            _ => error,
        })?;
        self.offset_bytes += len_bytes;
        Ok(Some(data))
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
