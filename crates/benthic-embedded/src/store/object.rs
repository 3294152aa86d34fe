//! One object during one operation of the directory engine: its state before the operation, and the
//! staged changes.

use super::data::Source;
use super::disk::Disk;
use super::keys::{self, Onode};
use super::layout;
use super::object_cache::ObjectCacheEntry;
use super::pack::Packer;
use super::pieces::Pieces;
use super::record::Record;
use crate::execute::{ObjectState, OmapPageBuilder, ZeroEffect, no_such_object, no_such_xattr};
use benthic_core::{Error, LogLevel, ObjectAccess, OmapPage, Result, Stat, op};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

pub(crate) struct Object<'a> {
    disk: &'a Disk,
    key: Vec<u8>,
    before: Option<Onode>,
    now_unix_ns: u64,
    source: Source,
    /// The cache entry for readers. A writer has none, because it changes the object.
    cached: Option<&'a ObjectCacheEntry>,
    /// At least one step changed the object.
    changed: bool,
    exists: bool,
    /// A step removed the object, so none of its old state remains.
    reset: bool,
    size_bytes: u64,
    /// Old data is visible up to this offset.
    cut_bytes: u64,
    pieces: Pieces,
    data_changed: bool,
    xattrs: BTreeMap<String, Option<Bytes>>,
    omap: BTreeMap<Bytes, Option<Bytes>>,
    omap_cleared: bool,
}

/// The changes of an operation, ready for the log.
pub(crate) struct PreparedOp {
    pub record: Record,
    /// The key of the object's metadata and the metadata without its version. The key is empty if
    /// the operation has no object. `None` removes the metadata.
    pub onode: (Vec<u8>, Option<Onode>),
    /// Data written to extents that the record does not contain.
    pub unsynced_bytes: u64,
    /// The operation only frees space, so it is accepted on a full disk.
    pub frees: bool,
}

impl PreparedOp {
    /// Prepares changes of keys that belong to no single object.
    pub fn keys(disk: &Disk, changes: super::kv::Changes, freed: Vec<keys::Extent>) -> PreparedOp {
        let next_id = disk.next_id.load(Ordering::Relaxed);
        let record = Record { next_id, changes, freed, ..Record::default() };
        PreparedOp { record, onode: (Vec::new(), None), unsynced_bytes: 0, frees: false }
    }
}

