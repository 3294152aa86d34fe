//! Methods that break the rules: the OSD survives, the object is intact, and the caller gets the
//! right errno.

use crate::cluster::{Cluster, errno};
use benthic_core::ErrorKind::{ClassFailed, InvalidArgument, LimitExceeded};
use benthic_core::error::ERROR_TABLE;

const LIBRARY: &str = "benthic_1";

#[test]
fn an_osd_survives_methods_that_misbehave_and_keeps_the_object() {
    let mut cluster = Cluster::connect();
    let object = "misbehaving";
    cluster.put(object, b"data", 1);
    let before = cluster.state(object);
    let boots = cluster.boots();
    for (method, input, kind) in [
        ("hello.panic", "", ClassFailed),
        ("hello.spin", "", LimitExceeded),
        ("hello.swallow_deadline", "", LimitExceeded),
        ("hello.hoard", "", LimitExceeded),
        ("hello.flood", "", LimitExceeded),
        ("hello.write_undeclared", "", ClassFailed),
        ("hello.read_undeclared", "", ClassFailed),
        ("hello.read_after_write", "data", ClassFailed),
        ("hello.read_after_write", "xattrs", ClassFailed),
        ("hello.read_after_write", "omap", ClassFailed),
        ("hello.fail_after_writing", "", InvalidArgument),
    ] {
        let answer = cluster.exec(object, LIBRARY, method, input.as_bytes());
        assert_eq!(answer, Err(errno(kind)), "{method} {input}");
        assert_eq!(cluster.state(object), before, "{method} {input}");
        assert_eq!(cluster.exec(object, LIBRARY, "hello.say", b"Ada").unwrap(), b"Hello, Ada!", "{method}");
    }
    assert_eq!(cluster.boots(), boots);
}

#[test]
fn a_misbehaving_method_makes_no_object() {
    let mut cluster = Cluster::connect();
    let object = "misbehaving-missing";
    cluster.remove(object);
    let boots = cluster.boots();
    for method in
        ["hello.panic", "hello.read_undeclared", "hello.fail_after_writing", "hello.read_after_write"]
    {
        assert!(cluster.exec(object, LIBRARY, method, b"omap").is_err(), "{method}");
        assert_eq!(cluster.state(object), None, "{method}");
    }
    assert_eq!(cluster.boots(), boots);
}

#[test]
fn every_kind_of_error_reaches_the_caller_as_its_errno() {
    let mut cluster = Cluster::connect();
    let object = "errors";
    cluster.put(object, b"data", 1);
    let before = cluster.state(object);
    for row in &ERROR_TABLE {
        let answer = cluster.exec(object, LIBRARY, "hello.errno", row.name.as_bytes());
        assert_eq!(answer, Err(row.errno), "{}", row.name);
    }
    assert_eq!(cluster.state(object), before);
    let unsupported = Err(errno(benthic_core::ErrorKind::Unsupported));
    assert_eq!(cluster.exec(object, LIBRARY, "hello.no_such_method", b""), unsupported);
    assert_eq!(cluster.exec(object, "benthic_0", "hello.say", b""), unsupported);
}
