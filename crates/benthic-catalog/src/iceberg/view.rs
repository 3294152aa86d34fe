//! The files of a table's folder.

use super::keys::{Content, File, Folder, FormatVersion, Key};
use super::manifest::{DeleteFile, ListedManifest, Manifest, Statistics, Summary, manifest_list};
use super::metadata::{PartitionField, has_groups, table_metadata};
use super::nested::{added_bytes, last_nested_id, with_nested_ids};
use super::puffin::vector_file;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::{Environment, Error, ObjectId, Pool, Result, Store};
use benthic_table::head::{Head, ListRef};
use benthic_table::ids::TableObject;
use benthic_table::{FIELD_ID_KEY, FileEntry, Snapshot, SnapshotSelector, Table, TableSchema};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Memory for computed files, which other requests are likely to need again.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;
const CACHED_FILES: usize = 4_096;
/// Files that are computed at once. Each can take some hundred MiB.
const COMPUTED_AT_ONCE: usize = 2;
/// Rows of a delete file that are encoded at a time.
const BATCH_ROWS: usize = 64 * 1024;

/// Computes the files of a store's tables.
pub struct Views {
    store: Arc<dyn Store>,
    computed: Cache<Key, Computed, Size>,
    slots: Semaphore,
}

#[derive(Clone)]
struct Computed {
    bytes: Bytes,
    summary: Summary,
    /// The bytes at the end of the stored object in whose place these are shown.
    replaced_bytes: u64,
}

#[derive(Clone)]
struct Size;

impl Weighter<Key, Computed> for Size {
    fn weight(&self, _: &Key, computed: &Computed) -> u64 {
        // The constant covers the key.
        computed.bytes.len() as u64 + 512
    }
}

/// Where a file's bytes are.
#[derive(Clone)]
pub enum Located {
    Computed(Bytes),
    /// The first `stored_bytes` of an object, and then `tail`.
    Stored {
        pool: Arc<dyn Pool>,
        object: ObjectId,
        stored_bytes: u64,
        tail: Bytes,
        modified_ms: u64,
    },
}

/// The first read of a data object's end. Most footers are smaller.
const TAIL_BYTES: u64 = 64 * 1024;
/// The length of a footer and the magic number, which end a Parquet file.
const END_BYTES: usize = 8;

/// A table, with its head at one time.
pub struct TableView {
    pub folder: Folder,
    pub head: Head,
    table: Table,
    partition: Option<PartitionField>,
    /// The schemas with nested columns.
    nested: HashSet<u32>,
}

impl TableView {
    /// Opens a table.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`.
    pub async fn open(store: &dyn Store, pool: &str, name: &str) -> Result<TableView> {
        let pool = store.open_pool(pool).await?;
        let (table, head) = Table::open_with_head(Arc::clone(&pool), name, Environment::default()).await?;
        let folder = Folder { pool: pool.name().to_owned(), table: name.to_owned(), id: head.id };
        let partition = PartitionField::of(&head);
        let nested = head.schemas.iter().filter(|schema| last_nested_id(schema) > 0);
        let nested = nested.map(|schema| schema.id).collect();
        Ok(TableView { folder, head, table, partition, nested })
    }

    /// The table's metadata with its newest snapshot.
    ///
    /// # Errors
    /// `Unsupported` if Iceberg lacks a type of a column, and if the table has column groups.
    pub fn metadata(&self, format: FormatVersion) -> Result<(Key, Value)> {
        // A commit of a client would write new objects with groups.
        if self.head.has_groups() {
            return Err(has_groups().with("table", self.table.address()));
        }
        let snapshot = self.head.current()?.0.id;
        let metadata = table_metadata(&self.folder, &self.head, snapshot, format)?;
        Ok((self.key(File::Metadata { snapshot, format }), metadata))
    }

    pub fn key(&self, file: File) -> Key {
        Key { folder: self.folder.clone(), file }
    }

    /// The file that shows a data object.
    pub fn data_file(&self, entry: &FileEntry) -> File {
        match self.nested.contains(&entry.schema) {
            true => File::Nested(entry.object),
            false => File::Data(entry.object),
        }
    }

