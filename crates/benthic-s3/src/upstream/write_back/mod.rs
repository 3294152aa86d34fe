//! Write-back: changes of objects that are durable in a directory before they are at the upstream.
//!
//! Each change is a file ([`file`]) in `pending/`, beside the blocks of the cache. The changes of a
//! key go to the upstream in their order ([`upload`]); those of different keys go at the same time.
//! A file is removed, durably, when the upstream has confirmed its change. So a crash at any point
//! leaves changes that the next start sends, at worst once more, with the same data.
//!
//! Reads see the last pending change of a key ([`find`](WriteBack::find)), and listings contain
//! them (`listing.rs`). A change that only the upstream can decide or make waits until its key has
//! no pending changes, so nothing overtakes them. That is each change in a bucket with versions, a
//! copy, the completion of an upload, and a condition on an object without pending changes.
//!
//! If somebody else changes an object at the upstream while a change of it is pending, the pending
//! change replaces that one: the last writer wins. Rejected: a condition on the state at the
//! upstream. A failed condition would lose an acknowledged write.

pub(super) mod file;
mod status;
mod upload;

pub use status::{PendingStatus, pending_status};

use super::blocks::Blocks;
use super::cache::Reservation;
use super::head::seq_of;
use super::{UPSTREAM, UpstreamMetrics, objects_error};
use crate::sal::{Attributes, Condition, ListedVersion, Lock, Object, Reader, VersionId, WriteResult};
use benthic_core::{Action, Environment, Error, ErrorKind, Result};
use bytes::Bytes;
use file::{BLOCK_BYTES, NEW, Record};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock};
use tokio::task::JoinHandle;

/// Maximum number of pending changes.
const CHANGES_MAX: usize = 100_000;
/// Maximum size of all records in memory, in bytes.
const RECORDS_BYTES_MAX: usize = 64 << 20;
/// How long a change that needs the upstream waits for the pending changes of its key.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// The longest time between two attempts is this many times the shortest.
const BACK_OFF_MAX: u32 = 64;
const IN_DELETION: &str = "the bucket is being deleted; try again later";
/// Changes of this many groups of keys are ordered at the same time.
const STRIPES: usize = 64;

/// The bucket at the upstream, and the key.
type Key = (String, String);

/// A pending change.
pub(super) struct Pending {
    /// Its place in the order of all changes, and the name of its file.
    seq: u64,
    pub record: Record,
    /// Whether the upstream has the change, and only its file remains to be removed.
    is_sent: AtomicBool,
    /// Room in the cache's bound.
    _room: Reservation,
}

impl Pending {
    fn new(seq: u64, record: Record, room: Reservation) -> Arc<Pending> {
        Arc::new(Pending { seq, record, is_sent: AtomicBool::new(false), _room: room })
    }

    fn key(&self) -> Key {
        (self.record.bucket.clone(), self.record.key.clone())
    }

    fn name(&self) -> String {
        format!("{:016x}", self.seq)
    }

    /// An estimate of its size in memory, in bytes.
    fn memory_bytes(record: &Record) -> usize {
        let attributes: usize = record.attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        512 + record.key.len() + attributes + record.sums.len() * 8
    }

    /// The object that the change creates, with its data.
    fn object(self: &Arc<Self>, file: File) -> Object {
        let size_bytes = self.record.size_bytes;
        Object {
            key: self.record.key.clone(),
            version: VersionId::Null,
            marker: false,
            size_bytes,
            modified_ms: self.record.changed_ms,
            etag: self.record.etag.clone(),
            class: None,
            attributes: self.record.attributes(),
            lock: Lock::default(),
            revision: 0,
            write: self.record.write(),
            part_bytes: if size_bytes == 0 { Vec::new() } else { vec![size_bytes] },
            location: Arc::new(PendingData { pending: Arc::clone(self), file: Arc::new(file) }),
        }
    }

