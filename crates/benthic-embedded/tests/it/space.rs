//! The store reclaims space, and does not reuse freed extents too early.

use crate::support::{block_on, id, noise, with_pool};
use benthic_core::{ErrorKind, Fetch, OmapPage, Store, WriteOp};
use benthic_testkit::wait;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

fn disk_bytes(store: &benthic_embedded::EmbeddedStore) -> u64 {
    block_on(store.fsck()).unwrap().disk_bytes
}

#[test]
fn removed_objects_give_their_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    for round in 0..16 {
        block_on(pool.write_full(&id(&round.to_string()), noise(round, 4 << 20))).unwrap();
    }
    assert!(disk_bytes(&store) >= 64 << 20);
    for round in 0..16 {
        block_on(pool.remove(&id(&round.to_string()))).unwrap();
    }
    wait::until("the space of removed objects", || disk_bytes(&store) < 4 << 20);
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
}

#[test]
fn a_removed_pool_gives_its_space_and_keys_back() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    for round in 0..250 {
        let entries = (0..20).map(|key| (format!("{key}"), "value"));
        let op =
            WriteOp::new().write_full(noise(round, 100_000)).set_xattr("a", "b").omap_set(entries).buffered();
        block_on(pool.write(&id(&round.to_string()), op)).unwrap();
    }
    block_on(store.remove_pool("p")).unwrap();
    wait::until("the space of a removed pool", || disk_bytes(&store) < 4 << 20);
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
}

#[test]
fn overwriting_reuses_space() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    for round in 0..40 {
        block_on(pool.write_full(&id("o"), noise(round, 4 << 20))).unwrap();
    }
    wait::until("the space of overwritten data", || disk_bytes(&store) < 12 << 20);
}

#[test]
fn a_large_omap_can_be_cleared_and_filled_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    for page in 0..5 {
        let entries = (0..1_000).map(|key| (format!("{page}/{key}"), "value"));
        block_on(pool.write(&id("o"), WriteOp::new().omap_set(entries))).unwrap();
    }
    block_on(pool.write(&id("o"), WriteOp::new().omap_clear().omap_set([("new", "value")]))).unwrap();
    let (page, _) = block_on(pool.fetch(&id("o"), Fetch::omap_range(None, "", 100))).unwrap();
    assert_eq!(page, OmapPage { entries: vec![("new".into(), "value".into())], more: false });
    block_on(pool.remove(&id("o"))).unwrap();
    assert_eq!(block_on(pool.stat(&id("o"))).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
}

#[test]
fn a_store_closes_and_opens_while_the_cleaner_is_busy() {
    for _ in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, pool) = with_pool(dir.path());
        for round in 0..1_500 {
            let op = WriteOp::new()
                .write_full(noise(round, 5_000))
                .set_xattr("a", "b")
                .omap_set([("k", "v")])
                .buffered();
            block_on(pool.write(&id(&round.to_string()), op)).unwrap();
        }
        block_on(store.remove_pool("p")).unwrap();
        // Each close interrupts the cleaner, until it has no work left.
        for _ in 0..12 {
            store.close().unwrap();
            store = crate::support::open(dir.path());
            assert_eq!(block_on(store.fsck()).unwrap().findings, []);
        }
        wait::until("the space of a removed pool", || disk_bytes(&store) < 4 << 20);
    }
}

#[test]
fn space_that_was_freed_just_before_a_kill_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("o"), noise(1, 32 << 20))).unwrap();
    let before = crate::support::copy_of_running(dir.path());
    block_on(pool.remove(&id("o"))).unwrap();
    // In the log the object is removed, but the data file still contains it.
    let killed = crate::support::copy_of_running(dir.path());
    std::fs::copy(before.path().join("data"), killed.path().join("data")).unwrap();
    drop(store);
    let store = crate::support::open(killed.path());
    assert!(disk_bytes(&store) < 4 << 20, "{}", disk_bytes(&store));
}

#[test]
fn small_objects_give_their_space_back_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    let count = 1_009;
    for round in 0..count {
        let op = WriteOp::new().write_full(noise(round, 20_000)).buffered();
        block_on(pool.write(&id(&round.to_string()), op)).unwrap();
    }
    block_on(store.flush()).unwrap();
    assert!(disk_bytes(&store) >= 20 << 20);
    // Never removes two adjacent objects in one batch.
    for round in 0..count {
        block_on(pool.write(&id(&(round * 401 % count).to_string()), WriteOp::new().remove().buffered()))
            .unwrap();
        if round % 100 == 99 {
            wait::pause(std::time::Duration::from_millis(10));
        }
    }
    wait::until("the space of small objects", || disk_bytes(&store) < 6 << 20);
}

#[test]
fn an_idle_store_occupies_little_more_than_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    let live_bytes: u64 = 16 << 20;
    // Interleaves the blocks of many objects. Every second object is then removed.
    for part in 0..live_bytes / 4_096 / 8 {
        for object in 0..16 {
            let op = WriteOp::new().write(part * 4_096, noise(part, 4_096)).buffered();
            block_on(pool.write(&id(&object.to_string()), op)).unwrap();
        }
    }
    for object in (0..16).step_by(2) {
        block_on(pool.remove(&id(&object.to_string()))).unwrap();
    }
    wait::until("the space of an idle store", || disk_bytes(&store) < live_bytes + (5 << 20));
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
    for object in (1..16).step_by(2) {
        let data = block_on(pool.read_range(&id(&object.to_string()), 4_096, 4_096)).unwrap();
        assert!(data == noise(1, 4_096));
    }
}

/// The check sees only whole operations, including buffered ones.
#[test]
fn fsck_during_writes_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    let stop = AtomicBool::new(false);
    let write = &|thread: usize| {
        for round in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let object = id(&format!("{thread} {}", round % 5));
            let keys = (0..200).map(|key| (format!("{key}"), "value"));
            let op = match round % 3 {
                0 => WriteOp::new().write_full(noise(round, 9_000)).omap_set(keys),
                1 => WriteOp::new().write(4_096, noise(round, 4_096)).omap_clear().set_xattr("x", "y"),
                _ => WriteOp::new().remove(),
            };
            // The object may be missing already.
            let _ = block_on(pool.write(&object, op.buffered()));
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|thread| drop(scope.spawn(move || write(thread))));
        let findings: Vec<_> = (0..150).flat_map(|_| block_on(store.fsck()).unwrap().findings).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(findings, []);
    });
}

#[test]
fn a_scrub_skips_holes_and_verifies_the_data_between_them() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, pool) = with_pool(dir.path());
    let (mib, last) = (1 << 20, noise(3, 4_096));
    // In the first MiB of the object, on the border of two others, and in the last one.
    let op = WriteOp::new()
        .write(0, noise(1, 4_096))
        .write(3 * mib - 2_048, noise(2, 4_096))
        .write(128 * mib - 4_096, last.clone());
    block_on(pool.write(&id("sparse"), op)).unwrap();
    let page = block_on(pool.scrub(None)).unwrap();
    assert_eq!((page.objects, page.bytes, page.damage), (1, 4 * mib, Vec::new()));

    let file = std::fs::OpenOptions::new().read(true).write(true).open(dir.path().join("data")).unwrap();
    let stored = std::fs::read(dir.path().join("data")).unwrap();
    let block = stored.chunks(4_096).position(|block| block == last).unwrap();
    file.write_all_at(&[!last[0]], block as u64 * 4_096).unwrap();
    let damage = block_on(pool.scrub(None)).unwrap().damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!((&damage[0].object, damage[0].offset_bytes), (&Some(id("sparse")), Some(128 * mib - 4_096)));
}
