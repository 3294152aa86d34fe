//! A disk that fills up and gets free space again. The disk is a tmpfs of fixed size in a mount
//! namespace of a child process, so it disappears with the process.

use super::child::TASK_VARIABLE;
use crate::support::id;
use benthic_core::{ErrorKind, Pool, Reason, Result, Stopwatch, Store, SystemClock, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::mounts::mounted;
use benthic_testkit::wait;
use futures::executor::block_on;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DISK: &str = "24m";
const DIR: &str = "BENTHIC_FULL_DIR";
/// Number of times that the test fills the disk.
const ROUNDS: usize = 3;
const PAUSE: Duration = Duration::from_millis(20);
/// The disk counts as full after this many consecutive refusals with pauses between them.
const REFUSALS: u32 = 40;
/// Exceeds the number of tables that the key-value store may have.
const SLOWLY: usize = 300;
/// Minimum that fits before the disk may be full.
const FULL_BYTES_MIN: usize = 8 << 20;
/// Minimum on a disk that another program fills afterwards. With the log and its reserve, a write
/// of [`AGAIN_BYTES`] takes almost as much.
const CROWDED_BYTES_MIN: usize = 10 << 20;
/// Length of the write that must fit after the removal of all objects.
const AGAIN_BYTES: usize = 8 << 20;
/// Time limit for the cleaner. Even on a slow and busy machine it frees space much sooner.
const STALL: Duration = Duration::from_secs(240);

/// Runs `child` on a small, empty disk.
fn on_a_small_disk(task: &str) {
    let dir = tempfile::tempdir().unwrap();
    let command = mounted(&format!("mount -t tmpfs -o size={DISK} none \"${DIR}\""));
    let mut command =
        command.expect("this test mounts a file system: run it as root, or allow user namespaces");
    command.arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "power::full::child", "--nocapture", "--test-threads=1"]);
    let ended = command.env(DIR, dir.path()).env(TASK_VARIABLE, task).output().unwrap();
    assert!(
        ended.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
}

fn options() -> Options {
    Options { workers: 2, log_bytes_max: 4 << 20, ..Options::default() }
}

fn open(dir: &Path) -> (Arc<EmbeddedStore>, Arc<dyn Pool>) {
    let store = EmbeddedStore::open(dir, true, options()).unwrap();
    if block_on(store.list_pools()).unwrap().is_empty() {
        block_on(store.create_pool("p")).unwrap();
    }
    let pool = crate::support::pool(&store);
    (store, pool)
}

/// Writes until the disk stays full, and at least `count_min` times. Returns the number of
/// successful writes.
fn until_full<T>(count_min: usize, write: impl Fn(usize) -> Result<T>) -> usize {
    let (mut count, mut refused) = (0, 0);
    let time = Stopwatch::start(&SystemClock);
    while refused < REFUSALS || count < count_min {
        assert!(time.elapsed() < STALL, "the disk was full early count={count}");
        match write(count) {
            Ok(_) => (count, refused) = (count + 1, 0),
            Err(error) => {
                assert_eq!(error.reason(), Some(Reason::StoreFull), "{error}");
                refused += 1;
                wait::pause(PAUSE);
            }
        }
    }
    count
}

/// Fills the disk with objects of `len` bytes and returns their number.
fn fill(pool: &dyn Pool, len: usize, count_min: usize) -> usize {
    until_full(count_min, |index| {
        let op = WriteOp::new().write_full(crate::support::noise(index as u64, len));
        // Every hundredth write is durable and waits for the disk.
        let op = if len < 10_000 && index % 100 != 99 { op.buffered() } else { op };
        block_on(pool.write(&id(&index.to_string()), op))
    })
}

/// Another program fills the space that the store has left. During a checkpoint or a merge, the
/// store's reserve is part of the free space. The other program must not take it, so it tries again
/// until the reserve is as large as before.
fn take_the_rest(store: &Path) {
    let reserved = || std::fs::metadata(store.join("log/reserve")).unwrap().blocks();
    let path = store.with_file_name("other");
    let time = Stopwatch::start(&SystemClock);
    loop {
        let before = reserved();
        if before > 0 {
            let mut file = std::fs::File::create(&path).unwrap();
            while file.write_all(&[1; 4_096]).is_ok() {}
            if reserved() >= before {
                return;
            }
            std::fs::remove_file(&path).unwrap();
        }
        assert!(time.elapsed() < STALL, "the store has no reserve");
        wait::pause(PAUSE);
    }
}

/// Retries while the disk is full and the cleaner frees space.
fn until_taken<T>(take: impl Fn() -> Result<T>) {
    let time = Stopwatch::start(&SystemClock);
    while let Err(error) = take() {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert!(time.elapsed() < STALL, "the disk stays full");
        wait::pause(PAUSE);
    }
}

/// Checks that the store soon accepts a write of `len` bytes.
fn eventually_takes(pool: &dyn Pool, len: usize) {
    until_taken(|| block_on(pool.write_full(&id("again"), crate::support::noise(7, len))));
}

/// Removes an object; retries while the disk has no room for the log record.
fn remove(pool: &dyn Pool, name: &str) {
    until_taken(|| block_on(pool.remove(&id(name))));
}

