//! Groups of images.

use super::{create, holds, kind, open, write};
use crate::geometries::KIB;
use benthic_block::{Image, Images};
use benthic_core::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

pub async fn groups_have_images(images: Arc<dyn Images>) {
    let groups = images.groups();
    for name in ["a", "b"] {
        create(&*images, name, 1_000).await.close().await.unwrap();
    }
    assert!(groups.list().await.unwrap().is_empty());
    groups.create("g").await.unwrap();
    groups.create("h").await.unwrap();
    assert_eq!(kind(groups.create("g").await), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(groups.create("a/b").await), Some(ErrorKind::InvalidArgument));
    assert_eq!(groups.list().await.unwrap(), ["g", "h"]);
    // A group is no image.
    assert_eq!(images.list().await.unwrap(), ["a", "b"]);
    assert!(groups.images("g").await.unwrap().is_empty());
    for name in ["b", "a"] {
        groups.add_image("g", name).await.unwrap();
    }
    assert_eq!(groups.images("g").await.unwrap(), ["a", "b"]);
    let (missing, exists) = (Some(ErrorKind::NotFound), Some(ErrorKind::AlreadyExists));
    groups.add_image("g", "a").await.unwrap();
    assert_eq!(kind(groups.add_image("h", "a").await), exists);
    assert_eq!(kind(groups.add_image("none", "a").await), missing);
    assert_eq!(kind(groups.add_image("g", "none").await), missing);
    assert_eq!(kind(groups.images("none").await), missing);
    assert_eq!(kind(groups.remove("none").await), missing);
    assert_eq!(kind(groups.create_snapshot("none", "s").await), missing);
    assert_eq!(kind(groups.create_snapshot("h", "s").await), Some(ErrorKind::InvalidArgument));
    images.rename("a", "c").await.unwrap();
    assert_eq!(groups.images("g").await.unwrap(), ["b", "c"]);
    groups.remove_image("g", "c").await.unwrap();
    assert_eq!(kind(groups.remove_image("g", "c").await), missing);
    groups.add_image("h", "c").await.unwrap();
    groups.remove("g").await.unwrap();
    assert_eq!(groups.list().await.unwrap(), ["h"]);
    assert_eq!(images.list().await.unwrap(), ["b", "c"]);
}

pub async fn a_grouped_image_is_not_removed(images: Arc<dyn Images>) {
    let groups = images.groups();
    create(&*images, "i", 1_000).await.close().await.unwrap();
    groups.create("g").await.unwrap();
    groups.add_image("g", "i").await.unwrap();
    assert_eq!(kind(images.remove("i").await), Some(ErrorKind::Conflict));
    assert_eq!(kind(images.move_to_trash("i", Duration::ZERO).await), Some(ErrorKind::Conflict));
    assert_eq!(groups.images("g").await.unwrap(), ["i"]);
    groups.remove_image("g", "i").await.unwrap();
    images.remove("i").await.unwrap();
}

/// A group with two images, which are open, and a snapshot of both.
async fn grouped(images: &dyn Images) -> [Arc<dyn Image>; 2] {
    let groups = images.groups();
    groups.create("g").await.unwrap();
    for name in ["a", "b"] {
        let image = create(images, name, 100 * KIB).await;
        write(&*image, 0, 1, 100 * KIB).await;
        image.close().await.unwrap();
        groups.add_image("g", name).await.unwrap();
    }
    groups.create_snapshot("g", "s").await.unwrap();
    [open(images, "a").await, open(images, "b").await]
}

pub async fn a_group_snapshot_is_of_all_images(images: Arc<dyn Images>) {
    let groups = images.groups();
    let opened = grouped(&*images).await;
    for image in &opened {
        write(&**image, 0, 2, 100 * KIB).await;
        image.close().await.unwrap();
    }
    assert_eq!(kind(groups.create_snapshot("g", "s").await), Some(ErrorKind::AlreadyExists));
    groups.create_snapshot("g", "t").await.unwrap();
    assert_eq!(groups.snapshots("g").await.unwrap(), ["s", "t"]);
    assert_eq!(kind(groups.remove("g").await), Some(ErrorKind::Conflict));
    groups.remove_snapshot("g", "s").await.unwrap();
    assert_eq!(kind(groups.remove_snapshot("g", "s").await), Some(ErrorKind::NotFound));
    assert_eq!(groups.snapshots("g").await.unwrap(), ["t"]);
    groups.remove_snapshot("g", "t").await.unwrap();
    groups.remove("g").await.unwrap();
    for name in ["a", "b"] {
        let image = open(&*images, name).await;
        holds(&*image, 0, 2, 100 * KIB).await;
        image.close().await.unwrap();
        images.remove(name).await.unwrap();
    }
}

pub async fn a_group_is_rolled_back_as_a_whole(images: Arc<dyn Images>) {
    let groups = images.groups();
    let [a, b] = grouped(&*images).await;
    for image in [&a, &b] {
        write(&**image, 0, 2, 10 * KIB).await;
    }
    a.resize(200 * KIB).await.unwrap();
    a.close().await.unwrap();
    // While one is open, the other keeps its bytes.
    assert_eq!(kind(groups.roll_back("g", "s").await), Some(ErrorKind::Busy));
    let a = open(&*images, "a").await;
    holds(&*a, 0, 2, 10 * KIB).await;
    a.close().await.unwrap();
    b.close().await.unwrap();
    groups.roll_back("g", "s").await.unwrap();
    for name in ["a", "b"] {
        let image = open(&*images, name).await;
        assert_eq!(image.info().size_bytes, 100 * KIB);
        holds(&*image, 0, 1, 100 * KIB).await;
        image.close().await.unwrap();
    }
    assert_eq!(kind(groups.roll_back("g", "none").await), Some(ErrorKind::NotFound));
}
