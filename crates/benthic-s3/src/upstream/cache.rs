//! Blocks of objects in a directory: bounded, and checked at each read.
//!
//! Each entry is a file whose name is the XXH3 of its key:
//!
//! ```text
//! BNTHCB01 | XXH3-128 of the rest | length of the key | key | data
//!     8              16                    4
//! ```
//!
//! A file that is damaged, torn or of another key is a miss, and is removed. So nothing is synced.
//! The order of use is in memory; at most once a minute, a use also sets the modification time of
//! the file, from which a restart restores the order. Rejected: a database, which would write
//! everything twice, and one large file, which needs an allocator.

use benthic_core::{Action, Environment, Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8; 8] = b"BNTHCB01";
/// The magic, the checksum and the length of the key.
const HEADER_BYTES: usize = 8 + 16 + 4;
/// Files take whole blocks of the file system.
const DISK_BLOCK_BYTES: u64 = 4_096;
/// Maximum number of entries; each needs about 100 bytes of memory.
const ENTRIES_MAX: usize = 1_000_000;
/// The smallest useful cache, in bytes.
const BYTES_MIN: u64 = 16 << 20;
/// Minimum time between two updates of a file's modification time.
const TOUCH_MS: u64 = 60_000;

/// The cache of one process.
pub(super) struct Cache {
    directory: PathBuf,
    bytes_max: u64,
    environment: Environment,
    state: Mutex<CacheState>,
    /// Locked, so that no other process uses the directory.
    _lock: File,
}

#[derive(Default)]
struct CacheState {
    entries: HashMap<u128, Entry>,
    /// The names of the entries, the least recently used one first.
    by_use: BTreeMap<u64, u128>,
    uses: u64,
    /// Bytes of all entries.
    bytes: u64,
    /// Bytes of writes in flight.
    reserved_bytes: u64,
}

struct Entry {
    disk_bytes: u64,
    used: u64,
    touched_ms: u64,
}

/// Room for a write in flight. It counts towards the bound of the cache.
pub(super) struct Reservation {
    cache: Arc<Cache>,
    bytes: u64,
}

fn file_error(message: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(Action::Write, message, error).with("path", path.display())
}

impl CacheState {
    fn insert(&mut self, name: u128, disk_bytes: u64, touched_ms: u64) {
        self.remove(name);
        self.uses += 1;
        self.by_use.insert(self.uses, name);
        self.bytes += disk_bytes;
        self.entries.insert(name, Entry { disk_bytes, used: self.uses, touched_ms });
    }

    fn remove(&mut self, name: u128) {
        if let Some(entry) = self.entries.remove(&name) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.disk_bytes;
        }
    }

    /// Removes the least recently used entries until there is room for more. Returns their names.
    fn evict(&mut self, bytes_max: u64, more_bytes: u64) -> Vec<u128> {
        let mut evicted = Vec::new();
        while self.bytes + self.reserved_bytes + more_bytes > bytes_max || self.entries.len() >= ENTRIES_MAX {
            let Some((_, name)) = self.by_use.first_key_value() else { break };
            let name = *name;
            self.remove(name);
            evicted.push(name);
        }
        evicted
    }
}

