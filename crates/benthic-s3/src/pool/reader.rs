//! Reading: fetches pieces of data objects, a few pieces ahead of the caller.

use super::Options;
use super::layout::Names;
use crate::sal::encryption::{FRAME_BYTES, WriteKey, stored_range};
use crate::sal::{Bucket, DataKey, Id, Object, Prefetch, Reader};
use async_trait::async_trait;
use benthic_classes::bucket::state::{Manifest, Segment};
use benthic_core::{Clock, Error, ErrorKind, ObjectId, Pool, Result};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The first piece is small, so that the first byte arrives soon. Each piece is twice as large as
/// the previous one, up to the maximum.
const PIECE_BYTES_FIRST: u64 = 256 * 1024;
const PIECE_BYTES_MAX: u64 = 2 * 1024 * 1024;

pub(super) struct PoolReader {
    pool: Arc<dyn Pool>,
    names: Names,
    bucket: Id,
    pieces: Pieces,
    prefetch: Option<Prefetch>,
    data_key: Option<DataKey>,
    /// The key of the last piece's write.
    write_key: Option<(Id, Arc<WriteKey>)>,
    ahead: FuturesOrdered<BoxFuture<'static, Result<Bytes>>>,
    reads_ahead: usize,
    clock: Arc<dyn Clock>,
    begun_ms: u64,
    grace_ms: u64,
}

/// A byte range of a data object, which one read fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The write and the number, from which the key of encrypted data derives.
    pub write: Id,
    pub chunk: u32,
    /// The same in the name of the data object.
    pub stored: (Id, u32),
    offset_bytes: u64,
    pub len_bytes: u64,
    /// The length of all data in the data object if they are encrypted.
    encrypted_bytes: Option<u64>,
}

impl Piece {
    fn range(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes + self.len_bytes
    }

    /// The range of the data object that has the piece.
    fn stored_range(&self) -> Range<u64> {
        match self.encrypted_bytes {
            Some(len_bytes) => stored_range(self.range(), len_bytes),
            None => self.range(),
        }
    }

    /// Whether a prefetch covers exactly this piece.
    fn is_prefetched(&self, prefetch: &Prefetch) -> bool {
        let first = (prefetch.write, 0, 0, prefetch.len_bytes);
        (self.write, self.chunk, self.offset_bytes, self.len_bytes) == first
    }
}

/// Iterates over the pieces of a byte range.
pub(super) struct Pieces {
    segments: std::vec::IntoIter<Segment>,
    /// The write that moved all data.
    moved: Option<Id>,
    /// The number of data objects of all segments before the next one.
    chunks_before: u32,
    /// The current segment, the number of data objects before it, and its remaining range.
    now: Option<(Segment, u32, Range<u64>)>,
    /// Bytes to skip before the wanted range, counted from the next segment.
    skip_bytes: u64,
    left_bytes: u64,
    /// Maximum length of the next piece.
    piece_bytes: u64,
    is_encrypted: bool,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some((segment, before, range)) = &mut self.now
                && !range.is_empty()
            {
                let chunk_bytes = u64::from(segment.chunk_bytes.max(1));
                let offset_bytes = range.start % chunk_bytes;
                // A piece of encrypted data ends where a frame ends, so that no frame is read
                // twice.
                let in_frame = if self.is_encrypted { offset_bytes % FRAME_BYTES } else { 0 };
                let piece_bytes = self.piece_bytes - in_frame;
                let len_bytes = (chunk_bytes - offset_bytes).min(range.end - range.start).min(piece_bytes);
                self.piece_bytes = (self.piece_bytes * 2).min(PIECE_BYTES_MAX);
                let chunk = u32::try_from(range.start / chunk_bytes).ok()?;
                let encrypted_bytes = self
                    .is_encrypted
                    .then(|| (segment.len_bytes - u64::from(chunk) * chunk_bytes).min(chunk_bytes));
                range.start += len_bytes;
                let write = segment.write.into();
                let stored = match self.moved {
                    Some(moved) => (moved, before.saturating_add(chunk)),
                    None => (write, chunk),
                };
                return Some(Piece { write, chunk, stored, offset_bytes, len_bytes, encrypted_bytes });
            }
            if self.left_bytes == 0 {
                return None;
            }
            let segment = self.segments.next()?;
            let start = self.skip_bytes.min(segment.len_bytes);
            self.skip_bytes -= start;
            let end = segment.len_bytes.min(start.saturating_add(self.left_bytes));
            self.left_bytes -= end - start;
            self.now = Some((segment, self.chunks_before, start..end));
            self.chunks_before = self.chunks_before.saturating_add(segment.chunks().count);
        }
    }
}

