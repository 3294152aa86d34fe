use super::layout::Layout;
use super::lock::Locks;
use super::read::{self, CopyResult, Options, Verification};
use super::write::{Source, SourceFile, store};
use super::{
    BEGUN_XATTR, FIRST_SUFFIX, NOTE_XATTR, OBJECT_SIZE_XATTR, PIECE_XATTR, SIZE_XATTR, STRIPE_COUNT_XATTR,
    STRIPE_UNIT_XATTR, Striped, StripedState, digest, remove,
};
use async_trait::async_trait;
use benthic_classes::lock::client::break_lock;
use benthic_core::{
    ClassCall, Error, ErrorKind, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, SystemClock,
    WriteOp, WriteReply, WriteStep,
};
use benthic_embedded::{MemStore, Options as StoreOptions};
use benthic_testkit::faulty::FaultyPool;
use bytes::Bytes;
use futures::executor::block_on;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNIT: u64 = 64 * 1024;
const LAYOUT: Layout = Layout { object_size: UNIT, stripe_unit: UNIT, stripe_count: 1 };
const OPTIONS: Options = Options {
    jobs: 1,
    checksum: false,
    check: true,
    lock_wait: Duration::ZERO,
    progress: |_| Box::new(|_| {}),
};

fn at(pool: Arc<dyn Pool>) -> Striped {
    Striped {
        pool,
        object: ObjectId::new("f").unwrap(),
        locks: Locks::Own,
        clock: Arc::new(SystemClock),
        is_interrupted: || false,
    }
}

async fn faulty(
    fault: impl Fn(usize, WriteOp, &dyn Pool) -> benthic_core::Result<WriteOp> + Send + Sync + 'static,
) -> FaultyPool {
    FaultyPool::create(
        MemStore::new(StoreOptions::default().with_classes(benthic_classes::registry())),
        fault,
    )
    .await
}

fn file(directory: &Path, name: &str, byte: u8, len_bytes: u64) -> PathBuf {
    let path = directory.join(name);
    let data: Vec<u8> = (0..len_bytes).map(|at| byte.wrapping_add((at / 1000) as u8)).collect();
    std::fs::write(&path, data).unwrap();
    path
}

async fn put(to: &Striped, path: &Path) -> Result<CopyResult, ErrorKind> {
    let source = Source::File(SourceFile::open(path).unwrap());
    kind(store(source, to, LAYOUT, OPTIONS).await)
}

fn kind<T>(outcome: benthic_core::Result<T>) -> Result<T, ErrorKind> {
    outcome.map_err(|error| error.kind())
}

async fn content(from: &Striped, directory: &Path) -> Vec<u8> {
    let back = directory.join("back");
    // A download skips a file that is already there.
    let _ = std::fs::remove_file(&back);
    let fetched = kind(read::fetch(from.clone(), &back, OPTIONS).await).unwrap();
    assert_eq!(fetched.checked, Verification::Digest);
    std::fs::read(&back).unwrap()
}

/// A pool whose writes fail from number `stop` on, as if the program were killed there.
async fn killed_at(stop: usize, sound: Option<Arc<dyn Pool>>) -> (Arc<dyn Pool>, Arc<dyn Pool>) {
    let mut faulty =
        faulty(
            move |number, op, _| {
                if number < stop { Ok(op) } else { Err(Error::new(ErrorKind::Unavailable, "killed")) }
            },
        )
        .await;
    if let Some(sound) = sound {
        faulty.inner = sound;
    }
    let sound = Arc::clone(&faulty.inner);
    (Arc::new(faulty), sound)
}

async fn sound_pool() -> Arc<dyn Pool> {
    killed_at(usize::MAX, None).await.0
}

async fn free_lock(at: &Striped) {
    let broken = break_lock(&*at.pool, &at.piece(0).unwrap(), "striper.lock", "benthic", None).await;
    assert!(broken.is_ok() || at.read_head().await.unwrap().is_none(), "{broken:?}");
}

