//! Writes that are acknowledged before the upstream has them: outages, restarts, damage, order.

use super::cache::{Setup, files};
use super::far;
use crate::sal::{data, etag, finish, kind, put, read};
use benthic_core::{ErrorKind, Result};
use benthic_s3::sal::{
    Attributes, Bucket, Buckets, Condition, Delete, Finish, List, ListKind, NewBucket, Objects,
};
use benthic_s3::upstream::{self, UpstreamSal, pending_status};
use bytes::Bytes;
use futures::executor::block_on;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const MIB: usize = 1 << 20;

impl Setup {
    fn open_write_back(&self) -> Arc<UpstreamSal> {
        self.open_with(256 << 20)
    }

    fn open_with(&self, cache_bytes: u64) -> Arc<UpstreamSal> {
        let options = self.far.options(&self.line.address, self.cache.path());
        far::open(Arc::clone(&self.own), upstream::Options { write_back: true, cache_bytes, ..options })
    }

    /// Ends a gateway as a crash does, except that the file system loses nothing.
    fn close(&self, sal: Arc<UpstreamSal>) {
        block_on(sal.stop());
        assert_eq!(Arc::strong_count(&sal), 1);
    }

    fn far_bucket(&self) -> Bucket {
        block_on(self.far_sal.bucket("photos")).unwrap()
    }

    fn far_get(&self, key: &str) -> Result<Vec<u8>> {
        let bucket = self.far_bucket();
        let object = block_on(self.far_sal.object(&bucket, key, None))?;
        read(self.far_sal.as_ref(), &bucket, &object)
    }

    /// The files of pending changes, the oldest first.
    fn pending(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(self.cache.path().join("pending"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && path.extension().is_none())
            .collect();
        found.sort();
        found
    }
}

fn bucket(sal: &UpstreamSal) -> Bucket {
    block_on(sal.bucket("photos")).unwrap()
}

fn store(sal: &UpstreamSal, key: &str, data: &[u8]) -> Result<()> {
    put(sal, &bucket(sal), key, data, finish(data)).map(drop)
}

fn store_if(sal: &UpstreamSal, key: &str, data: &[u8], condition: Condition) -> Result<()> {
    put(sal, &bucket(sal), key, data, Finish { condition, ..finish(data) }).map(drop)
}

fn remove(sal: &UpstreamSal, key: &str) -> Result<()> {
    let delete = Delete { key: key.into(), ..Delete::default() };
    block_on(sal.delete(&bucket(sal), &delete)).map(drop)
}

fn get(sal: &UpstreamSal, key: &str) -> Result<Vec<u8>> {
    let object = block_on(sal.object(&bucket(sal), key, None))?;
    read(sal, &bucket(sal), &object)
}

fn list(sal: &UpstreamSal, prefix: &str, delimiter: &str, entries_max: u32) -> Vec<String> {
    let (prefix, delimiter) = (prefix.to_owned(), delimiter.to_owned());
    let mut list = List { kind: ListKind::Objects, prefix, delimiter, after: None, entries_max };
    let mut names = Vec::new();
    loop {
        let page = block_on(sal.list(&bucket(sal), &list)).unwrap();
        assert!(page.entries.len() <= entries_max as usize);
        names.extend(crate::sal::names(&page.entries));
        match page.next {
            None => return names,
            next => list.after = next,
        }
    }
}

#[test]
fn writes_wait_while_the_upstream_is_unreachable() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    store(&sal, "seen", b"before").unwrap();
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.far_get("seen").unwrap(), b"before");
    setup.line.set_up(false);
    let (small, large) = (data(1, 1_000), data(2, 3 * MIB + 7));
    store(&sal, "small", &small).unwrap();
    store(&sal, "large", &large).unwrap();
    store(&sal, "empty", b"").unwrap();
    store(&sal, "seen", b"after").unwrap();
    store(&sal, "gone", b"x").unwrap();
    remove(&sal, "gone").unwrap();
    let expected =
        [("small", &small[..]), ("large", &large[..]), ("empty", &b""[..]), ("seen", &b"after"[..])];
    for (key, wanted) in expected {
        assert!(get(&sal, key).unwrap() == wanted, "{key}");
        let object = block_on(sal.object(&bucket(&sal), key, None)).unwrap();
        assert_eq!((object.etag, object.size_bytes), (etag(wanted), wanted.len() as u64));
    }
    assert_eq!(kind(get(&sal, "gone")), ErrorKind::NotFound);
    let object = block_on(sal.object(&bucket(&sal), "large", None)).unwrap();
    let range = (MIB - 3) as u64..(2 * MIB + 5) as u64;
    let reader = block_on(sal.read(&bucket(&sal), &object, range, None, None)).unwrap();
    assert!(block_on(crate::sal::rest(reader)).unwrap() == large[MIB - 3..2 * MIB + 5]);
    // Requests that only the upstream can fulfil fail, and change nothing.
    let refused = store_if(&sal, "new", b"x", Condition::Absent);
    assert_eq!(kind(refused), ErrorKind::Unavailable);
    let status = pending_status(setup.cache.path()).unwrap();
    assert_eq!(
        (status.changes, status.bytes, status.damaged),
        (6, (small.len() + large.len() + 6) as u64, 0)
    );
    assert_eq!(sal.metrics().pending.load(Relaxed), 6);
    assert!(setup.far_get("small").is_err());
    setup.line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    for (key, wanted) in expected {
        assert!(setup.far_get(key).unwrap() == wanted, "{key}");
        assert!(get(&sal, key).unwrap() == wanted, "{key}");
    }
    assert_eq!(kind(setup.far_get("gone")), ErrorKind::NotFound);
    let status = pending_status(setup.cache.path()).unwrap();
    assert_eq!((status.changes, status.oldest_ms, status.last_error), (0, None, None));
    assert_eq!(sal.metrics().pending.load(Relaxed), 0);
}

