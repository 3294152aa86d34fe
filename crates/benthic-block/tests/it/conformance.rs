//! The contract of images. Every implementation runs all cases.

#[path = "conformance/groups.rs"]
mod groups;
#[path = "conformance/trash.rs"]
mod trash;

pub use groups::{
    a_group_is_rolled_back_as_a_whole, a_group_snapshot_is_of_all_images, a_grouped_image_is_not_removed,
    groups_have_images,
};
pub use trash::{
    a_protected_snapshot_stays, an_image_in_the_trash_comes_back, an_open_image_stays_out_of_the_trash,
    the_trash_is_purged,
};

use crate::geometries::{KIB, small, striped};
use benthic_block::{
    Change, CreateOptions, Extent, ExtentKind, Geometry, Image, Images, Limits, OpenMode, Zeroes,
};
use benthic_core::{Durability, ErrorKind, Result};
use bytes::Bytes;
use std::sync::Arc;

/// Makes a test of every case. `$with` runs a case with the images of one implementation.
macro_rules! conformance {
    ($with:path) => {
        $crate::conformance::conformance! { $with =>
            a_new_image_is_zero
            what_was_written_is_read
            requests_beyond_the_end_are_refused
            zeros_replace_data
            a_large_range_is_punched
            extents_tell_data_from_holes
            images_are_listed_renamed_and_removed
            bad_names_and_geometries_are_refused
            one_program_writes_at_a_time
            a_snapshot_keeps_its_bytes
            a_snapshot_is_read_only
            a_removed_snapshot_does_not_show_later_writes
            extents_since_a_snapshot_show_changes
            rolling_back_restores_bytes_and_size
            resizing_loses_only_what_is_behind_the_end
            a_clone_shows_its_parent_until_it_is_written
            a_clone_of_a_clone_reads_through_both
            a_snapshot_with_clones_cannot_be_removed
            a_flattened_clone_does_not_need_its_parent
            an_image_with_snapshots_cannot_be_removed
            many_requests_run_at_once
            a_closed_image_refuses_requests
            an_open_image_is_changed_by_its_writer
            limits_are_kept_with_the_image
            impossible_limits_are_refused
            a_check_finds_nothing_in_a_sound_image
            an_image_in_the_trash_comes_back
            the_trash_is_purged
            an_open_image_stays_out_of_the_trash
            a_protected_snapshot_stays
            groups_have_images
            a_grouped_image_is_not_removed
            a_group_snapshot_is_of_all_images
            a_group_is_rolled_back_as_a_whole
        }
    };
    ($with:path => $($case:ident)*) => {
        $(#[test] fn $case() { $with(stringify!($case), $crate::conformance::$case) })*
    };
}
pub(crate) use conformance;

async fn open(images: &dyn Images, name: &str) -> Arc<dyn Image> {
    images.open(name, None, OpenMode::Write).await.unwrap()
}

async fn create(images: &dyn Images, name: &str, size_bytes: u64) -> Arc<dyn Image> {
    images.create(name, small(size_bytes)).await.unwrap();
    open(images, name).await
}

async fn write(image: &dyn Image, offset_bytes: u64, byte: u8, len_bytes: u64) {
    let data = vec![byte; len_bytes as usize];
    image.write(offset_bytes, data.into(), Durability::Buffered).await.unwrap();
}

/// Checks that a range has one value.
async fn holds(image: &dyn Image, offset_bytes: u64, byte: u8, len_bytes: u64) {
    let read = image.read(offset_bytes, len_bytes).await.unwrap();
    assert_eq!(read.len() as u64, len_bytes);
    let wrong = read.iter().position(|found| *found != byte);
    assert_eq!(wrong, None, "offset {offset_bytes}: {} instead of {byte}", read[wrong.unwrap_or(0)]);
}

/// Waits until an image shows the size that another program gave it.
async fn has_size(image: &dyn Image, size_bytes: u64) {
    for _ in 0..100 {
        if image.info().size_bytes == size_bytes {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the size is {}, not {size_bytes}", image.info().size_bytes);
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

pub async fn a_new_image_is_zero(images: Arc<dyn Images>) {
    for (name, options) in [("plain", small(1_000_000)), ("striped", striped(1_000_000))] {
        images.create(name, options).await.unwrap();
        let image = open(&*images, name).await;
        assert_eq!(image.info().size_bytes, 1_000_000);
        assert!(image.info().address.ends_with(&format!("/{name}")));
        holds(&*image, 0, 0, 1_000_000).await;
    }
    images.create("empty", small(0)).await.unwrap();
    assert_eq!(open(&*images, "empty").await.read(0, 0).await.unwrap(), "");
}

pub async fn what_was_written_is_read(images: Arc<dyn Images>) {
    for (name, options) in [("plain", small(1_000_000)), ("striped", striped(1_000_000))] {
        images.create(name, options).await.unwrap();
        let image = open(&*images, name).await;
        let data: Bytes = (0..700_000_u32).map(|n| (n * 7 / 5) as u8).collect::<Vec<_>>().into();
        image.write(100_001, data.clone(), Durability::Buffered).await.unwrap();
        image.write(0, "first".into(), Durability::Durable).await.unwrap();
        image.write(999_999, "!".into(), Durability::Buffered).await.unwrap();
        assert_eq!(image.read(100_001, 700_000).await.unwrap(), data);
        assert_eq!(image.read(0, 6).await.unwrap(), "first\0");
        assert_eq!(image.read(999_998, 2).await.unwrap(), "\0!");
        image.write(5, Bytes::new(), Durability::Buffered).await.unwrap();
        image.flush().await.unwrap();
        image.close().await.unwrap();
        let image = open(&*images, name).await;
        assert_eq!(image.read(100_001, 700_000).await.unwrap(), data);
    }
}

pub async fn requests_beyond_the_end_are_refused(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1_000).await;
    for (offset_bytes, len_bytes) in [(1_000, 1), (999, 2), (u64::MAX, 1), (2_000, 0), (0, u64::MAX)] {
        let invalid = Some(ErrorKind::InvalidArgument);
        assert_eq!(kind(image.read(offset_bytes, len_bytes).await), invalid);
        assert_eq!(kind(image.extents(offset_bytes, len_bytes, None).await), invalid);
        for zeroes in [Zeroes::Punch, Zeroes::Allocate] {
            let written = image.write_zeroes(offset_bytes, len_bytes, zeroes, Durability::Buffered).await;
            assert_eq!(kind(written), invalid, "{offset_bytes} {len_bytes}");
        }
        let data = vec![1; len_bytes.min(2) as usize];
        assert_eq!(
            kind(image.write(offset_bytes.max(999), data.into(), Durability::Buffered).await).is_some(),
            offset_bytes > 1_000 || len_bytes > 0
        );
    }
    assert_eq!(image.read(1_000, 0).await.unwrap(), "");
    holds(&*image, 0, 0, 999).await;
}

pub async fn zeros_replace_data(images: Arc<dyn Images>) {
    for options in [small(1_000_000), striped(1_000_000)] {
        let name = format!("stripes-{}", options.geometry.stripe_count);
        images.create(&name, options).await.unwrap();
        let image = open(&*images, &name).await;
        for zeroes in [Zeroes::Punch, Zeroes::Allocate] {
            write(&*image, 0, 7, 1_000_000).await;
            image.write_zeroes(10_000, 600_000, zeroes, Durability::Buffered).await.unwrap();
            holds(&*image, 0, 7, 10_000).await;
            holds(&*image, 10_000, 0, 600_000).await;
            holds(&*image, 610_000, 7, 390_000).await;
            image.write_zeroes(900_000, 100_000, zeroes, Durability::Durable).await.unwrap();
            holds(&*image, 900_000, 0, 100_000).await;
            image.write_zeroes(0, 1_000_000, zeroes, Durability::Buffered).await.unwrap();
            holds(&*image, 0, 0, 1_000_000).await;
            write(&*image, 500_000, 3, 10).await;
            holds(&*image, 500_000, 3, 10).await;
            holds(&*image, 500_010, 0, 499_990).await;
        }
    }
}

/// Implementations may discard a large range in another way than a small one.
pub async fn a_large_range_is_punched(images: Arc<dyn Images>) {
    const MIB: u64 = 1024 * KIB;
    let size_bytes = 1024 * MIB;
    images.create("i", CreateOptions::new(size_bytes, Geometry::default())).await.unwrap();
    let image = open(&*images, "i").await;
    for at in [0, 300 * MIB, size_bytes - MIB] {
        write(&*image, at, 7, MIB).await;
    }
    image.create_snapshot("s").await.unwrap();
    images.clone_snapshot("i", "s", "clone").await.unwrap();
    for image in [image, open(&*images, "clone").await] {
        write(&*image, 500 * MIB, 7, MIB).await;
        image.write_zeroes(100, size_bytes - 200, Zeroes::Punch, Durability::Buffered).await.unwrap();
        holds(&*image, 0, 7, 100).await;
        holds(&*image, 100, 0, MIB).await;
        holds(&*image, 300 * MIB, 0, MIB).await;
        holds(&*image, 500 * MIB, 0, MIB).await;
        holds(&*image, size_bytes - MIB, 0, MIB - 100).await;
        holds(&*image, size_bytes - 100, 7, 100).await;
        image.close().await.unwrap();
    }
}

fn extent(len_bytes: u64, kind: ExtentKind) -> Extent {
    Extent { len_bytes, kind }
}

pub async fn extents_tell_data_from_holes(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1024 * KIB).await;
    assert_eq!(image.extents(0, 1024 * KIB, None).await.unwrap(), [extent(1024 * KIB, ExtentKind::Hole)]);
    write(&*image, 128 * KIB, 1, 128 * KIB).await;
    let written = [
        extent(128 * KIB, ExtentKind::Hole),
        extent(128 * KIB, ExtentKind::Data),
        extent(768 * KIB, ExtentKind::Hole),
    ];
    assert_eq!(image.extents(0, 1024 * KIB, None).await.unwrap(), written);
    let part = image.extents(100 * KIB, 50 * KIB, None).await.unwrap();
    assert_eq!(part, [extent(28 * KIB, ExtentKind::Hole), extent(22 * KIB, ExtentKind::Data)]);
    image.write_zeroes(0, 1024 * KIB, Zeroes::Punch, Durability::Buffered).await.unwrap();
    assert_eq!(image.extents(0, 1024 * KIB, None).await.unwrap(), [extent(1024 * KIB, ExtentKind::Hole)]);
}

pub async fn images_are_listed_renamed_and_removed(images: Arc<dyn Images>) {
    assert_eq!(images.list().await.unwrap(), Vec::<String>::new());
    assert_eq!(kind(images.open("b", None, OpenMode::Write).await), Some(ErrorKind::NotFound));
    assert_eq!(kind(images.remove("b").await), Some(ErrorKind::NotFound));
    for name in ["b", "a", "ü c"] {
        images.create(name, small(1_000)).await.unwrap();
    }
    assert_eq!(kind(images.create("a", small(5)).await), Some(ErrorKind::AlreadyExists));
    assert_eq!(images.list().await.unwrap(), ["a", "b", "ü c"]);
    assert_eq!(kind(images.rename("a", "b").await), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(images.rename("x", "y").await), Some(ErrorKind::NotFound));
    let image = open(&*images, "a").await;
    write(&*image, 0, 5, 10).await;
    images.rename("a", "d").await.unwrap();
    write(&*image, 10, 5, 10).await;
    assert_eq!(kind(images.remove("d").await), Some(ErrorKind::Busy));
    image.close().await.unwrap();
    holds(&*open(&*images, "d").await, 0, 5, 20).await;
    images.remove("b").await.unwrap();
    assert_eq!(images.list().await.unwrap(), ["d", "ü c"]);
    images.create("b", small(1_000)).await.unwrap();
    holds(&*open(&*images, "b").await, 0, 0, 1_000).await;
}

pub async fn bad_names_and_geometries_are_refused(images: Arc<dyn Images>) {
    for name in ["", "a/b", "a@b", "-a", "a\n"] {
        assert_eq!(kind(images.create(name, small(5)).await), Some(ErrorKind::InvalidArgument), "{name}");
    }
    let odd = Geometry { object_bytes: 5_000, ..Geometry::default() };
    let created = images.create("i", CreateOptions::new(5, odd)).await;
    assert_eq!(kind(created), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(images.create("i", small(u64::MAX)).await), Some(ErrorKind::LimitExceeded));
    assert_eq!(images.list().await.unwrap(), Vec::<String>::new());
    let image = create(&*images, "i", 1_000).await;
    assert_eq!(kind(image.create_snapshot("a@b").await), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(image.resize(u64::MAX).await), Some(ErrorKind::LimitExceeded));
}

pub async fn one_program_writes_at_a_time(images: Arc<dyn Images>) {
    let first = create(&*images, "i", 1_000).await;
    write(&*first, 0, 1, 10).await;
    assert_eq!(kind(images.open("i", None, OpenMode::Write).await), Some(ErrorKind::Busy));
    first.flush().await.unwrap();
    let reader = images.open("i", None, OpenMode::ReadOnly).await.unwrap();
    holds(&*reader, 0, 1, 10).await;
    let refused = Some(ErrorKind::PermissionDenied);
    assert_eq!(kind(reader.write(0, "x".into(), Durability::Buffered).await), refused);
    assert_eq!(kind(reader.write_zeroes(0, 1, Zeroes::Punch, Durability::Buffered).await), refused);
    assert_eq!(kind(reader.resize(5).await), refused);
    assert_eq!(kind(reader.create_snapshot("s").await), refused);
    reader.close().await.unwrap();
    first.close().await.unwrap();
    open(&*images, "i").await;
}

pub async fn a_snapshot_keeps_its_bytes(images: Arc<dyn Images>) {
    for options in [small(1_000_000), striped(1_000_000)] {
        let name = &format!("stripes-{}", options.geometry.stripe_count);
        images.create(name, options).await.unwrap();
        let image = open(&*images, name).await;
        write(&*image, 0, 1, 500_000).await;
        image.create_snapshot("one").await.unwrap();
        assert_eq!(kind(image.create_snapshot("one").await), Some(ErrorKind::AlreadyExists));
        write(&*image, 250_000, 2, 10).await;
        image.create_snapshot("two").await.unwrap();
        image.write_zeroes(0, 1_000_000, Zeroes::Punch, Durability::Buffered).await.unwrap();
        write(&*image, 990_000, 3, 100).await;
        let one = images.open(name, Some("one"), OpenMode::ReadOnly).await.unwrap();
        holds(&*one, 0, 1, 500_000).await;
        holds(&*one, 500_000, 0, 500_000).await;
        let two = images.open(name, Some("two"), OpenMode::ReadOnly).await.unwrap();
        for two in [two, {
            image.remove_snapshot("one").await.unwrap();
            images.open(name, Some("two"), OpenMode::ReadOnly).await.unwrap()
        }] {
            holds(&*two, 0, 1, 250_000).await;
            holds(&*two, 250_000, 2, 10).await;
            holds(&*two, 250_010, 1, 249_990).await;
            holds(&*two, 500_000, 0, 500_000).await;
        }
        let names: Vec<_> = image.snapshots().await.unwrap().into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["two"]);
        assert_eq!(kind(image.remove_snapshot("one").await), Some(ErrorKind::NotFound));
        image.remove_snapshot("two").await.unwrap();
        holds(&*image, 0, 0, 990_000).await;
        holds(&*image, 990_000, 3, 100).await;
    }
}

pub async fn a_snapshot_is_read_only(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1_000).await;
    image.create_snapshot("s").await.unwrap();
    let refused = images.open("i", Some("s"), OpenMode::Write).await;
    assert_eq!(kind(refused), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(images.open("i", Some("t"), OpenMode::ReadOnly).await), Some(ErrorKind::NotFound));
    let snapshot = images.open("i", Some("s"), OpenMode::ReadOnly).await.unwrap();
    assert!(snapshot.info().read_only);
    assert!(snapshot.info().address.ends_with("/i@s"));
    assert_eq!(
        kind(snapshot.write(0, "x".into(), Durability::Buffered).await),
        Some(ErrorKind::PermissionDenied)
    );
}

