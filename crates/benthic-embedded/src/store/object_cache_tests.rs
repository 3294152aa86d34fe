use super::{CHUNKS_MAX, ObjectCacheEntry};
use crate::store::keys::{Chunk, Data, Onode};
use benthic_core::ObjectId;
use std::collections::BTreeMap;

fn onode(oid: u64, data: Data) -> Onode {
    Onode { oid, omap_id: 0, version: 1, modified_unix_ns: 0, size_bytes: 1 << 20, has_xattrs: false, data }
}

fn stream(offset_bytes: u64) -> Chunk {
    Chunk::Stream { offset_bytes, len_bytes: 65_536, crc: 0 }
}

#[test]
fn an_entry_answers_only_for_its_own_object() {
    let mut cached = ObjectCacheEntry::default();
    let [a, b] = ["a", "b"].map(|name| ObjectId::new(name).unwrap());
    let first = onode(7, Data::Chunks);
    cached.insert(1, &a, &first);
    assert_eq!(cached.onode(1, &a), Some(first.clone()));
    assert_eq!((cached.onode(2, &a), cached.onode(1, &b)), (None, None));

    let blocks = Chunk::Blocks(Box::new([None; 16]));
    let found = BTreeMap::from([(0, stream(0)), (1, stream(65_536)), (2, blocks), (CHUNKS_MAX, stream(0))]);
    cached.insert_chunks(8, &found);
    assert_eq!(cached.chunks(7, 0, 0), None, "those were another object's");
    cached.insert_chunks(7, &found);
    assert_eq!(cached.chunks(7, 0, 1), Some(BTreeMap::from([(0, stream(0)), (1, stream(65_536))])));
    assert_eq!(cached.chunks(8, 0, 1), None);
    assert_eq!(cached.chunks(7, 1, 2), None, "not all of them");
    assert_eq!(cached.chunks(7, CHUNKS_MAX, CHUNKS_MAX), None);

    cached.insert(1, &b, &onode(9, Data::Inline(Vec::new().into())));
    assert_eq!(cached.onode(1, &b), None, "objects with inline data are not cached");
    cached.insert(1, &b, &onode(9, Data::Chunks));
    assert_eq!((cached.onode(1, &a), cached.chunks(7, 0, 0)), (None, None), "an entry caches one object");
    cached.clear();
    assert_eq!((cached.onode(1, &b), cached.chunks(9, 0, 0)), (None, None));
}