    /// The current snapshot of the head.
    ///
    /// # Errors
    /// `NotFound` if it was vacuumed or the table dropped.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.table.snapshot(SnapshotSelector::Id(self.head.current()?.0.id)).await
    }

    /// The data objects of a file list, as [`Table::list_files`] without statistics.
    ///
    /// # Errors
    /// As [`Table::list_files`].
    pub async fn list_files(&self, list: TableObject) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        self.table.list_files(self.list(list)?, &[]).await
    }

    /// The table, whose head may be newer by now.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The largest id of a partition field.
    pub fn last_partition_id(&self) -> u32 {
        PartitionField::last_id(self.partition.as_ref())
    }

    fn list(&self, object: TableObject) -> Result<ListRef> {
        self.head.lists.get(&object).copied().ok_or_else(no_such_file)
    }

    fn schema(&self, id: u32) -> Result<&TableSchema> {
        self.head.schema(id).ok_or_else(no_such_file)
    }

    /// All files of the table in format version 2, in the byte order of their keys. Those of
    /// snapshots with column groups are left out.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped meanwhile, `Corrupt`.
    pub async fn files(&self) -> Result<Vec<File>> {
        let mut files = Vec::new();
        if !self.head.is_grouped(self.head.current()?.0) {
            files.push(File::VersionHint);
        }
        for snapshot in self.head.snapshots.iter().filter(|snapshot| !self.head.is_grouped(snapshot)) {
            let format = FormatVersion::V2;
            files.push(File::Metadata { snapshot: snapshot.id, format });
            files.push(File::ManifestList { snapshot: snapshot.id, format });
            for list in &snapshot.lists {
                for content in [Content::Data, Content::Deletes] {
                    files.push(File::Manifest { list: *list, schema: snapshot.schema, content });
                }
            }
        }
        for list in self.head.lists.values().filter(|list| list.grouped == 0) {
            let mut batches = self.list_files(list.object).await?;
            while let Some(batch) = batches.next().await.transpose()? {
                for entry in FileEntry::from_batch(&batch)? {
                    files.push(self.data_file(&entry));
                    if entry.deleted.is_some() {
                        files.push(File::Deletes { list: list.object, object: entry.object });
                    }
                }
            }
        }
        files.sort_by_cached_key(File::to_string);
        files.dedup();
        Ok(files)
    }
}

fn no_such_file() -> Error {
    Error::not_found("the table has no such file")
}

