//! Crash tests: a gateway dies between any two operations of its work, and another gateway
//! continues.

use super::events::{events, new_events};
use super::faulty::{FaultPlan, FaultyPool, Last};
use super::{Case, Pools, data, etag, finish, put, put_part, read};
use benthic_core::{ErrorKind, Result};
use benthic_s3::sal::{
    Bucket, Condition, Delete, EventState, Finish, NewBucket, Object, PartId, PartRef, Sal, Versioning,
};
use futures::executor::block_on;
use std::collections::BTreeMap;

const MIB: usize = 1 << 20;
const QUEUE: &str = "crash";

/// The acknowledged state of a bucket, and the unacknowledged attempt.
#[derive(Debug, Default)]
struct BucketState {
    bucket: Option<Bucket>,
    /// Entity tags of current objects; None for deleted objects.
    objects: BTreeMap<String, Option<String>>,
    /// The last attempt, which may not be acknowledged: the key, and its entity tag if the attempt
    /// succeeded.
    attempted: Option<(String, Option<String>)>,
    deleting: bool,
    /// Acknowledged changes of keys, in order: the entity tag of the new object.
    changes: Vec<(String, Option<String>)>,
}

impl BucketState {
    /// Records an attempt, and its result once it is acknowledged.
    fn attempt<T>(
        &mut self,
        key: &str,
        becomes: Option<String>,
        attempt: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.attempted = Some((key.to_owned(), becomes.clone()));
        let done = attempt()?;
        self.changes.push((key.to_owned(), becomes.clone()));
        self.objects.insert(key.to_owned(), becomes);
        self.attempted = None;
        Ok(done)
    }
}

/// The whole life of a bucket on one gateway: all operations, from creation to deletion.
fn run_bucket_life(sal: &dyn Sal, versioning: Versioning, state: &mut BucketState) -> Result<()> {
    let new = NewBucket { name: "b".into(), owner: "ada".into(), versioning, ..NewBucket::default() };
    let bucket = block_on(sal.create_bucket(new))?;
    state.bucket = Some(bucket.clone());
    let finish = |data: &[u8]| Finish { events: new_events(QUEUE), ..finish(data) };
    // Write small, large (several data objects) and empty objects, both new and replaced ones.
    for (key, size) in [("k", 1_000), ("large", 5 * MIB), ("k", 2_000), ("empty", 0), ("k", 3_000)] {
        let data = data(size as u64, size);
        state.attempt(key, Some(etag(&data)), || put(sal, &bucket, key, &data, finish(&data)))?;
    }
    if versioning == Versioning::Off {
        let log = block_on(sal.object(&bucket, "k", None))?;
        let added = data(77, 1_000);
        let whole = [data(3_000, 3_000), added.clone()].concat();
        state.attempt("k", Some(etag(&whole)), || {
            block_on(async {
                let mut writer = sal.append(&bucket, &log, None, None).await?;
                writer.write(added.clone().into()).await?;
                writer.finish(finish(&whole)).await
            })
        })?;
    }
    let large = block_on(sal.object(&bucket, "large", None))?;
    let copy = |key: &str, source: &Object| {
        let finish = Finish { etag: source.etag.clone(), events: new_events(QUEUE), ..Finish::default() };
        block_on(sal.copy((&bucket, source), &bucket, key, finish))
    };
    state.attempt("copy", Some(large.etag.clone()), || copy("copy", &large))?;
    let again = block_on(sal.object(&bucket, "copy", None))?;
    state.attempt("copy2", Some(large.etag.clone()), || copy("copy2", &again))?;
    state.attempt("large", Some(large.etag.clone()), || copy("large", &large))?;
    let delete = |key: &str, condition: Condition| {
        let events = new_events(QUEUE);
        block_on(sal.delete(&bucket, &Delete { key: key.into(), condition, events, ..Delete::default() }))
    };
    state.attempt("large", None, || delete("large", Condition::Exists))?;
    state.attempt("copy", None, || delete("copy", Condition::Always))?;
    // Complete an upload with a replaced part and a dropped part, then abort another upload.
    let upload = block_on(sal.create_upload(&bucket, "k", Default::default(), Default::default(), None))?;
    let part = |upload, number, seed| {
        let part = put_part(sal, &bucket, "k", PartId { upload, number }, &data(seed, 1_000))?;
        Ok(PartRef { number, write: part.write })
    };
    part(upload, 1, 1)?;
    let parts = [part(upload, 1, 2)?, part(upload, 3, 3)?];
    part(upload, 2, 4)?;
    let whole = [data(2, 1_000), data(3, 1_000)].concat();
    let complete = || block_on(sal.complete_upload(&bucket, "k", upload, &parts, finish(&whole)));
    state.attempt("k", Some(etag(&whole)), complete)?;
    let upload = block_on(sal.create_upload(&bucket, "k", Default::default(), Default::default(), None))?;
    part(upload, 1, 5)?;
    block_on(sal.abort_upload(&bucket, "k", upload))?;
    block_on(sal.collect())?;
    // Delete all versions, and then the bucket.
    let list = |after| {
        let (kind, prefix) = (benthic_s3::sal::ListKind::Versions, String::new());
        block_on(sal.list(
            &bucket,
            &benthic_s3::sal::List { kind, delimiter: prefix.clone(), prefix, after, entries_max: 5 },
        ))
    };
    state.deleting = true;
    loop {
        let page = list(None)?;
        for entry in &page.entries {
            let benthic_s3::sal::Entry::Version(version) = entry else { continue };
            let version_id = Some(version.version);
            let delete = Delete { key: version.key.clone(), version: version_id, ..Delete::default() };
            block_on(sal.delete(&bucket, &delete))?;
        }
        if page.entries.is_empty() && page.next.is_none() {
            break;
        }
    }
    block_on(sal.delete_bucket("b"))
}

