//! The memory engine: the same contract, implemented with a few maps. It serves tests, and is the
//! plainest statement of the semantics.

use crate::Options;
use crate::execute::{
    self, Methods, ObjectState, OmapPageBuilder, ZeroEffect, no_such_object, no_such_xattr,
};
use crate::listing::{Lister, decode_token, encode, token_of};
use async_trait::async_trait;
use benthic_core::{
    ClassCall, ClassHost, ClassInfo, Error, ExecOp, FsckReport, ListPage, ListRequest, ListToken, LogLevel,
    ObjectAccess, ObjectAddress, ObjectId, OmapPage, Pool, ReadOp, ReadReply, Result, Stat, Store, WriteOp,
    WriteReply, names,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A store in memory, which ends with the process. Operations of one pool run one at a time.
pub struct MemStore {
    methods: Methods,
    pools: Mutex<BTreeMap<String, Arc<MemPool>>>,
}

impl MemStore {
    pub fn new(options: Options) -> Arc<MemStore> {
        let methods =
            Methods { classes: options.classes, clock: options.clock, limits: options.method_limits };
        Arc::new(MemStore { methods, pools: Mutex::default() })
    }
}

#[async_trait]
impl Store for MemStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        names::check_pool_name(name).map_err(|error| error.with_op("create pool"))?;
        let mut pools = self.pools.lock();
        if pools.contains_key(name) {
            return Err(Error::already_exists("the pool already exists")
                .with_op("create pool")
                .with("pool", name));
        }
        let pool = MemPool { name: name.to_owned(), methods: self.methods.clone(), state: Mutex::default() };
        pools.insert(name.to_owned(), Arc::new(pool));
        Ok(())
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        let pool = self.pools.lock().remove(name);
        let pool = pool.ok_or_else(|| no_such_pool(name).with_op("remove pool"))?;
        pool.state.lock().removed = true;
        Ok(())
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        Ok(self.pools.lock().keys().cloned().collect())
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let pool = self.pools.lock().get(name).cloned();
        pool.map(|pool| pool as Arc<dyn Pool>).ok_or_else(|| no_such_pool(name).with_op("open pool"))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        Ok(self.methods.classes.describe())
    }

    fn class_host(&self) -> ClassHost {
        ClassHost::Local
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn fsck(&self) -> Result<FsckReport> {
        let pools: Vec<_> = self.pools.lock().values().cloned().collect();
        let mut report = FsckReport { pools: pools.len() as u64, ..FsckReport::default() };
        for pool in pools {
            let state = pool.state.lock();
            report.objects += state.objects.len() as u64;
            report.data_bytes += state.objects.values().map(|object| object.data.len() as u64).sum::<u64>();
        }
        Ok(report)
    }
}

pub(crate) fn no_such_pool(name: &str) -> Error {
    Error::not_found("no such pool").with("pool", name)
}

struct MemPool {
    name: String,
    methods: Methods,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    objects: BTreeMap<ObjectId, Object>,
    /// The last version of any object. Versions therefore increase also over removal and
    /// re-creation.
    version: u64,
    removed: bool,
}

impl MemPool {
    fn address(&self, object: &ObjectId) -> ObjectAddress {
        ObjectAddress { pool: self.name.clone(), object: object.clone() }
    }

    fn read_now(&self, id: &ObjectId, op: &ReadOp) -> Result<ReadReply> {
        op.check()?;
        let state = self.live()?;
        let mut staged = Staged::new(state.objects.get(id), self.methods.clock.unix_ns());
        execute::read(&mut staged, op, &self.methods)
    }

    fn write_now(&self, id: &ObjectId, op: &WriteOp) -> Result<WriteReply> {
        op.check()?;
        let mut state = self.live()?;
        let mut staged = Staged::new(state.objects.get(id), self.methods.clock.unix_ns());
        execute::write(&mut staged, op, &self.methods)?;
        let version_before = staged.version_before().unwrap_or(0);
        let Some(after) = staged.after else {
            return Ok(WriteReply { version: version_before });
        };
        state.version += 1;
        let version = state.version;
        match after {
            Some(object) => state.objects.insert(id.clone(), Object { version, ..object }),
            None => state.objects.remove(id),
        };
        Ok(WriteReply { version })
    }

    fn list_now(&self, request: &ListRequest) -> Result<ListPage> {
        let mut lister = Lister::new(request)?;
        let prefix = lister.key_prefix();
        let after = request.after.as_ref().map(decode_token).transpose()?;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.live()?;
        for id in state.objects.range((start, Bound::Unbounded)).map(|(id, _)| id) {
            if encode(id).starts_with(&prefix) && !lister.push(id.clone()) {
                break;
            }
        }
        Ok(lister.finish())
    }

    fn live(&self) -> Result<parking_lot::MutexGuard<'_, PoolState>> {
        let state = self.state.lock();
        if state.removed { Err(no_such_pool(&self.name)) } else { Ok(state) }
    }
}

