//! Removes garbage: old snapshots, objects of crashed writers, and dropped tables.

use crate::head::{Head, Operation, TableState};
use crate::heads::{HeadStore, list_names};
use crate::ids::{ACCESS, Id, TableObject};
use crate::list::{FileEntry, read_list};
use crate::object;
use crate::table::Table;
use benthic_core::{Environment, Error, ErrorKind, ObjectId, Pool, Result};
use futures::stream::TryStreamExt;
use std::collections::HashSet;
use std::sync::Arc;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The snapshots and writers that a vacuum keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Number of newest snapshots to keep; the newest is always kept.
    pub keep_snapshots: usize,
    /// Also keep every snapshot that is at most this old. Snapshots with a tag are kept in any
    /// case.
    pub keep_ms: u64,
    /// A writer that began longer ago than this loses its registration and can no longer commit.
    pub intent_age_ms: u64,
}

impl Default for VacuumOptions {
    fn default() -> VacuumOptions {
        VacuumOptions { keep_snapshots: 1, keep_ms: DAY_MS, intent_age_ms: DAY_MS }
    }
}

/// The result of a vacuum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VacuumResult {
    pub snapshots: usize,
    /// Number of writers whose registration was removed.
    pub writers: usize,
    pub objects: u64,
    /// Objects whose names have no table object's form; they are kept.
    pub foreign_objects: u64,
    /// Whether the table was being dropped and is now gone.
    pub dropped: bool,
}

/// The result of a drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropResult {
    pub objects: u64,
    /// Whether the table is gone. If not, a writer is still at work; drop or vacuum the table
    /// later.
    pub finished: bool,
}

/// Drops old snapshots, and removes the objects of a table that belong to no snapshot and to no
/// registered writer. Does not disturb readers of kept snapshots, or writers.
///
/// The selection is exact because a writer registers before it creates objects: a listed object
/// that is afterwards in no snapshot and has no registered writer will never be in a snapshot.
/// Memory: 24 bytes per listed object and per object of the snapshots, and the names while they are
/// listed.
///
/// # Errors
/// `NotFound`; `Corrupt` if a list is lost or damaged, and then nothing is removed; `Busy`; as
/// [`Pool::write`].
pub async fn vacuum(
    pool: Arc<dyn Pool>,
    table: &str,
    options: &VacuumOptions,
    environment: &Environment,
) -> Result<VacuumResult> {
    let heads = HeadStore::new(pool, table, environment)?;
    let now_ms = environment.unix_ms();
    let mut done = VacuumResult::default();
    let ((), head) = heads
        .commit(Id::draw(environment)?, |head| {
            if head.state == TableState::Live {
                done = trim(head, options, now_ms);
            }
            Ok(())
        })
        .await?;
    if head.state == TableState::Dropping {
        let dropped = finish_drop(&heads, &head, options.intent_age_ms, now_ms).await?;
        return Ok(VacuumResult { objects: dropped.objects, dropped: dropped.finished, ..done });
    }
    let names =
        list_names(&heads.pool, &head.id.namespace()).await.map_err(|error| heads.add_context(error))?;
    let listed: Vec<TableObject> = names.iter().filter_map(|name| TableObject::parse(name)).collect();
    let own = listed.len() + names.iter().filter(|name| *name == ACCESS).count();
    done.foreign_objects = (names.len() - own) as u64;
    drop(names);
    let (used, writers) = in_use(&heads, head.id).await?;
    let unused = |object: &&TableObject| !used.contains(*object) && !writers.contains(&object.writer);
    let unused: Vec<&TableObject> = listed.iter().filter(unused).collect();
    done.objects = unused.len() as u64;
    let unused = unused.into_iter().map(|object| object.object_id(head.id));
    object::remove_all(&heads.pool, unused).await.map_err(|error| heads.add_context(error))?;
    Ok(done)
}

fn trim(head: &mut Head, options: &VacuumOptions, now_ms: u64) -> VacuumResult {
    let (snapshots, writers) = (head.snapshots.len(), head.intents.len());
    let newest = options.keep_snapshots.max(1);
    let tagged: HashSet<u64> = head.tags.values().copied().collect();
    let mut place = 0;
    head.snapshots.retain(|snapshot| {
        place += 1;
        place + newest > snapshots
            || snapshot.time_ms.saturating_add(options.keep_ms) >= now_ms
            || tagged.contains(&snapshot.id)
    });
    head.intents.retain(|intent| intent.time_ms.saturating_add(options.intent_age_ms) >= now_ms);
    VacuumResult {
        snapshots: snapshots - head.snapshots.len(),
        writers: writers - head.intents.len(),
        ..VacuumResult::default()
    }
}