#[tokio::test]
async fn a_copy_killed_at_any_write_stays_hidden_and_can_be_continued() {
    let here = tempfile::tempdir().unwrap();
    let old = file(here.path(), "old", 1, 5 * UNIT + 1);
    let new = file(here.path(), "new", 7, 3 * UNIT - 1);
    let (old_data, new_data) = (std::fs::read(&old).unwrap(), std::fs::read(&new).unwrap());
    for there_before in [false, true] {
        let mut stop = 0;
        loop {
            let sound = if there_before {
                let pool = sound_pool().await;
                put(&at(Arc::clone(&pool)), &old).await.unwrap();
                Some(pool)
            } else {
                None
            };
            let (pool, sound) = killed_at(stop, sound).await;
            let copied = put(&at(pool), &new).await;
            let sound = at(sound);
            let what = format!("before {there_before} stop {stop}");
            match sound.read_head().await.unwrap().map(|head| head.state) {
                Some(StripedState::Complete { size_bytes, .. }) => {
                    // The copy was killed before it began, or after it was complete.
                    free_lock(&sound).await;
                    let data = content(&sound, here.path()).await;
                    assert_eq!(data.len() as u64, size_bytes, "{what}");
                    assert!(data == if stop > 2 { &new_data[..] } else { &old_data[..] }, "{what}");
                }
                Some(_) => assert!(read::open(sound.clone(), OPTIONS).await.is_err(), "{what}"),
                None => assert!(stop == 0, "{what}"),
            }
            let is_done = copied.is_ok();
            free_lock(&sound).await;
            put(&sound, &new).await.unwrap();
            assert!(content(&sound, here.path()).await == new_data, "{what}");
            for piece in 3..8 {
                let gone = sound.pool.stat(&sound.piece(piece).unwrap()).await;
                assert_eq!(gone.map_err(|error| error.kind()).err(), Some(ErrorKind::NotFound), "{what}");
            }
            // The last write only releases the lock. The copy is complete without it.
            if is_done {
                break;
            }
            stop += 1;
        }
        assert!(stop >= 5, "lock, note, pieces, and the end: {stop}");
    }
}

#[tokio::test]
async fn a_removal_that_is_killed_at_any_write_is_completed() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 4 * UNIT);
    for stop in 0..8 {
        let pool = sound_pool().await;
        put(&at(Arc::clone(&pool)), &path).await.unwrap();
        let (pool, sound) = killed_at(stop, Some(pool)).await;
        let removed = kind(remove::remove(&at(pool), 1, Duration::ZERO).await);
        let sound = at(sound);
        match sound.read_head().await.unwrap() {
            None => assert_eq!(removed, Ok(4), "stop {stop}"),
            Some(head) => {
                assert_eq!(removed, Err(ErrorKind::Unavailable));
                assert_eq!(matches!(head.state, StripedState::Complete { .. }), stop < 2, "stop {stop}");
                free_lock(&sound).await;
                kind(remove::remove(&sound, 1, Duration::ZERO).await).unwrap();
            }
        }
        for piece in 0..5 {
            assert!(sound.pool.stat(&sound.piece(piece).unwrap()).await.is_err(), "stop {stop}");
        }
    }
}

