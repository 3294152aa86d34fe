//! Commits of clients that write Iceberg, as snapshots of tables.
//!
//! A client uploads Parquet files and manifests, and then asks the catalog to make a manifest list
//! the current one. The commit compares it with the current snapshot: some of its data files are
//! gone, and some are new. The rows of the new files are written into data objects of the table,
//! with its partitioning, order and statistics. Data files that are gone lose all their rows, and
//! new position delete files name single rows to delete. So one snapshot of Benthic has the same
//! rows as the client's.

mod deletes;

use crate::iceberg::avro::{self, Record};
use crate::iceberg::keys::{Content, File, Folder, Key};
use crate::iceberg::nested::NestedIds;
use crate::iceberg::view::TableView;
use crate::staging::{StagedFile, Staging};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use benthic_core::{Error, Result};
use benthic_table::{FIELD_ID_KEY, FileEntry, Operation, Rows, Snapshot, TableSchema, WriterOptions};
use deletes::Deletes;
use futures::future::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Limit of a manifest and of a manifest list, compressed.
const MANIFEST_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Limit of the manifests of a commit, and of its new files.
const FILES_MAX: usize = 100_000;
/// Limit of the older files that new manifests of a commit list.
const EXISTING_MAX: usize = 1_000_000;
/// Memory for rows that wait to be written.
const BUFFER_BYTES: usize = 128 * 1024 * 1024;
const BATCH_ROWS: usize = 8_192;
/// The kind of a file, in the field `content` of a manifest entry.
const CONTENT_DATA: i64 = 0;
const CONTENT_POSITION_DELETES: i64 = 1;

/// Makes a manifest list the current snapshot of a table. With `only_appends`, the client says that
/// the new rows do not depend on those of the table.
///
/// # Errors
/// `InvalidArgument` for files that are missing, damaged or of another schema; `Unsupported` for a
/// commit that Benthic cannot express; `Conflict` if another change of the table came first.
pub async fn commit(
    view: &TableView,
    staging: &Staging,
    manifest_list: &str,
    only_appends: bool,
) -> Result<Snapshot> {
    let (files, mut uploads) = read_manifests(view, staging, manifest_list).await?;
    let mut deletes = Deletes::default();
    for added in &files.deletes {
        let file = staging.file(&view.folder, &added.path).await?;
        uploads.push(file.clone());
        added.check(deletes.read(file, &added.path, &view.folder).await?)?;
    }
    let deleted = deleted_rows(view, &files, deletes).await?;
    let operation = match (deleted.is_empty(), files.added.is_empty()) {
        (true, _) if only_appends => Operation::Append,
        (false, true) => Operation::Delete,
        // The client may have added rows because others were missing. So no commit of another
        // client may come in between.
        _ => Operation::Merge,
    };
    let snapshot = view.snapshot().await?;
    let options = WriterOptions { buffer_bytes_max: BUFFER_BYTES, ..WriterOptions::default() };
    let mut writer = match operation {
        Operation::Append => snapshot.table().writer(options).await?,
        operation => snapshot.change(operation, options).await?,
    };
    let written: Result<()> = async {
        for (entry, rows) in &deleted {
            writer.delete(entry, rows)?;
        }
        for added in &files.added {
            let file = staging.file(&view.folder, &added.path).await?;
            uploads.push(file.clone());
            let mut rows = 0_u64;
            let mut batches = rows_of(file, &added.path, snapshot.schema()).await?;
            while let Some(batch) = batches.next().await.transpose()? {
                rows += batch.num_rows() as u64;
                writer.write(&batch).await?;
            }
            added.check(rows)?;
        }
        Ok(())
    }
    .await;
    let committed = match written {
        Ok(()) => writer.finish().await,
        Err(error) => {
            // A vacuum would remove the writer's objects later.
            if let Err(error) = writer.abort().await {
                tracing::warn!(%error, "the objects of a refused commit are left");
            }
            Err(error)
        }
    };
    let committed = committed?;
    staging.remove(uploads).await;
    Ok(committed)
}

/// The contents of a client's manifest list.
#[derive(Default)]
struct Listed {
    /// The table's own manifests that are still listed.
    kept: HashSet<File>,
    /// Data files and delete files of the current snapshot that new manifests list.
    existing: HashSet<String>,
    added: Vec<Added>,
    /// New position delete files.
    deletes: Vec<Added>,
}

struct Added {
    path: String,
    rows: u64,
}

impl Added {
    /// Refuses a file with another number of rows than its manifest says.
    fn check(&self, rows: u64) -> Result<()> {
        if rows == self.rows {
            return Ok(());
        }
        Err(invalid("a file has another number of rows than its manifest says").with("file", &self.path))
    }
}

