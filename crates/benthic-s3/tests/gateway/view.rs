//! Views of pools, on engines that list in the order of names and on one that lists in the order of
//! a hash.

use async_trait::async_trait;
use benthic_core::{
    ClassCall, ClassHost, ClassInfo, Environment, ErrorKind, ListPage, ListRequest, ListToken, ManualClock,
    ObjectId, Pool, ReadOp, ReadReply, Result, Store, SystemRandom, WriteOp, WriteReply,
};
use benthic_embedded::{EmbeddedStore, MemStore};
use benthic_s3::sal::{
    Attributes, Bucket, Buckets, Delete, Entry, Finish, List, ListKind, ListPosition, Lock, NewBucket,
    Object, Objects, Sal, Uploads,
};
use benthic_s3::view::{VIEW, View, ViewSal};
use benthic_s3::{Options, PoolSal};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The calls that a store got, and how its pools list.
#[derive(Default)]
struct Watch {
    /// Lists in the order of a hash, as Ceph does.
    is_hashed: bool,
    /// Time that each call to list takes.
    list_ms: u64,
    clock: Arc<ManualClock>,
    listings: AtomicU64,
    listed: AtomicU64,
}

struct WatchedStore(Arc<dyn Store>, Arc<Watch>);

struct WatchedPool(Arc<dyn Pool>, Arc<Watch>);

#[async_trait]
impl Store for WatchedStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        self.0.create_pool(name).await
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        self.0.remove_pool(name).await
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        self.0.list_pools().await
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        Ok(Arc::new(WatchedPool(self.0.open_pool(name).await?, Arc::clone(&self.1))))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        self.0.classes().await
    }

    fn class_host(&self) -> ClassHost {
        self.0.class_host()
    }

    async fn flush(&self) -> Result<()> {
        self.0.flush().await
    }
}

#[async_trait]
impl Pool for WatchedPool {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.0.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.0.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.0.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let page =
            if self.1.is_hashed { self.list_hashed(request).await? } else { self.0.list(request).await? };
        self.1.clock.advance_ms(self.1.list_ms);
        self.1.listings.fetch_add(1, Ordering::Relaxed);
        self.1.listed.fetch_add(page.objects.len() as u64, Ordering::Relaxed);
        Ok(page)
    }

    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        if self.1.is_hashed { None } else { self.0.token_after(object) }
    }
}

fn hash(id: &ObjectId) -> [u8; 32] {
    *blake3::hash(id.name().as_bytes()).as_bytes()
}

impl WatchedPool {
    /// The token is the hash of the last name.
    async fn list_hashed(&self, request: ListRequest) -> Result<ListPage> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = self.0.list(ListRequest { after, objects_max: usize::MAX, ..request.clone() }).await?;
            all.extend(page.objects);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        all.sort_by_cached_key(hash);
        let start =
            request.after.map_or(0, |ListToken(last)| all.partition_point(|id| hash(id)[..] <= last[..]));
        let end = (start + request.objects_max).min(all.len());
        let objects = all[start..end].to_vec();
        let next = (end < all.len()).then(|| ListToken(Bytes::copy_from_slice(&hash(&all[end - 1]))));
        Ok(ListPage { objects, next })
    }
}

struct Case {
    sal: ViewSal,
    pool: Arc<dyn Pool>,
    store: Arc<dyn Store>,
    watch: Arc<Watch>,
}

impl Case {
    fn new(store: Arc<dyn Store>, watch: Watch) -> Case {
        let watch = Arc::new(watch);
        let store = Arc::new(WatchedStore(store, Arc::clone(&watch))) as Arc<dyn Store>;
        for name in ["s3", "climate"] {
            block_on(store.create_pool(name)).unwrap();
        }
        let index = block_on(store.open_pool("s3")).unwrap();
        let buckets = block_on(PoolSal::open(Arc::clone(&index), index, Options::default())).unwrap();
        let environment = Environment { clock: watch.clock.clone(), random: Arc::new(SystemRandom) };
        let sal = ViewSal::new(Arc::new(buckets) as Arc<dyn Sal>, Arc::clone(&store), environment);
        let pool = block_on(store.open_pool("climate")).unwrap();
        Case { sal, pool, store, watch }
    }

    fn in_memory(watch: Watch) -> Case {
        let options = benthic_embedded::Options::default().with_classes(benthic_classes::registry());
        Case::new(MemStore::new(options), watch)
    }

