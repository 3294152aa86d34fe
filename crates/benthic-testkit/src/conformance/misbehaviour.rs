//! Methods that fail or break the rules. The caller gets the right error kind, the object is
//! unchanged, and the next call works. The cases call the class `hello`.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::error::ERROR_TABLE;
use benthic_core::{ErrorKind, ObjectId, ReadOp, WriteOp};

/// Calls the method twice on an existing object; expects the error and an unchanged object.
async fn assert_fails(case: &Case<'_>, method: &str, input: &str, expected: ErrorKind) {
    let object = case.make_full(&format!("{method} {input}")).await;
    let version = case.version(&object).await;
    for round in 0..2 {
        assert_eq!(
            kind(case.exec(&object, "hello", method, input).await),
            expected,
            "{method}, round {round}"
        );
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()), "{method}, round {round}");
        assert_eq!(case.version(&object).await, version, "{method}, round {round}");
        assert_eq!(case.exec(&object, "hello", "say", "Ada").await.unwrap(), "Hello, Ada!", "after {method}");
    }
    case.pool.write(&object, WriteOp::new().append("b")).await.unwrap();
    assert_eq!(case.size(&object).await, 101, "{method}");
}

/// Calls the method on a missing object; expects the error and no new object.
async fn assert_fails_on_missing(case: &Case<'_>, method: &str, expected: ErrorKind) {
    let object = case.object(&format!("missing {method}"));
    assert_eq!(kind(case.exec(&object, "hello", method, "").await), expected, "{method}");
    assert_eq!(case.state(&object).await, None, "{method}");
    case.exec(&object, "hello", "record", "").await.unwrap();
}

pub(super) async fn a_method_that_writes_and_fails_leaves_nothing(case: &Case<'_>) {
    assert_fails(case, "fail_after_writing", "", ErrorKind::InvalidArgument).await;
    assert_fails_on_missing(case, "fail_after_writing", ErrorKind::InvalidArgument).await;
}

pub(super) async fn every_kind_of_error_reaches_the_caller(case: &Case<'_>) {
    for row in &ERROR_TABLE {
        assert_fails(case, "errno", row.name, row.kind).await;
        let object = case.make_full(&format!("in a write {}", row.name)).await;
        let op = WriteOp::new().exec("hello", "errno", row.name).write_full("x");
        assert_eq!(kind(case.pool.write(&object, op).await), row.kind);
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    }
    assert_fails(case, "errno", "no such kind", ErrorKind::InvalidArgument).await;
}

/// Failures that share an error kind differ in their text. The text is the method's own.
pub(super) async fn a_method_explains_its_failure_to_the_caller(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let long = "x".repeat(101);
    let undeclared = |call| format!("the method called {call}, which its flags do not declare");
    for (method, input, kind, text) in [
        ("say", &long[..], ErrorKind::LimitExceeded, "the name is too long len_bytes=101".to_owned()),
        ("replay", "", ErrorKind::NotFound, "no such attribute".to_owned()),
        ("errno", "busy", ErrorKind::Busy, "this method fails with the requested kind".to_owned()),
        (
            "errno",
            "unsupported",
            ErrorKind::Unsupported,
            "this method fails with the requested kind".to_owned(),
        ),
        ("errno", "none", ErrorKind::InvalidArgument, "no such error kind name=none".to_owned()),
        (
            "fail_after_writing",
            "",
            ErrorKind::InvalidArgument,
            "this method fails, as its name says".to_owned(),
        ),
        ("panic", "", ErrorKind::ClassFailed, "the method panicked: this method panics".to_owned()),
        ("write_undeclared", "", ErrorKind::ClassFailed, undeclared("write_full")),
        ("read_undeclared", "", ErrorKind::ClassFailed, undeclared("read")),
        (
            "read_after_write",
            "data",
            ErrorKind::ClassFailed,
            "the method called read after it changed".to_owned(),
        ),
        ("spin", "", ErrorKind::LimitExceeded, "give it less to do in one call".to_owned()),
        ("hoard", "", ErrorKind::LimitExceeded, "the method needs more memory than its limit".to_owned()),
    ] {
        assert_explains(case, &object, method, input, kind, &text).await;
    }
    // A method that only reads, among the steps of a read operation.
    let op = ReadOp::new().stat().exec("hello", "say", "").exec("hello", "say", long.clone());
    let error = case.pool.read(&object, op).await.unwrap_err();
    assert!(error.to_string().contains("the name is too long len_bytes=101"), "{error}");
    // A method that writes, on a missing object.
    let error = case.exec(&case.object("missing"), "hello", "record", &long).await.unwrap_err();
    assert!(error.to_string().contains("the name is too long len_bytes=101"), "{error}");
}

