use super::{Case, kind};
use benthic_core::ErrorKind;
use benthic_s3::sal::{RecordChange, RecordKind, limits};
use bytes::Bytes;
use futures::executor::block_on;

fn change(name: &str, expected: Option<&str>, new: Option<&str>) -> RecordChange {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    RecordChange {
        kind: RecordKind::User,
        name: name.into(),
        expected: expected.map(bytes),
        new: new.map(bytes),
    }
}

pub fn records_change_by_compare_and_swap(case: &Case) {
    let swap = |change| block_on(case.sal.swap_records(&[change]));
    let record = || block_on(case.sal.record(RecordKind::User, "ada")).unwrap();
    assert_eq!(record(), None);
    assert_eq!(kind(swap(change("ada", Some("1"), Some("2")))), ErrorKind::Conflict);
    swap(change("ada", None, Some("1"))).unwrap();
    assert_eq!(kind(swap(change("ada", None, Some("2")))), ErrorKind::Conflict);
    assert_eq!(kind(swap(change("ada", Some("2"), None))), ErrorKind::Conflict);
    assert_eq!(record().unwrap(), "1");
    assert_eq!(block_on(case.sal.record(RecordKind::Key, "ada")).unwrap(), None, "kinds have separate names");
    swap(change("ada", Some("1"), Some("2"))).unwrap();
    assert_eq!(record().unwrap(), "2");
    swap(change("ada", Some("2"), None)).unwrap();
    assert_eq!(record(), None);
}

pub fn several_records_change_together(case: &Case) {
    let swap = |changes: &[RecordChange]| block_on(case.sal.swap_records(changes));
    let names = |prefix: &str, after: Option<&str>, max| {
        let (records, more) = block_on(case.sal.list_records(RecordKind::User, prefix, after, max)).unwrap();
        (records.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), more)
    };
    swap(&[change("a/1", None, Some("x")), change("a/2", None, Some("y")), change("b", None, Some("z"))])
        .unwrap();
    let half = [change("a/1", Some("x"), None), change("b", Some("other"), None)];
    assert_eq!(kind(swap(&half)), ErrorKind::Conflict);
    assert_eq!(names("", None, 10), (vec!["a/1".into(), "a/2".into(), "b".into()], false));
    assert_eq!(names("a/", None, 1), (vec!["a/1".into()], true));
    assert_eq!(names("a/", Some("a/1"), 1), (vec!["a/2".into()], false));
    swap(&[change("a/1", Some("x"), None), change("b", Some("z"), Some("new"))]).unwrap();
    assert_eq!(names("", None, 10), (vec!["a/2".into(), "b".into()], false));
}

pub fn names_and_values_have_limits(case: &Case) {
    let swap = |changes: &[RecordChange]| block_on(case.sal.swap_records(changes));
    assert_eq!(kind(swap(&[change("", None, Some("1"))])), ErrorKind::InvalidArgument);
    assert_eq!(kind(swap(&[change("a\0b", None, Some("1"))])), ErrorKind::InvalidArgument);
    assert_eq!(kind(swap(&[change("a", None, Some(""))])), ErrorKind::InvalidArgument);
    let twice = [change("a", None, Some("1")), change("a", None, Some("2"))];
    assert_eq!(kind(swap(&twice)), ErrorKind::InvalidArgument);
    let long = "n".repeat(limits::RECORD_NAME_BYTES_MAX);
    swap(&[change(&long, None, Some(&"v".repeat(limits::RECORD_BYTES_MAX)))]).unwrap();
    assert_eq!(kind(swap(&[change(&format!("{long}n"), None, Some("1"))])), ErrorKind::LimitExceeded);
    let large = "v".repeat(limits::RECORD_BYTES_MAX + 1);
    assert_eq!(kind(swap(&[change("a", None, Some(&large))])), ErrorKind::LimitExceeded);
    let many: Vec<_> =
        (0..=limits::RECORD_CHANGES_MAX).map(|n| change(&n.to_string(), None, Some("1"))).collect();
    assert_eq!(kind(swap(&many)), ErrorKind::LimitExceeded);
    assert_eq!(block_on(case.sal.list_records(RecordKind::User, "", None, 10)).unwrap().0.len(), 1);
}
