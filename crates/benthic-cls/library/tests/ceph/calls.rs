//! Every call of the context on a real OSD, through the class in `examples/cls_calls_1.rs`. The
//! expected behaviour is that of docs/design/0003.

use crate::cluster::{Cluster, errno};
use benthic_core::ErrorKind::{
    AlreadyExists, ClassFailed, InvalidArgument, LimitExceeded, NotFound, Unsupported,
};
use serde_json::json;

const LIBRARY: &str = "calls_1";

impl Cluster {
    fn look(&mut self, object: &str, script: &str) -> String {
        let answer = self.exec(object, LIBRARY, "calls.look", script.as_bytes());
        String::from_utf8(answer.unwrap_or_else(|errno| panic!("errno={errno}: {script}"))).unwrap()
    }

    fn change(&mut self, object: &str, script: &str) -> Result<(), i32> {
        self.exec(object, LIBRARY, "calls.change", script.as_bytes()).map(|output| assert!(output.is_empty()))
    }
}

#[test]
fn reads_are_clipped_and_empty_reads_return_nothing() {
    let mut cluster = Cluster::connect();
    cluster.put("calls-read", b"0123456789", 1);
    let script = "stat\nread 0 4\nread 8 100\nread 10 1\nread 0 0\nread 5 0\nread 99999999999 5\nget_xattr a\n\
                  try get_xattr b\nlist_xattrs\nomap_get k b k\nomap_range - - 10";
    let expected = "10\n0123\n89\n\n\n\n\n1\nnot_found\na\nk=v\ncount=1 last=k more=false\n";
    assert_eq!(cluster.look("calls-read", script), expected);
    cluster.put("calls-read", b"0123456789", 800_000);
    assert_eq!(cluster.look("calls-read", "read 0 10000000").len(), 8_000_001);
}

#[test]
fn omap_pages_have_limited_entries_and_bytes() {
    let mut cluster = Cluster::connect();
    let object = "calls-pages";
    cluster.remove(object);
    cluster.change(object, "omap_fill 1100 10").unwrap();
    let script = "omap_range - - 5000\nomap_range k1023 - 5000\nomap_range - k05 1000\nomap_range a k0003 2\n\
                  omap_range - - 64\nomap_range k1035 - 64\nomap_range k1036 - 64\nomap_range - x 1\nomap_get k0007";
    let expected = "count=1024 last=k1023 more=true\ncount=76 last=k1099 more=false\n\
                    count=100 last=k0599 more=false\ncount=1 last=k0003 more=false\n\
                    count=64 last=k0063 more=true\ncount=64 last=k1099 more=false\ncount=63 last=k1099 more=false\n\
                    count=0 last= more=false\nk0007=vvvvvvvvvv\n";
    assert_eq!(cluster.look(object, script), expected);
    // 16 MiB and one entry more.
    cluster.remove(object);
    cluster.change(object, "omap_fill 20 1048576").unwrap();
    assert_eq!(cluster.look(object, "omap_range - - 100"), "count=16 last=k0015 more=true\n");
    cluster.remove(object);
}

#[test]
fn changes_have_the_same_effect_as_on_other_engines() {
    let mut cluster = Cluster::connect();
    let object = "calls-change";
    for (script, size, data) in [
        ("write 2 ab", 10, "30316162343536373839"),
        ("write 12 ab", 14, "3031323334353637383900006162"),
        ("write 20 ", 10, "30313233343536373839"),
        ("write 0 ", 10, "30313233343536373839"),
        ("write_full xy", 2, "7879"),
        ("write_full ", 0, ""),
        ("append ab", 12, "303132333435363738396162"),
        ("append ", 10, "30313233343536373839"),
        ("write_full x\nappend y\nappend z", 3, "78797a"),
        ("truncate 1\nappend y", 2, "3079"),
        ("truncate 3", 3, "303132"),
        ("truncate 12", 12, "303132333435363738390000"),
        ("zero 2 3", 10, "30310000003536373839"),
        ("zero 8 100", 8, "3031323334353637"),
        ("zero 50 10", 10, "30313233343536373839"),
        ("remove\nwrite_full new", 3, "6e6577"),
        ("create", 10, "30313233343536373839"),
    ] {
        cluster.put(object, b"0123456789", 1);
        cluster.change(object, script).unwrap();
        let state = cluster.state(object).unwrap();
        assert_eq!((state["size"].as_u64(), state["data"].as_str()), (Some(size), Some(data)), "{script}");
    }
    cluster.put(object, b"0123456789", 1);
    cluster.change(object, "set_xattr b 2\nomap_set l w\nomap_set m x\nomap_remove k nothing").unwrap();
    let state = cluster.state(object).unwrap();
    assert_eq!(state["xattrs"], json!({ "a": "31", "b": "32" }));
    assert_eq!(state["omap"], json!({ "l": "77", "m": "78" }));
    cluster.change(object, "omap_clear").unwrap();
    assert_eq!(cluster.state(object).unwrap()["omap"], json!({}));
    cluster.change(object, "remove").unwrap();
    assert_eq!(cluster.state(object), None);
}

