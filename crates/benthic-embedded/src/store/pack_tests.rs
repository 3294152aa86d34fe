use super::Packer;

#[test]
fn packed_strings_do_not_change() {
    let strings: Vec<Vec<u8>> = (0..3_000_usize).map(|index| vec![index as u8; index * 7 % 1_000]).collect();
    let lengths = || strings.iter().map(|string| b"head".len() + string.len());
    let known = [Packer::new(lengths()), Packer::new(lengths().take(5)), Packer::new(lengths().take(0))];
    for mut packer in known.into_iter().chain([Packer::default()]) {
        let packed: Vec<_> = strings.iter().map(|string| packer.pack(b"head", string)).collect();
        for (packed, string) in packed.iter().zip(&strings) {
            assert_eq!(packed[..], [b"head", &string[..]].concat());
        }
    }
}

#[test]
fn short_strings_share_pieces() {
    let mut packer = Packer::default();
    let first = packer.pack(b"", &[1; 100]);
    let next = packer.pack(b"", &[2; 100]);
    assert_eq!(first.as_ptr().wrapping_add(100), next.as_ptr());
}
