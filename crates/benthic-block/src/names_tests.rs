use super::{ImageAddress, NAME_BYTES_MAX};
use benthic_core::ErrorKind;

#[test]
fn addresses_are_parsed_and_printed() {
    for text in ["p/i", "p/i@s", "p/a.b-c@2026-01-01"] {
        assert_eq!(text.parse::<ImageAddress>().unwrap().to_string(), text);
    }
}

#[test]
fn addresses_with_stray_separators_are_refused() {
    for text in ["", "p", "p/", "/i", "p/i@", "p/i@s@t", "p/i/j", "p/@s", "p/-i", "p/i\n", ".p/i"] {
        let error = text.parse::<ImageAddress>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
    }
    let long = format!("p/{}", "x".repeat(NAME_BYTES_MAX + 1));
    assert_eq!(long.parse::<ImageAddress>().unwrap_err().kind(), ErrorKind::LimitExceeded);
}
