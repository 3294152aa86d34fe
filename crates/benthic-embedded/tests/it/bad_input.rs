//! Bad input returns an error of the right kind with a clear message, and has no effect.

use crate::damage::offset_of;
use crate::support::{block_on, id, noise, open, options, read_all, with_pool};
use benthic_core::{ClassCall, ErrorKind, Store, WriteOp, limits};
use benthic_embedded::EmbeddedStore;
use std::fs;
use std::path::Path;

fn open_error(dir: &Path, create: bool) -> benthic_core::Error {
    match EmbeddedStore::open(dir, create, options()) {
        Err(error) => error,
        Ok(_) => panic!("the store opened"),
    }
}

#[test]
fn a_missing_store_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(open_error(&dir.path().join("missing"), false).kind(), ErrorKind::NotFound);
    assert_eq!(open_error(dir.path(), false).kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a failed open creates nothing");
}

#[test]
fn a_directory_with_other_files_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
    for create in [false, true] {
        let error = open_error(dir.path(), create);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("holiday.jpg"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let file = dir.path().join("holiday.jpg");
    assert_eq!(open_error(&file, false).kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_newer_format_is_unsupported() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    fs::write(dir.path().join("format"), "benthic store, format 2\n").unwrap();
    let error = open_error(dir.path(), true);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("newer"), "{error}");
    fs::write(dir.path().join("format"), "benthic s").unwrap();
    assert_eq!(open_error(dir.path(), true).kind(), ErrorKind::Corrupt);
}

#[test]
fn a_truncated_data_file_damages_only_its_last_objects() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("small"), noise(1, 100))).unwrap();
    block_on(pool.write_full(&id("first"), noise(2, 100_000))).unwrap();
    block_on(pool.write_full(&id("last"), noise(3, 300_000))).unwrap();
    store.close().unwrap();
    let data = fs::OpenOptions::new().write(true).open(dir.path().join("data")).unwrap();
    data.set_len(data.metadata().unwrap().len() - 150_000).unwrap();
    let store = open(dir.path());
    let pool = crate::support::pool(&store);
    let error = read_all(pool.as_ref(), "last").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let found = offset_of(&error, "p/last");
    assert!(read_all(pool.as_ref(), "first").unwrap() == noise(2, 100_000));
    assert!(read_all(pool.as_ref(), "small").unwrap() == noise(1, 100));
    let damage = block_on(pool.scrub(None)).unwrap().damage;
    assert!(
        !damage.is_empty() && damage.iter().all(|damage| damage.object == Some(id("last"))),
        "{damage:?}"
    );
    assert_eq!(damage[0].offset_bytes, Some(found), "a long read reports the same offset as the scrub");
}

#[test]
fn a_write_over_the_object_limit_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, pool) = with_pool(dir.path());
    let object = id("large");
    let half = noise(1, 64 << 20);
    block_on(pool.write_full(&object, half.clone())).unwrap();
    block_on(pool.write(&object, WriteOp::new().append(half.clone()))).unwrap();
    assert_eq!(block_on(pool.stat(&object)).unwrap().0.size_bytes, limits::OBJECT_BYTES_MAX);
    let version = block_on(pool.stat(&object)).unwrap().1;
    let error = block_on(pool.write(&object, WriteOp::new().append("x"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(block_on(pool.stat(&object)).unwrap().1, version);
    assert!(block_on(pool.read_range(&object, 64 << 20, 64 << 20)).unwrap() == half);
    let other = id("other");
    let error = block_on(pool.write(&other, WriteOp::new().write_full(half).append("x"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("several"), "{error}");
    assert_eq!(block_on(pool.stat(&other)).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_closed_store_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(block_on(pool.stat(&id("o"))).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(block_on(store.list_pools()).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_removed_pool_is_not_found_and_a_new_one_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("o"), noise(1, 100_000))).unwrap();
    block_on(store.remove_pool("p")).unwrap();
    assert_eq!(block_on(pool.stat(&id("o"))).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(block_on(pool.write_full(&id("o"), "x")).unwrap_err().kind(), ErrorKind::NotFound);
    let call = ClassCall { class: "hello".into(), method: "say".into(), input: "x".into() };
    assert_eq!(block_on(pool.exec(&id("o"), call)).unwrap_err().kind(), ErrorKind::NotFound);
    block_on(store.create_pool("p")).unwrap();
    let pool = crate::support::pool(&store);
    assert_eq!(block_on(pool.stat(&id("o"))).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_store_without_its_format_file_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("o"), "x")).unwrap();
    store.close().unwrap();
    let format = dir.path().join("format");
    let line = fs::read(&format).unwrap();
    fs::remove_file(&format).unwrap();
    let error = open_error(dir.path(), true);
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("format file is missing"), "{error}");
    fs::write(&format, line).unwrap();
    assert!(read_all(crate::support::pool(&open(dir.path())).as_ref(), "o").unwrap() == b"x");
}

#[test]
fn attributes_that_exceed_a_reply_are_rejected_before_they_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, pool) = with_pool(dir.path());
    for batch in 0..11 {
        let op = (0..100).fold(WriteOp::new().buffered(), |op, attribute| {
            op.set_xattr(format!("{batch}/{attribute}"), noise(attribute, 64 << 10))
        });
        block_on(pool.write(&id("o"), op)).unwrap();
    }
    let error = block_on(pool.read(&id("o"), benthic_core::ReadOp::new().list_xattrs())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(block_on(pool.get_xattr(&id("o"), "3/4")).unwrap(), noise(4, 64 << 10));
}

#[test]
fn writes_fail_after_the_directory_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, pool) = with_pool(dir.path());
    block_on(pool.write_full(&id("a"), noise(1, 100_000))).unwrap();
    fs::remove_dir_all(dir.path()).unwrap();
    let error = block_on(pool.write_full(&id("b"), "data without a name")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.to_string().contains("removed"), "{error}");
    let error = block_on(pool.remove(&id("a"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(store.close().is_err());
}
