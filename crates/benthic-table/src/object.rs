//! The immutable objects of a table, that is, data objects and file lists: write once, read by
//! ranges, remove.
//!
//! The answer of a write can get lost, so that its outcome is unknown. All writes here are
//! idempotent, so this module retries them.

use crate::error;
use crate::groups::{ObjectPart, join_footers};
use crate::ids::{Id, TableObject};
use crate::pause::pause;
use arrow::array::RecordBatch;
use benthic_core::{Error, ErrorKind, ObjectId, OptionalExtension, Pool, Result, WriteOp, limits};
use benthic_index::Rows;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::SchemaDescriptor;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

const ATTEMPTS_MAX: u32 = 5;
/// Delay before the first retry; each further delay is twice as long.
const PAUSE_MS: u64 = 50;
const REMOVALS_MAX: usize = 16;
/// Bytes prefetched from an object's end; the footer usually fits.
const FOOTER_BYTES: u64 = 64 * 1024;

/// Writes an object with its omap entries, durably. No other writer may write the same object. So a
/// retry after an unknown outcome only writes the same bytes again.
///
/// # Errors
/// As [`Pool::write`]; `LimitExceeded` for more bytes than one operation can carry.
pub(crate) async fn put(
    pool: &Arc<dyn Pool>,
    table: Id,
    object: TableObject,
    bytes: Bytes,
    entries: Vec<(Bytes, Bytes)>,
) -> Result<()> {
    let op = match entries.is_empty() {
        true => WriteOp::new().write_full(bytes.clone()),
        false => WriteOp::new().write_full(bytes.clone()).omap_set(entries),
    };
    if bytes.len() as u64 > limits::OPERATION_BYTES_MAX {
        let message = "a row is too large for an object; remove its large values, or split them";
        return Err(Error::limit_exceeded(message)
            .with("len_bytes", bytes.len())
            .with("len_bytes_max", limits::OPERATION_BYTES_MAX));
    }
    let id = object.object_id(table)?;
    retry(|| async { pool.write(&id, op.clone()).await.map(|_| ()) }).await
}

/// Replaces the omap entries of an existing object: removes `keys`, then sets `entries`.
///
/// # Errors
/// As [`Pool::write`]; `NotFound` if the object is gone.
pub(crate) async fn replace_entries(
    pool: &Arc<dyn Pool>,
    id: &ObjectId,
    keys: Vec<Bytes>,
    entries: Vec<(Bytes, Bytes)>,
) -> Result<()> {
    let removal = WriteOp::new().assert_exists().omap_remove(keys);
    let op = if entries.is_empty() { removal } else { removal.omap_set(entries) };
    retry(|| async { pool.write(id, op.clone()).await.map(|_| ()) }).await
}

/// Removes objects durably, several at a time. A missing object is not an error.
///
/// # Errors
/// As [`Pool::write`]; some of the objects may then still exist.
pub(crate) async fn remove_all(
    pool: &Arc<dyn Pool>,
    objects: impl Iterator<Item = Result<ObjectId>> + Send,
) -> Result<()> {
    let removals = objects.map(|object| async { remove(pool, &object?).await });
    futures::stream::iter(removals).buffer_unordered(REMOVALS_MAX).try_collect().await
}

async fn remove(pool: &Arc<dyn Pool>, id: &ObjectId) -> Result<()> {
    retry(|| async { pool.remove(id).await.optional().map(drop) }).await
}

