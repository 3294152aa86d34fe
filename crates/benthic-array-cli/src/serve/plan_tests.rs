use super::{flip, positions};

#[test]
fn extreme_slices_select_what_python_selects() {
    let selected = |slice: [i64; 3]| {
        let (slice, is_backwards) = positions(slice, 5);
        let mut positions: Vec<u64> =
            (0..slice.count).map(|index| slice.start + index * slice.step).collect();
        if is_backwards {
            positions.reverse();
        }
        positions
    };
    assert_eq!(selected([0, i64::MAX, 1]), [0, 1, 2, 3, 4]);
    assert_eq!(selected([i64::MIN, i64::MAX, i64::MAX]), [0]);
    assert_eq!(selected([i64::MAX, i64::MIN, -2]), [4, 2, 0]);
    assert_eq!(selected([i64::MAX, i64::MIN, i64::MIN]), [4]);
    assert_eq!(selected([-2, -5, -1]), [3, 2, 1]);
    assert_eq!(selected([4, -1, -1]), [0; 0]);
    assert_eq!(selected([3, 2, 1]), [0; 0]);
}

#[test]
fn axes_are_reversed() {
    let data: Vec<u8> = (0..6).collect();
    assert_eq!(flip(data.clone(), &[2, 3], 1, &[false, true]), [2, 1, 0, 5, 4, 3]);
    assert_eq!(flip(data.clone(), &[2, 3], 1, &[true, true]), [5, 4, 3, 2, 1, 0]);
    assert_eq!(flip(data, &[3], 2, &[true]), [4, 5, 2, 3, 0, 1]);
    assert_eq!(flip(Vec::new(), &[0, 3], 2, &[true, false]), [0; 0]);
}
