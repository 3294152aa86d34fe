//! Stored headers, maps and lists of blocks that lie. Any bytes may be there; nothing may panic,
//! hang or take much memory.

use super::{KIB, options, run, small};
use benthic_block::pool::PoolImages;
use benthic_block::{Image, Images, OpenMode, Zeroes};
use benthic_core::{
    Durability, Environment, ErrorKind, Fetch, ListRequest, Namespaces, ObjectId, Pool, Result, Store,
    WriteOp, names,
};
use benthic_embedded::MemStore;
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use std::sync::Arc;
use std::time::Duration;

/// An image with two snapshots, and a clone that was written to.
async fn images(store: &Arc<dyn Store>) -> PoolImages {
    store.create_pool("disks").await.unwrap();
    let pool = store.open_pool("disks").await.unwrap();
    let images = PoolImages::new(Arc::clone(store), pool, Environment::default());
    images.create("parent", small(600 * KIB)).await.unwrap();
    let parent = images.open("parent", None, OpenMode::Write).await.unwrap();
    for name in ["s1", "s2"] {
        parent.write(100, vec![1; 300_000].into(), Durability::Buffered).await.unwrap();
        parent.create_snapshot(name).await.unwrap();
        parent.write(5_000, vec![2; 10].into(), Durability::Buffered).await.unwrap();
    }
    parent.close().await.unwrap();
    images.clone_snapshot("parent", "s2", "child").await.unwrap();
    let child = images.open("child", None, OpenMode::Write).await.unwrap();
    child.write(50_000, vec![3; 10].into(), Durability::Buffered).await.unwrap();
    child.close().await.unwrap();
    images
}

/// Changes one object of the images: its data, or one of its attributes or omap values.
async fn damage(pool: &dyn Pool, rng: &mut Rng) {
    let request =
        ListRequest { namespaces: Namespaces::One(names::IMAGES_NAMESPACE.to_owned()), ..Default::default() };
    let objects = pool.list(request).await.unwrap().objects;
    let object: &ObjectId = &objects[rng.below(objects.len())];
    let blocks = pool.get_xattr(object, "blocks").await.ok();
    let op = match (blocks, rng.below(8)) {
        (Some(blocks), 0..=4) => WriteOp::new().set_xattr("blocks", change(&blocks, rng)),
        (_, 5) => WriteOp::new().remove(),
        (_, 6) => WriteOp::new().set_xattr("generation", change(&[0; 8], rng)),
        _ => {
            let data = pool.read_range(object, 0, 1 << 20).await.unwrap();
            WriteOp::new().write_full(change(&data, rng))
        }
    };
    pool.write(object, op).await.unwrap();
}

/// Bytes with one change: a byte of the first ones, which say the most, or the length.
fn change(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    match rng.below(8) {
        0 => changed.truncate(rng.below(bytes.len() + 1)),
        1 => changed.extend(rng.bytes(9)),
        2 => changed = rng.bytes(bytes.len().min(200)),
        _ if changed.is_empty() => changed.push(1),
        _ => {
            let at = rng.below(changed.len().min(300));
            changed[at] = [0, 1, 0x7f, 0xff, changed[at] ^ 1][rng.below(5)];
        }
    }
    changed
}

async fn use_all(images: &PoolImages) -> Result<()> {
    for name in images.list().await? {
        for snapshot in [None, Some("s1"), Some("s2")] {
            if let Ok(image) = images.open(&name, snapshot, OpenMode::ReadOnly).await {
                let _ = read(&*image).await;
            }
        }
        if let Ok(image) = images.open(&name, None, OpenMode::TakeOver).await {
            let _ = read(&*image).await;
            let end = image.info().size_bytes.saturating_sub(5);
            for at in [0, 5_000, 200_000, end] {
                let _ = image.write(at, vec![4; 5].into(), Durability::Buffered).await;
                let _ = image.write_zeroes(at, 5, Zeroes::Punch, Durability::Buffered).await;
            }
            let _ = image.check(true).await;
            let _ = image.create_snapshot("s3").await;
            let _ = image.remove_snapshot("s1").await;
            let _ = image.roll_back("s2").await;
            let _ = image.resize(100_000).await;
            let _ = image.resize(700_000).await;
            let _ = read(&*image).await;
            let _ = image.close().await;
        }
        let _ = images.clone_snapshot(&name, "s2", "another").await;
        let _ = images.remove(&name).await;
    }
    Ok(())
}

