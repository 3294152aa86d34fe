use super::{BUCKETS_MAX, BYTES_MAX, Distribution, SAMPLE_ROWS};
use crate::key::Keys;
use crate::ranges::{Ranges, is_within};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field};
use proptest::prelude::{ProptestConfig, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::collections::HashSet;
use std::sync::Arc;

/// As `benthic_testkit::seed::is_long`, which this crate cannot use.
fn is_long() -> bool {
    std::env::var_os("BENTHIC_TEST_LONG").is_some()
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn texts(values: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn of(column: &ArrayRef) -> Distribution {
    let found = Distribution::of(column).unwrap().unwrap();
    let encoded = found.encode();
    assert!(encoded.len() <= BYTES_MAX, "{}", encoded.len());
    let decoded = Distribution::decode(&encoded).unwrap();
    assert_eq!(decoded, found);
    decoded
}

fn between(low: i64, high: i64) -> Ranges {
    Ranges::between(Some(&numbers([low])), Some(&numbers([high]))).unwrap()
}

fn equal(value: i64) -> Ranges {
    Ranges::equal(&numbers([value])).unwrap()
}

/// The kinds of columns that a table has.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each value once, in random order.
    Unique,
    Ascending,
    /// So many values, each equally often, with a period.
    Few(u64),
    /// One value has half of the rows.
    Heavy,
    /// Small values are frequent.
    Skewed,
}

impl Shape {
    fn value(self, row: u64, seed: u64) -> i64 {
        let noise = super::mix(row ^ seed);
        let unit = (noise >> 11) as f64 / (1_u64 << 53) as f64;
        match self {
            Shape::Unique => (noise % 1_000_000_000) as i64,
            Shape::Ascending => row as i64 * 3,
            Shape::Few(values) => (row % values) as i64,
            Shape::Heavy => {
                if noise.is_multiple_of(2) {
                    7
                } else {
                    (noise % 100_000) as i64
                }
            }
            Shape::Skewed => (unit.powi(6) * 1e6) as i64,
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let few = (1_u64..5_000).prop_map(Shape::Few);
    prop_oneof![
        proptest::strategy::Just(Shape::Unique),
        proptest::strategy::Just(Shape::Ascending),
        proptest::strategy::Just(Shape::Heavy),
        proptest::strategy::Just(Shape::Skewed),
        few
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 2_000 } else { 60 }))]

    /// The documented error: a tenth of the rows.
    #[test]
    fn an_estimate_is_off_by_at_most_a_tenth_of_the_rows(
        shape in shapes(),
        rows in 1_u64..20_000,
        seed in any::<u64>(),
        ends in prop::collection::vec(any::<u64>(), 2..=2),
    ) {
        let values: Vec<i64> = (0..rows).map(|row| shape.value(row, seed)).collect();
        let column = numbers(values.iter().copied());
        let (found, keys) = (of(&column), Keys::of(&[column]).unwrap());
        let ends: Vec<i64> = ends.iter().map(|end| values[(*end % rows) as usize]).collect();
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        for ranges in [between(low, high), equal(low), equal(high), equal(-5), between(low - 9, low)] {
            let holds = |row: &usize| {
                let key = keys.get(*row);
                ranges.iter().any(|(low, high)| key >= low && is_within(key, high))
            };
            let share = (0..keys.len()).filter(holds).count() as f64 / rows as f64;
            let estimate = found.share(&ranges);
            prop_assert!((estimate - share).abs() <= 0.1, "{ranges:?} {share} {estimate} {found:?}");
        }
    }

    /// Any bytes are refused, or decoded to a distribution that gives shares.
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), with_format in any::<bool>()) {
        let bytes = if with_format { [&[1][..], &bytes].concat() } else { bytes };
        if let Ok(found) = Distribution::decode(&bytes) {
            prop_assert!(found.bounds.len() <= BUCKETS_MAX + 1);
            for ranges in [between(0, 100), equal(5), Ranges::null(), Ranges::prefix(b"a")] {
                prop_assert!((0.0..=1.0).contains(&found.share(&ranges)));
            }
        }
    }

    #[test]
    fn a_changed_encoding_is_refused_or_stays_bounded(at in 0_usize..200, flip in 1_u8..) {
        let mut bytes = of(&texts((0..9_000).map(|row| format!("https://example.org/{row:05}")))).encode();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if let Ok(found) = Distribution::decode(&bytes) {
            prop_assert_eq!(Distribution::decode(&found.encode()).unwrap(), found);
        }
    }
}

