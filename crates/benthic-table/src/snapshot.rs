//! A snapshot: the immutable state of a table at one time.

use crate::evolve::adapt;
use crate::groups::ObjectPart;
use crate::head::{Head, ListRef, Operation, SnapshotRef, check_index};
use crate::ids::TableObject;
use crate::layout::Layout;
use crate::list::{FileEntry, read_list, read_list_with};
use crate::object::{self, ObjectReader};
use crate::partition::Partitioning;
use crate::schema::{Column, TableSchema};
use crate::table::Table;
use arrow::array::RecordBatch;
use benthic_core::{Environment, Error, ErrorKind, Pool, Result};
use benthic_index::Definition as Index;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

const BATCH_ROWS: usize = 8_192;

/// Selects a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SnapshotSelector {
    #[default]
    Current,
    Id(u64),
    /// The newest snapshot committed at or before this time, in milliseconds since 1970 (UTC).
    TimeMs(u64),
    /// The snapshot with this tag.
    Tag(String),
}

/// A snapshot of a table. Reads need the lists and data objects that it names. A vacuum of the
/// snapshot removes them, and reads then fail with `NotFound`.
///
/// Cheap to clone.
#[derive(Clone)]
pub struct Snapshot(Arc<Inner>);

struct Inner {
    table: Table,
    head: Arc<Head>,
    snapshot: SnapshotRef,
    schema: TableSchema,
    lists: Vec<ListRef>,
}

impl Table {
    /// Opens a table at a snapshot. One round trip.
    pub async fn open_snapshot(
        pool: Arc<dyn Pool>,
        name: &str,
        at: SnapshotSelector,
        environment: Environment,
    ) -> Result<Snapshot> {
        let (table, head) = Table::open_with_head(pool, name, environment).await?;
        table.snapshot_of(head, at)
    }

    /// Opens a snapshot. One round trip.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped or the snapshot was removed, `Corrupt`.
    pub async fn snapshot(&self, at: SnapshotSelector) -> Result<Snapshot> {
        let head = self.head().await?;
        self.snapshot_of(head, at)
    }

    fn snapshot_of(&self, head: Head, at: SnapshotSelector) -> Result<Snapshot> {
        let head = Arc::new(head);
        let found = match at {
            SnapshotSelector::Current => head.snapshots.last(),
            SnapshotSelector::Id(id) => head.snapshots.iter().find(|snapshot| snapshot.id == id),
            SnapshotSelector::TimeMs(time_ms) => {
                head.snapshots.iter().rev().find(|snapshot| snapshot.time_ms <= time_ms)
            }
            SnapshotSelector::Tag(name) => {
                let id = head.snapshot_with_tag(&name).map_err(|error| self.heads.add_context(error))?;
                head.snapshots.iter().find(|snapshot| snapshot.id == id)
            }
        };
        let Some(found) = found else {
            let id = |snapshot: Option<&SnapshotRef>| snapshot.map_or(0, |snapshot| snapshot.id);
            let message = "the table has no such snapshot; it may have been vacuumed";
            return Err(self.heads.add_context(
                Error::not_found(message)
                    .with("oldest", id(head.snapshots.first()))
                    .with("newest", id(head.snapshots.last())),
            ));
        };
        Snapshot::new(self, &head, found)
    }

    /// The data objects of one file list with the statistics of these columns, as
    /// [`Snapshot::files`]. The columns' schema must not be older than the list.
    ///
    /// # Errors
    /// `NotFound` if the list's snapshots were vacuumed, `Corrupt`; the stream fails in the same
    /// ways.
    pub async fn list_files(
        &self,
        list: ListRef,
        columns: &[Column],
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let named = (self.id, self.heads.address());
        read_list(Arc::clone(self.pool()), named, list, columns).await
    }

    /// The existing snapshots, oldest first.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped, `Corrupt`.
    pub async fn history(&self) -> Result<Vec<Snapshot>> {
        let head = Arc::new(self.head().await?);
        head.snapshots.iter().map(|snapshot| Snapshot::new(self, &head, snapshot)).collect()
    }
}

impl Snapshot {
    pub(crate) fn new(table: &Table, head: &Arc<Head>, snapshot: &SnapshotRef) -> Result<Snapshot> {
        let schema = head.schema(snapshot.schema).cloned();
        let schema = schema.ok_or_else(|| Error::internal("a snapshot has no schema"))?;
        let (lists, snapshot) = (head.lists_of(snapshot), snapshot.clone());
        Ok(Snapshot(Arc::new(Inner {
            table: table.clone(),
            head: Arc::clone(head),
            snapshot,
            schema,
            lists,
        })))
    }

    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// The layout of new data objects.
    pub fn layout(&self) -> &Layout {
        &self.0.head.layout
    }

