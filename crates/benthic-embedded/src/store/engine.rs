//! The engine: opens and recovers a store, and runs operations on it.

use super::alloc::Allocator;
use super::cleaner::{self, Cleaner};
use super::commit::{Announcement, Commit, Completion};
use super::data::{DataFile, Source};
use super::dir::Dir;
use super::direct::{Location, ReadRange, Revisions};
use super::disk::Disk;
use super::keys::{self, BLOCK_BYTES, Extent};
use super::kv::{Changes, Kv, malformed, must_recover};
use super::log::Log;
use super::object::{Object, PreparedOp};
use super::object_cache::ObjectCacheEntry;
use super::record::Record;
use super::space::release_reserve;
use crate::execute::{self, Methods};
use crate::listing::{self, Lister};
use crate::memory::no_such_pool;
use crate::workers::spawn;
use crate::{Options, listing::decode_token};
use benthic_core::{
    ClassCall, ClassInfo, Durability, Error, ErrorKind, ExecOp, ListPage, ListRequest, ObjectAddress,
    ObjectId, ReadOp, ReadReply, ReadStep, Result, WriteOp, WriteReply, WriteStep, names,
};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// An operation with more steps and guards than this runs on a worker thread.
const AT_ONCE_STEPS_MAX: usize = 8;
/// A step that looks up more omap keys than this runs on a worker thread. Range steps always do,
/// because they may pass over any number of tombstones.
const AT_ONCE_KEYS_MAX: usize = 8;
/// Number of locks that objects share by hash. Each lock guards one cache entry, so there are
/// enough for objects in use to seldom evict each other.
const OBJECT_LOCKS: usize = 8_192;

pub(crate) struct Engine {
    pub(super) dir: Dir,
    pub(super) disk: Arc<Disk>,
    /// `None` if the store is opened read-only.
    pub(super) writer: Option<Writer>,
    methods: Methods,
    pub(super) pools: RwLock<BTreeMap<u32, Arc<PoolEntry>>>,
    object_locks: Vec<RwLock<ObjectCacheEntry>>,
    /// `None` if clients cannot read the data file themselves.
    revisions: Option<Revisions>,
    hasher: RandomState,
    closed: AtomicBool,
}

/// The means by which a client reads the data file itself.
pub(crate) struct ClientAccess {
    pub owner: u64,
    /// `None` if clients cannot do so.
    pub revisions: Option<File>,
}

/// The parts of an engine that write.
pub(super) struct Writer {
    pub commit: Arc<Commit>,
    cleaner: Arc<Cleaner>,
    /// Held while a pool is created or removed.
    admin: Mutex<()>,
    /// The committer and the cleaner.
    threads: Mutex<[Option<JoinHandle<()>>; 2]>,
}

pub(crate) struct PoolEntry {
    pub id: u32,
    pub name: String,
    /// True after the removal of the pool. Every operation holds the lock shared.
    removed: RwLock<bool>,
}

