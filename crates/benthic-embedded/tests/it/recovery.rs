//! Acknowledged data is present after the store was closed and after its process was killed.

use crate::support::{block_on, copy_of_running, id, noise, open, pool, read_all, with_pool};
use benthic_core::{ErrorKind, Fetch, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use std::path::Path;

const SIZES: [usize; 12] =
    [0, 1, 4_095, 4_096, 4_097, 65_535, 65_536, 65_537, 200_000, 1 << 20, (1 << 20) + 5, 9 << 20];

pub fn fill(dir: &Path) -> std::sync::Arc<EmbeddedStore> {
    let (store, pool) = with_pool(dir);
    for (seed, size) in SIZES.into_iter().enumerate() {
        let op = WriteOp::new()
            .write_full(noise(seed as u64, size))
            .set_xattr("size", size.to_string())
            .omap_set([(format!("key {size}"), "value")]);
        block_on(pool.write(&id(&size.to_string()), op)).unwrap();
    }
    // Partial overwrites, truncates and removals of small and large data.
    for size in SIZES {
        let object = id(&format!("changed {size}"));
        block_on(pool.write_full(&object, noise(99, size))).unwrap();
        block_on(pool.write(&object, WriteOp::new().write(3_000, noise(7, 5_000)))).unwrap();
        block_on(pool.write(&object, WriteOp::new().truncate(size as u64 / 2 + 10).append("end"))).unwrap();
    }
    block_on(pool.write_full(&id("gone"), noise(1, 300_000))).unwrap();
    block_on(pool.remove(&id("gone"))).unwrap();
    store
}

pub fn check(store: &EmbeddedStore) {
    let pool = pool(store);
    for (seed, size) in SIZES.into_iter().enumerate() {
        assert!(
            read_all(pool.as_ref(), &size.to_string()).unwrap() == noise(seed as u64, size),
            "size {size}"
        );
        let found = Fetch::get_xattr("size").and(Fetch::omap_range(None, "", 10));
        let ((found, _), _) = block_on(pool.fetch(&id(&size.to_string()), found)).unwrap();
        assert_eq!(found, size.to_string());
        let mut expected = noise(99, size);
        expected.resize(size.max(8_000), 0);
        expected[3_000..8_000].copy_from_slice(&noise(7, 5_000));
        expected.resize(size / 2 + 10, 0);
        expected.extend_from_slice(b"end");
        assert!(read_all(pool.as_ref(), &format!("changed {size}")).unwrap() == expected, "changed {size}");
    }
    assert_eq!(block_on(pool.stat(&id("gone"))).unwrap_err().kind(), ErrorKind::NotFound);
    let report = block_on(store.fsck()).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.objects, 2 * SIZES.len() as u64);
    let scrub = block_on(pool.scrub(None)).unwrap();
    assert_eq!(scrub.damage, []);
}

#[test]
fn all_data_is_present_after_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    check(&store);
    store.close().unwrap();
    check(&open(dir.path()));
}

#[test]
fn all_data_is_present_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let killed = copy_of_running(dir.path());
    check(&open(killed.path()));
    // Closes the recovered store, kills it again and repeats the check.
    check(&open(killed.path()));
    drop(store);
}

#[test]
fn all_data_is_present_after_many_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { log_bytes_max: 10_000, ..crate::support::options() };
    let store = EmbeddedStore::open(dir.path(), true, options.clone()).unwrap();
    block_on(store.create_pool("p")).unwrap();
    let pool = pool(&store);
    for round in 0..300 {
        let name = format!("{}", round % 40);
        block_on(pool.write_full(&id(&name), noise(round, 3_000 + 700 * (round as usize % 13)))).unwrap();
    }
    let killed = copy_of_running(dir.path());
    for (store, _keep) in
        [(store, None), (EmbeddedStore::open(killed.path(), false, options).unwrap(), Some(killed))]
    {
        let pool = crate::support::pool(&store);
        for name in 0..40_u64 {
            let round = 260 + (name + 20) % 40;
            assert_eq!(round % 40, name);
            let expected = noise(round, 3_000 + 700 * (round as usize % 13));
            assert!(read_all(pool.as_ref(), &name.to_string()).unwrap() == expected, "object {name}");
        }
        assert_eq!(block_on(store.fsck()).unwrap().findings, []);
        store.close().unwrap();
    }
}

#[test]
fn versions_grow_over_removal_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (store, first) = with_pool(dir.path());
    let before = block_on(first.write_full(&id("o"), "1")).unwrap().version;
    block_on(first.remove(&id("o"))).unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    let after = block_on(pool(&store).write_full(&id("o"), "2")).unwrap().version;
    assert!(after > before + 1, "{before} {after}");
}

#[test]
fn buffered_writes_are_durable_after_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    for round in 0..100_u64 {
        let op = WriteOp::new().write_full(noise(round, 10_000 * (round as usize % 20))).buffered();
        block_on(pool.write(&id(&round.to_string()), op)).unwrap();
    }
    block_on(store.flush()).unwrap();
    let killed = copy_of_running(dir.path());
    let recovered = open(killed.path());
    let pool = crate::support::pool(&recovered);
    for round in 0..100_u64 {
        let data = read_all(pool.as_ref(), &round.to_string()).unwrap();
        assert!(data == noise(round, 10_000 * (round as usize % 20)), "{round}");
    }
}

#[test]
fn a_half_created_store_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    std::fs::remove_file(dir.path().join("format")).unwrap();
    let (store, _) = with_pool(dir.path());
    assert_eq!(block_on(store.list_pools()).unwrap(), ["p"]);
}

#[test]
fn a_store_can_be_opened_and_closed_a_thousand_times() {
    let dir = tempfile::tempdir().unwrap();
    with_pool(dir.path()).0.close().unwrap();
    for round in 0..1_000_u64 {
        let store = open(dir.path());
        let op = WriteOp::new().write_full(noise(round, 3_000)).omap_set([(format!("{round}"), "x")]);
        block_on(pool(&store).write(&id("o"), op)).unwrap();
        store.close().unwrap();
    }
    let store = open(dir.path());
    assert!(read_all(pool(&store).as_ref(), "o").unwrap() == noise(999, 3_000));
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
}

#[test]
fn a_flip_in_the_last_write_before_a_close_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("o"), "the last words")).unwrap();
    store.close().unwrap();
    let log = std::fs::read_dir(dir.path().join("log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(14).position(|window| window == b"the last words").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    match EmbeddedStore::open(dir.path(), false, crate::support::options()) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
        Ok(_) => panic!("the store opened without the acknowledged write"),
    }
}
