//! Commits a writer's lists, and merges lists so that a table has few of them.

use super::Writer;
use crate::head::{Head, LISTS_MAX, ListRef, Operation};
use crate::heads::Attempts;
use crate::ids::{Id, Role, TableObject};
use crate::list::{ListWriter, read_list_with};
use crate::object;
use crate::schema::{Column, TableSchema};
use crate::snapshot::{Snapshot, SnapshotSelector};
use crate::table::Table;
use crate::types::widens;
use benthic_core::{Error, ErrorKind, Result};
use futures::stream::TryStreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Lists below [`LARGE_LIST_BYTES`] that a table may have before some are merged.
const SMALL_LISTS_MAX: usize = 32;
/// A list of this size or more is not merged any more.
const LARGE_LIST_BYTES: u64 = 16 * 1024 * 1024;
const MERGED_MIN: usize = 8;

/// `lists` that replace other lists, the `sources`.
#[derive(Default)]
pub(super) struct Replaced {
    pub sources: BTreeSet<TableObject>,
    pub lists: Vec<ListRef>,
}

impl Replaced {
    fn fits(&self, lists: &[ListRef]) -> bool {
        self.sources.iter().all(|of| lists.iter().any(|list| list.object == *of))
    }

    fn apply(&self, lists: &mut Vec<ListRef>) {
        lists.retain(|list| !self.sources.contains(&list.object));
        lists.extend(&self.lists);
    }
}

impl Writer {
    pub(super) async fn commit(&mut self, lists: Vec<ListRef>) -> Result<Snapshot> {
        let (table, writer) = (self.table.clone(), self.id);
        let changes_rows = self.change.as_ref().is_some_and(|change| !change.is_empty());
        if lists.is_empty() && !changes_rows {
            self.remove_all().await?;
            return table.snapshot(SnapshotSelector::Current).await;
        }
        let (mut rewritten, mut merged): (Option<Replaced>, Option<Replaced>) = (None, None);
        let mut attempts = Attempts::new(writer);
        let head = loop {
            attempts.next().await.map_err(|error| table.heads.add_context(error))?;
            let (mut head, version) = table.live().await?;
            if head.snapshots.iter().any(|snapshot| snapshot.writer == writer) {
                break head;
            }
            if !head.has_intent(writer) {
                let message = "a vacuum removed this writer because it took too long; write the rows again";
                return Err(table.heads.add_context(Error::conflict(message)));
            }
            self.check_columns(&head).map_err(|error| table.heads.add_context(error))?;
            let mut all = head.lists_of(head.current()?.0);
            if changes_rows {
                let known = match rewritten.take().filter(|known| known.fits(&all)) {
                    Some(known) => Ok(known),
                    None => self.rewrite_lists(&head, &all).await,
                };
                match known {
                    Ok(known) => rewritten.insert(known).apply(&mut all),
                    Err(error) if is_stale(&table, &error, version).await? => continue,
                    Err(error) => return Err(explain_missing_list(&table, error)),
                }
            }
            all.extend(&lists);
            if let Some(chosen) = choose_lists(&all) {
                let known = match merged.take().filter(|known| known.fits(&all)) {
                    Some(known) => Ok(known),
                    None => self.merge(&head, chosen).await,
                };
                match known {
                    Ok(known) => merged.insert(known).apply(&mut all),
                    Err(error) if is_stale(&table, &error, version).await? => continue,
                    Err(error) => return Err(explain_missing_list(&table, error)),
                }
            }
            if all.len() > LISTS_MAX {
                let message = "the table has too many file lists; use larger data objects";
                return Err(table
                    .heads
                    .add_context(Error::limit_exceeded(message).with("lists_max", LISTS_MAX)));
            }
            let schema = head.current()?.0.schema;
            let names = all.iter().map(|list| list.object).collect();
            head.lists.extend(all.iter().map(|list| (list.object, *list)));
            let operation = self.change.as_ref().map_or(Operation::Append, |change| change.operation);
            if operation != Operation::Append {
                head.need_format_of_changes();
            }
            head.push_snapshot(operation, writer, table.environment.unix_ms(), schema, names);
            head.intents.retain(|intent| intent.writer != writer);
            self.may_be_committed = true;
            if table.heads.replace(&head, version).await? {
                break head;
            }
        };
        remove_unused_lists(&table, &head, writer, self.next_list).await;
        let snapshot = head.snapshots.iter().find(|snapshot| snapshot.writer == writer).cloned();
        let snapshot = snapshot.ok_or_else(|| Error::internal("a commit is not in its head"))?;
        Snapshot::new(&table, &Arc::new(head), &snapshot)
    }

