//! The cache of object metadata, which saves readers a lookup in the key-value store.
//!
//! Each object lock guards one cache entry: the last object read under that lock, which objects
//! share by hash. A writer holds the lock exclusively and clears the entry before it changes the
//! object, so an entry is never stale. Entries for objects of removed pools may remain, but no
//! request can name such an object.

use super::direct::{Location, ReadRange};
use super::keys::{Chunk, Data, Onode};
use benthic_core::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Only chunks with an index below this are cached, so that an entry takes at most about 3 KiB.
const CHUNKS_MAX: u32 = 64;

#[derive(Default)]
pub(crate) struct ObjectCacheEntry {
    object: Mutex<Option<Box<CachedObject>>>,
    /// The revision of the lock's objects; see [`super::direct`].
    revision: u64,
    /// A client has the revision.
    shared: AtomicBool,
}

struct CachedObject {
    pool: u32,
    id: ObjectId,
    onode: Onode,
    /// Only streams are cached: blocks take more memory, and their objects change often.
    chunks: BTreeMap<u32, Chunk>,
}

impl ObjectCacheEntry {
    pub fn onode(&self, pool: u32, id: &ObjectId) -> Option<Onode> {
        let cached = self.object.lock();
        cached
            .as_ref()
            .filter(|object| object.pool == pool && object.id == *id)
            .map(|object| object.onode.clone())
    }

    /// Caches an object. The caller must have read it under the shared lock that guards this entry,
    /// and must still hold the lock.
    pub fn insert(&self, pool: u32, id: &ObjectId, onode: &Onode) {
        // Inline data would keep alive the whole block that it was read from.
        if onode.data == Data::Chunks {
            let (id, onode) = (id.clone(), onode.clone());
            *self.object.lock() = Some(Box::new(CachedObject { pool, id, onode, chunks: BTreeMap::new() }));
        }
    }

    /// The chunks with an index in `first..=last`, if all of them are cached.
    pub fn chunks(&self, oid: u64, first: u32, last: u32) -> Option<BTreeMap<u32, Chunk>> {
        assert!(first <= last, "a range of chunks is not empty");
        let cached = self.object.lock();
        let object = cached.as_ref().filter(|object| object.onode.oid == oid && last < CHUNKS_MAX)?;
        let chunks = object.chunks.range(first..=last).map(|(index, chunk)| (*index, chunk.clone()));
        let chunks: BTreeMap<_, _> = chunks.collect();
        (chunks.len() as u64 == u64::from(last - first) + 1).then_some(chunks)
    }

    /// Adds chunks to the entry, under the same conditions as [`ObjectCacheEntry::insert`].
    pub fn insert_chunks(&self, oid: u64, chunks: &BTreeMap<u32, Chunk>) {
        // Another reader under the same lock may have replaced the object meanwhile.
        if let Some(object) = self.object.lock().as_mut().filter(|object| object.onode.oid == oid) {
            let few = chunks.range(..CHUNKS_MAX).filter(|(_, chunk)| matches!(chunk, Chunk::Stream { .. }));
            object.chunks.extend(few.map(|(index, chunk)| (*index, chunk.clone())));
        }
    }

    /// Evicts the object. A writer must call this before it changes the object.
    pub fn clear(&mut self) {
        *self.object.get_mut() = None;
    }

    /// The location of a range, for a client, if all of the range is cached. From then on a writer
    /// must change the revision of `slot`, which is this entry's.
    pub fn share(&self, slot: u32, pool: u32, id: &ObjectId, range: ReadRange) -> Option<Location> {
        let Onode { oid, version, size_bytes, .. } = self.onode(pool, id)?;
        let part = range.within(size_bytes)?;
        let chunks = self.chunks(oid, part.first_chunk, part.last_chunk)?;
        self.shared.store(true, Ordering::Relaxed);
        Some(Location { slot, revision: self.revision, oid, version, size_bytes, chunks })
    }

    /// Returns true if a client has the revision.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Sets a revision that no client has.
    pub fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
        *self.shared.get_mut() = false;
    }
}

#[cfg(test)]
#[path = "object_cache_tests.rs"]
mod tests;