#[async_trait]
impl Pool for MemPool {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.read_now(object, &op).map_err(|error| error.with_op("read").with("object", self.address(object)))
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.write_now(object, &op)
            .map_err(|error| error.with_op("write").with("object", self.address(object)))
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let run = || match self.methods.exec_op(call)? {
            ExecOp::Write(op) => self.write_now(object, &op).map(|_| Bytes::new()),
            ExecOp::Read(fetch) => {
                let (op, outputs) = fetch.into_parts();
                outputs.of(self.read_now(object, &op)?).map(|(output, _)| output)
            }
        };
        run().map_err(|error: Error| error.with_op("exec").with("object", self.address(object)))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.list_now(&request).map_err(|error| error.with_op("list"))
    }

    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        Some(token_of(object))
    }
}

#[derive(Clone, Debug, Default)]
struct Object {
    data: Vec<u8>,
    xattrs: BTreeMap<String, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
    modified_unix_ns: u64,
    version: u64,
}

/// An object during one operation.
struct Staged<'a> {
    before: Option<&'a Object>,
    /// `None` until the first change. Then the object after the operation, or `Some(None)` if it
    /// will not exist.
    after: Option<Option<Object>>,
    now_unix_ns: u64,
}

impl Staged<'_> {
    fn new(before: Option<&Object>, now_unix_ns: u64) -> Staged<'_> {
        Staged { before, after: None, now_unix_ns }
    }

    fn before(&self) -> Result<&Object> {
        self.before.ok_or_else(no_such_object)
    }

    fn now(&self) -> Option<&Object> {
        if let Some(after) = &self.after { after.as_ref() } else { self.before }
    }

    /// Marks the object as changed and returns it. Creates it if it is missing.
    fn touch(&mut self) -> &mut Object {
        let before = self.before;
        let after = self.after.get_or_insert_with(|| before.cloned());
        let object = after.get_or_insert_default();
        object.modified_unix_ns = self.now_unix_ns;
        object
    }

    /// [`Staged::touch`] for an object that exists at this point.
    fn touch_existing(&mut self) -> Result<&mut Object> {
        if self.now().is_none() {
            return Err(no_such_object());
        }
        Ok(self.touch())
    }
}

impl ObjectAccess for Staged<'_> {
    fn stat(&mut self) -> Result<Stat> {
        let object = self.now().ok_or_else(no_such_object)?;
        Ok(Stat { size_bytes: object.data.len() as u64, modified_unix_ns: object.modified_unix_ns })
    }

    fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        let data = &self.before()?.data;
        let start = usize::try_from(offset_bytes).map_or(data.len(), |start| start.min(data.len()));
        let len = usize::try_from(len_bytes).map_or(data.len() - start, |len| len.min(data.len() - start));
        Ok(Bytes::copy_from_slice(&data[start..start + len]))
    }

    fn get_xattr(&mut self, name: &str) -> Result<Bytes> {
        self.before()?.xattrs.get(name).cloned().ok_or_else(|| no_such_xattr(name))
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        Ok(self.before()?.xattrs.clone())
    }

    fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        let omap = &self.before()?.omap;
        let mut found: Vec<_> = keys
            .iter()
            .filter_map(|key| omap.get_key_value(key).map(|(k, v)| (k.clone(), v.clone())))
            .collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage> {
        let omap = &self.before()?.omap;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page = OmapPageBuilder::new(entries_max);
        let matching =
            omap.range::<[u8], _>((start, Bound::Unbounded)).take_while(|(key, _)| key.starts_with(prefix));
        for (key, value) in matching {
            if !page.push(key.clone(), value.clone()) {
                break;
            }
        }
        Ok(page.finish())
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        if exclusive && self.now().is_some() {
            return Err(Error::already_exists("the object already exists"));
        }
        self.touch();
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, data: Bytes) -> Result<()> {
        let object = self.touch();
        let start = offset_bytes as usize;
        let end = start + data.len();
        if !data.is_empty() {
            if object.data.len() < end {
                object.data.resize(end, 0);
            }
            object.data[start..end].copy_from_slice(&data);
        }
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.touch().data = data.to_vec();
        Ok(())
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<()> {
        if self.now().is_some() {
            self.touch().data.resize(size_bytes as usize, 0);
        }
        Ok(())
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let Some(object) = self.now() else { return Ok(()) };
        let start = offset_bytes as usize;
        match ZeroEffect::of(object.data.len() as u64, offset_bytes, len_bytes) {
            ZeroEffect::Nothing => {}
            ZeroEffect::Truncate => self.touch().data.truncate(start),
            ZeroEffect::Fill => self.touch().data[start..start + len_bytes as usize].fill(0),
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        if self.now().is_none() {
            return Err(no_such_object());
        }
        self.after = Some(None);
        Ok(())
    }

    fn set_xattr(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.touch().xattrs.insert(name.to_owned(), value);
        Ok(())
    }

    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.touch().omap.extend(entries);
        Ok(())
    }

    fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()> {
        let omap = &mut self.touch_existing()?.omap;
        for key in keys {
            omap.remove(key);
        }
        Ok(())
    }

    fn omap_clear(&mut self) -> Result<()> {
        let object = self.now().ok_or_else(no_such_object)?;
        if !object.omap.is_empty() {
            self.touch().omap.clear();
        }
        Ok(())
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        crate::log_from_class(level, message);
    }
}

impl ObjectState for Staged<'_> {
    fn version_before(&self) -> Option<u64> {
        self.before.map(|object| object.version)
    }

    fn remove_xattr(&mut self, name: &str) -> Result<()> {
        self.touch_existing()?.xattrs.remove(name);
        Ok(())
    }
}
