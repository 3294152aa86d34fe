//! A store that this process may read and not write.

use crate::recovery::{check, fill};
use crate::support::{block_on, copy_of_running, files, id, noise, open, pool, with_pool};
use benthic_core::{ClassCall, ErrorKind, Store, WriteOp};
use benthic_embedded::EmbeddedStore;
use benthic_testkit::mounts::{mounted, skipped};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The variables that name the directory of a store, and where it is mounted read-only.
const DIR: &str = "BENTHIC_READ_ONLY_DIR";
const MOUNT: &str = "BENTHIC_READ_ONLY_MOUNT";

/// Runs `child` with the store in `dir` mounted read-only in another place.
fn with_read_only_mount(test: &str, dir: &Path) {
    let mount = tempfile::tempdir().unwrap();
    let script = format!("mount --bind \"${DIR}\" \"${MOUNT}\" && mount -o remount,bind,ro \"${MOUNT}\"");
    let Some(mut command) = mounted(&script) else { return skipped(test) };
    command.arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", &format!("read_only::{test}_child"), "--nocapture"]);
    let ended = command.env(DIR, dir).env(MOUNT, mount.path()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(text(&ended.stdout).contains("1 passed"), "{}", text(&ended.stdout));
}

fn mount() -> PathBuf {
    std::env::var(MOUNT).expect("another test starts this one").into()
}

fn open_mounted() -> Arc<EmbeddedStore> {
    EmbeddedStore::open(&mount(), false, crate::support::options()).unwrap()
}

/// Names, times and contents of all files.
fn state(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let found = files(dir).into_iter().chain([dir.join("lock")]).filter(|path| path.exists());
    let read = |path: PathBuf| {
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let content = std::fs::read(&path).unwrap();
        (path, (modified, content))
    };
    found.map(read).collect()
}

/// A closed store, some of whose operations are only in the log.
fn closed_store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).close().unwrap();
    dir
}

#[test]
fn everything_can_be_read() {
    for has_lock in [true, false] {
        let dir = closed_store();
        if !has_lock {
            std::fs::remove_file(dir.path().join("lock")).unwrap();
        }
        let before = state(dir.path());
        with_read_only_mount("everything_can_be_read", dir.path());
        assert!(before == state(dir.path()), "has_lock={has_lock}");
        check(&open(dir.path()));
    }
}

#[test]
#[ignore = "another test starts it"]
fn everything_can_be_read_child() {
    let store = open_mounted();
    assert!(!store.is_owner());
    check(&store);
    let pool = pool(&store);
    let digest = ClassCall::new("digest", "compute", "xxh3");
    assert_eq!(block_on(pool.exec(&id("0"), digest)).unwrap().len(), 32);
    block_on(store.flush()).unwrap();

    let create = WriteOp::new().create(false);
    let record = ClassCall::new("digest", "xxh3", "");
    let refusals = [
        ("write", block_on(pool.write(&id("new"), create.clone())).map(drop)),
        ("write", block_on(pool.write(&id("0"), create.buffered())).map(drop)),
        ("write", block_on(pool.remove(&id("0")))),
        ("exec", block_on(pool.exec(&id("0"), record)).map(drop)),
        ("create pool", block_on(store.create_pool("q"))),
        ("remove pool", block_on(store.remove_pool("p"))),
        ("", store.check_writable()),
    ];
    for (op, refused) in refusals {
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.op()), (ErrorKind::PermissionDenied, op));
        let reason =
            "writes are disabled because the store is opened read-only: its file system is mounted read-only";
        assert_eq!(error.message(), reason);
    }
    assert_eq!(block_on(store.create_pool("p")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(block_on(pool.stat(&id("new"))).unwrap_err().kind(), ErrorKind::NotFound);
    check(&store);
    store.close().unwrap();
    assert_eq!(block_on(pool.stat(&id("0"))).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn readers_keep_owners_out() {
    with_read_only_mount("readers_keep_owners_out", closed_store().path());
    let dir = closed_store();
    std::fs::remove_file(dir.path().join("lock")).unwrap();
    with_read_only_mount("readers_keep_owners_out", dir.path());
}

#[test]
#[ignore = "another test starts it"]
fn readers_keep_owners_out_child() {
    let dir = PathBuf::from(std::env::var(DIR).unwrap());
    let has_lock = dir.join("lock").exists();
    let (first, second) = (open_mounted(), open_mounted());
    check(&first);
    check(&second);
    let (opened, owner) = std::sync::mpsc::channel();
    std::thread::spawn(move || opened.send(open(&dir)));
    if has_lock {
        let waited = owner.recv_timeout(std::time::Duration::from_millis(300));
        assert!(waited.is_err(), "the owner waits for the readers");
        check(&second);
        first.close().unwrap();
        second.close().unwrap();
    }
    let owner = owner.recv().unwrap();
    assert!(owner.is_owner());
    check(&owner);
    if !has_lock {
        // Nothing keeps an owner out, so the readers notice it.
        let error = block_on(pool(&owner).write_full(&id("0"), "new")).and(block_on(first.list_pools()));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("opened the store for writing"), "{error}");
    }
    // The next reader goes through the owner.
    let reader = open_mounted();
    assert!(!reader.is_owner());
    block_on(pool(&reader).write_full(&id("new"), "new")).unwrap();
}

#[test]
fn a_store_that_was_not_closed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("o"), "data")).unwrap();
    let killed = copy_of_running(dir.path());
    let before = state(killed.path());
    with_read_only_mount("a_store_that_was_not_closed_is_refused", killed.path());
    assert!(before == state(killed.path()));
    drop(store);
}

#[test]
#[ignore = "another test starts it"]
fn a_store_that_was_not_closed_is_refused_child() {
    let open = || EmbeddedStore::open(&mount(), false, crate::support::options());
    let error = open().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.message().contains("its log must be replayed"), "{error}");
    assert!(error.message().contains("benthic fsck"), "{error}");
}

#[test]
fn remains_of_a_checkpoint_are_not_removed() {
    for name in ["kv/tables/77", "kv/v77"] {
        let dir = closed_store();
        std::fs::write(dir.path().join(name), "unfinished").unwrap();
        let before = state(dir.path());
        with_read_only_mount("a_store_that_was_not_closed_is_refused", dir.path());
        assert!(before == state(dir.path()), "{name}");
    }
}

#[test]
fn data_that_only_the_log_has_are_read() {
    let dir = closed_store();
    // A power cut after the close may undo writes to the data file that the log repeats.
    let data = dir.path().join("data");
    let intact = std::fs::read(&data).unwrap();
    let store = open(dir.path());
    block_on(pool(&store).write_full(&id("4097"), noise(3, 4_097))).unwrap();
    store.close().unwrap();
    assert!(std::fs::read(&data).unwrap() != intact);
    std::fs::write(&data, &intact).unwrap();
    with_read_only_mount("data_that_only_the_log_has_are_read", dir.path());
}

#[test]
#[ignore = "another test starts it"]
fn data_that_only_the_log_has_are_read_child() {
    let store = open_mounted();
    let pool = pool(&store);
    assert!(block_on(pool.read_range(&id("4097"), 0, 9_000)).unwrap() == noise(3, 4_097));
}
