use super::{ObjectAddress, ObjectId, PoolAddress, check_pool_name, is_reserved_namespace};
use crate::ErrorKind;

#[test]
fn names_have_limits() {
    assert!(ObjectId::new("x".repeat(2_048)).is_ok());
    assert_eq!(ObjectId::new("x".repeat(2_049)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    // Limits count bytes, not characters.
    assert_eq!(ObjectId::new("é".repeat(1_025)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(ObjectId::in_namespace("n".repeat(256), "x").is_ok());
    assert_eq!(ObjectId::in_namespace("n".repeat(257), "x").unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(ObjectId::new("").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(ObjectId::new("a\0b").unwrap_err().kind(), ErrorKind::InvalidArgument);
    for name in ["..", "/", "//", "a/../b", "-x", "\u{10ffff}", " ", "\n"] {
        assert_eq!(ObjectId::new(name).unwrap().name(), name);
    }
    for name in ["", "a/b", "a:b", "-a", ".", "..", "a\nb"] {
        assert_eq!(check_pool_name(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name:?}");
    }
}

#[test]
fn addresses_parse_and_print() {
    for text in ["p/o", "p:ns/o", "p/a/b", "p//", "p:n/a:b"] {
        let address: ObjectAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
    }
    let address: ObjectAddress = "p:ns/a/b".parse().unwrap();
    assert_eq!(
        (address.pool.as_str(), address.object.namespace(), address.object.name()),
        ("p", "ns", "a/b")
    );
    for text in ["", "p", "p/", "/o", ":n/o", "p:/", "a\0/b"] {
        assert_eq!(text.parse::<ObjectAddress>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{text:?}");
    }
    assert_eq!("p:n".parse::<PoolAddress>().unwrap().namespace, "n");
}

#[test]
fn reserved_namespaces_have_the_prefix() {
    for namespace in ["benthic.tables", "benthic.table.0123456789abcdef", "benthic."] {
        assert!(is_reserved_namespace(namespace), "{namespace}");
    }
    for namespace in ["", "benthic", "benthic-bench", "Benthic.tables", "my.benthic.tables"] {
        assert!(!is_reserved_namespace(namespace), "{namespace}");
    }
}
