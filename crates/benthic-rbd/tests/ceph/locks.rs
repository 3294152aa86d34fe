//! One writer at a time, on a cluster.

use crate::geometries::small;
use crate::support::{OwnPool, with_pool};
use benthic_block::{Image, OpenMode, Zeroes};
use benthic_core::{Durability, ErrorKind};
use std::sync::Arc;

async fn image(pool: &OwnPool) -> Arc<dyn Image> {
    pool.images.create("i", small(1_000_000)).await.unwrap();
    pool.images.open("i", None, OpenMode::Write).await.unwrap()
}

#[test]
fn the_old_writer_of_an_image_that_was_taken_over_changes_nothing() {
    with_pool("take-over", |pool| async move {
        let old = image(&pool).await;
        pool.images.create("other", small(1_000)).await.unwrap();
        let other = pool.images.open("other", None, OpenMode::Write).await.unwrap();
        old.write(0, "old".into(), Durability::Durable).await.unwrap();
        let images = pool.other_program().await;
        let refused = images.open("i", None, OpenMode::Write).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Busy);

        let new = images.open("i", None, OpenMode::TakeOver).await.unwrap();
        new.write(3, "new".into(), Durability::Durable).await.unwrap();
        let conflict = |result: benthic_core::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Conflict);
        };
        conflict(old.write(0, "late".into(), Durability::Durable).await);
        conflict(old.write_zeroes(0, 6, Zeroes::Punch, Durability::Durable).await);
        conflict(old.create_snapshot("s").await);
        conflict(old.resize(10).await);
        assert_eq!(new.read(0, 8).await.unwrap(), "oldnew\0\0");
        // Closing the lost image ends, and the program's other image is not affected.
        let _ = old.close().await;
        other.write(0, "other".into(), Durability::Durable).await.unwrap();
        other.close().await.unwrap();
        new.close().await.unwrap();
        drop((old, new, other));
        pool
    });
}

#[test]
fn an_image_that_another_client_maps_without_the_lock_is_busy() {
    // As QEMU does before its first write: the image is open for writing, and nobody has the lock.
    with_pool("watched", |pool| async move {
        drop(image(&pool).await);
        assert_eq!(pool.images.writers("i").await.unwrap(), Vec::<String>::new());
        let conf = benthic_testkit::cluster::shared_conf();
        let mut bench = std::process::Command::new("rbd")
            .arg("--conf")
            .arg(conf)
            .args(["--pool", &pool.name, "bench", "i", "--io-type", "read", "--io-size", "4096"])
            .args(["--io-threads", "1", "--io-total", "100G"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while pool.images.writers("i").await.unwrap().is_empty() {
            assert!(bench.try_wait().unwrap().is_none(), "rbd bench ended");
        }
        let refused = pool.images.open("i", None, OpenMode::Write).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
        assert_eq!(pool.images.remove("i").await.unwrap_err().kind(), ErrorKind::Busy);
        // It ends cleanly at SIGINT, so its watch is gone at once.
        let pid = bench.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        bench.wait().unwrap();
        pool
    });
}

#[test]
fn an_image_without_an_exclusive_lock_is_not_opened_for_writing() {
    with_pool("no-lock", |pool| async move {
        pool.rbd(&["create", "i", "--size", "1M", "--image-feature", "layering"]);
        let refused = pool.images.open("i", None, OpenMode::Write).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("rbd feature enable"), "{refused}");
        let image = pool.images.open("i", None, OpenMode::ReadOnly).await.unwrap();
        assert_eq!(image.info().features, ["layering"]);
        pool
    });
}
