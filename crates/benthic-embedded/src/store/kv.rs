//! The key-value store: one LSM tree, without a journal of its own. The engine's log is its journal.
//!
//! What it holds on disk is always the state after one log sequence number, which [`keys::META`] names: a
//! checkpoint seals the table in memory under the commit lock and writes it out as a whole.

use super::keys;
use super::kv_files::{self, kv_error};
use super::log::sync_dir;
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, Guard, SeqNo, SequenceNumberCounter, Slice};
use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads always see the newest value; objects are kept stable by the engine's locks. Writers of tables name it as well: whoever
/// reads older tables holds them, and with a lower number the crate would keep all that were merged until the next time.
const NEWEST: SeqNo = SeqNo::MAX >> 1;

pub(crate) struct Kv {
    dir: PathBuf,
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    /// Held shared while changes are applied.
    applying: RwLock<()>,
}

/// Tables written by checkpoints and not merged yet.
const FRESH_RUNS_MAX: usize = 8;
/// Size of the tables of a merge of all.
const TABLE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// On a full disk there may be more.
const FRESH_RUNS_MAX_FULL: usize = 200;

/// Changes of one operation; `None` removes.
pub(crate) type Changes = Vec<(Bytes, Option<Bytes>)>;

impl Kv {
    /// Opens the tree, which [`Kv::create`] made.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        kv_files::verify(dir)?;
        // Whoever wrote the list of tables may have ended, or failed, before its names were durable; the log is cut by it.
        sync_dir(&dir.join("tables"))?;
        sync_dir(dir)?;
        Kv::create(dir, cache_bytes)
    }

    pub fn create(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        let seqno = SequenceNumberCounter::default();
        // What is visible is nobody's question here: whoever may see something old is kept out by locks.
        let tree = Config::new(dir, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .open()
            .map_err(|error| kv_error("the key-value store does not open", error))?;
        let next = tree.get_highest_persisted_seqno().map_or(1, |highest| highest + 1);
        seqno.set(next);
        let kv = Kv { dir: dir.to_owned(), tree, seqno, applying: RwLock::new(()) };
        kv.copy_list();
        Ok(kv)
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.tree.get(key, NEWEST).map_err(|error| kv_error("a key cannot be read", error))?;
        Ok(value.map(Bytes::from))
    }

    /// All pairs whose key starts with `prefix` and is behind `after`, in order.
    pub fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + use<> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.to_vec()),
            _ => Bound::Included(prefix.to_vec()),
        };
        let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.range(start, end)
    }

    /// All pairs between two keys, in order.
    pub fn range(
        &self,
        start: Bound<Vec<u8>>,
        end: Bound<Vec<u8>>,
    ) -> impl DoubleEndedIterator<Item = Result<(Bytes, Bytes)>> + use<> {
        self.tree.range::<Vec<u8>, _>((start, end), NEWEST, None).map(|entry| {
            let (key, value) =
                entry.into_inner().map_err(|error| kv_error("a range cannot be read", error))?;
            Ok((Bytes::from(key), Bytes::from(value)))
        })
    }

    /// The keys from `start` to before `end` that any table has, each read by itself up to its damage from both ends: also
    /// keys that a newer table has removed.
    pub fn keys_by_table(&self, start: &[u8], end: &[u8]) -> BTreeSet<Slice> {
        let memory = self.tree.active_memtable();
        let keys = memory.iter().map(|entry| entry.key.user_key);
        let mut found: BTreeSet<_> = keys.filter(|key| (start..end).contains(&&key[..])).collect();
        for table in self.tree.current_version().iter_tables() {
            let range = || table.range(Slice::from(start)..Slice::from(end));
            found.extend(range().map_while(|entry| Some(entry.ok()?.key.user_key)));
            found.extend(range().rev().map_while(|entry| Some(entry.ok()?.key.user_key)));
        }
        found
    }

    /// Applies changes to the table in memory. Callers hold the commit lock, or are alone.
    pub fn apply(&self, changes: Changes) {
        self.begin().apply(changes);
    }

    /// Gives an operation its place among all. Callers hold the commit lock, and may apply its changes without it if they
    /// keep others from its keys until then, as an object's lock does.
    pub fn begin(&self) -> Applying<'_> {
        let running = self.applying.read();
        Applying { kv: self, seqno: self.seqno.next(), _running: running }
    }

    /// Waits until all that has begun is applied. Callers hold the commit lock, so that nothing begins.
    pub fn settle(&self) {
        drop(self.applying.write());
    }

    /// Seals the table in memory. Callers hold the commit lock, so that it ends between two operations.
    pub fn seal(&self) {
        self.settle();
        assert!(!self.applying.is_locked(), "what is sealed ends between two operations");
        self.tree.rotate_memtable();
    }

    /// How many tables checkpoints wrote that are not merged yet.
    pub fn fresh_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    /// Merges tables before there are too many for one more.
    pub fn merge_if_many(&self) -> Result<()> {
        // The crate counts the runs of a level in a byte.
        let runs = self.fresh_runs();
        if runs >= FRESH_RUNS_MAX
            && let Err(error) = self.compact()
            && (!undone(&error) || runs >= FRESH_RUNS_MAX_FULL)
        {
            return Err(error);
        }
        Ok(())
    }

    /// Writes what was sealed to disk, durably.
    pub fn write_sealed(&self) -> Result<()> {
        self.or_undo(|| {
            let lock = self.tree.get_flush_lock();
            let written = self.tree.flush(&lock, NEWEST);
            written.map(|_| ()).map_err(|error| write_error("the key-value store cannot be written", error))
        })
    }

    /// Merges tables until nothing more is due.
    pub fn compact(&self) -> Result<()> {
        let strategy = Arc::new(lsm_tree::compaction::Leveled::default());
        loop {
            let before = (self.tree.table_count(), self.tree.l0_run_count());
            self.or_undo(|| {
                let merged = self.tree.compact(Arc::clone(&strategy) as _, NEWEST);
                merged
                    .map(|_| ())
                    .map_err(|error| write_error("the key-value store cannot be compacted", error))
            })?;
            if (self.tree.table_count(), self.tree.l0_run_count()) == before {
                return Ok(());
            }
        }
    }

    /// Merges all tables, so that nothing is left of removed keys.
    pub fn compact_fully(&self) -> Result<()> {
        self.or_undo(|| {
            let merged = self.tree.major_compact(TABLE_BYTES_MAX, NEWEST);
            merged.map(|_| ()).map_err(|error| write_error("the key-value store cannot be compacted", error))
        })
    }

    /// Writes tables. If the disk is full, or a table that is read for it is damaged, what was written goes: the crate
    /// leaves it, and then there would be less space with every attempt.
    ///
    /// # Errors
    /// `LimitExceeded` and `Corrupt` only if the disk has the same list of tables as before: the crate would write over a
    /// newer one.
    fn or_undo(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let (before, list_number) = (self.table_files(), self.tree.current_version().id());
        write().inspect(|()| self.copy_list()).map_err(|error| {
            if !undone(&error) {
                return error;
            }
            // It may have failed behind the change.
            if self.tree.current_version().id() != list_number
                || kv_files::list_number(&self.dir) != Some(list_number)
            {
                return error.with_kind(ErrorKind::Internal);
            }
            // Tables, and the next list of them.
            let unfinished_list = self.dir.join(format!("v{}", list_number + 1));
            for unfinished in self.table_files().difference(&before).chain([&unfinished_list]) {
                if let Err(error) = std::fs::remove_file(unfinished)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::warn!(%error, path = %unfinished.display(), "an unfinished table cannot be removed");
                }
            }
            error
        })
    }

    fn copy_list(&self) {
        if let Err(error) = kv_files::copy_list(&self.dir) {
            tracing::warn!(%error, "the list of tables has no second copy");
        }
    }

    fn table_files(&self) -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(self.dir.join("tables")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    pub fn meta(&self) -> Result<keys::Meta> {
        match self.get(keys::META)? {
            None => Ok(keys::Meta { applied_lsn: 0, next_id: 1 }),
            Some(value) => {
                keys::Meta::decode(&value).map_err(|_| malformed("the key-value store's position"))
            }
        }
    }
}

