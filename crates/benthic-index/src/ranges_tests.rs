use super::Ranges;
use crate::key::Keys;
use crate::probe::{Definition, Probe};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use proptest::prelude::{Strategy, prop};
use proptest::{prop_assert_eq, proptest};
use std::sync::Arc;

fn number(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

/// A filter on a number, which gives both ranges and the expected result.
#[derive(Clone, Debug)]
enum Condition {
    Equal(i64),
    Between(Option<i64>, Option<i64>),
    Null,
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

impl Condition {
    fn ranges(&self) -> Ranges {
        match self {
            Condition::Equal(value) => Ranges::equal(&number(*value)).unwrap(),
            Condition::Between(low, high) => {
                let (low, high) = (low.map(number), high.map(number));
                Ranges::between(low.as_ref(), high.as_ref()).unwrap()
            }
            Condition::Null => Ranges::null(),
            Condition::And(one, other) => one.ranges().and(&other.ranges()),
            Condition::Or(one, other) => one.ranges().or(&other.ranges()),
        }
    }

    fn holds(&self, value: Option<i64>) -> bool {
        match self {
            Condition::Equal(wanted) => value == Some(*wanted),
            Condition::Between(low, high) => value.is_some_and(|value| {
                low.is_none_or(|low| low <= value) && high.is_none_or(|high| value <= high)
            }),
            Condition::Null => value.is_none(),
            Condition::And(one, other) => one.holds(value) && other.holds(value),
            Condition::Or(one, other) => one.holds(value) || other.holds(value),
        }
    }
}

fn conditions() -> impl Strategy<Value = Condition> {
    let values = -5_i64..5;
    let bound = prop::option::of(values.clone());
    let leaf = proptest::prop_oneof![
        values.prop_map(Condition::Equal),
        (bound.clone(), bound).prop_map(|(low, high)| Condition::Between(low, high)),
        proptest::strategy::Just(Condition::Null),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let pair = (inner.clone().prop_map(Box::new), inner.prop_map(Box::new));
        proptest::prop_oneof![
            pair.clone().prop_map(|(one, other)| Condition::And(one, other)),
            pair.prop_map(|(one, other)| Condition::Or(one, other)),
        ]
    })
}

fn index(columns: u32) -> Definition {
    Definition { number: 3, columns: (1..=columns).collect(), ..Definition::default() }
}

proptest! {
    #[test]
    fn ranges_contain_exactly_the_keys_that_satisfy_the_condition(condition in conditions()) {
        let probe = Probe::new(&index(1), &[condition.ranges()]).unwrap();
        prop_assert_eq!(probe.check(), Ok(()));
        for value in [None].into_iter().chain((-7..7).map(Some)) {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            let keys = Keys::of(&[column]).unwrap();
            prop_assert_eq!(probe.contains(keys.get(0)), condition.holds(value), "{:?}", value);
        }
    }

    #[test]
    fn point_ranges_combine_with_the_next_column(
        firsts in prop::collection::vec(-3_i64..3, 1..4),
        condition in conditions(),
    ) {
        let points = firsts.iter().map(|value| Ranges::equal(&number(*value)).unwrap());
        let points = points.reduce(|one, other| one.or(&other)).unwrap();
        assert!(points.are_points());
        let probe = Probe::new(&index(2), &[points, condition.ranges()]).unwrap();
        prop_assert_eq!(probe.check(), Ok(()));
        for (first, second) in (-4_i64..4).flat_map(|first| (-7_i64..7).map(move |second| (first, second))) {
            let keys = Keys::of(&[number(first), number(second)]).unwrap();
            let expected = firsts.contains(&first) && condition.holds(Some(second));
            prop_assert_eq!(probe.contains(keys.get(0)), expected, "{} {}", first, second);
        }
    }
}

#[test]
fn prefix_ranges_are_not_points_and_match_truncated_strings() {
    let start = "x".repeat(80);
    let ranges = Ranges::prefix(start.as_bytes());
    assert!(!ranges.are_points());
    let probe = Probe::new(&index(1), &[ranges]).unwrap();
    for (text, is_wanted) in [(format!("{start}yz"), true), ("x".to_owned(), false), (String::new(), false)] {
        let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
        assert_eq!(probe.contains(Keys::of(&[column]).unwrap().get(0)), is_wanted);
    }
}

#[test]
fn nan_is_in_every_range_of_floats() {
    let float = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let ranges = Ranges::between(None, Some(&float(1.0))).unwrap();
    let probe = Probe::new(&index(1), &[ranges]).unwrap();
    for (value, is_wanted) in
        [(0.5, true), (1.0, true), (1.5, false), (f64::INFINITY, false), (-f64::NAN, true)]
    {
        assert_eq!(probe.contains(Keys::of(&[float(value)]).unwrap().get(0)), is_wanted, "{value}");
    }
}

#[test]
fn too_many_ranges_and_columns_are_refused() {
    let all = (0..65).map(|value| Ranges::equal(&number(value)).unwrap()).reduce(|one, other| one.or(&other));
    let all = all.unwrap();
    assert_eq!(all.len(), 65);
    let error = Probe::new(&index(1), std::slice::from_ref(&all)).unwrap_err();
    assert_eq!(error.kind(), benthic_core::ErrorKind::LimitExceeded);
    let error = Probe::new(&index(1), &[Ranges::null(), all]).unwrap_err();
    assert_eq!(error.kind(), benthic_core::ErrorKind::InvalidArgument);
}