pub async fn a_removed_snapshot_does_not_show_later_writes(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 256 * KIB).await;
    write(&*image, 0, 1, 128 * KIB).await;
    image.flush().await.unwrap();
    image.create_snapshot("s").await.unwrap();
    let opened = images.open("i", Some("s"), OpenMode::ReadOnly).await.unwrap();
    holds(&*opened, 0, 1, 128 * KIB).await;
    image.remove_snapshot("s").await.unwrap();
    write(&*image, 0, 2, 128 * KIB).await;
    image.flush().await.unwrap();
    assert_eq!(kind(opened.read(0, 4 * KIB).await), Some(ErrorKind::NotFound));
    assert_eq!(kind(opened.extents(0, 4 * KIB, None).await), Some(ErrorKind::NotFound));
}

pub async fn extents_since_a_snapshot_show_changes(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 512 * KIB).await;
    write(&*image, 0, 1, 256 * KIB).await;
    image.create_snapshot("s").await.unwrap();
    let since = image.extents(0, 512 * KIB, Some("s")).await.unwrap();
    assert_eq!(since, [extent(512 * KIB, ExtentKind::Unchanged)]);
    write(&*image, 130 * KIB, 2, 1).await;
    image.write_zeroes(0, 128 * KIB, Zeroes::Punch, Durability::Buffered).await.unwrap();
    let since = image.extents(0, 512 * KIB, Some("s")).await.unwrap();
    // An implementation may report more than the byte that was written.
    let mut at = 0;
    let mut changed = Vec::new();
    for Extent { len_bytes, kind } in since {
        if kind != ExtentKind::Unchanged {
            changed.push((kind, at, at + len_bytes));
        }
        at += len_bytes;
    }
    assert_eq!(at, 512 * KIB);
    let [(ExtentKind::Hole, 0, hole_end), (ExtentKind::Data, start, end)] = changed[..] else {
        panic!("{changed:?}")
    };
    assert_eq!(hole_end, 128 * KIB);
    assert!((128 * KIB..=130 * KIB).contains(&start) && (130 * KIB + 1..=256 * KIB).contains(&end));
    assert_eq!(kind(image.extents(0, 1, Some("t")).await), Some(ErrorKind::NotFound));
}

