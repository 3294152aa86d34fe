//! Changes rows of a snapshot: deletes rows of its objects, and adds others in their place.
//!
//! A deleted row stays in its object. The object's entry in the file list gets a set of deleted
//! rows, the deletion vector, which readers leave out. Once a quarter of an object's rows are
//! deleted, the writer instead copies the others into a new object.

use super::{Writer, WriterOptions};
use crate::error;
use crate::head::{Head, ListRef, Operation};
use crate::ids::TableObject;
use crate::list::{DELETED, FileEntry, ListWriter, deletions, read_list, read_list_with};
use crate::snapshot::Snapshot;
use crate::writer::commit::Replaced;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use benthic_core::{Error, Result};
use benthic_index::{Definition as Index, Rows};
use futures::stream::TryStreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object is rewritten when one in this many of its rows is deleted.
const DELETED_SHARE: u64 = 4;
/// An object is also rewritten when its encoded deletion vector is larger: lists contain them.
const VECTOR_BYTES_MAX: usize = 64 * 1024;

/// The rows that a writer deletes.
pub(super) struct Change {
    pub base: Snapshot,
    pub operation: Operation,
    objects: BTreeMap<TableObject, ChangedObject>,
}

struct ChangedObject {
    /// The object in the base snapshot.
    entry: FileEntry,
    /// All deleted rows, also those that were deleted before.
    deleted: Rows,
}

impl ChangedObject {
    fn is_removed(&self) -> bool {
        self.deleted.count() == self.entry.rows
    }

    fn is_worn(&self) -> bool {
        !self.is_removed()
            && (self.deleted.count() >= self.entry.rows.div_ceil(DELETED_SHARE)
                || self.deleted.encode().len() > VECTOR_BYTES_MAX)
    }

    fn changed_entry(&self) -> FileEntry {
        FileEntry { deleted: Some(Arc::new(self.deleted.clone())), ..self.entry.clone() }
    }
}

impl Change {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Refuses a commit on a head in which rows have changed so that the outcome would be another
    /// one. Rows that were appended since the base snapshot do not matter: the change does not see
    /// them. Only a merge adds rows *because* others are missing. A compaction must not replace
    /// objects that have the pages of an index by objects without them, so it needs the pages of
    /// all `indexes` of the head.
    pub(super) fn check(&self, head: &Head, indexes: &[Index]) -> Result<()> {
        let is_outdated = match self.operation {
            Operation::Merge => head.current()?.0.id != self.base.id(),
            Operation::Compact => !head.indexes.iter().all(|index| indexes.contains(index)),
            _ => false,
        };
        if is_outdated { Err(conflict()) } else { Ok(()) }
    }

    /// The batch of a list, after the change.
    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut entries = FileEntry::from_batch(batch)?;
        let mut kept = Vec::with_capacity(entries.len());
        for entry in &mut entries {
            let changed = self.objects.get(&entry.object);
            kept.push(changed.is_none_or(|changed| !changed.is_removed()));
            if let Some(changed) = changed {
                *entry = changed.changed_entry();
            }
        }
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| -> ArrayRef {
            if field.name() == DELETED { Arc::new(deletions(entries.iter())) } else { Arc::clone(column) }
        });
        let changed = RecordBatch::try_new(Arc::clone(&schema), columns.collect());
        let changed = changed.and_then(|batch| filter_record_batch(&batch, &BooleanArray::from(kept)));
        changed.map_err(|source| error::arrow("a file list cannot be changed", source))
    }
}

fn conflict() -> Error {
    Error::conflict("another change of the table came first, and affects the same rows; repeat this one")
}

impl Snapshot {
    /// Starts a writer that also deletes rows of this snapshot, see [`Writer::delete`].
    ///
    /// # Errors
    /// As [`Table::writer`](crate::Table::writer); `Conflict` if the columns have changed since.
    pub async fn change(&self, operation: Operation, options: WriterOptions) -> Result<Writer> {
        let mut writer = self.table().writer(options).await?;
        if writer.schema.id != self.schema().id {
            writer.abort().await?;
            return Err(self.table().heads.add_context(conflict()));
        }
        writer.change = Some(Change { base: self.clone(), operation, objects: BTreeMap::new() });
        Ok(writer)
    }
}

