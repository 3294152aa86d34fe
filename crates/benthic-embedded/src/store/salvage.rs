//! Reads the intact parts of a damaged store, even of one that no longer opens.
//!
//! Salvage writes nothing to the store. Opening the key-value store and the log would change them,
//! so it copies both first. Data that log replay would write to the data file stays in memory. All
//! checksums are verified as usual, so damaged data never passes for intact. Only object names can
//! be missed, and salvage reports that.

use super::alloc::Allocator;
use super::data::{DataFile, Source};
use super::dir::Dir;
use super::disk::Disk;
use super::engine::{Replay, pools};
use super::keys::{self, Onode};
use super::kv::Kv;
use super::kv_files;
use super::log::{self, Log};
use super::object::Object;
use crate::listing;
use benthic_core::{Action, Error, Finding, ObjectAccess, ObjectId, OmapPage, Result, limits};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Maximum number of key positions at which salvage looks for intact entries inside a damaged
/// range.
const PLACES_MAX: usize = 4_096;
/// Copy unit. An unreadable sector loses at most this much.
const COPY_BYTES: usize = 4_096;

/// A damaged store, open for reading.
pub(crate) struct DamagedStore {
    disk: Disk,
    /// The pool names that could be read.
    pools: BTreeMap<u32, String>,
    /// Its lock keeps other processes out.
    _dir: Dir,
}

pub(crate) struct ObjectReader<'a> {
    disk: &'a Disk,
    onode: Onode,
    object: Object<'a>,
}

impl DamagedStore {
    /// Opens the store in `dir`. `work` must be new and receives the copies. Losses are added to
    /// `lost`.
    ///
    /// # Errors
    /// `Busy` if a process owns the store, `Corrupt` if nothing of it can be read.
    pub fn open(dir: &Path, work: &Path, cache_bytes: u64, lost: &mut Vec<Finding>) -> Result<DamagedStore> {
        let dir = Dir::open_damaged(dir, lost)?;
        let (kv_copy, log_copy) = (work.join("kv"), work.join("log"));
        let mut note = |message: String| lost.push(Finding { object: None, message });
        for (from, to) in [(dir.kv(), &kv_copy), (dir.log(), &log_copy)] {
            if let Err(error) = copy(&from, to) {
                note(format!(
                    "a directory of the store cannot be read completely: {error} path={}",
                    from.display()
                ));
            }
        }
        if let Err(error) = kv_files::verify(&kv_copy)
            && kv_files::restore_list(&kv_copy)
        {
            note(format!("{error}; the copy of the list of tables is used"));
        }
        let first_lsn = log::first_lsn(&log_copy)?;
        let (kv, meta) = match Kv::open(&kv_copy, cache_bytes) {
            Ok(kv) => {
                let meta = kv.meta();
                (kv, meta)
            }
            // A log that starts with the very first operation holds everything.
            Err(error) if first_lsn == Some(1) => {
                note(format!("{error}; everything else here comes from the log"));
                (Kv::create(&work.join("kv-from-log"), cache_bytes)?, Ok(keys::Meta::default()))
            }
            Err(error) => return Err(error),
        };
        // Replaying operations that the key-value store already has is harmless if the replay
        // reaches the end.
        let unknown = meta.as_ref().err().map(ToString::to_string);
        let applied_lsn = meta.map_or_else(|_| first_lsn.unwrap_or(1) - 1, |meta| meta.applied_lsn);
        let mut allocator = Allocator::default();
        let mut replay = Replay::new(&kv, &mut allocator, 1);
        let replayed = Log::open(&log_copy, applied_lsn, dir.closed_lsn(), |_, record| replay.record(record));
        replay.apply();
        let mut blocks = replay.blocks;
        let kv = match (replayed, unknown) {
            (Ok(_), None) => kv,
            (Ok(_), Some(error)) => {
                note(format!("{error}; the log was replayed from its start"));
                kv
            }
            (Err(error), None) => {
                note(format!(
                    "{error}; operations after the damage are lost; objects are as they were before"
                ));
                kv
            }
            (Err(error), Some(_)) => {
                note(format!("{error}; all operations in the log are lost; objects are as they were before"));
                drop(kv);
                blocks.clear();
                Kv::open(&kv_copy, cache_bytes)?
            }
        };
        let data = DataFile::open_with_overlay(&dir.data(), blocks.clone()).or_else(|error| {
            note(format!("{error}; only data in the metadata and in the log is left"));
            let empty = work.join("data");
            File::create(&empty)
                .map_err(|e| Error::io(Action::Admin, "a temporary file cannot be created", e))?;
            DataFile::open_with_overlay(&empty, blocks)
        })?;
        let pools = pools(&kv).map_or_else(
            |error| {
                note(format!("the names of the pools are lost: {error}"));
                BTreeMap::new()
            },
            |pools| pools.into_values().map(|pool| (pool.id, pool.name.clone())).collect(),
        );
        Ok(DamagedStore {
            disk: Disk { kv, data, allocator: Mutex::new(allocator), next_id: 1.into() },
            pools,
            _dir: dir,
        })
    }

