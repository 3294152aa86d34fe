use super::{Case, etag, finish, kind, put, read};
use benthic_core::{Clock, ErrorKind};
use benthic_s3::sal::{Condition, Delete, Finish, Object, Seen, VersionId, Versioning};
use futures::executor::block_on;

pub fn conditions_of_writes_hold(case: &Case) {
    use Condition::{Absent, Always, Differs, Exists, Matches};
    let ok: Result<(), ErrorKind> = Ok(());
    let (conflict, missing) = (Err(ErrorKind::Conflict), Err(ErrorKind::NotFound));
    let one = etag(b"1");
    let table = [
        // The condition, then its result on a missing object, on the object `1`, and on a delete
        // marker.
        (Always, ok, ok, ok),
        (Exists, missing, ok, missing),
        (Absent, ok, conflict, ok),
        (Matches(one.clone()), missing, ok, missing),
        (Matches("other".into()), missing, conflict, missing),
        (Differs(one), ok, conflict, ok),
        (Differs("other".into()), ok, ok, ok),
    ];
    let bucket = case.bucket("b", Versioning::Enabled);
    for (at, (condition, nothing, object, marker)) in table.into_iter().enumerate() {
        for (state, wanted) in [("nothing", nothing), ("object", object), ("marker", marker)] {
            for data in [&b""[..], b"2"] {
                let key = format!("{at}.{state}.{}", data.len());
                if state != "nothing" {
                    case.put(&bucket, &key, b"1");
                }
                if state == "marker" {
                    case.delete(&bucket, &key, None);
                }
                let finish = Finish { condition: condition.clone(), ..finish(data) };
                let result = put(case.sal.as_ref(), &bucket, &key, data, finish);
                let found = result.map(|_| ()).map_err(|error| error.kind());
                assert_eq!(found, wanted, "{condition:?} {state}");
                match (state, wanted) {
                    (_, Ok(())) => assert_eq!(case.get(&bucket, &key), data),
                    ("object", _) => assert_eq!(case.get(&bucket, &key), b"1"),
                    ("marker", _) => assert!(case.object(&bucket, &key).marker),
                    _ => assert!(case.is_missing(&bucket, &key, None)),
                }
            }
        }
    }
    case.finish(&[&bucket]);
}

pub fn conditions_of_deletions_hold(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let delete = |key: &str, condition, version| {
        let delete = Delete { key: key.into(), version, condition, ..Delete::default() };
        block_on(case.sal.delete(&bucket, &delete)).map(|_| ())
    };
    case.put(&bucket, "k", b"1");
    let matches = |data: &[u8]| Condition::Matches(etag(data));
    for version in [None, Some(VersionId::Null)] {
        assert_eq!(kind(delete("k", matches(b"2"), version)), ErrorKind::Conflict);
        assert_eq!(kind(delete("other", matches(b"2"), version)), ErrorKind::NotFound);
        assert_eq!(kind(delete("other", Condition::Exists, version)), ErrorKind::NotFound);
        delete("other", Condition::Always, version).unwrap();
    }
    assert_eq!(case.get(&bucket, "k"), b"1");
    delete("k", matches(b"1"), None).unwrap();
    assert!(case.is_missing(&bucket, "k", None));
    case.finish(&[&bucket]);
}