impl Writer {
    /// Deletes rows of a data object of the writer's base snapshot, when the writer commits.
    ///
    /// # Errors
    /// `Internal` if the writer is not one of [`Snapshot::change`], or the rows are of an object of
    /// another size.
    pub fn delete(&mut self, entry: &FileEntry, rows: &Rows) -> Result<()> {
        let change = self.change.as_mut().filter(|_| u64::from(rows.of()) == entry.rows);
        let Some(change) = change else {
            return Err(Error::internal("a writer cannot delete these rows"));
        };
        if rows.is_empty() {
            return Ok(());
        }
        let changed = change.objects.entry(entry.object).or_insert_with(|| {
            let deleted = entry.deleted.as_deref().cloned();
            let deleted = deleted.unwrap_or_else(|| Rows::new(Vec::new(), rows.of()));
            ChangedObject { entry: entry.clone(), deleted }
        });
        changed.deleted = changed.deleted.or(rows);
        Ok(())
    }

    /// Copies the remaining rows of objects with many deleted rows.
    pub(super) async fn rewrite_worn_objects(&mut self) -> Result<()> {
        let Some(change) = &self.change else { return Ok(()) };
        let base = change.base.clone();
        let worn = change.objects.values().filter(|changed| changed.is_worn());
        let worn: Vec<FileEntry> = worn.map(ChangedObject::changed_entry).collect();
        for entry in worn {
            let mut rows = base.read(&entry, base.schema()).await?;
            while let Some(batch) = rows.try_next().await? {
                self.write(&batch).await?;
            }
            if let Some(live) = entry.live() {
                self.delete(&entry, &live)?;
            }
        }
        Ok(())
    }

    /// Writes the lists of the head that contain changed objects again, with the change.
    ///
    /// # Errors
    /// `Conflict` if an object is gone, or if other rows of it are deleted than in the base
    /// snapshot.
    pub(super) async fn rewrite_lists(&mut self, head: &Head, current: &[ListRef]) -> Result<Replaced> {
        let table = self.table.clone();
        let named = || (table.id, table.heads.address());
        let schema = head.current()?.1;
        let to = ListWriter::new(Arc::clone(table.pool()), table.id, self.id, self.next_list, schema);
        // The list writer belongs to `self`, so that `abort` removes its objects if this future is
        // dropped.
        let to = self.lists.insert(to);
        let change = &self.change;
        let rewritten = async {
            let Some(change) = change else { return Ok(Replaced::default()) };
            let (mut sources, mut found) = (Vec::new(), 0);
            for list in current {
                let found_before = found;
                let mut batches = read_list(Arc::clone(table.pool()), named(), *list, &[]).await?;
                while let Some(batch) = batches.try_next().await? {
                    for entry in FileEntry::from_batch(&batch)? {
                        let Some(changed) = change.objects.get(&entry.object) else { continue };
                        if entry.deleted != changed.entry.deleted {
                            return Err(conflict());
                        }
                        found += 1;
                    }
                }
                if found > found_before {
                    sources.push(list);
                }
            }
            if found != change.objects.len() {
                return Err(conflict());
            }
            for list in &sources {
                let (pool, columns) = (Arc::clone(table.pool()), schema.columns());
                let mut batches = read_list_with(pool, named(), **list, columns, columns).await?;
                while let Some(batch) = batches.try_next().await? {
                    to.push_batch(&change.apply(&batch)?).await?;
                }
            }
            let sources = sources.into_iter().map(|list| list.object).collect();
            Ok(Replaced { sources, lists: to.finish().await? })
        };
        let rewritten = rewritten.await;
        // Even after an error: no name may be used twice.
        self.next_list = to.next_number();
        self.lists = None;
        rewritten
    }
}