pub async fn rolling_back_restores_bytes_and_size(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 300 * KIB).await;
    write(&*image, 0, 1, 300 * KIB).await;
    image.create_snapshot("one").await.unwrap();
    write(&*image, 0, 2, 100 * KIB).await;
    image.create_snapshot("two").await.unwrap();
    image.resize(600 * KIB).await.unwrap();
    write(&*image, 50 * KIB, 3, 500 * KIB).await;
    image.roll_back("one").await.unwrap();
    assert_eq!(image.info().size_bytes, 300 * KIB);
    holds(&*image, 0, 1, 300 * KIB).await;
    write(&*image, 10, 4, 10).await;
    image.create_snapshot("three").await.unwrap();
    // The head now continues from the first snapshot, and the second has no successor.
    image.remove_snapshot("one").await.unwrap();
    holds(&*image, 0, 1, 10).await;
    holds(&*image, 10, 4, 10).await;
    holds(&*image, 20, 1, 300 * KIB - 20).await;
    image.roll_back("two").await.unwrap();
    holds(&*image, 0, 2, 100 * KIB).await;
    holds(&*image, 100 * KIB, 1, 200 * KIB).await;
    image.remove_snapshot("two").await.unwrap();
    image.close().await.unwrap();
    let image = open(&*images, "i").await;
    holds(&*image, 0, 2, 100 * KIB).await;
    image.roll_back("three").await.unwrap();
    image.remove_snapshot("three").await.unwrap();
    holds(&*image, 10, 4, 10).await;
    holds(&*image, 20, 1, 300 * KIB - 20).await;
    assert_eq!(kind(image.roll_back("three").await), Some(ErrorKind::NotFound));
}