/// The manifest of an object: where its data are.
///
/// # Errors
/// `InvalidArgument` if the object comes from another driver.
pub(super) fn manifest(object: &Object) -> Result<&Manifest> {
    let manifest = object.location.downcast_ref();
    manifest.ok_or_else(|| Error::invalid_argument("the object comes from another driver"))
}

/// The bucket under which the data of an object in `bucket` were written.
pub(super) fn home(bucket: &Bucket, manifest: &Manifest) -> Id {
    manifest.shared.map_or(bucket.id, |group| group.bucket.into())
}

pub(super) fn pieces(manifest: &Manifest, range: Range<u64>, is_encrypted: bool) -> Pieces {
    Pieces {
        segments: manifest.segments.clone().into_iter(),
        moved: manifest.moved.map(Into::into),
        chunks_before: 0,
        now: None,
        skip_bytes: range.start,
        left_bytes: range.end - range.start,
        piece_bytes: PIECE_BYTES_FIRST,
        is_encrypted,
    }
}

impl PoolReader {
    pub fn new(
        pool: Arc<dyn Pool>,
        names: Names,
        bucket: Id,
        pieces: Pieces,
        prefetch: Option<Prefetch>,
        data_key: Option<DataKey>,
        options: &Options,
    ) -> PoolReader {
        let clock = Arc::clone(&options.environment.clock);
        PoolReader {
            pool,
            names,
            bucket,
            pieces,
            prefetch,
            data_key,
            write_key: None,
            ahead: FuturesOrdered::new(),
            reads_ahead: options.reads_ahead,
            begun_ms: clock.monotonic_ms(),
            clock,
            grace_ms: options.grace_ms,
        }
    }

    /// The key of a write; `None` if the data are not encrypted.
    fn write_key(&mut self, write: Id) -> Result<Option<Arc<WriteKey>>> {
        let Some(data_key) = &self.data_key else { return Ok(None) };
        if let Some((last, key)) = &self.write_key
            && *last == write
        {
            return Ok(Some(Arc::clone(key)));
        }
        let key = Arc::new(data_key.write_key(write)?);
        self.write_key = Some((write, Arc::clone(&key)));
        Ok(Some(key))
    }

    /// Collection removes data objects only after the grace period. So a data object that is
    /// missing earlier means damage.
    fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        if self.clock.monotonic_ms().saturating_sub(self.begun_ms) < self.grace_ms {
            return Error::corrupt("data of the object are missing").with_source(error);
        }
        Error::unavailable("the version was removed during a long read; start the read again")
            .with("grace_ms", self.grace_ms)
            .with_source(error)
    }
}

/// Reads a piece as it is stored.
pub(super) async fn read_piece(pool: Arc<dyn Pool>, object: ObjectId, piece: Piece) -> Result<Bytes> {
    let range = piece.stored_range();
    let len_bytes = range.end - range.start;
    let data = pool.read_range(&object, range.start, len_bytes).await?;
    if data.len() as u64 == len_bytes {
        return Ok(data);
    }
    Err(Error::corrupt("a data object is too short")
        .with("object", object.name())
        .with("offset_bytes", range.start)
        .with("len_bytes", data.len())
        .with("len_bytes_wanted", len_bytes))
}

/// Decrypts a piece. Decryption takes about as long as all other work for the data. So a task of
/// its own decrypts a long piece, while the caller sends the pieces before.
async fn open_piece(
    key: Arc<WriteKey>,
    piece: Piece,
    stored: BoxFuture<'static, Result<Bytes>>,
) -> Result<Bytes> {
    let open = async move { key.open(piece.chunk, piece.range(), &stored.await?) };
    match Handle::try_current() {
        Ok(runtime) if piece.len_bytes > PIECE_BYTES_FIRST => {
            let opened = runtime.spawn(open).await;
            opened.unwrap_or_else(|_| Err(Error::internal("the decryption of a piece panicked")))
        }
        _ => open.await,
    }
}

#[async_trait]
impl Reader for PoolReader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.ahead.len() <= self.reads_ahead {
            let Some(piece) = self.pieces.next() else { break };
            let stored = match self.prefetch.take_if(|prefetch| piece.is_prefetched(prefetch)) {
                Some(prefetch) => prefetch.data,
                None => {
                    let object = self.names.chunk(self.bucket, piece.stored.0, piece.stored.1)?;
                    Box::pin(read_piece(Arc::clone(&self.pool), object, piece))
                }
            };
            let key = self.write_key(piece.write)?;
            self.ahead.push_back(match key {
                None => stored,
                Some(key) => Box::pin(open_piece(key, piece, stored)),
            });
        }
        match self.ahead.next().await {
            None => Ok(None),
            Some(Ok(data)) => Ok(Some(data)),
            Some(Err(error)) => Err(self.explain(error)),
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