impl<'a> Object<'a> {
    pub fn new(
        disk: &'a Disk,
        key: Vec<u8>,
        before: Option<Onode>,
        now_unix_ns: u64,
        source: Source,
    ) -> Object<'a> {
        let size_bytes = before.as_ref().map_or(0, |onode| onode.size_bytes);
        Object {
            disk,
            key,
            exists: before.is_some(),
            before,
            now_unix_ns,
            source,
            cached: None,
            changed: false,
            reset: false,
            size_bytes,
            cut_bytes: size_bytes,
            pieces: Pieces::default(),
            data_changed: false,
            xattrs: BTreeMap::new(),
            omap: BTreeMap::new(),
            omap_cleared: false,
        }
    }

    /// Reads through a cache entry. The caller holds the shared lock that guards the entry.
    pub fn with_cache(self, cached: &'a ObjectCacheEntry) -> Object<'a> {
        assert!(!self.changed, "a writer must not read through the cache");
        Object { cached: Some(cached), ..self }
    }

    fn before(&self) -> Result<&Onode> {
        self.before.as_ref().ok_or_else(no_such_object)
    }

    fn touch(&mut self) {
        self.changed = true;
        self.exists = true;
    }

    fn touch_existing(&mut self) -> Result<()> {
        if !self.exists {
            return Err(no_such_object());
        }
        self.touch();
        Ok(())
    }

    fn cut(&mut self, size_bytes: u64) {
        self.data_changed = true;
        self.pieces.truncate(size_bytes);
        self.cut_bytes = self.cut_bytes.min(size_bytes);
        self.size_bytes = size_bytes;
    }

    /// Writes the staged data to free extents and builds the record for the log. Returns `None` if
    /// nothing changed. On an error the extents are free again.
    pub fn prepare(self) -> Result<Option<PreparedOp>> {
        if !self.changed || (self.before.is_none() && !self.exists) {
            return Ok(None);
        }
        let end_bytes =
            self.pieces.iter().last().map_or(0, |(offset_bytes, len_bytes, _)| offset_bytes + len_bytes);
        assert!(end_bytes <= self.size_bytes, "staged writes end within the object");
        assert!(self.cut_bytes <= self.size_bytes, "old data is visible at most up to the object's end");
        assert!(self.cached.is_none(), "a writer must not read through the cache");
        let new_id = || self.disk.next_id.fetch_add(1, Ordering::Relaxed);
        let mut record = Record::default();
        let kept = self.before.as_ref().filter(|_| !self.reset);
        let oid = kept.map_or_else(new_id, |onode| onode.oid);

        if let Some(before) = self.before.as_ref().filter(|_| self.reset) {
            layout::free_all(self.disk, before, &mut record)?;
            mark_garbage(before, &mut record);
        }
        if !self.exists {
            assert!(self.reset && self.size_bytes == 0, "a removed object has no data");
            assert!(
                self.xattrs.is_empty() && self.omap.is_empty(),
                "a removed object has no new attributes and omap entries"
            );
            return Ok(Some(self.finish(record, None, 0)));
        }

        let mut omap_id = kept.map_or(0, |onode| onode.omap_id);
        if self.omap_cleared && omap_id != 0 {
            record.changes.push(garbage(omap_id, Garbage::Omap));
            omap_id = 0;
        }
        if omap_id == 0 && self.omap.values().any(Option::is_some) {
            omap_id = new_id();
        }
        if omap_id != 0 {
            record.changes.extend(omap_changes(omap_id, &self.omap));
        }
        let mut has_xattrs = kept.is_some_and(|onode| onode.has_xattrs);
        for (name, value) in &self.xattrs {
            has_xattrs |= value.is_some();
            let key = keys::with_u64(keys::PREFIX_XATTR, oid, name.as_bytes());
            record.changes.push((key.into(), value.as_ref().map(|value| Bytes::copy_from_slice(value))));
        }

        let target = layout::Target { oid, size_bytes: self.size_bytes, cut_bytes: self.cut_bytes };
        let laid_out = match kept {
            Some(before) if !self.data_changed => {
                layout::NewLayout { data: before.data.clone(), unsynced_bytes: 0 }
            }
            _ => layout::lay_out(self.disk, kept, &target, &self.pieces, &mut record)?,
        };
        let onode = Onode {
            oid,
            omap_id,
            version: 0,
            modified_unix_ns: self.now_unix_ns,
            size_bytes: self.size_bytes,
            has_xattrs,
            data: laid_out.data,
        };
        Ok(Some(self.finish(record, Some(onode), laid_out.unsynced_bytes)))
    }

    fn finish(self, mut record: Record, onode: Option<Onode>, unsynced_bytes: u64) -> PreparedOp {
        record.next_id = self.disk.next_id.load(Ordering::Relaxed);
        PreparedOp { record, onode: (self.key, onode), unsynced_bytes, frees: false }
    }
}

