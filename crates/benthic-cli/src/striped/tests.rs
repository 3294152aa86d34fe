use super::layout::Layout;
use super::lock::Locks;
use super::read::{self, Checked, Copied, Options};
use super::write::{Source, SourceFile, store};
use super::{BEGUN_XATTR, State, Striped, remove};
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