#[test]
fn a_restart_continues_and_keeps_the_order_and_the_attributes() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    store(&sal, "k", b"zero").unwrap();
    block_on(sal.drain_all()).unwrap();
    setup.line.set_up(false);
    let attributes = Attributes::from([
        ("content-type".to_owned(), Bytes::from_static(b"text/plain")),
        ("meta:who".to_owned(), Bytes::from_static(b"ada")),
    ]);
    for text in ["one", "two", "three"] {
        let finish = Finish { attributes: attributes.clone(), ..finish(text.as_bytes()) };
        put(sal.as_ref(), &bucket(&sal), "k", text.as_bytes(), finish).unwrap();
    }
    setup.close(sal);
    // A write that was not acknowledged leaves a file without a number.
    let torn = setup.cache.path().join("pending/new-1234");
    fs::write(&torn, b"half").unwrap();
    let sal = setup.open_write_back();
    assert!(!torn.exists());
    assert_eq!(get(&sal, "k").unwrap(), b"three");
    remove(&sal, "other").unwrap();
    setup.close(sal);
    setup.line.set_up(true);
    // Also without the option: acknowledged changes are not forgotten.
    let options = setup.far.options(&setup.line.address, setup.cache.path());
    let sal = far::open(Arc::clone(&setup.own), options);
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.far_get("k").unwrap(), b"three");
    let found = block_on(setup.far_sal.object(&setup.far_bucket(), "k", None)).unwrap();
    let kept: Vec<_> = attributes.keys().map(|name| found.attributes.get(name)).collect();
    assert_eq!(kept, attributes.values().map(Some).collect::<Vec<_>>());
}

