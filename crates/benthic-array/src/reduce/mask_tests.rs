use super::Mask;
use crate::selection::{Part, Slice};
use benthic_core::ErrorKind;

#[test]
fn a_part_has_the_bits_of_its_positions() {
    // Keeps the elements whose index in C order is a multiple of 3.
    let whole = Mask::new(vec![4, 1, 5], (0..20).map(|index| index % 3 == 0)).unwrap();
    let slices = vec![Slice::all(2), Slice::all(7), Slice::all(3)];
    let part = Part { slices, first: vec![1, 3, 2] };
    let expected = [7, 8, 9, 12, 13, 14].map(|index| index % 3 == 0);
    assert_eq!(whole.of_part(&part), Mask::new(vec![2, 1, 3], expected).unwrap());
    assert!(!whole.leaves_out(&part));

    let one = |first: u64| Part { slices: vec![Slice::all(1); 3], first: vec![0, 6, first] };
    let left_out: Vec<bool> = (0..5).map(|first| whole.leaves_out(&one(first))).collect();
    assert_eq!(left_out, [false, true, true, false, true]);
}

#[test]
fn a_mask_of_no_axes_has_one_bit() {
    let point = Part { slices: Vec::new(), first: Vec::new() };
    assert!(Mask::new(Vec::new(), [false]).unwrap().leaves_out(&point));
    assert!(!Mask::new(Vec::new(), [true]).unwrap().leaves_out(&point));
}

#[test]
fn a_mask_must_fit_the_selection() {
    let mask = Mask::new(vec![2, 1], [true, false]).unwrap();
    mask.check(&[2, 9]).unwrap();
    for counts in [&[2][..], &[3, 9], &[2, 9, 1], &[]] {
        assert_eq!(mask.check(counts).unwrap_err().kind(), ErrorKind::InvalidArgument, "{counts:?}");
    }
    let short = Mask { bits: Vec::new().into(), ..mask.clone() };
    assert_eq!(short.check(&[2, 9]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(Mask::new(vec![9], [true; 8]).is_err());
    assert!(Mask::new(vec![9], [true; 10]).is_err());
    let huge = Mask { shape: crate::Bounded(vec![u64::MAX, u64::MAX]), ..mask };
    assert_eq!(huge.check(&[u64::MAX, u64::MAX]).unwrap_err().kind(), ErrorKind::LimitExceeded);
}