    /// The object in a listing.
    pub fn list_entry(&self) -> ListedVersion {
        ListedVersion {
            key: self.record.key.clone(),
            current: true,
            version: VersionId::Null,
            seq: seq_of("null"),
            marker: false,
            size_bytes: self.record.size_bytes,
            modified_ms: self.record.changed_ms,
            etag: self.record.etag.clone(),
            class: None,
            write: self.record.write(),
            revision: 0,
        }
    }
}

/// The location of the data of a pending object. The file is open, so it can be removed meanwhile;
/// changes have no open files of their own, because there may be more than a process can have.
pub(super) struct PendingData {
    pending: Arc<Pending>,
    file: Arc<File>,
}

/// Data for a change, in memory or in a file.
pub(super) enum Data {
    Memory(Bytes),
    File(NamedTempFile, Reservation),
}

/// The changes for which a request waits. Buckets have their names at the upstream.
#[derive(Clone, Copy)]
pub(super) enum Drain<'a> {
    Key(&'a str, &'a str),
    Bucket(&'a str),
    All,
}

/// The outcome of [`WriteBack::add`].
pub(super) enum Added {
    Stored(WriteResult),
    /// Only the upstream can decide the condition. The file begins with the data.
    Undecided(NamedTempFile, Reservation),
}

/// The changes of a key.
#[derive(Default)]
struct OfKey {
    /// In their order.
    changes: Vec<Arc<Pending>>,
    is_running: bool,
    /// Failed attempts to send the first change.
    attempts: u32,
    /// When the first change may be sent.
    due_ms: u64,
}

impl OfKey {
    /// The time and the number of the change that may be sent next.
    fn due(&self) -> Option<(u64, u64)> {
        let first = self.changes.first().filter(|_| !self.is_running)?;
        Some((self.due_ms, first.seq))
    }
}

#[derive(Default)]
struct WriteBackState {
    /// Without a change only while an upload of the key runs.
    by_key: BTreeMap<Key, OfKey>,
    by_seq: BTreeMap<u64, Arc<Pending>>,
    /// [`OfKey::due`] of all keys.
    due: BTreeSet<(u64, u64)>,
    /// Keys whose last attempt failed.
    failing: usize,
    /// Buckets that are being deleted.
    closed: HashSet<String>,
    /// No upload begins before this time, because the upstream cannot be reached.
    paused_until_ms: u64,
    /// When the last error was noted for operators.
    noted_ms: u64,
    next_seq: u64,
    memory_bytes: usize,
    /// Bytes of the data of all changes.
    bytes: u64,
}

