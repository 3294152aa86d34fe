use super::compare;

#[test]
fn data_beyond_the_end_compare_as_zeros() {
    assert_eq!(compare(b"abc", b"abc"), 0);
    assert_eq!(compare(b"abc", b"ab"), 0);
    assert_eq!(compare(b"abc", b"abd"), -4097);
    assert_eq!(compare(b"a", b"a\0\0"), 0);
    assert_eq!(compare(b"", b"a"), -4095);
    assert_eq!(compare(b"", b""), 0);
}