#[test]
fn a_change_that_was_sent_before_a_crash_is_sent_again() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    bucket(&sal);
    setup.line.set_up(false);
    store(&sal, "k", b"one").unwrap();
    let path = setup.pending().remove(0);
    let kept = fs::read(&path).unwrap();
    setup.line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.pending(), Vec::<PathBuf>::new());
    setup.close(sal);
    // The crash came after the upload and before the removal.
    fs::write(&path, kept).unwrap();
    let sal = setup.open_write_back();
    store(&sal, "k", b"two").unwrap();
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.far_get("k").unwrap(), b"two");
}

#[test]
fn damaged_changes_are_reported_and_never_sent() {
    let setup = Setup::new();
    for at in [10, 2 * MIB] {
        let sal = setup.open_write_back();
        bucket(&sal);
        setup.line.set_up(false);
        store(&sal, "whole", b"sound").unwrap();
        store(&sal, "torn", &data(3, 2 * MIB + 100)).unwrap();
        store(&sal, "torn-record", b"data").unwrap();
        setup.close(sal);
        let pending = setup.pending();
        let flip = |path: &PathBuf, at: usize| {
            let mut bytes = fs::read(path).unwrap();
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
        };
        flip(&pending[1], at);
        flip(&pending[2], 20);
        let sal = setup.open_write_back();
        // The check of the upload may already have set it aside.
        assert!([ErrorKind::Corrupt, ErrorKind::Unavailable].contains(&kind(get(&sal, "torn"))));
        setup.line.set_up(true);
        block_on(sal.drain_all()).unwrap();
        assert_eq!(setup.far_get("whole").unwrap(), b"sound");
        assert_eq!(kind(setup.far_get("torn")), ErrorKind::NotFound);
        assert_eq!(kind(setup.far_get("torn-record")), ErrorKind::NotFound);
        let status = pending_status(setup.cache.path()).unwrap();
        assert_eq!((status.changes, status.damaged), (0, 2));
        assert_eq!(sal.metrics().damaged_pending.load(Relaxed), 2);
        setup.close(sal);
        fs::remove_dir_all(setup.cache.path().join("pending/damaged")).unwrap();
    }
}

#[test]
fn the_bound_of_the_cache_holds_for_changes() {
    let setup = Setup::new();
    let sal = setup.open_with(16 << 20);
    bucket(&sal);
    setup.line.set_up(false);
    let mut stored = 0;
    let full = loop {
        match store(&sal, &format!("k{stored}"), &data(stored, MIB)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::Busy);
    assert!((10..16).contains(&stored), "{stored}");
    let bytes: u64 = files(setup.cache.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes <= 16 << 20);
    setup.line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    store(&sal, "again", &data(99, MIB)).unwrap();
    block_on(sal.drain_all()).unwrap();
    for number in 0..stored {
        assert!(setup.far_get(&format!("k{number}")).unwrap() == data(number, MIB));
    }
}

#[test]
fn conditions_are_decided_by_the_pending_change_or_by_the_upstream() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    // Nothing is pending: the upstream decides.
    store_if(&sal, "k", b"one", Condition::Absent).unwrap();
    assert_eq!(setup.far_get("k").unwrap(), b"one");
    assert_eq!(kind(store_if(&sal, "k", b"two", Condition::Absent)), ErrorKind::Conflict);
    setup.line.set_up(false);
    store(&sal, "k", b"two").unwrap();
    let matches = |data: &[u8]| Condition::Matches(etag(data));
    assert_eq!(kind(store_if(&sal, "k", b"x", matches(b"one"))), ErrorKind::Conflict);
    assert_eq!(kind(store_if(&sal, "k", b"x", Condition::Absent)), ErrorKind::Conflict);
    store_if(&sal, "k", b"three", matches(b"two")).unwrap();
    remove(&sal, "k").unwrap();
    assert_eq!(kind(store_if(&sal, "k", b"x", Condition::Exists)), ErrorKind::NotFound);
    store_if(&sal, "k", b"four", Condition::Absent).unwrap();
    assert_eq!(get(&sal, "k").unwrap(), b"four");
    setup.line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.far_get("k").unwrap(), b"four");
    // The last writer wins, also over somebody else's change at the upstream.
    setup.line.set_up(false);
    store(&sal, "k", b"five").unwrap();
    put(setup.far_sal.as_ref(), &setup.far_bucket(), "k", b"other", finish(b"other")).unwrap();
    setup.line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.far_get("k").unwrap(), b"five");
    assert_eq!(get(&sal, "k").unwrap(), b"five");
}

