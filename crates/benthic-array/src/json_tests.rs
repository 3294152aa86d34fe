use super::parse_with_nan;
use proptest::prelude::{any, prop_assert_eq, prop_assume, proptest};
use serde_json::{Value, json};

proptest! {
    #[test]
    fn floats_are_exact(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let parsed = parse_with_nan(format!("[{value:e}]").as_bytes()).unwrap();
        prop_assert_eq!(parsed[0].as_f64().map(f64::to_bits), Some(bits));
    }
}

#[test]
fn the_fill_value_of_netcdf_is_exact() {
    let parsed = parse_with_nan(b"{\"_FillValue\": 9.969209968386869e36}").unwrap();
    assert_eq!(parsed["_FillValue"].as_f64(), Some(9.969209968386869e36));
}

#[test]
fn other_values_are_those_of_the_parser() {
    let document = r#" {"a": [1, -2, 18446744073709551615, 0.5, true, null, "n12", "t", "", "\\\"7", "NaN"],
        "n1": {}, "": {"NaN é \u0041": []}} "#;
    let strict: Value = serde_json::from_str(document).unwrap();
    assert_eq!(parse_with_nan(document.as_bytes()).unwrap(), strict);
}

#[test]
fn numbers_that_json_lacks_are_texts() {
    let parsed = parse_with_nan(br#"{"a": [NaN, Infinity, -Infinity, -1]}"#).unwrap();
    assert_eq!(parsed, json!({ "a": ["NaN", "Infinity", "-Infinity", -1] }));
}

#[test]
fn malformed_documents_are_refused() {
    for document in [
        "",
        "{1: 2}",
        "01",
        "-",
        "1 2",
        "1\"a\"",
        "\"a",
        "\"a\\",
        "[1,]",
        "1e",
        "1e999",
        "nul",
        "t",
        "{\"a\" 1}",
        "1-2",
    ] {
        assert!(parse_with_nan(document.as_bytes()).is_err(), "{document}");
    }
}
