//! What readers found out about objects, so that the next one need not look it up: beside each lock that objects share,
//! the last one that was read under it. Whoever changes an object holds that lock alone and forgets first, so that what
//! is here is always what the key-value store has; but for objects of removed pools, of which nobody can ask any more.

use super::keys::{Chunk, Data, Onode};
use benthic_core::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Chunks from here on are looked up every time: one object is to take little memory, here about 3 KiB.
const CHUNKS_MAX: u32 = 64;

#[derive(Default)]
pub(crate) struct Known(Mutex<Option<Box<Object>>>);

struct Object {
    pool: u32,
    id: ObjectId,
    onode: Onode,
    /// Only streams: blocks take more memory, and their objects change.
    chunks: BTreeMap<u32, Chunk>,
}

impl Known {
    pub fn onode(&self, pool: u32, id: &ObjectId) -> Option<Onode> {
        let known = self.0.lock();
        known
            .as_ref()
            .filter(|object| object.pool == pool && object.id == *id)
            .map(|object| object.onode.clone())
    }

    /// The caller read it under the shared lock that this belongs to, and still holds that.
    pub fn learn(&self, pool: u32, id: &ObjectId, onode: &Onode) {
        // What is inline would keep the block alive that it was read from.
        if onode.data == Data::Chunks {
            let (id, onode) = (id.clone(), onode.clone());
            *self.0.lock() = Some(Box::new(Object { pool, id, onode, chunks: BTreeMap::new() }));
        }
    }

    /// The chunks with an index in `first..=last`, if all of them are known.
    pub fn chunks(&self, oid: u64, first: u32, last: u32) -> Option<BTreeMap<u32, Chunk>> {
        let known = self.0.lock();
        let object = known.as_ref().filter(|object| object.onode.oid == oid && last < CHUNKS_MAX)?;
        let chunks = object.chunks.range(first..=last).map(|(index, chunk)| (*index, chunk.clone()));
        let chunks: BTreeMap<_, _> = chunks.collect();
        (chunks.len() as u64 == u64::from(last - first) + 1).then_some(chunks)
    }

    /// As [`Known::learn`].
    pub fn learn_chunks(&self, oid: u64, chunks: &BTreeMap<u32, Chunk>) {
        // Another object under the same lock may have been read meanwhile.
        if let Some(object) = self.0.lock().as_mut().filter(|object| object.onode.oid == oid) {
            let few = chunks.range(..CHUNKS_MAX).filter(|(_, chunk)| matches!(chunk, Chunk::Stream { .. }));
            object.chunks.extend(few.map(|(index, chunk)| (*index, chunk.clone())));
        }
    }

    /// Before the object is changed.
    pub fn forget(&mut self) {
        *self.0.get_mut() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS_MAX, Known};
    use crate::store::keys::{Chunk, Data, Onode};
    use benthic_core::ObjectId;
    use std::collections::BTreeMap;

    fn onode(oid: u64, data: Data) -> Onode {
        Onode {
            oid,
            omap_id: 0,
            version: 1,
            modified_unix_ns: 0,
            size_bytes: 1 << 20,
            has_xattrs: false,
            data,
        }
    }

    fn stream(offset_bytes: u64) -> Chunk {
        Chunk::Stream { offset_bytes, len_bytes: 65_536, crc: 0 }
    }

    #[test]
    fn only_what_was_learned_of_the_same_object_is_known() {
        let mut known = Known::default();
        let [a, b] = ["a", "b"].map(|name| ObjectId::new(name).unwrap());
        let first = onode(7, Data::Chunks);
        known.learn(1, &a, &first);
        assert_eq!(known.onode(1, &a), Some(first.clone()));
        assert_eq!((known.onode(2, &a), known.onode(1, &b)), (None, None));

        let blocks = Chunk::Blocks(Box::new([None; 16]));
        let found =
            BTreeMap::from([(0, stream(0)), (1, stream(65_536)), (2, blocks), (CHUNKS_MAX, stream(0))]);
        known.learn_chunks(8, &found);
        assert_eq!(known.chunks(7, 0, 0), None, "those were another object's");
        known.learn_chunks(7, &found);
        assert_eq!(known.chunks(7, 0, 1), Some(BTreeMap::from([(0, stream(0)), (1, stream(65_536))])));
        assert_eq!(known.chunks(8, 0, 1), None);
        assert_eq!(known.chunks(7, 1, 2), None, "not all of them");
        assert_eq!(known.chunks(7, CHUNKS_MAX, CHUNKS_MAX), None);

        known.learn(1, &b, &onode(9, Data::Inline(Vec::new().into())));
        assert_eq!(known.onode(1, &b), None, "what is inline is not kept");
        known.learn(1, &b, &onode(9, Data::Chunks));
        assert_eq!((known.onode(1, &a), known.chunks(7, 0, 0)), (None, None), "there is room for one");
        known.forget();
        assert_eq!((known.onode(1, &b), known.chunks(9, 0, 0)), (None, None));
    }
}