pub fn exactly_one_of_many_conditional_writers_wins(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let race = |key: &str, size: usize, condition: Condition| {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..6_u8)
                .map(|number| {
                    let (sal, condition, bucket) = (case.another(), condition.clone(), &bucket);
                    let data = vec![number; size];
                    scope.spawn(move || {
                        let finish = Finish { condition, ..finish(&data) };
                        put(sal.as_ref(), bucket, key, &data, finish).map(|_| number)
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        })
    };
    for round in 0..3 {
        let key = format!("k{round}");
        let mut condition = Condition::Absent;
        // Use different sizes, so that no write repeats the existing content.
        for size in [1_000, 1_001] {
            let results = race(&key, size, condition);
            let winners: Vec<u8> =
                results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
            assert_eq!(winners.len(), 1, "{results:?}");
            let lost = results.into_iter().filter_map(Result::err);
            lost.for_each(|error| assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"));
            assert_eq!(case.get(&bucket, &key), vec![winners[0]; size]);
            condition = Condition::Matches(case.object(&bucket, &key).etag);
        }
    }
    case.finish(&[&bucket]);
}

pub fn the_last_writer_wins_and_versions_do_not_mix(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", &[9; 5_000]);
    std::thread::scope(|scope| {
        for number in 0..3_u8 {
            let (sal, bucket) = (case.another(), &bucket);
            scope.spawn(move || {
                for size in 0..20 {
                    let data = vec![number; 100 * size + usize::from(number)];
                    put(sal.as_ref(), bucket, "k", &data, finish(&data)).unwrap();
                }
            });
        }
        let (sal, bucket) = (case.another(), &bucket);
        scope.spawn(move || {
            for _ in 0..60 {
                let object = block_on(sal.object(bucket, "k", None)).unwrap();
                let data = read(sal.as_ref(), bucket, &object).unwrap();
                assert_eq!(etag(&data), object.etag, "data and entity tag belong to one writer");
            }
        });
    });
    case.finish(&[&bucket]);
    assert_eq!(case.names(&bucket, "", "", 10), ["k"]);
}

pub fn a_deletion_names_the_version_that_it_has_seen(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    case.put(&bucket, "k", b"old");
    let old = case.object(&bucket, "k");
    case.put(&bucket, "k", b"new");
    let new = case.object(&bucket, "k");
    let seen = |object: &Object| Seen { write: object.write, revision: object.revision };
    let delete = |version: Option<VersionId>, condition| {
        let delete = Delete { key: "k".into(), version, condition, ..Delete::default() };
        block_on(case.sal.delete(&bucket, &delete))
    };
    for (version, condition) in [
        // Each is the other.
        (None, Condition::Current(seen(&old))),
        (None, Condition::Replaced(seen(&new))),
        (Some(old.version), Condition::Current(seen(&old))),
        (Some(new.version), Condition::Replaced(seen(&new))),
        (Some(old.version), Condition::Replaced(seen(&new))),
        // Its attributes have changed.
        (Some(old.version), Condition::Replaced(Seen { revision: 1, ..seen(&old) })),
    ] {
        assert_eq!(
            kind(delete(version, condition.clone())),
            ErrorKind::Conflict,
            "{version:?} {condition:?}"
        );
    }
    delete(Some(old.version), Condition::Replaced(seen(&old))).unwrap();
    let marker = delete(None, Condition::Current(seen(&new))).unwrap().version;
    // A delete marker is a version, too.
    let hidden = case.object(&bucket, "k");
    assert!(hidden.marker && Some(hidden.version) == marker);
    delete(marker, Condition::Current(seen(&hidden))).unwrap();
    assert_eq!(case.get(&bucket, "k"), b"new");
    case.finish(&[&bucket]);
}

/// On the clock of the gateway, and on that of the store, which has the time of this machine.
pub fn a_deletion_waits_for_its_time(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"1");
    let now_ms = case.clock.monotonic_ms();
    let delete = |due_ms| Delete { key: "k".into(), due_ms: Some(due_ms), ..Delete::default() };
    assert_eq!(kind(block_on(case.sal.delete(&bucket, &delete(now_ms + 1)))), ErrorKind::Conflict);
    let far_ms = 10_000_000_000_000;
    let ahead = case.ahead_of(far_ms);
    assert_eq!(kind(block_on(ahead.delete(&bucket, &delete(far_ms)))), ErrorKind::Conflict);
    assert_eq!(case.get(&bucket, "k"), b"1");
    block_on(case.sal.delete(&bucket, &delete(now_ms))).unwrap();
    assert!(case.is_missing(&bucket, "k", None));
    case.finish(&[&bucket]);
}
