use super::wire::Observation;
use super::{GREETING_XATTR, OBSERVATION_XATTR};
use benthic_core::{ClassCall, ErrorKind, MethodLimits, ObjectId, Pool, Result, Store, WriteOp};
use benthic_embedded::{MemStore, Options};
use futures::executor::block_on;
use std::sync::Arc;

struct Fixture {
    pool: Arc<dyn Pool>,
    object: ObjectId,
}

impl Fixture {
    fn new() -> Fixture {
        let method_limits = MethodLimits { deadline_ms: 50, ..MethodLimits::default() };
        let options = Options { method_limits, ..Options::default() }.with_classes(crate::registry());
        let store = MemStore::new(options);
        block_on(store.create_pool("p")).unwrap();
        Fixture { pool: block_on(store.open_pool("p")).unwrap(), object: ObjectId::new("o").unwrap() }
    }

    fn exec(&self, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        let call = ClassCall { class: "hello".into(), method: method.into(), input: input.to_vec().into() };
        block_on(self.pool.exec(&self.object, call)).map(|output| output.to_vec())
    }

    fn kind(&self, method: &str, input: &[u8]) -> ErrorKind {
        self.exec(method, input).unwrap_err().kind()
    }

    fn data(&self) -> Vec<u8> {
        block_on(self.pool.read_range(&self.object, 0, 1_000)).unwrap().to_vec()
    }

    fn xattr(&self, name: &str) -> Vec<u8> {
        block_on(self.pool.get_xattr(&self.object, name)).unwrap().to_vec()
    }
}

#[test]
fn greetings_are_said_recorded_and_replayed() {
    let fixture = Fixture::new();
    assert_eq!(fixture.exec("record", b"Ada").unwrap(), b"");
    assert_eq!(fixture.data(), b"Hello, Ada!");
    assert_eq!(fixture.xattr(GREETING_XATTR), b"Hello, Ada!");
    assert_eq!(fixture.exec("replay", b"").unwrap(), b"Hello, Ada!");
    assert_eq!(fixture.kind("record", b"Ada"), ErrorKind::AlreadyExists);
    assert_eq!(fixture.exec("say", b"").unwrap(), b"Hello, world!");
    assert_eq!(fixture.exec("say", "x".repeat(100).as_bytes()).unwrap().len(), 108);
    assert_eq!(fixture.kind("say", "x".repeat(101).as_bytes()), ErrorKind::LimitExceeded);
    assert_eq!(fixture.kind("say", b"\xff"), ErrorKind::InvalidArgument);
}

#[test]
fn say_hello_has_the_output_and_the_errors_of_cephs_method() {
    let fixture = Fixture::new();
    assert_eq!(fixture.kind("say_hello", b""), ErrorKind::NotFound);
    block_on(fixture.pool.write_full(&fixture.object, "data")).unwrap();
    assert_eq!(fixture.exec("say_hello", b"").unwrap(), b"Hello, world!");
    assert_eq!(fixture.exec("say_hello", b"\xff").unwrap(), b"Hello, \xff!");
    assert_eq!(fixture.exec("say_hello", &[b'x'; 100]).unwrap().len(), 108);
    assert_eq!(fixture.kind("say_hello", &[b'x'; 101]), ErrorKind::InvalidArgument);
}

#[test]
fn replay_without_a_greeting_is_not_found() {
    let fixture = Fixture::new();
    assert_eq!(fixture.kind("replay", b""), ErrorKind::NotFound);
    block_on(fixture.pool.write_full(&fixture.object, "data")).unwrap();
    assert_eq!(fixture.kind("replay", b""), ErrorKind::NotFound);
}

#[test]
fn record_never_overwrites_an_existing_object() {
    let fixture = Fixture::new();
    block_on(fixture.pool.write_full(&fixture.object, "data")).unwrap();
    assert_eq!(fixture.kind("record", b""), ErrorKind::AlreadyExists);
    assert_eq!(fixture.data(), b"data");
}

#[test]
fn the_observations_of_a_method_can_be_read_back() {
    let fixture = Fixture::new();
    block_on(fixture.pool.write(&fixture.object, WriteOp::new().write_full("old").set_xattr("a", "")))
        .unwrap();
    assert_eq!(fixture.exec("old_and_new", b"+new").unwrap(), b"");
    assert_eq!(fixture.data(), b"old+new");
    let seen: Observation = serde_json::from_slice(&fixture.xattr(OBSERVATION_XATTR)).unwrap();
    let expected = Observation {
        size_bytes: 7,
        data: Some("old".to_owned()),
        xattrs: Some(vec!["a".to_owned()]),
        omap_keys: Some(Vec::new()),
    };
    assert_eq!(seen, expected);
}

#[test]
fn misbehaving_methods_fail_with_the_documented_kind() {
    let fixture = Fixture::new();
    block_on(fixture.pool.write_full(&fixture.object, "data")).unwrap();
    for (method, input, kind) in [
        ("fail_after_writing", "", ErrorKind::InvalidArgument),
        ("errno", "busy", ErrorKind::Busy),
        ("errno", "no such kind", ErrorKind::InvalidArgument),
        ("write_undeclared", "", ErrorKind::ClassFailed),
        ("read_undeclared", "", ErrorKind::ClassFailed),
        ("read_after_write", "data", ErrorKind::ClassFailed),
        ("read_after_write", "xattrs", ErrorKind::ClassFailed),
        ("read_after_write", "omap", ErrorKind::ClassFailed),
        ("read_after_write", "", ErrorKind::InvalidArgument),
        ("panic", "", ErrorKind::ClassFailed),
        ("spin", "", ErrorKind::LimitExceeded),
        ("swallow_deadline", "", ErrorKind::LimitExceeded),
        ("hoard", "", ErrorKind::LimitExceeded),
        ("flood", "", ErrorKind::LimitExceeded),
    ] {
        assert_eq!(fixture.kind(method, input.as_bytes()), kind, "{method}");
        assert_eq!(fixture.data(), b"data", "{method}");
    }
    assert_eq!(fixture.exec("nothing", b"").unwrap(), b"");
}
