//! The trash, and protected snapshots.

use super::{create, holds, kind, open, write};
use crate::geometries::{KIB, small};
use benthic_block::{Change, Images, OpenMode};
use benthic_core::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

pub async fn an_image_in_the_trash_comes_back(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 100 * KIB).await;
    write(&*image, 0, 1, 100 * KIB).await;
    image.create_snapshot("s").await.unwrap();
    images.clone_snapshot("i", "s", "clone").await.unwrap();
    write(&*image, 0, 2, 10).await;
    image.close().await.unwrap();
    images.move_to_trash("i", DAY).await.unwrap();

    assert_eq!(images.list().await.unwrap(), ["clone"]);
    assert_eq!(kind(images.open("i", None, OpenMode::ReadOnly).await), Some(ErrorKind::NotFound));
    assert_eq!(kind(images.move_to_trash("i", DAY).await), Some(ErrorKind::NotFound));
    // Its clone still shows its bytes.
    holds(&*open(&*images, "clone").await, 0, 1, 100 * KIB).await;
    let trash = images.trash().await.unwrap();
    assert_eq!(trash.len(), 1);
    assert_eq!(trash[0].name, "i");
    let kept_ms = trash[0].keep_until_unix_ms - trash[0].trashed_unix_ms;
    assert!(kept_ms.abs_diff(DAY.as_millis() as u64) <= 1_000, "{kept_ms}");

    // Another image may have the name now.
    images.create("i", small(1_000)).await.unwrap();
    let id = &trash[0].id;
    assert_eq!(kind(images.restore(id, "i").await), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(images.restore(id, "a/b").await), Some(ErrorKind::InvalidArgument));
    images.restore(id, "j").await.unwrap();
    assert_eq!(kind(images.restore(id, "k").await), Some(ErrorKind::NotFound));
    assert!(images.trash().await.unwrap().is_empty());
    assert_eq!(images.list().await.unwrap(), ["clone", "i", "j"]);
    let image = open(&*images, "j").await;
    holds(&*image, 0, 2, 10).await;
    holds(&*image, 10, 1, 100 * KIB - 10).await;
    assert_eq!(image.snapshots().await.unwrap().len(), 1);
}

pub async fn the_trash_is_purged(images: Arc<dyn Images>) {
    for name in ["i", "with-snapshot"] {
        let image = create(&*images, name, 100 * KIB).await;
        write(&*image, 0, 1, 100 * KIB).await;
        if name == "with-snapshot" {
            image.create_snapshot("s").await.unwrap();
        }
        image.close().await.unwrap();
        images.move_to_trash(name, DAY).await.unwrap();
    }
    for image in images.trash().await.unwrap() {
        let purged = images.purge(&image.id).await;
        match &image.name[..] {
            "i" => {
                purged.unwrap();
                assert_eq!(kind(images.purge(&image.id).await), Some(ErrorKind::NotFound));
            }
            _ => assert_eq!(kind(purged), Some(ErrorKind::Conflict)),
        }
    }
    let left = images.trash().await.unwrap();
    assert_eq!(left.len(), 1);
    // The refused one is whole.
    images.restore(&left[0].id, "back").await.unwrap();
    let image = open(&*images, "back").await;
    holds(&*image, 0, 1, 100 * KIB).await;
    image.remove_snapshot("s").await.unwrap();
    image.close().await.unwrap();
    images.move_to_trash("back", Duration::ZERO).await.unwrap();
    images.purge(&left[0].id).await.unwrap();
    assert!(images.trash().await.unwrap().is_empty());
    for id in ["", "x", "0123456789abcdef"] {
        assert_eq!(kind(images.purge(id).await), Some(ErrorKind::NotFound), "{id}");
    }
}

pub async fn an_open_image_stays_out_of_the_trash(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 100 * KIB).await;
    write(&*image, 0, 1, 10).await;
    assert_eq!(kind(images.move_to_trash("i", DAY).await), Some(ErrorKind::Busy));
    write(&*image, 0, 2, 10).await;
    image.close().await.unwrap();
    assert!(images.trash().await.unwrap().is_empty());
    holds(&*open(&*images, "i").await, 0, 2, 10).await;
}

pub async fn a_protected_snapshot_stays(images: Arc<dyn Images>) {
    let image = create(&*images, "i", 100 * KIB).await;
    write(&*image, 0, 1, 100 * KIB).await;
    image.create_snapshot("s").await.unwrap();
    let protect = |protect| Change::ProtectSnapshot { name: "s".to_owned(), protect };
    let remove = || Change::RemoveSnapshot { name: "s".to_owned() };
    // By way of the writer, directly, and twice.
    images.change("i", protect(true)).await.unwrap();
    image.protect_snapshot("s", true).await.unwrap();
    assert!(image.snapshots().await.unwrap()[0].is_protected);
    let conflict = Some(ErrorKind::Conflict);
    assert_eq!(kind(image.remove_snapshot("s").await), conflict);
    assert_eq!(kind(images.change("i", remove()).await), conflict);
    write(&*image, 0, 2, 10).await;
    image.roll_back("s").await.unwrap();
    holds(&*image, 0, 1, 100 * KIB).await;
    image.close().await.unwrap();
    assert_eq!(kind(images.remove("i").await), conflict);
    let image = open(&*images, "i").await;
    assert!(image.snapshots().await.unwrap()[0].is_protected);
    image.protect_snapshot("s", false).await.unwrap();
    image.protect_snapshot("s", false).await.unwrap();
    assert!(!image.snapshots().await.unwrap()[0].is_protected);
    assert_eq!(kind(image.protect_snapshot("none", true).await), Some(ErrorKind::NotFound));
    image.remove_snapshot("s").await.unwrap();
    holds(&*image, 0, 1, 100 * KIB).await;
}