async fn read(image: &dyn Image) -> Result<()> {
    let size_bytes = image.info().size_bytes;
    // A damaged size may be large.
    for at in [0, size_bytes.saturating_sub(600 * KIB)] {
        let len_bytes = (size_bytes - at).min(600 * KIB);
        let _ = image.read(at, len_bytes).await;
        let _ = image.extents(at, len_bytes, Some("s1")).await;
    }
    Ok(())
}

#[test]
fn a_check_tells_damage_from_leftovers() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let images = images(&store).await;
        let pool = store.open_pool("disks").await.unwrap();
        let parent = images.open("parent", None, OpenMode::Write).await.unwrap();
        let request = ListRequest {
            namespaces: Namespaces::One(names::IMAGES_NAMESPACE.to_owned()),
            ..Default::default()
        };
        let stored = pool.list(request).await.unwrap().objects;
        let check = parent.check(false).await.unwrap();
        assert_eq!((check.damage, check.repairable), (Vec::new(), Vec::new()));
        let id = parent_id(&*pool, &images).await;
        let in_namespace = |name: String| ObjectId::in_namespace(names::IMAGES_NAMESPACE, name).unwrap();
        let leftovers =
            [format!("data.{id}.00000000.7fffffff"), format!("map.{id}.7fffffff.00000000")].map(in_namespace);
        for leftover in &leftovers {
            pool.write(leftover, WriteOp::new().write_full(b"left".to_vec())).await.unwrap();
        }
        let all = read_whole(&*parent).await;
        for (repair, found) in [(false, 2), (true, 2), (false, 0)] {
            let check = parent.check(repair).await.unwrap();
            assert_eq!((check.damage, check.repairable_count), (Vec::new(), found));
        }
        assert_eq!(read_whole(&*parent).await, all);
        // Everything else is needed: each data object, and each snapshot's map.
        let own = |object: &&ObjectId| {
            let name = object.name();
            name.starts_with(&format!("data.{id}.")) || name.starts_with(&format!("map.{id}."))
        };
        let (mut damaged, mut lists) = (0, 0);
        for object in stored.iter().filter(own) {
            let bytes = pool.read_range(object, 0, 1 << 20).await.unwrap();
            let xattrs = pool.fetch(object, benthic_core::Fetch::list_xattrs()).await.unwrap().0;
            pool.remove(object).await.unwrap();
            let check = parent.check(true).await.unwrap();
            let is_head = check.damage.is_empty();
            // The open image has the map of its head in memory.
            assert!(!is_head || object.name().starts_with("map."), "{object} is not missed");
            damaged += u32::from(!is_head);
            let restore = xattrs
                .into_iter()
                .fold(WriteOp::new().write_full(bytes), |op, (name, value)| op.set_xattr(name, value));
            pool.write(object, restore).await.unwrap();
            assert_eq!(parent.check(true).await.unwrap().damage, Vec::new());
            assert_eq!(read_whole(&*parent).await, all);
        }
        assert!(damaged >= 5, "{damaged}");
        parent.close().await.unwrap();
        // A list of blocks that cannot be read hides which older objects are needed.
        for object in stored.iter().filter(own) {
            let Ok(blocks) = pool.get_xattr(object, "blocks").await else { continue };
            pool.write(object, WriteOp::new().set_xattr("blocks", "?")).await.unwrap();
            let parent = images.open("parent", None, OpenMode::Write).await.unwrap();
            pool.write(&leftovers[0], WriteOp::new().write_full(b"left".to_vec())).await.unwrap();
            assert!(parent.check(true).await.unwrap().damage_count > 0, "{object}");
            assert!(pool.stat(&leftovers[0]).await.is_ok(), "a repair has removed what may be needed");
            pool.write(object, WriteOp::new().set_xattr("blocks", blocks)).await.unwrap();
            assert_eq!(parent.check(true).await.unwrap().damage, Vec::new());
            assert_eq!(read_whole(&*parent).await, all);
            parent.close().await.unwrap();
            lists += 1;
        }
        assert!(lists > 0);
    });
}