    pub fn partitioning(&self) -> &Partitioning {
        &self.0.head.partitioning
    }

    /// Whether queries record their access, see [`Table::record_access`].
    pub fn records_access(&self) -> bool {
        self.0.head.records_access
    }

    /// The columns by which the rows of new data objects are sorted.
    pub fn sort(&self) -> &[u32] {
        &self.0.head.layout.sort
    }

    /// The table's indexes whose columns exist in this snapshot. A data object may lack the pages
    /// of any index.
    pub fn indexes(&self) -> impl Iterator<Item = &Index> {
        let has_columns = |index: &&Index| check_index(index, &self.0.schema).is_ok();
        self.0.head.indexes.iter().filter(has_columns)
    }

    /// The snapshot's id; ids count up from 1.
    pub fn id(&self) -> u64 {
        self.0.snapshot.id
    }

    /// The commit time, in milliseconds since 1970 (UTC).
    pub fn time_ms(&self) -> u64 {
        self.0.snapshot.time_ms
    }

    pub fn operation(&self) -> Operation {
        self.0.snapshot.operation
    }

    pub fn schema(&self) -> &TableSchema {
        &self.0.schema
    }

    /// The schema with which a data object was written, see [`FileEntry::schema`].
    pub fn schema_of(&self, id: u32) -> Result<&TableSchema> {
        let damaged = || Error::corrupt("the head lacks the schema of an object").with("schema", id);
        self.0.head.schema(id).ok_or_else(|| self.0.table.heads.add_context(damaged()))
    }

    pub fn lists(&self) -> &[ListRef] {
        &self.0.lists
    }

    /// The exact number of rows.
    pub fn rows(&self) -> u64 {
        self.0.lists.iter().fold(0, |sum, list| sum.saturating_add(list.rows))
    }

    pub fn objects(&self) -> u64 {
        self.0.lists.iter().fold(0, |sum, list| sum.saturating_add(list.objects))
    }

