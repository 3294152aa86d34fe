//! The indexes of a table, and the index pages of its data objects.
//!
//! The head lists the table's indexes. A data object has the pages of each index in its omap, or
//! none: then a query reads the whole object. So adding an index first adds it to the head, after
//! which new objects are written with its pages. Then the build adds pages to the existing objects,
//! one by one and in any order; it may be interrupted and repeated. Dropping an index takes the
//! same order: first the head, then the pages.

use crate::error::arrow;
use crate::head::{Head, INDEXES_MAX, check_index};
use crate::heads::Attempts;
use crate::ids::Id;
use crate::list::FileEntry;
use crate::object::replace_entries;
use crate::schema::TableSchema;
use crate::snapshot::Snapshot;
use crate::table::Table;
use ::arrow::array::{ArrayRef, RecordBatch};
use ::arrow::compute::concat_batches;
use ::arrow::datatypes::DataType;
use benthic_core::{Error, ErrorKind, Fetch, Result, WriteOp};
use benthic_index::{Definition as Index, IndexKind, directory_key, entry_keys, pack};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Objects processed concurrently; each holds the columns of its indexes in memory.
const OBJECTS_AT_ONCE: usize = 2;
/// Objects whose entries an estimate of an index's size reads.
const SAMPLED_OBJECTS: usize = 8;

/// The result for one data object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexBuildResult {
    pub bytes: u64,
    pub built: usize,
    /// Indexes whose pages would be too large: the object stays without them, and queries read it
    /// whole.
    pub too_large: usize,
}

/// The kind of the index over these columns: a column of lists has an index of its elements.
fn kind_of(head: &Head, columns: &[u32], kind: IndexKind) -> Result<IndexKind> {
    let (_, schema) = head.current()?;
    let is_list =
        |id: &u32| schema.by_id(*id).is_some_and(|column| matches!(column.data_type, DataType::List(_)));
    Ok(match (kind, columns) {
        (IndexKind::Values, [column]) if is_list(column) => IndexKind::Elements,
        (kind, _) => kind,
    })
}

fn ids_of(head: &Head, columns: &[&str]) -> Result<Vec<u32>> {
    let (_, schema) = head.current()?;
    columns.iter().map(|name| Ok(schema.by_name(name)?.id)).collect()
}

impl Table {
    /// Adds an index over these columns, or returns the existing one. The index of a column of
    /// lists has the elements, and builds from before it then refuse the table. New data objects
    /// then get the pages of the index; [`Snapshot::build_indexes`] builds those of existing ones.
    ///
    /// # Errors
    /// `InvalidArgument` for missing columns, with a hint, and for no, too many or duplicate
    /// columns; `Unsupported` for types that cannot be indexed and for a pool without omap;
    /// `LimitExceeded` for too many indexes; `NotFound`, `Busy`.
    pub async fn add_index(&self, columns: &[&str]) -> Result<Index> {
        self.add(columns, IndexKind::Values).await
    }

    /// Adds an index over the words of a column of strings, as [`add_index`](Table::add_index).
    /// Builds from before text indexes then refuse the table.
    ///
    /// # Errors
    /// As [`add_index`](Table::add_index).
    pub async fn add_text_index(&self, column: &str) -> Result<Index> {
        self.add(&[column], IndexKind::Words).await
    }

