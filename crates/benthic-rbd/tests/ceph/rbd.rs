//! `rbd` and Benthic see the same images.

use crate::geometries::{KIB, small, striped};
use crate::support::{OwnPool, with_pool};
use benthic_block::{Change, CreateOptions, Image, Limits, OpenMode};
use benthic_core::{
    ClassCall, Durability, ErrorKind, ListRequest, Namespaces, ObjectId, ReadOp, ReadOutput, Store,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn rbd_shows_what_benthic_creates() {
    with_pool("shows", |pool| async move {
        for (name, options) in [("plain", small(1024 * KIB)), ("striped", striped(1024 * KIB))] {
            pool.images.create(name, options).await.unwrap();
            let image = pool.images.open(name, None, OpenMode::Write).await.unwrap();
            image.write(100 * KIB, vec![7; 300_000].into(), Durability::Buffered).await.unwrap();
            image.create_snapshot("s").await.unwrap();
            image.close().await.unwrap();
        }
        let limits = Limits { read_ops_per_s: Some(500), burst_s: Some(3), ..Limits::default() };
        pool.images.set_limits("plain", limits).await.unwrap();
        let metadata = pool.rbd(&["image-meta", "get", "plain", "benthic.limits"]);
        assert_eq!(metadata, "read_ops_per_s=500 burst_s=3\n");
        pool.rbd(&["image-meta", "set", "plain", "benthic.limits", "speed=9"]);
        let plain = pool.images.open("plain", None, OpenMode::ReadOnly).await.unwrap();
        assert_eq!(plain.limits().await.unwrap_err().kind(), ErrorKind::Corrupt);
        pool.images.set_limits("plain", limits).await.unwrap();
        assert_eq!(plain.limits().await.unwrap(), limits);
        pool.images.clone_snapshot("plain", "s", "clone").await.unwrap();
        assert_eq!(pool.rbd(&["ls"]), "clone\nplain\nstriped\n");
        let info = pool.rbd(&["info", "striped"]);
        for line in [
            "size 1 MiB in 9 objects",
            "stripe unit: 4 KiB",
            "stripe count: 3",
            "exclusive-lock",
            "fast-diff",
        ] {
            assert!(info.contains(line), "{info}");
        }
        assert!(pool.rbd(&["info", "clone"]).contains(&format!("parent: {}/plain@s", pool.name)));
        assert_eq!(pool.rbd(&["children", "plain@s"]), format!("{}/clone\n", pool.name));
        let other = OwnPool::new("shows-clones").await;
        let missing = pool.images.clone_to_pool("plain", "s", "no-such-pool", "far").await;
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
        pool.images.clone_to_pool("plain", "s", &other.name, "far").await.unwrap();
        let far = other.images.open("far", None, OpenMode::Write).await.unwrap();
        assert_eq!(far.info().parent, Some(format!("{}/plain@s", pool.name)));
        assert_eq!(far.limits().await.unwrap(), Limits::default());
        assert_eq!(far.read(100 * KIB, 300_000).await.unwrap(), vec![7; 300_000]);
        let removal = Change::RemoveSnapshot { name: "s".to_owned() };
        assert_eq!(pool.images.change("plain", removal).await.unwrap_err().kind(), ErrorKind::Conflict);
        far.flatten().await.unwrap();
        assert_eq!(far.info().parent, None);
        far.close().await.unwrap();
        drop(far);
        other.remove().await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image");
        for image in ["plain@s", "striped", "clone"] {
            pool.rbd(&["export", image, file.to_str().unwrap()]);
            let exported = std::fs::read(&file).unwrap();
            assert_eq!(exported.len() as u64, 1024 * KIB);
            let data = 100 * KIB as usize..100 * KIB as usize + 300_000;
            assert!(exported[data.clone()].iter().all(|byte| *byte == 7), "{image}");
            assert!(
                exported[..data.start].iter().chain(&exported[data.end..]).all(|byte| *byte == 0),
                "{image}"
            );
            std::fs::remove_file(&file).unwrap();
        }
        // The object map knows every object that has data.
        pool.rbd(&["object-map", "check", "plain"]);
        assert!(!pool.rbd(&["info", "plain"]).contains("object map invalid"));
        pool
    });
}

#[test]
fn benthic_shows_what_rbd_creates_and_changes() {
    with_pool("changes", |pool| async move {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image");
        std::fs::write(&file, vec![5; 300_000]).unwrap();
        pool.rbd(&["import", file.to_str().unwrap(), "i", "--object-size", "128K"]);
        let image = pool.images.open("i", None, OpenMode::Write).await.unwrap();
        assert_eq!(image.info().size_bytes, 300_000);
        assert_eq!(image.info().geometry.object_bytes, 128 * KIB);
        assert_eq!(image.read(299_990, 10).await.unwrap(), vec![5; 10]);
        // rbd sends its changes to the program that has the lock.
        pool.rbd(&["snap", "create", "i@theirs"]);
        image.write(0, "x".into(), Durability::Buffered).await.unwrap();
        pool.images.change("i", Change::CreateSnapshot { name: "ours".to_owned() }).await.unwrap();
        pool.rbd(&["resize", "i", "--size", "1M"]);
        let names: Vec<_> = image.snapshots().await.unwrap().into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["theirs", "ours"]);
        assert!(pool.rbd(&["snap", "ls", "i"]).contains("ours"));
        let theirs = pool.images.open("i", Some("theirs"), OpenMode::ReadOnly).await.unwrap();
        assert_eq!(theirs.read(0, 2).await.unwrap(), vec![5; 2]);
        pool.rbd(&["snap", "protect", "i@theirs"]);
        let refused = image.remove_snapshot("theirs").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("unprotect"), "{refused}");
        pool.rbd(&["snap", "unprotect", "i@theirs"]);
        pool.rbd(&["snap", "rm", "i@theirs"]);
        assert_eq!(image.snapshots().await.unwrap().len(), 1);
        image.close().await.unwrap();
        pool
    });
}

