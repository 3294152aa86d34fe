//! The cache: its bound, restarts, damage, changes at the upstream, and an upstream that cannot be
//! reached.

use super::far::{self, Far};
use super::proxy::Proxy;
use crate::sal::{data, kind, put, read};
use benthic_core::ErrorKind;
use benthic_s3::sal::{
    Bucket, Buckets, Condition, Delete, NewBucket, Object, Objects, Sal, Seen, Uploads, Versioning,
};
use benthic_s3::upstream::{self, UpstreamSal, Validate, is_stale};
use benthic_testkit::wait;
use futures::executor::block_on;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// An upstream with a bucket, the line to it, and the directory of a cache.
pub struct Setup {
    pub far: Far,
    pub far_sal: Arc<dyn Sal>,
    pub own: Arc<dyn Sal>,
    pub line: Proxy,
    pub cache: TempDir,
}

impl Setup {
    pub fn new() -> Setup {
        let far_sal = far::in_memory();
        let far = Far::serve(&far_sal);
        let line = Proxy::to(&far.address);
        let new = NewBucket { name: "photos".into(), owner: "main".into(), ..NewBucket::default() };
        block_on(far_sal.create_bucket(new)).unwrap();
        let cache = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
        Setup { far, far_sal, own: far::in_memory(), line, cache }
    }

    fn options(&self) -> upstream::Options {
        self.far.options(&self.line.address, self.cache.path())
    }

    fn open(&self) -> Arc<UpstreamSal> {
        far::open(Arc::clone(&self.own), self.options())
    }

    /// Changes an object at the upstream.
    fn put(&self, key: &str, data: &[u8]) {
        let bucket = block_on(self.far_sal.bucket("photos")).unwrap();
        put(self.far_sal.as_ref(), &bucket, key, data, crate::sal::finish(data)).unwrap();
    }

    fn delete(&self, key: &str) {
        let bucket = block_on(self.far_sal.bucket("photos")).unwrap();
        block_on(self.far_sal.delete(&bucket, &Delete { key: key.into(), ..Delete::default() })).unwrap();
    }
}

fn bucket(sal: &UpstreamSal) -> Bucket {
    block_on(sal.bucket("photos")).unwrap()
}

fn find(sal: &UpstreamSal, key: &str) -> benthic_core::Result<Object> {
    block_on(sal.object(&bucket(sal), key, None))
}

fn get(sal: &UpstreamSal, key: &str) -> benthic_core::Result<Vec<u8>> {
    let object = find(sal, key)?;
    read(sal, &bucket(sal), &object)
}

fn part(sal: &UpstreamSal, object: &Object, range: Range<u64>) -> benthic_core::Result<Vec<u8>> {
    let reader = block_on(sal.read(&bucket(sal), object, range, None, None))?;
    block_on(crate::sal::rest(reader))
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    files(directory).iter().map(|file| fs::metadata(file).unwrap().blocks() * 512).sum()
}

#[test]
fn a_second_read_needs_no_data_and_a_change_is_seen() {
    let setup = Setup::new();
    let sal = setup.open();
    let one = data(1, 3 * MIB + 5);
    setup.put("k", &one);
    for (misses, hits) in [(4, 0), (4, 4)] {
        assert!(get(&sal, "k").unwrap() == one);
        assert_eq!((count(&sal.metrics().misses), count(&sal.metrics().hits)), (misses, hits));
    }
    // Of a range, only its blocks are fetched.
    let two = data(2, 5 * MIB);
    setup.put("k", &two);
    let object = find(&sal, "k").unwrap();
    let range = (2 * MIB + 7) as u64..(2 * MIB + 9) as u64;
    let found = part(&sal, &object, range).unwrap();
    assert!(found == two[2 * MIB + 7..2 * MIB + 9]);
    assert_eq!(count(&sal.metrics().misses), 5);
    assert!(get(&sal, "k").unwrap() == two);
    setup.delete("k");
    assert_eq!(kind(get(&sal, "k")), ErrorKind::NotFound);
    // A gateway that has deleted an object does not find it, also while the upstream cannot be
    // reached.
    setup.line.set_up(false);
    assert_eq!(kind(get(&sal, "k")), ErrorKind::Unavailable);
}