/// An operation that has its place, and whose changes are to be applied.
pub(crate) struct Applying<'a> {
    kv: &'a Kv,
    seqno: SeqNo,
    _running: RwLockReadGuard<'a, ()>,
}

impl Applying<'_> {
    /// Applies the changes of the operation to the table in memory. It takes the place, so that this happens once.
    pub fn apply(self, changes: Changes) {
        for (key, value) in changes {
            match value {
                Some(value) => self.kv.tree.insert(key, value, self.seqno),
                None => self.kv.tree.remove(key, self.seqno),
            };
        }
    }
}

/// The first key behind all those with a prefix.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Whether a failure to write tables left nothing behind.
fn undone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::Corrupt)
}

fn write_error(message: &str, error: lsm_tree::Error) -> Error {
    match error {
        lsm_tree::Error::Io(source) => Error::io(Action::Write, message, source),
        damage => Error::new(ErrorKind::Corrupt, message).with_source(damage),
    }
}

pub(crate) fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what} cannot be decoded"))
}

#[cfg(test)]
mod tests {
    use super::Kv;
    use bytes::Bytes;
    use parking_lot::Mutex;

    const WRITERS: usize = 4;
    const OPERATIONS_EACH: usize = 50;
    const CHANGES: usize = 100;

    fn key(operation: usize, change: usize) -> Vec<u8> {
        format!("{operation:08}-{change:08}").into_bytes()
    }

    #[test]
    fn what_is_sealed_ends_between_two_operations() {
        for _ in 0..10 {
            let dir = tempfile::tempdir().unwrap();
            let kv = Kv::create(dir.path(), 1024 * 1024).unwrap();
            // Locked as the commit queue is.
            let begun = Mutex::new(0);
            let write = || {
                for _ in 0..OPERATIONS_EACH {
                    let mut next = begun.lock();
                    let operation = *next;
                    *next += 1;
                    let applying = kv.begin();
                    drop(next);
                    let changes =
                        (0..CHANGES).map(|change| (key(operation, change).into(), Some(Bytes::new())));
                    applying.apply(changes.collect());
                }
            };
            let sealed = std::thread::scope(|scope| {
                (0..WRITERS).for_each(|_| drop(scope.spawn(write)));
                loop {
                    let next = begun.lock();
                    if *next > WRITERS * OPERATIONS_EACH / 2 {
                        kv.seal();
                        break *next;
                    }
                }
            });
            kv.write_sealed().unwrap();
            drop(kv);

            // Everything of the operations before, and nothing of those after.
            let kv = Kv::open(dir.path(), 1024 * 1024).unwrap();
            let mut found = kv.scan(b"", None).map(|entry| entry.unwrap().0);
            for operation in 0..sealed {
                for change in 0..CHANGES {
                    assert_eq!(found.next(), Some(key(operation, change).into()));
                }
            }
            assert_eq!(found.next(), None);
        }
    }
}