    fn view(&self, name: &str, of: &str) -> Bucket {
        let view: View = of.parse().unwrap();
        let attributes = Attributes::from([(VIEW.to_owned(), view.to_string().into())]);
        let new = NewBucket { name: name.into(), owner: "ada".into(), attributes, ..NewBucket::default() };
        block_on(self.sal.create_bucket(new)).unwrap()
    }

    fn put(&self, name: &str, data: &[u8]) {
        block_on(self.pool.write_full(&ObjectId::new(name).unwrap(), data.to_vec())).unwrap();
    }

    fn read(&self, bucket: &Bucket, object: &Object) -> Result<Vec<u8>> {
        block_on(async {
            let mut reader = self.sal.read(bucket, object, object.all(), None, None).await?;
            let mut data = Vec::new();
            while let Some(piece) = reader.next().await? {
                data.extend_from_slice(&piece);
            }
            Ok(data)
        })
    }

    /// All entries of a listing, in pages.
    fn list(&self, bucket: &Bucket, list: &List) -> Vec<String> {
        let mut list = list.clone();
        let mut all = Vec::new();
        loop {
            let page = block_on(self.sal.list(bucket, &list)).unwrap();
            assert!(page.entries.len() <= list.entries_max as usize);
            all.extend(page.entries.iter().map(|entry| match entry {
                Entry::Prefix(prefix) => format!("prefix {prefix}"),
                entry => entry.key().to_owned(),
            }));
            if page.next.is_none() {
                return all;
            }
            list.after = page.next;
        }
    }
}

fn list(prefix: &str, delimiter: &str, entries_max: u32) -> List {
    List {
        kind: ListKind::Objects,
        prefix: prefix.to_owned(),
        delimiter: delimiter.to_owned(),
        after: None,
        entries_max,
    }
}

/// The listing that S3 defines, from all keys.
fn expected(keys: &BTreeSet<String>, list: &List) -> Vec<String> {
    let after = list.after.as_ref().map(|after| after.key.as_str());
    let entry = |key: &str| {
        let rest = key.strip_prefix(&list.prefix)?;
        let end = if list.delimiter.is_empty() { None } else { rest.find(&list.delimiter) };
        Some(end.map(|end| format!("{}{}{}", list.prefix, &rest[..end], list.delimiter)))
    };
    let passed = after.and_then(entry).flatten();
    let mut listed = Vec::new();
    for key in keys {
        let Some(prefix) = entry(key) else { continue };
        let shown = match &prefix {
            Some(prefix) if passed.as_ref() == Some(prefix) => continue,
            Some(prefix) => format!("prefix {prefix}"),
            None => key.clone(),
        };
        if after.is_some_and(|after| key.as_str() <= after) || listed.last() == Some(&shown) {
            continue;
        }
        listed.push(shown);
    }
    listed
}

/// Compares listings of random names with those that S3 defines.
fn compare_listings(case: &Case, seed: u64) {
    let mut rng = Rng(seed);
    let pieces = ["a", "b", "/", "/", "//", "..", ".", "é", "\u{10ffff}", "日", " ", "0", "%", "a/b/c/"];
    let random = |rng: &mut Rng, pieces_max: usize| -> String {
        (0..rng.below(pieces_max + 1)).map(|_| pieces[rng.below(pieces.len())]).collect()
    };
    let mut names: BTreeSet<String> = (0..150).map(|_| random(&mut rng, 5)).collect();
    names.extend((0..60).map(|number| format!("era5/c/{number}")));
    names.extend(["/lead", "..", "era5/", "era5//x"].map(str::to_owned));
    names.remove("");
    for name in &names {
        case.put(name, name.as_bytes());
    }
    let other = ObjectId::in_namespace("other", "hidden").unwrap();
    block_on(case.pool.write_full(&other, "x")).unwrap();
    case.put(&"long".repeat(300), b"no key of S3 has 1,200 bytes");
    for (bucket, of, prefix) in
        [("all", "climate", ""), ("part", "climate/era5", "era5/"), ("up", "climate/../", "../")]
    {
        let bucket = case.view(bucket, of);
        let keys: BTreeSet<String> = names
            .iter()
            .filter_map(|name| name.strip_prefix(prefix))
            .filter(|key| !key.is_empty())
            .map(str::to_owned)
            .collect();
        for key in &keys {
            let object = block_on(case.sal.object(&bucket, key, None)).unwrap();
            assert_eq!(case.read(&bucket, &object).unwrap(), format!("{prefix}{key}").into_bytes());
        }
        for _ in 0..60 {
            let delimiter = ["", "/", "//", "a", "\u{10ffff}"][rng.below(5)];
            let entries_max = [1, 2, 3, 50, 1_000][rng.below(5)];
            let mut list = list(&random(&mut rng, 2), delimiter, entries_max);
            if rng.one_in(2) {
                list.after = Some(ListPosition { key: random(&mut rng, 4), within: None });
            }
            assert_eq!(case.list(&bucket, &list), expected(&keys, &list), "seed {seed}, {of}, {list:?}");
        }
    }
    let bucket = case.view("names", "climate:other");
    assert_eq!(case.list(&bucket, &list("", "", 10)), ["hidden"]);
}

