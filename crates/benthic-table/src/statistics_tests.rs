use super::{BOUND_BYTES_MAX, Statistics};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, ListArray, StringArray, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::datatypes::{Float32Type, Float64Type, Int32Type};
use benthic_testkit::random::Rng;
use std::sync::Arc;

fn of(column: impl Array + 'static) -> Statistics {
    Statistics::of(&(Arc::new(column) as ArrayRef))
}

#[test]
fn nan_is_counted_and_excluded_from_bounds() {
    let statistics =
        of(Float64Array::from(vec![Some(f64::NAN), Some(2.0), None, Some(-1.0), Some(-f64::NAN)]));
    assert_eq!((statistics.nulls, statistics.nans, statistics.exact), (1, 2, true));
    assert_eq!(statistics.min.as_primitive::<Float64Type>().value(0), -1.0);
    assert_eq!(statistics.max.as_primitive::<Float64Type>().value(0), 2.0);
    let only = of(Float64Array::from(vec![f64::NAN]));
    assert_eq!((only.nans, only.min.null_count(), only.max.null_count()), (1, 1, 1));
    let infinite = of(Float32Array::from(vec![f32::INFINITY, f32::NEG_INFINITY]));
    assert_eq!(infinite.min.as_primitive::<Float32Type>().value(0), f32::NEG_INFINITY);
    assert_eq!(infinite.max.as_primitive::<Float32Type>().value(0), f32::INFINITY);
}

#[test]
fn a_zero_bound_includes_both_zeros() {
    for values in [vec![0.0], vec![-0.0], vec![0.0, -0.0], vec![-0.0, 0.0]] {
        let statistics = of(Float64Array::from(values));
        let (min, max) =
            (statistics.min.as_primitive::<Float64Type>(), statistics.max.as_primitive::<Float64Type>());
        assert!(min.value(0) == 0.0 && min.value(0).is_sign_negative());
        assert!(max.value(0) == 0.0 && max.value(0).is_sign_positive());
    }
    let statistics = of(Float64Array::from(vec![-0.0, 5.0]));
    assert!(statistics.min.as_primitive::<Float64Type>().value(0).is_sign_negative());
}

#[test]
fn every_flat_type_keeps_its_type_and_its_bounds() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(3), None, Some(-3), Some(1)])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(false)])),
        Arc::new(Date32Array::from(vec![Some(3), None, Some(-3), Some(1)])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(3), None, Some(-3), Some(1)]).with_timezone("+01:00"),
        ),
        Arc::new(
            Decimal128Array::from(vec![Some(3), None, Some(-3), Some(1)])
                .with_precision_and_scale(9, 3)
                .unwrap(),
        ),
        Arc::new(StringArray::from(vec![Some("c"), None, Some("a"), Some("b")])),
        Arc::new(BinaryArray::from_opt_vec(vec![Some(b"c"), None, Some(b"a"), Some(b"b")])),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [Some(b"c"), None, Some(b"a"), Some(b"b")].into_iter(),
                1,
            )
            .unwrap(),
        ),
    ];
    for column in columns {
        let statistics = Statistics::of(&column);
        assert_eq!((statistics.nulls, statistics.exact), (1, true), "{}", column.data_type());
        assert_eq!(statistics.max.as_ref(), column.slice(0, 1).as_ref());
        assert_eq!(statistics.min.as_ref(), column.slice(2, 1).as_ref());
        let nulls = Statistics::of(&new_null_array(column.data_type(), 3));
        assert_eq!((nulls.nulls, nulls.min.null_count()), (3, 1));
        assert_eq!(nulls.min.data_type(), column.data_type());
    }
}

#[test]
fn bounds_of_long_strings_are_truncated_or_rounded_up() {
    let bounds = |text: &str| {
        let statistics = of(StringArray::from(vec![text]));
        let max = statistics.max.as_string::<i32>().iter().next().flatten().map(str::to_owned);
        (statistics.min.as_string::<i32>().value(0).to_owned(), max, statistics.exact)
    };
    let (min, max, exact) = bounds(&"x".repeat(BOUND_BYTES_MAX));
    assert!(exact && Some(&min) == max.as_ref());
    let (min, max, exact) = bounds(&"x".repeat(BOUND_BYTES_MAX + 1));
    assert_eq!((min.as_str(), exact), ("x".repeat(64).as_str(), false));
    assert_eq!(max.unwrap(), format!("{}y", "x".repeat(63)));
    // A bound is not cut inside a character. If the last character has no successor, the one before
    // it is raised.
    let text = format!("{}é{}", "x".repeat(63), "z");
    assert_eq!(bounds(&text).0, "x".repeat(63));
    let text = format!("a{}", char::MAX.to_string().repeat(16));
    assert_eq!(bounds(&text).1.unwrap(), "b");
    assert_eq!(bounds(&char::MAX.to_string().repeat(17)).1, None);
    let (_, max, _) = bounds(&format!("{}\u{d7ff}x", "x".repeat(61)));
    assert_eq!(max.unwrap(), format!("{}\u{e000}", "x".repeat(61)));

    let statistics = of(BinaryArray::from_vec(vec![&[0xff; 65]]));
    assert_eq!((statistics.max.null_count(), statistics.min.null_count(), statistics.exact), (1, 0, false));
    let statistics = of(BinaryArray::from_vec(vec![&[7; 65]]));
    assert_eq!(statistics.max.as_binary::<i32>().value(0)[62..], [7, 8]);
}

#[test]
fn bounds_hold_for_any_strings() {
    let mut random = Rng(7);
    let mut next = |below: u32| random.below(below as usize) as u32;
    let alphabet = [
        'a',
        '\u{7f}',
        'é',
        '\u{7ff}',
        '\u{800}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{ffff}',
        '\u{10000}',
        char::MAX,
    ];
    for _ in 0..5_000 {
        let length = 10 + next(30);
        let kinds = 1 + next(alphabet.len() as u32);
        let first = next(alphabet.len() as u32);
        let text: String = (0..length).map(|_| alphabet[((first + next(kinds)) % 10) as usize]).collect();
        let statistics = of(StringArray::from(vec![text.as_str()]));
        assert!(statistics.min.as_string::<i32>().value(0) <= text.as_str());
        if let Some(max) = statistics.max.as_string::<i32>().iter().next().flatten() {
            assert!(max >= text.as_str() && max.len() <= BOUND_BYTES_MAX + 3, "{text:?} {max:?}");
        }
    }
}

#[test]
fn lists_have_only_a_null_count() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let statistics = of(lists);
    assert_eq!((statistics.nulls, statistics.exact, statistics.min.null_count()), (1, false, 1));
}