impl Engine {
    /// Opens a store and recovers it. A directory that is opened read-only stays as it is.
    ///
    /// # Errors
    /// `Corrupt`; `PermissionDenied` if the directory is opened read-only and must be recovered.
    pub fn open(dir: Dir, options: Options) -> Result<Arc<Engine>> {
        let read_only = dir.is_read_only();
        let open_kv = if read_only { Kv::open_read_only } else { Kv::open };
        let kv = open_kv(&dir.kv(), options.cache_bytes)?;
        let meta = kv.meta()?;
        let mut allocator = Allocator::default();
        for entry in kv.scan(&[keys::PREFIX_ALLOCATION], None) {
            let (key, bitmap) = entry?;
            let region = key.get(1..).and_then(|region| region.try_into().ok()).map(u32::from_be_bytes);
            if !region.is_some_and(|region| allocator.load_region(region, &bitmap)) {
                return Err(malformed("the map of used blocks"));
            }
        }
        let mut replay = Replay::new(&kv, &mut allocator, meta.next_id);
        let closed_lsn = dir.closed_lsn();
        let log = Log::read(&dir.log(), meta.applied_lsn, closed_lsn, |_, record| replay.record(record))?;
        replay.apply();
        let next_lsn = log.next_lsn;
        let Replay { next_id, blocks, freed, .. } = replay;
        let (data, log) = if read_only {
            // Only the log of a closed store is known to be durable up to its end.
            if next_lsn > meta.applied_lsn + 1 && next_lsn != closed_lsn {
                return Err(must_recover());
            }
            (DataFile::open_with_overlay(&dir.data(), blocks)?, None)
        } else {
            let data = DataFile::open(&dir.data())?;
            let log = log.open()?;
            write_replayed(&data, &dir, &blocks)?;
            // The process that freed these extents may have died before it returned their space to
            // the file system.
            data.punch_all(freed.into_iter().flat_map(|extent| allocator.parts(extent, false)).collect());
            (data, Some(log))
        };
        allocator.build_free_list();
        let pools = pools(&kv)?;

        let disk = Arc::new(Disk { kv, data, allocator: Mutex::new(allocator), next_id: next_id.into() });
        let writer = log
            .map(|log| {
                let commit =
                    Commit::new(Arc::clone(&disk), &dir.log(), log, next_lsn, meta.applied_lsn, &options)?;
                let commit = Arc::new(commit);
                let cleaner = Arc::new(Cleaner::new(Arc::clone(&disk), Arc::clone(&commit)));
                Ok(Writer { commit, cleaner, admin: Mutex::new(()), threads: Mutex::default() })
            })
            .transpose()?;
        let revisions = writer.as_ref().and_then(|_| Revisions::create(OBJECT_LOCKS).ok());
        dir.check_no_owner()?;
        let engine = Arc::new(Engine {
            dir,
            disk,
            writer,
            methods: Methods {
                classes: options.classes,
                clock: options.clock,
                limits: options.method_limits,
            },
            pools: RwLock::new(pools),
            object_locks: (0..OBJECT_LOCKS).map(|_| RwLock::default()).collect(),
            revisions,
            hasher: RandomState::new(),
            closed: AtomicBool::new(false),
        });
        if let Some(writer) = &engine.writer {
            let (commit, cleaner) = (Arc::clone(&writer.commit), Arc::downgrade(&writer.cleaner));
            *writer.threads.lock() = [
                Some(spawn("benthic-commit", move || commit.run())?),
                Some(spawn("benthic-clean", move || cleaner::run(&cleaner))?),
            ];
        }
        Ok(engine)
    }