#[test]
fn a_repair_rebuilds_an_object_map() {
    with_pool("check", |pool| async move {
        pool.images.create("i", small(1024 * KIB)).await.unwrap();
        let info = pool.rbd(&["info", "i"]);
        let id = info.lines().find_map(|line| line.trim().strip_prefix("id: ")).unwrap();
        let map = ObjectId::new(format!("rbd_object_map.{id}")).unwrap();
        pool.store.open_pool(&pool.name).await.unwrap().remove(&map).await.unwrap();
        let image = pool.images.open("i", None, OpenMode::Write).await.unwrap();
        image.write(100 * KIB, vec![7; 300_000].into(), Durability::Buffered).await.unwrap();
        for (repair, found) in [(false, 1), (true, 1), (false, 0)] {
            let check = image.check(repair).await.unwrap();
            assert_eq!((check.damage_count, check.repairable_count), (0, found), "{check:?}");
        }
        image.close().await.unwrap();
        assert!(!pool.rbd(&["info", "i"]).contains("invalid"));
        pool.rbd(&["object-map", "check", "i"]);
        pool
    });
}

#[test]
fn rbd_shows_the_trash_the_groups_and_protection() {
    with_pool("sets", |pool| async move {
        for name in ["a", "b", "old"] {
            pool.images.create(name, small(1024 * KIB)).await.unwrap();
        }
        pool.images.move_to_trash("old", Duration::from_secs(3_600)).await.unwrap();
        let trash = pool.rbd(&["trash", "ls"]);
        let id = &pool.images.trash().await.unwrap()[0].id;
        assert_eq!(trash, format!("{id} old\n"));
        pool.rbd(&["trash", "restore", id]);
        assert!(pool.images.trash().await.unwrap().is_empty());

        let groups = pool.images.groups();
        groups.create("g").await.unwrap();
        for name in ["a", "b"] {
            groups.add_image("g", name).await.unwrap();
        }
        groups.create_snapshot("g", "ours").await.unwrap();
        pool.rbd(&["group", "snap", "create", "g@theirs"]);
        assert_eq!(groups.snapshots("g").await.unwrap(), ["ours", "theirs"]);
        assert!(pool.rbd(&["group", "image", "list", "g"]).contains("/a"));
        assert!(pool.rbd(&["group", "snap", "list", "g"]).contains("ours"));
        // A rollback would change an image under its writer.
        let image = pool.images.open("a", None, OpenMode::Write).await.unwrap();
        let refused = pool.other_program().await.groups().roll_back("g", "ours").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
        image.write(0, vec![7; 4096].into(), Durability::Durable).await.unwrap();
        image.create_snapshot("s").await.unwrap();
        image.protect_snapshot("s", true).await.unwrap();
        image.close().await.unwrap();
        assert_eq!(groups.snapshots("g").await.unwrap(), ["ours", "theirs"]);
        assert!(
            pool.rbd(&["snap", "ls", "a"]).lines().any(|line| line.contains(" s ") && line.contains("yes"))
        );
        pool.rbd(&["snap", "unprotect", "a@s"]);
        for snapshot in ["ours", "theirs"] {
            groups.remove_snapshot("g", snapshot).await.unwrap();
        }
        groups.remove("g").await.unwrap();
        assert_eq!(pool.rbd(&["group", "list"]), "");
        pool
    });
}