impl WriteBackState {
    /// Changes the entry of a key.
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut OfKey)) {
        let of_key = self.by_key.entry(key.clone()).or_default();
        if let Some(due) = of_key.due() {
            self.due.remove(&due);
        }
        self.failing -= usize::from(of_key.attempts > 0);
        change(of_key);
        self.failing += usize::from(of_key.attempts > 0);
        if let Some(due) = of_key.due() {
            self.due.insert(due);
        } else if of_key.changes.is_empty() && !of_key.is_running {
            self.by_key.remove(key);
        }
    }

    fn insert(&mut self, pending: Arc<Pending>, now_ms: u64) {
        self.memory_bytes += Pending::memory_bytes(&pending.record);
        self.bytes += pending.record.size_bytes;
        self.by_seq.insert(pending.seq, Arc::clone(&pending));
        self.change(&pending.key(), |of_key| {
            if of_key.changes.is_empty() {
                of_key.due_ms = now_ms;
            }
            let at = of_key.changes.partition_point(|other| other.seq < pending.seq);
            of_key.changes.insert(at, pending);
        });
    }

    /// The change that has been due for the longest time. An upload of it runs from now on.
    fn start_next(&mut self, now_ms: u64) -> Option<Arc<Pending>> {
        let (due_ms, seq) = self.due.first().copied()?;
        let next = self.by_seq.get(&seq).filter(|_| due_ms <= now_ms).cloned()?;
        self.change(&next.key(), |of_key| of_key.is_running = true);
        Some(next)
    }

    /// The upload of a key has ended.
    fn end(&mut self, key: &Key) {
        self.change(key, |of_key| of_key.is_running = false);
    }

    /// An attempt to send the first change of a key failed. It is repeated after a delay that grows
    /// from `base_ms`.
    fn retry_later(&mut self, key: &Key, now_ms: u64, base_ms: u64) {
        self.change(key, |of_key| {
            let factor = 2_u32.saturating_pow(of_key.attempts).min(BACK_OFF_MAX);
            of_key.due_ms = now_ms.saturating_add(base_ms.saturating_mul(factor.into()));
            of_key.attempts = of_key.attempts.saturating_add(1);
        });
    }

    fn remove(&mut self, pending: &Pending, now_ms: u64) {
        let key = pending.key();
        if self.by_seq.remove(&pending.seq).is_some() {
            self.memory_bytes -= Pending::memory_bytes(&pending.record);
            self.bytes -= pending.record.size_bytes;
        }
        self.change(&key, |of_key| {
            of_key.changes.retain(|other| other.seq != pending.seq);
            // The next change waited for this one.
            (of_key.attempts, of_key.due_ms) = (0, now_ms);
        });
    }

    /// Whether a key, any key of a bucket, or anything has pending changes.
    fn has_changes(&self, bucket: Option<&str>, key: Option<&str>) -> bool {
        match (bucket, key) {
            (None, _) => !self.by_seq.is_empty(),
            (Some(bucket), None) => {
                let of_bucket = self.by_key.range((bucket.to_owned(), String::new())..);
                let mut of_bucket = of_bucket.take_while(|((of, _), _)| of == bucket);
                of_bucket.any(|(_, of_key)| !of_key.changes.is_empty())
            }
            (Some(bucket), Some(key)) => self.last(&(bucket.to_owned(), key.to_owned())).is_some(),
        }
    }

    fn last(&self, key: &Key) -> Option<&Arc<Pending>> {
        self.by_key.get(key)?.changes.last()
    }
}

/// The pending changes of a gateway.
pub(super) struct WriteBack {
    directory: PathBuf,
    origin: String,
    blocks: Arc<Blocks>,
    metrics: Arc<UpstreamMetrics>,
    environment: Environment,
    state: Mutex<WriteBackState>,
    /// Order the changes of a key, from the check of a condition until the change is durable.
    stripes: Vec<tokio::sync::Mutex<()>>,
    /// Changes that are being added hold it shared, until they are in the state.
    adding: Arc<RwLock<()>>,
    signals: Arc<Signals>,
    /// Tells that a change is at the upstream.
    settled: Notify,
    uploads: Mutex<Option<JoinHandle<()>>>,
    /// Orders the notes for operators. It is locked before the state.
    noting: Mutex<()>,
}

/// Wakes the uploads. They do not keep the queue, so that a gateway that is dropped releases its
/// cache.
#[derive(Default)]
struct Signals {
    /// There is a new change.
    added: Notify,
    /// The gateway ends.
    stopping: Notify,
}

