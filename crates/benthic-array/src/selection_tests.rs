use super::{Slice, TouchedChunks, within};
use proptest::prelude::{Just, Strategy, prop_assert_eq, proptest};

fn slice() -> impl Strategy<Value = Slice> {
    (0u64..40, 1u64..9, 0u64..20).prop_map(|(start, step, count)| Slice { start, step, count })
}

fn positions(slice: &Slice) -> Vec<u64> {
    (0..slice.count).map(|index| slice.start + index * slice.step).collect()
}

proptest! {
    #[test]
    fn a_part_has_the_positions_in_its_box(slice in slice(), origin in 0u64..50, len in 1u64..30) {
        let expected: Vec<(u64, u64)> = positions(&slice)
            .into_iter()
            .enumerate()
            .filter(|(_, position)| (origin..origin + len).contains(position))
            .map(|(index, position)| (index as u64, position))
            .collect();
        let found = match slice.within(origin, len) {
            None => Vec::new(),
            Some((part, first)) => {
                let positions = positions(&part);
                (first..).zip(positions.into_iter().map(|position| position + origin)).collect()
            }
        };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn touched_chunks_are_those_that_contain_a_position(slices in (slice(), slice(), Just(())), len in (1u64..9, 1u64..30)) {
        let (slices, shape) = ([slices.0, slices.1], [len.0, len.1]);
        let mut expected = Vec::new();
        for row in positions(&slices[0]) {
            for column in positions(&slices[1]) {
                expected.push(vec![row / shape[0], column / shape[1]]);
            }
        }
        expected.sort();
        expected.dedup();
        let cells: Vec<_> = TouchedChunks::new(&slices, &shape).collect();
        prop_assert_eq!(&cells, &expected);
        prop_assert_eq!(TouchedChunks::count(&slices, &shape), expected.len() as u64);
        for cell in cells {
            let origin = [cell[0] * shape[0], cell[1] * shape[1]];
            proptest::prop_assert!(within(&slices, &origin, &shape).is_some());
        }
    }
}

#[test]
fn a_slice_must_stay_in_its_axis() {
    assert!(Slice { start: 3, step: 2, count: 4 }.check(10).is_ok());
    assert!(Slice { start: 3, step: 2, count: 4 }.check(9).is_err());
    assert!(Slice { start: 90, step: 2, count: 0 }.check(9).is_ok());
    assert!(Slice { start: 0, step: 0, count: 1 }.check(9).is_err());
    assert!(Slice { start: 1, step: u64::MAX, count: 3 }.check(u64::MAX).is_err());
}
