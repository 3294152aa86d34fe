use super::{Declare, close, declare, fetch};
use benthic_core::ErrorKind;

fn declared(name: &str, is_binary: bool, query: &str) -> Declare {
    Declare { name: name.to_owned(), is_binary, query: query.to_owned() }
}

#[test]
fn cursors_are_declared_as_clients_do() {
    for (text, expected) in [
        ("_psql_cursor NO SCROLL CURSOR FOR\nSELECT 1", declared("_psql_cursor", false, "SELECT 1")),
        ("\"My Cursor\" CURSOR FOR SELECT 'FOR'", declared("My Cursor", false, "SELECT 'FOR'")),
        ("C1 CURSOR WITHOUT HOLD FOR SELECT 1", declared("c1", false, "SELECT 1")),
        ("c BINARY INSENSITIVE CURSOR FOR (SELECT 1) /* x */", declared("c", true, "(SELECT 1) /* x */")),
        ("/* a */ c -- b\n cursor for select 1", declared("c", false, "select 1")),
    ] {
        assert_eq!(declare(text).unwrap(), expected, "{text}");
    }
    for (text, kind) in [
        ("", ErrorKind::InvalidArgument),
        ("c", ErrorKind::InvalidArgument),
        ("c FOR SELECT 1", ErrorKind::InvalidArgument),
        ("\"c CURSOR FOR SELECT 1", ErrorKind::InvalidArgument),
        ("\"\" CURSOR FOR SELECT 1", ErrorKind::InvalidArgument),
        ("c(1) CURSOR FOR SELECT 1", ErrorKind::InvalidArgument),
        ("c SCROLL CURSOR FOR SELECT 1", ErrorKind::Unsupported),
        ("c CURSOR WITH HOLD FOR SELECT 1", ErrorKind::Unsupported),
    ] {
        assert_eq!(declare(text).unwrap_err().kind(), kind, "{text}");
    }
}

#[test]
fn cursors_move_forward_only() {
    for (text, rows) in [
        ("c", Some(1)),
        ("NEXT FROM c", Some(1)),
        ("FORWARD IN c", Some(1)),
        ("FORWARD 100 FROM \"c\"", Some(100)),
        ("7 C", Some(7)),
        ("ALL c", None),
        ("forward all from c", None),
    ] {
        let found = fetch(text, false).unwrap();
        assert_eq!((found.name.as_str(), found.rows), ("c", rows), "{text}");
    }
    for text in [
        "BACKWARD FROM c",
        "PRIOR c",
        "-1 FROM c",
        "0 FROM c",
        "ABSOLUTE 3 FROM c",
        "FORWARD 1 2 3 4 5 FROM c",
    ] {
        assert_eq!(fetch(text, true).unwrap_err().kind(), ErrorKind::Unsupported, "{text}");
    }
    assert_eq!(fetch("", false).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!((close("ALL").unwrap(), close("\"ALL\"").unwrap()), (None, Some("ALL".to_owned())));
    assert_eq!(close("a b").unwrap_err().kind(), ErrorKind::InvalidArgument);
}