impl WriteBack {
    /// Finds the changes of earlier processes, and begins to send them.
    ///
    /// # Errors
    /// `InvalidArgument` if there are changes for another upstream; those of the file system.
    pub fn open(
        cache: &Path,
        origin: String,
        blocks: Arc<Blocks>,
        environment: Environment,
    ) -> Result<Arc<WriteBack>> {
        let directory = cache.join(status::PENDING);
        let unusable = |error| {
            Error::io(Action::Write, "cannot use the directory of pending changes", error)
                .with("path", directory.display())
        };
        fs::create_dir_all(&directory).map_err(unusable)?;
        file::sync_directory(cache)?;
        // The directory of the cache may be new, too.
        let path = fs::canonicalize(cache).map_err(unusable)?;
        match path.parent().map(file::sync_directory) {
            // Somebody else created the directory if this user may not read the parent.
            Some(Err(error)) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        let metrics = Arc::clone(&blocks.metrics);
        let mut state = WriteBackState { next_seq: 1, ..WriteBackState::default() };
        for entry in fs::read_dir(&directory).map_err(unusable)? {
            let entry = entry.map_err(unusable)?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.starts_with(NEW) {
                // Its write was not acknowledged.
                fs::remove_file(&path).map_err(unusable)?;
            }
            let Some(seq) = status::seq_of_name(&name) else { continue };
            state.next_seq = state.next_seq.max(seq + 1);
            match file::open(&path) {
                Ok((record, _, _)) if record.origin != origin => {
                    let message = "the cache has pending changes for another upstream; serve that one until they are there";
                    return Err(Error::invalid_argument(message)
                        .with("upstream", record.origin)
                        .with("cache", cache.display()));
                }
                Ok((record, _, disk_bytes)) => {
                    let room = blocks.cache.reserve_always(disk_bytes);
                    state.insert(Pending::new(seq, record, room), 0);
                }
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    set_aside(&directory, &name, &metrics, &error)?;
                }
                Err(error) => return Err(error),
            }
        }
        // A number in use there would replace a file that is kept.
        match fs::read_dir(directory.join(status::DAMAGED)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            entries => {
                for entry in entries.map_err(unusable)? {
                    let name = entry.map_err(unusable)?.file_name();
                    if let Some(seq) = status::seq_of_name(&name.to_string_lossy()) {
                        state.next_seq = state.next_seq.max(seq + 1);
                    }
                }
            }
        }
        if !state.by_seq.is_empty() {
            tracing::info!(changes = state.by_seq.len(), "changes of an earlier run go to the upstream");
        }
        let write_back = Arc::new(WriteBack {
            directory,
            origin,
            blocks,
            metrics,
            environment,
            state: Mutex::new(state),
            stripes: (0..STRIPES).map(|_| tokio::sync::Mutex::default()).collect(),
            adding: Arc::default(),
            signals: Arc::default(),
            settled: Notify::new(),
            uploads: Mutex::default(),
            noting: Mutex::default(),
        });
        write_back.note_state();
        let look_every = upload::LOOK_EVERY.min(write_back.blocks.client.retry_after());
        let uploads = upload::run(Arc::downgrade(&write_back), Arc::clone(&write_back.signals), look_every);
        let task = write_back.blocks.client.runtime().spawn(uploads);
        *write_back.uploads.lock() = Some(task);
        Ok(write_back)
    }

    /// Ends the uploads. Pending changes stay in the directory.
    pub async fn stop(&self) {
        let task = self.uploads.lock().take();
        if let Some(task) = task {
            self.signals.stopping.notify_one();
            let _ = task.await;
        }
    }

    /// The last pending change of a key.
    pub fn find(&self, bucket: &str, key: &str) -> Option<Arc<Pending>> {
        let state = self.state.lock();
        if state.by_seq.is_empty() {
            return None;
        }
        state.last(&(bucket.to_owned(), key.to_owned())).cloned()
    }

    /// The object after the last pending change of a key; `None` without one.
    ///
    /// # Errors
    /// `NotFound` if the change deletes the object.
    pub fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>> {
        let Some(pending) = self.find(bucket, key) else { return Ok(None) };
        if pending.record.deletes {
            return Err(objects_error(ErrorKind::NotFound, "the object does not exist"));
        }
        match File::open(self.directory.join(pending.name())) {
            // It is at the upstream since a moment ago.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file::unreadable(error)),
            Ok(file) => Ok(Some(pending.object(file))),
        }
    }

