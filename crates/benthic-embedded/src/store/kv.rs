//! The key-value store: one LSM tree without a journal of its own. The engine's log is its journal.
//!
//! The tree on disk always has the state after one log sequence number, which is stored under
//! [`keys::META`]. A checkpoint guarantees this: it seals the table in memory under the commit lock
//! and writes it out as a whole.

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

/// Reads always see the newest value; the engine's object locks keep objects stable. Writes of
/// tables pass this number too. Readers of older tables hold references to them, and with a lower
/// number the tree would keep all merged tables until the next merge.
const NEWEST: SeqNo = SeqNo::MAX >> 1;

pub(crate) struct Kv {
    dir: PathBuf,
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    /// Held shared while changes are applied.
    applying: RwLock<()>,
}

/// Number of unmerged checkpoint tables that triggers a merge.
const FRESH_RUNS_MAX: usize = 8;
/// Maximum table size in a full merge.
const TABLE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Limit on unmerged tables while merges fail on a full disk.
const FRESH_RUNS_MAX_FULL: usize = 200;
const NOT_COMPACTED: &str = "the key-value store cannot be compacted";

/// The changes of one operation. `None` removes the key.
pub(crate) type Changes = Vec<(Bytes, Option<Bytes>)>;

impl Kv {
    /// Opens a tree that [`Kv::create`] made.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        kv_files::verify(dir)?;
        // The process that wrote the list of tables may have died before its file names were
        // durable. The log is cut by that list, so sync the names first.
        sync_dir(&dir.join("tables"))?;
        sync_dir(dir)?;
        Kv::create(dir, cache_bytes)
    }

    /// Opens a tree and changes no file. Later changes stay in memory.
    ///
    /// # Errors
    /// `PermissionDenied` if a process died while it changed the tree's files, because the tree
    /// would remove the remains.
    pub fn open_read_only(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        kv_files::verify(dir)?;
        if kv_files::has_remains(dir)? {
            return Err(must_recover());
        }
        Kv::open_tree(dir, cache_bytes)
    }

    pub fn create(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        let kv = Kv::open_tree(dir, cache_bytes)?;
        kv.copy_list();
        Ok(kv)
    }

    fn open_tree(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        let seqno = SequenceNumberCounter::default();
        // We do not use the tree's MVCC: object locks already prevent stale reads.
        let tree = Config::new(dir, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .open()
            .map_err(|error| kv_error("the key-value store does not open", error))?;
        let next = tree.get_highest_persisted_seqno().map_or(1, |highest| highest + 1);
        seqno.set(next);
        Ok(Kv { dir: dir.to_owned(), tree, seqno, applying: RwLock::new(()) })
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.tree.get(key, NEWEST).map_err(|error| kv_error("a key cannot be read", error))?;
        Ok(value.map(Bytes::from))
    }

    /// All pairs whose key starts with `prefix` and is greater than `after`, in order.
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

    /// The keys from `start` up to but excluding `end` in every table, including keys that a newer
    /// table has removed. Each table is read on its own from both ends, up to the damage.
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

    /// Applies changes to the table in memory. The caller must hold the commit lock or be the only
    /// user.
    pub fn apply(&self, changes: Changes) {
        self.begin().apply(changes);
    }

    /// Assigns an operation its sequence number in the tree. The caller must hold the commit lock.
    /// It may release the lock before it applies the changes if another lock, such as the object's,
    /// protects the keys until then.
    pub fn begin(&self) -> PendingApply<'_> {
        let running = self.applying.read();
        PendingApply { kv: self, seqno: self.seqno.next(), _running: running }
    }

    /// Waits until all operations that have begun are applied. The caller must hold the commit
    /// lock, so that no operation begins meanwhile.
    pub fn settle(&self) {
        drop(self.applying.write());
    }

    /// Approximate size of the changes that [`Kv::seal`] would seal.
    pub fn changes_bytes(&self) -> u64 {
        self.tree.active_memtable().size()
    }

    /// Seals the table in memory. The caller must hold the commit lock, so that the sealed table
    /// ends between two operations.
    pub fn seal(&self) {
        self.settle();
        assert!(!self.applying.is_locked(), "a sealed table ends between two operations");
        self.tree.rotate_memtable();
    }

    pub fn fresh_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    pub fn merge_if_many(&self) -> Result<()> {
        // The tree counts the runs of a level in one byte.
        let runs = self.fresh_runs();
        if runs >= FRESH_RUNS_MAX
            && let Err(error) = self.compact()
            && (!changed_nothing(&error) || runs >= FRESH_RUNS_MAX_FULL)
        {
            return Err(error);
        }
        Ok(())
    }

    /// Writes the sealed tables to disk. They are durable afterwards.
    pub fn write_sealed(&self) -> Result<()> {
        self.or_undo("the key-value store cannot be written", || {
            let lock = self.tree.get_flush_lock();
            self.tree.flush(&lock, NEWEST)
        })
    }

    /// Merges tables until no merge is due.
    pub fn compact(&self) -> Result<()> {
        let strategy = Arc::new(lsm_tree::compaction::Leveled::default());
        loop {
            let before = (self.tree.table_count(), self.tree.l0_run_count());
            self.or_undo(NOT_COMPACTED, || self.tree.compact(Arc::clone(&strategy) as _, NEWEST))?;
            if (self.tree.table_count(), self.tree.l0_run_count()) == before {
                return Ok(());
            }
        }
    }

    /// Merges all tables, so that no tombstones remain.
    pub fn compact_fully(&self) -> Result<()> {
        self.or_undo(NOT_COMPACTED, || self.tree.major_compact(TABLE_BYTES_MAX, NEWEST))
    }

    /// Writes tables. If the disk is full, or a table that the merge reads is damaged, the function
    /// removes the tables written so far. The tree itself leaves them behind, so every attempt
    /// would take more space.
    ///
    /// # Errors
    /// `LimitExceeded` and `Corrupt` only if the list of tables on disk is unchanged. If it
    /// changed, the error becomes `Internal`, because the tree would overwrite a newer list.
    fn or_undo<T>(&self, message: &str, write: impl FnOnce() -> Result<T, lsm_tree::Error>) -> Result<()> {
        let (before, list_number) = (self.table_files(), self.tree.current_version().id());
        write().map(|_| self.copy_list()).map_err(|error| {
            let error = write_error(message, error);
            if !changed_nothing(&error) {
                return error;
            }
            // The write may have failed after it changed the list.
            if self.tree.current_version().id() != list_number
                || kv_files::list_number(&self.dir) != Some(list_number)
            {
                return error.with_kind(ErrorKind::Internal);
            }
            // Remove the unfinished tables and the unfinished next list of tables.
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
            tracing::warn!(%error, "the second copy of the list of tables cannot be written");
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

/// An operation with a sequence number whose changes are not applied yet.
pub(crate) struct PendingApply<'a> {
    kv: &'a Kv,
    seqno: SeqNo,
    _running: RwLockReadGuard<'a, ()>,
}

impl PendingApply<'_> {
    /// Applies the operation's changes to the table in memory. It consumes the sequence number, so
    /// it can happen only once.
    pub fn apply(self, changes: Changes) {
        for (key, value) in changes {
            match value {
                Some(value) => self.kv.tree.insert(key, value, self.seqno),
                None => self.kv.tree.remove(key, self.seqno),
            };
        }
    }
}

/// The first key after all keys with a prefix.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns true if a failed write of tables or of a log segment changed nothing. A full disk may
/// get space again, and unreadable tables stay as they are. After any other failure the state of
/// the data on disk is unknown.
pub(crate) fn changed_nothing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::Corrupt)
}

fn write_error(message: &str, error: lsm_tree::Error) -> Error {
    match error {
        lsm_tree::Error::Io(source) => Error::io(Action::Write, message, source),
        damage => Error::corrupt(message).with_source(damage),
    }
}

/// The error of a store that would have to be changed before it can be read.
pub(crate) fn must_recover() -> Error {
    Error::permission_denied(
        "the store was not closed, so its log must be replayed, and that needs write access; run `benthic fsck` once \
         where the store is writable, then repeat the command",
    )
}

pub(crate) fn malformed(what: &str) -> Error {
    Error::corrupt(format!("{what} cannot be decoded"))
}

#[cfg(test)]
#[path = "kv_tests.rs"]
mod tests;
