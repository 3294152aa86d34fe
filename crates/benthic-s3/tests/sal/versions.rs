use super::{Case, kind};
use benthic_core::ErrorKind;
use benthic_s3::sal::{Bucket, Delete, DeleteResult, VersionId, Versioning};
use futures::executor::block_on;

fn with_versioning(case: &Case, bucket: &Bucket, versioning: Versioning) -> Bucket {
    let new = Bucket { versioning, ..bucket.clone() };
    block_on(case.sal.update_bucket(bucket, &new)).unwrap()
}

/// The data of all versions of a key, newest first; None for a delete marker.
fn history(case: &Case, bucket: &Bucket, key: &str) -> Vec<Option<Vec<u8>>> {
    let versions = case.versions(bucket).into_iter().filter(|version| version.key == key);
    let versions: Vec<_> = versions.collect();
    for (at, version) in versions.iter().enumerate() {
        assert_eq!(version.current, at == 0, "the newest version is current");
    }
    let data = |version: VersionId| {
        let object = block_on(case.sal.object(bucket, key, Some(version))).unwrap();
        assert_eq!(object.version, version);
        (!object.marker).then(|| case.read(bucket, &object))
    };
    versions.iter().map(|version| data(version.version)).collect()
}

fn some(data: &[u8]) -> Option<Vec<u8>> {
    Some(data.to_vec())
}

pub fn versions_are_kept(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let written: Vec<VersionId> = (0..5_u8).map(|n| case.put(&bucket, "k", &[n]).version).collect();
    assert_eq!(history(case, &bucket, "k"), [4, 3, 2, 1, 0].map(|n| some(&[n])));
    for (n, version) in (0..5_u8).zip(&written) {
        let object = block_on(case.sal.object(&bucket, "k", Some(*version))).unwrap();
        assert_eq!(case.read(&bucket, &object), [n]);
    }
    assert!(case.is_missing(&bucket, "k", Some(VersionId::Null)));
    assert!(case.is_missing(&bucket, "other", Some(written[0])));
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 5);
}

pub fn a_delete_marker_hides_an_object(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    case.put(&bucket, "k", b"1");
    let deleted = case.delete(&bucket, "k", None);
    assert!(deleted.marker);
    let object = case.object(&bucket, "k");
    assert!(object.marker && Some(object.version) == deleted.version);
    assert_eq!(case.names(&bucket, "", "", 10), Vec::<String>::new());
    assert_eq!(history(case, &bucket, "k"), [None, some(b"1")]);
    let copy = block_on(case.sal.copy((&bucket, &object), &bucket, "c", Default::default()));
    assert_eq!(kind(copy), ErrorKind::NotFound);
    // A second delete adds another marker, and so does a delete of a key that never existed.
    case.delete(&bucket, "k", None);
    case.delete(&bucket, "never", None);
    assert_eq!(history(case, &bucket, "k"), [None, None, some(b"1")]);
    assert_eq!(history(case, &bucket, "never"), [None]);
    // Removing the markers restores the object.
    for version in [case.object(&bucket, "k").version, deleted.version.unwrap()] {
        assert_eq!(
            case.delete(&bucket, "k", Some(version)),
            DeleteResult { version: Some(version), marker: true }
        );
    }
    assert_eq!(case.get(&bucket, "k"), b"1");
    case.finish(&[&bucket]);
}

