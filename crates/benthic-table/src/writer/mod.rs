//! Adds rows to a table: writes data objects, then a list of them, then makes all or none visible
//! with one compare-and-swap of the head.

mod change;
mod commit;
pub(crate) mod encode;

use crate::alter::Alter;
use crate::error;
use crate::evolve::{compact, conform, rows_bytes, unknown_columns};
use crate::groups::{self, ColumnGroup};
use crate::head::{INTENTS_MAX, Intent, ListRef};
use crate::ids::{Id, Role, TableObject};
use crate::indexes;
use crate::layout::Layout;
use crate::list::{FileEntry, ListWriter};
use crate::object;
use crate::partition::{PARTITIONS_MAX, Partitioning};
use crate::schema::TableSchema;
use crate::snapshot::{Snapshot, SnapshotSelector};
use crate::statistics::{Statistics, with_distributions};
use crate::table::Table;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::Field;
use benthic_core::{Error, ErrorKind, Result, limits};
use benthic_index::{Definition as Index, pack};
use bytes::Bytes;
use change::Change;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

const SLICE_ROWS: usize = 64 * 1024;
/// Least target size of an object when it is reduced so that its indexes fit into the same
/// operation.
const INDEXED_BYTES_MIN: usize = 64 * 1024;
/// Limit of the rows that wait in one partition. Arrow limits the text of a batch to 2 GiB.
const PARTITION_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Permitted ratios of the size of rows in memory and in an object.
const RATIOS: RangeInclusive<f64> = 0.5..=50.0;

/// The bytes of rows in memory that make a full object, at this ratio of the sizes in memory and in
/// the object.
pub(crate) fn full_bytes(object_bytes_target: usize, ratio: f64) -> usize {
    let ratio = ratio.clamp(*RATIOS.start(), *RATIOS.end());
    ((object_bytes_target as f64 * ratio) as usize).min(PARTITION_BYTES_MAX)
}

/// The reason to write the rows of a partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// They are enough for an object. Batches that are too much for one wait.
    Full,
    MemoryIsFull,
    End,
}

/// Settings of a writer.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Memory limit for rows that wait for their partition to fill. Above it, the writer flushes
    /// the largest partition early. At least 1 MiB.
    pub buffer_bytes_max: usize,
    /// Concurrent uploads. Each holds its object's bytes in memory.
    pub uploads_max: usize,
    /// Whether to add columns that the table lacks, rather than refuse them.
    pub add_columns: bool,
    /// Whether a full object gets the rows that came first, also if the table sorts the rows of an
    /// object. Otherwise the rows that wait for the next object are the last ones in that order.
    pub keeps_order: bool,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            buffer_bytes_max: 256 * 1024 * 1024,
            uploads_max: 4,
            add_columns: false,
            keeps_order: false,
        }
    }
}

/// Adds rows to a table. No row is visible before [`Writer::finish`]. If a writer is dropped
/// without it, [`vacuum`](crate::vacuum) removes its objects after a day.
///
/// Memory: `buffer_bytes_max`, twice the largest partition while it is sorted and encoded, and
/// `uploads_max` objects. Encoding runs on the polling thread, and yields after each step of about
/// 1 MiB.
pub struct Writer {
    table: Table,
    id: Id,
    schema: TableSchema,
    partitioning: Partitioning,
    layout: Layout,
    indexes: Vec<Index>,
    object_bytes_target: usize,
    options: WriterOptions,
    buffers: HashMap<Option<i64>, Buffer>,
    buffered_bytes: usize,
    /// Bytes in memory per byte in an object, as measured so far.
    ratio: f64,
    /// Whether the memory limit made an object smaller than half of its target.
    pub(crate) is_limited_by_memory: bool,
    uploads: FuturesUnordered<BoxFuture<'static, Result<()>>>,
    lists: Option<ListWriter>,
    written: Vec<ListRef>,
    next_data: u32,
    next_list: u32,
    may_be_committed: bool,
    change: Option<Change>,
}

struct EncodedObject {
    /// The object, and its companions.
    objects: Vec<Vec<u8>>,
    taken: usize,
    /// The index pages, as omap entries.
    entries: Vec<(Bytes, Bytes)>,
}