async fn parent_id(pool: &dyn Pool, images: &PoolImages) -> String {
    let names = ObjectId::in_namespace(names::IMAGES_NAMESPACE, "names").unwrap();
    assert!(images.list().await.unwrap().contains(&"parent".to_owned()));
    let (page, _) = pool.fetch(&names, benthic_core::Fetch::omap_get(["parent"])).await.unwrap();
    let id: [u8; 8] = page.entries[0].1[..].try_into().unwrap();
    format!("{:016x}", u64::from_le_bytes(id))
}

/// The bytes of the image.
async fn read_whole(image: &dyn Image) -> bytes::Bytes {
    image.read(0, image.info().size_bytes).await.unwrap()
}

#[test]
fn damaged_images_are_refused_or_used_without_harm() {
    let cases = if seed::is_long() { 20_000 } else { 400 };
    for seed in seed::many(cases) {
        let mut rng = Rng(seed);
        run(async {
            let store: Arc<dyn Store> = MemStore::new(options());
            let images = images(&store).await;
            let pool = store.open_pool("disks").await.unwrap();
            for _ in 0..=rng.below(3) {
                damage(&*pool, &mut rng).await;
            }
            let used = tokio::time::timeout(Duration::from_secs(60), use_all(&images)).await;
            assert!(used.is_ok(), "BENTHIC_TEST_SEED={seed} hangs");
        });
    }
}

/// Any bytes may be under the keys of the trash and of groups.
#[test]
fn damaged_trash_and_groups_are_corrupt() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let images = images(&store).await;
        images.groups().create("g").await.unwrap();
        images.create("i", small(1_000)).await.unwrap();
        images.groups().add_image("g", "i").await.unwrap();
        images.groups().create_snapshot("g", "s").await.unwrap();
        images.create("trashed", small(1_000)).await.unwrap();
        images.move_to_trash("trashed", Duration::ZERO).await.unwrap();
        let pool = store.open_pool("disks").await.unwrap();
        let object = ObjectId::in_namespace(names::IMAGES_NAMESPACE, "names").unwrap();
        let (stored, _) = pool.fetch(&object, Fetch::omap_range(None, "/", 100)).await.unwrap();
        assert_eq!(stored.entries.len(), 3);
        let mut rng = Rng(seed::many(1).next().unwrap());
        for round in 0..300 {
            for (key, value) in &stored.entries {
                let op = WriteOp::new().omap_set([(key.clone(), change(value, &mut rng))]);
                pool.write(&object, op).await.unwrap();
            }
            let may_fail = |outcome: Result<()>| {
                if let Err(error) = outcome {
                    let known = [ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::Conflict];
                    assert!(known.contains(&error.kind()), "round {round}: {error:?}");
                }
            };
            may_fail(images.trash().await.map(|_| ()));
            may_fail(images.groups().images("g").await.map(|_| ()));
            may_fail(images.groups().snapshots("g").await.map(|_| ()));
            may_fail(images.groups().roll_back("g", "s").await);
            may_fail(images.remove("i").await);
            for name in images.list().await.unwrap() {
                assert!(["child", "i", "parent"].contains(&&name[..]), "{name}");
            }
        }
    });
}
