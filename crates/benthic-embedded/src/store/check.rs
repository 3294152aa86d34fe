//! The two checks of a store. *Scrub* reads every object and verifies its checksums, step by step,
//! while the store is in use. *Fsck* verifies that the metadata are intact and consistent: that
//! every key and every extent has exactly one owner. It reads no object data.

use super::alloc::blocks;
use super::block_set::BlockSet;
use super::data::Source;
use super::engine::{Engine, PoolEntry};
use super::keys::{self, BLOCK_BYTES, Chunk, Data, Onode};
use super::kv_files;
use super::object::Object;
use crate::listing;
use benthic_core::{
    Damage, Error, ErrorKind, Finding, FsckReport, ListToken, ObjectAccess, ObjectAddress, ObjectId, Result,
    ScrubPage, limits,
};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A scrub step ends after this many objects or bytes.
const SCRUB_OBJECTS_MAX: u64 = 1_000;
const SCRUB_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A scrub step ends after the object with which it has found this many damaged places. That object
/// may add up to as many again.
const SCRUB_DAMAGE_MAX: usize = 1_000;
/// Size of one read of an object's data.
const SCRUB_READ_BYTES: u64 = 1024 * 1024;
/// Maximum number of findings in a report. Fsck only counts further findings.
const FINDINGS_MAX: usize = 1_000;

impl Engine {
    /// Does one scrub step: verifies the next objects of a pool after `after`, up to the limits
    /// above. The first step also verifies the files of the key-value store.
    pub fn scrub(&self, pool: u32, after: Option<&ListToken>) -> Result<ScrubPage> {
        let pool = self.pool(pool)?;
        let after = after.map(listing::decode_token).transpose()?.map(|id| keys::onode(pool.id, &id));
        let mut page = ScrubPage::default();
        if after.is_none() {
            let errors = kv_files::verify_bytes(&self.dir.kv());
            page.damage.extend(errors.iter().map(|error| damage(None, None, &error.to_string())));
        }
        for entry in self.disk.kv.scan(&keys::onodes(pool.id, b""), after.as_deref()) {
            let id = entry.map(|(key, _)| listing::decode(&key[keys::ONODE_ID_AT..]));
            let id = match id {
                Ok(Some(id)) => id,
                Ok(None) => {
                    page.damage.push(damage(None, None, "the name of an object cannot be decoded"));
                    continue;
                }
                Err(error) => {
                    // The listing cannot continue after the damaged entry.
                    page.damage.push(damage(None, None, &error.to_string()));
                    return Ok(page);
                }
            };
            self.scrub_object(&pool, &id, &mut page)?;
            page.objects += 1;
            if page.objects == SCRUB_OBJECTS_MAX
                || page.bytes >= SCRUB_BYTES_MAX
                || page.damage.len() >= SCRUB_DAMAGE_MAX
            {
                page.next = Some(ListToken(Bytes::from(listing::encode(&id))));
                break;
            }
        }
        Ok(page)
    }

    fn scrub_object(&self, pool: &PoolEntry, id: &ObjectId, page: &mut ScrubPage) -> Result<()> {
        let _pool = pool.guard()?;
        let _shared = self.object_lock(pool.id, id).read();
        let mut note = |offset_bytes: Option<u64>, error: Error| match error.kind() {
            ErrorKind::Corrupt if page.damage.len() >= 2 * SCRUB_DAMAGE_MAX => Ok(()),
            ErrorKind::Corrupt => {
                page.damage.push(damage(Some(id), offset_bytes, error.message()));
                Ok(())
            }
            _ => Err(error),
        };
        let onode = match self.disk.onode(pool.id, id) {
            Ok(Some(onode)) => onode,
            // The object was removed after it was listed.
            Ok(None) => return Ok(()),
            Err(error) => return note(None, error),
        };
        let (mut bytes, mut next_bytes) = (0, 0);
        while let Some(offset_bytes) = self.next_scrub_read(&onode, next_bytes) {
            next_bytes = onode.size_bytes.min(offset_bytes + SCRUB_READ_BYTES);
            bytes += next_bytes - offset_bytes;
            if self.disk.read(&onode, offset_bytes, SCRUB_READ_BYTES, Source::Disk).is_ok() {
                continue;
            }
            // Read again block by block, to find every damaged place. The error has the start of
            // the range that the wrong checksum covers. That range may have several blocks, which
            // all fail, so report each place once.
            let mut last_place = None;
            for at in (offset_bytes..next_bytes).step_by(BLOCK_BYTES as usize) {
                let Err(error) = self.disk.read(&onode, at, BLOCK_BYTES, Source::Disk) else { continue };
                let place = error.context().find(|(key, _)| *key == "offset_bytes");
                let place = place.and_then(|(_, place)| place.parse().ok()).or(Some(at));
                if place != last_place {
                    last_place = place;
                    note(place, error)?;
                }
            }
        }
        let mut object = Object::new(&self.disk, Vec::new(), Some(onode), 0, Source::Disk);
        match object.list_xattrs() {
            Ok(xattrs) => bytes += xattrs.values().map(|value| value.len() as u64).sum::<u64>(),
            Err(error) => note(None, error)?,
        }
        let mut after: Option<Bytes> = None;
        loop {
            match object.omap_range(after.as_deref(), b"", limits::OMAP_PAGE_ENTRIES_MAX) {
                Ok(omap) => {
                    bytes +=
                        omap.entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
                    after = omap.entries.last().map(|(key, _)| key.clone());
                    if !omap.more {
                        break;
                    }
                }
                Err(error) => {
                    note(None, error)?;
                    break;
                }
            }
        }
        page.bytes += bytes;
        Ok(())
    }

