//! Snapshots of a group while its images are written to.

use super::{KIB, images_of, options, run, small};
use benthic_block::{Image, Images, OpenMode};
use benthic_core::{Durability, ErrorKind, Store};
use benthic_embedded::MemStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK_BYTES: u64 = 4 * KIB;

async fn write_number(image: &dyn Image, number: u64) {
    let mut block = vec![0; BLOCK_BYTES as usize];
    block[..8].copy_from_slice(&number.to_le_bytes());
    let offset_bytes = number % 16 * BLOCK_BYTES;
    image.write(offset_bytes, block.into(), Durability::Buffered).await.unwrap();
}

/// The highest number that was written to an image's snapshot.
async fn last_number(images: &dyn Images, name: &str, snapshot: &str) -> u64 {
    let image = images.open(name, Some(snapshot), OpenMode::ReadOnly).await.unwrap();
    let data = image.read(0, 16 * BLOCK_BYTES).await.unwrap();
    let numbers =
        data.chunks(BLOCK_BYTES as usize).map(|block| u64::from_le_bytes(block[..8].try_into().unwrap()));
    numbers.max().unwrap()
}

/// One program writes each number to three images in turn. Another one takes the snapshots.
#[test]
fn a_group_snapshot_under_writes_is_of_one_moment() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let (writing, other) = (images_of(Arc::clone(&store)).await, images_of(store).await);
        writing.groups().create("g").await.unwrap();
        let mut opened = Vec::new();
        for name in NAMES {
            writing.create(name, small(100 * KIB)).await.unwrap();
            writing.groups().add_image("g", name).await.unwrap();
            opened.push(writing.open(name, None, OpenMode::Write).await.unwrap());
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_done);
        let writer = tokio::spawn(async move {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                for image in &opened {
                    write_number(&**image, number).await;
                }
                tokio::task::yield_now().await;
            }
            for image in &opened {
                image.close().await.unwrap();
            }
            number
        });
        let mut before = 0;
        for snapshot in ["s1", "s2", "s3", "s4"] {
            other.groups().create_snapshot("g", snapshot).await.unwrap();
            let mut last = Vec::new();
            for name in NAMES {
                last.push(last_number(&*other, name, snapshot).await);
            }
            // Every write in a later image is in the earlier ones, which are at most one ahead.
            assert!(last.is_sorted_by(|earlier, later| earlier >= later), "{last:?}");
            assert!(last[0] <= last[2] + 1 && last[2] >= before, "{last:?} after {before}");
            before = last[2];
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(writer.await.unwrap() > before);
        assert!(before > 0);
    });
}

#[test]
fn a_failed_group_snapshot_leaves_no_snapshot() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let (writing, other) = (images_of(Arc::clone(&store)).await, images_of(store).await);
        other.groups().create("g").await.unwrap();
        for name in ["a", "b", "c"] {
            other.create(name, small(100 * KIB)).await.unwrap();
            other.groups().add_image("g", name).await.unwrap();
        }
        let a = writing.open("a", None, OpenMode::Write).await.unwrap();
        let b = writing.open("b", None, OpenMode::Write).await.unwrap();
        b.create_snapshot("s").await.unwrap();
        let refused = other.groups().create_snapshot("g", "s").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
        assert!(refused.to_string().contains("disks/b"), "{refused}");
        assert!(a.snapshots().await.unwrap().is_empty());
        assert!(other.groups().snapshots("g").await.unwrap().is_empty());
        // No pause is left: writes do not wait.
        for image in [&a, &b] {
            let written = image.write(0, vec![1; 512].into(), Durability::Buffered);
            tokio::time::timeout(std::time::Duration::from_secs(5), written).await.unwrap().unwrap();
        }
        let c = other.open("c", None, OpenMode::Write).await.unwrap();
        assert!(c.snapshots().await.unwrap().is_empty());
        b.remove_snapshot("s").await.unwrap();
        c.close().await.unwrap();
        other.groups().create_snapshot("g", "s").await.unwrap();
    });
}