    /// Makes everything durable, leaves little to replay and stops the threads. The caller must
    /// ensure that no operation runs any more.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let outcome = self.writer.as_ref().map_or(Ok(()), |writer| writer.close(&self.dir));
        outcome.and(self.dir.release())
    }

    /// As [`Dir::check_writable`].
    pub fn check_writable(&self) -> Result<()> {
        self.dir.check_writable()
    }

    /// As [`Dir::check_no_owner`].
    pub fn check_no_owner(&self) -> Result<()> {
        self.dir.check_no_owner()
    }

    /// # Errors
    /// `PermissionDenied` if the store is opened read-only.
    fn writer(&self) -> Result<&Writer> {
        self.dir.check_writable()?;
        self.writer.as_ref().ok_or_else(|| Error::internal("the store has no writer"))
    }

    pub fn classes(&self) -> Vec<ClassInfo> {
        self.methods.classes.describe()
    }

    pub fn list_pools(&self) -> Vec<String> {
        let mut names: Vec<_> = self.pools.read().values().map(|pool| pool.name.clone()).collect();
        names.sort();
        names
    }

    pub fn open_pool(&self, name: &str) -> Result<u32> {
        let pools = self.pools.read();
        pools.values().find(|pool| pool.name == name).map(|pool| pool.id).ok_or_else(|| no_such_pool(name))
    }

    pub fn create_pool(&self, name: &str) -> Result<()> {
        names::check_pool_name(name)?;
        let _admin = self.writer.as_ref().map(|writer| writer.admin.lock());
        if self.open_pool(name).is_ok() {
            return Err(Error::already_exists("the pool already exists").with("pool", name));
        }
        let writer = self.writer()?;
        let last = self.disk.kv.get(keys::LAST_POOL)?.map_or(Ok(0), |last| pool_number(&last))?;
        let highest = self.pools.read().keys().next_back().copied().unwrap_or(0);
        let id = last
            .max(highest)
            .checked_add(1)
            .ok_or_else(|| Error::limit_exceeded("the store has used up its pool numbers"))?;
        let number = Some(Bytes::copy_from_slice(&id.to_le_bytes()));
        let changes = vec![(keys::pool(name).into(), number.clone()), (keys::LAST_POOL.into(), number)];
        writer.submit_and_wait(PreparedOp::keys(&self.disk, changes, Vec::new()))?;
        let entry = PoolEntry { id, name: name.to_owned(), removed: RwLock::new(false) };
        let replaced = self.pools.write().insert(id, Arc::new(entry));
        assert!(replaced.is_none(), "a pool has a number of its own");
        Ok(())
    }

    pub fn remove_pool(&self, name: &str) -> Result<()> {
        let _admin = self.writer.as_ref().map(|writer| writer.admin.lock());
        let id = self.open_pool(name)?;
        let writer = self.writer()?;
        let entry = self.pool(id)?;
        let mut removed = entry.removed.write();
        assert!(!*removed, "a pool is removed once");
        // No operation of the pool runs now, so no client gets the location of one of its objects.
        for (slot, lock) in self.object_locks.iter().enumerate() {
            self.revoke(slot, &mut lock.write())?;
        }
        let changes =
            vec![(keys::pool(name).into(), None), (keys::removed_pool(id).into(), Some(Bytes::new()))];
        let prepared = PreparedOp { frees: true, ..PreparedOp::keys(&self.disk, changes, Vec::new()) };
        writer.submit_and_wait(prepared)?;
        *removed = true;
        let entry = self.pools.write().remove(&id);
        assert!(entry.is_some(), "the pool was there until now");
        writer.cleaner.wake();
        Ok(())
    }

    pub(super) fn pool(&self, id: u32) -> Result<Arc<PoolEntry>> {
        self.pools.read().get(&id).cloned().ok_or_else(|| Error::not_found("the pool was removed"))
    }

    /// The object's address as people write it.
    fn address(&self, pool: u32, id: &ObjectId) -> String {
        self.pool(pool).map_or_else(|_| id.to_string(), |pool| pool.address(id.clone()).to_string())
    }

    pub fn read(&self, pool: u32, id: &ObjectId, op: &ReadOp, done: Completion<ReadReply>) {
        let reply = self.pool(pool).and_then(|pool| {
            let _pool = pool.guard()?;
            let cached = self.object_lock(pool.id, id).read();
            self.read_now(pool.id, id, op, Source::Disk, &cached)
        });
        self.answer(pool, id, reply, done);
    }

    /// The location from which a client can repeat its read of a range. `version` is the version in
    /// the answer, which has waited until that version was durable. There is no location of a newer
    /// version, which may not be durable. Does not wait for locks.
    pub fn locate(&self, pool: u32, id: &ObjectId, range: ReadRange, version: u64) -> Option<Location> {
        self.revisions.as_ref()?;
        let entry = self.pool(pool).ok()?;
        let _pool = entry.removed.try_read().filter(|removed| !**removed)?;
        let slot = self.slot(pool, id);
        let cached = self.object_locks[slot].try_read()?;
        cached.share(slot as u32, pool, id, range).filter(|location| location.version == version)
    }

    pub fn client_access(&self) -> ClientAccess {
        let revisions = self.revisions.as_ref().and_then(|revisions| revisions.share().ok());
        ClientAccess { owner: self.dir.owner(), revisions }
    }

    /// Makes the locations that clients have of a lock's objects worthless. Must be called before a
    /// change of such an object.
    fn revoke(&self, slot: usize, cached: &mut ObjectCacheEntry) -> Result<()> {
        if let Some(revisions) = self.revisions.as_ref().filter(|_| cached.is_shared()) {
            cached.set_revision(revisions.change(slot)?);
        }
        Ok(())
    }

    /// Answers a read that needs no disk access, no lock that another thread holds, and little
    /// time. Returns `None` for any other read. The key-value store may still read some of its own
    /// blocks from disk.
    pub fn read_at_once(&self, pool: u32, id: &ObjectId, op: &ReadOp) -> Option<Result<ReadReply>> {
        let short = |step: &ReadStep| match step {
            ReadStep::Read { .. } | ReadStep::Stat | ReadStep::GetXattr { .. } => true,
            ReadStep::OmapGet { keys } => keys.len() <= AT_ONCE_KEYS_MAX,
            ReadStep::ListXattrs | ReadStep::OmapRange { .. } | ReadStep::Exec(_) => false,
        };
        if op.steps.len() + op.guards.len() > AT_ONCE_STEPS_MAX || !op.steps.iter().all(short) {
            return None;
        }
        let entry = self.pool(pool).ok()?;
        let _pool = entry.removed.try_read().filter(|removed| !**removed)?;
        let cached = self.object_lock(pool, id).try_read()?;
        let reply = self.read_now(pool, id, op, Source::Memory, &cached);
        (!reply.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy)).then_some(reply)
    }

    /// Sends the answer to a read when no writer still waits for the durability of a change that
    /// the read saw; see [`Commit::when_durable`].
    pub fn answer(&self, pool: u32, id: &ObjectId, reply: Result<ReadReply>, done: Completion<ReadReply>) {
        match reply {
            Err(error) => {
                let error = error.with("object", self.address(pool, id));
                self.when_durable(u64::MAX, Box::new(move |_| done(Err(error))));
            }
            Ok(reply) => self.when_durable(
                reply.version,
                Box::new(move |outcome| {
                    done(outcome.map_err(|e| e.with_kind(ErrorKind::Unavailable)).map(|()| reply))
                }),
            ),
        }
    }

    /// [`Commit::when_durable`]. Everything in a store that is opened read-only is durable.
    fn when_durable(&self, lsn: u64, done: Completion<()>) {
        if let Some(writer) = &self.writer { writer.commit.when_durable(lsn, done) } else { done(Ok(())) }
    }

    /// The caller holds the locks of the pool and the object.
    fn read_now(
        &self,
        pool: u32,
        id: &ObjectId,
        op: &ReadOp,
        source: Source,
        cached: &ObjectCacheEntry,
    ) -> Result<ReadReply> {
        op.check()?;
        let before = match cached.onode(pool, id) {
            Some(onode) => Some(onode),
            None => self.disk.onode(pool, id)?.inspect(|onode| cached.insert(pool, id, onode)),
        };
        let object = Object::new(&self.disk, Vec::new(), before, self.methods.clock.unix_ns(), source);
        let mut object = object.with_cache(cached);
        execute::read(&mut object, op, &self.methods)
    }

    /// Announces a write that will be submitted soon and whose caller waits. Returns `None` if the
    /// write may take long or its caller does not wait.
    pub fn announce(&self, op: &WriteOp) -> Option<Announcement> {
        let soon = op.durability == Durability::Durable
            && !op.steps.iter().any(|step| matches!(step, WriteStep::Exec(_)));
        self.writer.as_ref().filter(|_| soon).map(|writer| writer.commit.announce())
    }

    pub fn write(
        &self,
        pool: u32,
        id: &ObjectId,
        op: &WriteOp,
        announcement: Option<Announcement>,
        done: Completion<WriteReply>,
    ) {
        let pool = match self.pool(pool) {
            Ok(pool) => pool,
            Err(error) => return done(Err(error.with("object", id))),
        };
        let (entry, object) = (Arc::clone(&pool), id.clone());
        let done: Completion<WriteReply> = Box::new(move |outcome| {
            done(outcome.map_err(|error| error.with("object", entry.address(object))))
        });
        let Writer { commit, cleaner, .. } = match self.writer() {
            Ok(writer) => writer,
            Err(error) => return done(Err(error)),
        };
        commit.wait_for_cleaner();
        // Hold both locks until the operation is applied, so that the next holder sees its changes.
        let removed = pool.removed.read();
        let slot = self.slot(pool.id, id);
        let mut cached = self.object_locks[slot].write();
        cached.clear();
        if let Err(error) = self.revoke(slot, &mut cached) {
            return done(Err(error));
        }
        match self.prepare(commit, &pool, *removed, id, op) {
            Err(error) => commit.when_all_durable(move || done(Err(error))),
            Ok((None, version)) => commit.when_durable(
                version,
                Box::new(move |outcome| done(outcome.map(|()| WriteReply { version }))),
            ),
            Ok((Some(prepared), _)) => {
                let done =
                    Box::new(move |outcome: Result<u64>| done(outcome.map(|version| WriteReply { version })));
                let leaves_garbage =
                    prepared.record.changes.iter().any(|(key, _)| key[0] == keys::PREFIX_GARBAGE);
                let lead = commit.submit(prepared, op.durability, announcement, done);
                if leaves_garbage || commit.log_is_long() {
                    cleaner.wake();
                }
                drop((removed, cached));
                if lead {
                    commit.lead();
                }
            }
        }
    }

    /// Runs an operation up to the record for the log. There is no record if the operation changes
    /// nothing. Also returns the object's version before the operation.
    fn prepare(
        &self,
        commit: &Commit,
        pool: &PoolEntry,
        removed: bool,
        id: &ObjectId,
        op: &WriteOp,
    ) -> Result<(Option<PreparedOp>, u64)> {
        op.check()?;
        commit.check_writable()?;
        if removed {
            return Err(no_such_pool(&pool.name));
        }
        let before = self.disk.onode(pool.id, id)?;
        let version_before = before.as_ref().map_or(0, |onode| onode.version);
        let key = keys::onode(pool.id, id);
        let mut object = Object::new(&self.disk, key, before, self.methods.clock.unix_ns(), Source::Disk);
        execute::write(&mut object, op, &self.methods)?;
        let prepared =
            object.prepare()?.map(|prepared| PreparedOp { frees: op.steps.iter().all(frees), ..prepared });
        Ok((prepared, version_before))
    }

    pub fn exec(&self, pool: u32, id: &ObjectId, call: ClassCall, done: Completion<Bytes>) {
        match self.methods.exec_op(call) {
            Err(error) => done(Err(error.with("object", self.address(pool, id)))),
            Ok(ExecOp::Write(op)) => {
                let done = Box::new(move |outcome: Result<_>| done(outcome.map(|_| Bytes::new())));
                self.write(pool, id, &op, None, done);
            }
            Ok(ExecOp::Read(fetch)) => {
                let (op, outputs) = fetch.into_parts();
                let output = |reply| outputs.of(reply).map(|(output, _)| output);
                self.read(pool, id, &op, Box::new(move |outcome| done(outcome.and_then(output))));
            }
        }
    }

    pub fn list(&self, pool: u32, request: &ListRequest, done: Completion<ListPage>) {
        let page = self.list_now(pool, request);
        self.when_durable(u64::MAX, Box::new(move |_| done(page)));
    }

    fn list_now(&self, pool: u32, request: &ListRequest) -> Result<ListPage> {
        let mut lister = Lister::new(request)?;
        let pool = self.pool(pool)?;
        let _pool = pool.guard()?;
        let prefix = keys::onodes(pool.id, &lister.key_prefix());
        let after = request.after.as_ref().map(decode_token).transpose()?;
        let after = after.map(|id| keys::onode(pool.id, &id));
        for entry in self.disk.kv.scan(&prefix, after.as_deref()) {
            let id = entry.and_then(|(key, _)| {
                listing::decode(&key[keys::ONODE_ID_AT..]).ok_or_else(|| malformed("the name of an object"))
            });
            if !lister.push(id?) {
                break;
            }
        }
        Ok(lister.finish())
    }

    pub fn flush(&self, done: Completion<()>) {
        if let Some(writer) = &self.writer { writer.commit.flush(done) } else { done(Ok(())) }
    }

    pub(super) fn object_lock(&self, pool: u32, id: &ObjectId) -> &RwLock<ObjectCacheEntry> {
        &self.object_locks[self.slot(pool, id)]
    }

    fn slot(&self, pool: u32, id: &ObjectId) -> usize {
        self.hasher.hash_one((pool, id)) as usize % OBJECT_LOCKS
    }
}