    /// The offset of the next read of an object's data, from `from_bytes` on. Skips holes, because
    /// a sparse object may be much larger than its data.
    fn next_scrub_read(&self, onode: &Onode, from_bytes: u64) -> Option<u64> {
        if from_bytes >= onode.size_bytes || onode.data != Data::Chunks {
            return (from_bytes < onode.size_bytes).then_some(from_bytes);
        }
        let from = u32::try_from(from_bytes / keys::CHUNK_BYTES).ok()?;
        // If the map of extents cannot be read, the read of the data reports it.
        let next = self.disk.next_chunk(onode.oid, from).unwrap_or(Some(from))?;
        let offset_bytes = u64::from(next) * keys::CHUNK_BYTES / SCRUB_READ_BYTES * SCRUB_READ_BYTES;
        (offset_bytes < onode.size_bytes).then_some(offset_bytes)
    }

    /// Checks that every key belongs to an object or pool, that every extent belongs to one object,
    /// and that the allocator's map of used blocks contains exactly these extents. Blocks all
    /// writes until it is done. Takes up to 60 bytes of memory for each object.
    pub fn fsck(&self) -> Result<FsckReport> {
        let disk_bytes = self.dir.disk_bytes();
        let commit = self.writer.as_ref().map(|writer| &writer.commit);
        let check = || {
            let mut fsck = Fsck::new(self);
            fsck.run();
            fsck.report
        };
        let mut report = if let Some(commit) = commit { commit.run_paused(check) } else { check() };
        report.disk_bytes = disk_bytes;
        for error in kv_files::verify_bytes(&self.dir.kv()) {
            let message = format!("{error}; a scrub names the affected objects");
            report.findings.push(Finding { object: None, message });
        }
        if let Some(Err(error)) = commit.map(|commit| commit.check_writable()) {
            report.findings.push(Finding { object: None, message: error.to_string() });
        }
        Ok(report)
    }
}

fn damage(object: Option<&ObjectId>, offset_bytes: Option<u64>, message: &str) -> Damage {
    Damage { object: object.cloned(), offset_bytes, message: message.to_owned() }
}

struct Fsck<'a> {
    engine: &'a Engine,
    report: FsckReport,
    /// Number of findings, including those that the report omits.
    findings: usize,
    /// Indexes of findings in the report that lack the name of their object, with its number.
    unnamed: Vec<(usize, u64)>,
    /// The objects by their number, `oid`.
    objects: HashMap<u64, ObjectFacts>,
    /// The numbers of the omaps of all objects.
    omap_ids: HashSet<u64>,
    /// The numbers of removed objects and omaps whose keys the cleaner still has to delete.
    garbage: HashSet<u64>,
    /// The blocks that belong to an object.
    owned_blocks: BlockSet,
}

/// The facts about an object that fsck keeps. They are few, because a store may have very many
/// objects: fsck looks up the name of an object again if there is a finding.
struct ObjectFacts {
    /// The object has no data in chunks from this index on.
    chunks_end: u32,
    has_xattrs: bool,
    /// The object's pool was removed. The cleaner still has to delete the object.
    in_removed_pool: bool,
}

