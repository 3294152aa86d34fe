use super::{Number, quote_numbers};
use benthic_array::Dtype;
use serde_json::Value;

fn parsed(document: &str) -> Value {
    serde_json::from_slice(&quote_numbers(document.as_bytes())).unwrap()
}

#[test]
fn only_numbers_outside_texts_are_quoted() {
    let quoted = |document: &str| String::from_utf8(quote_numbers(document.as_bytes())).unwrap();
    assert_eq!(
        quoted(r#"{"a-1":[1,-2.5e+3 , "4\"5"],"b\\":7}"#),
        r##"{"a-1":["#1","#-2.5e+3" , "4\"5"],"b\\":"#7"}"##
    );
    assert_eq!(quoted(r#""1"#), r#""1"#);
    assert_eq!(quoted(""), "");
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
    assert!(!fits("1e39", Dtype::Float32) && fits("1e39", Dtype::Float64) && !fits("1e400", Dtype::Float64));
    assert!(!fits("\"1\"", Dtype::Int32) && !fits("-", Dtype::Int32) && !fits("1.2.3", Dtype::Float64));
}