    /// The last pending changes of all keys of a bucket with this prefix, in the order of the keys.
    pub fn changes(&self, bucket: &str, prefix: &str) -> BTreeMap<String, Arc<Pending>> {
        let state = self.state.lock();
        let start = (bucket.to_owned(), prefix.to_owned());
        let of_prefix =
            state.by_key.range(start..).take_while(|((of, key), _)| of == bucket && key.starts_with(prefix));
        of_prefix
            .filter_map(|((_, key), of_key)| Some((key.clone(), Arc::clone(of_key.changes.last()?))))
            .collect()
    }

    /// Whether a change can become pending with this condition; `false` if the upstream has to
    /// decide.
    pub fn takes(&self, bucket: &str, key: &str, condition: &Condition) -> bool {
        *condition == Condition::Always || self.find(bucket, key).is_some()
    }

    /// Begins to add a change of a bucket. The bucket is not deleted before the guard is dropped.
    ///
    /// # Errors
    /// `Busy` while the bucket is being deleted.
    pub async fn begin(&self, bucket: &str) -> Result<Adding> {
        let adding = Arc::clone(&self.adding).read_owned().await;
        if self.state.lock().closed.contains(bucket) {
            return Err(objects_error(ErrorKind::Busy, IN_DELETION));
        }
        Ok(adding)
    }

