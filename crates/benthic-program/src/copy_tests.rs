use super::{COPIED_XATTR, Location, Snapshot, copy, is_equal};
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result, WriteOp, limits};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::faulty::FaultyPool;
use futures::executor::block_on;
use std::sync::Arc;

async fn pool(
    fault: impl Fn(usize, WriteOp, &dyn Pool) -> Result<WriteOp> + Send + Sync + 'static,
) -> FaultyPool {
    let classes = benthic_classes::registry();
    FaultyPool::create(MemStore::new(Options::default().with_classes(classes)), fault).await
}

fn id(name: &str) -> ObjectId {
    ObjectId::new(name).unwrap()
}

/// Copies `source` of one pool to `target` of another.
async fn run(from: &dyn Pool, to: &dyn Pool) -> Result<()> {
    let (source, target) = (id("source"), id("target"));
    let (from, to) = (Location { pool: from, object: &source }, Location { pool: to, object: &target });
    let known = Snapshot::read(from).await?.unwrap();
    copy(from, &known, to, Snapshot::read(to).await?.as_ref()).await.map(|_| ())
}

/// Whether the target equals the source, by its record or, with `checksum`, by its data.
async fn equal(from: &dyn Pool, to: &dyn Pool, checksum: bool) -> bool {
    let (source, target) = (id("source"), id("target"));
    let (from, to) = (Location { pool: from, object: &source }, Location { pool: to, object: &target });
    let known = Snapshot::read(from).await.unwrap().unwrap();
    match Snapshot::read(to).await.unwrap() {
        Some(copied) => is_equal(from, &known, to, &copied, checksum).await.unwrap(),
        None => false,
    }
}

/// A source of `size_bytes` with attributes and `keys` omap entries.
fn source(size_bytes: usize, keys: usize) -> WriteOp {
    let entries = (0..keys).map(|key| (format!("{key:05}"), format!("value {key}")));
    let op = WriteOp::new().write_full(vec![7; size_bytes]).set_xattr("a", "1").set_xattr("b", "2");
    if keys == 0 { op } else { op.omap_set(entries) }
}

/// A target with other contents.
fn other() -> WriteOp {
    WriteOp::new()
        .write_full("other and longer")
        .set_xattr("b", "x")
        .set_xattr("c", "x")
        .omap_set([("k", "x")])
}

#[test]
fn data_attributes_and_omap_travel_and_replace_those_of_the_target() {
    block_on(async {
        let [from, to] = [pool(|_, op, _| Ok(op)).await, pool(|_, op, _| Ok(op)).await];
        for (size_bytes, keys) in [(0, 0), (1, 0), (10, 3), (9 * 1024 * 1024, 2_500)] {
            from.write(&id("source"), source(size_bytes, keys)).await.unwrap();
            for is_replaced in [false, true] {
                if is_replaced {
                    to.write(&id("target"), other()).await.unwrap();
                }
                assert!(!equal(&from, &to, true).await, "{size_bytes} {keys}");
                run(&from, &to).await.unwrap();
                assert!(
                    equal(&from, &to, true).await && equal(&from, &to, false).await,
                    "{size_bytes} {keys}"
                );
                to.write(&id("target"), WriteOp::new().set_xattr("b", "3")).await.unwrap();
            }
            to.inner.remove(&id("target")).await.unwrap();
            from.inner.remove(&id("source")).await.unwrap();
        }
    });
}

