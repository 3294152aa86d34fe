//! The store on disk: key-value store, data file and allocator.

use super::alloc::Allocator;
use super::data::{DataFile, Source};
use super::keys::{self, CHUNK_BYTES, Chunk, Data, Onode};
use super::kv::{Kv, malformed};
use super::object_cache::ObjectCacheEntry;
use benthic_core::{ObjectId, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

pub(crate) struct Disk {
    pub kv: Kv,
    pub data: DataFile,
    pub allocator: Mutex<Allocator>,
    pub next_id: AtomicU64,
}

impl Disk {
    pub fn onode(&self, pool: u32, id: &ObjectId) -> Result<Option<Onode>> {
        let value = self.kv.get(&keys::onode(pool, id))?;
        value.map(|value| Onode::decode(&value).map_err(|_| malformed("the object's metadata"))).transpose()
    }

    /// The existing chunks of an object with an index in `first..=last`.
    pub fn chunks(&self, oid: u64, first: u32, last: u32) -> Result<BTreeMap<u32, Chunk>> {
        let decode =
            |value: Bytes| Chunk::decode(&value).map_err(|_| malformed("the object's map of extents"));
        assert!(first <= last, "a range of chunks is not empty");
        let mut chunks = BTreeMap::new();
        if last - first < 2 {
            for index in first..=last {
                if let Some(value) = self.kv.get(&keys::chunk(oid, index))? {
                    chunks.insert(index, decode(value)?);
                }
            }
            return Ok(chunks);
        }
        let after = first.checked_sub(1).map(|before| keys::chunk(oid, before));
        for entry in self.kv.scan(&keys::with_u64(keys::PREFIX_CHUNK, oid, b""), after.as_deref()) {
            let (key, value) = entry?;
            let index = keys::chunk_index(&key).map_err(|_| malformed("the key of a chunk"))?;
            if index > last {
                break;
            }
            chunks.insert(index, decode(value)?);
        }
        Ok(chunks)
    }

    /// The index of the object's first existing chunk from `first` on.
    pub fn next_chunk(&self, oid: u64, first: u32) -> Result<Option<u32>> {
        let after = first.checked_sub(1).map(|before| keys::chunk(oid, before));
        let mut chunks = self.kv.scan(&keys::with_u64(keys::PREFIX_CHUNK, oid, b""), after.as_deref());
        let Some(entry) = chunks.next() else { return Ok(None) };
        keys::chunk_index(&entry?.0).map(Some).map_err(|_| malformed("the key of a chunk"))
    }

    fn chunks_with(
        &self,
        oid: u64,
        first: u32,
        last: u32,
        cached: Option<&ObjectCacheEntry>,
    ) -> Result<BTreeMap<u32, Chunk>> {
        if let Some(chunks) = cached.and_then(|cached| cached.chunks(oid, first, last)) {
            return Ok(chunks);
        }
        let chunks = self.chunks(oid, first, last)?;
        if let Some(cached) = cached {
            cached.insert_chunks(oid, &chunks);
        }
        Ok(chunks)
    }

    /// Reads and verifies a range of an object's data. The result is short at the end of the
    /// object.
    pub fn read(&self, onode: &Onode, offset_bytes: u64, len_bytes: u64, source: Source) -> Result<Bytes> {
        self.read_with(onode, offset_bytes, len_bytes, source, None)
    }

    /// Like [`Disk::read`], but takes chunks from the cache entry and adds those that it looked up.
    pub fn read_with(
        &self,
        onode: &Onode,
        offset_bytes: u64,
        len_bytes: u64,
        source: Source,
        cached: Option<&ObjectCacheEntry>,
    ) -> Result<Bytes> {
        let len_bytes = len_bytes.min(onode.size_bytes.saturating_sub(offset_bytes));
        if len_bytes == 0 {
            return Ok(Bytes::new());
        }
        source.check(len_bytes)?;
        let end_bytes = offset_bytes + len_bytes;
        match &onode.data {
            Data::Inline(data) => {
                let mut buffer = vec![0; len_bytes as usize];
                let stored = end_bytes.min(data.len() as u64);
                if offset_bytes < stored {
                    let stored = &data[offset_bytes as usize..stored as usize];
                    buffer[..stored.len()].copy_from_slice(stored);
                }
                Ok(Bytes::from(buffer))
            }
            Data::Chunks => {
                let (first, last) =
                    ((offset_bytes / CHUNK_BYTES) as u32, ((end_bytes - 1) / CHUNK_BYTES) as u32);
                let chunks = self.chunks_with(onode.oid, first, last, cached)?;
                self.data.read_chunks(onode.oid, &chunks, offset_bytes, len_bytes, source)
            }
        }
    }
}