pub async fn resizing_loses_only_what_is_behind_the_end(images: Arc<dyn Images>) {
    for options in [small(500 * KIB), striped(500 * KIB)] {
        let name = &format!("stripes-{}", options.geometry.stripe_count);
        images.create(name, options).await.unwrap();
        let image = open(&*images, name).await;
        write(&*image, 0, 1, 500 * KIB).await;
        image.create_snapshot("s").await.unwrap();
        image.resize(150 * KIB).await.unwrap();
        assert_eq!(image.info().size_bytes, 150 * KIB);
        assert_eq!(kind(image.read(150 * KIB, 1).await), Some(ErrorKind::InvalidArgument));
        image.resize(700 * KIB).await.unwrap();
        holds(&*image, 0, 1, 150 * KIB).await;
        holds(&*image, 150 * KIB, 0, 550 * KIB).await;
        write(&*image, 600 * KIB, 2, 100 * KIB).await;
        let snapshot = images.open(name, Some("s"), OpenMode::ReadOnly).await.unwrap();
        holds(&*snapshot, 0, 1, 500 * KIB).await;
        image.close().await.unwrap();
        let image = open(&*images, name).await;
        holds(&*image, 150 * KIB, 0, 450 * KIB).await;
        holds(&*image, 600 * KIB, 2, 100 * KIB).await;
        image.resize(0).await.unwrap();
        image.resize(100 * KIB).await.unwrap();
        holds(&*image, 0, 0, 100 * KIB).await;
    }
}

