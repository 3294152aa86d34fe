//! Every stored format decodes to the value that was written. Damaged bytes are rejected or decode
//! to another value, but never panic.

use super::keys::{BLOCKS_PER_CHUNK, Block, Chunk, Data, Extent, Meta, Onode, data_crc};
use super::record::Record;
use bytes::Bytes;

fn check<T: PartialEq + std::fmt::Debug>(value: &T, encoded: Vec<u8>, decode: impl Fn(Bytes) -> Option<T>) {
    let encoded = Bytes::from(encoded);
    assert_eq!(decode(encoded.clone()).as_ref(), Some(value));
    for len in 0..encoded.len() {
        assert_ne!(decode(encoded.slice(..len)).as_ref(), Some(value), "cut at {len}");
    }
    let mut longer = encoded.to_vec();
    longer.push(0);
    assert_eq!(decode(Bytes::from(longer)), None);
    for at in 0..encoded.len() {
        for bit in 0..8 {
            let mut flipped = encoded.to_vec();
            flipped[at] ^= 1 << bit;
            assert_ne!(decode(Bytes::from(flipped)).as_ref(), Some(value), "flipped at {at}");
        }
    }
}

#[test]
fn onodes_round_trip() {
    for data in [Data::Inline("inline".into()), Data::Inline(Bytes::new()), Data::Chunks] {
        let onode = Onode {
            oid: 1,
            omap_id: 2,
            version: 3,
            modified_unix_ns: 4,
            size_bytes: 5_000,
            has_xattrs: true,
            data,
        };
        check(&onode, onode.encode(), |bytes| Onode::decode(&bytes).ok());
    }
    let meta = Meta { applied_lsn: 1, next_id: 2 };
    check(&meta, meta.encode(), |bytes| Meta::decode(&bytes).ok());
}

#[test]
fn chunks_round_trip() {
    let stream = Chunk::Stream { offset_bytes: 8_192, len_bytes: 5_000, crc: 7 };
    check(&stream, stream.encode(), |bytes| Chunk::decode(&bytes).ok());
    assert_eq!(stream.extents(), [Extent { offset_bytes: 8_192, len_bytes: 8_192 }]);
    let mut blocks = Box::new([None; BLOCKS_PER_CHUNK]);
    blocks[0] = Some(Block { offset_bytes: 4_096, crc: 1 });
    blocks[15] = Some(Block { offset_bytes: 40_960, crc: 2 });
    let blocks = Chunk::Blocks(blocks);
    check(&blocks, blocks.encode(), |bytes| Chunk::decode(&bytes).ok());
    assert_eq!(blocks.extents().len(), 2);
}

#[test]
fn records_round_trip() {
    let record = Record {
        next_id: 9,
        changes: vec![("set".into(), Some("value".into())), ("removed".into(), None)],
        allocated: vec![Extent { offset_bytes: 4_096, len_bytes: 8_192 }],
        freed: vec![Extent { offset_bytes: 0, len_bytes: 4_096 }],
        data: vec![(4_096, "data".into())],
    };
    let mut encoded = Vec::new();
    record.encode(&mut encoded);
    check(&record, encoded, |bytes| Record::decode(&bytes).ok());
}

#[test]
fn a_checksum_is_bound_to_object_and_offset() {
    let crc = data_crc(1, 0, b"data");
    assert_eq!(crc, data_crc(1, 0, b"data"));
    for other in [data_crc(2, 0, b"data"), data_crc(1, 4_096, b"data"), data_crc(1, 0, b"date")] {
        assert_ne!(crc, other);
    }
}
