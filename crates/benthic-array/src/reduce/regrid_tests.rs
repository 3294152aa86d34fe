use super::{Regrid, Weight, Weights};
use crate::block::Block;
use crate::dtype::Dtype;
use crate::selection::{Part, Slice};
use benthic_core::{Error, ErrorKind};
use std::sync::Arc;

fn weight(source: u32, cell: u32, weight: f64) -> Weight {
    Weight { source, cell, weight }
}

#[test]
fn a_part_has_the_weights_of_its_elements() {
    let list = vec![weight(11, 7, 1.0), weight(1, 3, 0.5), weight(6, 9, 0.25), weight(5, 3, 2.0)];
    let whole = Weights::new(vec![3, 4], 10, list).unwrap();
    // The rows 1 and 2, and the columns 1 to 3.
    let slices = vec![Slice::all(5), Slice::all(2), Slice::all(3)];
    let cut = whole.of_part(&Part { slices, first: vec![2, 1, 1] });
    let (part, cells) = &*cut;
    assert_eq!(*cells, [3, 7, 9]);
    let expected = vec![weight(0, 0, 2.0), weight(1, 2, 0.25), weight(5, 1, 1.0)];
    assert_eq!(*part, Weights::new(vec![2, 3], 3, expected).unwrap());
    let later = Part { slices: vec![Slice::all(1), Slice::all(2), Slice::all(3)], first: vec![4, 1, 1] };
    assert!(Arc::ptr_eq(&cut, &whole.of_part(&later)), "the weights are cut once for all times");
}

#[test]
fn weights_of_zero_are_dropped_and_invalid_ones_refused() {
    let kept = Weights::new(vec![4], 2, vec![weight(3, 1, 0.0), weight(3, 0, -0.0), weight(2, 1, 1.0)]);
    assert_eq!(*kept.unwrap().list, [weight(2, 1, 1.0)]);
    for wrong in [weight(4, 0, 1.0), weight(0, 2, 1.0), weight(0, 0, f64::NAN), weight(0, 0, f64::INFINITY)] {
        let refused = Weights::new(vec![4], 2, vec![weight(0, 0, 1.0), wrong]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{wrong:?}");
    }
}

#[test]
fn weights_must_fit_the_selection() {
    let weights = Weights::new(vec![3, 4], 2, vec![weight(0, 0, 1.0)]).unwrap();
    let regrid = Regrid { weights, missing_max: Some(0.5), decoding: None };
    regrid.check(Dtype::Int8, &[7, 3, 4]).unwrap();
    for counts in [&[3][..], &[4, 3], &[3, 4, 7], &[]] {
        assert_eq!(regrid.check(Dtype::Int8, counts).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    for part in [-0.1, 1.1, f64::NAN] {
        let regrid = Regrid { missing_max: Some(part), ..regrid.clone() };
        assert_eq!(regrid.check(Dtype::Int8, &[3, 4]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn long_work_asks_for_the_time() {
    let list = Arc::new(vec![weight(0, 0, 1.0); 1 << 20]);
    let weights = Weights { list, ..Weights::new(vec![1], 1, Vec::new()).unwrap() };
    let regrid = Regrid { weights, missing_max: None, decoding: None };
    let mut states = regrid.states(&[1 << 20, 1]).unwrap();
    let whole = Part { slices: vec![Slice::all(1 << 20), Slice::all(1)], first: vec![0, 0] };
    let mut ticks = 0;
    let mut tick = || {
        ticks += 1;
        if ticks < 10 { Ok(()) } else { Err(Error::new(ErrorKind::LimitExceeded, "no time is left")) }
    };
    let added = states.add(&Block::filled(Dtype::Uint8, &[1], 2), &whole, &mut tick);
    assert_eq!(added.unwrap_err().kind(), ErrorKind::LimitExceeded);
}