impl Cache {
    /// Opens the cache in a directory, and creates the directory if necessary.
    ///
    /// # Errors
    /// `InvalidArgument` if the bound is too small; `Busy` if another process uses the directory;
    /// those of the file system.
    pub fn open(directory: &Path, bytes_max: u64, environment: Environment) -> Result<Arc<Cache>> {
        if bytes_max < BYTES_MIN {
            return Err(Error::invalid_argument("the cache is too small")
                .with("bytes", bytes_max)
                .with("bytes_min", BYTES_MIN));
        }
        let blocks = directory.join("blocks");
        fs::create_dir_all(&blocks)
            .map_err(|error| file_error("cannot create the directory of the cache", &blocks, error))?;
        let path = directory.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|error| file_error("cannot open the lock of the cache", &path, error))?;
        if lock.try_lock().is_err() {
            return Err(Error::busy("another process uses the cache; pass another --cache")
                .with("path", directory.display()));
        }
        let cache = Cache { directory: blocks, bytes_max, environment, state: Mutex::default(), _lock: lock };
        cache.scan().map_err(|error| file_error("cannot read the cache", directory, error))?;
        Ok(Arc::new(cache))
    }

    /// Finds the files of earlier processes, and removes those that are no entries.
    fn scan(&self) -> std::io::Result<()> {
        let mut found = Vec::new();
        for number in 0..=u8::MAX {
            let directory = self.directory.join(format!("{number:02x}"));
            fs::create_dir_all(&directory)?;
            for file in fs::read_dir(&directory)? {
                let file = file?;
                let name = file.file_name().into_string().ok();
                let name = name.filter(|name| name.len() == 32);
                let name = name.and_then(|name| u128::from_str_radix(&name, 16).ok());
                let metadata = file.metadata()?;
                match name.filter(|_| metadata.is_file()) {
                    Some(name) => found.push((metadata.modified()?, name, disk_bytes(metadata.len()))),
                    // A file that was being written.
                    None => drop(fs::remove_file(file.path())),
                }
            }
        }
        found.sort_unstable();
        let evicted = {
            let mut state = self.state.lock();
            let mut evicted = Vec::new();
            for (modified, name, disk_bytes) in found {
                let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
                let touched_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
                evicted.extend(state.evict(self.bytes_max, disk_bytes));
                state.insert(name, disk_bytes, touched_ms);
            }
            evicted
        };
        evicted.into_iter().for_each(|name| self.remove_file(name));
        Ok(())
    }

    fn path(&self, name: u128) -> PathBuf {
        let name = format!("{name:032x}");
        self.directory.join(&name[..2]).join(&name)
    }

    fn remove_file(&self, name: u128) {
        // Without the file, the entry is gone as well.
        let _ = fs::remove_file(self.path(name));
    }

    /// Bytes that the cache takes on disk, without writes in flight.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Whether there is an entry, which may be damaged.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.state.lock().entries.contains_key(&xxh3_128(key))
    }

    /// Reads an entry; `None` if there is none or it is damaged. Blocks.
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        let name = xxh3_128(key);
        if !self.contains(key) {
            return None;
        }
        if let Some(set_time) = self.touch(key) {
            set_time(self);
        }
        let data = self.read(name, key);
        if data.is_none() {
            self.remove(key);
        }
        data
    }

    /// Notes a use of an entry, if there is one. The result, if any, sets the modification time of
    /// the file; it blocks.
    pub fn touch(&self, key: &[u8]) -> Option<impl FnOnce(&Cache) + Send + use<>> {
        let name = xxh3_128(key);
        let now_ms = self.environment.unix_ms();
        let mut state = self.state.lock();
        let CacheState { entries, by_use, uses, .. } = &mut *state;
        let entry = entries.get_mut(&name)?;
        by_use.remove(&entry.used);
        *uses += 1;
        entry.used = *uses;
        by_use.insert(entry.used, name);
        if now_ms.saturating_sub(entry.touched_ms) < TOUCH_MS {
            return None;
        }
        entry.touched_ms = now_ms;
        Some(move |cache: &Cache| {
            // Only the order after a restart depends on it.
            let _ = File::options()
                .write(true)
                .open(cache.path(name))
                .and_then(|file| file.set_modified(UNIX_EPOCH + Duration::from_millis(now_ms)));
        })
    }

    fn read(&self, name: u128, key: &[u8]) -> Option<Bytes> {
        let mut file = File::open(self.path(name)).ok()?;
        let size = file.metadata().ok()?.len();
        // Only files of this process are that long, so a damaged length takes no memory.
        let mut data = Vec::with_capacity(usize::try_from(size.min(self.bytes_max)).ok()?);
        file.read_to_end(&mut data).ok()?;
        let at = check(&data, key)?;
        Some(Bytes::from(data).slice(at..))
    }

    /// Stores an entry, and evicts others if necessary. Blocks. A cache that cannot store it only
    /// costs a later read.
    pub fn put(&self, key: &[u8], data: &[u8]) {
        let name = xxh3_128(key);
        let disk_bytes = disk_bytes((HEADER_BYTES + key.len() + data.len()) as u64);
        let evicted = {
            let mut state = self.state.lock();
            if state.reserved_bytes + disk_bytes > self.bytes_max {
                return;
            }
            state.remove(name);
            let evicted = state.evict(self.bytes_max, disk_bytes);
            state.reserved_bytes += disk_bytes;
            evicted
        };
        evicted.into_iter().for_each(|name| self.remove_file(name));
        let written = self.write(name, key, data);
        let now_ms = self.environment.unix_ms();
        let mut state = self.state.lock();
        state.reserved_bytes -= disk_bytes;
        match written {
            Ok(()) => state.insert(name, disk_bytes, now_ms),
            Err(error) => {
                drop(state);
                self.remove_file(name);
                tracing::warn!(%error, directory = %self.directory.display(), "cannot write to the cache");
            }
        }
    }

    fn write(&self, name: u128, key: &[u8], data: &[u8]) -> std::io::Result<()> {
        let path = self.path(name);
        let key_len = u32::try_from(key.len()).map_err(std::io::Error::other)?;
        let mut rest = Vec::with_capacity(4 + key.len() + data.len());
        rest.extend_from_slice(&key_len.to_le_bytes());
        rest.extend_from_slice(key);
        rest.extend_from_slice(data);
        let directory = path.parent().unwrap_or(&self.directory);
        let mut file = tempfile::Builder::new().prefix("new-").tempfile_in(directory)?;
        file.write_all(MAGIC)?;
        file.write_all(&xxh3_128(&rest).to_le_bytes())?;
        file.write_all(&rest)?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes an entry. Blocks.
    pub fn remove(&self, key: &[u8]) {
        let name = xxh3_128(key);
        self.state.lock().remove(name);
        self.remove_file(name);
    }

    /// Begins a write that will take room in the directory.
    pub fn reserve(self: &Arc<Cache>) -> Reservation {
        Reservation { cache: Arc::clone(self), bytes: 0 }
    }

    /// Room for a file that is in the directory already, also beyond the bound.
    pub fn reserve_always(self: &Arc<Cache>, bytes: u64) -> Reservation {
        let evicted = {
            let mut state = self.state.lock();
            let evicted = state.evict(self.bytes_max, bytes);
            state.reserved_bytes += bytes;
            evicted
        };
        evicted.into_iter().for_each(|name| self.remove_file(name));
        Reservation { cache: Arc::clone(self), bytes }
    }

    /// The directory for the files of writes in flight, which have no names there.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Reservation {
    /// Takes more room. Blocks.
    ///
    /// # Errors
    /// `Busy` if all writes in flight would take more than the bound.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        let evicted = {
            let mut state = self.cache.state.lock();
            if state.reserved_bytes + bytes > self.cache.bytes_max {
                return Err(Error::busy("the writes that wait for the upstream fill the cache; try again later, or raise --cache-bytes",
                )
                .with_op(super::UPSTREAM)
                .with("bytes_max", self.cache.bytes_max));
            }
            let evicted = state.evict(self.cache.bytes_max, bytes);
            state.reserved_bytes += bytes;
            evicted
        };
        self.bytes += bytes;
        evicted.into_iter().for_each(|name| self.cache.remove_file(name));
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.cache.state.lock().reserved_bytes -= self.bytes;
    }
}

fn disk_bytes(len_bytes: u64) -> u64 {
    len_bytes.div_ceil(DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES
}

/// Returns where the data of an entry begin, if the file is sound and has this key.
fn check(file: &[u8], key: &[u8]) -> Option<usize> {
    let rest = file.strip_prefix(MAGIC)?;
    let (sum, rest) = rest.split_first_chunk::<16>()?;
    if u128::from_le_bytes(*sum) != xxh3_128(rest) {
        return None;
    }
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    (rest.get(..len)? == key).then_some(HEADER_BYTES + len)
}
