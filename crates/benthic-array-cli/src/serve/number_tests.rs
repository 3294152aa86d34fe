use super::Number;
use benthic_array::{Dtype, parse_with_nan};
use serde_json::Value;

fn parsed(document: &str) -> Value {
    parse_with_nan(document.as_bytes()).unwrap()
}

#[test]
fn floats_are_exact() {
    for text in ["9.969209968386869e+36", "-9.969209968386869e+36", "1.0000000200408773e+20", "5e-324"] {
        let number = Number::of(&parsed(text)).unwrap();
        assert_eq!(number.element(Dtype::Float64)[..], text.parse::<f64>().unwrap().to_le_bytes());
    }
}

#[test]
fn integers_have_the_range_of_their_type() {
    let fits = |text: &str, dtype| Number::of(&parsed(text)).is_some_and(|number| number.fits(dtype));
    assert!(fits("18446744073709551615", Dtype::Uint64) && !fits("18446744073709551616", Dtype::Uint64));
    assert!(fits("-9223372036854775808", Dtype::Int64) && !fits("-9223372036854775809", Dtype::Int64));
    assert!(!fits("-1", Dtype::Uint32) && !fits("1.0", Dtype::Int32) && fits("1", Dtype::Float32));
    assert!(!fits("1e39", Dtype::Float32) && fits("1e39", Dtype::Float64));
    assert!(!fits("\"1\"", Dtype::Int32) && !fits("NaN", Dtype::Float64));
}