    /// Takes no changes of a bucket until the guard is dropped. When this returns, all earlier
    /// changes are pending or have failed.
    ///
    /// # Errors
    /// `Busy` while the bucket is being deleted.
    pub async fn close(&self, bucket: &str) -> Result<Closed<'_>> {
        if !self.state.lock().closed.insert(bucket.to_owned()) {
            return Err(objects_error(ErrorKind::Busy, IN_DELETION));
        }
        let closed = Closed { write_back: self, bucket: bucket.to_owned() };
        drop(self.adding.write().await);
        Ok(closed)
    }

    /// Stores a change durably. `adding` is from [`WriteBack::begin`].
    ///
    /// # Errors
    /// `Conflict` or `NotFound` if the condition does not hold; `Busy` if there is no room;
    /// `OutcomeUnknown` if the change is in the order, but may not survive a crash.
    pub async fn add(
        self: &Arc<Self>,
        mut record: Record,
        data: Data,
        condition: Condition,
        adding: Adding,
    ) -> Result<Added> {
        record.origin.clone_from(&self.origin);
        record.changed_ms = self.environment.unix_ms();
        let write_back = Arc::clone(self);
        let runtime = self.blocks.client.runtime();
        // The task completes even if the caller ends early.
        let task = runtime.spawn(async move {
            let _adding = adding;
            write_back.store(record, data, condition).await
        });
        let ended = |error| Err(Error::internal("a write ended early").with_source(error));
        task.await.unwrap_or_else(ended)
    }

    async fn store(self: &Arc<Self>, record: Record, data: Data, condition: Condition) -> Result<Added> {
        {
            let state = self.state.lock();
            let memory_bytes = state.memory_bytes + Pending::memory_bytes(&record);
            if state.by_seq.len() >= CHANGES_MAX || memory_bytes > RECORDS_BYTES_MAX {
                return Err(objects_error(
                    ErrorKind::Busy,
                    "too many changes wait for the upstream; try again later",
                ));
            }
        }
        let (file, room) = self.write(record.clone(), data).await?;
        let key = (record.bucket.clone(), record.key.clone());
        let stripe = xxhash_rust::xxh3::xxh3_64(format!("{}/{}", key.0, key.1).as_bytes());
        let _ordered = self.stripes[stripe as usize % STRIPES].lock().await;
        let seq = {
            let mut state = self.state.lock();
            match state.last(&key) {
                Some(last) => check_condition(&condition, &last.record)?,
                None if condition == Condition::Always => {}
                None => return Ok(Added::Undecided(file, room)),
            }
            let seq = state.next_seq;
            state.next_seq += 1;
            seq
        };
        let result =
            WriteResult { version: VersionId::Null, size_bytes: record.size_bytes, write: record.write() };
        let directory = self.directory.clone();
        self.blocking(move || file::publish(file, &directory, &format!("{seq:016x}"))).await?;
        // A restart finds the file now, even if the sync fails. So the change has its place before
        // later ones in any case.
        let now_ms = self.environment.clock.monotonic_ms();
        self.state.lock().insert(Pending::new(seq, record, room), now_ms);
        let directory = self.directory.clone();
        let synced = self.blocking(move || file::sync_directory(&directory)).await;
        self.note_state();
        self.signals.added.notify_one();
        synced.map_err(|error| error.with_kind(ErrorKind::OutcomeUnknown))?;
        Ok(Added::Stored(result))
    }

    /// Writes the file of a change, without its name.
    async fn write(&self, record: Record, data: Data) -> Result<(NamedTempFile, Reservation)> {
        let (directory, cache) = (self.directory.clone(), Arc::clone(&self.blocks.cache));
        self.blocking(move || {
            let end = file::end_of(&record)?;
            let (file, mut room, data) = match data {
                Data::File(file, room) => (file, room, Bytes::new()),
                Data::Memory(data) => (file::create(&directory)?, cache.reserve(), data),
            };
            // The file takes whole blocks of the file system.
            room.grow((data.len() + end.len()) as u64 + 4_096)?;
            let written = std::os::unix::fs::FileExt::write_all_at(file.as_file(), &data, 0);
            written.map_err(|error| {
                Error::io(Action::Write, "cannot store a pending change", error).with_op(UPSTREAM)
            })?;
            file::complete(&file, &record, &end)?;
            Ok((file, room))
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let task = self.blocks.client.runtime().spawn_blocking(work);
        let ended = |error| Err(Error::internal("a write ended early").with_source(error));
        task.await.unwrap_or_else(ended)
    }

    /// The directory for files of writes in flight.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until there are no pending changes of this kind.
    ///
    /// # Errors
    /// `Busy` if that takes too long.
    pub async fn drain(self: &Arc<Self>, drain: Drain<'_>) -> Result<()> {
        let (bucket, key) = match drain {
            Drain::Key(bucket, key) => (Some(bucket.to_owned()), Some(key.to_owned())),
            Drain::Bucket(bucket) => (Some(bucket.to_owned()), None),
            Drain::All => (None, None),
        };
        if !self.state.lock().has_changes(bucket.as_deref(), key.as_deref()) {
            return Ok(());
        }
        let write_back = Arc::clone(self);
        let waits = self.blocks.client.runtime().spawn(async move {
            let drained = async {
                loop {
                    let mut settled = std::pin::pin!(write_back.settled.notified());
                    settled.as_mut().enable();
                    if !write_back.state.lock().has_changes(bucket.as_deref(), key.as_deref()) {
                        return;
                    }
                    settled.await;
                }
            };
            tokio::time::timeout(DRAIN_LIMIT, drained).await
        });
        match waits.await {
            Ok(Ok(())) => Ok(()),
            _ => Err(objects_error(
                ErrorKind::Busy,
                "earlier changes are not at the upstream yet, and this request must follow them; try again later",
            )),
        }
    }

    /// Reads a range of a pending object.
    pub fn read(&self, data: &PendingData, range: Range<u64>) -> PendingReader {
        let PendingData { pending, file } = data;
        let runtime = self.blocks.client.runtime().clone();
        PendingReader { pending: Arc::clone(pending), file: Arc::clone(file), runtime, range }
    }

    /// Updates the gauges.
    fn note_state(&self) {
        let state = self.state.lock();
        self.metrics.pending.store(state.by_seq.len() as u64, Relaxed);
        self.metrics.pending_bytes.store(state.bytes, Relaxed);
        let oldest = state.by_seq.first_key_value().map_or(0, |(_, pending)| pending.record.changed_ms);
        self.metrics.oldest_pending_ms.store(oldest, Relaxed);
    }
}

/// The right to add a change.
pub(super) type Adding = OwnedRwLockReadGuard<()>;

/// A bucket that takes no changes.
pub(super) struct Closed<'a> {
    write_back: &'a WriteBack,
    bucket: String,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.write_back.state.lock().closed.remove(&self.bucket);
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        if let Some(task) = self.uploads.lock().take() {
            task.abort();
        }
    }
}