#[test]
fn every_difference_is_noticed() {
    block_on(async {
        let [from, to] = [pool(|_, op, _| Ok(op)).await, pool(|_, op, _| Ok(op)).await];
        from.write(&id("source"), source(10, 2_500)).await.unwrap();
        let target = || WriteOp::new();
        for (change, by_checksum_only) in [
            (target().write_full("shorter"), false),
            (target().append("x"), false),
            (target().set_xattr("a", "x"), false),
            (target().set_xattr("new", "x"), false),
            (target().remove_xattr("a"), false),
            (target().omap_set([("02400", "x")]), false),
            (target().omap_set([("99999", "x")]), false),
            (target().omap_remove(["02499"]), false),
            (target().omap_clear(), false),
            (target().write(0, "x"), true),
        ] {
            run(&from, &to).await.unwrap();
            to.write(&id("target"), change.clone()).await.unwrap();
            assert!(!equal(&from, &to, true).await, "{change:?}");
            assert_eq!(equal(&from, &to, false).await, by_checksum_only, "{change:?}");
        }
        // A source that changed in any way is not the one that was copied.
        run(&from, &to).await.unwrap();
        from.write(&id("source"), WriteOp::new().write(0, "x")).await.unwrap();
        assert!(!equal(&from, &to, false).await);
    });
}

#[test]
fn a_copy_that_fails_anywhere_leaves_nothing_and_can_be_repeated() {
    block_on(async {
        let from = pool(|_, op, _| Ok(op)).await;
        let size_bytes = usize::try_from(limits::OPERATION_BYTES_MAX).unwrap() + 1;
        from.write(&id("source"), source(size_bytes / 2, 2_500)).await.unwrap();
        from.write(&id("source"), WriteOp::new().append(vec![8; size_bytes - size_bytes / 2])).await.unwrap();
        let mut failed = 0;
        loop {
            let to = pool(move |number, op, _| match number {
                _ if number == failed => Err(Error::new(ErrorKind::Unavailable, "gone for a moment")),
                _ => Ok(op),
            })
            .await;
            if run(&from, &to).await.is_ok() {
                break;
            }
            assert!(Snapshot::read(Location { pool: &to, object: &id("target") }).await.unwrap().is_none());
            run(&from, &to).await.unwrap();
            assert!(equal(&from, &to, true).await, "failed after {failed} operations");
            failed += 1;
        }
        assert!(failed >= 4, "{failed}");
    });
}

/// A kill is a fault after which no operation works, so nothing removes the incomplete target.
#[test]
fn a_killed_copy_counts_as_missing_and_can_be_repeated() {
    block_on(async {
        let from = pool(|_, op, _| Ok(op)).await;
        from.write(&id("source"), source(1_000, 5_000)).await.unwrap();
        for killed in 0..6 {
            let to = pool(|_, op, _| Ok(op)).await;
            to.write(&id("target"), other()).await.unwrap();
            let dying = FaultyPool::over(Arc::clone(&to.inner), move |number, op, _| {
                if number < killed {
                    Ok(op)
                } else {
                    Err(Error::new(ErrorKind::Unavailable, "gone for good"))
                }
            });
            let survived = run(&from, &dying).await.is_ok();
            assert_eq!(equal(&from, &to, false).await, survived, "killed after {killed} operations");
            run(&from, &to).await.unwrap();
            assert!(equal(&from, &to, true).await, "killed after {killed} operations");
        }
    });
}

#[test]
fn a_copy_keeps_the_target_of_a_concurrent_writer() {
    block_on(async {
        let from = pool(|_, op, _| Ok(op)).await;
        from.write(&id("source"), source(10, 2_500)).await.unwrap();
        for at in 0..3 {
            let to = pool(move |number, op, sound| {
                if number == at {
                    let theirs = || block_on(sound.write_full(&id("target"), "theirs")).unwrap();
                    std::thread::scope(|scope| scope.spawn(theirs).join().unwrap());
                }
                Ok(op)
            })
            .await;
            let kind = run(&from, &to).await.unwrap_err().kind();
            assert_eq!(kind, if at == 0 { ErrorKind::AlreadyExists } else { ErrorKind::Conflict });
            assert_eq!(to.inner.read_range(&id("target"), 0, 100).await.unwrap(), "theirs");
            // Each of several writers copies the object after all.
            run(&from, &to).await.unwrap();
            assert!(to.inner.get_xattr(&id("target"), COPIED_XATTR).await.is_ok());
        }
    });
}
