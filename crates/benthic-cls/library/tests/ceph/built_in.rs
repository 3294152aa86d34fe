//! The built-in classes, and the statistics that their library reports.

use crate::cluster::{Cluster, errno};
use benthic_classes::digest::Algorithm;
use benthic_core::{
    CALLS, CallFailure, DESCRIBE, ErrorKind, FAILURES, LibraryCalls, LibraryFailures, MethodCalls, build,
};
use serde_json::{Value, json};

const LIBRARY: &str = "benthic_1";

#[test]
fn digests_are_those_of_the_published_test_vectors() {
    let mut cluster = Cluster::connect();
    let object = "digests";
    cluster.put(object, b"abc", 1);
    let vectors = [
        (Algorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
        (Algorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (Algorithm::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (Algorithm::Crc32c, "364b3fb7"),
        (Algorithm::Xxh3, "06b05ab6733a618578af5f94892f3950"),
        (Algorithm::Blake3, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ];
    for (algorithm, expected) in vectors {
        assert_eq!(cluster.exec(object, LIBRARY, &format!("digest.{algorithm}"), b""), Ok(Vec::new()));
        assert_eq!(cluster.xattr(object, algorithm.xattr()), expected);
        let computed = cluster.exec(object, LIBRARY, "digest.compute", algorithm.name().as_bytes()).unwrap();
        assert_eq!(computed, expected.as_bytes());
    }
    let verified = cluster.exec(object, LIBRARY, "digest.verify", b"").unwrap();
    let verified: Value = serde_json::from_slice(&verified).unwrap();
    let expected: Value = vectors.map(|(algorithm, hex)| (algorithm.name(), hex)).into_iter().collect();
    assert_eq!(verified, expected);
}

#[test]
fn a_large_object_is_hashed_whole_and_repeatedly() {
    let mut cluster = Cluster::connect();
    let object = "digest-large";
    cluster.put(object, b"0123456789abc", 400_000);
    cluster.exec(object, LIBRARY, "digest.md5", br#"{"repeat":3}"#).unwrap();
    // The Python client hashes the data with a different implementation.
    let state = cluster.state(object).unwrap();
    assert_eq!(state["size"], 5_200_000);
    assert_eq!(state["data"], cluster.xattr(object, "digest.md5"));
    // The data changes, but the stored digest does not.
    let digest = cluster.xattr(object, "digest.md5");
    cluster.put(object, b"other data", 1);
    let input = format!("set_xattr digest.md5 {digest}");
    cluster.exec(object, "calls_1", "calls.change", input.as_bytes()).unwrap();
    let corrupt = Err(errno(ErrorKind::Corrupt));
    assert_eq!(cluster.exec(object, LIBRARY, "digest.verify", b"md5"), corrupt);
}

#[test]
fn a_greeting_is_recorded_in_a_new_object_and_replayed() {
    let mut cluster = Cluster::connect();
    let object = "greeting";
    cluster.remove(object);
    let not_found = Err(errno(ErrorKind::NotFound));
    assert_eq!(cluster.exec(object, LIBRARY, "hello.say", b""), not_found);
    assert_eq!(cluster.exec(object, LIBRARY, "digest.md5", b""), not_found);
    assert_eq!(cluster.exec(object, LIBRARY, "hello.nothing", b""), Ok(Vec::new()));
    assert_eq!(cluster.state(object), None);
    assert_eq!(cluster.exec(object, LIBRARY, "hello.record", b"Ada"), Ok(Vec::new()));
    assert_eq!(cluster.exec(object, LIBRARY, "hello.replay", b""), Ok(b"Hello, Ada!".to_vec()));
    assert_eq!(cluster.exec(object, LIBRARY, "hello.record", b"Ada"), Err(errno(ErrorKind::AlreadyExists)));
    let before = cluster.state(object);
    assert_eq!(cluster.exec(object, LIBRARY, "hello.nothing", b""), Ok(Vec::new()));
    assert_eq!(cluster.state(object), before);
}

#[test]
fn a_method_sees_the_old_object_and_the_new_size() {
    let mut cluster = Cluster::connect();
    let object = "seen";
    cluster.put(object, b"old", 1);
    cluster.exec(object, LIBRARY, "hello.old_and_new", b"+new").unwrap();
    let seen: Value = serde_json::from_str(&cluster.xattr(object, "hello.seen")).unwrap();
    assert_eq!(seen, json!({ "size_bytes": 7, "data": "old", "xattrs": ["a"], "omap_keys": ["k"] }));
    cluster.remove(object);
    cluster.exec(object, LIBRARY, "hello.old_and_new", b"new").unwrap();
    let seen: Value = serde_json::from_str(&cluster.xattr(object, "hello.seen")).unwrap();
    assert_eq!(seen, json!({ "size_bytes": 3, "data": null, "xattrs": null, "omap_keys": null }));
}

#[test]
fn a_library_describes_itself_by_any_object_name_and_makes_no_object() {
    let mut cluster = Cluster::connect();
    let object = "described";
    cluster.remove(object);
    let described = cluster.exec(object, LIBRARY, DESCRIBE, b"").unwrap();
    assert_eq!(cluster.state(object), None);
    let described: Value = serde_json::from_slice(&described).unwrap();
    assert_eq!(described["library"], LIBRARY);
    assert_eq!(described["build"], build());
    let classes = described["classes"].as_array().unwrap();
    let expected = benthic_classes::registry().describe();
    assert_eq!(classes.len(), expected.len());
    for (class, expected) in classes.iter().zip(&expected) {
        assert_eq!(class["class"], expected.name);
        assert_eq!(class["version"], expected.version);
        let names: Vec<_> = expected.methods.iter().map(|method| method.name.as_str()).collect();
        let described = class["methods"].as_array().unwrap().iter();
        assert_eq!(described.map(|method| method["method"].as_str().unwrap()).collect::<Vec<_>>(), names);
    }
}

/// The call counters of the library in the object's OSD.
fn counted(cluster: &mut Cluster, object: &str, library: &str) -> LibraryCalls {
    serde_json::from_slice(&cluster.exec(object, library, CALLS, b"").unwrap()).unwrap()
}

fn of_method(counted: &LibraryCalls, class: &str, method: &str) -> MethodCalls {
    let class = counted.classes.iter().find(|candidate| candidate.name == class).unwrap();
    class.methods.iter().find(|candidate| candidate.name == method).unwrap().clone()
}

#[test]
fn an_osd_counts_the_calls_of_each_method_and_their_failures() {
    let mut cluster = Cluster::connect();
    let object = "counted";
    cluster.remove(object);
    let before = counted(&mut cluster, object, "calls_1");
    assert_eq!(cluster.state(object), None, "asking makes no object");
    assert_eq!((before.library.as_str(), before.build.as_str()), ("calls_1", build()));
    // On a missing object, the OSD answers without calling the method.
    assert_eq!(cluster.exec(object, "calls_1", "calls.counted", b"stat"), Err(errno(ErrorKind::NotFound)));
    cluster.put(object, b"data", 1);
    for _ in 0..7 {
        assert_eq!(cluster.exec(object, "calls_1", "calls.counted", b"stat"), Ok(b"4\n".to_vec()));
    }
    for (script, kind) in [
        ("nothing", ErrorKind::InvalidArgument),
        ("get_xattr b", ErrorKind::NotFound),
        ("write 0 x", ErrorKind::ClassFailed),
        ("panic", ErrorKind::ClassFailed),
    ] {
        let answer = cluster.exec(object, "calls_1", "calls.counted", script.as_bytes());
        assert_eq!(answer, Err(errno(kind)), "{script}");
    }
    let after = counted(&mut cluster, object, "calls_1");
    assert_eq!((&after.process, after.loaded_unix_s), (&before.process, before.loaded_unix_s));
    assert!(after.loaded_ms_ago >= before.loaded_ms_ago);
    let [before, after] = [&before, &after].map(|counted| of_method(counted, "calls", "counted"));
    assert_eq!((after.calls - before.calls, after.failures - before.failures), (11, 4));
    assert!(after.busy_us > before.busy_us);
    // Another library in the same OSD has its own counters.
    let other = counted(&mut cluster, object, LIBRARY);
    assert_eq!(other.library, LIBRARY);
    assert!(other.classes.iter().all(|class| class.name != "calls"));
    assert_eq!(other.classes.len(), benthic_classes::registry().describe().len());
}

#[test]
fn an_osd_records_the_failures_of_methods() {
    let mut cluster = Cluster::connect();
    let object = "recorded";
    cluster.remove(object);
    let recorded = |cluster: &mut Cluster, library: &str| -> LibraryFailures {
        serde_json::from_slice(&cluster.exec(object, library, FAILURES, b"").unwrap()).unwrap()
    };
    let before = recorded(&mut cluster, "calls_1");
    assert_eq!(cluster.state(object), None, "asking makes no object");
    assert_eq!((before.library.as_str(), before.build.as_str()), ("calls_1", build()));
    assert!(before.osd.is_some(), "{before:?}");
    cluster.put(object, b"data", 1);
    for _ in 0..3 {
        let answer = cluster.exec(object, "calls_1", "calls.change", b"fail only in this test");
        assert_eq!(answer, Err(errno(ErrorKind::Busy)));
    }
    let is_ours = |failure: &&CallFailure| failure.message == "only in this test";
    let after = recorded(&mut cluster, "calls_1").failures;
    let [ours] = after.iter().filter(is_ours).collect::<Vec<_>>()[..] else { panic!("{after:?}") };
    let times = before.failures.iter().find(is_ours).map_or(0, |failure| failure.times);
    assert_eq!(ours.times - times, 3);
    assert_eq!((&ours.class[..], &ours.method[..], &ours.kind[..]), ("calls", "change", "busy"));
    let client = ours.client.strip_prefix("client.").and_then(|number| number.parse::<u64>().ok());
    assert!(client.is_some_and(|number| number > 0), "{ours:?}");
    assert!(ours.unix_ms > 1_700_000_000_000, "{ours:?}");
    // Another library in the same OSD has its own list.
    assert!(!recorded(&mut cluster, LIBRARY).failures.iter().any(|failure| is_ours(&failure)));
}
