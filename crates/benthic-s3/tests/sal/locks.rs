use super::{Case, finish, kind, put};
use benthic_core::{Clock, ErrorKind, Result, SystemClock};
use benthic_s3::sal::{
    Attributes, Bucket, DefaultRetention, Delete, Finish, Lock, Object, Retention, RetentionMode, Sal,
    VersionId, Versioning,
};
use bytes::Bytes;
use futures::executor::block_on;

const DAY_MS: u64 = 86_400_000;
/// Later than the clock of every store, in milliseconds since 1970.
const FAR_MS: u64 = 10_000_000_000_000;

fn retained(mode: RetentionMode, until_ms: u64) -> Lock {
    Lock { retention: Some(Retention { mode, until_ms }), legal_hold: None }
}

fn held() -> Lock {
    Lock { retention: None, legal_hold: Some(true) }
}

fn put_locked(case: &Case, bucket: &Bucket, key: &str, lock: Lock) -> VersionId {
    let finish = Finish { lock, ..finish(b"locked") };
    put(case.sal.as_ref(), bucket, key, b"locked", finish).unwrap().version
}

fn remove(sal: &dyn Sal, bucket: &Bucket, key: &str, version: VersionId, bypass: bool) -> Result<()> {
    let delete =
        Delete { key: key.into(), version: Some(version), bypass_governance: bypass, ..Delete::default() };
    block_on(sal.delete(bucket, &delete)).map(drop)
}

fn set_lock(sal: &dyn Sal, bucket: &Bucket, old: &Object, lock: Lock, bypass: bool) -> Result<()> {
    let new = Object { lock, ..old.clone() };
    block_on(sal.update_object(bucket, old, &new, bypass))
}

fn version(case: &Case, bucket: &Bucket, key: &str, version: VersionId) -> Object {
    block_on(case.sal.object(bucket, key, Some(version))).unwrap()
}