#[test]
fn validation_follows_the_policy() {
    let setup = Setup::new();
    for (validate, sees_change) in
        [(Validate::Always, true), (Validate::After(3_600_000), false), (Validate::Never, false)]
    {
        let options = upstream::Options { validate, ..setup.options() };
        let sal = far::open(Arc::clone(&setup.own), options);
        let (one, two) = (data(1, 100), data(2, 100));
        setup.put("k", &one);
        assert!(get(&sal, "k").unwrap() == one || !sees_change);
        sal_put(&sal, "k", &one).unwrap();
        assert!(get(&sal, "k").unwrap() == one, "a gateway sees its own writes");
        setup.put("k", &two);
        let requests = count(&sal.metrics().requests);
        assert!(get(&sal, "k").unwrap() == if sees_change { two.clone() } else { one.clone() });
        // The lookup of the bucket is a request, too.
        let of_bucket = 2;
        assert_eq!(count(&sal.metrics().requests) - requests > of_bucket, sees_change, "{validate:?}");
        sal_put(&sal, "k", &two).unwrap();
        assert!(get(&sal, "k").unwrap() == two);
    }
}

fn sal_put(sal: &UpstreamSal, key: &str, data: &[u8]) -> benthic_core::Result<()> {
    put(sal, &bucket(sal), key, data, crate::sal::finish(data)).map(|_| ())
}

#[test]
fn the_cache_keeps_its_bound_and_evicts_by_use() {
    let setup = Setup::new();
    let options = upstream::Options { cache_bytes: 16 << 20, ..setup.options() };
    let sal = far::open(Arc::clone(&setup.own), options);
    setup.put("often", &data(99, MIB));
    for n in 0..40 {
        setup.put("seldom", &data(n, MIB));
        get(&sal, "often").unwrap();
        get(&sal, "seldom").unwrap();
        assert!(sal.cached_bytes() <= 16 << 20);
        assert!(disk_bytes(&setup.cache.path().join("blocks")) <= 16 << 20);
    }
    assert!(sal.cached_bytes() > 12 << 20, "the cache is used");
    let misses = count(&sal.metrics().misses);
    get(&sal, "often").unwrap();
    assert_eq!(count(&sal.metrics().misses), misses);
    assert_eq!(misses, 41);
    // Writes in flight count.
    let mut writer = block_on(sal.write(&bucket(&sal), "large", None, None, None, None)).unwrap();
    for n in 0..15 {
        block_on(writer.write(data(n, MIB).into())).unwrap();
    }
    assert!(sal.cached_bytes() <= 2 << 20);
    let full = block_on(async {
        writer.write(data(1, MIB).into()).await?;
        writer.write(data(1, MIB).into()).await
    });
    assert_eq!(kind(full), ErrorKind::Busy);
    drop(writer);
    get(&sal, "seldom").unwrap();
    let small = upstream::Options { cache_bytes: 1 << 20, ..setup.options() };
    let _entered = far::RUNTIME.enter();
    let opened = UpstreamSal::open(Arc::clone(&setup.own), small, benthic_core::Environment::default());
    assert_eq!(kind(opened.map(|_| ())), ErrorKind::InvalidArgument);
}

#[test]
fn a_restart_keeps_the_cache_and_another_process_cannot_use_it() {
    let setup = Setup::new();
    let sal = setup.open();
    let wanted = data(1, 2 * MIB);
    setup.put("k", &wanted);
    get(&sal, "k").unwrap();
    {
        let _entered = far::RUNTIME.enter();
        let environment = benthic_core::Environment::default();
        let second = UpstreamSal::open(Arc::clone(&setup.own), setup.options(), environment);
        assert_eq!(kind(second.map(|_| ())), ErrorKind::Busy);
    }
    drop(sal);
    fs::write(setup.cache.path().join("blocks/00/new-torn"), b"torn").unwrap();
    let sal = setup.open();
    assert!(get(&sal, "k").unwrap() == wanted);
    assert_eq!((count(&sal.metrics().misses), count(&sal.metrics().hits)), (0, 2));
    assert!(!setup.cache.path().join("blocks/00/new-torn").exists());
    drop(sal);
    // A smaller bound holds from the start.
    for n in 0..20 {
        setup.put(&format!("k{n}"), &data(n, MIB));
    }
    let sal = setup.open();
    (0..20).for_each(|n| drop(get(&sal, &format!("k{n}")).unwrap()));
    assert!(sal.cached_bytes() > 20 << 20);
    drop(sal);
    let sal =
        far::open(Arc::clone(&setup.own), upstream::Options { cache_bytes: 16 << 20, ..setup.options() });
    assert!(sal.cached_bytes() <= 16 << 20);
    assert!(disk_bytes(&setup.cache.path().join("blocks")) <= 16 << 20);
    get(&sal, "k19").unwrap();
    assert_eq!(count(&sal.metrics().misses), 0, "the newest blocks stay");
}

