//! File lists: the data objects of a snapshot, one row each, with statistics of their values.

use crate::error;
use crate::groups::{self, ColumnGroup, ObjectPart};
use crate::head::ListRef;
use crate::ids::{Id, Role, TableObject};
use crate::object::{self, ObjectReader};
use crate::schema::{Column, TableSchema};
use crate::statistics::{Statistics, has_bounds, has_distribution};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array,
    UInt64Array, new_null_array,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type, UInt64Type};
use benthic_core::{Error, ErrorKind, Pool, Result};
use benthic_index::Rows;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

/// Target size of a list; further rows go to another list.
const LIST_BYTES_TARGET: usize = 32 * 1024 * 1024;
/// Rows of a list's batch, and rows encoded at a time.
const BATCH_ROWS: usize = 4_096;
/// The column of a list that holds deletion vectors.
pub(crate) const DELETED: &str = "deleted";
/// The column of a list that holds column groups.
const GROUPS: &str = "groups";
/// The first word of the columns of a list that hold the distributions of values.
pub(crate) const DISTRIBUTION: &str = "distribution";
/// Limit of column statistics that wait to be encoded; each takes a few hundred bytes.
const PENDING_MAX: usize = 64 * 1024;
const ROW_GROUP_ROWS: usize = 16_384;

/// A data object, as a list records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub object: TableObject,
    /// The id of the schema with which the object was written.
    pub schema: u32,
    pub partition: Option<i64>,
    /// Number of rows that the object stores, deleted ones included.
    pub rows: u64,
    /// The size of the object, without its companions.
    pub bytes: u64,
    /// The deleted rows (a deletion vector); absent if there are none.
    pub deleted: Option<Arc<Rows>>,
    /// Column groups, each in a companion. The object has the other columns.
    pub groups: Vec<ColumnGroup>,
}

impl FileEntry {
    /// Number of rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        self.rows.saturating_sub(self.deleted.as_ref().map_or(0, |deleted| deleted.count()))
    }

    /// All rows that the object stores, deleted ones included.
    ///
    /// # Errors
    /// `LimitExceeded` for an object with more rows than a set of rows can have.
    pub fn stored_rows(&self) -> Result<Rows> {
        let message = "an object has too many rows for its rows to be changed";
        let limit = || Error::limit_exceeded(message).with("object", self.object);
        u32::try_from(self.rows).map(Rows::all).map_err(|_| limit())
    }

    /// The rows that are not deleted; absent if the object has no deleted rows.
    pub fn live(&self) -> Option<Rows> {
        self.deleted.as_ref().map(|deleted| Rows::all(deleted.of()).without(deleted))
    }

    /// The rows that are not deleted, also if no row is.
    ///
    /// # Errors
    /// As [`FileEntry::stored_rows`].
    pub fn undeleted_rows(&self) -> Result<Rows> {
        self.live().map_or_else(|| self.stored_rows(), Ok)
    }

    pub fn from_batch(batch: &RecordBatch) -> Result<Vec<FileEntry>> {
        let damaged = || Error::corrupt("a file list is damaged");
        let column = |name| batch.column_by_name(name).ok_or_else(damaged);
        let names = column("name")?.as_string_opt::<i32>().ok_or_else(damaged)?;
        let schemas = column("schema")?.as_primitive_opt::<UInt32Type>().ok_or_else(damaged)?;
        let partitions = column("partition")?.as_primitive_opt::<Int64Type>().ok_or_else(damaged)?;
        let rows = column("rows")?.as_primitive_opt::<UInt64Type>().ok_or_else(damaged)?;
        let bytes = column("bytes")?.as_primitive_opt::<UInt64Type>().ok_or_else(damaged)?;
        let deleted = column(DELETED)?.as_binary_opt::<i32>().ok_or_else(damaged)?;
        let deleted = |row: usize| match deleted.is_valid(row) {
            true => {
                let of = u32::try_from(rows.value(row)).map_err(|_| damaged())?;
                Rows::decode(deleted.value(row), of).map(|rows| Some(Arc::new(rows)))
            }
            false => Ok(None),
        };
        let grouped = column(GROUPS)?.as_binary_opt::<i32>().ok_or_else(damaged)?;
        let groups = |row: usize| match grouped.is_valid(row) {
            true => groups::decode(grouped.value(row)),
            false => Ok(Vec::new()),
        };
        let entry = |row: usize| {
            let object = TableObject::parse(names.value(row)).filter(|object| object.role == Role::Data);
            Ok(FileEntry {
                object: object.ok_or_else(damaged)?,
                schema: schemas.value(row),
                partition: partitions.is_valid(row).then(|| partitions.value(row)),
                rows: rows.value(row),
                bytes: bytes.value(row),
                deleted: deleted(row)?,
                groups: groups(row)?,
            })
        };
        (0..batch.num_rows()).map(entry).collect()
    }
}