#[test]
fn a_listing_shows_the_names_of_the_pool_in_order() {
    for seed in seed::many(3) {
        compare_listings(&Case::in_memory(Watch::default()), seed);
        compare_listings(&Case::in_memory(Watch { is_hashed: true, ..Watch::default() }), seed);
        let dir = tempfile::tempdir().unwrap();
        let options = benthic_embedded::Options::default().with_classes(benthic_classes::registry());
        let store = EmbeddedStore::open(&dir.path().join("store"), true, options).unwrap();
        compare_listings(&Case::new(store, Watch::default()), seed);
    }
}

#[test]
fn a_page_of_prefixes_does_not_read_all_names() {
    let case = Case::in_memory(Watch::default());
    for number in 0..6_000 {
        case.put(&format!("{}/c/{number}", number % 3), b"");
    }
    let bucket = case.view("climate", "climate");
    let before = case.watch.listed.load(Ordering::Relaxed);
    assert_eq!(case.list(&bucket, &list("", "/", 1_000)), ["prefix 0/", "prefix 1/", "prefix 2/"]);
    let listed = case.watch.listed.load(Ordering::Relaxed) - before;
    assert!(listed < 100, "{listed} names");
}

#[test]
fn pages_share_a_scan_and_the_first_page_is_current() {
    let case = Case::in_memory(Watch { is_hashed: true, ..Watch::default() });
    // More than 8 MiB of names of different lengths: two windows.
    let long = |number: usize| "x".repeat(200 + number * 7_919 % 800);
    let names: Vec<String> = (0..18_000).map(|number| format!("{number:05}{}", long(number))).collect();
    for name in &names {
        case.put(name, b"");
    }
    let bucket = case.view("climate", "climate");
    let before = case.watch.listed.load(Ordering::Relaxed);
    assert_eq!(case.list(&bucket, &list("", "", 500)), names);
    let scans = (case.watch.listed.load(Ordering::Relaxed) - before) / 18_000;
    assert_eq!(scans, 2);
    case.put("00000", b"new");
    assert_eq!(block_on(case.sal.list(&bucket, &list("", "", 2))).unwrap().entries[0].key(), "00000");
    // A removed object is not shown, although the scan has found it.
    let after = Some(ListPosition { key: names[0].clone(), within: None });
    block_on(case.pool.remove(&ObjectId::new(names[1].as_str()).unwrap())).unwrap();
    let page = block_on(case.sal.list(&bucket, &List { after: after.clone(), ..list("", "", 2) })).unwrap();
    assert_eq!(page.entries.iter().map(Entry::key).collect::<Vec<_>>(), [names[2].as_str()]);
    // A later page shows new objects after a minute.
    case.put(&names[1], b"");
    case.put(&format!("{}0", names[0]), b"");
    case.watch.clock.advance_ms(61_000);
    let page = block_on(case.sal.list(&bucket, &List { after, ..list("", "", 1) })).unwrap();
    assert_eq!(page.entries[0].key(), format!("{}0", names[0]));
}

