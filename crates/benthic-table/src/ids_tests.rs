use super::{Id, Role, TableObject, check_table_name};
use benthic_core::names::{TABLES_NAMESPACE, is_reserved_namespace};
use benthic_core::{Environment, ErrorKind};
use std::collections::HashSet;

#[test]
fn the_namespaces_of_tables_are_reserved() {
    assert!(is_reserved_namespace(TABLES_NAMESPACE));
    assert!(is_reserved_namespace(&Id(0xabc).namespace()));
}

#[test]
fn an_object_has_one_name() {
    let object = TableObject { role: Role::List, writer: Id(0xabc), number: 7 };
    assert_eq!(object.to_string(), "l/0000000000000abc-7.parquet");
    assert_eq!(TableObject::parse("l/0000000000000abc-7.parquet"), Some(object));
    for name in [
        "",
        "l/",
        "x/0000000000000abc-7.parquet",
        "l/0000000000000ABC-7.parquet",
        "l/0000000000000abc-07.parquet",
        "l/0000000000000abc-+7.parquet",
        "l/abc-7.parquet",
        "l/0000000000000abc-7.parquet.",
        "l/0000000000000abc-99999999999.parquet",
    ] {
        assert_eq!(TableObject::parse(name), None, "{name}");
    }
}

#[test]
fn table_names_are_checked() {
    for name in ["t", "Line Item", "größe", "a.b", "-", &"x".repeat(200)] {
        assert!(check_table_name(name).is_ok(), "{name}");
    }
    for name in ["", ".t", "a/b", "a:b", "a\nb", "a\0"] {
        assert_eq!(check_table_name(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
    }
    assert_eq!(check_table_name(&"x".repeat(201)).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn ids_differ() {
    let environment = Environment::default();
    let ids: HashSet<_> = (0..1_000).map(|_| Id::draw(&environment).unwrap()).collect();
    assert_eq!(ids.len(), 1_000);
}
