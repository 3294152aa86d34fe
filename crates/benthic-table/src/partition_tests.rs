use super::{Partitioning, Ranges, jump_hash};
use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array,
    StringArray, TimestampMillisecondArray, UInt64Array,
};
use std::sync::Arc;

#[test]
fn the_jump_hash_is_the_published_one() {
    // Test vectors of other implementations of the paper.
    let vectors = [
        (1, 1, 0),
        (42, 57, 43),
        (0xdead_10cc, 1, 0),
        (0xdead_10cc, 666, 361),
        (256, 1024, 520),
        (0, 60, 0),
        (1, 60, 55),
        (2, 60, 46),
    ];
    for (key, buckets, bucket) in vectors {
        assert_eq!(jump_hash(key, buckets), bucket, "key={key} buckets={buckets}");
    }
}

#[test]
fn an_added_bucket_gets_its_share_and_no_other_key_moves() {
    let keys = || (0..20_000_u64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for buckets in [1, 2, 7, 63] {
        let moved = keys().filter(|key| jump_hash(*key, buckets) != jump_hash(*key, buckets + 1));
        let moved = moved.map(|key| assert_eq!(jump_hash(key, buckets + 1), buckets)).count() as f64;
        let share = 20_000.0 / f64::from(buckets + 1);
        assert!((moved - share).abs() < 6.0 * share.sqrt(), "buckets={buckets} moved={moved} share={share}");
    }
}

fn hashed(column: impl Array + 'static) -> Vec<Option<i64>> {
    let column: ArrayRef = Arc::new(column);
    Partitioning::Hash { field: 1, buckets: 1_000 }.of(&column).unwrap().iter().collect()
}

#[test]
fn a_value_keeps_its_bucket_when_its_column_is_widened() {
    assert_eq!(hashed(Int8Array::from(vec![-5, 7])), hashed(Int64Array::from(vec![-5, 7])));
    assert_eq!(hashed(Float32Array::from(vec![0.5, -3.0])), hashed(Float64Array::from(vec![0.5, -3.0])));
    let decimals =
        |precision| Decimal128Array::from(vec![12, -34]).with_precision_and_scale(precision, 2).unwrap();
    assert_eq!(hashed(decimals(5)), hashed(decimals(30)));
}

#[test]
fn equal_values_and_nulls_have_one_bucket() {
    let buckets = hashed(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]));
    assert_eq!((buckets[0], buckets[2]), (buckets[1], buckets[3]));
    assert_eq!(hashed(StringArray::from(vec![None, Some("")]))[0], Some(0));
}

fn ranged(column: impl Array + 'static, ranges: Ranges) -> Vec<Option<i64>> {
    let column: ArrayRef = Arc::new(column);
    Partitioning::Range { field: 1, ranges }.of(&column).unwrap().iter().collect()
}

#[test]
fn days_months_and_years() {
    // 1969-12-31, 1970-01-01, 1970-01-31, 1970-02-01, 2000-02-29, 2000-03-01, 2100-02-28,
    // 2100-03-01, 0001-01-01
    let days = [-1, 0, 30, 31, 11_016, 11_017, 47_540, 47_541, -719_162];
    let dates = || Date32Array::from_iter(days.iter().copied().map(Some).chain([None]));
    assert_eq!(ranged(dates(), Ranges::Day)[..2], [Some(-1), Some(0)]);
    let months = [-1, 0, 0, 1, 361, 362, 1_561, 1_562, -23_628].map(Some);
    assert_eq!(ranged(dates(), Ranges::Month), [&months[..], &[None]].concat());
    let years = [-1, 0, 0, 0, 30, 30, 130, 130, -1_969].map(Some);
    assert_eq!(ranged(dates(), Ranges::Year), [&years[..], &[None]].concat());
    let milliseconds = days.map(|day| i64::from(day) * 86_400_000 + 86_399_999);
    let times = TimestampMillisecondArray::from(milliseconds.to_vec()).with_timezone("Europe/Berlin");
    assert_eq!(ranged(times, Ranges::Month), months);
}

#[test]
fn a_bound_begins_its_range() {
    let bounds = || Ranges::Bounds(vec![-5, 10]);
    assert_eq!(ranged(Int8Array::from(vec![-6, -5, 9, 10]), bounds()), [Some(0), Some(1), Some(1), Some(2)]);
    assert_eq!(ranged(UInt64Array::from(vec![0, u64::MAX]), bounds()), [Some(1), Some(2)]);
    assert_eq!(ranged(Date32Array::from(vec![Some(10), None]), bounds()), [Some(2), None]);
}
