use super::{BLOCK_BYTES, Blocks};
use benthic_core::ErrorKind;

const OBJECT_BYTES: u64 = 16 * BLOCK_BYTES;

#[test]
fn a_range_is_split_where_blocks_are_missing() {
    let mut blocks = Blocks::none(7, OBJECT_BYTES);
    let b = BLOCK_BYTES;
    blocks.insert(b..2 * b + 1, OBJECT_BYTES);
    assert_eq!(
        blocks.split(10..4 * b, OBJECT_BYTES),
        [(10..b, false), (b..3 * b, true), (3 * b..4 * b, false)]
    );
    assert!(!blocks.has_all(OBJECT_BYTES));
    blocks.insert(0..OBJECT_BYTES, OBJECT_BYTES);
    assert!(blocks.has_all(OBJECT_BYTES));
    assert_eq!(Blocks::decode(&blocks.encode(), OBJECT_BYTES).unwrap(), blocks);
}

#[test]
fn a_list_of_the_wrong_length_is_corrupt() {
    let encoded = Blocks::none(7, OBJECT_BYTES).encode();
    for bytes in [&encoded[..3], &encoded[..5], &[&encoded[..], &[0]].concat()] {
        assert_eq!(Blocks::decode(bytes, OBJECT_BYTES).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