fn statistics_fields(column: &Column) -> Vec<Field> {
    let id = column.id;
    let mut fields = Vec::new();
    if has_bounds(&column.data_type) {
        fields.push(Field::new(format!("min_{id}"), column.data_type.clone(), true));
        fields.push(Field::new(format!("max_{id}"), column.data_type.clone(), true));
        fields.push(Field::new(format!("exact_{id}"), DataType::Boolean, false));
    }
    fields.push(Field::new(format!("nulls_{id}"), DataType::UInt64, false));
    if column.data_type.is_floating() {
        fields.push(Field::new(format!("nans_{id}"), DataType::UInt64, false));
    }
    fields
}

/// The schema of a list with the statistics of these columns.
pub fn list_schema(columns: &[Column]) -> SchemaRef {
    list_schema_with(columns, &[])
}

/// The schema of a list with the statistics of `columns`, and the distributions of `distributions`.
pub(crate) fn list_schema_with(columns: &[Column], distributions: &[Column]) -> SchemaRef {
    let mut fields = vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("schema", DataType::UInt32, false),
        Field::new("partition", DataType::Int64, true),
        Field::new("rows", DataType::UInt64, false),
        Field::new("bytes", DataType::UInt64, false),
        Field::new(DELETED, DataType::Binary, true),
        Field::new(GROUPS, DataType::Binary, true),
    ];
    fields.extend(columns.iter().flat_map(statistics_fields));
    let distributions = distributions.iter().filter(|column| has_distribution(&column.data_type));
    fields.extend(
        distributions
            .map(|column| Field::new(format!("{DISTRIBUTION}_{}", column.id), DataType::Binary, true)),
    );
    Arc::new(Schema::new(fields))
}

/// Writes lists, and starts a new list when one reaches the target size.
pub(crate) struct ListWriter {
    pool: Arc<dyn Pool>,
    table: Id,
    writer: Id,
    next_number: u32,
    columns: Vec<Column>,
    schema: SchemaRef,
    encoder: Option<ArrowWriter<Vec<u8>>>,
    pending: Vec<(FileEntry, Vec<Statistics>)>,
    /// The totals of the list that is being encoded.
    sums: Totals,
    written: Vec<ListRef>,
}

impl ListWriter {
    /// A writer of lists with statistics of the columns of `schema`. Its objects are numbered from
    /// `next_number`.
    pub(crate) fn new(
        pool: Arc<dyn Pool>,
        table: Id,
        writer: Id,
        next_number: u32,
        schema: &TableSchema,
    ) -> ListWriter {
        let columns = schema.columns().to_vec();
        let schema = list_schema_with(&columns, &columns);
        let (encoder, pending, sums, written) = (None, Vec::new(), Totals::default(), Vec::new());
        ListWriter { pool, table, writer, next_number, columns, schema, encoder, pending, sums, written }
    }

    /// Adds a data object with the statistics of all columns, in order.
    pub(crate) async fn push(&mut self, entry: FileEntry, statistics: Vec<Statistics>) -> Result<()> {
        self.pending.push((entry, statistics));
        let enough =
            self.pending.len() >= BATCH_ROWS || self.pending.len() * self.columns.len() >= PENDING_MAX;
        if enough { self.encode_pending().await } else { Ok(()) }
    }

    /// Adds rows of another list, as [`read_list_with`] returns them for all columns.
    pub(crate) async fn push_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.sums.add(batch)?;
        if self.encoder.is_none() {
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_created_by(crate::CREATED_BY.to_owned())
                .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                .set_statistics_enabled(EnabledStatistics::None)
                .set_offset_index_disabled(true)
                .build();
            let options =
                ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
            let encoder = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&self.schema), options);
            self.encoder = Some(encoder.map_err(error::parquet)?);
        }
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        encoder.write(batch).map_err(error::parquet)?;
        match encoder.bytes_written() + encoder.in_progress_size() >= LIST_BYTES_TARGET {
            true => self.write_list().await,
            false => Ok(()),
        }
    }

    /// Writes the rest, and returns all lists.
    pub(crate) async fn finish(&mut self) -> Result<Vec<ListRef>> {
        self.encode_pending().await?;
        self.write_list().await?;
        Ok(std::mem::take(&mut self.written))
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.next_number
    }

    async fn encode_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let entries = || pending.iter().map(|(entry, _)| entry);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(entries().map(|entry| entry.object.to_string()))),
            Arc::new(UInt32Array::from_iter_values(entries().map(|entry| entry.schema))),
            Arc::new(entries().map(|entry| entry.partition).collect::<Int64Array>()),
            Arc::new(UInt64Array::from_iter_values(entries().map(|entry| entry.rows))),
            Arc::new(UInt64Array::from_iter_values(entries().map(|entry| entry.bytes))),
            Arc::new(deletions(entries())),
            Arc::new(
                entries()
                    .map(|entry| (!entry.groups.is_empty()).then(|| groups::encode(&entry.groups)))
                    .collect::<BinaryArray>(),
            ),
        ];
        for (place, column) in self.columns.iter().enumerate() {
            let all = || pending.iter().filter_map(|(_, statistics)| statistics.get(place));
            let gather = |pick: fn(&Statistics) -> &ArrayRef| {
                let arrays: Vec<&dyn Array> = all().map(|statistics| pick(statistics).as_ref()).collect();
                concat(&arrays).map_err(|source| error::arrow("statistics cannot be concatenated", source))
            };
            if has_bounds(&column.data_type) {
                columns.push(gather(|statistics| &statistics.min)?);
                columns.push(gather(|statistics| &statistics.max)?);
                columns
                    .push(Arc::new(all().map(|statistics| Some(statistics.exact)).collect::<BooleanArray>()));
            }
            columns.push(Arc::new(UInt64Array::from_iter_values(all().map(|statistics| statistics.nulls))));
            if column.data_type.is_floating() {
                columns
                    .push(Arc::new(UInt64Array::from_iter_values(all().map(|statistics| statistics.nans))));
            }
        }
        for (place, _) in
            self.columns.iter().enumerate().filter(|(_, column)| has_distribution(&column.data_type))
        {
            let all = pending.iter().filter_map(|(_, statistics)| statistics.get(place));
            let all = all.map(|statistics| statistics.distribution.as_deref());
            columns.push(Arc::new(all.collect::<BinaryArray>()));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        self.push_batch(&batch.map_err(|source| error::arrow("statistics cannot form a list", source))?).await
    }

    async fn write_list(&mut self) -> Result<()> {
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        let bytes = encoder.into_inner().map_err(error::parquet)?;
        let object = TableObject { role: Role::List, writer: self.writer, number: self.next_number };
        self.next_number += 1;
        let Totals { objects, rows, data_bytes, grouped } = std::mem::take(&mut self.sums);
        let list_bytes = bytes.len() as u64;
        self.written.push(ListRef { object, objects, rows, data_bytes, list_bytes, grouped });
        object::put(&self.pool, self.table, object, bytes.into(), Vec::new()).await
    }
}