pub fn a_key_has_one_null_version(case: &Case) {
    let off = case.bucket("b", Versioning::Off);
    assert_eq!(case.put(&off, "k", b"null 1").version, VersionId::Null);
    let enabled = with_versioning(case, &off, Versioning::Enabled);
    assert_ne!(case.put(&enabled, "k", b"2").version, VersionId::Null);
    assert_eq!(history(case, &enabled, "k"), [some(b"2"), some(b"null 1")]);
    let suspended = with_versioning(case, &enabled, Versioning::Suspended);
    // The new null version replaces the previous one at any position.
    assert_eq!(case.put(&suspended, "k", b"null 3").version, VersionId::Null);
    assert_eq!(history(case, &suspended, "k"), [some(b"null 3"), some(b"2")]);
    case.put(&suspended, "k", b"null 4");
    assert_eq!(history(case, &suspended, "k"), [some(b"null 4"), some(b"2")]);
    case.put(&enabled, "k", b"5");
    assert_eq!(history(case, &suspended, "k"), [some(b"5"), some(b"null 4"), some(b"2")]);
    let deleted = case.delete(&suspended, "k", None);
    assert_eq!(deleted, DeleteResult { version: Some(VersionId::Null), marker: true });
    assert_eq!(history(case, &suspended, "k"), [None, some(b"5"), some(b"2")]);
    case.put(&enabled, "k", b"6");
    assert_eq!(history(case, &suspended, "k"), [some(b"6"), None, some(b"5"), some(b"2")]);
    let deleted = case.delete(&suspended, "k", Some(VersionId::Null));
    assert_eq!(deleted, DeleteResult { version: Some(VersionId::Null), marker: true });
    assert_eq!(history(case, &suspended, "k"), [some(b"6"), some(b"5"), some(b"2")]);
    case.put(&suspended, "k", b"null 7");
    assert_eq!(history(case, &suspended, "k"), [some(b"null 7"), some(b"6"), some(b"5"), some(b"2")]);
    case.finish(&[&suspended]);
    // A gateway with a stale record without versioning keeps existing versions.
    case.delete(&off, "k", None);
    assert_eq!(history(case, &suspended, "k"), [None, some(b"6"), some(b"5"), some(b"2")]);
    case.finish(&[&suspended]);
}

pub fn removing_the_current_version_shows_the_previous_one(case: &Case) {
    let off = case.bucket("b", Versioning::Off);
    case.put(&off, "k", b"null");
    let bucket = with_versioning(case, &off, Versioning::Enabled);
    let one = case.put(&bucket, "k", b"1").version;
    let two = case.put(&bucket, "k", b"2").version;
    case.delete(&bucket, "k", Some(one));
    assert_eq!(history(case, &bucket, "k"), [some(b"2"), some(b"null")]);
    assert_eq!(case.delete(&bucket, "k", Some(two)), DeleteResult { version: Some(two), marker: false });
    assert_eq!(case.get(&bucket, "k"), b"null");
    assert_eq!(case.object(&bucket, "k").version, VersionId::Null);
    case.put(&bucket, "k", b"3");
    assert_eq!(history(case, &bucket, "k"), [some(b"3"), some(b"null")]);
    case.delete(&bucket, "k", Some(VersionId::Null));
    case.delete(&bucket, "k", Some(case.object(&bucket, "k").version));
    assert!(case.is_missing(&bucket, "k", None));
    assert_eq!(case.versions(&bucket), []);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn deleting_a_missing_version_succeeds(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let version = case.put(&bucket, "k", b"1").version;
    for missing in [VersionId::Null, VersionId::Seq(u64::MAX), VersionId::Seq(0)] {
        assert_eq!(case.delete(&bucket, "k", Some(missing)), DeleteResult::default());
        assert_eq!(case.delete(&bucket, "other", Some(missing)), DeleteResult::default());
    }
    case.delete(&bucket, "k", Some(version));
    assert_eq!(case.delete(&bucket, "k", Some(version)), DeleteResult::default());
    assert_eq!(case.versions(&bucket), []);
    case.finish(&[&bucket]);
}

pub fn each_of_many_deletions_has_its_own_result(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let keys: Vec<String> = (0..50).map(|n| format!("k{n:02}")).collect();
    for key in &keys {
        case.put(&bucket, key, key.as_bytes());
    }
    let deletes: Vec<Delete> = keys
        .iter()
        .map(|key| {
            let key = if key == "k07" { String::new() } else { key.clone() };
            Delete { key, ..Delete::default() }
        })
        .collect();
    let results = block_on(case.sal.delete_many(&bucket, &deletes));
    for (key, result) in keys.iter().zip(results) {
        match result {
            Ok(_) => assert_ne!(key, "k07"),
            Err(error) => assert_eq!((error.kind(), key.as_str()), (ErrorKind::InvalidArgument, "k07")),
        }
    }
    assert_eq!(case.names(&bucket, "", "", 100), ["k07"]);
    case.finish(&[&bucket]);
}