#[test]
fn listings_contain_pending_changes() {
    let setup = Setup::new();
    for key in ["a/1", "a/2", "b/1", "c", "d/1", "e"] {
        put(setup.far_sal.as_ref(), &setup.far_bucket(), key, b"x", finish(b"x")).unwrap();
    }
    let sal = setup.open_write_back();
    assert_eq!(list(&sal, "", "", 2), ["a/1", "a/2", "b/1", "c", "d/1", "e"]);
    // The upstream refuses writes, but lists.
    let far_bucket = setup.far_bucket();
    let quota = benthic_s3::sal::Quota { bytes_max: Some(6), ..far_bucket.quota };
    block_on(setup.far_sal.update_bucket(&far_bucket, &Bucket { quota, ..far_bucket.clone() })).unwrap();
    store(&sal, "a/3", b"new").unwrap();
    store(&sal, "bb/1", b"new").unwrap();
    store(&sal, "zz", b"new").unwrap();
    store(&sal, "c", b"changed").unwrap();
    let wanted = ["a/1", "a/2", "a/3", "b/1", "bb/1", "c", "d/1", "e", "zz"];
    for page in [1, 2, 3, 5, 100] {
        assert_eq!(list(&sal, "", "", page), wanted, "{page}");
        assert_eq!(list(&sal, "", "/", page), ["a/", "b/", "bb/", "c", "d/", "e", "zz"], "{page}");
        assert_eq!(list(&sal, "a/", "/", page), ["a/1", "a/2", "a/3"], "{page}");
    }
    assert_eq!(get(&sal, "c").unwrap(), b"changed");
    let status = pending_status(setup.cache.path()).unwrap();
    assert_eq!(status.changes, 4);
    let is_shown = || {
        let status = pending_status(setup.cache.path()).unwrap();
        status.last_error.is_some_and(|last| !last.error.is_empty())
    };
    assert!((0..1_000_000).any(|_| is_shown()), "the refusal is shown");
    // Deletions wait, too, if their upload fails: the line is down while they are made.
    setup.line.set_up(false);
    for key in ["d/1", "a/2", "e", "zz"] {
        remove(&sal, key).unwrap();
    }
    assert_eq!(kind(block_on(sal.list(&bucket(&sal), &all()))), ErrorKind::Unavailable);
    let far_bucket = setup.far_bucket();
    let quota = benthic_s3::sal::Quota::default();
    block_on(setup.far_sal.update_bucket(&far_bucket, &Bucket { quota, ..far_bucket.clone() })).unwrap();
    setup.line.set_up(true);
    for _ in 0..20 {
        // At every moment, whether the changes are pending or not.
        if let Ok(page) = block_on(sal.list(&bucket(&sal), &all())) {
            assert_eq!(crate::sal::names(&page.entries), ["a/", "b/", "bb/", "c"]);
        }
    }
    block_on(sal.drain_all()).unwrap();
    assert_eq!(list(&sal, "", "", 100), ["a/1", "a/3", "b/1", "bb/1", "c"]);
}

fn all() -> List {
    List {
        kind: ListKind::Objects,
        prefix: String::new(),
        delimiter: "/".to_owned(),
        after: None,
        entries_max: 100,
    }
}