/// Calls the method alone and in a write operation; expects both errors to have the kind and the
/// text.
pub(super) async fn assert_explains(
    case: &Case<'_>,
    object: &ObjectId,
    method: &str,
    input: &str,
    kind: ErrorKind,
    text: &str,
) {
    let write = WriteOp::new().exec("hello", method, input.to_owned()).append("x");
    let errors = [
        case.exec(object, "hello", method, input).await.unwrap_err(),
        case.pool.write(object, write).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), kind, "{method}: {error}");
        assert!(error.to_string().contains(text), "{method}: {error}");
    }
}

pub(super) async fn a_method_refuses_bad_input(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let long = "x".repeat(101);
    assert_eq!(kind(case.exec(&object, "hello", "say", &long).await), ErrorKind::LimitExceeded);
    assert_eq!(
        kind(case.exec(&case.object("missing"), "hello", "record", &long).await),
        ErrorKind::LimitExceeded
    );
    let op = ReadOp::new().exec("hello", "say", vec![0xff]);
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::InvalidArgument);
}

pub(super) async fn a_write_that_was_not_declared_fails_the_call(case: &Case<'_>) {
    for input in ["", "append"] {
        assert_fails(case, "write_undeclared", input, ErrorKind::ClassFailed).await;
    }
    let object = case.make_full("o").await;
    let op = ReadOp::new().stat().exec("hello", "write_undeclared", "");
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::ClassFailed);
    let op = WriteOp::new().exec("hello", "write_undeclared", "").append("x");
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::ClassFailed);
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn a_read_that_was_not_declared_fails_the_call(case: &Case<'_>) {
    assert_fails(case, "read_undeclared", "", ErrorKind::ClassFailed).await;
    assert_fails_on_missing(case, "read_undeclared", ErrorKind::ClassFailed).await;
}

/// `stat` does not count as a read: `record` calls it and declares only the write flag.
pub(super) async fn a_method_reads_before_it_writes(case: &Case<'_>) {
    for part in ["data", "appended", "xattrs", "omap"] {
        assert_fails(case, "read_after_write", part, ErrorKind::ClassFailed).await;
    }
    assert_fails(case, "read_after_write", "", ErrorKind::InvalidArgument).await;
    case.exec(&case.object("recorded"), "hello", "record", "").await.unwrap();
}

pub(super) async fn a_panic_fails_the_call_and_nothing_else(case: &Case<'_>) {
    assert_fails(case, "panic", "", ErrorKind::ClassFailed).await;
    assert_fails_on_missing(case, "panic", ErrorKind::ClassFailed).await;
    // Enough calls to exhaust a thread pool whose threads die of panics.
    let object = case.make_full("o").await;
    for _ in 0..20 {
        assert_eq!(kind(case.exec(&object, "hello", "panic", "").await), ErrorKind::ClassFailed);
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn a_method_that_never_ends_is_stopped(case: &Case<'_>) {
    assert_fails(case, "spin", "", ErrorKind::LimitExceeded).await;
}

pub(super) async fn a_method_that_ignores_its_deadline_fails(case: &Case<'_>) {
    assert_fails(case, "swallow_deadline", "", ErrorKind::LimitExceeded).await;
}

pub(super) async fn the_memory_of_a_method_is_limited(case: &Case<'_>) {
    assert_fails(case, "hoard", "", ErrorKind::LimitExceeded).await;
    // The engine releases the memory charged to a call.
    let object = case.make_full("o").await;
    for _ in 0..20 {
        assert_eq!(kind(case.exec(&object, "hello", "hoard", "").await), ErrorKind::LimitExceeded);
    }
}

pub(super) async fn the_output_of_a_method_is_limited(case: &Case<'_>) {
    assert_fails(case, "flood", "", ErrorKind::LimitExceeded).await;
}
