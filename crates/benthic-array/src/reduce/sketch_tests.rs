use super::{BUCKETS_MAX, MANTISSA_BITS, ReductionState, Sketch};
use crate::reduce::{Reduction, ReductionKind};
use crate::selection::Bounded;
use benthic_core::codec::Wire;
use benthic_testkit::seed;
use proptest::prelude::{ProptestConfig, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};

fn reduction(skip_nan: bool) -> Reduction {
    let kind = ReductionKind::Quantile { q: Bounded(vec![0.5]) };
    Reduction { kind, axes: Bounded(Vec::new()), skip_nan, decoding: None }
}

fn sketch(values: &[f64]) -> Sketch {
    let mut sketch = <Sketch as ReductionState<f64>>::empty(&reduction(true));
    values.chunks(4096).for_each(|run| sketch.add_run(&reduction(true), run, 0, 1));
    sketch
}

/// The value at a position of the sorted values.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The documented limit on the relative error.
fn error_max(values: &[f64]) -> f64 {
    let mut pairs: Vec<u64> = values.iter().map(|value| value.to_bits() >> MANTISSA_BITS).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.len() as f64 / 4000.0
}

fn check(values: &[f64]) {
    let sketch = sketch(values);
    assert!(sketch.buckets.len() <= BUCKETS_MAX);
    let (sorted, error_max) = (sorted(values), error_max(values));
    for percent in 0..=100 {
        let position = (sorted.len() - 1) * percent / 100;
        let (found, expected) = (sketch.at(position as u64), sorted[position]);
        let error = (found - expected).abs();
        // Subnormal numbers have an absolute error.
        let allowed = (error_max * expected.abs()).max(f64::MIN_POSITIVE);
        assert!(found == expected || error <= allowed, "{percent} %: {found} is not {expected}");
    }
}

#[test]
fn few_values_are_exact() {
    let values: Vec<f64> = (0..BUCKETS_MAX).map(|index| 1.0 / (index as f64 - 0.3)).collect();
    let sketch = sketch(&[&values[..], &values].concat());
    let sorted = sorted(&values);
    assert_eq!((sketch.dropped_bits, sketch.at(0), sketch.at(8191)), (0, sorted[0], sorted[4095]));
    assert_eq!(sketch.quantile(0.5), (sorted[2047] + sorted[2048]) / 2.0);
}

#[test]
fn the_error_of_many_values_has_the_documented_limit() {
    for seed in seed::many(20) {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_F491_4F6C_DD1D)
        };
        let temperatures: Vec<f64> =
            (0..20_000).map(|_| f64::from((220.0 + (next() >> 40) as f64 / 2e5) as f32)).collect();
        assert!(error_max(&temperatures) <= 0.0005);
        check(&temperatures);
        let winds: Vec<f64> = (0..20_000).map(|_| (next() >> 11) as f64 / 1e14 - 45.0).collect();
        assert!(error_max(&winds) < 0.015, "{}", error_max(&winds));
        check(&winds);
        // All bits are random: every exponent and many NaN and infinite values.
        let any: Vec<f64> = (0..20_000).map(|_| f64::from_bits(next())).collect();
        assert!(sketch(&any).dropped_bits >= MANTISSA_BITS - 1);
        check(&[&any[..], &[f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 5e-324]].concat());
    }
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    // Neighbours in bits, which share buckets after a digit is dropped, and others.
    let value = (any::<bool>(), 0u64..6_000, any::<u64>()).prop_map(|(is_near, near, far)| {
        f64::from_bits(if is_near { 0x4050_0000_0000_0000 + near } else { far })
    });
    prop::collection::vec(value, 0..3_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_and_the_division_of_the_values_change_no_bit(
        mut parts in prop::collection::vec(values(), 1..6), turn in 0usize..6,
    ) {
        let whole = sketch(&parts.concat());
        let length = parts.len();
        parts.rotate_left(turn % length);
        let reduction = reduction(true);
        let mut merged = <Sketch as ReductionState<f64>>::empty(&reduction);
        for (index, part) in parts.iter().enumerate() {
            let mut one = <Sketch as ReductionState<f64>>::empty(&reduction);
            if index % 2 == 0 {
                part.iter().rev().for_each(|value| one.add(&reduction, *value, 0));
            } else {
                one.add_run(&reduction, part, 0, 1);
            }
            <Sketch as ReductionState<f64>>::merge(&mut merged, &reduction, &Sketch::decode(&one.encode()).unwrap());
        }
        prop_assert_eq!(merged, whole);
    }

    #[test]
    fn broken_states_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), is_plausible: bool) {
        if is_plausible && bytes.len() > 16 {
            bytes[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        }
        if let Ok(sketch) = Sketch::decode(&bytes) {
            prop_assert!(sketch.buckets.len() <= BUCKETS_MAX);
            let _ = sketch.quantile(0.3);
        }
    }
}

#[test]
fn broken_keys_are_refused() {
    let good = Sketch { dropped_bits: 2, buckets: vec![(1, 1), (2, 5)], nans: 0 };
    assert_eq!(Sketch::decode(&good.encode()).unwrap(), good);
    for buckets in
        [vec![(2, 1), (1, 1)], vec![(1, 1), (1, 1)], vec![(1, 0)], vec![(i64::MIN, 1)], vec![(i64::MAX, 1)]]
    {
        assert!(Sketch::decode(&Sketch { buckets, ..good.clone() }.encode()).is_err());
    }
    assert!(Sketch::decode(&Sketch { dropped_bits: 53, ..good }.encode()).is_err());
}

#[test]
fn a_nan_that_is_kept_is_the_result() {
    for (skip_nan, expected) in [(true, 2.0), (false, f64::NAN)] {
        let mut found = <Sketch as ReductionState<f64>>::empty(&reduction(skip_nan));
        found.add(&reduction(skip_nan), 1.0, 0);
        found.add_run(&reduction(skip_nan), &[f64::NAN, 3.0], 0, 1);
        assert_eq!(found.quantile(0.5).to_bits(), expected.to_bits());
    }
    assert!(sketch(&[]).quantile(0.5).is_nan());
    assert_eq!(sketch(&[1.0, f64::INFINITY]).quantile(0.0), 1.0);
}