#[test]
fn a_damaged_block_is_fetched_again() {
    let setup = Setup::new();
    let wanted = data(1, 50);
    setup.put("k", &wanted);
    let sal = setup.open();
    get(&sal, "k").unwrap();
    let of_block = |file: &PathBuf| fs::read(file).unwrap().ends_with(&wanted);
    let mut rounds = 0;
    for file in files(&setup.cache.path().join("blocks")) {
        let (sound, is_block) = (fs::read(&file).unwrap(), of_block(&file));
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&file, damaged).unwrap();
            let before = count(&sal.metrics().damaged);
            assert!(get(&sal, "k").unwrap() == wanted, "at={at}");
            assert_eq!(count(&sal.metrics().damaged) - before, u64::from(is_block), "at={at}");
            assert!(!is_block || fs::read(&file).unwrap() == sound, "the block is stored again");
            rounds += 1;
        }
        for len in [0, 8, 27, sound.len() - 1] {
            fs::write(&file, &sound[..len]).unwrap();
            assert!(get(&sal, "k").unwrap() == wanted, "len={len}");
        }
        fs::remove_file(&file).unwrap();
        assert!(get(&sal, "k").unwrap() == wanted);
    }
    assert!(rounds > 200);
    // A sound block of another object, under the name of this one.
    setup.put("other", &data(2, 50));
    get(&sal, "other").unwrap();
    let all = files(&setup.cache.path().join("blocks"));
    let mine = all.iter().find(|file| of_block(file)).unwrap();
    let foreign = all.iter().find(|file| fs::read(file).unwrap().ends_with(&data(2, 50))).unwrap();
    fs::copy(foreign, mine).unwrap();
    assert!(get(&sal, "k").unwrap() == wanted);
}

#[test]
fn without_the_upstream_the_cache_serves_reads_and_says_so() {
    let setup = Setup::new();
    let (wanted, half) = (data(1, 100), data(2, 3 * MIB));
    setup.put("k", &wanted);
    setup.put("half", &half);
    setup.put("unread", b"1");
    let sal = setup.open();
    assert!(get(&sal, "k").unwrap() == wanted && !is_stale(&find(&sal, "k").unwrap()));
    let object = find(&sal, "half").unwrap();
    assert!(part(&sal, &object, 0..10).unwrap() == half[..10]);
    setup.line.set_up(false);
    let outage = |sal: &UpstreamSal| {
        assert!(get(sal, "k").unwrap() == wanted);
        assert!(is_stale(&find(sal, "k").unwrap()));
        assert_eq!(count(&sal.metrics().is_up), 0);
        assert_eq!(kind(get(sal, "unread")), ErrorKind::Unavailable);
        assert_eq!(kind(get(sal, "half")), ErrorKind::Unavailable, "before the first byte");
        assert!(part(sal, &find(sal, "half").unwrap(), 0..10).unwrap() == half[..10]);
        let error = sal_put(sal, "k", b"new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let bucket = bucket(sal);
        block_on(async {
            let delete = Delete { key: "unread".into(), ..Delete::default() };
            assert_eq!(kind(sal.delete(&bucket, &delete).await), ErrorKind::Unavailable);
            let upload = sal.create_upload(&bucket, "u", Default::default(), Default::default(), None).await;
            assert_eq!(kind(upload), ErrorKind::Unavailable);
            let new = NewBucket { name: "more".into(), owner: "main".into(), ..NewBucket::default() };
            assert_eq!(kind(sal.create_bucket(new).await), ErrorKind::Unavailable);
            let (buckets, _) = sal.list_buckets("main", None, 10).await.unwrap();
            assert_eq!(buckets.len(), 1, "known buckets are listed");
        });
    };
    outage(&sal);
    // A restart changes nothing.
    drop(sal);
    let sal = setup.open();
    outage(&sal);
    setup.line.set_up(true);
    wait::until("the upstream", || get(&sal, "unread").is_ok_and(|found| found == b"1"));
    sal_put(&sal, "k", b"new").unwrap();
    assert!(get(&sal, "k").unwrap() == b"new" && count(&sal.metrics().is_up) == 1);
}

#[test]
fn readers_of_one_block_share_a_fetch() {
    let setup = Setup::new();
    let wanted = data(1, 10);
    setup.put("k", &wanted);
    setup.line.set_round_trip(200);
    let sal = setup.open();
    let object = find(&sal, "k").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert!(read(sal.as_ref(), &bucket(&sal), &object).unwrap() == wanted));
        }
    });
    // A late reader finds it in the cache.
    assert_eq!(count(&sal.metrics().misses), 1);
    assert!(count(&sal.metrics().hits) < 15, "readers share");
}

