use super::{Action, ERROR_TABLE, Error, ErrorKind, OptionalExtension, errno};
use std::collections::BTreeSet;

#[test]
fn the_table_is_total_and_its_rows_are_distinct() {
    for (index, row) in ERROR_TABLE.iter().enumerate() {
        assert_eq!(row.kind as usize, index, "the rows are in the order of the kinds");
        assert_eq!(row.kind.row().name, row.name);
        assert_eq!(ErrorKind::from_name(row.name), Some(row.kind));
    }
    // A kind after `Internal` would be missing from the table.
    assert_eq!(ErrorKind::Internal as usize + 1, ERROR_TABLE.len());
    let distinct = |column: Vec<String>| column.iter().collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(ERROR_TABLE.iter().map(|r| r.name.to_owned()).collect()), ERROR_TABLE.len());
    assert_eq!(distinct(ERROR_TABLE.iter().map(|r| r.errno.to_string()).collect()), ERROR_TABLE.len());
    assert_eq!(
        distinct(ERROR_TABLE.iter().map(|r| r.python_exception.to_owned()).collect()),
        ERROR_TABLE.len()
    );
    assert_eq!(distinct(ERROR_TABLE.iter().map(|r| r.exit_status.to_string()).collect()), ERROR_TABLE.len());
    // Status 0 is success, 1 a partial failure, 2 a usage error.
    assert!(ERROR_TABLE.iter().all(|r| r.exit_status > 2));
}

#[test]
fn every_kind_maps_to_its_errno_and_back() {
    for row in &ERROR_TABLE {
        for action in [Action::Read, Action::Write, Action::Exec, Action::Admin] {
            let expected = match (row.kind, action) {
                (ErrorKind::ClassFailed, Action::Read) => ErrorKind::Corrupt,
                (ErrorKind::ClassFailed, Action::Write | Action::Admin) => ErrorKind::Internal,
                (ErrorKind::OutcomeUnknown, Action::Read) => ErrorKind::Unavailable,
                (kind, _) => kind,
            };
            assert_eq!(ErrorKind::from_errno(row.errno, action), expected, "{} by {action:?}", row.name);
        }
    }
}

#[test]
fn every_errno_has_a_kind_for_every_action() {
    for number in 0..200 {
        for action in [Action::Read, Action::Write, Action::Exec, Action::Admin] {
            let kind = ErrorKind::from_errno(number, action);
            assert_eq!(kind.row().kind, kind);
        }
    }
    assert_eq!(ErrorKind::from_errno(errno::ERANGE, Action::Write), ErrorKind::Conflict);
    assert_eq!(ErrorKind::from_errno(errno::ERANGE, Action::Exec), ErrorKind::ClassFailed);
}

#[test]
fn a_message_names_the_operation_and_keeps_the_first_context() {
    let error = Error::new(ErrorKind::NotFound, "no such object")
        .with("object", "a/b")
        .with("object", "c")
        .with_op("stat");
    assert_eq!(error.to_string(), "stat: no such object object=a/b");
    assert_eq!(error.with_op("put").op(), "stat");
    let error = Error::new(ErrorKind::NotFound, "no such pool").with("pool", "a b\n").with("got", "");
    assert_eq!(error.to_string(), "no such pool pool=\"a b\\n\" got=\"\"");
    assert_eq!(error.context().next(), Some(("pool", "a b\n")));
}

#[test]
fn only_a_missing_item_is_optional() {
    let failed = |kind| Err::<u8, Error>(Error::new(kind, "the item cannot be read"));
    assert_eq!(Ok::<u8, Error>(7).optional().unwrap(), Some(7));
    assert_eq!(failed(ErrorKind::NotFound).optional().unwrap(), None);
    assert_eq!(failed(ErrorKind::Unavailable).optional().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn every_kind_has_a_constructor() {
    let all: [fn(&'static str) -> Error; 13] = [
        Error::not_found,
        Error::already_exists,
        Error::conflict,
        Error::invalid_argument,
        Error::unsupported,
        Error::permission_denied,
        Error::unavailable,
        Error::busy,
        Error::limit_exceeded,
        Error::corrupt,
        Error::class_failed,
        Error::outcome_unknown,
        Error::internal,
    ];
    let made: BTreeSet<&str> = all.iter().map(|make| make("m").kind().row().name).collect();
    assert_eq!(made.len(), ERROR_TABLE.len());
}
