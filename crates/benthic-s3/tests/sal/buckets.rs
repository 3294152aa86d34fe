use super::faulty::{FaultPlan, FaultyPool, Last};
use super::{Case, LEASE_MS, data, finish, kind, put};
use benthic_core::{ErrorKind, Reason};
use benthic_s3::sal::{Attributes, Bucket, NewBucket, Quota, Usage, Versioning, limits};
use bytes::Bytes;
use futures::executor::block_on;

fn new(name: &str) -> NewBucket {
    NewBucket { name: name.into(), owner: "ada".into(), ..NewBucket::default() }
}

pub fn a_bucket_is_created_once(case: &Case) {
    let attributes = Attributes::from([("acl".into(), Bytes::from("private"))]);
    let wanted = NewBucket { attributes: attributes.clone(), shards: Some(5), ..new("b") };
    let bucket = block_on(case.sal.create_bucket(wanted.clone())).unwrap();
    assert_eq!((bucket.shards, &bucket.attributes, bucket.owner.as_str()), (5, &attributes, "ada"));
    assert_eq!(block_on(case.sal.bucket("b")).unwrap(), bucket);
    assert_eq!(kind(block_on(case.sal.create_bucket(wanted))), ErrorKind::AlreadyExists);
    assert_eq!(kind(block_on(case.sal.bucket("c"))), ErrorKind::NotFound);
    assert_eq!(kind(block_on(case.sal.bucket(""))), ErrorKind::InvalidArgument);
    for shards in [0, limits::SHARDS_MAX + 1] {
        let wanted = NewBucket { shards: Some(shards), ..new("c") };
        assert_eq!(kind(block_on(case.sal.create_bucket(wanted))), ErrorKind::InvalidArgument);
    }
    let made: Vec<_> = std::thread::scope(|scope| {
        let makers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| block_on(case.another().create_bucket(new("d"))))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
    let lost = made.into_iter().filter_map(Result::err);
    lost.for_each(|error| assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"));
    case.finish(&[&bucket]);
}

pub fn a_bucket_changes_by_compare_and_swap(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let enabled = Bucket { versioning: Versioning::Enabled, ..bucket.clone() };
    let changed = block_on(case.sal.update_bucket(&bucket, &enabled)).unwrap();
    assert_eq!(changed, Bucket { revision: bucket.revision + 1, ..enabled.clone() });
    assert_eq!(block_on(case.sal.bucket("b")).unwrap(), changed);
    assert_eq!(kind(block_on(case.sal.update_bucket(&bucket, &enabled))), ErrorKind::Conflict);
    let off = Bucket { versioning: Versioning::Off, ..changed.clone() };
    assert_eq!(kind(block_on(case.sal.update_bucket(&changed, &off))), ErrorKind::InvalidArgument);
    let large = Bytes::from(vec![0; limits::BUCKET_ATTRIBUTES_BYTES_MAX]);
    let large = Bucket { attributes: Attributes::from([("a".into(), large)]), ..changed.clone() };
    assert_eq!(kind(block_on(case.sal.update_bucket(&changed, &large))), ErrorKind::LimitExceeded);
    // An update cannot change name, owner and id.
    let other = Bucket { owner: "bob".into(), name: "c".into(), ..changed.clone() };
    assert_eq!(block_on(case.sal.update_bucket(&changed, &other)).unwrap().owner, "ada");
}

pub fn a_bucket_with_objects_is_not_deleted(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    case.put(&bucket, "k", b"1");
    assert_eq!(kind(block_on(case.sal.delete_bucket("b"))), ErrorKind::Conflict);
    // The failed deletion leaves no trace: all shards take writes.
    for n in 0..20 {
        case.put(&bucket, &format!("k{n}"), b"2");
    }
    assert_eq!(case.get(&bucket, "k"), b"1");
    // Delete markers and the versions that they hide also count as content.
    for entry in case.versions(&bucket) {
        case.delete(&bucket, &entry.key, None);
    }
    assert_eq!(kind(block_on(case.sal.delete_bucket("b"))), ErrorKind::Conflict);
    for entry in case.versions(&bucket) {
        case.delete(&bucket, &entry.key, Some(entry.version));
    }
    block_on(case.sal.delete_bucket("b")).unwrap();
    assert_eq!(kind(block_on(case.sal.delete_bucket("b"))), ErrorKind::NotFound);
    case.finish(&[]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn deleting_a_bucket_removes_everything_in_it(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", &data(1, 1_000));
    case.delete(&bucket, "k", None);
    let upload = case.upload(&bucket, "u");
    case.put_part(&bucket, "u", upload, 1, &data(2, 1_000));
    let mut writer = block_on(case.sal.write(&bucket, "late", None, Some(9_000_000), None, None)).unwrap();
    block_on(writer.write(data(3, 5_000_000).into())).unwrap();
    block_on(case.sal.delete_bucket("b")).unwrap();
    // A late writer is refused, even if a new bucket has the same name.
    assert_eq!(kind(block_on(writer.finish(finish(b"")))), ErrorKind::NotFound);
    let again = case.bucket("b", Versioning::Off);
    assert_ne!(again.id, bucket.id);
    assert_eq!(kind(put(case.sal.as_ref(), &bucket, "k", b"1", finish(b"1"))), ErrorKind::NotFound);
    assert!(case.is_missing(&again, "k", None));
    assert!(!case.data_objects(&bucket).is_empty());
    case.finish(&[&again]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
    assert_eq!(case.index_objects().len(), 1 + again.shards as usize);
}

pub fn an_owner_lists_only_its_own_buckets(case: &Case) {
    for name in ["c", "a", "b", "d"] {
        case.bucket(name, Versioning::Off);
    }
    block_on(case.sal.create_bucket(NewBucket { owner: "ad".into(), ..new("e") })).unwrap();
    let names = |owner: &str, after: Option<&str>, max| {
        let (buckets, more) = block_on(case.sal.list_buckets(owner, after, max)).unwrap();
        (buckets.into_iter().map(|bucket| bucket.name).collect::<String>(), more)
    };
    assert_eq!(names("ada", None, 10), ("abcd".into(), false));
    assert_eq!(names("ada", None, 3), ("abc".into(), true));
    assert_eq!(names("ada", Some("c"), 3), ("d".into(), false));
    assert_eq!(names("ad", None, 10), ("e".into(), false));
    assert_eq!(names("bob", None, 10), (String::new(), false));
    block_on(case.sal.delete_bucket("b")).unwrap();
    assert_eq!(names("ada", None, 10), ("acd".into(), false));
}

/// Starts a deletion through a gateway that dies during it.
fn begin_deletion(case: &Case, bucket: &Bucket) {
    // The gateway opens the store, reads the record, writes the record, closes one shard, and dies.
    let plan = FaultPlan::new(4, Last::Refused);
    let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
    assert_eq!(kind(block_on(sal.delete_bucket(&bucket.name))), ErrorKind::Unavailable);
    assert!(block_on(case.sal.bucket(&bucket.name)).unwrap().deleting_ms.is_some());
}

pub fn an_interrupted_deletion_is_finished(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    begin_deletion(case, &bucket);
    block_on(case.sal.collect()).unwrap();
    assert!(block_on(case.sal.bucket("b")).is_ok(), "a deletion may take as long as a lease");
    case.clock.advance_ms(LEASE_MS);
    block_on(case.sal.collect()).unwrap();
    assert_eq!(kind(block_on(case.sal.bucket("b"))), ErrorKind::NotFound);
    case.finish(&[]);
    // A repeated delete call also finishes the deletion.
    let bucket = case.bucket("b", Versioning::Off);
    begin_deletion(case, &bucket);
    block_on(case.sal.delete_bucket("b")).unwrap();
    case.finish(&[]);
    assert_eq!(case.index_objects(), ["directory"]);
}

pub fn writers_continue_after_a_reverted_deletion(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let keys: Vec<String> = (0..30).map(|n| format!("k{n}")).collect();
    begin_deletion(case, &bucket);
    // One shard is closed; the others still take writes.
    let results: Vec<_> =
        keys.iter().map(|key| put(case.sal.as_ref(), &bucket, key, b"1", finish(b"1"))).collect();
    assert!(results.iter().any(Result::is_ok) && results.iter().any(Result::is_err));
    let refused = results.into_iter().filter_map(Result::err);
    refused.for_each(|error| assert_eq!(error.kind(), ErrorKind::Busy, "{error}"));
    case.clock.advance_ms(LEASE_MS);
    block_on(case.sal.collect()).unwrap();
    assert_eq!(
        block_on(case.sal.bucket("b")).unwrap().deleting_ms,
        None,
        "the deletion of a non-empty bucket is reverted"
    );
    for key in &keys {
        case.put(&bucket, key, b"2");
    }
    case.finish(&[&bucket]);
}

pub fn usage_is_exact(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let usage = || block_on(case.sal.usage(&bucket)).unwrap();
    assert_eq!(usage(), Usage::default());
    case.put(&bucket, "a", &[1; 10]);
    case.put(&bucket, "a", &[2; 20]);
    case.put(&bucket, "b", &[]);
    assert_eq!(usage(), Usage { objects: 2, versions: 3, bytes: 30, ..Usage::default() });
    case.delete(&bucket, "a", None);
    let upload = case.upload(&bucket, "u");
    case.put_part(&bucket, "u", upload, 1, &[3; 7]);
    let parts = Usage { uploads: 1, parts: 1, part_bytes: 7, ..Usage::default() };
    assert_eq!(usage(), Usage { objects: 1, versions: 3, markers: 1, bytes: 30, ..parts });
    case.finish(&[&bucket]);
}

pub fn a_write_over_the_quota_fails(case: &Case) {
    let quota = Quota { objects_max: Some(3), bytes_max: Some(100) };
    let bucket = block_on(case.sal.create_bucket(NewBucket { quota, ..new("b") })).unwrap();
    let try_put = |key: &str, len| put(case.sal.as_ref(), &bucket, key, &vec![0; len], finish(b""));
    assert_eq!(try_put("a", 101).unwrap_err().reason(), Some(Reason::QuotaExceeded));
    try_put("a", 60).unwrap();
    assert_eq!(kind(try_put("b", 41)), ErrorKind::LimitExceeded);
    // The quota also applies if the size is known only at the end.
    let mut writer = block_on(case.sal.write(&bucket, "b", None, None, None, None)).unwrap();
    block_on(writer.write(vec![0; 41].into())).unwrap();
    assert_eq!(kind(block_on(writer.finish(finish(b"")))), ErrorKind::LimitExceeded);
    let upload = case.upload(&bucket, "u");
    case.put_part(&bucket, "u", upload, 1, &[0; 30]);
    assert_eq!(kind(case.try_put_part(&bucket, "u", upload, 2, &[0; 11])), ErrorKind::LimitExceeded);
    block_on(case.sal.abort_upload(&bucket, "u", upload)).unwrap();
    let source = case.object(&bucket, "a");
    let copy = block_on(case.sal.copy((&bucket, &source), &bucket, "c", finish(b"")));
    assert_eq!(kind(copy), ErrorKind::LimitExceeded);
    try_put("b", 1).unwrap();
    try_put("c", 1).unwrap();
    assert_eq!(kind(try_put("d", 0)), ErrorKind::LimitExceeded);
    case.delete(&bucket, "c", None);
    try_put("d", 0).unwrap();
    case.finish(&[&bucket]);
}