pub fn a_lock_protects_a_version(case: &Case) {
    use RetentionMode::{Compliance, Governance};
    let bucket = case.bucket("b", Versioning::Enabled);
    let until_ms = case.clock.monotonic_ms() + DAY_MS;
    for (lock, needs_bypass) in
        [(retained(Governance, until_ms), true), (retained(Compliance, until_ms), false), (held(), false)]
    {
        let locked = put_locked(case, &bucket, "k", lock);
        assert_eq!(version(case, &bucket, "k", locked).lock, lock);
        // A delete marker hides a version, and does not remove it.
        let marker = case.delete(&bucket, "k", None).version.unwrap();
        case.delete(&bucket, "k", Some(marker));
        let refused = remove(case.sal.as_ref(), &bucket, "k", locked, false);
        assert_eq!(kind(refused), ErrorKind::PermissionDenied, "{lock:?}");
        let bypassed = remove(case.sal.as_ref(), &bucket, "k", locked, true);
        assert_eq!(bypassed.is_ok(), needs_bypass, "{lock:?}: {bypassed:?}");
        assert_eq!(case.is_missing(&bucket, "k", Some(locked)), needs_bypass);
    }
    // Collection removes nothing, however late it is.
    case.settle();
    let versions = case.versions(&bucket);
    assert_eq!(versions.len(), 2);
    assert_eq!(kind(block_on(case.sal.delete_bucket("b"))), ErrorKind::Conflict);
    // The periods end; legal holds do not.
    case.clock.advance_ms(DAY_MS);
    for found in versions {
        let object = version(case, &bucket, "k", found.version);
        let removed = remove(case.sal.as_ref(), &bucket, "k", found.version, false);
        assert_eq!(removed.is_ok(), object.lock != held(), "{:?}", object.lock);
        if removed.is_err() {
            let lock = Lock { legal_hold: Some(false), ..object.lock };
            set_lock(case.sal.as_ref(), &bucket, &object, lock, false).unwrap();
            remove(case.sal.as_ref(), &bucket, "k", found.version, false).unwrap();
        }
    }
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn a_retention_period_is_only_extended(case: &Case) {
    use RetentionMode::{Compliance, Governance};
    let bucket = case.bucket("b", Versioning::Enabled);
    let end_ms = case.clock.monotonic_ms() + DAY_MS;
    // Whether a lock may follow another: without a bypass, and with one.
    for (old, new, without, with) in [
        (retained(Governance, end_ms), retained(Governance, end_ms), true, true),
        (retained(Governance, end_ms), retained(Governance, end_ms + 1), true, true),
        (retained(Governance, end_ms), retained(Governance, end_ms - 1), false, true),
        (retained(Governance, end_ms), retained(Compliance, end_ms), false, true),
        (retained(Governance, end_ms), Lock::default(), false, true),
        (retained(Compliance, end_ms), retained(Compliance, end_ms + 1), true, true),
        (retained(Compliance, end_ms), retained(Compliance, end_ms - 1), false, false),
        (retained(Compliance, end_ms), retained(Governance, end_ms + 1), false, false),
        (retained(Compliance, end_ms), Lock::default(), false, false),
        (retained(Compliance, end_ms - DAY_MS), Lock::default(), true, true),
        (Lock::default(), retained(Compliance, end_ms), true, true),
        (held(), Lock::default(), true, true),
    ] {
        for (bypass, allowed) in [(false, without), (true, with)] {
            let locked = put_locked(case, &bucket, "k", old);
            let object = version(case, &bucket, "k", locked);
            let changed = set_lock(case.sal.as_ref(), &bucket, &object, new, bypass);
            assert_eq!(changed.is_ok(), allowed, "{old:?}, {new:?}, {bypass}: {changed:?}");
            if let Err(error) = changed {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            }
            let now = version(case, &bucket, "k", locked);
            assert_eq!(now.lock, if allowed { new } else { old });
        }
    }
    case.finish(&[&bucket]);
}

/// A gateway is years ahead, another one years behind. The store has the time of this machine.
pub fn a_false_clock_releases_nothing(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let locked = put_locked(case, &bucket, "k", retained(RetentionMode::Compliance, FAR_MS - DAY_MS));
    let ahead = case.ahead_of(FAR_MS);
    for sal in [&ahead, &case.sal] {
        assert_eq!(kind(remove(sal.as_ref(), &bucket, "k", locked, true)), ErrorKind::PermissionDenied);
        let object = version(case, &bucket, "k", locked);
        let changed = set_lock(sal.as_ref(), &bucket, &object, Lock::default(), true);
        assert_eq!(kind(changed), ErrorKind::PermissionDenied);
        block_on(sal.collect()).unwrap();
        assert_eq!(case.get(&bucket, "k"), b"locked");
    }
    case.finish(&[&bucket]);
}

/// A gateway is far behind. A default period begins at the time of the store.
pub fn a_default_period_begins_at_the_later_time(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let default = DefaultRetention { mode: RetentionMode::Governance, duration_ms: DAY_MS };
    let finish = Finish { default_retention: Some(default), ..finish(b"1") };
    put(case.sal.as_ref(), &bucket, "k", b"1", finish.clone()).unwrap();
    let upload = case.upload(&bucket, "whole");
    let part = case.put_part(&bucket, "whole", upload, 1, b"part");
    block_on(case.sal.complete_upload(&bucket, "whole", upload, &[part], finish.clone())).unwrap();
    let store_ms = SystemClock.unix_ns() / 1_000_000;
    assert!(case.clock.monotonic_ms() + DAY_MS < store_ms, "the clock of the case is years behind");
    for key in ["k", "whole"] {
        let retention = case.object(&bucket, key).lock.retention.unwrap();
        assert_eq!(retention.mode, RetentionMode::Governance);
        assert!(retention.until_ms.abs_diff(store_ms + DAY_MS) < DAY_MS / 24, "{retention:?}");
    }
    // The lock of the request wins.
    let own = retained(RetentionMode::Compliance, FAR_MS);
    put(case.sal.as_ref(), &bucket, "k", b"1", Finish { lock: own, ..finish }).unwrap();
    assert_eq!(case.object(&bucket, "k").lock, own);
    case.finish(&[&bucket]);
}

/// Without versions, and for the null version, a write replaces data.
pub fn no_write_replaces_a_locked_version(case: &Case) {
    for (name, versioning) in [("off", Versioning::Off), ("suspended", Versioning::Suspended)] {
        let bucket = case.bucket(name, versioning);
        let until_ms = case.clock.monotonic_ms() + DAY_MS;
        put_locked(case, &bucket, "k", retained(RetentionMode::Governance, until_ms));
        let written = put(case.sal.as_ref(), &bucket, "k", b"new", finish(b"new"));
        assert_eq!(kind(written), ErrorKind::PermissionDenied, "{versioning:?}");
        let deleted = block_on(case.sal.delete(&bucket, &Delete { key: "k".into(), ..Delete::default() }));
        assert_eq!(kind(deleted), ErrorKind::PermissionDenied, "{versioning:?}");
        let source = case.object(&bucket, "k");
        let copied = block_on(case.sal.copy((&bucket, &source), &bucket, "k", finish(b"copy")));
        assert_eq!(kind(copied), ErrorKind::PermissionDenied, "{versioning:?}");
        let upload = case.upload(&bucket, "k");
        let part = case.put_part(&bucket, "k", upload, 1, b"part");
        assert_eq!(
            kind(case.complete(&bucket, "k", upload, &[part])),
            ErrorKind::PermissionDenied,
            "{versioning:?}"
        );
        block_on(case.sal.abort_upload(&bucket, "k", upload)).unwrap();
        assert_eq!(case.get(&bucket, "k"), b"locked");
        case.finish(&[&bucket]);
        // `finish` let the period end.
        case.clock.advance_ms(DAY_MS);
        case.put(&bucket, "k", b"new");
        assert_eq!(case.get(&bucket, "k"), b"new");
        case.finish(&[&bucket]);
    }
}

pub fn locks_and_attributes_change_independently(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let lock = retained(RetentionMode::Compliance, case.clock.monotonic_ms() + DAY_MS);
    let locked = put_locked(case, &bucket, "k", lock);
    let attributes = Attributes::from([("tag".into(), Bytes::from("x"))]);
    let before = version(case, &bucket, "k", locked);
    let new = Object { attributes: attributes.clone(), ..before.clone() };
    block_on(case.sal.update_object(&bucket, &before, &new, false)).unwrap();
    let after = version(case, &bucket, "k", locked);
    assert_eq!((after.lock, &after.attributes), (lock, &attributes));
    // The lock was read before the attributes changed.
    let stale = set_lock(case.sal.as_ref(), &bucket, &before, held(), false);
    assert_eq!(kind(stale), ErrorKind::Conflict);
    let both = Lock { legal_hold: Some(true), ..lock };
    set_lock(case.sal.as_ref(), &bucket, &after, both, false).unwrap();
    let after = version(case, &bucket, "k", locked);
    assert_eq!((after.lock, &after.attributes), (both, &attributes));
    // A copy has the lock of its own request.
    block_on(case.sal.copy((&bucket, &after), &bucket, "copy", finish(b"copy"))).unwrap();
    assert_eq!(case.object(&bucket, "copy").lock, Lock::default());
    case.finish(&[&bucket]);
}

pub fn an_upload_keeps_the_requested_lock(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let attributes = Attributes::from([("type".into(), Bytes::from("x"))]);
    let upload = block_on(case.sal.create_upload(&bucket, "k", attributes.clone(), held(), None)).unwrap();
    let found = block_on(case.sal.upload(&bucket, "k", upload)).unwrap();
    assert_eq!((found.lock, &found.attributes), (held(), &attributes));
    let part = case.put_part(&bucket, "k", upload, 1, b"part");
    let finish = Finish { lock: found.lock, ..finish(b"whole") };
    let whole = block_on(case.sal.complete_upload(&bucket, "k", upload, &[part], finish)).unwrap();
    assert_eq!(version(case, &bucket, "k", whole).lock, held());
    assert_eq!(kind(remove(case.sal.as_ref(), &bucket, "k", whole, true)), ErrorKind::PermissionDenied);
    case.finish(&[&bucket]);
}