/// The objects of all snapshots and the registered writers, both from one head that is read now.
async fn in_use(heads: &HeadStore, id: Id) -> Result<(HashSet<TableObject>, HashSet<Id>)> {
    let (mut head, mut version) = heads.read().await?;
    loop {
        match objects_of(heads, &head, id).await {
            Ok(used) => return Ok((used, head.intents.iter().map(|intent| intent.writer).collect())),
            Err(error) => {
                // Another vacuum may have removed a list of this head. Then a newer head exists.
                let before = version;
                (head, version) = heads.read().await?;
                if error.kind() != ErrorKind::NotFound {
                    return Err(heads.add_context(error));
                }
                if version == before {
                    let lost = Error::corrupt("a file list of the table is lost");
                    return Err(heads.add_context(lost.with_source(error)));
                }
            }
        }
    }
}

async fn objects_of(heads: &HeadStore, head: &Head, id: Id) -> Result<HashSet<TableObject>> {
    if head.id != id {
        return Err(Error::conflict("the table was dropped, and another table has its name"));
    }
    let mut used = HashSet::new();
    for list in head.lists.values() {
        used.insert(list.object);
        let mut batches = read_list(Arc::clone(&heads.pool), (id, heads.address()), *list, &[]).await?;
        while let Some(batch) = batches.try_next().await? {
            for entry in FileEntry::from_batch(&batch)? {
                used.extend(entry.parts().map(|part| part.object));
            }
        }
    }
    Ok(used)
}

/// Drops a table with all its snapshots, or continues an interrupted drop.
///
/// While a writer that began less than a day ago is registered, the head stays and shows the table
/// as being dropped, so that a later drop or vacuum finds the objects that the writer still
/// creates. With `force`, the drop ignores such writers; use it if they are known to be gone.
/// Objects that a live writer creates after a forced drop are leaked.
///
/// # Errors
/// `NotFound`, `Busy`, as [`Pool::write`]; `Corrupt` for a table whose head is damaged.
pub async fn drop_table(
    pool: Arc<dyn Pool>,
    table: &str,
    force: bool,
    environment: &Environment,
) -> Result<DropResult> {
    let heads = HeadStore::new(pool, table, environment)?;
    let ((), head) = heads
        .commit(Id::draw(environment)?, |head| {
            head.state = TableState::Dropping;
            Ok(())
        })
        .await?;
    let intent_age_ms = if force { 0 } else { DAY_MS };
    finish_drop(&heads, &head, intent_age_ms, environment.unix_ms()).await
}

impl Table {
    /// Drops a table whose first rows could not be written. Leaves a table that another client has
    /// changed.
    ///
    /// # Errors
    /// `Conflict` if the table has a snapshot after its first one, or another table has its name;
    /// as [`drop_table`].
    pub async fn drop_unchanged(&self) -> Result<DropResult> {
        let change = |head: &mut Head| match head.snapshots.as_slice() {
            [first] if head.id == self.id && first.operation == Operation::Create => {
                head.state = TableState::Dropping;
                Ok(())
            }
            _ => Err(Error::conflict("another client has changed the table")),
        };
        let ((), head) = self.heads.commit(Id::draw(&self.environment)?, change).await?;
        finish_drop(&self.heads, &head, 0, self.environment.unix_ms()).await
    }
}

async fn finish_drop(heads: &HeadStore, head: &Head, intent_age_ms: u64, now_ms: u64) -> Result<DropResult> {
    let namespace = head.id.namespace();
    let names = list_names(&heads.pool, &namespace).await.map_err(|error| heads.add_context(error))?;
    let objects = names.len() as u64;
    let names = names.into_iter().map(|name| ObjectId::in_namespace(&namespace, name));
    object::remove_all(&heads.pool, names).await.map_err(|error| heads.add_context(error))?;
    let is_recent = |time_ms: u64| intent_age_ms > 0 && time_ms.saturating_add(intent_age_ms) >= now_ms;
    if head.intents.iter().any(|intent| is_recent(intent.time_ms)) {
        return Ok(DropResult { objects, finished: false });
    }
    // A concurrent drop may remove the head first, and a new table may then take the name.
    loop {
        match heads.read().await {
            Ok((now, version)) if now.id == head.id => {
                if heads.remove(version).await? {
                    break;
                }
            }
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    Ok(DropResult { objects, finished: true })
}
