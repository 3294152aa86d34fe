//! Tests of the parts of a line.

use super::{code_of, cut, escape, escape_controls, quoted, time};
use hyper::header::HeaderValue;

#[test]
fn no_text_of_a_client_ends_a_field_or_a_line() {
    assert_eq!(escape("a b/\u{e9}\n\"c"), "a%20b/%C3%A9%0A%22c");
    assert_eq!(escape_controls("/k?x=\"1\" 2"), "/k?x=%221%22%202");
    let header = HeaderValue::from_bytes(b"curl \"8\"\t\xff").unwrap();
    assert_eq!(quoted(Some(&header), 100), "\"curl %228%22%09%EF%BF%BD\"");
    assert_eq!(quoted(Some(&header), 4), "\"curl\"");
    assert_eq!(quoted(None, 4), "\"-\"");
    assert_eq!(cut("a\u{e9}", 2), "a");
}

#[test]
fn times_have_the_form_of_aws() {
    assert_eq!(time(1_549_411_238_999), "[06/Feb/2019:00:00:38 +0000]");
}

#[test]
fn codes_come_from_the_document_of_an_error() {
    assert_eq!(code_of(b"<Error><Code>NoSuchKey</Code></Error>").as_deref(), Some("NoSuchKey"));
    assert_eq!(code_of(b"no document"), None);
}