/// Moves a damaged change out of the way. It is never sent.
fn set_aside(directory: &Path, name: &str, metrics: &UpstreamMetrics, error: &Error) -> Result<()> {
    let damaged = directory.join(status::DAMAGED);
    let failed = |error: std::io::Error| {
        Error::io(Action::Write, "cannot set a damaged change aside", error).with_op(UPSTREAM)
    };
    fs::create_dir_all(&damaged).map_err(failed)?;
    file::sync_directory(directory)?;
    fs::rename(directory.join(name), damaged.join(name)).map_err(failed)?;
    // First where it is now, so that a crash does not lose the file. If a sync fails, a crash may
    // bring it back, and it is set aside again.
    for changed in [damaged.as_path(), directory] {
        if let Err(error) = file::sync_directory(changed) {
            tracing::warn!(%error, "the move of a damaged change may not survive a crash");
        }
    }
    metrics.damaged_pending.fetch_add(1, Relaxed);
    tracing::error!(
        %error,
        path = %damaged.join(name).display(),
        "a pending change is damaged and lost; its file is set aside"
    );
    Ok(())
}

/// Checks the condition of a change on the pending change before it.
fn check_condition(condition: &Condition, last: &Record) -> Result<()> {
    let is_there = !last.deletes;
    let failed = |kind, message| Err(objects_error(kind, message));
    match condition {
        Condition::Always => Ok(()),
        Condition::Exists | Condition::Matches(_) if !is_there => {
            failed(ErrorKind::NotFound, "the object does not exist")
        }
        Condition::Exists => Ok(()),
        Condition::Matches(etag) if last.etag == *etag => Ok(()),
        Condition::Absent if !is_there => Ok(()),
        Condition::Differs(etag) if !is_there || last.etag != *etag => Ok(()),
        Condition::Current(_) | Condition::Replaced(_) => failed(
            ErrorKind::Unsupported,
            "S3 has no condition on the version that a lifecycle rule has seen",
        ),
        Condition::Matches(_) | Condition::Absent | Condition::Differs(_) => {
            failed(ErrorKind::Conflict, "the condition does not hold")
        }
    }
}

/// The attributes as a record keeps them.
///
/// # Errors
/// `Unsupported` for a value that is no text.
pub(super) fn texts(attributes: &Attributes) -> Result<BTreeMap<String, String>> {
    let text = |(name, value): (&String, &Bytes)| {
        let text = String::from_utf8(value.to_vec()).map_err(|_| {
            objects_error(ErrorKind::Unsupported, "a setting of the object is no text").with("setting", name)
        })?;
        Ok((name.clone(), text))
    };
    attributes.iter().map(text).collect()
}

/// Reads a range of a pending object.
pub(super) struct PendingReader {
    pending: Arc<Pending>,
    file: Arc<File>,
    runtime: tokio::runtime::Handle,
    range: Range<u64>,
}

#[async_trait::async_trait]
impl Reader for PendingReader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let index = self.range.start / BLOCK_BYTES;
        let (pending, file) = (Arc::clone(&self.pending), Arc::clone(&self.file));
        let read = self.runtime.spawn_blocking(move || file::read_block(&file, &pending.record, index));
        let ended = |error| Err(Error::internal("a read ended early").with_source(error));
        let block = read.await.unwrap_or_else(ended)?;
        let block_start = index * BLOCK_BYTES;
        let start = (self.range.start - block_start) as usize;
        let end = (self.range.end - block_start).min(block.len() as u64) as usize;
        self.range.start = block_start + end as u64;
        Ok(Some(block.slice(start..end)))
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
