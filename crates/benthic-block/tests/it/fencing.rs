//! A writer that lost its image cannot write late.

use super::{KIB, images_of, options, run, small};
use benthic_block::pool::{LEASE_MS, PoolImages};
use benthic_block::{Image, Images, OpenMode, Zeroes};
use benthic_classes::lock::client::{break_lock, list};
use benthic_core::{
    Clock, Durability, Environment, ErrorKind, ListRequest, ManualClock, Namespaces, ObjectId, Pool, Store,
    WriteOp, names,
};
use benthic_embedded::MemStore;
use std::sync::Arc;
use std::time::Duration;

async fn write(image: &dyn Image, offset_bytes: u64, byte: u8) -> benthic_core::Result<()> {
    image.write(offset_bytes, vec![byte; 4096].into(), Durability::Buffered).await
}

/// Both writers use the same store, as they do through the socket of a directory's owner. The old
/// one does not know that it lost the lock.
#[test]
fn an_old_writer_changes_nothing_after_a_take_over() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let old = images_of(Arc::clone(&store)).await;
        old.create("i", small(1024 * KIB)).await.unwrap();
        let before = old.open("i", None, OpenMode::Write).await.unwrap();
        write(&*before, 0, 1).await.unwrap();
        before.create_snapshot("s").await.unwrap();
        write(&*before, 128 * KIB, 1).await.unwrap();

        let new = images_of(store).await;
        let busy = new.open("i", None, OpenMode::Write).await.err().unwrap();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.to_string().contains(&format!("process {}", std::process::id())), "{busy}");
        let after = new.open("i", None, OpenMode::TakeOver).await.unwrap();

        // An object of its own, one that a snapshot shows, and one that does not exist.
        for offset_bytes in [128 * KIB, 0, 512 * KIB] {
            let refused = write(&*before, offset_bytes, 9).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
            assert!(refused.to_string().contains("taken"), "{refused}");
        }
        let conflict = ErrorKind::Conflict;
        let zeroed = before.write_zeroes(0, 1024 * KIB, Zeroes::Punch, Durability::Buffered).await;
        assert_eq!(zeroed.unwrap_err().kind(), conflict);
        assert_eq!(before.create_snapshot("late").await.unwrap_err().kind(), conflict);
        assert_eq!(before.resize(0).await.unwrap_err().kind(), conflict);
        assert_eq!(before.roll_back("s").await.unwrap_err().kind(), conflict);
        assert_eq!(before.remove_snapshot("s").await.unwrap_err().kind(), conflict);

        let read = after.read(0, 1024 * KIB).await.unwrap();
        let mut expected = vec![0; 1024 * 1024];
        expected[..4096].fill(1);
        expected[128 * 1024..128 * 1024 + 4096].fill(1);
        assert!(read == expected);
        for offset_bytes in [128 * KIB, 0, 512 * KIB] {
            write(&*after, offset_bytes, 2).await.unwrap();
            assert_eq!(write(&*before, offset_bytes, 9).await.unwrap_err().kind(), conflict);
        }
        assert_eq!(after.snapshots().await.unwrap().len(), 1);
        after.close().await.unwrap();
    });
}

async fn header_of(store: &Arc<dyn Store>) -> (Arc<dyn Pool>, ObjectId) {
    let pool = store.open_pool("disks").await.unwrap();
    let request = ListRequest {
        namespaces: Namespaces::One(names::IMAGES_NAMESPACE.to_owned()),
        prefix: "header.".to_owned(),
        ..ListRequest::default()
    };
    let header = pool.list(request).await.unwrap().objects.remove(0);
    (pool, header)
}

/// Takes the lock away as the end of its lease does. The writer does not notice.
async fn end_lease(store: &Arc<dyn Store>) {
    let (pool, header) = header_of(store).await;
    for held in list(&*pool, &header).await.unwrap() {
        for holder in held.holders {
            break_lock(&*pool, &header, &held.name, &holder.owner, Some(&holder.cookie)).await.unwrap();
        }
    }
}

/// A removal that is refused takes the lock too, but it does not fence.
#[test]
fn a_refused_removal_does_not_hide_an_old_writer() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let images = images_of(Arc::clone(&store)).await;
        images.create("i", small(1024 * KIB)).await.unwrap();
        let old = images.open("i", None, OpenMode::Write).await.unwrap();
        old.create_snapshot("s").await.unwrap();
        write(&*old, 0, 1).await.unwrap();
        end_lease(&store).await;
        assert_eq!(images.remove("i").await.unwrap_err().kind(), ErrorKind::Conflict);
        let new = images.open("i", None, OpenMode::Write).await.unwrap();
        assert_eq!(write(&*old, 0, 9).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(new.read(0, 1).await.unwrap(), &[1][..]);
    });
}

/// For example after the machine slept.
#[test]
fn a_writer_whose_lease_ended_continues_unless_another_took_the_image() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let others = images_of(Arc::clone(&store)).await;
        let clock = Arc::new(ManualClock::default());
        let environment =
            Environment { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Environment::default() };
        let pool = store.open_pool("disks").await.unwrap();
        let images = PoolImages::new(Arc::clone(&store), pool, environment);
        images.create("i", small(1024 * KIB)).await.unwrap();
        let image = images.open("i", None, OpenMode::Write).await.unwrap();
        end_lease(&store).await;
        clock.advance_ms(LEASE_MS + 1);
        write(&*image, 0, 1).await.unwrap();
        assert_eq!(others.open("i", None, OpenMode::Write).await.err().unwrap().kind(), ErrorKind::Busy);

        end_lease(&store).await;
        let other = others.open("i", None, OpenMode::Write).await.unwrap();
        other.close().await.unwrap();
        clock.advance_ms(LEASE_MS + 1);
        assert_eq!(write(&*image, 0, 9).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(image.read(0, 1).await.unwrap_err().kind(), ErrorKind::Conflict);
        others.open("i", None, OpenMode::Write).await.unwrap();
    });
}

/// The next writer does not wait for an image that was closed.
#[test]
fn a_closed_image_is_free_at_once() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let images = images_of(store).await;
        images.create("i", small(1024 * KIB)).await.unwrap();
        for round in 0..3 {
            let image = images.open("i", None, OpenMode::Write).await.unwrap();
            write(&*image, round * 4096, 1).await.unwrap();
            image.close().await.unwrap();
        }
    });
}

/// A program may have been killed while it waited for an answer. Its request must not be carried
/// out when the image is opened much later.
#[test]
fn an_old_request_is_not_carried_out() {
    run(async {
        let store: Arc<dyn Store> = MemStore::new(options());
        let images = images_of(Arc::clone(&store)).await;
        images.create("i", small(1024 * KIB)).await.unwrap();
        let (pool, header) = header_of(&store).await;
        // Take a snapshot named "stale".
        let leave = WriteOp::new().omap_set([("request/0123456789abcdef", &b"\x01\x01\x05\0\0\0stale"[..])]);
        pool.write(&header, leave.clone()).await.unwrap();
        let image = images.open("i", None, OpenMode::Write).await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(image.snapshots().await.unwrap(), []);
        // The same request is valid: while the image is open, it is carried out.
        pool.write(&header, leave).await.unwrap();
        while image.snapshots().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        image.close().await.unwrap();
    });
}