async fn read_manifests(
    view: &TableView,
    staging: &Staging,
    manifest_list: &str,
) -> Result<(Listed, Vec<StagedFile>)> {
    let mut listed = Listed::default();
    let file = staging.file(&view.folder, manifest_list).await?;
    let mut manifests = Vec::new();
    avro::read(&file.bytes(MANIFEST_BYTES_MAX).await?, |manifest| {
        manifests.push(manifest.text("manifest_path")?.to_owned());
        if manifests.len() <= FILES_MAX { Ok(()) } else { Err(too_many_files()) }
    })?;
    let mut paths = HashSet::new();
    if let Some(twice) = manifests.iter().find(|path| !paths.insert(path.as_str())) {
        return Err(invalid("the commit lists a manifest twice").with("file", twice));
    }
    let mut uploads = vec![file];
    for path in &manifests {
        if let Some(own) = own_file(&view.folder, path) {
            listed.kept.insert(own);
            continue;
        }
        let file = staging.file(&view.folder, path).await?;
        avro::read(&file.bytes(MANIFEST_BYTES_MAX).await?, |entry| listed.add(&entry))?;
        uploads.push(file);
    }
    let mut paths = HashSet::new();
    match listed.added.iter().chain(&listed.deletes).find(|added| !paths.insert(added.path.as_str())) {
        Some(twice) => Err(invalid("the commit adds a file twice").with("file", &twice.path)),
        None => Ok((listed, uploads)),
    }
}

impl Listed {
    fn add(&mut self, entry: &Record) -> Result<()> {
        let data = entry.record("data_file")?;
        let path = data.text("file_path")?.to_owned();
        match entry.number("status")? {
            Some(0) if Key::of_uri(&path).is_some() => {
                self.existing.insert(path);
            }
            // A client that adds two snapshots at once lists the files of the first as existing.
            Some(0 | 1) => {
                if !data.text("file_format")?.eq_ignore_ascii_case("parquet") {
                    let message = "the table takes Parquet files only; set write.format.default to parquet";
                    return Err(Error::unsupported(message).with("file", path));
                }
                let rows = data.number("record_count")?.and_then(|rows| u64::try_from(rows).ok());
                let rows = rows.ok_or_else(|| invalid("a manifest does not say how many rows a file has"))?;
                match data.number("content")?.unwrap_or(CONTENT_DATA) {
                    CONTENT_DATA => self.added.push(Added { path, rows }),
                    CONTENT_POSITION_DELETES => self.deletes.push(Added { path, rows }),
                    _ => {
                        let message =
                            "the table takes no equality deletes; use position deletes or copy-on-write";
                        return Err(Error::unsupported(message).with("file", path));
                    }
                }
            }
            // The file is gone: no other manifest lists it.
            Some(2) => {}
            _ => return Err(invalid("a manifest has an entry with an unknown status")),
        }
        match self.added.len() + self.deletes.len() > FILES_MAX || self.existing.len() > EXISTING_MAX {
            true => Err(too_many_files()),
            false => Ok(()),
        }
    }
}

/// The rows of the table's data objects that a commit deletes.
async fn deleted_rows(
    view: &TableView,
    files: &Listed,
    mut deletes: Deletes,
) -> Result<Vec<(FileEntry, Rows)>> {
    let (snapshot, _) = view.head.current()?;
    let manifest = |list: &_, content| File::Manifest { list: *list, schema: snapshot.schema, content };
    let manifests = snapshot
        .lists
        .iter()
        .flat_map(|list| [Content::Data, Content::Deletes].map(|content| manifest(list, content)));
    let manifests: HashSet<File> = manifests.collect();
    if let Some(other) = files.kept.iter().find(|kept| !manifests.contains(kept)) {
        let message =
            "the commit lists a manifest of another snapshot; a rollback is `benthic table rollback`";
        return Err(Error::unsupported(message).with("manifest", other));
    }
    let mut deleted = Vec::new();
    let mut existing: HashSet<&str> = files.existing.iter().map(String::as_str).collect();
    for list in &snapshot.lists {
        let is_kept = files.kept.contains(&manifest(list, Content::Data));
        let are_deletes_kept = files.kept.contains(&manifest(list, Content::Deletes));
        let mut batches = view.list_files(*list).await?;
        while let Some(batch) = batches.next().await.transpose()? {
            for entry in FileEntry::from_batch(&batch)? {
                let data = view.data_file(&entry);
                let path = view.key(data).uri();
                let stays = existing.remove(path.as_str()) || is_kept;
                let rows = deletes.take(data, &entry)?;
                if let Some(before) = &entry.deleted {
                    let own = view.key(File::Deletes { list: *list, object: entry.object }).uri();
                    let are_kept = existing.remove(own.as_str()) || are_deletes_kept;
                    // A client may also replace a delete file by one with more rows.
                    let are_again = || rows.as_ref().is_some_and(|rows| before.without(rows).is_empty());
                    if stays && !are_kept && !are_again() {
                        let message = "the commit would bring deleted rows back; a rollback is `benthic table rollback`";
                        return Err(Error::unsupported(message).with("file", path));
                    }
                }
                let rows = if stays { rows } else { Some(entry.undeleted_rows()?) };
                if let Some(rows) = rows {
                    deleted.push((entry, rows));
                }
            }
        }
    }
    if let Some(unknown) = deletes.left() {
        let message = "a delete file names a data file that the current snapshot does not have";
        return Err(invalid(message).with("data_file", unknown));
    }
    match existing.into_iter().next() {
        Some(unknown) => {
            Err(invalid("the commit keeps a file that the table does not have").with("file", unknown))
        }
        None => Ok(deleted),
    }
}