impl<'a> Fsck<'a> {
    fn new(engine: &'a Engine) -> Fsck<'a> {
        Fsck {
            engine,
            report: FsckReport::default(),
            findings: 0,
            unnamed: Vec::new(),
            objects: HashMap::new(),
            omap_ids: HashSet::new(),
            garbage: HashSet::new(),
            owned_blocks: BlockSet::default(),
        }
    }

    fn run(&mut self) {
        let removed_pools = self.removed_pools();
        let pools: BTreeMap<u32, String> =
            self.engine.pools.read().values().map(|pool| (pool.id, pool.name.clone())).collect();
        self.report.pools = pools.len() as u64;
        self.for_each_key(keys::PREFIX_GARBAGE, |fsck, key, _| {
            fsck.garbage.extend(id_of(key));
            key.len() == keys::TAIL_AT + 1
        });
        self.for_each_key(keys::PREFIX_ONODE, |fsck, key, value| {
            fsck.check_onode(key, value, &pools, &removed_pools)
        });
        self.for_each_key(keys::PREFIX_CHUNK, Fsck::check_chunk);
        self.for_each_key(keys::PREFIX_XATTR, |fsck, key, _| {
            let id = id_of(key).unwrap_or(0);
            fsck.garbage.contains(&id) || fsck.objects.get(&id).is_some_and(|found| found.has_xattrs)
        });
        self.for_each_key(keys::PREFIX_OMAP, |fsck, key, _| {
            let id = id_of(key).unwrap_or(0);
            fsck.garbage.contains(&id) || fsck.omap_ids.contains(&id)
        });
        self.check_used_blocks();
        self.name_objects(&pools);
        if self.findings > FINDINGS_MAX {
            let message = format!("and more: findings={} shown={FINDINGS_MAX}", self.findings);
            self.report.findings.push(Finding { object: None, message });
        }
    }

    /// Calls `check` for every key of one kind. `check` returns false if the key is malformed or
    /// has no owner, and this function then adds a finding.
    fn for_each_key(&mut self, prefix: u8, mut check: impl FnMut(&mut Fsck<'a>, &[u8], Bytes) -> bool) {
        for entry in self.engine.disk.kv.scan(&[prefix], None) {
            match entry {
                Ok((key, value)) => {
                    if !check(self, &key, value) {
                        let message =
                            format!("a key of kind '{}' has no owner or is malformed", prefix as char);
                        self.add_finding(None, format!("{message} key={}", key.escape_ascii()));
                    }
                }
                Err(error) => {
                    self.add_finding(
                        None,
                        format!("keys of kind '{}' cannot be read: {error}", prefix as char),
                    );
                    return;
                }
            }
        }
    }

    fn removed_pools(&mut self) -> HashSet<u32> {
        let mut removed = HashSet::new();
        self.for_each_key(keys::PREFIX_REMOVED_POOL, |_, key, _| {
            let pool = key.get(1..).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
            removed.extend(pool);
            pool.is_some()
        });
        removed
    }

    fn check_onode(
        &mut self,
        key: &[u8],
        value: Bytes,
        pools: &BTreeMap<u32, String>,
        removed_pools: &HashSet<u32>,
    ) -> bool {
        let Some(pool) = pool_of(key) else { return false };
        let in_removed_pool = !pools.contains_key(&pool);
        if in_removed_pool && !removed_pools.contains(&pool) {
            return false;
        }
        let Some(address) = address_of(key, pools) else { return false };
        let Ok(onode) = Onode::decode(&value) else {
            self.add_finding(
                Some(&address),
                "the object's metadata cannot be decoded; the object is lost".to_owned(),
            );
            return true;
        };
        if !in_removed_pool {
            self.report.objects += 1;
            if let Data::Inline(data) = &onode.data {
                self.report.data_bytes += data.len() as u64;
            }
        }
        if onode.omap_id != 0 && !self.omap_ids.insert(onode.omap_id) {
            self.add_finding(Some(&address), "the object shares its omap with another".to_owned());
        }
        let chunks_end = match onode.data {
            Data::Inline(_) => 0,
            Data::Chunks => onode.size_bytes.div_ceil(keys::CHUNK_BYTES).min(u32::MAX.into()) as u32,
        };
        let facts = ObjectFacts { chunks_end, has_xattrs: onode.has_xattrs, in_removed_pool };
        if self.objects.insert(onode.oid, facts).is_some() {
            let message = format!("the object has the same number as another number={}", onode.oid);
            self.add_finding(Some(&address), message.clone());
            self.add_finding_of(onode.oid, message);
        }
        true
    }

    fn check_chunk(&mut self, key: &[u8], value: Bytes) -> bool {
        let (Some(oid), Ok(index)) = (id_of(key), keys::chunk_index(key)) else { return false };
        let Some(&ObjectFacts { chunks_end, in_removed_pool, .. }) = self.objects.get(&oid) else {
            return false;
        };
        let offset_bytes = u64::from(index) * keys::CHUNK_BYTES;
        if index >= chunks_end {
            let message = format!("there is data after the object's end offset_bytes={offset_bytes}");
            self.add_finding_of(oid, message);
        }
        let Ok(chunk) = Chunk::decode(&value) else {
            let message =
                format!("the map of extents cannot be decoded; data is lost offset_bytes={offset_bytes}");
            self.add_finding_of(oid, message);
            return true;
        };
        self.report.data_bytes += match &chunk {
            _ if in_removed_pool => 0,
            Chunk::Stream { len_bytes, .. } => u64::from(*len_bytes),
            Chunk::Blocks(blocks) => blocks.iter().flatten().count() as u64 * BLOCK_BYTES,
        };
        for extent in chunk.extents() {
            let (free, used) = {
                let allocator = self.engine.disk.allocator.lock();
                (allocator.parts(extent, false), allocator.parts(extent, true))
            };
            for part in free {
                let (block, count) = blocks(part);
                let message = format!("blocks in use are marked as free block={block} blocks={count}");
                self.add_finding_of(oid, message);
            }
            for part in used {
                let (block, count) = blocks(part);
                let shared = count - self.owned_blocks.set(block, count, true);
                if shared > 0 {
                    let message = format!(
                        "the object shares blocks with another block={block} blocks={count} shared={shared}"
                    );
                    self.add_finding_of(oid, message);
                }
            }
        }
        true
    }

    /// Checks that no block is marked as used without an owner. `check_chunk` has found the
    /// reverse.
    fn check_used_blocks(&mut self) {
        let lost = self.engine.disk.allocator.lock().used_blocks() - self.owned_blocks.len();
        if lost > 0 {
            self.add_finding(
                None,
                format!("blocks are marked as used, but no object has them blocks={lost}"),
            );
        }
    }

    /// Names the objects of the findings that lack a name.
    fn name_objects(&mut self, pools: &BTreeMap<u32, String>) {
        if self.unnamed.is_empty() {
            return;
        }
        let wanted: HashSet<u64> = self.unnamed.iter().map(|(_, oid)| *oid).collect();
        let mut names = HashMap::new();
        for entry in self.engine.disk.kv.scan(&[keys::PREFIX_ONODE], None) {
            // There is a finding about unreadable keys already.
            let Ok((key, value)) = entry else { break };
            let Ok(onode) = Onode::decode(&value) else { continue };
            if wanted.contains(&onode.oid)
                && let Some(address) = address_of(&key, pools)
            {
                names.entry(onode.oid).or_insert(address);
            }
        }
        for (finding, oid) in self.unnamed.drain(..) {
            self.report.findings[finding].object = names.get(&oid).cloned();
        }
    }

    /// Adds a finding about the object with a number. [`Fsck::name_objects`] adds its name.
    fn add_finding_of(&mut self, oid: u64, message: String) {
        let at = self.report.findings.len();
        self.add_finding(None, message);
        if self.report.findings.len() > at {
            self.unnamed.push((at, oid));
        }
    }

    fn add_finding(&mut self, object: Option<&str>, message: String) {
        self.findings += 1;
        if self.findings <= FINDINGS_MAX {
            self.report.findings.push(Finding { object: object.map(str::to_owned), message });
        }
    }
}

/// The address of the object that the key of an onode names. An object of a removed pool has only
/// its name.
fn address_of(key: &[u8], pools: &BTreeMap<u32, String>) -> Option<String> {
    let object = listing::decode(key.get(keys::ONODE_ID_AT..)?)?;
    Some(match pools.get(&pool_of(key)?) {
        Some(pool) => ObjectAddress { pool: pool.clone(), object }.to_string(),
        None => object.to_string(),
    })
}

/// The number of the pool that the key of an onode or of a removed pool belongs to.
fn pool_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?))
}

/// The number of the object or omap that a key belongs to.
fn id_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..keys::TAIL_AT)?.try_into().ok()?))
}