/// Removes objects one by one. Each removal succeeds or is refused; none has an unknown outcome.
/// Every tenth is durable.
fn remove_all(pool: &dyn Pool, names: impl Iterator<Item = String>) {
    for (index, name) in names.enumerate() {
        let op =
            || if index % 10 == 9 { WriteOp::new().remove() } else { WriteOp::new().remove().buffered() };
        until_taken(|| block_on(pool.write(&id(&name), op())));
    }
}

/// Writes until `stop` is set, without waiting while the disk is full. Returns the number of
/// objects written.
fn write_all_the_time(pool: &dyn Pool, stop: &AtomicBool) -> usize {
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        match block_on(pool.write_full(&id(&format!("other {written}")), crate::support::noise(3, 3_000))) {
            Ok(_) => written += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}"),
        }
    }
    written
}

/// Long log records: the removal of an object with many extents, and the removal of all objects
/// with their pool.
fn a_pool_goes(dir: &Path) {
    let (store, pool) = open(dir);
    let write = |object: &str, block: u64| {
        let op = WriteOp::new().write(block * 8_192, crate::support::noise(block, 4_096)).buffered();
        block_on(pool.write(&id(object), op))
    };
    (0..1_000).for_each(|block| until_taken(|| write("large", block)));
    let blocks = until_full(500, |block| write(&(block / 8).to_string(), block as u64 % 8));
    remove(&*pool, "large");
    fill(&*pool, 1_500, CROWDED_BYTES_MIN.saturating_sub(blocks * 4_096) / 1_600);
    take_the_rest(dir);
    block_on(store.remove_pool("p")).unwrap();
    until_taken(|| block_on(store.create_pool("p")));
    let pool = crate::support::pool(&store);
    eventually_takes(&*pool, AGAIN_BYTES);
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
}

/// Each removal wakes the cleaner but frees almost no space.
fn objects_go_slowly(dir: &Path) {
    let (store, pool) = open(dir);
    let write = |name: &str| {
        let op = WriteOp::new().write_full(crate::support::noise(1, 1_500)).set_xattr("a", "b").buffered();
        block_on(pool.write(&id(name), op))
    };
    let count = until_full(CROWDED_BYTES_MIN / 1_600, |index| write(&index.to_string()));
    take_the_rest(dir);
    let mut others = 0;
    for index in 0..SLOWLY {
        remove(&*pool, &index.to_string());
        others += usize::from(write(&format!("other {others}")).is_ok());
        wait::pause(PAUSE / 4);
    }
    remove_all(&*pool, (SLOWLY..count).map(|index| index.to_string()));
    remove_all(&*pool, (0..others).map(|index| format!("other {index}")));
    eventually_takes(&*pool, AGAIN_BYTES);
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
}

#[test]
#[ignore = "the other tests start it"]
fn child() {
    let dir = std::env::var(DIR).expect("the tests of a full disk start this test and set its directory");
    let dir = Path::new(&dir).join("store");
    let task = std::env::var(TASK_VARIABLE).unwrap();
    match task.as_str() {
        "pool" => return a_pool_goes(&dir),
        "slowly" => return objects_go_slowly(&dir),
        _ => {}
    }
    let (len, crowded) = task.split_once(' ').map_or((task.as_str(), false), |(len, _)| (len, true));
    let len: usize = len.parse().unwrap();
    let (mut store, mut pool) = open(&dir);
    for round in 0..ROUNDS {
        let count = fill(&*pool, len, FULL_BYTES_MIN / (len + 400));
        if round > 0 {
            // A store that was closed on a full disk opens and has its data.
            block_on(store.flush()).unwrap();
            store.close().unwrap();
            (store, pool) = open(&dir);
        }
        for index in 0..count {
            let data = block_on(pool.read_range(&id(&index.to_string()), 0, 1 << 20)).unwrap();
            assert!(data == crate::support::noise(index as u64, len), "round={round} object={index}");
        }
        let removed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others = crowded.then(|| scope.spawn(|| write_all_the_time(&*pool, &removed)));
            remove_all(&*pool, (0..count).map(|index| index.to_string()));
            removed.store(true, Ordering::Relaxed);
            let written = others.map_or(0, |others| others.join().unwrap());
            remove_all(&*pool, (0..written).map(|index| format!("other {index}")));
        });
        assert_eq!(block_on(store.fsck()).unwrap().findings, [], "round={round}");
        eventually_takes(&*pool, 1 << 20);
        block_on(pool.remove(&id("again"))).unwrap();
    }
    store.close().unwrap();
    let (store, pool) = open(&dir);
    assert_eq!(block_on(store.fsck()).unwrap().findings, []);
    assert_eq!(block_on(pool.scrub(None)).unwrap().damage, []);
}

#[test]
fn a_disk_full_of_large_objects_is_freed_by_removing_them() {
    on_a_small_disk("300000");
}

#[test]
fn a_disk_full_of_small_objects_is_freed_by_removing_them() {
    on_a_small_disk("20000");
}

#[test]
fn a_disk_full_of_tiny_objects_is_freed_by_removing_them() {
    on_a_small_disk("1500");
}

#[test]
fn a_full_disk_is_freed_by_removing_its_pool() {
    on_a_small_disk("pool");
}

#[test]
fn a_full_disk_is_freed_by_slow_removals() {
    on_a_small_disk("slowly");
}

#[test]
fn a_full_disk_is_freed_while_other_clients_write() {
    on_a_small_disk("1500 crowded");
}