fn too_many_files() -> Error {
    let message = "the commit has too many files; commit them in several steps";
    Error::limit_exceeded(message).with("new_max", FILES_MAX).with("older_max", EXISTING_MAX)
}

fn own_file(folder: &Folder, uri: &str) -> Option<File> {
    Key::of_uri(uri).filter(|key| key.folder == *folder).map(|key| key.file)
}

/// The rows of an uploaded file, with the columns of a schema. The Parquet reader trusts the
/// numbers in a file, and wrong ones make it panic.
async fn rows_of(
    file: StagedFile,
    path: &str,
    schema: &TableSchema,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let open = async {
        let builder =
            ParquetRecordBatchStreamBuilder::new_with_options(file, options).await.map_err(unreadable)?;
        let columns = columns(builder.schema(), schema)?;
        let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
        Ok((batches, columns))
    };
    let opened = AssertUnwindSafe(open).catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
    let (batches, columns) = opened.map_err(|error| error.with("file", path))?;
    let path = path.to_owned();
    let batches = AssertUnwindSafe(batches).catch_unwind().map(move |batch| {
        let batch = batch.map_or_else(|_| Err(panicked()), |batch| batch.map_err(unreadable));
        // A null in a list panics if the table allows none.
        let fitted = |batch: RecordBatch| {
            catch_unwind(AssertUnwindSafe(|| with_columns(&batch, &columns)))
                .unwrap_or_else(|_| Err(panicked()))
        };
        batch.and_then(fitted).map_err(|error| error.with("file", &path))
    });
    Ok(batches.boxed())
}

fn unreadable(error: ParquetError) -> Error {
    invalid("a data file cannot be read").with_source(error)
}

fn panicked() -> Error {
    invalid("a data file is damaged: the Parquet reader panicked")
}

/// The table's column for each column of a file, by their ids.
fn columns(given: &Schema, schema: &TableSchema) -> Result<Vec<Field>> {
    let column = |field: &Arc<Field>| {
        let id = field.metadata().get(FIELD_ID_KEY).and_then(|id| id.parse().ok());
        let column = id.and_then(|id| schema.by_id(id)).ok_or_else(|| {
            invalid("a data file has a column without the id of a column of the table")
                .with("column", field.name())
        })?;
        if !has_fields(field.data_type(), &column.data_type, &mut NestedIds::of(column.id))? {
            let message = "a data file has other fields within a column than the table";
            return Err(invalid(message).with("column", &column.name));
        }
        Ok(Field::new(&column.name, column.data_type.clone(), true))
    };
    given.fields().iter().map(column).collect()
}

/// Whether a type of a file has the fields of a column, with their ids and in their order.
fn has_fields(given: &DataType, wanted: &DataType, ids: &mut NestedIds) -> Result<bool> {
    let mut are_same = |given: &[FieldRef], wanted: &[FieldRef]| {
        if given.len() != wanted.len() {
            return Ok(false);
        }
        for (given, wanted) in given.iter().zip(wanted) {
            let id = ids.draw()?.to_string();
            if given.metadata().get(FIELD_ID_KEY) != Some(&id)
                || !has_fields(given.data_type(), wanted.data_type(), ids)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    };
    match (given, wanted) {
        (DataType::List(given), DataType::List(wanted) | DataType::FixedSizeList(wanted, _)) => {
            are_same(std::slice::from_ref(given), std::slice::from_ref(wanted))
        }
        (DataType::Struct(given), DataType::Struct(wanted)) => are_same(given, wanted),
        (DataType::Map(given, _), DataType::Map(wanted, _)) => {
            has_fields(given.data_type(), wanted.data_type(), ids)
        }
        (given, wanted) => Ok(!given.is_nested() && !wanted.is_nested()),
    }
}

fn with_columns(batch: &RecordBatch, columns: &[Field]) -> Result<RecordBatch> {
    let arrays = columns.iter().zip(batch.columns()).map(|(column, array)| cast(array, column));
    let schema = Arc::new(Schema::new(columns.to_vec()));
    RecordBatch::try_new(schema, arrays.collect::<Result<Vec<_>>>()?)
        .map_err(|error| invalid("a data file does not fit the table").with_source(error))
}

/// Casts a column if all its values stay the same.
fn cast(array: &ArrayRef, column: &Field) -> Result<ArrayRef> {
    let refused = || {
        invalid("a data file has values that the table's column cannot hold")
            .with("column", column.name())
            .with("type", column.data_type())
    };
    let to = |array: &ArrayRef, data_type: &DataType| {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, data_type, &options).map_err(|error| refused().with_source(error))
    };
    let cast = to(array, column.data_type())?;
    let loses = matches!(
        (array.data_type(), column.data_type()),
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(TimeUnit::Millisecond, _))
    );
    if loses && to(&cast, array.data_type())?.as_ref() != array.as_ref() {
        return Err(refused());
    }
    Ok(cast)
}

fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
}
