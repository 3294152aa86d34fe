//! Erasure-coded pools: supported operations work, and others return an error that names the
//! reason. Ceph 20 has the pool setting `allow_ec_optimizations`, which changes the speed and
//! nothing else.

use crate::support::{block_on, ceph, conf, connect, id};
use benthic_core::{ClassCall, Error, ErrorKind, Fetch, ListRequest, Pool, Result, Store, WriteOp};
use std::process::Command;
use std::sync::Arc;

/// An erasure-coded pool with k=2, m=1. The test creates it as an administrator, because the engine
/// creates only replicated pools.
struct Erasure {
    name: String,
    pool: Arc<dyn Pool>,
}

impl Erasure {
    fn new(name: &str, overwrites: bool) -> Erasure {
        let name = format!("{name}.{}", std::process::id());
        ceph(&["osd", "erasure-code-profile", "set", &name, "k=2", "m=1", "crush-failure-domain=osd"]);
        ceph(&["osd", "pool", "create", &name, "1", "1", "erasure", &name]);
        if overwrites {
            ceph(&["osd", "pool", "set", &name, "allow_ec_overwrites", "true"]);
        }
        // Another client created the pool, so this client's OSD map does not have it yet.
        let pool = block_on(connect().open_pool(&name)).unwrap();
        Erasure { name, pool }
    }

    fn refused(&self, op: WriteOp) {
        unsupported("write", block_on(self.pool.write(&id("o"), op)), "erasure-coded");
    }

    fn exec(&self, class: &str, method: &str) -> Result<bytes::Bytes> {
        let call = ClassCall { class: class.into(), method: method.into(), input: "".into() };
        block_on(self.pool.exec(&id("o"), call))
    }

    fn data(&self) -> bytes::Bytes {
        block_on(self.pool.read_range(&id("o"), 0, 1 << 20)).unwrap()
    }
}

impl Drop for Erasure {
    fn drop(&mut self) {
        let removed = block_on(connect().remove_pool(&self.name));
        assert!(std::thread::panicking() || removed.is_ok(), "{removed:?}");
        ceph(&["osd", "crush", "rule", "rm", &self.name]);
        ceph(&["osd", "erasure-code-profile", "rm", &self.name]);
    }
}

fn unsupported<T>(what: &str, result: Result<T>, says: &str) {
    let error: Error = result.err().unwrap_or_else(|| panic!("{what} was not refused"));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
    assert!(error.to_string().contains(says), "{what}: {error}");
}

#[test]
fn whole_objects_attributes_and_full_stripes_work_in_an_erasure_coded_pool() {
    let own = Erasure::new("erasure", false);
    let (pool, o) = (&own.pool, id("o"));
    block_on(pool.write(&o, WriteOp::new().write_full(vec![1; 5_000]).set_xattr("a", "1"))).unwrap();
    assert_eq!(own.data(), vec![1; 5_000]);
    assert_eq!(block_on(pool.get_xattr(&o, "a")).unwrap(), "1");
    block_on(pool.write(&o, WriteOp::new().assert_exists().write_full("new").remove_xattr("a"))).unwrap();
    assert_eq!(own.data(), "new");
    assert_eq!(block_on(pool.list(ListRequest::default())).unwrap().objects, [id("o")]);
    block_on(pool.write(&id("stripes"), WriteOp::new().append(vec![2; 64 << 10]))).unwrap();
    block_on(pool.write(&id("stripes"), WriteOp::new().append("end"))).unwrap();
    assert_eq!(block_on(pool.stat(&id("stripes"))).unwrap().0.size_bytes, (64 << 10) + 3);
    block_on(pool.remove(&id("stripes"))).unwrap();
}

#[test]
fn operations_that_an_erasure_coded_pool_lacks_are_unsupported_and_change_nothing() {
    let own = Erasure::new("refuses", false);
    block_on(own.pool.write_full(&id("o"), "data")).unwrap();
    for op in [
        WriteOp::new().write(1, "x"),
        WriteOp::new().append("x"),
        WriteOp::new().truncate(1),
        WriteOp::new().zero(1, 1),
        WriteOp::new().omap_set([("k", "v")]),
        WriteOp::new().set_xattr("a", "1").omap_set([("k", "v")]),
        WriteOp::new().omap_clear(),
    ] {
        own.refused(op);
    }
    assert_eq!(own.data(), "data");
    let rest = Fetch::list_xattrs().and(Fetch::omap_range(None, "", 10));
    let ((xattrs, omap), _) = block_on(own.pool.fetch(&id("o"), rest)).unwrap();
    assert!(xattrs.is_empty() && omap.entries.is_empty(), "{xattrs:?} {omap:?}");
}

#[test]
fn with_overwrites_an_erasure_coded_pool_lacks_only_the_omap() {
    let own = Erasure::new("overwrites", true);
    lacks_only_the_omap(&own);
    let own = Erasure::new("optimized", true);
    let mut optimize = Command::new("ceph");
    optimize.arg("--conf").arg(conf()).args([
        "osd",
        "pool",
        "set",
        &own.name,
        "allow_ec_optimizations",
        "true",
    ]);
    // An older release refuses the setting.
    if optimize.output().unwrap().status.success() {
        lacks_only_the_omap(&own);
    }
}

fn lacks_only_the_omap(own: &Erasure) {
    block_on(own.pool.write_full(&id("o"), "data")).unwrap();
    for op in [
        WriteOp::new().write(1, "x"),
        WriteOp::new().append("yz"),
        WriteOp::new().zero(0, 1),
        WriteOp::new().truncate(5),
    ] {
        block_on(own.pool.write(&id("o"), op)).unwrap();
    }
    assert_eq!(own.data(), "\0xtay");
    own.refused(WriteOp::new().omap_set([("k", "v")]));
    unsupported("exec", own.exec("digest", "sha256"), "erasure-coded");
}

#[test]
fn methods_that_read_data_are_unsupported_in_an_erasure_coded_pool() {
    let own = Erasure::new("methods", false);
    block_on(own.pool.write_full(&id("o"), "data")).unwrap();
    assert_eq!(own.exec("hello", "say").unwrap(), "Hello, world!");
    unsupported("exec", own.exec("digest", "sha256"), "erasure-coded");
    let op = WriteOp::new().exec("digest", "sha256", "").set_xattr("a", "1");
    unsupported("write", block_on(own.pool.write(&id("o"), op)), "erasure-coded");
    assert!(block_on(own.pool.get_xattr(&id("o"), "a")).is_err(), "a refused operation left something");
}
