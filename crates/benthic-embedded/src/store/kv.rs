//! The key-value store: one LSM tree, without a journal of its own. The engine's log is its journal.
//!
//! What it holds on disk is always the state after one log sequence number, which [`keys::META`] names: a
//! checkpoint seals the table in memory under the commit lock and writes it out as a whole.

use super::keys;
use super::log::sync_dir;
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, Guard, SeqNo, SequenceNumberCounter};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Reads always see the newest value; objects are kept stable by the engine's locks.
const NEWEST: SeqNo = SeqNo::MAX >> 1;

pub(crate) struct Kv {
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    visible: SequenceNumberCounter,
}

/// Tables written by checkpoints and not merged yet.
const FRESH_RUNS_MAX: usize = 8;

/// Changes of one operation; `None` removes.
pub(crate) type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

impl Kv {
    /// Opens the tree, which [`Kv::create`] made.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        super::kv_files::verify(dir)?;
        // Whoever wrote the list of tables may have ended, or failed, before its names were durable; the log is cut by it.
        sync_dir(&dir.join("tables"))?;
        sync_dir(dir)?;
        Kv::create(dir, cache_bytes)
    }

    pub fn create(dir: &Path, cache_bytes: u64) -> Result<Kv> {
        let (seqno, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
        let tree = Config::new(dir, seqno.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .open()
            .map_err(|error| kv_error("the key-value store does not open", error))?;
        let next = tree.get_highest_persisted_seqno().map_or(1, |highest| highest + 1);
        seqno.set(next);
        visible.set(next);
        Ok(Kv { tree, seqno, visible })
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
        self.tree.range::<Vec<u8>, _>((start, end), NEWEST, None).map(|entry| {
            let (key, value) =
                entry.into_inner().map_err(|error| kv_error("a range cannot be read", error))?;
            Ok((Bytes::from(key), Bytes::from(value)))
        })
    }

    /// Applies changes to the table in memory. Callers hold the commit lock.
    pub fn apply(&self, changes: Changes) {
        let seqno = self.seqno.next();
        for (key, value) in changes {
            match value {
                Some(value) => self.tree.insert(key, value, seqno),
                None => self.tree.remove(key, seqno),
            };
        }
        self.visible.fetch_max(seqno + 1);
    }

    /// Seals the table in memory. Callers hold the commit lock, so that it ends between two operations.
    pub fn seal(&self) {
        self.tree.rotate_memtable();
    }

    /// Writes what was sealed to disk, durably, and merges tables before there are too many.
    pub fn write_sealed(&self) -> Result<()> {
        // The crate counts the runs of a level in a byte.
        if self.tree.l0_run_count() >= FRESH_RUNS_MAX {
            self.compact()?;
        }
        let lock = self.tree.get_flush_lock();
        let written = self.tree.flush(&lock, self.seqno.get());
        drop(lock);
        written.map_err(|error| write_error("the key-value store cannot be written", error))?;
        Ok(())
    }

    /// Merges tables until nothing more is due.
    pub fn compact(&self) -> Result<()> {
        let strategy = Arc::new(lsm_tree::compaction::Leveled::default());
        loop {
            let before = (self.tree.table_count(), self.tree.l0_run_count());
            self.tree
                .compact(Arc::clone(&strategy) as _, self.seqno.get())
                .map_err(|error| write_error("the key-value store cannot be compacted", error))?;
            if (self.tree.table_count(), self.tree.l0_run_count()) == before {
                return Ok(());
            }
        }
    }

    pub fn meta(&self) -> Result<keys::Meta> {
        match self.get(keys::META)? {
            None => Ok(keys::Meta { applied_lsn: 0, next_id: 1 }),
            Some(value) => keys::Meta::decode(value).map_err(|_| malformed("the key-value store's position")),
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

pub(crate) fn kv_error(message: &str, error: lsm_tree::Error) -> Error {
    use std::io::ErrorKind as Io;
    match error {
        // The tree's own files, or parts of them, are missing.
        lsm_tree::Error::Io(source)
            if matches!(source.kind(), Io::NotFound | Io::UnexpectedEof | Io::InvalidData) =>
        {
            Error::new(ErrorKind::Corrupt, message).with_source(source)
        }
        lsm_tree::Error::Io(source) => Error::io(Action::Read, message, source),
        damage => Error::new(ErrorKind::Corrupt, message).with_source(damage),
    }
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
