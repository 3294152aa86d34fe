use super::Rows;
use benthic_core::ErrorKind;
use proptest::collection::{btree_set, vec};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

const OF: u32 = 600;

fn rows(of: &BTreeSet<u32>) -> Rows {
    Rows::new(of.iter().map(|row| *row..*row + 1).collect(), OF)
}

fn numbers(rows: &Rows) -> BTreeSet<u32> {
    rows.ranges().iter().cloned().flatten().collect()
}

proptest! {
    #[test]
    fn operations_are_those_of_sets(one in btree_set(0..OF, 0..80), other in btree_set(0..OF, 0..80)) {
        let (a, b) = (rows(&one), rows(&other));
        prop_assert_eq!(numbers(&a.or(&b)), &one | &other);
        prop_assert_eq!(numbers(&a.without(&b)), &one - &other);
        prop_assert_eq!(&a.and(&b), &rows(&(&one & &other)));
        prop_assert_eq!(numbers(&Rows::all(OF).without(&a)), (0..OF).collect::<BTreeSet<_>>().difference(&one).copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(a.count(), one.len() as u64);
        prop_assert_eq!(Rows::decode(&a.encode(), OF).unwrap(), a);
    }

    #[test]
    fn long_ranges_without_others(one in vec((0..OF, 1..60_u32), 0..10), other in vec((0..OF, 1..60_u32), 0..10)) {
        let ranges = |of: &[(u32, u32)]| Rows::new(of.iter().map(|(start, len)| *start..*start + *len).collect(), 2 * OF);
        let (a, b) = (ranges(&one), ranges(&other));
        prop_assert_eq!(numbers(&a.without(&b)), &numbers(&a) - &numbers(&b));
        prop_assert_eq!(a.and(&b), Rows::new((&numbers(&a) & &numbers(&b)).into_iter().map(|row| row..row + 1).collect(), 2 * OF));
    }

    #[test]
    fn damage_is_an_error_or_another_set(bytes in vec(any::<u8>(), 0..40), of in any::<u32>()) {
        match Rows::decode(&bytes, of) {
            Ok(rows) => {
                prop_assert!(rows.ranges().iter().all(|range| range.end <= of));
                prop_assert_eq!(Rows::decode(&rows.encode(), of).unwrap(), rows);
            }
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

#[test]
fn rows_beyond_the_object_are_an_error() {
    let encoded = Rows::new(vec![0..1, 5..10], 10).encode();
    assert_eq!(encoded, [0, 1, 4, 5]);
    assert_eq!(Rows::decode(&encoded, 9).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(Rows::decode(&[], 0).unwrap(), Rows::all(0));
}