/// The changes of an omap, with keys of the key-value store. Keys and values are copied, because a
/// client's small value may otherwise keep a large buffer alive.
fn omap_changes(
    omap_id: u64,
    omap: &BTreeMap<Bytes, Option<Bytes>>,
) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
    let start = keys::with_u64(keys::PREFIX_OMAP, omap_id, b"");
    let keys = omap.keys().map(|key| start.len() + key.len());
    let mut packer = Packer::new(keys.chain(omap.values().flatten().map(Bytes::len)));
    omap.iter().map(move |(key, value)| {
        let key = packer.pack(&start, key);
        (key, value.as_ref().map(|value| packer.pack(b"", value)))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    Xattrs = 1,
    Omap = 2,
}

/// Marks the attributes and omap of a removed object for the cleaner.
pub(crate) fn mark_garbage(onode: &Onode, record: &mut Record) {
    if onode.has_xattrs {
        record.changes.push(garbage(onode.oid, Garbage::Xattrs));
    }
    if onode.omap_id != 0 {
        record.changes.push(garbage(onode.omap_id, Garbage::Omap));
    }
}

fn garbage(id: u64, what: Garbage) -> (Bytes, Option<Bytes>) {
    (keys::with_u64(keys::PREFIX_GARBAGE, id, &[what as u8]).into(), Some(Bytes::new()))
}

impl ObjectAccess for Object<'_> {
    fn stat(&mut self) -> Result<Stat> {
        if !self.exists {
            return Err(no_such_object());
        }
        let modified_before = self.before.as_ref().map(|onode| onode.modified_unix_ns);
        let modified_unix_ns = if self.changed { None } else { modified_before }.unwrap_or(self.now_unix_ns);
        Ok(Stat { size_bytes: self.size_bytes, modified_unix_ns })
    }

    fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.disk.read_with(self.before()?, offset_bytes, len_bytes, self.source, self.cached)
    }

    fn get_xattr(&mut self, name: &str) -> Result<Bytes> {
        let before = self.before()?;
        let key = keys::with_u64(keys::PREFIX_XATTR, before.oid, name.as_bytes());
        let value = if before.has_xattrs { self.disk.kv.get(&key)? } else { None };
        value.ok_or_else(|| no_such_xattr(name))
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        let before = self.before()?;
        if !before.has_xattrs {
            return Ok(BTreeMap::new());
        }
        let mut xattrs = BTreeMap::new();
        let mut len_bytes = 0;
        for entry in self.disk.kv.scan(&keys::with_u64(keys::PREFIX_XATTR, before.oid, b""), None) {
            let (key, value) = entry?;
            let name = String::from_utf8(key[keys::TAIL_AT..].to_vec())
                .map_err(|_| super::kv::malformed("the name of an attribute"))?;
            len_bytes += (name.len() + value.len()) as u64;
            op::check_reply(len_bytes)?;
            xattrs.insert(name, value);
        }
        Ok(xattrs)
    }

    fn omap_get(&mut self, wanted: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        let omap_id = self.before()?.omap_id;
        if omap_id == 0 {
            return Ok(Vec::new());
        }
        let wanted: std::collections::BTreeSet<&Bytes> = wanted.iter().collect();
        let mut found = Vec::new();
        let mut len_bytes = 0;
        for key in wanted {
            if let Some(value) = self.disk.kv.get(&keys::with_u64(keys::PREFIX_OMAP, omap_id, key))? {
                len_bytes += (key.len() + value.len()) as u64;
                op::check_reply(len_bytes)?;
                self.source.check(len_bytes)?;
                found.push((key.clone(), value));
            }
        }
        Ok(found)
    }

    fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage> {
        let omap_id = self.before()?.omap_id;
        let mut page = OmapPageBuilder::new(entries_max);
        if omap_id == 0 {
            return Ok(page.finish());
        }
        let after = after.map(|after| keys::with_u64(keys::PREFIX_OMAP, omap_id, after));
        let mut packer = Packer::default();
        for entry in self.disk.kv.scan(&keys::with_u64(keys::PREFIX_OMAP, omap_id, prefix), after.as_deref())
        {
            let (key, value) = entry?;
            if !page.push(packer.pack(b"", &key[keys::TAIL_AT..]), value) {
                break;
            }
        }
        Ok(page.finish())
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        if exclusive && self.exists {
            return Err(Error::already_exists("the object already exists"));
        }
        self.touch();
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, data: Bytes) -> Result<()> {
        self.touch();
        if !data.is_empty() {
            self.data_changed = true;
            self.size_bytes = self.size_bytes.max(offset_bytes + data.len() as u64);
            self.pieces.write(offset_bytes, data);
        }
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.touch();
        self.cut(0);
        self.size_bytes = data.len() as u64;
        self.pieces.write(0, data);
        Ok(())
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<()> {
        if self.exists {
            self.touch();
            self.cut(size_bytes);
        }
        Ok(())
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        if !self.exists {
            return Ok(());
        }
        match ZeroEffect::of(self.size_bytes, offset_bytes, len_bytes) {
            ZeroEffect::Nothing => {}
            ZeroEffect::Truncate => {
                self.touch();
                self.cut(offset_bytes);
            }
            ZeroEffect::Fill => {
                self.touch();
                self.data_changed = true;
                self.pieces.zero(offset_bytes, len_bytes);
            }
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.touch_existing()?;
        self.exists = false;
        self.reset = true;
        self.cut(0);
        self.xattrs.clear();
        self.omap.clear();
        Ok(())
    }

    fn set_xattr(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.touch();
        self.xattrs.insert(name.to_owned(), Some(value));
        Ok(())
    }

    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.touch();
        self.omap.extend(entries.into_iter().map(|(key, value)| (key, Some(value))));
        Ok(())
    }

    fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()> {
        self.touch_existing()?;
        self.omap.extend(keys.iter().map(|key| (key.clone(), None)));
        Ok(())
    }

    fn omap_clear(&mut self) -> Result<()> {
        if !self.exists {
            return Err(no_such_object());
        }
        let had_omap = self.before.as_ref().is_some_and(|onode| onode.omap_id != 0) && !self.reset;
        if had_omap || !self.omap.is_empty() {
            self.touch();
            self.omap.clear();
            self.omap_cleared = true;
        }
        Ok(())
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        crate::log_from_class(level, message);
    }
}

impl ObjectState for Object<'_> {
    fn version_before(&self) -> Option<u64> {
        self.before.as_ref().map(|onode| onode.version)
    }

    fn remove_xattr(&mut self, name: &str) -> Result<()> {
        self.touch_existing()?;
        self.xattrs.insert(name.to_owned(), None);
        Ok(())
    }
}
