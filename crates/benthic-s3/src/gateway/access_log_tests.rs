//! Tests of the parts of a line.

use super::{
    AccessLogs, Answered, Deleted, KEY_BYTES_MAX, LoggedBuckets, Noted, PendingLine, Visit, code_of,
    escape_controls, escape_key, quote, redact, shorten, time,
};
use benthic_core::Environment;
use hyper::Request;
use hyper::header::HeaderValue;
use std::sync::Arc;

/// A request whose answer has ended. It makes no line by itself.
fn pending(uri: &str) -> PendingLine {
    let environment = Environment::default();
    let mut request = Request::builder().method("POST").uri(uri).header("host", "s3.test").body(()).unwrap();
    let visit = Visit::begin(&mut request, false, &environment);
    let logs = Arc::new(AccessLogs::new(environment.clone(), Arc::default()));
    let answered = Answered { status: 200, error: None, object_bytes: None, version: None, first_byte_ms: 0 };
    let buckets = LoggedBuckets { bucket: None, source: None };
    PendingLine { logs, environment, visit, answered, buckets, sent_bytes: 0 }
}

fn line_of(pending: &PendingLine, key: &str, deleted: Option<&Deleted>) -> String {
    pending.line(&Noted::default(), "ada", "b", "BATCH.DELETE.OBJECT", Some(escape_key(key)), deleted)
}

#[test]
fn a_line_of_a_deletion_has_26_fields_whatever_the_client_sends() {
    let pending = pending("/b?delete");
    let deleted = Deleted {
        key: "a b\nc".into(),
        version: Some("1 2\n3\"".into()),
        failure: Some("No Such\nCode".into()),
    };
    let line = line_of(&pending, &deleted.key, Some(&deleted));
    assert_eq!(line.find('\n'), Some(line.len() - 1));
    let fields: Vec<&str> = line.trim_end().split(' ').collect();
    // The time has two words, and the request has three.
    assert_eq!(fields.len(), 26 + 1 + 2, "{line}");
    assert_eq!(fields[..2], ["ada", "b"]);
    assert_eq!(
        fields[7..14],
        ["BATCH.DELETE.OBJECT", "a%20b%0Ac", "\"POST", "/b?delete", "HTTP/1.1\"", "400", "No%20Such%0ACode"]
    );
    assert_eq!(fields[20], "1%202%0A3%22", "{line}");
    // A version id or a key of any length does not make a long line.
    let long = "\n".repeat(1 << 20);
    let deleted = Deleted { key: long.clone(), version: Some(long.clone()), failure: Some(long) };
    let line = line_of(&pending, &deleted.key, Some(&deleted));
    assert!(line.len() < 3 * 3 * KEY_BYTES_MAX + 512, "{}", line.len());
}

#[test]
fn the_lines_of_a_batch_repeat_little_of_the_request() {
    let pending = pending(&format!("/b?delete&x={}", "u".repeat(10_000)));
    let deleted = Deleted { key: "k".into(), version: None, failure: None };
    let of_batch = line_of(&pending, "k", Some(&deleted));
    assert!(of_batch.contains(&"u".repeat(200)) && of_batch.len() < 512, "{of_batch}");
    assert!(line_of(&pending, "k", None).contains(&"u".repeat(8_000)));
}

#[test]
fn no_line_has_a_signature() {
    let uri = "/b/k?X-Amz-Date=1&X-Amz-Signature=51c&x=%3D&X-Amz-Security-Token=t%2Ft";
    let redacted = "/b/k?X-Amz-Date=1&X-Amz-Signature=REDACTED&x=%3D&X-Amz-Security-Token=REDACTED";
    assert_eq!(redact(uri), redacted);
    assert!(line_of(&pending(uri), "k", None).contains(redacted));
    assert_eq!(redact("/b?x-amz%2Dsignature=51c&&a"), "/b?X-Amz-Signature=REDACTED&&a");
    assert_eq!(redact("/b/X-Amz-Signature=51c"), "/b/X-Amz-Signature=51c");
}

#[test]
fn no_text_of_a_client_ends_a_field_or_a_line() {
    assert_eq!(escape_key("a b/\u{e9}\n\"c"), "a%20b/%C3%A9%0A%22c");
    assert_eq!(escape_controls("/k?x=\"1\" 2"), "/k?x=%221%22%202");
    let header = HeaderValue::from_bytes(b"curl \"8\"\t\xff").unwrap();
    assert_eq!(quote(Some(&header), 100), "\"curl %228%22%09%EF%BF%BD\"");
    assert_eq!(quote(Some(&header), 4), "\"curl\"");
    assert_eq!(quote(None, 4), "\"-\"");
    assert_eq!(shorten("a\u{e9}", 2), "a");
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