/// Writes numbers, always first to one image and then to the other, until `stop` is set.
async fn count_up(first: Arc<dyn Image>, second: Arc<dyn Image>, stop: Arc<AtomicBool>) -> u64 {
    let mut number = 0_u64;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        for image in [&first, &second] {
            image.write(0, vec![number as u8; 512].into(), Durability::Buffered).await.unwrap();
            image.write(512, number.to_le_bytes().to_vec().into(), Durability::Buffered).await.unwrap();
        }
    }
    number
}

async fn number(image: &dyn Image) -> u64 {
    u64::from_le_bytes(image.read(512, 8).await.unwrap()[..].try_into().unwrap())
}

#[test]
fn a_group_snapshot_of_open_images_is_of_one_moment() {
    with_pool("group-open", |pool| async move {
        let groups = pool.images.groups();
        groups.create("g").await.unwrap();
        for name in ["a", "b", "closed"] {
            pool.images.create(name, small(1024 * KIB)).await.unwrap();
            groups.add_image("g", name).await.unwrap();
        }
        // The writers of the two images are different programs.
        let first = pool.images.open("a", None, OpenMode::Write).await.unwrap();
        let second = pool.other_program().await.open("b", None, OpenMode::Write).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(count_up(Arc::clone(&first), Arc::clone(&second), Arc::clone(&stop)));
        // A snapshot of a single image of the group takes no lock, and neither does its own
        // program's.
        pool.rbd(&["snap", "create", "a@alone"]);
        pool.other_program().await.groups().create_snapshot("g", "ours").await.unwrap();
        first.create_snapshot("own").await.unwrap();
        pool.rbd(&["group", "snap", "create", "g@theirs"]);
        // The images are still locked, and still written.
        let before = number(&*first).await;
        let busy = pool.other_program().await.open("a", None, OpenMode::Write).await.err().unwrap();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        pool.rbd(&["snap", "create", "a@again"]);
        stop.store(true, Ordering::SeqCst);
        let written = writer.await.unwrap();
        assert!(written > before, "{written} {before}");
        assert_eq!((number(&*first).await, number(&*second).await), (written, written));
        for image in [&first, &second] {
            image.close().await.unwrap();
        }

        let mut last = written;
        for snapshot in ["theirs", "ours"] {
            groups.roll_back("g", snapshot).await.unwrap();
            let mut numbers = Vec::new();
            for name in ["a", "b"] {
                let image = pool.images.open(name, None, OpenMode::ReadOnly).await.unwrap();
                numbers.push(number(&*image).await);
            }
            assert!(numbers[0] - numbers[1] <= 1 && numbers[0] < last, "{snapshot}: {numbers:?} {last}");
            last = numbers[0];
            groups.remove_snapshot("g", snapshot).await.unwrap();
        }
        assert!(last > 0);
        pool
    });
}