/// An image of 500 KiB of ones with the snapshot `s`, and its clone.
async fn cloned(images: &dyn Images) -> (Arc<dyn Image>, Arc<dyn Image>) {
    let parent = create(images, "parent", 500 * KIB).await;
    write(&*parent, 0, 1, 400 * KIB).await;
    parent.create_snapshot("s").await.unwrap();
    images.clone_snapshot("parent", "s", "child").await.unwrap();
    let child = open(images, "child").await;
    (parent, child)
}

pub async fn a_clone_shows_its_parent_until_it_is_written(images: Arc<dyn Images>) {
    let (parent, child) = cloned(&*images).await;
    assert!(child.info().parent.is_some_and(|parent| parent.ends_with("/parent@s")));
    write(&*parent, 0, 9, 500 * KIB).await;
    holds(&*child, 0, 1, 400 * KIB).await;
    holds(&*child, 400 * KIB, 0, 100 * KIB).await;
    write(&*child, 200 * KIB, 2, 10).await;
    child.write_zeroes(0, 128 * KIB, Zeroes::Punch, Durability::Buffered).await.unwrap();
    child.write_zeroes(300 * KIB, 10 * KIB, Zeroes::Punch, Durability::Buffered).await.unwrap();
    holds(&*child, 0, 0, 128 * KIB).await;
    holds(&*child, 128 * KIB, 1, 72 * KIB).await;
    holds(&*child, 200 * KIB, 2, 10).await;
    holds(&*child, 200 * KIB + 10, 1, 100 * KIB - 10).await;
    holds(&*child, 300 * KIB, 0, 10 * KIB).await;
    holds(&*child, 310 * KIB, 1, 90 * KIB).await;
    child.resize(200 * KIB).await.unwrap();
    child.resize(500 * KIB).await.unwrap();
    holds(&*child, 200 * KIB, 0, 300 * KIB).await;
    child.close().await.unwrap();
    let child = open(&*images, "child").await;
    holds(&*child, 128 * KIB, 1, 72 * KIB).await;
    holds(&*child, 200 * KIB, 0, 300 * KIB).await;
    holds(&*parent, 0, 9, 500 * KIB).await;
    let refused = images.clone_snapshot("parent", "none", "x").await;
    assert_eq!(kind(refused), Some(ErrorKind::NotFound));
    let refused = images.clone_snapshot("parent", "s", "child").await;
    assert_eq!(kind(refused), Some(ErrorKind::AlreadyExists));
}

