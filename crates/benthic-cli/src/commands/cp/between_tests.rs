use super::{Job, Location, Options, upload};
use crate::jobs::OUTAGE_WAIT;
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result, WriteOp, WriteStep};
use benthic_embedded::{MemStore, Options as StoreOptions};
use benthic_program::transfer::COPIED_XATTR;
use benthic_testkit::faulty::FaultyPool;
use bytes::Bytes;
use futures::executor::block_on;
use tokio::sync::Semaphore;

async fn pool(
    fault: impl Fn(usize, WriteOp, &dyn Pool) -> Result<WriteOp> + Send + Sync + 'static,
) -> FaultyPool {
    FaultyPool::create(
        MemStore::new(StoreOptions::default().with_classes(benthic_classes::registry())),
        fault,
    )
    .await
}

fn id(name: &str) -> ObjectId {
    ObjectId::new(name).unwrap()
}

async fn move_object(from: &dyn Pool, source: &str, to: &dyn Pool, target: &str) -> Result<(), ErrorKind> {
    let (source, target) = (id(source), id(target));
    let (from, to) = (Location { pool: from, object: &source }, Location { pool: to, object: &target });
    let options = Options {
        jobs: 1,
        checksum: true,
        check: true,
        began_unix_ns: u64::MAX,
        dry_run: false,
        outage_wait: OUTAGE_WAIT,
    };
    let job = Job { from, to, in_one_store: false, moves: true, options };
    let moved = job.run(&Semaphore::new(upload::MEMORY_KIB as usize)).await;
    moved.map(|_| ()).map_err(|error| error.kind())
}

/// Another client writes to the source, between its copy and its removal.
fn overwrite(sound: &dyn Pool, data: String) {
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(sound.write_full(&id("a"), data)).unwrap()).join().unwrap()
    });
}

#[tokio::test]
async fn a_move_removes_only_the_version_that_it_copied() {
    let to = pool(|_, op, _| Ok(op)).await;
    let from = pool(|number, op, sound| {
        if number == 0 {
            overwrite(sound, "newer".to_owned());
        }
        Ok(op)
    })
    .await;
    from.inner.write_full(&id("a"), "first").await.unwrap();
    assert_eq!(move_object(&from, "a", &to, "b").await, Ok(()));
    assert_eq!(to.inner.read_range(&id("b"), 0, 10).await.unwrap(), "newer");
    assert_eq!(from.inner.stat(&id("a")).await.unwrap_err().kind(), ErrorKind::NotFound);

    // A source that changes all the time stays.
    let from = pool(|number, op, sound| {
        overwrite(sound, format!("version {number}"));
        Ok(op)
    })
    .await;
    from.inner.write_full(&id("a"), "first").await.unwrap();
    assert_eq!(move_object(&from, "a", &to, "b").await, Err(ErrorKind::Conflict));
    assert_eq!(from.inner.read_range(&id("a"), 0, 20).await.unwrap(), "version 4");
    assert_eq!(to.inner.read_range(&id("b"), 0, 20).await.unwrap(), "version 3");
}

#[tokio::test]
async fn a_move_that_ends_before_the_removal_is_completed_by_the_next() {
    let to = pool(|_, op, _| Ok(op)).await;
    let from = pool(|number, op, _| match number {
        0 => Err(Error::new(ErrorKind::Unavailable, "killed")),
        _ => Ok(op),
    })
    .await;
    from.inner.write_full(&id("a"), "data").await.unwrap();
    assert_eq!(move_object(&from, "a", &to, "b").await, Err(ErrorKind::Unavailable));
    assert!(from.inner.stat(&id("a")).await.is_ok());
    assert_eq!(move_object(&from, "a", &to, "b").await, Ok(()));
    assert_eq!(to.inner.read_range(&id("b"), 0, 10).await.unwrap(), "data");
    assert_eq!(from.inner.stat(&id("a")).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_damaged_copy_keeps_the_source() {
    let from = pool(|_, op, _| Ok(op)).await;
    from.inner.write_full(&id("a"), "data").await.unwrap();
    let to = pool(|number, mut op, _| {
        for step in &mut op.steps {
            if let WriteStep::WriteFull { data } = step
                && number == 0
            {
                *data = Bytes::from_static(b"dataX");
            }
        }
        Ok(op)
    })
    .await;
    assert_eq!(move_object(&from, "a", &to, "b").await, Err(ErrorKind::Corrupt));
    assert!(from.inner.stat(&id("a")).await.is_ok());
    let record = to.inner.get_xattr(&id("b"), COPIED_XATTR).await;
    assert_eq!(record.unwrap_err().kind(), ErrorKind::NotFound, "the next run copies again");
    assert_eq!(move_object(&from, "a", &to, "b").await, Ok(()));
    assert_eq!(to.inner.read_range(&id("b"), 0, 10).await.unwrap(), "data");
}

#[tokio::test]
async fn an_object_is_not_taken_for_its_own_copy() {
    let pool = pool(|_, op, _| Ok(op)).await;
    pool.inner.write_full(&id("a"), "data").await.unwrap();
    assert_eq!(move_object(&pool, "a", &pool, "a").await, Err(ErrorKind::InvalidArgument));
    assert_eq!(pool.inner.read_range(&id("a"), 0, 10).await.unwrap(), "data");
}
