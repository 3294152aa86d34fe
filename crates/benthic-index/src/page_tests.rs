use super::{Runs, body, frame, page_key, push_group, read};
use benthic_core::ErrorKind;
use proptest::prelude::{any, prop};
use proptest::{prop_assert, proptest};

const STAMP: u32 = 7;

/// A key and its runs of rows, each as start and exclusive end.
type Group<'a> = (&'a [u8], &'a [(u32, u32)]);

fn page(groups: &[Group<'_>]) -> Vec<u8> {
    let mut bytes = STAMP.to_le_bytes().to_vec();
    let mut before: &[u8] = &[];
    for (key, ranges) in groups {
        let mut runs = Runs::default();
        ranges.iter().for_each(|(start, end)| runs.push(&(*start..*end)));
        push_group(before, key, &runs, &mut bytes);
        before = key;
    }
    bytes
}

fn is_damaged(bytes: &[u8], rows: u32) -> bool {
    let key = page_key(0, 0);
    match read(&key, &frame(&key, bytes), STAMP, rows, |_, _| Ok(())) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            true
        }
    }
}

#[test]
fn pages_with_wrong_order_or_missing_rows_are_damaged() {
    let good = page(&[(b"a", &[(0, 2), (5, 6)]), (b"ab", &[(2, 5)])]);
    assert!(!is_damaged(&good, 6));
    assert!(is_damaged(&good, 5), "a row behind the last");
    assert!(is_damaged(&page(&[(b"b", &[(0, 1)]), (b"a", &[(1, 2)])]), 6), "keys that go down");
    assert!(is_damaged(&page(&[(b"b", &[(0, 1)]), (b"b", &[(1, 2)])]), 6), "a key twice");
    assert!(is_damaged(&page(&[(b"b", &[])]), 6), "a key has no rows");
    assert!(is_damaged(&page(&[]), 6), "nothing at all");
    assert!(is_damaged(&page(&[(&[1; 600], &[(0, 1)])]), 6), "a key that is too long");
    assert!((4..good.len()).any(|len| is_damaged(&good[..len], 6)));
    let key = page_key(0, 0);
    assert!(read(&key, &frame(&key, &good), STAMP + 1, 6, |_, _| Ok(())).is_err(), "of another writing");
}

#[test]
fn a_value_is_bound_to_its_key_and_version() {
    let (key, other) = (page_key(1, 2), page_key(1, 3));
    let value = frame(&key, b"body");
    assert_eq!(body(&key, &value).unwrap(), b"body");
    assert_eq!(body(&other, &value).unwrap_err().kind(), ErrorKind::Corrupt);
    for bit in 0..value.len() * 8 {
        let mut flipped = value.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(body(&key, &flipped).is_err(), "bit {bit}");
    }
    let newer = [&[2], &value[1..]].concat();
    assert_eq!(body(&key, &newer).unwrap_err().kind(), ErrorKind::Unsupported);
}

proptest! {
    #[test]
    fn any_bytes_are_read_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..200), rows in 0_u32..1000) {
        let key = page_key(0, 0);
        let stamped = [STAMP.to_le_bytes().as_slice(), &bytes].concat();
        let mut ranges = 0;
        let outcome = read(&key, &frame(&key, &stamped), STAMP, rows, |_, runs| {
            ranges += runs.len();
            assert!(runs.iter().all(|run| run.start < run.end && run.end <= rows));
            Ok(())
        });
        prop_assert!(ranges <= bytes.len());
        prop_assert!(outcome.is_ok() || outcome.is_err_and(|error| error.kind() == ErrorKind::Corrupt));
    }
}