pub async fn a_clone_of_a_clone_reads_through_both(images: Arc<dyn Images>) {
    let (_parent, child) = cloned(&*images).await;
    write(&*child, 100, 2, 100).await;
    child.create_snapshot("t").await.unwrap();
    images.clone_snapshot("child", "t", "grandchild").await.unwrap();
    let grandchild = open(&*images, "grandchild").await;
    write(&*grandchild, 150, 3, 100).await;
    holds(&*grandchild, 0, 1, 100).await;
    holds(&*grandchild, 100, 2, 50).await;
    holds(&*grandchild, 150, 3, 100).await;
    holds(&*grandchild, 250, 1, 400 * KIB - 250).await;
    holds(&*grandchild, 400 * KIB, 0, 100 * KIB).await;
    let extents = grandchild.extents(0, 500 * KIB, None).await.unwrap();
    assert_eq!(extents[0].kind, ExtentKind::Data);
}

pub async fn a_snapshot_with_clones_cannot_be_removed(images: Arc<dyn Images>) {
    let (parent, child) = cloned(&*images).await;
    assert_eq!(kind(parent.remove_snapshot("s").await), Some(ErrorKind::Conflict));
    // The refusal leaves the snapshot as it was.
    assert_eq!(parent.snapshots().await.unwrap().len(), 1);
    images.clone_snapshot("parent", "s", "second").await.unwrap();
    images.remove("second").await.unwrap();
    child.close().await.unwrap();
    images.remove("child").await.unwrap();
    parent.remove_snapshot("s").await.unwrap();
    holds(&*parent, 0, 1, 400 * KIB).await;
}

