use super::{ChunkIndex, FileParts, PART_BYTES, References};
use crate::array::Place;
use crate::format::ByteRange;
use benthic_core::{ErrorKind, Store};
use benthic_embedded::{MemStore, Options};
use bytes::Bytes;
use futures::executor::block_on;
use serde_json::json;

fn range(offset_bytes: u64, len_bytes: u64) -> Option<ByteRange> {
    Some(ByteRange { offset_bytes, len_bytes })
}

/// An index with a valid checksum.
fn index(numbers: &[u64]) -> Bytes {
    let mut data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    data.extend(crc32c::crc32c(&data).to_le_bytes());
    data.into()
}

#[test]
fn a_file_is_divided_between_chunks() {
    let chunks: Vec<Option<ByteRange>> = [
        range(100, 50),
        None,
        range(PART_BYTES - 10, 20),
        range(PART_BYTES + 10, PART_BYTES),
        range(3 * PART_BYTES, 7),
    ]
    .to_vec();
    let size_bytes = 3 * PART_BYTES + 1000;
    let parts = FileParts::new(size_bytes, chunks.iter().rev().flatten().copied()).unwrap();
    let objects = parts.objects("a/f.h5");
    let starts = [0, PART_BYTES - 10, PART_BYTES + 10, 2 * PART_BYTES + 10, 3 * PART_BYTES + 10];
    assert_eq!(objects.iter().map(|object| object.1.start).collect::<Vec<_>>(), starts);
    assert_eq!(objects[1].0, "a/f.h5@0000000001fffff6");
    assert!(objects.windows(2).all(|pair| pair[0].1.end == pair[1].1.start));
    assert_eq!(objects.last().unwrap().1.end, size_bytes);
    assert!(objects.iter().all(|(_, bytes)| bytes.end - bytes.start <= PART_BYTES));
    let index = ChunkIndex::decode(&parts.index(&chunks), 5).unwrap();
    let found: Vec<_> = (0..5).map(|chunk| index.object_range("a/f.h5", chunk)).collect();
    assert_eq!(found[1], None);
    for (found, chunk) in found.iter().zip(&chunks) {
        let Some((name, in_part)) = found else { continue };
        let (_, part) = objects.iter().find(|(object, _)| object == name).unwrap();
        assert_eq!(range(part.start + in_part.offset_bytes, in_part.len_bytes), *chunk);
        assert!(in_part.offset_bytes + in_part.len_bytes <= part.end - part.start);
    }
    // A small file is one object.
    let parts = FileParts::new(1000, [ByteRange { offset_bytes: 0, len_bytes: 1000 }]).unwrap();
    assert_eq!(parts.objects("f"), [("f".to_owned(), 0..1000)]);
    assert_eq!(FileParts::new(0, []).unwrap().objects("f"), [("f".to_owned(), 0..0)]);
}

#[test]
fn a_file_that_cannot_be_divided_is_refused() {
    let kind = |size_bytes, ranges: &[Option<ByteRange>]| {
        FileParts::new(size_bytes, ranges.iter().flatten().copied()).unwrap_err().kind()
    };
    // Each overlaps the next one.
    let chain: Vec<_> = (0..5).map(|number| range(number * (PART_BYTES - 1), PART_BYTES)).collect();
    assert_eq!(kind(10 * PART_BYTES, &chain), ErrorKind::Corrupt);
    assert_eq!(kind(100, &[range(90, 11)]), ErrorKind::Corrupt);
    assert_eq!(kind(100, &[range(u64::MAX, 2)]), ErrorKind::InvalidArgument);
    assert_eq!(kind(1 << 50, &[]), ErrorKind::LimitExceeded);
}

#[test]
fn a_damaged_index_is_corrupt() {
    let missing = u64::MAX;
    let valid = [2, 0, 100, 10, 20, missing, missing, 100, 5];
    assert!(ChunkIndex::decode(&index(&valid), 3).is_ok());
    let data = index(&valid);
    for byte in 0..data.len() {
        let mut data = data.to_vec();
        data[byte] ^= 0x10;
        assert!(ChunkIndex::decode(&data.into(), 3).is_err(), "{byte}");
    }
    for len in 0..data.len() {
        assert!(ChunkIndex::decode(&data.slice(..len), 3).is_err(), "{len}");
    }
    for (numbers, chunks) in [
        (&valid[..], 2),
        (&valid, 4),
        (&valid, 1 << 60),
        // No part, too many, and parts in a wrong order.
        (&[0, 1, 1], 1),
        (&[u64::MAX, 1, 1], 1),
        (&[1, 5, 10, 1], 1),
        (&[3, 0, 7, 7, 1, 1], 1),
        // A chunk in two parts, and one with no end.
        (&[2, 0, 100, 90, 20], 1),
        (&[2, 0, 100, 200, u64::MAX - 100], 1),
        (&[1, 0, u64::MAX, 1], 1),
        (&[1, 0, 0, u64::MAX, 7], 1),
    ] {
        let error = ChunkIndex::decode(&index(numbers), chunks).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{numbers:?}");
    }
}

#[test]
fn the_file_is_relative_to_the_array() {
    let store = MemStore::new(Options::default());
    block_on(store.create_pool("p")).unwrap();
    let pool = block_on(store.open_pool("p")).unwrap();
    let name = |path: &str, file: &str| {
        let place = Place { pool: pool.clone(), namespace: String::new(), path: path.to_owned() };
        References { file: file.to_owned(), token: String::new(), is_clipped: false }.file_name(&place)
    };
    assert_eq!(name("e/t", "../f.nc").unwrap(), "e/f.nc");
    assert_eq!(name("e/in/t", "../../f.nc").unwrap(), "e/f.nc");
    assert_eq!(name("t", "../f.nc").unwrap(), "f.nc");
    assert_eq!(name("t", "../../f.nc").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(name("", "../f.nc").unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn references_of_other_versions_are_refused() {
    let valid = References { file: "../f".to_owned(), token: "1".to_owned(), is_clipped: true };
    assert_eq!(References::parse(&valid.to_json()).unwrap(), valid);
    let mut newer = valid.to_json();
    newer["version"] = json!(2);
    assert_eq!(References::parse(&newer).unwrap_err().kind(), ErrorKind::Unsupported);
    for field in ["version", "file", "token", "clipped"] {
        let mut damaged = valid.to_json();
        damaged[field] = json!([1]);
        assert_eq!(References::parse(&damaged).unwrap_err().kind(), ErrorKind::Corrupt, "{field}");
    }
    assert_eq!(References::parse(&json!(7)).unwrap_err().kind(), ErrorKind::Corrupt);
}