/// Checks the state that another gateway finds after all leases have ended. A failed operation must
/// have changed nothing, unless its outcome is unknown.
fn check_repair(case: &Case, state: &BucketState, failed: ErrorKind, context: &str) {
    let found = block_on(case.sal.bucket("b"));
    let Ok(bucket) = found else {
        assert!(state.bucket.is_none() || state.deleting, "{context}");
        case.settle();
        assert_eq!(case.index_objects(), ["directory"], "{context}");
        if let Some(bucket) = &state.bucket {
            assert_eq!(case.data_objects(bucket), Vec::<String>::new(), "{context}");
        }
        return;
    };
    let before = block_on(case.sal.check_bucket(&bucket)).unwrap();
    assert_eq!(before.findings, Vec::<String>::new(), "{context}");
    case.settle();
    let Ok(bucket) = block_on(case.sal.bucket("b")) else {
        assert!(state.deleting, "{context}");
        assert_eq!(case.index_objects(), ["directory"], "{context}");
        return;
    };
    case.check(&bucket);
    let events = events(case.sal.as_ref(), &bucket, QUEUE, EventState::Waiting);
    for (key, wanted) in state.objects.iter().filter(|_| !state.deleting) {
        let object = block_on(case.sal.object(&bucket, key, None)).ok().filter(|object| !object.marker);
        let found = object.as_ref().map(|object| object.etag.clone());
        let attempted = state.attempted.as_ref();
        let attempted = attempted.filter(|(it, _)| it == key && failed == ErrorKind::OutcomeUnknown);
        let allowed = found == *wanted || attempted.is_some_and(|(_, becomes)| found == *becomes);
        assert!(allowed, "{context} key={key} found={found:?}");
        // Each change has its event, in order and once.
        let of_key = events.iter().map(|(_, event)| event).filter(|event| event.key == *key);
        let stored: Vec<Option<String>> =
            of_key.map(|event| (event.name == "created").then(|| event.etag.clone())).collect();
        let acknowledged = state.changes.iter().filter(|(changed, _)| changed == key);
        let mut expected: Vec<Option<String>> = acknowledged.map(|(_, becomes)| becomes.clone()).collect();
        if found != *wanted {
            expected.push(found.clone());
        }
        let unknown = attempted.map(|(_, becomes)| [&expected[..], std::slice::from_ref(becomes)].concat());
        assert!(stored == expected || Some(&stored) == unknown.as_ref(), "{context} key={key} {stored:?}");
        if let Some(object) = object {
            let data = read(case.sal.as_ref(), &bucket, &object).unwrap();
            assert_eq!(etag(&data), object.etag, "{context}: data belong to one writer");
        }
    }
    // The bucket must take writes, and its deletion must remove everything that it had.
    case.put(&bucket, "after", b"1");
    for entry in case.versions(&bucket) {
        case.delete(&bucket, &entry.key, Some(entry.version));
    }
    block_on(case.sal.delete_bucket("b")).unwrap();
    case.settle();
    assert_eq!(case.index_objects(), ["directory"], "{context}");
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new(), "{context}");
}

