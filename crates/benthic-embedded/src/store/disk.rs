//! The store on disk: key-value store, data file and allocator. Also reads and verifies object
//! data.

use super::alloc::Allocator;
use super::data::{DataFile, Source};
use super::keys::{self, BLOCK_BYTES, CHUNK_BYTES, Chunk, Data, Extent, Onode, data_crc};
use super::kv::{Kv, malformed};
use super::object_cache::ObjectCacheEntry;
use benthic_core::{Error, ErrorKind, ObjectId, Result};
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
        let mut buffer;
        match &onode.data {
            Data::Inline(data) => {
                buffer = vec![0; len_bytes as usize];
                let stored = end_bytes.min(data.len() as u64);
                if offset_bytes < stored {
                    let stored = &data[offset_bytes as usize..stored as usize];
                    buffer[..stored.len()].copy_from_slice(stored);
                }
            }
            Data::Chunks => {
                let (first, last) =
                    ((offset_bytes / CHUNK_BYTES) as u32, ((end_bytes - 1) / CHUNK_BYTES) as u32);
                let chunks = self.chunks_with(onode.oid, first, last, cached)?;
                if source == Source::Disk
                    && let Some(run) = one_run(&chunks, offset_bytes, len_bytes)
                    && let Some(buffer) = self.data.read_whole(run)
                {
                    return verified(onode.oid, &chunks, buffer);
                }
                buffer = vec![0; len_bytes as usize];
                for (index, chunk) in chunks {
                    let base = u64::from(index) * CHUNK_BYTES;
                    let from = offset_bytes.max(base);
                    let to = end_bytes.min(base + CHUNK_BYTES);
                    let target = &mut buffer[(from - offset_bytes) as usize..(to - offset_bytes) as usize];
                    self.read_chunk(onode.oid, base, &chunk, from - base, target, source)?;
                }
            }
        }
        assert_eq!(buffer.len() as u64, len_bytes, "a read returns the part of the range within the object");
        Ok(Bytes::from(buffer))
    }

    /// Fills `target`, which must be zeroed, with the chunk's data from `from_bytes` on. The offset
    /// is relative to the chunk.
    pub fn read_chunk(
        &self,
        oid: u64,
        base_bytes: u64,
        chunk: &Chunk,
        from_bytes: u64,
        target: &mut [u8],
        source: Source,
    ) -> Result<()> {
        assert!(base_bytes.is_multiple_of(CHUNK_BYTES), "a chunk starts at a multiple of its length");
        assert!(from_bytes + target.len() as u64 <= CHUNK_BYTES, "a read of a chunk ends with the chunk");
        let read = |logical, offset_bytes, crc, buffer: &mut [u8]| {
            self.read_verified(oid, logical, offset_bytes, crc, buffer, source)
        };
        match chunk {
            Chunk::Stream { offset_bytes, len_bytes, crc } => {
                let len = *len_bytes as usize;
                if from_bytes == 0 && target.len() >= len {
                    return read(base_bytes, *offset_bytes, *crc, &mut target[..len]);
                }
                let mut whole = vec![0; len];
                read(base_bytes, *offset_bytes, *crc, &mut whole)?;
                let wanted = whole.get(from_bytes as usize..).unwrap_or_default();
                let count = wanted.len().min(target.len());
                target[..count].copy_from_slice(&wanted[..count]);
            }
            Chunk::Blocks(blocks) => {
                let to_bytes = from_bytes + target.len() as u64;
                for (index, block) in blocks.iter().enumerate() {
                    let start = index as u64 * BLOCK_BYTES;
                    let Some(block) = block else { continue };
                    if start + BLOCK_BYTES <= from_bytes || start >= to_bytes {
                        continue;
                    }
                    let (from, to) = (start.max(from_bytes), (start + BLOCK_BYTES).min(to_bytes));
                    let target = &mut target[(from - from_bytes) as usize..(to - from_bytes) as usize];
                    let logical = base_bytes + start;
                    if target.len() as u64 == BLOCK_BYTES {
                        read(logical, block.offset_bytes, block.crc, target)?;
                    } else {
                        let mut whole = [0; BLOCK_BYTES as usize];
                        read(logical, block.offset_bytes, block.crc, &mut whole)?;
                        target.copy_from_slice(&whole[(from - start) as usize..(to - start) as usize]);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_verified(
        &self,
        oid: u64,
        logical: u64,
        offset_bytes: u64,
        crc: u32,
        buffer: &mut [u8],
        source: Source,
    ) -> Result<()> {
        self.data.read(offset_bytes, buffer, source).map_err(|error| error.with("offset_bytes", logical))?;
        if data_crc(oid, logical, buffer) == crc {
            return Ok(());
        }
        buffer.fill(0);
        Err(mismatch(logical))
    }
}

/// Verifies the data that was read from the extent of [`one_run`].
fn verified(oid: u64, chunks: &BTreeMap<u32, Chunk>, data: Vec<u8>) -> Result<Bytes> {
    for (data, (index, chunk)) in data.chunks(CHUNK_BYTES as usize).zip(chunks) {
        let base = u64::from(*index) * CHUNK_BYTES;
        if !matches!(chunk, Chunk::Stream { crc, .. } if data_crc(oid, base, data) == *crc) {
            return Err(mismatch(base));
        }
    }
    Ok(Bytes::from(data))
}

fn mismatch(logical: u64) -> Error {
    Error::new(ErrorKind::Corrupt, "the data does not match its checksum").with("offset_bytes", logical)
}

/// The extent of a range of an object, if the range consists of complete streams that are adjacent
/// on disk. A single write of the whole range leaves such streams.
fn one_run(chunks: &BTreeMap<u32, Chunk>, offset_bytes: u64, len_bytes: u64) -> Option<Extent> {
    let Some(Chunk::Stream { offset_bytes: start_bytes, .. }) = chunks.values().next() else { return None };
    let mut done_bytes = 0;
    for (index, chunk) in chunks {
        let Chunk::Stream { offset_bytes: at_bytes, len_bytes: stream_bytes, .. } = chunk else {
            return None;
        };
        let adjacent = *at_bytes == start_bytes + done_bytes;
        let in_order = u64::from(*index) * CHUNK_BYTES == offset_bytes + done_bytes;
        let wanted_bytes = (len_bytes - done_bytes).min(CHUNK_BYTES);
        if !adjacent || !in_order || u64::from(*stream_bytes) != wanted_bytes {
            return None;
        }
        done_bytes += wanted_bytes;
    }
    (done_bytes == len_bytes).then_some(Extent { offset_bytes: *start_bytes, len_bytes })
}

#[cfg(test)]
mod tests {
    use super::one_run;
    use crate::store::keys::{Block, CHUNK_BYTES, Chunk, Extent};
    use std::collections::BTreeMap;

    const WHOLE: u32 = CHUNK_BYTES as u32;

    fn stream(offset_bytes: u64, len_bytes: u32) -> Chunk {
        Chunk::Stream { offset_bytes, len_bytes, crc: 0 }
    }

    #[test]
    fn one_run_consists_of_whole_streams_without_a_gap() {
        let run = |chunks: &[(u32, Chunk)], offset_bytes, len_bytes| {
            one_run(&BTreeMap::from_iter(chunks.iter().cloned()), offset_bytes, len_bytes)
        };
        let chunk = CHUNK_BYTES;
        let object = [(2, stream(4_096, WHOLE)), (3, stream(4_096 + chunk, 100))];
        let found = Some(Extent { offset_bytes: 4_096, len_bytes: chunk + 100 });
        assert_eq!(run(&object, 2 * chunk, chunk + 100), found);
        assert_eq!(run(&object, 2 * chunk, chunk + 99), None, "a part of the last");
        assert_eq!(run(&object, 2 * chunk, chunk + 101), None, "zeros behind the last");
        assert_eq!(run(&object, 2 * chunk + 1, chunk + 99), None, "a part of the first");
        assert_eq!(run(&object, chunk, 2 * chunk + 100), None, "a hole before");
        assert_eq!(run(&object[..1], 2 * chunk, chunk + 100), None, "a hole behind");
        assert_eq!(run(&[], 0, chunk), None, "nothing but a hole");
        let hole = [(0, stream(0, WHOLE)), (2, stream(chunk, WHOLE))];
        assert_eq!(run(&hole, 0, 3 * chunk), None, "a hole within");
        let apart = [(0, stream(0, WHOLE)), (1, stream(chunk + 4_096, WHOLE))];
        assert_eq!(run(&apart, 0, 2 * chunk), None, "elsewhere in the file");
        let mut blocks = Box::new([None; 16]);
        blocks[0] = Some(Block { offset_bytes: chunk, crc: 0 });
        let mixed = [(0, stream(0, WHOLE)), (1, Chunk::Blocks(blocks))];
        assert_eq!(run(&mixed, 0, 2 * chunk), None, "blocks have checksums of their own");
    }
}