#[test]
fn a_changed_object_is_an_error_and_not_a_mixture() {
    let setup = Setup::new();
    let sal =
        far::open(Arc::clone(&setup.own), upstream::Options { validate: Validate::Never, ..setup.options() });
    let (one, two) = (data(1, 3 * MIB), data(2, 3 * MIB));
    setup.put("k", &one);
    let object = find(&sal, "k").unwrap();
    assert!(part(&sal, &object, 0..10).unwrap() == one[..10]);
    setup.put("k", &two);
    assert_eq!(kind(read(sal.as_ref(), &bucket(&sal), &object)), ErrorKind::Unavailable);
    assert!(get(&sal, "k").unwrap() == two, "the next lookup asks again");
    // In a bucket with versions, the reader gets the version that it began to read.
    block_on(async {
        let bucket = setup.far_sal.bucket("photos").await.unwrap();
        let new = Bucket { versioning: Versioning::Enabled, ..bucket.clone() };
        setup.far_sal.update_bucket(&bucket, &new).await.unwrap();
    });
    setup.put("k", &one);
    setup.put("versioned", &one);
    let object = find(&sal, "versioned").unwrap();
    setup.put("versioned", &two);
    assert!(read(sal.as_ref(), &bucket(&sal), &object).unwrap() == one);
}

#[test]
fn what_is_known_of_an_object_stays_as_long_as_its_data() {
    let setup = Setup::new();
    let options = || upstream::Options { cache_bytes: 16 << 20, ..setup.options() };
    let sal = far::open(Arc::clone(&setup.own), options());
    setup.put("often", b"1");
    for n in 0..24 {
        setup.put("seldom", &data(n, MIB));
        get(&sal, "often").unwrap();
        get(&sal, "seldom").unwrap();
    }
    drop(sal);
    setup.line.set_up(false);
    let sal = far::open(Arc::clone(&setup.own), options());
    assert!(get(&sal, "often").unwrap() == b"1");
}

#[test]
fn a_slow_copy_completes_and_a_late_write_does_not_stop_the_others() {
    let setup = Setup::new();
    let sal = setup.open();
    setup.put("k", b"1");
    get(&sal, "k").unwrap();
    let (bucket, object) = (bucket(&sal), find(&sal, "k").unwrap());
    drop(sal);
    let mut options = setup.options();
    options.endpoint.answer_timeout = Duration::from_millis(1_500);
    let sal = far::open(Arc::clone(&setup.own), options);
    setup.line.set_round_trip(3_500);
    block_on(sal.copy((&bucket, &object), &bucket, "copy", crate::sal::finish(b"1"))).unwrap();
    let late = put(sal.as_ref(), &bucket, "late", b"", crate::sal::finish(b""));
    assert_eq!(kind(late), ErrorKind::OutcomeUnknown);
    assert_eq!(count(&sal.metrics().is_up), 1, "the upstream can be reached");
    // An upstream that does not even answer HEAD cannot be.
    assert!(is_stale(&block_on(sal.object(&bucket, "k", None)).unwrap()));
    assert_eq!(count(&sal.metrics().is_up), 0);
}

#[test]
fn metadata_of_every_kind_return() {
    let setup = Setup::new();
    let sal = setup.open();
    let mut finish = crate::sal::finish(b"1");
    for (name, value) in [("lines", "a\nb"), ("names", "Zo\u{eb}"), ("plain", "a b")] {
        finish.attributes.insert(format!("meta:{name}"), value.into());
    }
    put(sal.as_ref(), &bucket(&sal), "k", b"1", finish.clone()).unwrap();
    let far = block_on(async {
        let bucket = setup.far_sal.bucket("photos").await.unwrap();
        setup.far_sal.object(&bucket, "k", None).await.unwrap()
    });
    for found in [far, find(&sal, "k").unwrap()] {
        for (name, value) in &finish.attributes {
            assert_eq!(found.attributes.get(name), Some(value), "{name}");
        }
    }
}

#[test]
fn only_the_object_that_was_seen_is_deleted() {
    let setup = Setup::new();
    let sal = setup.open();
    let delete = |object: &Object| {
        let seen = Seen { write: object.write, revision: object.revision };
        let condition = Condition::Current(seen);
        let delete = Delete { key: "k".into(), condition, ..Delete::default() };
        block_on(sal.delete(&bucket(&sal), &delete)).map(|_| ())
    };
    setup.put("k", b"1");
    let old = find(&sal, "k").unwrap();
    setup.put("k", b"2");
    assert_eq!(kind(delete(&old)), ErrorKind::Conflict);
    assert!(get(&sal, "k").unwrap() == b"2");
    delete(&find(&sal, "k").unwrap()).unwrap();
    assert_eq!(kind(get(&sal, "k")), ErrorKind::NotFound);
}