impl Writer {
    fn submit_and_wait(&self, prepared: PreparedOp) -> Result<()> {
        let (done, outcome) = mpsc::sync_channel(1);
        let done: Completion<u64> = Box::new(move |result| drop(done.send(result)));
        // The operation was not announced, so the committer writes the group.
        let _ = self.commit.submit(prepared, Durability::Durable, None, done);
        outcome.recv().unwrap_or_else(|_| Err(Error::internal("the committer is gone"))).map(|_| ())
    }

    fn close(&self, dir: &Dir) -> Result<()> {
        self.cleaner.stop();
        let cleaned = self.join(1);
        let outcome = self.commit.close();
        let committed = self.join(0);
        // Return the extents that the last group freed.
        self.commit.release_freed();
        let outcome = outcome.and(cleaned).and(committed);
        if outcome.is_ok() {
            // Without the note, damage to the end of the log looks like a torn write, and the store
            // cannot be opened read-only. Intact data is not affected.
            let next_lsn = self.commit.next_lsn();
            if next_lsn != dir.closed_lsn()
                && let Err(error) = dir.note_closed(next_lsn)
            {
                tracing::warn!(%error, "the store is closed without a note of the log's end");
            }
        }
        outcome
    }

    fn join(&self, thread: usize) -> Result<()> {
        let thread = self.threads.lock()[thread].take();
        match thread {
            // One of these threads may drop the last reference.
            Some(thread) if thread.thread().id() != std::thread::current().id() => {
                thread.join().map_err(|_| Error::internal("a thread of the store panicked"))
            }
            _ => Ok(()),
        }
    }
}