    /// Checks that the rows fit the table's current columns. They do not after a rollback to
    /// narrower columns.
    fn check_columns(&self, head: &Head) -> Result<()> {
        if let Some(change) = &self.change {
            change.check(head, &self.indexes)?;
        }
        let fits = |column: &Column| match self.schema.by_id(column.id) {
            Some(written) => widens(&written.data_type, &column.data_type),
            None => column.nullable,
        };
        match head.current()?.1.columns().iter().all(fits) {
            true => Ok(()),
            false => {
                let message = "the table was rolled back to other columns meanwhile; write the rows again";
                Err(Error::conflict(message))
            }
        }
    }

    /// Merges lists into one or a few. The merged lists have statistics of the table's current
    /// columns, which include every column that a list knows and that was not dropped.
    async fn merge(&mut self, head: &Head, chosen: Vec<ListRef>) -> Result<Replaced> {
        let (table, schema) = (self.table.clone(), head.current()?.1);
        // The list writer belongs to `self`, so that `abort` removes its objects if this future is
        // dropped.
        let to = ListWriter::new(Arc::clone(table.pool()), table.id, self.id, self.next_list, schema);
        let to = self.lists.insert(to);
        let copied = copy(&table, schema, &chosen, to).await;
        // Even after an error: no name may be used twice.
        self.next_list = to.next_number();
        self.lists = None;
        Ok(Replaced { sources: chosen.iter().map(|list| list.object).collect(), lists: copied? })
    }
}

/// Whether another writer replaced lists of this head, and a vacuum has removed them since.
async fn is_stale(table: &Table, error: &Error, version: u64) -> Result<bool> {
    Ok(error.kind() == ErrorKind::NotFound && table.live().await?.1 != version)
}

async fn copy(
    table: &Table,
    schema: &TableSchema,
    from: &[ListRef],
    to: &mut ListWriter,
) -> Result<Vec<ListRef>> {
    for list in from {
        let named = (table.id, table.heads.address());
        let columns = schema.columns();
        let mut batches = read_list_with(Arc::clone(table.pool()), named, *list, columns, columns).await?;
        while let Some(batch) = batches.try_next().await? {
            to.push_batch(&batch).await?;
        }
    }
    to.finish().await
}

fn explain_missing_list(table: &Table, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let lost = Error::corrupt("a file list of the table is lost");
            table.heads.add_context(lost.with_source(error))
        }
        _ => table.heads.add_context(error),
    }
}

/// Removes lists of this writer that were merged into others, or that belong to a failed attempt. A
/// vacuum removes those that this call cannot.
async fn remove_unused_lists(table: &Table, head: &Head, writer: Id, lists: u32) {
    let named = |number| TableObject { role: Role::List, writer, number };
    let used = |list: &TableObject| head.snapshots.iter().any(|snapshot| snapshot.lists.contains(list));
    let unused: Vec<TableObject> = (0..lists).map(named).filter(|list| !used(list)).collect();
    let unused = unused.into_iter().map(|list| list.object_id(table.id));
    if let Err(error) = object::remove_all(table.pool(), unused).await {
        tracing::debug!(%error, "unused lists remain until the next vacuum");
    }
}

/// Selects the lists to merge if there are too many: the smallest ones, for as long as the next is
/// not larger than all before it together. So each data object is merged about as often as the
/// logarithm of the number of data objects.
fn choose_lists(lists: &[ListRef]) -> Option<Vec<ListRef>> {
    let mut small: Vec<ListRef> =
        lists.iter().filter(|list| list.list_bytes < LARGE_LIST_BYTES).copied().collect();
    if small.len() <= SMALL_LISTS_MAX {
        return None;
    }
    small.sort_by_key(|list| list.objects);
    let (mut taken, mut objects, mut bytes) = (0, 0, 0);
    for list in &small {
        if taken >= MERGED_MIN && (list.objects > objects || bytes >= 2 * LARGE_LIST_BYTES) {
            break;
        }
        taken += 1;
        objects = list.objects.saturating_add(objects);
        bytes += list.list_bytes;
    }
    small.truncate(taken);
    Some(small)
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