fn entries_bytes(entries: &[(Bytes, Bytes)]) -> u64 {
    entries.iter().map(|(key, value)| (key.len() + value.len()) as u64 + limits::ENTRY_BYTES).sum()
}

#[derive(Default)]
struct Buffer {
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Table {
    /// Starts a writer. Registers it in the head, so that a vacuum keeps its objects.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped; `LimitExceeded` for too many concurrent writers;
    /// `Busy`.
    pub async fn writer(&self, options: WriterOptions) -> Result<Writer> {
        let id = Id::draw(&self.environment)?;
        let time_ms = self.environment.unix_ms();
        let ((), head) = self
            .commit(id, |head| {
                if head.has_intent(id) {
                    return Ok(());
                }
                if head.intents.len() >= INTENTS_MAX {
                    let message = "the table has too many writers; vacuum it to remove abandoned writers";
                    return Err(Error::limit_exceeded(message).with("writers_max", INTENTS_MAX));
                }
                head.intents.push(Intent { writer: id, time_ms });
                Ok(())
            })
            .await?;
        Ok(Writer {
            table: self.clone(),
            id,
            schema: head.current()?.1.clone(),
            partitioning: head.partitioning,
            object_bytes_target: usize::try_from(head.layout.object_bytes).unwrap_or(usize::MAX),
            layout: head.layout,
            indexes: head.indexes,
            options: WriterOptions {
                buffer_bytes_max: options.buffer_bytes_max.max(1024 * 1024),
                uploads_max: options.uploads_max.max(1),
                ..options
            },
            buffers: HashMap::new(),
            buffered_bytes: 0,
            ratio: 2.0,
            is_limited_by_memory: false,
            uploads: FuturesUnordered::new(),
            lists: None,
            written: Vec::new(),
            next_data: 0,
            next_list: 0,
            may_be_committed: false,
            change: None,
        })
    }
}

impl Writer {
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Buffers rows and writes full partitions. Columns are matched by name; a missing column is
    /// null, a narrower type is widened. After an error, only [`Writer::abort`] is useful.
    ///
    /// # Errors
    /// `InvalidArgument` for columns that do not fit, with a hint; `LimitExceeded` for a row that
    /// is too large for an object and for too many partitions; as
    /// [`Pool::write`](benthic_core::Pool::write).
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.options.add_columns && !unknown_columns(batch, &self.schema).is_empty() {
            self.add_columns(batch).await?;
        }
        let batch = conform(batch, &self.schema).map_err(|error| self.table.heads.add_context(error))?;
        for start in (0..batch.num_rows()).step_by(SLICE_ROWS) {
            self.buffer(&batch.slice(start, SLICE_ROWS.min(batch.num_rows() - start)))?;
            while let Some((partition, bytes)) = self.largest() {
                let reason = match bytes >= full_bytes(self.object_bytes_target, self.ratio) {
                    true => Flush::Full,
                    false if self.buffered_bytes > self.options.buffer_bytes_max => Flush::MemoryIsFull,
                    false => break,
                };
                self.flush(partition, reason).await?;
            }
        }
        Ok(())
    }

    /// Writes the remaining rows and commits. Returns the snapshot that contains the rows, or the
    /// current one if there were none. The writer cannot be used afterwards. If the future is
    /// dropped before it completes, call [`Writer::abort`].
    ///
    /// # Errors
    /// `Conflict` if a vacuum removed the writer's registration, or if another change affects the
    /// same rows or the columns; `NotFound` if the table was
    /// dropped; `Busy`; as [`Writer::write`]. The rows are then not in the table, and their objects
    /// are removed if possible. `OutcomeUnknown` if it is not known whether the rows are in the
    /// table; read its snapshots to find out.
    pub async fn finish(&mut self) -> Result<Snapshot> {
        let lists = match self.finish_lists().await {
            Ok(lists) => lists,
            Err(error) => {
                // If this fails, a vacuum removes the objects later.
                let _ = self.remove_all().await;
                return Err(error);
            }
        };
        let error = match self.commit(lists).await {
            Err(error) => error,
            committed => return committed,
        };
        match self.remove_all().await {
            Ok(Some(snapshot)) => Ok(snapshot),
            Ok(None) => Err(error),
            Err(_) => Err(error.with_kind(ErrorKind::OutcomeUnknown)),
        }
    }