impl PoolEntry {
    fn address(&self, object: ObjectId) -> ObjectAddress {
        ObjectAddress { pool: self.name.clone(), object }
    }

    /// Prevents the removal of the pool while the guard lives.
    pub fn guard(&self) -> Result<parking_lot::RwLockReadGuard<'_, bool>> {
        let removed = self.removed.read();
        if *removed { Err(no_such_pool(&self.name)) } else { Ok(removed) }
    }
}

pub(super) fn pools(kv: &Kv) -> Result<BTreeMap<u32, Arc<PoolEntry>>> {
    let mut pools = BTreeMap::new();
    for entry in kv.scan(&[keys::PREFIX_POOL], None) {
        let (key, value) = entry?;
        let name = std::str::from_utf8(&key[1..]).map_err(|_| malformed("the name of a pool"))?.to_owned();
        let id = pool_number(&value)?;
        pools.insert(id, Arc::new(PoolEntry { id, name, removed: RwLock::new(false) }));
    }
    Ok(pools)
}

fn pool_number(value: &[u8]) -> Result<u32> {
    value.try_into().map(u32::from_le_bytes).map_err(|_| malformed("the number of a pool"))
}

fn frees(step: &WriteStep) -> bool {
    matches!(
        step,
        WriteStep::Remove
            | WriteStep::Truncate { .. }
            | WriteStep::Zero { .. }
            | WriteStep::RemoveXattr { .. }
            | WriteStep::OmapRemove { .. }
            | WriteStep::OmapClear
    )
}