/// Stores the record that a program leaves which is killed while it takes a snapshot of the group.
async fn leave_incomplete_snapshot(pool: &OwnPool, group: &str) {
    let objects = pool.store.open_pool(&pool.name).await.unwrap();
    let directory = ObjectId::new("rbd_group_directory").unwrap();
    let found = objects.read(&directory, ReadOp::new().omap_get([format!("name_{group}")])).await.unwrap();
    let ReadOutput::Omap(page) = &found.outputs[0] else { panic!("{found:?}") };
    // A string after its length.
    let id = String::from_utf8(page.entries[0].1[4..].to_vec()).unwrap();
    let header = ObjectId::new(format!("rbd_group_header.{id}")).unwrap();
    let text = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    // Id, name, state, and no images.
    let record = [text("left"), text("left"), vec![0; 5]].concat();
    let input = [&[1, 1][..], &(record.len() as u32).to_le_bytes(), &record].concat();
    objects.exec(&header, ClassCall::new("rbd", "group_snap_set", input)).await.unwrap();
}

#[test]
fn a_killed_group_snapshot_does_not_prevent_others() {
    with_pool("group-killed", |pool| async move {
        let groups = pool.images.groups();
        groups.create("g").await.unwrap();
        pool.images.create("i", small(1024 * KIB)).await.unwrap();
        groups.add_image("g", "i").await.unwrap();
        leave_incomplete_snapshot(&pool, "g").await;
        let image = pool.images.open("i", None, OpenMode::Write).await.unwrap();
        pool.rbd(&["group", "snap", "create", "g@next"]);
        pool.rbd(&["snap", "create", "i@alone"]);
        image.write(0, "data".into(), Durability::Durable).await.unwrap();
        let refused = groups.roll_back("g", "left").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        pool.rbd(&["group", "snap", "rm", "g@left"]);
        pool.rbd(&["snap", "create", "i@again"]);
        let names: Vec<_> = image.snapshots().await.unwrap().into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["alone", "again"]);
        image.close().await.unwrap();
        pool
    });
}

#[test]
fn namespaces_are_shown() {
    with_pool("namespaces", |pool| async move {
        assert_eq!(pool.images.namespaces().await.unwrap(), Vec::<String>::new());
        for name in ["one", "two"] {
            pool.rbd(&["namespace", "create", "--namespace", name]);
        }
        assert_eq!(pool.images.namespaces().await.unwrap(), ["one", "two"]);
        pool
    });
}

#[test]
fn data_can_be_in_another_pool() {
    with_pool("data-pool", |pool| async move {
        let data = format!("{}.data", pool.name);
        pool.store.create_pool(&data).await.unwrap();
        let options = CreateOptions { data_pool: Some(data.clone()), ..small(1024 * KIB) };
        pool.images.create("i", options).await.unwrap();
        assert!(pool.rbd(&["info", "i"]).contains(&format!("data_pool: {data}")));
        let image = pool.images.open("i", None, OpenMode::Write).await.unwrap();
        assert!(image.info().features.contains(&"data-pool".to_owned()));
        image.write(0, vec![7; 4096].into(), Durability::Durable).await.unwrap();
        image.close().await.unwrap();
        let objects = pool.store.open_pool(&data).await.unwrap();
        let request = ListRequest {
            namespaces: Namespaces::One(String::new()),
            prefix: "rbd_data.".to_owned(),
            after: None,
            objects_max: 10,
        };
        assert_eq!(objects.list(request).await.unwrap().objects.len(), 1);
        let missing = CreateOptions { data_pool: Some("none".to_owned()), ..small(1024 * KIB) };
        let refused = pool.images.create("j", missing).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        pool.images.remove("i").await.unwrap();
        pool.store.remove_pool(&data).await.unwrap();
        pool
    });
}