/// Stores an object, and does something else between its data and its end.
fn store_slowly(sal: &UpstreamSal, bucket: &Bucket, key: &str, between: impl FnOnce()) -> Result<()> {
    let mut writer = block_on(sal.write(bucket, key, None, None, None, None))?;
    block_on(writer.write(Bytes::from_static(b"data")))?;
    between();
    block_on(writer.finish(finish(b"data"))).map(drop)
}

#[test]
fn a_bucket_that_is_deleted_during_a_write_keeps_no_change() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    // Through this gateway, also if the bucket exists again.
    let delete = || block_on(sal.delete_bucket("photos")).unwrap();
    assert_eq!(kind(store_slowly(&sal, &bucket(&sal), "k", delete)), ErrorKind::NotFound);
    assert_eq!(setup.pending(), Vec::<PathBuf>::new());
    let new = || NewBucket { name: "photos".into(), owner: "main".into(), ..NewBucket::default() };
    block_on(sal.create_bucket(new())).unwrap();
    let replace = || {
        block_on(sal.delete_bucket("photos")).unwrap();
        block_on(sal.create_bucket(new())).unwrap();
    };
    assert_eq!(kind(store_slowly(&sal, &bucket(&sal), "k", replace)), ErrorKind::NotFound);
    assert_eq!(setup.pending(), Vec::<PathBuf>::new());
    // At the upstream.
    let delete = || block_on(setup.far_sal.delete_bucket("photos")).unwrap();
    assert_eq!(kind(store_slowly(&sal, &bucket(&sal), "k", delete)), ErrorKind::NotFound);
    assert_eq!(setup.pending(), Vec::<PathBuf>::new());
    block_on(setup.far_sal.create_bucket(new())).unwrap();
    // A line that breaks meanwhile says nothing about the bucket.
    store_slowly(&sal, &bucket(&sal), "k", || setup.line.set_up(false)).unwrap();
    assert_eq!(setup.pending().len(), 1);
    setup.line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    assert_eq!(setup.far_get("k").unwrap(), b"data");
}

#[test]
fn a_bucket_that_is_deleted_beside_writers_keeps_no_change() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    for round in 0..3 {
        let bucket = bucket(&sal);
        let writer = |thread: u32| {
            let (sal, bucket, key) = (&sal, &bucket, format!("k{thread}"));
            move || {
                // Until the bucket is gone.
                let failed = (0..10_000).find_map(|_| {
                    let delete = Delete { key: key.clone(), ..Delete::default() };
                    let stored = store_slowly(sal, bucket, &key, || ());
                    let changed = stored.and_then(|()| block_on(sal.delete(bucket, &delete)).map(drop));
                    changed.err().filter(|error| error.kind() != ErrorKind::Busy)
                });
                assert_eq!(failed.unwrap().kind(), ErrorKind::NotFound);
            }
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2).map(|thread| scope.spawn(writer(thread))).collect();
            // The bucket is empty only at some moments.
            let deleted = (0..1_000).any(|_| block_on(sal.delete_bucket("photos")).is_ok());
            assert!(deleted, "{round}");
            for writer in writers {
                writer.join().unwrap();
            }
        });
        block_on(sal.drain_all()).unwrap();
        assert_eq!(setup.pending(), Vec::<PathBuf>::new());
        let new = NewBucket { name: "photos".into(), owner: "main".into(), ..NewBucket::default() };
        block_on(sal.create_bucket(new)).unwrap();
    }
}

#[test]
fn a_cache_with_changes_serves_no_other_upstream() {
    let setup = Setup::new();
    let sal = setup.open_write_back();
    bucket(&sal);
    setup.line.set_up(false);
    store(&sal, "k", b"one").unwrap();
    setup.close(sal);
    let other = setup.far.options(&setup.far.address, setup.cache.path());
    let _entered = far::RUNTIME.enter();
    let opened = UpstreamSal::open(Arc::clone(&setup.own), other, benthic_core::Environment::default());
    let error = opened.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains(&setup.line.address), "{error}");
}