/// Runs an idempotent operation, and repeats it with exponential backoff while its outcome is
/// unknown.
async fn retry<F: Future<Output = Result<()>>>(operation: impl Fn() -> F) -> Result<()> {
    let mut attempt = 0;
    loop {
        match operation().await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown && attempt + 1 < ATTEMPTS_MAX => {
                pause(Duration::from_millis(PAUSE_MS << attempt)).await;
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Reads a Parquet object, or the objects of several column groups as one, by ranges.
#[derive(Clone)]
pub struct ObjectReader {
    pool: Arc<dyn Pool>,
    table: Id,
    parts: Vec<ObjectPart>,
}

impl ObjectReader {
    /// A reader of a table's objects. The parts follow each other.
    pub fn new(pool: Arc<dyn Pool>, table: Id, parts: Vec<ObjectPart>) -> ObjectReader {
        ObjectReader { pool, table, parts }
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let size_bytes = self.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        let damaged = |message: &str| Error::corrupt(message).with("size_bytes", size_bytes);
        // A range outside the object comes from a damaged footer.
        let part = self.parts.iter().find(|part| part.contains(&range));
        let Some(part) = part.filter(|_| range.start <= range.end) else {
            return Err(damaged("a Parquet object refers to bytes beyond its end"));
        };
        let (len_bytes, object) = (range.end - range.start, part.object.object_id(self.table)?);
        let bytes = self.pool.read_range(&object, range.start - part.start, len_bytes).await?;
        match bytes.len() as u64 == len_bytes {
            true => Ok(bytes),
            false => Err(damaged("an object is shorter than its recorded size")),
        }
    }
}

impl AsyncFileReader for ObjectReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async { self.read(range).await.map_err(external) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let reader = &*self;
        futures::future::try_join_all(
            ranges.into_iter().map(move |range| reader.read(range).map(|bytes| bytes.map_err(external))),
        )
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            if let [part] = self.parts[..] {
                let hint = usize::try_from(FOOTER_BYTES.min(part.bytes)).ok();
                let reader =
                    ParquetMetaDataReader::new().with_arrow_reader_options(options).with_prefetch_hint(hint);
                return Ok(Arc::new(reader.load_and_finish(self, part.bytes).await?));
            }
            let mut footers = Vec::with_capacity(self.parts.len());
            for part in self.parts.clone() {
                let parts = vec![ObjectPart { start: 0, ..part }];
                let mut reader = ObjectReader { parts, ..self.clone() };
                // Boxed because this future contains itself.
                footers.push((part, reader.get_metadata(None).await?));
            }
            join_footers(&footers).map(Arc::new).map_err(external)
        }
        .boxed()
    }
}

/// The value of a key in the footer of a data object; `None` if an older build wrote the object.
///
/// # Errors
/// As [`Pool::read`]; `Corrupt`.
pub(crate) async fn footer_value(mut reader: ObjectReader, key: &str) -> Result<Option<String>> {
    let footer = AssertUnwindSafe(reader.get_metadata(None)).catch_unwind().await;
    let footer = footer.map_err(|_| panicked())?.map_err(error::parquet)?;
    let entries = footer.file_metadata().key_value_metadata().into_iter().flatten();
    let mut named = entries.filter(|entry| entry.key == key);
    Ok(named.next().and_then(|entry| entry.value.clone()))
}

fn external(error: Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Reads a Parquet object as a stream of batches. `columns` selects columns from the object's own
/// schema; `rows` selects rows. `address` is the table as POOL/NAME; together with `object` it goes
/// into errors.
///
/// # Errors
/// As [`Pool::read`]; `Corrupt` for any failure of the Parquet reader. This includes panics: the
/// reader trusts the numbers in a file, and wrong numbers make it overflow or slice out of bounds.
/// The stream fails in the same ways.
pub(crate) async fn batches(
    reader: ObjectReader,
    options: ArrowReaderOptions,
    columns: impl FnOnce(&SchemaDescriptor) -> ProjectionMask + Send,
    rows: Option<&Rows>,
    batch_rows: usize,
    (address, object): (String, TableObject),
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let open = async {
        let builder = ParquetRecordBatchStreamBuilder::new_with_options(reader, options).await?;
        let columns = columns(builder.parquet_schema());
        let mut builder = builder.with_projection(columns).with_batch_size(batch_rows);
        if let Some(rows) = rows {
            let ranges = rows.ranges().iter().map(|range| range.start as usize..range.end as usize);
            builder =
                builder.with_row_selection(RowSelection::from_consecutive_ranges(ranges, rows.of() as usize));
        }
        builder.build()
    };
    let add_context = move |error: Error| error.with("table", &address).with("object", object);
    let opened = AssertUnwindSafe(open).catch_unwind().await;
    let batches = opened
        .map_err(|_| panicked())
        .and_then(|opened| opened.map_err(error::parquet))
        .map_err(&add_context)?;
    let batch = |batch: std::thread::Result<_>| match batch {
        Ok(Ok(batch)) => Ok(batch),
        Ok(Err(error)) => Err(error::parquet(error)),
        Err(_) => Err(panicked()),
    };
    Ok(AssertUnwindSafe(batches).catch_unwind().map(batch).map_err(add_context).boxed())
}

fn panicked() -> Error {
    Error::corrupt("a Parquet object cannot be read: the Parquet reader panicked")
}