    /// Removes the writer's objects unless they were committed. [`vacuum`](crate::vacuum) removes
    /// those that this call cannot.
    ///
    /// # Errors
    /// `OutcomeUnknown` if it may have been committed; as
    /// [`Pool::write`](benthic_core::Pool::write).
    pub async fn abort(&mut self) -> Result<()> {
        self.remove_all().await.map(|_| ())
    }

    /// Removes the writer from the head, and then its objects. Returns its snapshot if it was
    /// committed.
    async fn remove_all(&mut self) -> Result<Option<Snapshot>> {
        while self.uploads.next().await.is_some() {}
        let writer = self.id;
        let given_up = self.table.heads.commit(writer, |head| {
            let was_at_work = head.has_intent(writer);
            head.intents.retain(|intent| intent.writer != writer);
            Ok((was_at_work, head.snapshots.iter().find(|snapshot| snapshot.writer == writer).cloned()))
        });
        match given_up.await {
            Ok(((_, Some(committed)), head)) => {
                return Snapshot::new(&self.table, &Arc::new(head), &committed).map(Some);
            }
            // The writer may have committed, and a vacuum removed its snapshot since; newer
            // snapshots then hold its objects.
            Ok(((false, None), _)) if self.may_be_committed => {
                let message = "a vacuum removed the writer or its snapshot; read the table's rows to find out whether it \
                    committed";
                return Err(self.table.heads.add_context(Error::outcome_unknown(message)));
            }
            Ok(((_, None), _)) => {}
            // A forced drop removed the table; only this writer knows these objects.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let data = (0..self.next_data).map(|number| TableObject { role: Role::Data, writer, number });
        let next_list = self.lists.as_ref().map_or(self.next_list, ListWriter::next_number);
        let lists = (0..next_list).map(|number| TableObject { role: Role::List, writer, number });
        let table = self.table.id;
        let objects = data.chain(lists).map(|object| object.object_id(table));
        object::remove_all(self.table.pool(), objects).await?;
        Ok(None)
    }

    async fn add_columns(&mut self, batch: &RecordBatch) -> Result<()> {
        let add =
            |field: Field| Alter::Add { name: field.name().clone(), data_type: field.data_type().clone() };
        // Another writer may have added the columns since.
        let current = self.table.snapshot(SnapshotSelector::Current).await?;
        let changes: Vec<Alter> = unknown_columns(batch, current.schema()).into_iter().map(add).collect();
        let current = if changes.is_empty() { current } else { self.table.alter(&changes).await? };
        while let Some((partition, _)) = self.largest() {
            self.flush(partition, Flush::End).await?;
        }
        self.finish_list().await?;
        self.schema = current.schema().clone();
        Ok(())
    }

    fn largest(&self) -> Option<(Option<i64>, usize)> {
        let largest = self.buffers.iter().max_by_key(|(_, buffer)| buffer.bytes);
        largest.map(|(partition, buffer)| (*partition, buffer.bytes))
    }

    fn buffer(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(field) = self.partitioning.field() else {
            return self.add(None, batch.clone());
        };
        let place = self.schema.columns().iter().position(|column| column.id == field);
        let column = place.map(|place| batch.column(place));
        let column = column.ok_or_else(|| Error::internal("no column to partition by"))?;
        let partitions = self.partitioning.of(column)?;
        let mut rows: HashMap<Option<i64>, Vec<u32>> = HashMap::new();
        for (row, partition) in (0..).zip(&partitions) {
            rows.entry(partition).or_default().push(row);
        }
        if rows.len() == 1 {
            return rows.into_keys().try_for_each(|partition| self.add(partition, batch.clone()));
        }
        for (partition, rows) in rows {
            let part = take_record_batch(batch, &UInt32Array::from(rows));
            self.add(partition, part.map_err(|source| error::arrow("rows cannot be partitioned", source))?)?;
        }
        Ok(())
    }

    fn add(&mut self, partition: Option<i64>, batch: RecordBatch) -> Result<()> {
        if !self.buffers.contains_key(&partition) && self.buffers.len() > PARTITIONS_MAX {
            let message =
                "the data have too many partitions; partition by a coarser unit, or sort the data first";
            return Err(self
                .table
                .heads
                .add_context(Error::limit_exceeded(message).with("partitions_max", PARTITIONS_MAX)));
        }
        let bytes = rows_bytes(&batch);
        let buffer = self.buffers.entry(partition).or_default();
        buffer.bytes += bytes;
        self.buffered_bytes += bytes;
        buffer.batches.push(batch);
        Ok(())
    }

    /// Writes the rows of a partition as objects. If there were enough for an object, the rows
    /// after it go back to the buffer: also all of them, if they compress better than expected.
    async fn flush(&mut self, partition: Option<i64>, reason: Flush) -> Result<()> {
        let Some(buffer) = self.buffers.remove(&partition) else { return Ok(()) };
        self.buffered_bytes -= buffer.bytes;
        let rows = concat_batches(self.schema.arrow(), &buffer.batches);
        let rows = rows.map_err(|source| error::arrow("rows cannot be concatenated", source))?;
        drop(buffer);
        let unsorted = self.options.keeps_order.then(|| rows.clone());
        let (rows, reason, bytes_target) = self.sorted(partition, rows, reason).await?;
        let mut start = 0;
        while start < rows.num_rows() {
            if reason == Flush::Full && start > 0 {
                return self.add(partition, compact(rows.slice(start, rows.num_rows() - start))?);
            }
            let rest = rows.slice(start, rows.num_rows() - start);
            let EncodedObject { objects, taken, entries } = self.encode_first(&rest, bytes_target).await?;
            let largest_bytes = objects.iter().map(Vec::len).max().unwrap_or(0);
            let object = rest.slice(0, taken);
            if start + taken < rows.num_rows() || start == 0 {
                let ratio = rows_bytes(&object) as f64 / largest_bytes.max(1) as f64;
                self.ratio = ratio.clamp(*RATIOS.start(), *RATIOS.end());
            }
            let is_small = start + taken == rows.num_rows() && largest_bytes < self.object_bytes_target / 2;
            if is_small && start == 0 && reason != Flush::End {
                let waiting_bytes = rows_bytes(&rows);
                let fits = self.buffered_bytes + waiting_bytes <= self.options.buffer_bytes_max;
                let is_full = waiting_bytes >= full_bytes(self.object_bytes_target, self.ratio);
                if reason == Flush::Full && fits && !is_full {
                    return self.add(partition, unsorted.unwrap_or(rows));
                }
                self.is_limited_by_memory |= !is_full;
            }
            self.upload(partition, &object, objects, entries).await?;
            start += taken;
        }
        Ok(())
    }

    /// Sorts the rows of a partition. Returns them with the reason to write them and the target
    /// size of their objects. If the rows keep their order, those that are too much for one object
    /// go back to the buffer before the others are sorted.
    async fn sorted(
        &mut self,
        partition: Option<i64>,
        rows: RecordBatch,
        reason: Flush,
    ) -> Result<(RecordBatch, Flush, usize)> {
        let bytes_target = self.object_bytes_target;
        if reason != Flush::Full || !self.options.keeps_order || self.layout.sort.is_empty() {
            return Ok((encode::sort_rows(rows, &self.layout, &self.schema)?, reason, bytes_target));
        }
        let sorted = encode::sort_rows(rows.clone(), &self.layout, &self.schema)?;
        let taken = self.encode_first(&sorted, bytes_target).await?.taken;
        if taken == sorted.num_rows() {
            return Ok((sorted, reason, bytes_target));
        }
        self.add(partition, compact(rows.slice(taken, rows.num_rows() - taken))?)?;
        let first = encode::sort_rows(rows.slice(0, taken), &self.layout, &self.schema)?;
        // As many other rows may need a little more.
        Ok((first, Flush::End, bytes_target + bytes_target / 8))
    }

    /// Encodes the first of the rows as an object with its index pages, small enough for one
    /// operation.
    async fn encode_first(&mut self, rows: &RecordBatch, mut bytes_target: usize) -> Result<EncodedObject> {
        loop {
            let encoded = encode::encode_object(rows, &self.layout, &self.schema, bytes_target);
            let (objects, taken) = encoded.await?;
            let bytes = objects.first().map_or(0, Vec::len) as u64;
            let entries = self.entries(&rows.slice(0, taken));
            let is_too_large = |error: &Error| error.kind() == ErrorKind::LimitExceeded;
            match entries {
                Ok(entries) if bytes + entries_bytes(&entries) <= limits::OPERATION_BYTES_MAX => {
                    return Ok(EncodedObject { objects, taken, entries });
                }
                Err(error) if !is_too_large(&error) => return Err(error),
                _ if bytes_target > INDEXED_BYTES_MIN => bytes_target /= 2,
                // Without index pages, queries read the object whole.
                _ => return Ok(EncodedObject { objects, taken, entries: Vec::new() }),
            }
        }
    }

    /// The index pages of an object with these rows, as omap entries.
    fn entries(&self, rows: &RecordBatch) -> Result<Vec<(Bytes, Bytes)>> {
        let mut entries = Vec::new();
        for index in &self.indexes {
            entries.extend(pack(index, &indexes::arrays(index, rows, &self.schema)?)?);
        }
        Ok(entries)
    }

    async fn upload(
        &mut self,
        partition: Option<i64>,
        rows: &RecordBatch,
        objects: Vec<Vec<u8>>,
        entries: Vec<(Bytes, Bytes)>,
    ) -> Result<()> {
        let object = TableObject { role: Role::Data, writer: self.id, number: self.next_data };
        let id = self.table.id;
        let columns = groups::places(&self.layout.groups, &self.schema).into_iter();
        let columns =
            columns.map(|places| places.iter().map(|place| self.schema.columns()[*place].id).collect());
        let groups = columns.zip(&objects).skip(1);
        let entry = FileEntry {
            object,
            schema: self.schema.id,
            partition,
            rows: rows.num_rows() as u64,
            bytes: objects.first().map_or(0, Vec::len) as u64,
            deleted: None,
            groups: groups
                .map(|(columns, object)| ColumnGroup { columns, bytes: object.len() as u64 })
                .collect(),
        };
        // The index pages are those of the first object.
        let mut entries = Some(entries);
        for (part, bytes) in entry.parts().zip(objects) {
            self.next_data += 1;
            while self.uploads.len() >= self.options.uploads_max {
                self.uploads.next().await.transpose()?;
            }
            let (pool, entries) = (Arc::clone(self.table.pool()), entries.take().unwrap_or_default());
            let upload = async move { object::put(&pool, id, part.object, bytes.into(), entries).await };
            self.uploads.push(upload.boxed());
            // Starts the new upload and collects finished ones.
            while let Some(Some(done)) = self.uploads.next().now_or_never() {
                done?;
            }
        }
        let with_distribution = with_distributions(&self.schema, &self.indexes);
        let statistics = |(column, with): (&ArrayRef, bool)| match with {
            true => Statistics::of(column).with_distribution(column),
            false => Ok(Statistics::of(column)),
        };
        let statistics =
            rows.columns().iter().zip(with_distribution).map(statistics).collect::<Result<_>>()?;
        let lists = match self.lists.take() {
            Some(lists) => lists,
            None => ListWriter::new(Arc::clone(self.table.pool()), id, self.id, self.next_list, &self.schema),
        };
        self.lists.insert(lists).push(entry, statistics).await
    }

    /// Writes all buffered rows and returns all lists.
    async fn finish_lists(&mut self) -> Result<Vec<ListRef>> {
        self.rewrite_worn_objects().await?;
        while let Some((partition, _)) = self.largest() {
            self.flush(partition, Flush::End).await?;
        }
        while let Some(done) = self.uploads.next().await {
            done?;
        }
        self.finish_list().await?;
        Ok(std::mem::take(&mut self.written))
    }

    async fn finish_list(&mut self) -> Result<()> {
        if let Some(lists) = &mut self.lists {
            self.written.extend(lists.finish().await?);
            self.next_list = lists.next_number();
        }
        self.lists = None;
        Ok(())
    }
}