/// Applies the part of the log that the key-value store does not contain yet.
pub(super) struct Replay<'a> {
    kv: &'a Kv,
    allocator: &'a mut Allocator,
    next_id: u64,
    /// Data from records, for blocks that no later record freed. A freed block may hold newer data,
    /// which was synced before its record was logged.
    pub(super) blocks: BTreeMap<u64, Bytes>,
    freed: Vec<Extent>,
    /// Changes that are not yet in the key-value store, oldest first.
    changes: Changes,
}

/// The changes of many records are sorted before they enter the key-value store's table in memory.
/// The table finds the places of neighbouring keys in less than half the time.
const SORTED_CHANGES: usize = 16 * 1024;

impl<'a> Replay<'a> {
    pub(super) fn new(kv: &'a Kv, allocator: &'a mut Allocator, next_id: u64) -> Replay<'a> {
        let (blocks, freed, changes) = (BTreeMap::new(), Vec::new(), Changes::new());
        Replay { kv, allocator, next_id, blocks, freed, changes }
    }

    pub(super) fn record(&mut self, record: Bytes) -> Result<()> {
        let Record { next_id, changes, allocated, freed, data } =
            Record::decode(&record).map_err(|_| malformed("a record of the log"))?;
        self.next_id = self.next_id.max(next_id);
        for extent in allocated {
            self.allocator.replay(extent, true);
        }
        for (offset_bytes, data) in data {
            for start in (0..data.len()).step_by(BLOCK_BYTES as usize) {
                let block = data.slice(start..data.len().min(start + BLOCK_BYTES as usize));
                self.blocks.insert((offset_bytes + start as u64) / BLOCK_BYTES, block);
            }
        }
        for extent in freed {
            self.allocator.replay(extent, false);
            let first = extent.offset_bytes / BLOCK_BYTES;
            let within = first..first + extent.len_bytes / BLOCK_BYTES;
            let stale: Vec<u64> = self.blocks.range(within).map(|(block, _)| *block).collect();
            stale.iter().for_each(|block| drop(self.blocks.remove(block)));
            self.freed.push(extent);
        }
        self.changes.extend(changes);
        if self.changes.len() >= SORTED_CHANGES {
            self.apply();
        }
        Ok(())
    }

    /// Applies the remaining changes. Must be called after the last record.
    pub(super) fn apply(&mut self) {
        // The sort is stable, so the newest change of a key comes first after the reversal.
        self.changes.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.changes.reverse();
        self.changes.dedup_by(|(older, _), (newest, _)| older == newest);
        self.kv.apply(std::mem::take(&mut self.changes));
    }
}

/// Writes the replayed data to the data file. After a power cut, blocks of the data file may be
/// unallocated, and other programs may have filled the disk since. Then the log's reserve, which is
/// at least as long, makes room.
fn write_replayed(data: &DataFile, dir: &Dir, blocks: &BTreeMap<u64, Bytes>) -> Result<()> {
    let mut tried = false;
    for (block, bytes) in blocks {
        while let Err(error) = data.write(block * BLOCK_BYTES, bytes) {
            if error.kind() != ErrorKind::LimitExceeded || std::mem::replace(&mut tried, true) {
                return Err(error);
            }
            release_reserve(&dir.log()).map_err(|_| error)?;
        }
    }
    Ok(())
}