#[test]
fn a_scan_that_takes_too_long_is_refused() {
    let case = Case::in_memory(Watch { is_hashed: true, list_ms: 9_000, ..Watch::default() });
    (0..30_001).for_each(|number| case.put(&number.to_string(), b""));
    let bucket = case.view("climate", "climate");
    assert_eq!(case.list(&bucket, &list("30000", "", 10)), ["30000"]);
    (30_001..50_001).for_each(|number| case.put(&number.to_string(), b""));
    let refused = block_on(case.sal.list(&bucket, &list("", "", 10))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_reader_never_mixes_versions() {
    let case = Case::in_memory(Watch::default());
    let bucket = case.view("climate", "climate");
    let size = 9 << 20;
    case.put("a", &vec![1; size]);
    let object = block_on(case.sal.object(&bucket, "a", None)).unwrap();
    assert_eq!(case.read(&bucket, &object).unwrap(), vec![1; size]);
    let mut reader = block_on(case.sal.read(&bucket, &object, object.all(), None, None)).unwrap();
    assert!(block_on(reader.next()).unwrap().unwrap().iter().all(|byte| *byte == 1));
    case.put("a", &vec![2; size]);
    assert_eq!(block_on(reader.next()).unwrap_err().kind(), ErrorKind::Unavailable);
    // A reader that has not begun fails at once.
    assert_eq!(case.read(&bucket, &object).unwrap_err().kind(), ErrorKind::Unavailable);
    let (new, prefetch) = block_on(case.sal.object_with_prefetch(&bucket, "a")).unwrap();
    assert!(new.etag != object.etag && new.etag.len() == 34);
    // A prefetch of another version is not used.
    assert!(block_on(case.sal.read(&bucket, &object, object.all(), prefetch, None)).is_err());
    let (new, prefetch) = block_on(case.sal.object_with_prefetch(&bucket, "a")).unwrap();
    let mut reader = block_on(case.sal.read(&bucket, &new, 0..3, prefetch, None)).unwrap();
    assert_eq!(block_on(reader.next()).unwrap().unwrap(), vec![2; 3]);
    assert_eq!(block_on(reader.next()).unwrap(), None);
}

#[test]
fn a_view_refuses_every_write() {
    let case = Case::in_memory(Watch::default());
    let bucket = case.view("climate", "climate");
    let own = block_on(case.sal.create_bucket(NewBucket {
        name: "own".into(),
        owner: "ada".into(),
        ..NewBucket::default()
    }))
    .unwrap();
    case.put("a", b"1");
    let before = block_on(case.pool.stat(&ObjectId::new("a").unwrap())).unwrap();
    let object = block_on(case.sal.object(&bucket, "a", None)).unwrap();
    let delete = Delete { key: "a".into(), ..Delete::default() };
    let sal = &case.sal;
    let refusals = block_on(async {
        [
            sal.write(&bucket, "a", None, Some(1), None, None).await.map(drop),
            sal.create_upload(&bucket, "a", Attributes::new(), Lock::default(), None).await.map(drop),
            sal.copy((&bucket, &object), &bucket, "b", Finish::default()).await.map(drop),
            sal.update_object(&bucket, &object, &object, true).await,
            sal.delete(&bucket, &delete).await.map(drop),
            sal.delete_many(&bucket, &[delete]).await.remove(0).map(drop),
        ]
    });
    for (number, refused) in refusals.into_iter().enumerate() {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied, "{number}");
    }
    let shared = block_on(sal.copy((&bucket, &object), &own, "b", Finish::default()));
    assert_eq!(shared.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(block_on(case.pool.stat(&ObjectId::new("a").unwrap())).unwrap(), before);
    assert_eq!(case.list(&bucket, &list("", "", 10)), ["a"]);
    assert_eq!(case.list(&own, &list("", "", 10)), [""; 0]);
}

/// Readers of Zarr take a missing object for a chunk that nobody has written.
#[test]
fn a_missing_pool_is_no_missing_object() {
    let case = Case::in_memory(Watch::default());
    let bucket = case.view("climate", "climate");
    let object = |key: &str| block_on(case.sal.object(&bucket, key, None)).unwrap_err().kind();
    for key in ["none", "", "a\0b", &"x".repeat(1_025)] {
        assert_eq!(object(key), ErrorKind::NotFound);
    }
    block_on(case.store.remove_pool("climate")).unwrap();
    assert_eq!(object("none"), ErrorKind::Unavailable);
    let listed = block_on(case.sal.list(&bucket, &list("", "", 10)));
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn addresses_of_views() {
    for (text, stored) in [
        ("climate", "climate/"),
        ("climate/", "climate/"),
        ("climate/era5", "climate/era5/"),
        ("climate/era5/", "climate/era5/"),
        ("climate:ns/a//b", "climate:ns/a//b/"),
        ("climate//", "climate//"),
    ] {
        let view: View = text.parse().unwrap();
        assert_eq!(view.to_string(), stored);
        assert_eq!(stored.parse::<View>().unwrap(), view);
    }
    for text in ["", "/a", "s3:benthic.s3", "s3:benthic.s3/a", ".a", "a:\0", "a/\0"] {
        assert!(text.parse::<View>().is_err(), "{text:?}");
    }
}