impl Views {
    pub fn new(store: Arc<dyn Store>) -> Views {
        let computed = Cache::with_weighter(CACHED_FILES, CACHE_BYTES, Size);
        Views { store, computed, slots: Semaphore::new(COMPUTED_AT_ONCE) }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Finds a file.
    ///
    /// # Errors
    /// `NotFound` if it does not exist or belongs to a vacuumed snapshot, `Unsupported` if Iceberg
    /// lacks a type of a column, `Corrupt`.
    pub async fn locate(&self, key: &Key) -> Result<Located> {
        if let File::Data(object) | File::Nested(object) = key.file {
            let pool = self.store.open_pool(&key.folder.pool).await?;
            let object = object.object_id(key.folder.id)?;
            let (stat, _) = pool.stat(&object).await?;
            let modified_ms = stat.modified_unix_ns / 1_000_000;
            let (mut stored_bytes, mut tail) = (stat.size_bytes, Bytes::new());
            if let File::Nested(_) = key.file {
                let shown = self.tail(key, &pool, &object, stat.size_bytes).await?;
                (stored_bytes, tail) = (stored_bytes.saturating_sub(shown.replaced_bytes), shown.bytes);
            }
            return Ok(Located::Stored { pool, object, stored_bytes, tail, modified_ms });
        }
        let view = TableView::open(&*self.store, &key.folder.pool, &key.folder.table).await?;
        if view.folder != key.folder {
            return Err(no_such_file());
        }
        self.compute(&view, key.file).await.map(Located::Computed)
    }

    /// The end of a data object with nested columns, as it is shown.
    async fn tail(
        &self,
        key: &Key,
        pool: &Arc<dyn Pool>,
        object: &ObjectId,
        size_bytes: u64,
    ) -> Result<Computed> {
        if let Some(computed) = self.computed.get(key) {
            return Ok(computed);
        }
        let damaged = || Error::corrupt("a data object has no footer").with("object", object);
        let start = size_bytes.saturating_sub(TAIL_BYTES);
        let mut read = pool.read_range(object, start, size_bytes - start).await?;
        let footer_bytes = read.len().checked_sub(END_BYTES).and_then(|at| read[at..].first_chunk::<4>());
        let footer_bytes = u32::from_le_bytes(*footer_bytes.ok_or_else(damaged)?) as usize;
        if read.len() < footer_bytes + END_BYTES {
            let start = size_bytes.saturating_sub((footer_bytes + END_BYTES) as u64);
            read = pool.read_range(object, start, size_bytes - start).await?;
        }
        let start = read.len().checked_sub(footer_bytes + END_BYTES).ok_or_else(damaged)?;
        let footer = &read[start..read.len() - END_BYTES];
        let new = with_nested_ids(footer).map_err(|error| error.with("object", object))?;
        let mut bytes = new.ok_or_else(no_such_file)?;
        bytes.extend(u32::try_from(bytes.len()).map_err(|_| damaged())?.to_le_bytes());
        bytes.extend(b"PAR1");
        let replaced_bytes = (footer_bytes + END_BYTES) as u64;
        let computed = Computed { bytes: bytes.into(), summary: Summary::default(), replaced_bytes };
        self.computed.insert(key.clone(), computed.clone());
        Ok(computed)
    }

    /// The bytes of a file that is not stored.
    ///
    /// # Errors
    /// As [`Views::locate`].
    pub async fn compute(&self, view: &TableView, file: File) -> Result<Bytes> {
        Ok(match file {
            File::VersionHint => view.head.current()?.0.id.to_string().into(),
            File::Metadata { snapshot, format } => {
                table_metadata(&view.folder, &view.head, snapshot, format)?.to_string().into()
            }
            File::ManifestList { snapshot, format } => self.manifest_list(view, snapshot, format).await?,
            File::Manifest { list, schema, content } => {
                let format = match content {
                    Content::Data | Content::Deletes => FormatVersion::V2,
                    Content::Vectors => FormatVersion::V3,
                };
                let [data, deletes] = self.manifests(view, list, schema, format).await?;
                if content == Content::Data { data.bytes } else { deletes.bytes }
            }
            File::Deletes { list, object } | File::Vector { list, object } => {
                self.deletes(view, view.key(file), list, object).await?
            }
            File::Data(_) | File::Nested(_) => {
                return Err(Error::internal("a data object is not computed"));
            }
        })
    }

    async fn manifest_list(&self, view: &TableView, id: u64, format: FormatVersion) -> Result<Bytes> {
        let place = view.head.snapshots.iter().position(|snapshot| snapshot.id == id);
        let place = place.ok_or_else(no_such_file)?;
        let snapshot = &view.head.snapshots[place];
        if view.head.is_grouped(snapshot) {
            return Err(has_groups());
        }
        let mut before = view.head.snapshots[..place].iter().rev();
        let parent = before.find(|before| !view.head.is_grouped(before)).map(|before| before.id);
        let mut listed = Vec::new();
        let mut since = BTreeMap::new();
        for shown in view.head.snapshots[..=place].iter().filter(|shown| !view.head.is_grouped(shown)) {
            for list in &shown.lists {
                since.entry(*list).or_insert(shown.id);
            }
        }
        for list in &snapshot.lists {
            let both = self.manifests(view, *list, snapshot.schema, format).await?;
            for (content, Computed { bytes, summary, .. }) in
                [Content::Data, format.deletes()].into_iter().zip(both)
            {
                if !summary.is_empty() {
                    let path = view.key(File::Manifest { list: *list, schema: snapshot.schema, content });
                    let len_bytes = bytes.len() as u64;
                    let since = since.get(list).copied().unwrap_or(id);
                    listed.push(ListedManifest { path, content, len_bytes, since, summary });
                }
            }
        }
        manifest_list(format, id, parent, view.partition.is_some(), &listed)
    }

    /// The manifests of a file list's data objects and of their delete files.
    async fn manifests(
        &self,
        view: &TableView,
        list: TableObject,
        schema: u32,
        format: FormatVersion,
    ) -> Result<[Computed; 2]> {
        let keys = [Content::Data, format.deletes()]
            .map(|content| view.key(File::Manifest { list, schema, content }));
        if let [Some(data), Some(deletes)] = keys.each_ref().map(|key| self.computed.get(key)) {
            return Ok([data, deletes]);
        }
        let _slot = self.slot().await?;
        let (schema, partition) = (view.schema(schema)?, view.partition.as_ref());
        let mut data = Manifest::new(schema, partition, Content::Data, list.writer)?;
        let mut deletes = Manifest::new(schema, partition, format.deletes(), list.writer)?;
        let mut batches = view.table.list_files(view.list(list)?, schema.columns()).await?;
        let mut added = HashMap::new();
        while let Some(batch) = batches.next().await.transpose()? {
            let statistics = Statistics::new(&batch, schema);
            for (row, entry) in FileEntry::from_batch(&batch)?.iter().enumerate() {
                let path = view.key(view.data_file(entry));
                let added = match added.entry(entry.schema) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(unknown) => *unknown.insert(added_bytes(view.schema(entry.schema)?)?),
                };
                let size_bytes = entry.bytes.saturating_add(added);
                data.push_data(&path, entry, size_bytes, &statistics, row)?;
                if entry.deleted.is_some() {
                    let object = entry.object;
                    let own = view.key(match format {
                        FormatVersion::V2 => File::Deletes { list, object },
                        FormatVersion::V3 => File::Vector { list, object },
                    });
                    deletes.push_deletes(&own, entry, &delete_file(&own, &path, entry)?, &path)?;
                }
            }
        }
        let finish = |(bytes, summary)| Computed { bytes, summary, replaced_bytes: 0 };
        let made = [finish(data.finish()), finish(deletes.finish())];
        for (key, computed) in keys.into_iter().zip(&made) {
            self.computed.insert(key, computed.clone());
        }
        Ok(made)
    }

