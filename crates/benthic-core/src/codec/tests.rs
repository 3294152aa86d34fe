use super::{Decoder, Malformed, Wire};
use bytes::Bytes;
use std::collections::BTreeMap;

#[test]
fn byte_strings_share_the_input_or_are_copies() {
    let encoded = Bytes::from_static(b"\x02\0\0\0ab");
    let shared = Decoder::sharing(&encoded).bytes().unwrap();
    let copied = Decoder::copying(&encoded).bytes().unwrap();
    assert_eq!((&shared[..], &copied[..]), (&b"ab"[..], &b"ab"[..]));
    assert_eq!(shared.as_ptr(), encoded[4..].as_ptr());
    assert_ne!(copied.as_ptr(), shared.as_ptr());
}

#[test]
fn a_length_beyond_the_input_is_malformed_and_allocates_nothing() {
    assert_eq!(Bytes::decode(&[0xff; 12]), Err(Malformed));
    assert_eq!(String::decode(&[0xff; 12]), Err(Malformed));
    assert_eq!(Vec::<u8>::decode(&[0xff; 12]), Err(Malformed));
    assert_eq!(BTreeMap::<u8, u8>::decode(&[0xff; 12]), Err(Malformed));
}

#[test]
fn every_value_has_one_encoding() {
    assert_eq!(bool::decode(&[2]), Err(Malformed));
    assert_eq!(Option::<u8>::decode(&[2, 0]), Err(Malformed));
    let map = BTreeMap::from([(1_u8, 2_u8), (3, 4)]);
    assert_eq!(map.encode()[..], [2, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(BTreeMap::decode(&map.encode()), Ok(map));
    for out_of_order in [[2, 0, 0, 0, 3, 4, 1, 2], [2, 0, 0, 0, 1, 2, 1, 2]] {
        assert_eq!(BTreeMap::<u8, u8>::decode(&out_of_order), Err(Malformed));
    }
}