pub async fn an_image_with_snapshots_cannot_be_removed(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1_000).await;
    write(&*image, 0, 1, 1_000).await;
    image.create_snapshot("s").await.unwrap();
    image.close().await.unwrap();
    assert_eq!(kind(images.remove("i").await), Some(ErrorKind::Conflict));
    let image = open(&*images, "i").await;
    holds(&*image, 0, 1, 1_000).await;
    image.remove_snapshot("s").await.unwrap();
    image.close().await.unwrap();
    images.remove("i").await.unwrap();
    assert_eq!(images.list().await.unwrap(), Vec::<String>::new());
}

pub async fn many_requests_run_at_once(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1024 * KIB).await;
    image.create_snapshot("s").await.unwrap();
    // 256 tasks write 4 KiB each, several to the same new object and the same block.
    let tasks: Vec<_> = (0..256_u64)
        .map(|index| {
            let image = Arc::clone(&image);
            tokio::spawn(async move {
                write(&*image, index * 4 * KIB, index as u8, 4 * KIB).await;
                if index % 16 == 0 {
                    image.create_snapshot(&format!("s{index}")).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for index in 0..256 {
        holds(&*image, index * 4 * KIB, index as u8, 4 * KIB).await;
    }
    assert_eq!(image.snapshots().await.unwrap().len(), 17);
}

pub async fn a_closed_image_refuses_requests(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1_000).await;
    write(&*image, 0, 1, 10).await;
    image.close().await.unwrap();
    image.close().await.unwrap();
    let conflict = Some(ErrorKind::Conflict);
    assert_eq!(kind(image.write(0, "x".into(), Durability::Buffered).await), conflict);
    assert_eq!(kind(image.read(0, 1).await), conflict);
    assert_eq!(kind(image.create_snapshot("s").await), conflict);
    let image = open(&*images, "i").await;
    holds(&*image, 0, 1, 10).await;
}

pub async fn an_open_image_is_changed_by_its_writer(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 100 * KIB).await;
    write(&*image, 0, 1, 100 * KIB).await;
    let snapshot = |name: &str| Change::CreateSnapshot { name: name.to_owned() };
    images.change("i", snapshot("s")).await.unwrap();
    assert_eq!(kind(images.change("i", snapshot("s")).await), Some(ErrorKind::AlreadyExists));
    write(&*image, 0, 2, 10).await;
    images.change("i", Change::Resize { size_bytes: 200 * KIB }).await.unwrap();
    has_size(&*image, 200 * KIB).await;
    holds(&*images.open("i", Some("s"), OpenMode::ReadOnly).await.unwrap(), 0, 1, 100 * KIB).await;
    image.close().await.unwrap();
    // Nobody has it open now.
    images.change("i", snapshot("t")).await.unwrap();
    images.change("i", Change::RemoveSnapshot { name: "s".to_owned() }).await.unwrap();
    let image = open(&*images, "i").await;
    assert_eq!(image.snapshots().await.unwrap().len(), 1);
    holds(&*image, 0, 2, 10).await;
    assert_eq!(kind(images.change("none", snapshot("t")).await), Some(ErrorKind::NotFound));
}

pub async fn a_flattened_clone_does_not_need_its_parent(images: Arc<dyn Images>) {
    let (parent, child) = cloned(&*images).await;
    assert_eq!(kind(parent.flatten().await), Some(ErrorKind::InvalidArgument));
    write(&*child, 200 * KIB, 2, 10).await;
    child.create_snapshot("t").await.unwrap();
    // A format may flatten snapshots, too.
    let refused = kind(child.flatten().await);
    assert!(matches!(refused, None | Some(ErrorKind::Conflict)), "{refused:?}");
    child.remove_snapshot("t").await.unwrap();
    if refused.is_some() {
        images.change("child", Change::Flatten {}).await.unwrap();
    }
    assert_eq!(child.info().parent, None);
    parent.remove_snapshot("s").await.unwrap();
    parent.close().await.unwrap();
    images.remove("parent").await.unwrap();
    for is_reopened in [false, true] {
        let child = if is_reopened { open(&*images, "child").await } else { Arc::clone(&child) };
        holds(&*child, 0, 1, 200 * KIB).await;
        holds(&*child, 200 * KIB, 2, 10).await;
        holds(&*child, 200 * KIB + 10, 1, 200 * KIB - 10).await;
        holds(&*child, 400 * KIB, 0, 50 * KIB).await;
        write(&*child, 450 * KIB, 4, 10).await;
        holds(&*child, 450 * KIB, 4, 10).await;
        child.close().await.unwrap();
    }
}

pub async fn limits_are_kept_with_the_image(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 100 * KIB).await;
    let none = Limits::default();
    assert_eq!(image.limits().await.unwrap(), none);
    let some =
        Limits { read_ops_per_s: Some(100), write_bytes_per_s: Some(5 << 20), burst_s: Some(3), ..none };
    // The image is open for writing, and shows the change.
    images.set_limits("i", some).await.unwrap();
    assert_eq!(image.limits().await.unwrap(), some);
    write(&*image, 0, 1, 100 * KIB).await;
    image.create_snapshot("s").await.unwrap();
    images.clone_snapshot("i", "s", "clone").await.unwrap();
    assert_eq!(limits(&*images, "clone", None).await, none);
    assert_eq!(limits(&*images, "i", Some("s")).await, some);
    image.resize(200 * KIB).await.unwrap();
    image.close().await.unwrap();
    images.rename("i", "j").await.unwrap();
    open(&*images, "j").await.close().await.unwrap();
    assert_eq!(limits(&*images, "j", None).await, some);
    let other = Limits { write_ops_per_s: Some(1), read_bytes_per_s: Some(1), ..none };
    for new in [other, none] {
        images.set_limits("j", new).await.unwrap();
        assert_eq!(limits(&*images, "j", None).await, new);
    }
    assert_eq!(kind(images.set_limits("i", some).await), Some(ErrorKind::NotFound));
    holds(&*open(&*images, "j").await, 0, 1, 100 * KIB).await;
}

async fn limits(images: &dyn Images, name: &str, snapshot: Option<&str>) -> Limits {
    let image = images.open(name, snapshot, OpenMode::ReadOnly).await.unwrap();
    let limits = image.limits().await.unwrap();
    image.close().await.unwrap();
    limits
}

pub async fn impossible_limits_are_refused(images: Arc<dyn Images>) {
    images.create("i", small(1_000)).await.unwrap();
    let none = Limits::default();
    for limits in [
        Limits { read_ops_per_s: Some(0), ..none },
        Limits { write_bytes_per_s: Some(u64::MAX), ..none },
        Limits { burst_s: Some(0), ..none },
        Limits { burst_s: Some(3_601), ..none },
    ] {
        assert_eq!(kind(images.set_limits("i", limits).await), Some(ErrorKind::InvalidArgument));
    }
    assert_eq!(limits(&*images, "i", None).await, none);
}

pub async fn a_check_finds_nothing_in_a_sound_image(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 1000 * KIB).await;
    write(&*image, 0, 1, 900 * KIB).await;
    image.create_snapshot("s").await.unwrap();
    write(&*image, 5_000, 2, 300 * KIB).await;
    image.create_snapshot("t").await.unwrap();
    image.write_zeroes(100, 200 * KIB, Zeroes::Punch, Durability::Buffered).await.unwrap();
    image.resize(700 * KIB).await.unwrap();
    image.remove_snapshot("s").await.unwrap();
    images.clone_snapshot("i", "t", "clone").await.unwrap();
    let clone = open(&*images, "clone").await;
    write(&*clone, 1_000, 3, 10 * KIB).await;
    for image in [&image, &clone] {
        let before = image.read(0, image.info().size_bytes).await.unwrap();
        for repair in [false, true] {
            let check = image.check(repair).await.unwrap();
            assert!(check.objects > 0);
            assert_eq!((check.damage, check.repairable), (Vec::new(), Vec::new()));
        }
        assert!(image.read(0, image.info().size_bytes).await.unwrap() == before);
    }
    let read_only = images.open("i", None, OpenMode::ReadOnly).await.unwrap();
    assert_eq!(kind(read_only.check(true).await), Some(ErrorKind::PermissionDenied));
    clone.close().await.unwrap();
    image.close().await.unwrap();
}