    async fn deletes(
        &self,
        view: &TableView,
        key: Key,
        list: TableObject,
        object: TableObject,
    ) -> Result<Bytes> {
        if let Some(computed) = self.computed.get(&key) {
            return Ok(computed.bytes);
        }
        let _slot = self.slot().await?;
        let mut batches = view.list_files(list).await?;
        while let Some(batch) = batches.next().await.transpose()? {
            let entries = FileEntry::from_batch(&batch)?;
            let found = entries.iter().find(|entry| entry.object == object && entry.deleted.is_some());
            if let Some(entry) = found {
                let bytes = delete_file(&key, &view.key(view.data_file(entry)), entry)?.bytes;
                let computed =
                    Computed { bytes: bytes.clone(), summary: Summary::default(), replaced_bytes: 0 };
                self.computed.insert(key, computed);
                return Ok(bytes);
            }
        }
        Err(no_such_file())
    }

    async fn slot(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let closed = |_| Error::internal("the server stops");
        self.slots.acquire().await.map_err(closed)
    }
}

/// The file `own`: the deleted rows of a data object.
fn delete_file(own: &Key, data: &Key, entry: &FileEntry) -> Result<DeleteFile> {
    let deleted = entry.deleted.as_ref().map_or(&[][..], |deleted| deleted.ranges());
    match own.file {
        File::Vector { .. } => Ok(vector_file(&data.uri(), deleted)),
        _ => Ok(DeleteFile { bytes: position_deletes(&data.uri(), deleted)?, blob: None }),
    }
}

/// Deleted rows of the data file at this URI (Iceberg specification, "Position Delete Files").
fn position_deletes(path: &str, deleted: &[Range<u32>]) -> Result<Bytes> {
    let field = |name: &str, data_type, id: u32| {
        Field::new(name, data_type, false).with_metadata([(FIELD_ID_KEY.to_owned(), id.to_string())].into())
    };
    let schema = Arc::new(Schema::new(vec![
        field("file_path", DataType::Utf8, 2_147_483_546),
        field("pos", DataType::Int64, 2_147_483_545),
    ]));
    let failed = |error: parquet::errors::ParquetError| {
        Error::internal("a delete file cannot be written").with_source(error)
    };
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer =
        ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties)).map_err(failed)?;
    let mut positions = deleted.iter().cloned().flatten().map(i64::from).peekable();
    while positions.peek().is_some() {
        let positions: Int64Array = positions.by_ref().take(BATCH_ROWS).map(Some).collect();
        let paths = StringArray::from_iter_values(std::iter::repeat_n(path, positions.len()));
        let columns: Vec<ArrayRef> = vec![Arc::new(paths), Arc::new(positions)];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
            .map_err(|error| Error::internal("a delete file cannot be written").with_source(error))?;
        writer.write(&batch).map_err(failed)?;
    }
    writer.into_inner().map(Bytes::from).map_err(failed)
}