    async fn add(&self, columns: &[&str], kind: IndexKind) -> Result<Index> {
        let mut attempts = Attempts::new(Id::draw(&self.environment)?);
        loop {
            attempts.next().await.map_err(|error| self.heads.add_context(error))?;
            let (mut head, version) = self.live().await?;
            let index =
                self.new_index(&head, columns, kind).map_err(|error| self.heads.add_context(error))?;
            if index.number < head.next_index {
                return Ok(index);
            }
            head.push_index(index.clone());
            // The removed key does not exist. It makes a pool without omap refuse the whole
            // operation, so that nothing changes.
            let op = WriteOp::new().assert_version(version).write_full(head.encode()?);
            match self.heads.write(op.omap_remove([directory_key(index.number)])).await {
                Ok(true) => return Ok(index),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    let message =
                        "the pool has no omap to store indexes; create the table in a replicated pool";
                    let error = Error::unsupported(message).with_source(error);
                    return Err(self.heads.add_context(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The index over these columns: the existing one, or a new definition.
    fn new_index(&self, head: &Head, columns: &[&str], kind: IndexKind) -> Result<Index> {
        let columns = ids_of(head, columns)?;
        let kind = kind_of(head, &columns, kind)?;
        if let Some(found) = head.indexes.iter().find(|index| index.columns == columns && index.kind == kind)
        {
            return Ok(found.clone());
        }
        let index = Index { number: head.next_index, columns, kind };
        check_index(&index, head.current()?.1)?;
        if head.indexes.len() >= INDEXES_MAX || head.next_index == u32::MAX {
            let message = "the table has too many indexes; drop one first";
            return Err(Error::limit_exceeded(message).with("indexes_max", INDEXES_MAX));
        }
        Ok(index)
    }

    /// Removes the index over these columns from the head. [`Snapshot::remove_pages`] then removes
    /// its pages, which are harmless: no other index ever gets its number.
    ///
    /// # Errors
    /// `NotFound` if the index does not exist; `InvalidArgument` for missing columns; `Busy`.
    pub async fn drop_index(&self, columns: &[&str]) -> Result<Index> {
        self.remove(columns, IndexKind::Values).await
    }

    /// Removes the index over the words of a column, as [`drop_index`](Table::drop_index).
    ///
    /// # Errors
    /// As [`drop_index`](Table::drop_index).
    pub async fn drop_text_index(&self, column: &str) -> Result<Index> {
        self.remove(&[column], IndexKind::Words).await
    }

    async fn remove(&self, columns: &[&str], kind: IndexKind) -> Result<Index> {
        // If the index is gone after an attempt with an unknown outcome, this call has dropped it.
        let mut dropped: Option<Index> = None;
        let change = |head: &mut Head| {
            let ids = ids_of(head, columns)?;
            let kind = kind_of(head, &ids, kind)?;
            match head.indexes.iter().position(|index| index.columns == ids && index.kind == kind) {
                Some(place) => dropped = Some(head.indexes.remove(place)),
                None if dropped.is_some() => {}
                None => {
                    let message = "the table has no such index; `benthic table show` lists them";
                    return Err(Error::not_found(message).with("columns", columns.join(",")));
                }
            }
            Ok(())
        };
        self.commit(Id::draw(&self.environment)?, change).await?;
        dropped.ok_or_else(|| Error::internal("no attempt found the index"))
    }
}

impl Snapshot {
    /// Builds the missing index pages of the data objects; with `rebuild`, rebuilds all. Each
    /// object takes one operation per index, and yields one item when it is done.
    ///
    /// Memory: the indexed columns and the pages of two objects at a time.
    ///
    /// # Errors
    /// In the stream: as [`Snapshot::read`]; as [`Pool::write`](benthic_core::Pool::write).
    pub fn build_indexes(&self, rebuild: bool) -> BoxStream<'static, Result<IndexBuildResult>> {
        let snapshot = self.clone();
        let build = move |entry| {
            let snapshot = snapshot.clone();
            async move {
                match snapshot.build_for(&entry, rebuild).await {
                    Ok(built) => Ok(built),
                    Err(error) => Err(snapshot.explain(error, entry.object).await),
                }
            }
        };
        self.entries().map_ok(build).try_buffer_unordered(OBJECTS_AT_ONCE).boxed()
    }

    async fn build_for(&self, entry: &FileEntry, rebuild: bool) -> Result<IndexBuildResult> {
        let mut wanted: Vec<&Index> = self.indexes().collect();
        if !rebuild {
            let keys = wanted.iter().map(|index| directory_key(index.number)).collect();
            let directories = self.index_entries(entry, keys).await?;
            // Rebuild an index whose directory cannot be read.
            wanted.retain(|index| {
                !index.matches_entry(directories.get(&directory_key(index.number))).unwrap_or(false)
            });
        }
        let mut built = IndexBuildResult { bytes: entry.all_bytes(), ..IndexBuildResult::default() };
        if wanted.is_empty() {
            return Ok(built);
        }
        let rows = self.columns_of(entry, &wanted).await?;
        let object = entry.object.object_id(self.table().id())?;
        for index in wanted {
            let pages = match pack(index, &arrays(index, &rows, self.schema())?) {
                Ok(pages) => {
                    built.built += 1;
                    pages
                }
                Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                    built.too_large += 1;
                    Vec::new()
                }
                Err(error) => return Err(error),
            };
            replace_entries(self.table().pool(), &object, entry_keys(index.number), pages).await?;
        }
        Ok(built)
    }

    /// Removes the pages of an index from all data objects. Yields the size of each finished object
    /// in bytes.
    ///
    /// # Errors
    /// In the stream: as [`Pool::write`](benthic_core::Pool::write).
    pub fn remove_pages(&self, index: u32) -> BoxStream<'static, Result<u64>> {
        let snapshot = self.clone();
        let remove = move |entry: FileEntry| {
            let snapshot = snapshot.clone();
            async move {
                let object = entry.object.object_id(snapshot.table().id())?;
                match replace_entries(snapshot.table().pool(), &object, entry_keys(index), Vec::new()).await {
                    Ok(()) => Ok(entry.all_bytes()),
                    Err(error) => Err(snapshot.explain(error, entry.object).await),
                }
            }
        };
        self.entries().map_ok(remove).try_buffer_unordered(OBJECTS_AT_ONCE).boxed()
    }

    /// An estimate of the size of an index in bytes, from a few of the data objects.
    ///
    /// # Errors
    /// As [`entries`](Snapshot::entries); as [`Pool::fetch`](benthic_core::Pool::fetch).
    pub async fn index_bytes(&self, index: u32) -> Result<u64> {
        let (mut bytes, mut rows) = (0, 0_u64);
        let mut entries = self.entries().take(SAMPLED_OBJECTS);
        while let Some(entry) = entries.try_next().await? {
            let found = self.index_entries(&entry, entry_keys(index)).await;
            let found = match found {
                Ok(found) => found,
                Err(error) => return Err(self.explain(error, entry.object).await),
            };
            bytes += found.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
            rows = rows.saturating_add(entry.live_rows());
        }
        let scaled = u128::from(bytes) * u128::from(self.rows()) / u128::from(rows.max(1));
        Ok(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Reads those of an object's omap entries that exist. One round trip, and one consistent
    /// state.
    pub(crate) async fn index_entries(
        &self,
        entry: &FileEntry,
        keys: Vec<Bytes>,
    ) -> Result<HashMap<Bytes, Bytes>> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let object = entry.object.object_id(self.table().id())?;
        let (page, _) = self.table().pool().fetch(&object, Fetch::omap_get(keys)).await?;
        Ok(page.entries.into_iter().collect())
    }

    /// The rows of an object in stored order, with the columns of these indexes in the current
    /// schema.
    async fn columns_of(&self, entry: &FileEntry, indexes: &[&Index]) -> Result<RecordBatch> {
        let ids: BTreeSet<u32> = indexes.iter().flat_map(|index| &index.columns).copied().collect();
        let names = ids.iter().filter_map(|id| self.schema().by_id(*id)).map(|column| column.name.as_str());
        let wanted = self.schema().project(&names.collect::<Vec<_>>())?;
        let batches: Vec<RecordBatch> = self.read_stored(entry, &wanted).await?.try_collect().await?;
        let rows = concat_batches(wanted.arrow(), &batches)
            .map_err(|source| arrow("rows cannot be concatenated", source))?;
        if rows.num_rows() as u64 != entry.rows {
            return Err(Error::corrupt("the object's number of rows differs from its list")
                .with("rows", rows.num_rows())
                .with("rows_listed", entry.rows));
        }
        Ok(rows)
    }
}

pub(crate) fn arrays(index: &Index, rows: &RecordBatch, schema: &TableSchema) -> Result<Vec<ArrayRef>> {
    let array = |id: &u32| {
        let column = schema.by_id(*id).and_then(|column| rows.column_by_name(&column.name));
        column.map(Arc::clone).ok_or_else(|| Error::internal("a column of an index is missing"))
    };
    index.columns.iter().map(array).collect()
}
