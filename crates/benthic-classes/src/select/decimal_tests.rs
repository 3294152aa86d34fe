use super::{DIGITS_MAX, Decimal};
use crate::select::query::Operator::{Add, Divide, Multiply, Remainder, Subtract};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;

fn of(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn texts() {
    for (text, shown) in [
        ("0.10", "0.10"),
        ("-.5", "-0.5"),
        ("+7.", "7"),
        ("1.5e3", "1500"),
        ("1.5E-3", "0.0015"),
        ("-0.00", "0.00"),
        ("0e99", "0"),
        ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
        ("0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
        ("1e37", "10000000000000000000000000000000000000"),
        ("10e-39", "0.00000000000000000000000000000000000001"),
    ] {
        assert_eq!(of(text).text(), shown);
    }
    for text in ["", ".", "-", "1.2.3", "1e", "x", "1 ", "1e38", "1e-39", "1e2147483647", "1e-2147483648"] {
        assert!(Decimal::parse(text).is_none(), "{text}");
    }
    assert!(Decimal::parse(&"1".repeat(39)).is_none());
}

#[test]
fn operations_round_only_what_has_no_place() {
    let most = "99999999999999999999999999999999999999";
    for (left, operator, right, result) in [
        ("0.1", Add, "0.2", Some("0.3")),
        ("1", Subtract, "0.90", Some("0.10")),
        ("1.10", Multiply, "1.10", Some("1.2100")),
        ("1", Divide, "3", Some("0.33333333333333333333333333333333333333")),
        ("2", Divide, "3", Some("0.66666666666666666666666666666666666667")),
        ("-7.0", Divide, "2", Some("-3.5")),
        ("1", Divide, "0.001", Some("1000")),
        ("-7.5", Remainder, "2", Some("-1.5")),
        (most, Add, "1", None),
        (most, Add, "0.4", Some(most)),
        (most, Add, "0.5", None),
        (most, Multiply, "10", None),
        (most, Multiply, "0.1", Some("9999999999999999999999999999999999999.9")),
        (most, Divide, "0.1", None),
        (most, Divide, most, Some("1")),
        (
            "9999999999999999999.9999999999999999999",
            Multiply,
            "1.0",
            Some("9999999999999999999.9999999999999999999"),
        ),
        (
            "0.99999999999999999999999999999999999999",
            Multiply,
            "0.9999999999",
            Some("0.99999999989999999999999999999999999999"),
        ),
        (
            "0.00000000000000000000000000000000000001",
            Multiply,
            "0.5",
            Some("0.00000000000000000000000000000000000001"),
        ),
        (
            "0.00000000000000000000000000000000000001",
            Multiply,
            "0.4",
            Some("0.00000000000000000000000000000000000000"),
        ),
    ] {
        let found = of(left).apply(operator, of(right)).map(Decimal::text);
        assert_eq!(found.as_deref(), result, "{left} {operator:?} {right}");
    }
    assert_eq!(of("2.5").fit(1, 0).map(Decimal::text).as_deref(), Some("3"));
    assert_eq!(of("-2.45").fit(3, 1).map(Decimal::text).as_deref(), Some("-2.5"));
    assert!(of("9.95").fit(2, 1).is_none());
    assert_eq!(of("0.1").float().to_bits(), 0.1_f64.to_bits());
    assert_eq!(of("123456789012345678.9").float().to_bits(), 123_456_789_012_345_678.9_f64.to_bits());
}

/// Small numbers, against arithmetic with integers.
#[test]
fn random_numbers_are_exact() {
    for seed in seed::many(if seed::is_long() { 100_000 } else { 3_000 }) {
        let rng = &mut Rng(seed);
        let mut number = || {
            let scale = rng.below(6) as u32;
            let unscaled = rng.below(2_000_001) as i128 - 1_000_000;
            (Decimal::new(unscaled, scale).unwrap(), unscaled * 10_i128.pow(5 - scale), scale)
        };
        let ((left, left_units, left_scale), (right, right_units, right_scale)) = (number(), number());
        assert_eq!(left.compare(right), left_units.cmp(&right_units));
        assert_eq!(of(&left.text()).text(), left.text());
        let units = |decimal: Decimal, digits: u32| decimal.rescale(digits).unwrap().unscaled;
        assert_eq!(units(left.apply(Add, right).unwrap(), 5), left_units + right_units);
        assert_eq!(units(left.apply(Subtract, right).unwrap(), 5), left_units - right_units);
        let product = left.apply(Multiply, right).unwrap();
        assert_eq!((units(product, 10), product.scale), (left_units * right_units, left_scale + right_scale));
        if right_units == 0 {
            continue;
        }
        assert_eq!(units(left.apply(Remainder, right).unwrap(), 5), left_units % right_units);
        // The quotient is the nearest number with its digits.
        let quotient = left.apply(Divide, right).unwrap();
        assert!(quotient.scale <= DIGITS_MAX);
        let scale = quotient.scale.min(20);
        let error = left_units * 10_i128.pow(scale) - units(quotient, scale) * right_units;
        assert!(
            error.abs() * 2 <= right_units.abs() * if scale < quotient.scale { 2 } else { 1 },
            "{left:?} / {right:?}"
        );
    }
}