/// Totals of a list's objects; `rows` does not count deleted rows, and companions are no objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub objects: u64,
    pub rows: u64,
    pub data_bytes: u64,
    pub grouped: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        for entry in FileEntry::from_batch(batch)? {
            self.objects += 1;
            self.rows = self.rows.saturating_add(entry.live_rows());
            self.data_bytes = self.data_bytes.saturating_add(entry.all_bytes());
            self.grouped += u64::from(!entry.groups.is_empty());
        }
        Ok(())
    }
}

/// The column of a list that holds the deletion vectors of these objects.
pub(crate) fn deletions<'e>(entries: impl Iterator<Item = &'e FileEntry>) -> BinaryArray {
    entries.map(|entry| entry.deleted.as_ref().map(|deleted| deleted.encode())).collect()
}

/// Reads a list with the statistics of these columns. The columns' schema must not be older than
/// the list. If the list lacks a column, the column was added later, so all its values are null.
pub(crate) async fn read_list(
    pool: Arc<dyn Pool>,
    named: (Id, String),
    list: ListRef,
    columns: &[Column],
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    read_list_with(pool, named, list, columns, &[]).await
}

/// Reads a list as [`read_list`], with the distributions of other columns.
pub(crate) async fn read_list_with(
    pool: Arc<dyn Pool>,
    (table, address): (Id, String),
    list: ListRef,
    columns: &[Column],
    distributions: &[Column],
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let wanted = list_schema_with(columns, distributions);
    let whole = ObjectPart { object: list.object, bytes: list.list_bytes, start: 0 };
    let reader = ObjectReader::new(pool, table, vec![whole]);
    // Parquet's own types are enough, and are safe to read from a damaged list.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let mask = {
        let wanted = Arc::clone(&wanted);
        move |schema: &SchemaDescriptor| {
            ProjectionMask::columns(schema, wanted.fields().iter().map(|field| field.name().as_str()))
        }
    };
    let named = (address, list.object);
    let batches = object::batches(reader, options, mask, None, BATCH_ROWS, named).await?;
    Ok(batches.and_then(move |batch| std::future::ready(fill(&batch, &wanted))).boxed())
}

/// Converts a batch of a list to the requested columns and types.
fn fill(batch: &RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let mut columns = Vec::with_capacity(wanted.fields().len());
    for field in wanted.fields() {
        let found = batch.column_by_name(field.name());
        columns.push(match (found, field.name().split_once('_').map(|(kind, _)| kind)) {
            (Some(column), _) if column.data_type() == field.data_type() => ArrayRef::clone(column),
            (Some(column), _) => cast(column, field.data_type()).map_err(|source| {
                error::arrow("statistics have an unexpected type", source).with_kind(ErrorKind::Corrupt)
            })?,
            (None, Some("exact")) => Arc::new(BooleanArray::from(vec![true; rows])),
            (None, Some("nans")) => Arc::new(UInt64Array::from(vec![0; rows])),
            (None, Some("nulls")) => {
                let rows_column = batch.column_by_name("rows").cloned();
                rows_column.unwrap_or_else(|| new_null_array(&DataType::UInt64, rows))
            }
            (None, _) => new_null_array(field.data_type(), rows),
        });
    }
    RecordBatch::try_new(Arc::clone(wanted), columns)
        .map_err(|source| error::arrow("a file list is damaged", source).with_kind(ErrorKind::Corrupt))
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
