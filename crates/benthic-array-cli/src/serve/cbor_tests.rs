use super::{UNSIGNED, encode, head};
use crate::serve::plan::Outcome;
use benthic_array::Dtype;

#[test]
fn numbers_have_the_shortest_form() {
    // Appendix A of RFC 8949.
    for (number, expected) in [
        (0, &[0x00][..]),
        (23, &[0x17]),
        (24, &[0x18, 0x18]),
        (255, &[0x18, 0xff]),
        (256, &[0x19, 0x01, 0x00]),
        (1_000_000, &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
        (1_000_000_000_000, &[0x1b, 0x00, 0x00, 0x00, 0xe8, 0xd4, 0xa5, 0x10, 0x00]),
        (u64::MAX, &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ] {
        let mut out = Vec::new();
        head(&mut out, UNSIGNED, number);
        assert_eq!(out, expected);
    }
}

#[test]
fn a_result_is_a_map() {
    let outcome = Outcome { data: vec![1, 2, 3, 4], dtype: Dtype::Int32, shape: vec![1], counts: vec![300] };
    let expected =
        b"\xa7\x65bytes\x44\x01\x02\x03\x04\x65dtype\x65int32\x65shape\x81\x01\x6eshape_as_bytes\x40\
        \x65count\x80\x6ecount_as_bytes\x48\x2c\x01\0\0\0\0\0\0\x6abyte_order\x66little";
    assert_eq!(encode(&outcome, false, true), expected);
}