#[tokio::test]
async fn a_piece_that_arrives_damaged_is_reported_and_copied_again() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let pool = faulty(move |_, mut op, _| {
        for step in &mut op.steps {
            if let WriteStep::WriteFull { data } = step
                && count.fetch_add(1, Ordering::SeqCst) == 1
            {
                let mut damaged = data.to_vec();
                damaged[5] ^= 1;
                *data = Bytes::from(damaged);
            }
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(pool));
    assert_eq!(put(&to, &path).await, Err(ErrorKind::Corrupt));
    assert!(matches!(to.read_head().await.unwrap().unwrap().state, StripedState::Unfinished(_)));
    let again = put(&to, &path).await.unwrap();
    // The third piece may have been in flight while the second was verified.
    assert!(again.pieces == 3 && (1..3).contains(&again.pieces_kept), "{again:?}");
    assert!(content(&to, here.path()).await == std::fs::read(&path).unwrap());
}

#[tokio::test]
async fn a_run_that_lost_the_lock_does_not_complete_the_striped_object() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let pool = faulty(|_, op, sound| {
        let completes = op
            .steps
            .iter()
            .any(|step| matches!(step, WriteStep::SetXattr { name, .. } if name == "striper.size"));
        if completes {
            let first = ObjectId::new("f.0000000000000000").unwrap();
            let theirs = WriteOp::new().set_xattr(BEGUN_XATTR, r#"{"run":"theirs","pieces":2}"#);
            block_on(sound.write(&first, theirs)).unwrap();
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(pool));
    assert_eq!(put(&to, &path).await, Err(ErrorKind::Conflict));
    assert!(matches!(to.read_head().await.unwrap().unwrap().state, StripedState::Unfinished(_)));
}

#[tokio::test]
async fn a_file_that_changes_during_its_copy_is_a_conflict() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let changed = path.clone();
    let pool = faulty(move |number, op, _| {
        if number == 3 {
            let file = std::fs::File::options().write(true).open(&changed).unwrap();
            file.set_len(2 * UNIT).unwrap();
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(pool));
    assert_eq!(put(&to, &path).await, Err(ErrorKind::Conflict));
    assert!(matches!(to.read_head().await.unwrap().unwrap().state, StripedState::Unfinished(_)));
}

/// A pool with a complete striped object. `meanwhile` changes its first object just before the
/// first operation with a step that `is_it` matches.
async fn taken_over(
    path: &Path,
    is_it: impl Fn(&WriteStep) -> bool + Send + Sync + 'static,
    meanwhile: impl Fn(&dyn Pool, &ObjectId) + Send + Sync + 'static,
) -> Striped {
    let armed = Arc::new(AtomicUsize::new(0));
    let is_armed = Arc::clone(&armed);
    let pool = faulty(move |_, op, sound| {
        if op.steps.iter().any(&is_it) && is_armed.swap(0, Ordering::SeqCst) == 1 {
            meanwhile(sound, &ObjectId::new("f.0000000000000000").unwrap());
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(pool));
    put(&to, path).await.unwrap();
    armed.store(1, Ordering::SeqCst);
    to
}

fn take_lock_away(sound: &dyn Pool, first: &ObjectId) {
    block_on(break_lock(sound, first, "striper.lock", "benthic", None)).unwrap();
}

#[tokio::test]
async fn a_removal_that_lost_the_lock_keeps_the_note_of_the_other_run() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let to = taken_over(
        &path,
        |step| matches!(step, WriteStep::Remove),
        |sound, first| {
            // The second piece is removed first. At that point another run starts.
            let theirs = WriteOp::new().set_xattr(BEGUN_XATTR, r#"{"run":"theirs","pieces":2}"#);
            block_on(sound.write(first, theirs)).unwrap();
        },
    )
    .await;
    assert_eq!(kind(remove::remove(&to, 1, Duration::ZERO).await), Err(ErrorKind::Conflict));
    assert!(
        matches!(to.read_head().await.unwrap().unwrap().state, StripedState::Unfinished(begun) if begun.run == "theirs")
    );
}

#[tokio::test]
async fn no_change_starts_after_the_lock_was_lost() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let other = file(here.path(), "other", 2, 3 * UNIT);
    let begins = |step: &WriteStep| matches!(step, WriteStep::SetXattr { name, .. } if name == BEGUN_XATTR);
    let to = taken_over(&path, begins, take_lock_away).await;
    assert_eq!(kind(remove::remove(&to, 1, Duration::ZERO).await), Err(ErrorKind::Conflict));
    assert!(content(&to, here.path()).await == std::fs::read(&path).unwrap());
    let to = taken_over(&path, begins, take_lock_away).await;
    assert_eq!(put(&to, &other).await, Err(ErrorKind::Conflict));
    assert!(content(&to, here.path()).await == std::fs::read(&path).unwrap());
}

#[tokio::test]
async fn a_late_piece_of_another_copy_is_not_mistaken_for_another_programs_file() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, UNIT);
    let to = at(sound_pool().await);
    put(&to, &path).await.unwrap();
    // As after a program that continues to write its only piece when another copy is already
    // complete.
    let late = vec![9; usize::try_from(UNIT).unwrap()];
    let op = WriteOp::new().set_xattr(PIECE_XATTR, digest(&late)).write_full(late.clone());
    to.pool.write(&to.piece(0).unwrap(), op).await.unwrap();
    let back = here.path().join("back");
    assert_eq!(kind(read::fetch(to.clone(), &back, OPTIONS).await), Err(ErrorKind::Corrupt));
    // As after `rados --striper put`: the attributes belong to the earlier file.
    let theirs = vec![5; usize::try_from(UNIT).unwrap()];
    to.pool.write(&to.piece(0).unwrap(), WriteOp::new().write(0, theirs.clone())).await.unwrap();
    let fetched = kind(read::fetch(to, &back, OPTIONS).await).unwrap();
    assert_eq!((fetched.checked, fetched.pieces_kept), (Verification::Lengths, 0));
    assert!(std::fs::read(&back).unwrap() == theirs);
}

#[test]
fn the_note_of_an_unfinished_change_has_a_limited_number_of_pieces() {
    let state = |begun: &'static str| {
        let xattrs = [(BEGUN_XATTR.to_owned(), Bytes::from_static(begun.as_bytes()))];
        StripedState::parse(&xattrs.into()).unwrap()
    };
    assert!(matches!(state(r#"{"run":"1","pieces":4194304}"#), StripedState::Unfinished(_)));
    assert_eq!(state(r#"{"run":"1","pieces":4194305}"#), StripedState::Bare);
    assert_eq!(state(r#"{"run":"1","pieces":18446744073709551615}"#), StripedState::Bare);
}

#[tokio::test]
async fn an_unverified_upload_is_reported_as_unverified() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let source = Source::File(SourceFile::open(&path).unwrap());
    let unchecked = Options { check: false, ..OPTIONS };
    let stored = kind(store(source, &at(sound_pool().await), LAYOUT, unchecked).await).unwrap();
    assert_eq!(stored.checked, Verification::Skipped);
}

/// Copies a file and compares contents to find unchanged pieces.
async fn put_by_content(to: &Striped, path: &Path) -> Result<CopyResult, ErrorKind> {
    let source = Source::File(SourceFile::open(path).unwrap());
    kind(store(source, to, LAYOUT, Options { checksum: true, ..OPTIONS }).await)
}

#[tokio::test]
async fn a_striped_object_stays_readable_until_a_piece_differs() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let begins = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begins);
    let pool = faulty(move |_, op, _| {
        let begins =
            |step: &WriteStep| matches!(step, WriteStep::SetXattr { name, .. } if name == BEGUN_XATTR);
        let is_first = !op.steps.iter().any(begins) || count.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { Ok(op) } else { Err(Error::new(ErrorKind::Unavailable, "no more")) }
    })
    .await;
    let to = at(Arc::new(pool));
    put(&to, &path).await.unwrap();
    let again = put_by_content(&to, &path).await.unwrap();
    assert_eq!((again.unchanged, again.pieces_kept, again.checked), (true, 3, Verification::Digest));
    assert_eq!(begins.load(Ordering::SeqCst), 1);

    let other = here.path().join("other");
    let mut data = std::fs::read(&path).unwrap();
    *data.last_mut().unwrap() ^= 1;
    std::fs::write(&other, data).unwrap();
    assert_eq!(put_by_content(&to, &other).await, Err(ErrorKind::Unavailable));
    assert_eq!(begins.load(Ordering::SeqCst), 2);
    assert!(content(&to, here.path()).await == std::fs::read(&path).unwrap());
}

#[tokio::test]
async fn a_striped_source_that_changes_during_its_copy_is_a_conflict() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let from = at(sound_pool().await);
    put(&from, &path).await.unwrap();
    // As other programs leave it: without a digest of the whole file.
    let first = from.piece(0).unwrap();
    from.pool.write(&first, WriteOp::new().remove_xattr(NOTE_XATTR)).await.unwrap();
    let (source, number) = (Arc::clone(&from.pool), AtomicU8::new(0));
    let to = faulty(move |_, op, _| {
        // The copy has read a piece when it writes it.
        if op.steps.iter().any(|step| matches!(step, WriteStep::WriteFull { .. })) {
            let others = vec![number.fetch_add(1, Ordering::SeqCst); 100];
            block_on(source.write(&first, WriteOp::new().write(0, others))).unwrap();
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(to));
    let (lock, reading) = read::open(from, OPTIONS).await.unwrap();
    let copied = kind(store(Source::Striped(Arc::new(reading)), &to, LAYOUT, OPTIONS).await);
    lock.release().await;
    assert_eq!(copied, Err(ErrorKind::Conflict));
    assert!(matches!(to.read_head().await.unwrap().unwrap().state, StripedState::Unfinished(_)));
}

/// A pool where every read of a first object sees a new version, as if a lock holder renewed the
/// lock just before.
struct Renewed(Arc<dyn Pool>);

impl Renewed {
    async fn renew(&self, object: &ObjectId) {
        if object.name().ends_with(FIRST_SUFFIX) {
            let op = WriteOp::new().assert_exists().set_xattr("renewed", "now");
            let renewed = self.0.write(object, op).await.map(|_| ()).map_err(|error| error.kind());
            assert!(matches!(renewed, Ok(()) | Err(ErrorKind::NotFound)), "{renewed:?}");
        }
    }
}

#[async_trait]
impl Pool for Renewed {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> benthic_core::Result<ReadReply> {
        self.renew(object).await;
        self.0.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> benthic_core::Result<WriteReply> {
        self.0.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> benthic_core::Result<Bytes> {
        self.renew(object).await;
        self.0.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> benthic_core::Result<ListPage> {
        self.0.list(request).await
    }
}

#[tokio::test]
async fn renewing_the_lock_is_not_a_change_of_the_first_piece() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let to = at(Arc::new(Renewed(sound_pool().await)));
    put(&to, &path).await.unwrap();
    assert!(content(&to, here.path()).await == std::fs::read(&path).unwrap());
    assert_eq!(put_by_content(&to, &path).await.unwrap().pieces_kept, 3);
    kind(remove::remove(&to, 1, Duration::ZERO).await).unwrap();

    // An object of another program, whose pieces take more than one operation.
    let len_bytes = 40 * 1024 * 1024;
    let path = file(here.path(), "large", 2, len_bytes);
    let data = Bytes::from(std::fs::read(&path).unwrap());
    let first = to.piece(0).unwrap();
    let (begin, end) = (data.slice(..data.len() / 2), data.slice(data.len() / 2..));
    to.pool.write(&first, WriteOp::new().write_full(begin)).await.unwrap();
    let op = WriteOp::new().append(end).set_xattr(SIZE_XATTR, len_bytes.to_string());
    let op = op.set_xattr(OBJECT_SIZE_XATTR, (1_u64 << 26).to_string()).set_xattr(STRIPE_COUNT_XATTR, "1");
    to.pool.write(&first, op.set_xattr(STRIPE_UNIT_XATTR, UNIT.to_string())).await.unwrap();
    let back = here.path().join("back");
    assert_eq!(kind(read::fetch(to, &back, OPTIONS).await).unwrap().checked, Verification::Lengths);
    assert!(std::fs::read(&back).unwrap() == data);
}

#[tokio::test]
async fn in_flight_writes_after_a_lost_lock_do_not_replace_other_writes() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let other = file(here.path(), "other", 2, 2 * UNIT - 1);
    for piece in 0..2_u64 {
        let number = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&number);
        let name = ObjectId::new(format!("f.{piece:016x}")).unwrap();
        let theirs = name.clone();
        let pool = faulty(move |_, op, sound| {
            let is_piece = op.steps.iter().any(|step| matches!(step, WriteStep::WriteFull { .. }));
            if is_piece && count.fetch_add(1, Ordering::SeqCst) == 2 + usize::try_from(piece).unwrap() {
                let late = WriteOp::new().write_full("theirs").set_xattr(BEGUN_XATTR, "theirs");
                block_on(sound.write(&theirs, late)).unwrap();
            }
            Ok(op)
        })
        .await;
        let to = at(Arc::new(pool));
        put(&to, &path).await.unwrap();
        assert_eq!(put(&to, &other).await, Err(ErrorKind::Conflict));
        let stat = to.pool.stat(&name).await.unwrap().0;
        assert_eq!(stat.size_bytes, 6, "piece {piece}");
    }
}

#[tokio::test]
async fn replacing_a_piece_that_another_run_removed_is_a_conflict() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let other = file(here.path(), "other", 2, 2 * UNIT - 1);
    let number = AtomicUsize::new(0);
    let pool = faulty(move |_, op, sound| {
        let is_piece = op.steps.iter().any(|step| matches!(step, WriteStep::WriteFull { .. }));
        // The second piece of the second copy.
        if is_piece && number.fetch_add(1, Ordering::SeqCst) == 3 {
            let second = ObjectId::new("f.0000000000000001").unwrap();
            block_on(sound.write(&second, WriteOp::new().remove())).unwrap();
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(pool));
    put(&to, &path).await.unwrap();
    assert_eq!(put(&to, &other).await, Err(ErrorKind::Conflict));
    assert!(matches!(to.read_head().await.unwrap().unwrap().state, StripedState::Unfinished(_)));
}

#[tokio::test]
async fn a_removal_that_lost_the_lock_keeps_the_pieces_of_other_runs() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let second = ObjectId::new("f.0000000000000001").unwrap();
    let theirs = second.clone();
    let removes = |step: &WriteStep| matches!(step, WriteStep::Remove);
    let to = taken_over(&path, removes, move |sound, _| {
        block_on(sound.write(&theirs, WriteOp::new().write_full("theirs"))).unwrap();
    })
    .await;
    assert_eq!(kind(remove::remove(&to, 1, Duration::ZERO).await), Err(ErrorKind::Conflict));
    assert_eq!(to.pool.stat(&second).await.unwrap().0.size_bytes, 6);
}

#[tokio::test]
async fn pieces_that_a_copy_reuses_get_a_new_version() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    // The lock, the note and two pieces.
    let (pool, sound) = killed_at(4, None).await;
    assert_eq!(put(&at(pool), &path).await, Err(ErrorKind::Unavailable));
    let sound = at(sound);
    free_lock(&sound).await;
    let second = sound.piece(1).unwrap();
    let before = sound.pool.stat(&second).await.unwrap().1;
    assert_eq!(put(&sound, &path).await.unwrap().pieces_kept, 2);
    let late = WriteOp::new().assert_version(before).remove();
    assert_eq!(sound.pool.write(&second, late).await.map_err(|error| error.kind()), Err(ErrorKind::Conflict));
    assert!(content(&sound, here.path()).await == std::fs::read(&path).unwrap());
}

/// A pool where another run breaks the lock, starts, and writes a piece just before this run reads
/// that piece.
struct Overtaken {
    pool: Arc<dyn Pool>,
    piece: ObjectId,
    theirs: Mutex<Option<WriteOp>>,
    written: Mutex<Option<u64>>,
}

impl Overtaken {
    fn new(pool: Arc<dyn Pool>, piece: u64, theirs: WriteOp) -> Arc<Overtaken> {
        let piece = ObjectId::new(format!("f.{piece:016x}")).unwrap();
        Arc::new(Overtaken { pool, piece, theirs: Mutex::new(Some(theirs)), written: Mutex::new(None) })
    }

    async fn overtake(&self, theirs: WriteOp) {
        let first = ObjectId::new("f.0000000000000000").unwrap();
        break_lock(&*self.pool, &first, "striper.lock", "benthic", None).await.unwrap();
        let begins = WriteOp::new().set_xattr(BEGUN_XATTR, r#"{"run":"theirs","pieces":3}"#);
        self.pool.write(&first, begins.remove_xattr(SIZE_XATTR)).await.unwrap();
        self.pool.write(&self.piece, theirs).await.unwrap();
        let version = self.pool.stat(&self.piece).await.unwrap().1;
        *self.written.lock().unwrap() = Some(version);
    }

    /// Fails unless the piece and the note are the other run's.
    async fn assert_theirs(&self, what: &str) {
        let written = self.written.lock().unwrap().expect("somebody else wrote the piece");
        let now = self.pool.stat(&self.piece).await.map(|(_, version)| version);
        assert_eq!(now.map_err(|error| error.kind()), Ok(written), "{what}");
        let state = at(Arc::clone(&self.pool)).read_head().await.unwrap().unwrap().state;
        assert!(matches!(state, StripedState::Unfinished(begun) if begun.run == "theirs"), "{what}");
    }
}

#[async_trait]
impl Pool for Overtaken {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> benthic_core::Result<ReadReply> {
        let theirs = if *object == self.piece { self.theirs.lock().unwrap().take() } else { None };
        if let Some(theirs) = theirs {
            self.overtake(theirs).await;
        }
        self.pool.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> benthic_core::Result<WriteReply> {
        self.pool.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> benthic_core::Result<Bytes> {
        self.pool.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> benthic_core::Result<ListPage> {
        self.pool.list(request).await
    }
}

#[tokio::test]
async fn pieces_of_another_run_are_neither_replaced_nor_removed() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let other = file(here.path(), "other", 2, 3 * UNIT - 1);
    let shorter = file(here.path(), "shorter", 2, 2 * UNIT);
    for (what, copied) in
        [("removal", None), ("copy", Some(&other)), ("copy of fewer pieces", Some(&shorter))]
    {
        let pool = sound_pool().await;
        put(&at(Arc::clone(&pool)), &path).await.unwrap();
        let pool = Overtaken::new(pool, 2, WriteOp::new().write_full("theirs"));
        let to = at(Arc::clone(&pool) as Arc<dyn Pool>);
        let done = match copied {
            Some(path) => put(&to, path).await.map(|_| ()),
            None => kind(remove::remove(&to, 1, Duration::ZERO).await).map(|_| ()),
        };
        assert_eq!(done, Err(ErrorKind::Conflict), "{what}");
        pool.assert_theirs(what).await;
    }
}

#[tokio::test]
async fn a_piece_of_the_new_lock_holder_is_not_reused() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let unit = usize::try_from(UNIT).unwrap();
    let same = std::fs::read(&path).unwrap()[unit..2 * unit].to_vec();
    let theirs = WriteOp::new().set_xattr(PIECE_XATTR, digest(&same)).write_full(same);
    // The lock, the note and two pieces.
    let (pool, sound) = killed_at(4, None).await;
    assert_eq!(put(&at(pool), &path).await, Err(ErrorKind::Unavailable));
    free_lock(&at(Arc::clone(&sound))).await;
    let pool = Overtaken::new(sound, 1, theirs.clone());
    assert_eq!(put(&at(Arc::clone(&pool) as Arc<dyn Pool>), &path).await, Err(ErrorKind::Conflict));
    pool.assert_theirs("incomplete").await;

    // A copy that lost the lock before it compared the pieces must not report that the target is
    // already complete.
    let pool = sound_pool().await;
    put(&at(Arc::clone(&pool)), &path).await.unwrap();
    let pool = Overtaken::new(pool, 1, theirs);
    assert_eq!(
        put_by_content(&at(Arc::clone(&pool) as Arc<dyn Pool>), &path).await,
        Err(ErrorKind::Conflict)
    );
    pool.assert_theirs("whole").await;
}
