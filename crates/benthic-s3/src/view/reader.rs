//! Reads an object of a pool, a piece at a time.

use crate::sal::Reader;
use async_trait::async_trait;
use benthic_core::{Error, ErrorKind, Fetch, ObjectId, Pool, Result};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a reader fetches at a time.
pub(super) const PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// Reads a range of an object of a pool.
pub struct ObjectReader {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    version: Option<u64>,
    /// The range that is not fetched yet.
    range: Range<u64>,
    fetched: Option<Bytes>,
}

impl ObjectReader {
    /// Reads a range that is within the object. With a version, the reader fails with `Unavailable`
    /// once the object has another one. Without, the object must not change.
    pub fn new(
        pool: Arc<dyn Pool>,
        object: ObjectId,
        version: Option<u64>,
        range: Range<u64>,
    ) -> ObjectReader {
        ObjectReader { pool, object, version, range, fetched: None }
    }

    /// Fetches the first piece.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub(super) async fn begin(&mut self) -> Result<()> {
        self.fetched = self.fetch().await?;
        Ok(())
    }

    /// Takes the first piece, which was fetched before. It may reach beyond the range.
    pub(super) fn begin_with(&mut self, mut piece: Bytes) {
        let len_bytes = (self.range.end - self.range.start).min(piece.len() as u64);
        piece.truncate(usize::try_from(len_bytes).unwrap_or(usize::MAX));
        self.range.start += len_bytes;
        self.fetched = Some(piece).filter(|piece| !piece.is_empty());
    }

    async fn fetch(&mut self) -> Result<Option<Bytes>> {
        let len_bytes = (self.range.end - self.range.start).min(PIECE_BYTES);
        if len_bytes == 0 {
            return Ok(None);
        }
        let fetch = match self.version {
            Some(version) => Fetch::read_exact(version, self.range.start, len_bytes),
            None => Fetch::read(self.range.start, len_bytes),
        };
        let bytes = match self.pool.fetch(&self.object, fetch).await {
            Err(error)
                if self.version.is_some()
                    && matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) =>
            {
                let message = "the object has changed while it was read; read it again";
                return Err(Error::unavailable(message).with_source(error));
            }
            fetched => fetched?.0,
        };
        if bytes.len() as u64 != len_bytes {
            return Err(Error::corrupt("a data object is shorter than it was"));
        }
        self.range.start += len_bytes;
        Ok(Some(bytes))
    }
}

#[async_trait]
impl Reader for ObjectReader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(piece) = self.fetched.take() { Ok(Some(piece)) } else { self.fetch().await }
    }
}