#[test]
fn the_number_of_values_is_estimated() {
    let unique = of(&numbers((0..100_000).map(|row| row * 7_919 % 100_003)));
    assert_eq!(unique.distinct(), 100_000);
    let few = of(&numbers((0..100_000).map(|row| row % 250)));
    assert_eq!(few.distinct(), 250);
    let share = few.share(&equal(17));
    assert!((0.003..0.005).contains(&share), "{share}");
    // Values that occur four times, far apart: the estimate from the sample is of the right size.
    let some = of(&numbers((0..100_000).map(|row| super::mix(row % 25_000) as i64)));
    assert!((18_000..33_000).contains(&some.distinct()), "{}", some.distinct());
    let exact = of(&numbers((0..SAMPLE_ROWS as i64).map(|row| row / 2)));
    assert_eq!(exact.distinct(), SAMPLE_ROWS as u64 / 2);
}

#[test]
fn frequent_values_nulls_and_missing_values_are_recognized() {
    let mostly_null: ArrayRef =
        Arc::new(Int64Array::from_iter((0..10_000_i64).map(|row| (row % 5 == 0).then_some(row))));
    let found = of(&mostly_null);
    assert!((found.share(&Ranges::null()) - 0.8).abs() < 0.05, "{}", found.share(&Ranges::null()));
    assert!(found.share(&equal(-1)) < 0.002);
    assert!(found.share(&equal(20_000)) < 0.001);
    assert!(found.share(&between(20_000, 30_000)) < 0.001);
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..999).map(|row| Some(row % 3 == 0))));
    let wanted: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let share = of(&flags).share(&Ranges::equal(&wanted).unwrap());
    assert!((share - 1.0 / 3.0).abs() < 0.05, "{share}");
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..9_000).map(f64::from)));
    let low: ArrayRef = Arc::new(Float64Array::from(vec![4_500.0]));
    let share = of(&floats).share(&Ranges::between(Some(&low), None).unwrap());
    assert!((share - 0.5).abs() < 0.05, "{share}");
}

#[test]
fn long_texts_with_a_common_start_differ() {
    let url = |row: i64| format!("https://data.example.org/archive/of/{row:06}/{}", "x".repeat(40));
    let found = of(&texts((0..9_000).map(url)));
    let value = texts([url(4_711)]);
    assert!(found.share(&Ranges::equal(&value).unwrap()) < 0.001);
    let share = found.share(&Ranges::prefix(b"https://data.example.org/archive/of/000"));
    assert!((share - 1.0 / 9.0).abs() < 0.05, "{share}");
    // Random long texts share nothing, so fewer bounds fit.
    let noise = |row: u64| {
        format!("{:x}{:x}{:x}", super::mix(row), super::mix(row + 7), super::mix(row + 9)).repeat(2)
    };
    let found = of(&texts((0..9_000).map(noise)));
    assert!(found.bounds.iter().map(Vec::len).max() < Some(8), "{found:?}");
    // A frequent long text is a whole bound.
    let frequent = of(&texts((0..9_000).map(|row| if row % 2 == 0 { url(1) } else { noise(row as u64) })));
    let share = frequent.share(&Ranges::equal(&texts([url(1)])).unwrap());
    assert!((share - 0.5).abs() < 0.05, "{share}");
    assert!(frequent.share(&Ranges::equal(&texts([url(2)])).unwrap()) < 0.04);
}

#[test]
fn columns_without_rows_or_keys_are_left_out() {
    assert_eq!(of(&new_null_array(&DataType::Int64, 0)), Distribution::default());
    assert_eq!(Distribution::default().share(&equal(1)), 0.0);
    let list = DataType::new_list(DataType::Int64, true);
    assert_eq!(Distribution::of(&new_null_array(&list, 3)).unwrap(), None);
    let parts = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    assert_eq!(Distribution::of(&new_null_array(&parts, 3)).unwrap(), None);
}

#[test]
fn the_sample_has_a_row_of_each_part_and_no_pattern() {
    let rows: Vec<u32> = super::sampled_rows(1_000_000).values().to_vec();
    assert!(rows.is_sorted() && rows.len() == SAMPLE_ROWS);
    let odd = rows.iter().filter(|row| *row % 2 == 1).count();
    assert!((1_800..2_300).contains(&odd), "{odd}");
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), SAMPLE_ROWS);
}

#[test]
fn rows_that_follow_each_other_are_recognized() {
    let scattered = of(&numbers((0..100_000).map(|row| super::mix(row) as i64)));
    assert!(scattered.repeat(0.0) < 0.06, "{scattered:?}");
    assert!(scattered.repeat(0.5) == 0.5);
    let runs = of(&numbers((0..100_000).map(|row| super::mix(row / 20) as i64)));
    assert!((0.93..0.97).contains(&runs.repeat(0.01)), "{runs:?}");
    let sorted = of(&numbers(0..100_000));
    assert!(sorted.repeat(0.01) > 0.99, "{sorted:?}");
    // A column of few values, which alternate.
    let few = of(&numbers((0..100_000).map(|row| row % 250)));
    assert!(few.repeat(0.004) > 0.8, "neighbours are in one part: {few:?}");
}
