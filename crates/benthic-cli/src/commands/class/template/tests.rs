use super::{Digest, SUM_XATTR};
use benthic_core::{ClassCall, ErrorKind, ObjectId, Pool, Result, Store};
use benthic_embedded::{MemStore, Options};
use futures::executor::block_on;
use std::sync::Arc;

/// A pool in memory, which runs the class beside its objects as an OSD does, but without Ceph.
fn pool() -> Arc<dyn Pool> {
    let classes = benthic_core::ClassRegistry::new().with(Digest);
    let store = MemStore::new(Options::default().with_classes(classes));
    block_on(store.create_pool("p")).unwrap();
    block_on(store.open_pool("p")).unwrap()
}

fn exec(pool: &Arc<dyn Pool>, object: &ObjectId, method: &str) -> Result<Vec<u8>> {
    let call = ClassCall { class: "{name}".into(), method: method.into(), input: Vec::new().into() };
    block_on(pool.exec(object, call)).map(|output| output.to_vec())
}

#[test]
fn the_digest_is_that_of_the_published_test_vectors() {
    let pool = pool();
    for (data, expected) in
        [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")]
    {
        let object = ObjectId::new(format!("vector-{data}")).unwrap();
        block_on(pool.write_full(&object, data)).unwrap();
        assert_eq!(exec(&pool, &object, "sum").unwrap(), expected.as_bytes());
    }
}

#[test]
fn keep_leaves_the_digest_and_can_run_twice() {
    let pool = pool();
    let object = ObjectId::new("o").unwrap();
    block_on(pool.write_full(&object, "foobar")).unwrap();
    for _ in 0..2 {
        assert_eq!(exec(&pool, &object, "keep").unwrap(), b"");
        assert_eq!(block_on(pool.get_xattr(&object, SUM_XATTR)).unwrap(), "85944171f73967e8");
    }
}

#[test]
fn a_missing_object_has_no_digest() {
    let error = exec(&pool(), &ObjectId::new("missing").unwrap(), "keep").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