    /// The pools whose names are known, by number.
    pub fn pools(&self) -> impl Iterator<Item = (u32, &str)> {
        self.pools.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// The name of a pool, or a generated name if it is lost.
    pub fn pool_name(&self, id: u32) -> String {
        self.pools.get(&id).cloned().unwrap_or_else(|| format!("lost-pool-{id}"))
    }

    /// Calls `found` with the pool and name of every object whose name can be read. Returns true if
    /// the list of names is damaged.
    ///
    /// # Errors
    /// The errors of `found`.
    pub fn objects(&self, found: &mut dyn FnMut(u32, ObjectId) -> Result<()>) -> Result<bool> {
        let removed = self.removed_pools();
        let mut each = |key: &[u8]| {
            let pool =
                key.get(1..keys::ONODE_ID_AT).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
            match (pool, key.get(keys::ONODE_ID_AT..).and_then(listing::decode)) {
                (Some(pool), Some(id)) if !removed.contains(&pool) => found(pool, id),
                _ => Ok(()),
            }
        };
        find_keys(&self.disk.kv, vec![keys::PREFIX_ONODE], vec![keys::PREFIX_ONODE + 1], &mut each)
    }

    fn removed_pools(&self) -> Vec<u32> {
        let entries = self.disk.kv.scan(&[keys::PREFIX_REMOVED_POOL], None).map_while(Result::ok);
        entries.filter_map(|(key, _)| Some(u32::from_be_bytes(key.get(1..)?.try_into().ok()?))).collect()
    }

    /// Opens an object for reading. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn object(&self, pool: u32, id: &ObjectId) -> Result<Option<ObjectReader<'_>>> {
        let onode = self.disk.onode(pool, id)?;
        Ok(onode.map(|onode| ObjectReader {
            disk: &self.disk,
            object: Object::new(&self.disk, Vec::new(), Some(onode.clone()), 0, Source::Disk),
            onode,
        }))
    }
}

impl ObjectReader<'_> {
    pub fn size_bytes(&self) -> u64 {
        self.onode.size_bytes
    }

    pub fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.disk.read(&self.onode, offset_bytes, len_bytes, Source::Disk)
    }

    pub fn xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        self.object.list_xattrs()
    }

    pub fn omap(&mut self, after: Option<&[u8]>) -> Result<OmapPage> {
        self.object.omap_range(after, b"", limits::OMAP_PAGE_ENTRIES_MAX)
    }
}

/// Finds the keys from `start` up to but excluding `end`, also on both sides of damage and between
/// damaged places. Returns true if damage hides keys.
///
/// The search runs forwards up to the first damage, then backwards down to the last damage. It then
/// splits the range between them in the middle and searches both halves, widest ranges first. It
/// never continues an iterator after an error: without the damaged part, the merged result may be
/// stale. For ranges that cannot be split further, it reads the keys of every table separately.
fn find_keys(
    kv: &Kv,
    start: Vec<u8>,
    end: Vec<u8>,
    found: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<bool> {
    let mut between = VecDeque::from([(start, end)]);
    let mut hidden = Vec::new();
    for _ in 0..PLACES_MAX {
        let Some((mut start, mut end)) = between.pop_front() else { break };
        let mut whole = true;
        for entry in kv.range(Bound::Included(start.clone()), Bound::Excluded(end.clone())) {
            let Ok((key, _)) = entry else {
                whole = false;
                break;
            };
            found(&key)?;
            start = [&key[..], &[0]].concat();
        }
        if whole {
            continue;
        }
        for entry in kv.range(Bound::Included(start.clone()), Bound::Excluded(end.clone())).rev() {
            let Ok((key, _)) = entry else { break };
            found(&key)?;
            end = key.to_vec();
        }
        match middle(&start, &end) {
            Some(middle) => between.extend([(start, middle.clone()), (middle, end)]),
            None => hidden.push((start, end)),
        }
    }
    hidden.extend(between);
    for (start, end) in &hidden {
        for key in kv.keys_by_table(start, end) {
            found(&key)?;
        }
    }
    Ok(!hidden.is_empty())
}

/// A key about half way between two others. There is none if they differ in less than the first
/// eight bytes after their common prefix.
fn middle(start: &[u8], end: &[u8]) -> Option<Vec<u8>> {
    let shared = start.iter().zip(end).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let tail = key.get(shared..).unwrap_or_default();
        let len = tail.len().min(8);
        bytes[..len].copy_from_slice(&tail[..len]);
        u64::from_be_bytes(bytes)
    };
    let (low, high) = (number(start), number(end));
    let half = low + high.saturating_sub(low) / 2;
    let key = [&end[..shared], &half.to_be_bytes()].concat();
    (half > low && half < high && key.as_slice() > start && key.as_slice() < end).then_some(key)
}

/// Copies a file. Unreadable parts become zeros, which fail every checksum.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    let len_bytes = from.metadata()?.len();
    let mut block = vec![0; COPY_BYTES];
    let mut outcome = Ok(());
    for at in (0..len_bytes).step_by(COPY_BYTES) {
        let part = &mut block[..(len_bytes - at).min(COPY_BYTES as u64) as usize];
        if let Err(error) = from.read_exact_at(part, at) {
            part.fill(0);
            outcome = outcome.and(Err(error));
        }
        to.write_all_at(part, at)?;
    }
    outcome
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let unreadable = |e| Error::io(Action::Admin, "a file cannot be copied", e).with("path", from.display());
    fs::create_dir_all(to).map_err(unreadable)?;
    let mut outcome = Ok(());
    for entry in fs::read_dir(from).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let copied = match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&path, &target),
            _ => copy_file(&path, &target).map_err(|e| {
                Error::io(Action::Admin, "a file cannot be copied", e).with("path", path.display())
            }),
        };
        outcome = outcome.and(copied);
    }
    outcome
}