/// Lets a gateway die at every operation, with every outcome of that operation. `stride` above 1
/// skips operations.
pub fn dies_everywhere(pools: &Pools, versioning: Versioning, stride: usize) {
    for last in [Last::Refused, Last::Done, Last::Away] {
        for operations in (1..).step_by(stride) {
            let case = Case::new(pools, "crash");
            let plan = FaultPlan::new(operations, last);
            let dying = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
            let mut state = BucketState::default();
            let outcome = run_bucket_life(dying.as_ref(), versioning, &mut state);
            if plan.has_survived() {
                outcome.unwrap();
                assert!(operations > 70, "operations={operations}");
                break;
            }
            let error = outcome.unwrap_err();
            let context = format!("operations={operations} last={last:?} {state:?} {error}");
            check_repair(&case, &state, error.kind(), &context);
        }
    }
}

/// Loses the answer of one operation; then everything works again. Each call must take effect
/// exactly once.
pub fn each_call_takes_effect_once_despite_a_lost_answer(pools: &Pools, stride: usize) {
    for operations in (1..).step_by(stride) {
        let case = Case::new(pools, "lost");
        let plan = FaultPlan::new(operations, Last::Unanswered);
        let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
        let mut state = BucketState::default();
        let outcome = run_bucket_life(sal.as_ref(), Versioning::Enabled, &mut state);
        if let Err(error) = outcome {
            panic!("operations={operations} {error} {state:?}");
        }
        assert_eq!(block_on(case.sal.bucket("b")).unwrap_err().kind(), ErrorKind::NotFound);
        case.settle();
        assert_eq!(case.index_objects(), ["directory"]);
        if plan.has_survived() {
            assert!(operations > 70, "operations={operations}");
            break;
        }
    }
}

