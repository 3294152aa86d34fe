use super::{list, quoted};

#[test]
fn commands_keep_names_or_are_not_printed() {
    let quoted_list = |name: &str| list(&["a".to_owned(), name.to_owned()]);
    for (name, expected) in [
        ("name", Some("a,name")),
        ("a b", Some("'a,a b'")),
        ("it's", Some(r"'a,it'\''s'")),
        ("$(x)", Some("'a,$(x)'")),
        ("a,b", None),
        (" a", None),
        ("a ", None),
        ("", None),
        ("a\nb", None),
        ("a\u{1b}[2J", None),
    ] {
        assert_eq!(quoted_list(name).as_deref(), expected, "{name:?}");
    }
    assert_eq!(list(&["-x".to_owned()]), None);
    assert_eq!(quoted("lake/t").as_deref(), Some("lake/t"));
    assert_eq!(quoted("-lake/t"), None);
}