    /// The total size of the data objects in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.0.lists.iter().fold(0, |sum, list| sum.saturating_add(list.data_bytes))
    }

    /// The data objects with the statistics of these columns, as batches of
    /// [`list_schema`](crate::list_schema). Reads only the requested columns of the lists, one row
    /// group of one list at a time.
    ///
    /// # Errors
    /// `InvalidArgument` for a missing column; in the stream: `NotFound` if the snapshot was
    /// vacuumed, `Corrupt`.
    pub fn files(&self, columns: &[&str]) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        self.files_with(columns, &[])
    }

    /// The data objects as [`files`](Snapshot::files), also with the distributions of the values of
    /// some columns: a column `distribution_F` of encoded
    /// [`Distribution`](benthic_index::Distribution)s for each column number F, null if unknown.
    ///
    /// # Errors
    /// As [`files`](Snapshot::files).
    pub fn files_with(
        &self,
        columns: &[&str],
        distributions: &[&str],
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let named = |names: &[&str]| -> Result<Vec<Column>> {
            let columns = names.iter().map(|name| self.0.schema.by_name(name).cloned());
            columns.collect::<Result<_>>().map_err(|error| self.0.table.heads.add_context(error))
        };
        let batches = self.batches_of_lists(named(columns)?, named(distributions)?);
        Ok(batches.map_ok(|(_, batch)| batch).boxed())
    }

    /// The data objects without statistics.
    pub fn entries(&self) -> BoxStream<'static, Result<FileEntry>> {
        let named = self.clone();
        let entries = move |(list, batch): (TableObject, RecordBatch)| match FileEntry::from_batch(&batch) {
            Ok(entries) => futures::stream::iter(entries.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => {
                futures::stream::iter(vec![Err(named.0.table.heads.add_context(error).with("object", list))])
            }
        };
        self.batches_of_lists(Vec::new(), Vec::new()).map_ok(entries).try_flatten().boxed()
    }

    /// The batches of all lists, each with its list.
    fn batches_of_lists(
        &self,
        columns: Vec<Column>,
        distributions: Vec<Column>,
    ) -> BoxStream<'static, Result<(TableObject, RecordBatch)>> {
        let (snapshot, columns) = (self.clone(), Arc::new((columns, distributions)));
        let open = move |list: ListRef| {
            let (snapshot, columns) = (snapshot.clone(), Arc::clone(&columns));
            async move {
                let table = (snapshot.0.table.id, snapshot.0.table.heads.address());
                let (pool, (columns, distributions)) = (snapshot.0.table.pool(), &*columns);
                match read_list_with(Arc::clone(pool), table, list, columns, distributions).await {
                    Ok(batches) => Ok(snapshot
                        .explain_errors(batches, list.object)
                        .map_ok(move |batch| (list.object, batch))),
                    Err(error) => Err(snapshot.explain(error, list.object).await),
                }
            }
        };
        futures::stream::iter(self.0.lists.clone()).then(open).try_flatten().boxed()
    }

    /// A reader of a data object, without its companions.
    pub fn reader(&self, entry: &FileEntry) -> ObjectReader {
        self.reader_of(entry.parts().take(1).collect())
    }

    fn reader_of(&self, parts: Vec<ObjectPart>) -> ObjectReader {
        ObjectReader::new(Arc::clone(self.0.table.pool()), self.0.table.id, parts)
    }

    /// The number of data objects with column groups.
    pub fn grouped_objects(&self) -> u64 {
        self.0.lists.iter().fold(0, |sum, list| sum.saturating_add(list.grouped))
    }

    /// All rows that a data object stores, in their order and deleted ones included. Otherwise as
    /// [`Snapshot::read`].
    pub(crate) async fn read_stored(
        &self,
        entry: &FileEntry,
        wanted: &TableSchema,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        self.read(&FileEntry { deleted: None, ..entry.clone() }, wanted).await
    }

    /// The rows of a data object that are not deleted, in stored order, with the columns of
    /// `wanted`: the snapshot's schema, or a [projection](TableSchema::project) of it. Reads only
    /// those columns.
    ///
    /// # Errors
    /// `NotFound` if the snapshot was vacuumed or the table dropped, `Corrupt` if the object is
    /// lost or damaged; the stream fails in the same ways.
    pub async fn read(
        &self,
        entry: &FileEntry,
        wanted: &TableSchema,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let file = self.schema_of(entry.schema).map_err(|error| error.with("object", entry.object))?;
        let (parts, file) = entry
            .parts_with(file, |column| wanted.by_id(column.id).is_some())
            .map_err(|error| self.0.table.heads.add_context(error))?;
        // Use the schema of the head; the schema stored in the object may be damaged.
        let options =
            ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_schema(Arc::clone(file.arrow()));
        let places =
            file.columns().iter().enumerate().filter(|(_, column)| wanted.by_id(column.id).is_some());
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let mask = |schema: &SchemaDescriptor| ProjectionMask::roots(schema, places);
        let named = (self.0.table.heads.address(), entry.object);
        let live = entry.live();
        match object::batches(self.reader_of(parts), options, mask, live.as_ref(), BATCH_ROWS, named).await {
            Ok(batches) => {
                let (named, wanted) = (self.clone(), wanted.clone());
                let adapted = batches.and_then(move |batch| {
                    std::future::ready(
                        adapt(&batch, &file, &wanted).map_err(|error| named.0.table.heads.add_context(error)),
                    )
                });
                Ok(self.explain_errors(adapted.boxed(), entry.object))
            }
            Err(error) => Err(self.explain(error, entry.object).await),
        }
    }

    fn explain_errors(
        &self,
        batches: BoxStream<'static, Result<RecordBatch>>,
        object: TableObject,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let snapshot = self.clone();
        batches
            .then(move |batch| {
                let snapshot = snapshot.clone();
                async move {
                    match batch {
                        Ok(batch) => Ok(batch),
                        Err(error) => Err(snapshot.explain(error, object).await),
                    }
                }
            })
            .boxed()
    }

    /// Finds out why an object of this snapshot is missing: a vacuum removed the snapshot, or the
    /// object is lost.
    ///
    /// Code that reads the snapshot's objects without [`Snapshot::read`] passes its errors through
    /// this function.
    pub async fn explain(&self, error: Error, object: TableObject) -> Error {
        let error = self.0.table.heads.add_context(error).with("object", object);
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let kept = match self.0.table.live().await {
            Ok((head, _)) => head.snapshots.iter().any(|snapshot| snapshot.id == self.0.snapshot.id),
            Err(gone) => return gone.with("object", object),
        };
        let because = |kind, message: &str| {
            let new = Error::new(kind, message).with("snapshot", self.0.snapshot.id).with("object", object);
            self.0.table.heads.add_context(new).with_source(error)
        };
        match kept {
            true => because(ErrorKind::Corrupt, "an object of the table is lost"),
            false => because(ErrorKind::NotFound, "the snapshot was vacuumed; read a newer one"),
        }
    }
}