/// Leaves every kind of garbage: replaced and shared data, an upload, a deleted bucket, an
/// incomplete bucket, and a bucket in deletion.
fn leave_garbage(case: &Case) -> Bucket {
    let (kept, gone) = (case.bucket("kept", Versioning::Off), case.bucket("gone", Versioning::Off));
    let copy = |from: &Bucket, to: &Bucket, key: &str| {
        let source = case.object(from, "k");
        block_on(case.sal.copy((from, &source), to, key, finish(b""))).unwrap();
    };
    for bucket in [&kept, &gone] {
        case.put(bucket, "k", &data(1, 1_000));
        copy(bucket, bucket, "copy");
    }
    copy(&gone, &kept, "from gone");
    copy(&gone, &kept, "from gone too");
    case.delete(&kept, "from gone", None);
    case.delete(&kept, "k", None);
    for key in ["k", "copy"] {
        case.delete(&gone, key, None);
    }
    let upload = case.upload(&gone, "u");
    case.put_part(&gone, "u", upload, 1, b"part");
    drop(block_on(case.sal.write(&kept, "dropped", None, None, None, None)).map(|mut writer| {
        block_on(writer.write(data(2, 5 * MIB).into())).unwrap();
    }));
    block_on(case.sal.delete_bucket("gone")).unwrap();
    for (operations, create) in [(4, true), (4, false)] {
        if !create {
            case.bucket("half gone", Versioning::Off);
        }
        let dying =
            case.on(&FaultyPool::pools(&case.pools, &FaultPlan::new(operations, Last::Refused))).unwrap();
        let new = NewBucket { name: "half made".into(), owner: "ada".into(), ..NewBucket::default() };
        let died = if create {
            block_on(dying.create_bucket(new)).map(|_| ())
        } else {
            block_on(dying.delete_bucket("half gone"))
        };
        assert_eq!(died.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    kept
}

/// Lets a collection die at every operation; the next collection must finish the work.
pub fn a_collection_dies_everywhere(pools: &Pools, stride: usize) {
    for last in [Last::Refused, Last::Done, Last::Away] {
        for operations in (1..).step_by(stride) {
            let case = Case::new(pools, "collect");
            let kept = leave_garbage(&case);
            let plan = FaultPlan::new(operations, last);
            let dying = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
            let mut outcome = Ok(());
            for _ in 0..3 {
                case.clock.advance_ms(super::GRACE_MS + super::LEASE_MS);
                outcome = outcome.and_then(|()| block_on(dying.collect()).map(|_| ()));
            }
            let context = format!("operations={operations} last={last:?} {outcome:?}");
            assert_eq!(outcome.is_ok(), plan.has_survived(), "{context}");
            case.check(&kept);
            case.clock.advance_ms(super::GRACE_MS + super::LEASE_MS);
            for _ in 0..3 {
                block_on(case.sal.collect()).unwrap();
                case.clock.advance_ms(super::GRACE_MS + super::LEASE_MS);
            }
            case.check(&kept);
            for key in ["copy", "from gone too"] {
                assert!(case.get(&kept, key) == data(1, 1_000), "{context}");
                case.delete(&kept, key, None);
            }
            // If the deletion failed at that operation, the gateway undid it.
            if last == Last::Away && block_on(case.sal.bucket("half gone")).is_ok() {
                block_on(case.sal.delete_bucket("half gone")).unwrap();
            }
            case.settle();
            case.check(&kept);
            assert_eq!(case.data_objects(&kept), Vec::<String>::new(), "{context}");
            assert_eq!(case.index_objects().len(), 1 + kept.shards as usize, "{context}");
            if plan.has_survived() {
                assert!(operations > 70, "operations={operations}");
                break;
            }
        }
    }
}

/// Lets a gateway die at every operation of two transitions: of an object with a copy that shares
/// its data, and of the copy.
pub fn a_transition_dies_everywhere(pools: &Pools, stride: usize) {
    let wanted = data(1, 5 * MIB);
    for last in [Last::Refused, Last::Done, Last::Unanswered, Last::Away] {
        for operations in (1..).step_by(stride) {
            let case = Case::new(pools, "move");
            case.offer(&["COLD"]);
            let bucket = case.bucket("b", Versioning::Enabled);
            let finish = Finish { events: new_events(QUEUE), ..finish(&wanted) };
            put(case.sal.as_ref(), &bucket, "k", &wanted, finish.clone()).unwrap();
            let source = case.object(&bucket, "k");
            block_on(case.sal.copy((&bucket, &source), &bucket, "copy", finish)).unwrap();
            let plan = FaultPlan::new(operations, last);
            let dying = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
            let mut moved = BTreeMap::new();
            let mut failed = None;
            for key in ["k", "copy"] {
                let result = super::classes::move_to(&case, dying.as_ref(), &bucket, key, Some("COLD"));
                let kind = result.as_ref().err().map(|error| error.kind());
                failed = failed.or(kind);
                moved.insert(key, (result.is_ok(), kind == Some(ErrorKind::OutcomeUnknown)));
            }
            let context = format!("operations={operations} last={last:?} {moved:?}");
            assert_eq!(block_on(case.sal.check_bucket(&bucket)).unwrap().findings, Vec::<String>::new());
            case.settle();
            case.check(&bucket);
            let events = events(case.sal.as_ref(), &bucket, QUEUE, EventState::Waiting);
            for (key, (is_moved, is_unknown)) in &moved {
                let object = case.object(&bucket, key);
                let is_cold = object.class.is_some();
                assert!(is_cold == *is_moved || *is_unknown, "{context} key={key}");
                assert!(case.read(&bucket, &object) == wanted, "{context} key={key}");
                let of_key = events.iter().filter(|(_, event)| event.key == *key && event.name == "moved");
                assert_eq!(of_key.count(), usize::from(is_cold), "{context} key={key}");
            }
            let cold = moved.keys().filter(|key| case.object(&bucket, key).class.is_some()).count();
            assert_eq!(case.cold_objects(&bucket).len(), 2 * cold, "{context}");
            assert_eq!(case.data_objects(&bucket).len(), if cold < 2 { 2 } else { 0 }, "{context}");
            if plan.has_survived() {
                assert!(failed.is_none() && operations > 10, "{context} {failed:?}");
                break;
            }
            assert!(last == Last::Unanswered || failed.is_some(), "{context}");
        }
    }
}
