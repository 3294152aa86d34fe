use super::layout::Layout;
use super::lock::Locks;
use super::read::{self, Checked, Copied, Options};
use super::write::{Source, SourceFile, store};
use super::{BEGUN_XATTR, PIECE_XATTR, State, Striped, digest, remove};
use crate::exit::{Failure, Outcome};
use crate::faulty::Faulty;
use benthic_classes::lock::client::break_lock;
use benthic_core::{Error, ErrorKind, ObjectId, Pool, WriteOp, WriteStep};
use bytes::Bytes;
use futures::executor::block_on;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const UNIT: u64 = 64 * 1024;
const LAYOUT: Layout = Layout { object_size: UNIT, stripe_unit: UNIT, stripe_count: 1 };
const OPTIONS: Options = Options { jobs: 1, checksum: false, check: true, lock_wait: Duration::ZERO };

fn at(pool: Arc<dyn Pool>) -> Striped {
    Striped { pool, object: ObjectId::new("f").unwrap(), locks: Locks::Own }
}

fn file(directory: &Path, name: &str, byte: u8, len_bytes: u64) -> PathBuf {
    let path = directory.join(name);
    let data: Vec<u8> = (0..len_bytes).map(|at| byte.wrapping_add((at / 1000) as u8)).collect();
    std::fs::write(&path, data).unwrap();
    path
}

async fn put(to: &Striped, path: &Path) -> Result<Copied, ErrorKind> {
    let source = Source::File(SourceFile::open(path).unwrap());
    kind(store(source, to, LAYOUT, OPTIONS).await)
}

fn kind<T>(outcome: Outcome<T>) -> Result<T, ErrorKind> {
    outcome.map_err(|failure| match failure {
        Failure::Error(error) => error.kind(),
        other => panic!("{other}"),
    })
}

async fn content(from: &Striped, directory: &Path) -> Vec<u8> {
    let back = directory.join("back");
    // What is there already would not be fetched.
    let _ = std::fs::remove_file(&back);
    let fetched = kind(read::fetch(from.clone(), &back, OPTIONS).await).unwrap();
    assert_eq!(fetched.checked, Checked::Digest);
    std::fs::read(&back).unwrap()
}

/// A pool whose writes all fail from number `stop` on, as for a program that is killed there.
async fn killed_at(stop: usize, sound: Option<Arc<dyn Pool>>) -> (Arc<dyn Pool>, Arc<dyn Pool>) {
    let mut faulty =
        Faulty::pool(
            move |number, op, _| {
                if number < stop { Ok(op) } else { Err(Error::new(ErrorKind::Unavailable, "killed")) }
            },
        )
        .await;
    if let Some(sound) = sound {
        faulty.sound = sound;
    }
    let sound = Arc::clone(&faulty.sound);
    (Arc::new(faulty), sound)
}

async fn free_lock(at: &Striped) {
    let broken = break_lock(&*at.pool, &at.piece(0).unwrap(), "striper.lock", "benthic", None).await;
    assert!(broken.is_ok() || at.look().await.unwrap().is_none(), "{broken:?}");
}

