//! Removing what nobody needs: old snapshots, what crashed writers left, whole tables.

use crate::head::{Head, TableState};
use crate::heads::{Heads, list_names};
use crate::ids::{Id, TableObject};
use crate::list::{FileEntry, read_list};
use crate::object;
use benthic_core::{Environment, Error, ErrorKind, ObjectId, Pool, Result};
use futures::stream::TryStreamExt;
use std::collections::HashSet;
use std::sync::Arc;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What a vacuum keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumOptions {
    /// So many of the newest snapshots; at least the newest is kept.
    pub keep_snapshots: usize,
    /// And all snapshots that are not older than this.
    pub keep_ms: u64,
    /// A writer that began longer ago is given up: it cannot commit any more.
    pub intent_age_ms: u64,
}

impl Default for VacuumOptions {
    fn default() -> VacuumOptions {
        VacuumOptions { keep_snapshots: 1, keep_ms: DAY_MS, intent_age_ms: DAY_MS }
    }
}

/// What a vacuum did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Snapshots that are gone.
    pub snapshots: usize,
    /// Writers that were given up.
    pub writers: usize,
    /// Objects that were removed.
    pub objects: u64,
    /// Objects whose names are none that a table gives; they are left.
    pub strangers: u64,
    /// Whether the table was being dropped, and is gone now.
    pub dropped: bool,
}

/// What a drop did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Objects that were removed.
    pub objects: u64,
    /// Whether all is gone. If not, somebody still writes to the table; drop or vacuum it later.
    pub finished: bool,
}

/// Drops old snapshots and removes the objects of a table that no snapshot has and no writer is at. Readers of snapshots
/// that are kept are not disturbed, nor are writers.
///
/// It is exact because a writer registers before it creates: an object that was listed, and that afterwards is in no snapshot
/// and of no registered writer, never will be in a snapshot. Memory: 24 bytes for each object that was listed and for each
/// that snapshots have, and the names while they are listed.
///
/// # Errors
/// `NotFound`; `Corrupt` if a list is lost or damaged, then nothing is removed; `Busy`; as [`Pool::write`].
pub async fn vacuum(
    pool: Arc<dyn Pool>,
    table: &str,
    options: &VacuumOptions,
    environment: &Environment,
) -> Result<Vacuumed> {
    let heads = Heads::new(pool, table, environment)?;
    let now_ms = environment.unix_ms();
    let mut done = Vacuumed::default();
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
        return Ok(Vacuumed { objects: dropped.objects, dropped: dropped.finished, ..done });
    }
    let names =
        list_names(&heads.pool, &head.id.namespace()).await.map_err(|error| heads.add_context(error))?;
    let listed: Vec<TableObject> = names.iter().filter_map(|name| TableObject::parse(name)).collect();
    done.strangers = (names.len() - listed.len()) as u64;
    drop(names);
    let (used, writers) = in_use(&heads, head.id).await?;
    let unused = |object: &&TableObject| !used.contains(*object) && !writers.contains(&object.writer);
    let unused: Vec<&TableObject> = listed.iter().filter(unused).collect();
    done.objects = unused.len() as u64;
    let unused = unused.into_iter().map(|object| object.object_id(head.id));
    object::remove_all(&heads.pool, unused).await.map_err(|error| heads.add_context(error))?;
    Ok(done)
}

/// Takes snapshots and writers out of a head.
fn trim(head: &mut Head, options: &VacuumOptions, now_ms: u64) -> Vacuumed {
    let (snapshots, writers) = (head.snapshots.len(), head.intents.len());
    let newest = options.keep_snapshots.max(1);
    let mut place = 0;
    head.snapshots.retain(|snapshot| {
        place += 1;
        place + newest > snapshots || snapshot.time_ms.saturating_add(options.keep_ms) >= now_ms
    });
    head.intents.retain(|intent| intent.time_ms.saturating_add(options.intent_age_ms) >= now_ms);
    Vacuumed {
        snapshots: snapshots - head.snapshots.len(),
        writers: writers - head.intents.len(),
        ..Vacuumed::default()
    }
}

/// The objects that snapshots have and the writers at work, as of one head that is read now.
async fn in_use(heads: &Heads, id: Id) -> Result<(HashSet<TableObject>, HashSet<Id>)> {
    let (mut head, mut version) = heads.read().await?;
    loop {
        match objects_of(heads, &head, id).await {
            Ok(used) => return Ok((used, head.intents.iter().map(|intent| intent.writer).collect())),
            Err(error) => {
                // Another vacuum may have removed a list that this head has; then there is a newer head.
                let before = version;
                (head, version) = heads.read().await?;
                if error.kind() != ErrorKind::NotFound {
                    return Err(heads.add_context(error));
                }
                if version == before {
                    let lost = Error::new(ErrorKind::Corrupt, "a list of the table's objects is lost");
                    return Err(heads.add_context(lost.with_source(error)));
                }
            }
        }
    }
}

async fn objects_of(heads: &Heads, head: &Head, id: Id) -> Result<HashSet<TableObject>> {
    if head.id != id {
        return Err(Error::new(ErrorKind::Conflict, "the table was dropped, and another has its name"));
    }
    let mut used = HashSet::new();
    for list in head.lists.values() {
        used.insert(list.object);
        let mut batches = read_list(Arc::clone(&heads.pool), (id, heads.address()), *list, &[]).await?;
        while let Some(batch) = batches.try_next().await? {
            used.extend(FileEntry::from_batch(&batch)?.iter().map(|entry| entry.object));
        }
    }
    Ok(used)
}

/// Drops a table with all its snapshots, or goes on with a drop that was interrupted.
///
/// While somebody writes to the table who began less than a day ago, its head stays as "being dropped", so that what that
/// writer still makes is found: drop or vacuum the table later, or `force` it if the writer is known to be gone. A forced drop
/// leaves what a living writer still makes.
///
/// # Errors
/// `NotFound`, `Busy`, as [`Pool::write`]; a table whose head is damaged is `Corrupt`.
pub async fn drop_table(
    pool: Arc<dyn Pool>,
    table: &str,
    force: bool,
    environment: &Environment,
) -> Result<Dropped> {
    let heads = Heads::new(pool, table, environment)?;
    let ((), head) = heads
        .commit(Id::draw(environment)?, |head| {
            head.state = TableState::Dropping;
            Ok(())
        })
        .await?;
    let intent_age_ms = if force { 0 } else { DAY_MS };
    finish_drop(&heads, &head, intent_age_ms, environment.unix_ms()).await
}

async fn finish_drop(heads: &Heads, head: &Head, intent_age_ms: u64, now_ms: u64) -> Result<Dropped> {
    let namespace = head.id.namespace();
    let names = list_names(&heads.pool, &namespace).await.map_err(|error| heads.add_context(error))?;
    let objects = names.len() as u64;
    let names = names.into_iter().map(|name| ObjectId::in_namespace(&namespace, name));
    object::remove_all(&heads.pool, names).await.map_err(|error| heads.add_context(error))?;
    let at_work = |intent: &crate::head::Intent| {
        intent_age_ms > 0 && intent.time_ms.saturating_add(intent_age_ms) >= now_ms
    };
    if head.intents.iter().any(at_work) {
        return Ok(Dropped { objects, finished: false });
    }
    // Whoever dropped it too may be faster; and another table may have the name then.
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
    Ok(Dropped { objects, finished: true })
}
