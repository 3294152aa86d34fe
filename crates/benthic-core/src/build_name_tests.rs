use super::{MARKER, STAMP_BYTES, build, name_in, stamp};

#[test]
fn a_build_from_source_says_so() {
    assert_eq!(build(), concat!(env!("CARGO_PKG_VERSION"), "+source"));
}

#[test]
fn the_name_ends_at_the_first_zero_or_at_the_end_of_the_stamp() {
    assert_eq!(name_in(&stamp(MARKER, "1.2.3+4.gabc.dirty")), "1.2.3+4.gabc.dirty");
    let longest = "n".repeat(STAMP_BYTES - MARKER.len());
    assert_eq!(name_in(&stamp(MARKER, &longest)), longest);
}