#[tokio::test]
async fn a_copy_that_is_killed_at_any_write_is_not_seen_and_goes_on() {
    let here = tempfile::tempdir().unwrap();
    let old = file(here.path(), "old", 1, 5 * UNIT + 1);
    let new = file(here.path(), "new", 7, 3 * UNIT - 1);
    let (old_data, new_data) = (std::fs::read(&old).unwrap(), std::fs::read(&new).unwrap());
    for there_before in [false, true] {
        let mut stop = 0;
        loop {
            let sound = if there_before {
                let (pool, _) = killed_at(usize::MAX, None).await;
                put(&at(Arc::clone(&pool)), &old).await.unwrap();
                Some(pool)
            } else {
                None
            };
            let (pool, sound) = killed_at(stop, sound).await;
            let copied = put(&at(pool), &new).await;
            let sound = at(sound);
            let what = format!("before {there_before} stop {stop}");
            match sound.look().await.unwrap().map(|head| head.state) {
                Some(State::Whole { size_bytes, .. }) => {
                    // Killed before it began, or after all was done.
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
            // The last write is that of the lock's release, without which all is done too.
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
        let (pool, _) = killed_at(usize::MAX, None).await;
        put(&at(Arc::clone(&pool)), &path).await.unwrap();
        let (pool, sound) = killed_at(stop, Some(pool)).await;
        let removed = kind(remove::remove(&at(pool), 1, Duration::ZERO).await);
        let sound = at(sound);
        match sound.look().await.unwrap() {
            None => assert_eq!(removed, Ok(4), "stop {stop}"),
            Some(head) => {
                assert_eq!(removed, Err(ErrorKind::Unavailable));
                assert_eq!(matches!(head.state, State::Whole { .. }), stop < 2, "stop {stop}");
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
async fn a_piece_that_arrives_damaged_is_told_and_copied_again() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let pool = Faulty::pool(move |_, mut op, _| {
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
    assert!(matches!(to.look().await.unwrap().unwrap().state, State::Begun(_)));
    let again = put(&to, &path).await.unwrap();
    // The third may have been under way while the second was checked.
    assert!(again.pieces == 3 && (1..3).contains(&again.pieces_kept), "{again:?}");
    assert!(content(&to, here.path()).await == std::fs::read(&path).unwrap());
}

#[tokio::test]
async fn whoever_lost_the_striped_object_to_somebody_else_does_not_make_it_whole() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let pool = Faulty::pool(|_, op, sound| {
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
    assert!(matches!(to.look().await.unwrap().unwrap().state, State::Begun(_)));
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_copied_is_not_taken_for_one() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 3 * UNIT);
    let changed = path.clone();
    let pool = Faulty::pool(move |number, op, _| {
        if number == 3 {
            let file = std::fs::File::options().write(true).open(&changed).unwrap();
            file.set_len(2 * UNIT).unwrap();
        }
        Ok(op)
    })
    .await;
    let to = at(Arc::new(pool));
    assert_eq!(put(&to, &path).await, Err(ErrorKind::Conflict));
    assert!(matches!(to.look().await.unwrap().unwrap().state, State::Begun(_)));
}

/// A pool with a whole striped object, where `meanwhile` happens to the first object before the operation that `is_it` means.
async fn taken_over(
    path: &Path,
    is_it: impl Fn(&WriteStep) -> bool + Send + Sync + 'static,
    meanwhile: impl Fn(&dyn Pool, &ObjectId) + Send + Sync + 'static,
) -> Striped {
    let armed = Arc::new(AtomicUsize::new(0));
    let is_armed = Arc::clone(&armed);
    let pool = Faulty::pool(move |_, op, sound| {
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
async fn a_removal_that_lost_the_striped_object_leaves_what_another_copy_made_of_it() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let to = taken_over(
        &path,
        |step| matches!(step, WriteStep::Remove),
        |sound, first| {
            // The first to be removed is the second piece: by then somebody else has begun.
            let theirs = WriteOp::new().set_xattr(BEGUN_XATTR, r#"{"run":"theirs","pieces":2}"#);
            block_on(sound.write(first, theirs)).unwrap();
        },
    )
    .await;
    assert_eq!(kind(remove::remove(&to, 1, Duration::ZERO).await), Err(ErrorKind::Conflict));
    assert!(matches!(to.look().await.unwrap().unwrap().state, State::Begun(begun) if begun.run == "theirs"));
}

#[tokio::test]
async fn nothing_begins_when_the_lock_was_lost() {
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
async fn a_piece_of_another_copy_is_not_taken_for_a_file_of_another_program() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, UNIT);
    let (pool, _) = killed_at(usize::MAX, None).await;
    let to = at(pool);
    put(&to, &path).await.unwrap();
    // As a program leaves it that goes on with its only piece after another one has completed its copy.
    let late = vec![9; usize::try_from(UNIT).unwrap()];
    let op = WriteOp::new().set_xattr(PIECE_XATTR, digest(&late)).write_full(late.clone());
    to.pool.write(&to.piece(0).unwrap(), op).await.unwrap();
    let back = here.path().join("back");
    assert_eq!(kind(read::fetch(to.clone(), &back, OPTIONS).await), Err(ErrorKind::Corrupt));
    // As `rados --striper put` leaves it: the attributes are those of the file before.
    let theirs = vec![5; usize::try_from(UNIT).unwrap()];
    to.pool.write(&to.piece(0).unwrap(), WriteOp::new().write(0, theirs.clone())).await.unwrap();
    let fetched = kind(read::fetch(to, &back, OPTIONS).await).unwrap();
    assert_eq!((fetched.checked, fetched.pieces_kept), (Checked::Lengths, 0));
    assert!(std::fs::read(&back).unwrap() == theirs);
}

#[test]
fn what_is_begun_has_no_more_pieces_than_a_file_can_have() {
    let state = |begun: &'static str| {
        let xattrs = [(BEGUN_XATTR.to_owned(), Bytes::from_static(begun.as_bytes()))];
        State::parse(&xattrs.into()).unwrap()
    };
    assert!(matches!(state(r#"{"run":"1","pieces":4194304}"#), State::Begun(_)));
    assert_eq!(state(r#"{"run":"1","pieces":4194305}"#), State::Bare);
    assert_eq!(state(r#"{"run":"1","pieces":18446744073709551615}"#), State::Bare);
}

#[tokio::test]
async fn an_upload_that_is_not_checked_says_so() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "f", 1, 2 * UNIT);
    let (pool, _) = killed_at(usize::MAX, None).await;
    let source = Source::File(SourceFile::open(&path).unwrap());
    let unchecked = Options { check: false, ..OPTIONS };
    let stored = kind(store(source, &at(pool), LAYOUT, unchecked).await).unwrap();
    assert_eq!(stored.checked, Checked::No);
}