#[test]
fn reads_fail_on_a_missing_object_and_writes_create_it() {
    let mut cluster = Cluster::connect();
    let object = "calls-missing";
    for script in [
        "stat",
        "read 0 1",
        "read 0 0",
        "get_xattr a",
        "list_xattrs",
        "omap_get k",
        "omap_range - - 1",
        "remove",
        "omap_remove k",
        "omap_remove",
        "omap_clear",
    ] {
        cluster.remove(object);
        assert_eq!(cluster.change(object, script), Err(errno(NotFound)), "{script}");
        assert_eq!(cluster.state(object), None, "{script}");
    }
    for script in ["truncate 10", "zero 0 10", "create\nremove", "write 0 x\nremove"] {
        cluster.change(object, script).unwrap();
        assert_eq!(cluster.state(object), None, "{script}");
    }
    for script in [
        "create",
        "create_exclusive",
        "write 5 ",
        "write_full ",
        "append ",
        "set_xattr a ",
        "omap_set k ",
        "omap_set_none",
        // Changes of another kind do not hide that the object was missing.
        "write 0 \ntry get_xattr a",
        "create\ntry omap_range - - 1",
        "create\ntry read 0 1",
    ] {
        cluster.remove(object);
        cluster.change(object, script).unwrap();
        assert_eq!(cluster.state(object).unwrap()["size"], 0, "{script}");
    }
    cluster.remove(object);
    cluster
        .change(object, "write 0 abc\ntry omap_range - - 1\ntry omap_get k\ntry get_xattr a\nstat\nkeep")
        .unwrap();
    assert_eq!(cluster.xattr(object, "calls.seen"), "done\nnot_found\nnot_found\nnot_found\n3\n");
}

#[test]
fn calls_that_would_harm_an_osd_never_reach_it() {
    let mut cluster = Cluster::connect();
    let object = "calls-traps";
    cluster.put(object, b"data", 1);
    let before = cluster.state(object);
    let boots = cluster.boots();
    for (script, kind) in [
        ("zero 0 0", InvalidArgument),
        ("omap_set l x\nomap_range - - 10", ClassFailed),
        ("write_full data\nread 0 4", ClassFailed),
        ("truncate 134217728", LimitExceeded),
        ("write 134217728 x", LimitExceeded),
        ("write 18446744073709551615 x", LimitExceeded),
        ("zero 18446744073709551615 1", LimitExceeded),
        ("omap_set  x", InvalidArgument),
        ("set_xattr  x", InvalidArgument),
        ("create_exclusive", AlreadyExists),
        ("write_many 0 200000000", LimitExceeded),
    ] {
        assert_eq!(cluster.change(object, script), Err(errno(kind)), "{script}");
        assert_eq!(cluster.state(object), before, "{script}");
    }
    // The largest possible object: its last byte can be written.
    cluster.change(object, "write 134217727 x").unwrap();
    assert_eq!(cluster.state(object).unwrap()["size"], 134_217_728);
    cluster.remove(object);
    assert_eq!(cluster.boots(), boots);
}

#[test]
fn a_library_under_another_name_gets_no_methods_and_does_no_harm() {
    let mut cluster = Cluster::connect();
    let object = "calls-renamed";
    cluster.put(object, b"data", 1);
    let boots = cluster.boots();
    cluster.install_renamed("libcls_calls_1.so", "libcls_calls_renamed.so");
    let answer = cluster.exec(object, "calls_renamed", "calls.look", b"stat");
    assert_eq!(answer, Err(errno(Unsupported)));
    assert_eq!(cluster.look(object, "stat"), "4\n");
    assert_eq!(cluster.boots(), boots);
}
