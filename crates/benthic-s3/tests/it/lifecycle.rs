//! Lifecycle runs on the driver: what they remove, and that they remove nothing else.

use crate::in_memory;
use crate::sal::faulty::{FaultPlan, FaultyPool, Last};
use crate::sal::{Case, finish, put};
use benthic_core::{Clock, Environment, ErrorKind, SystemRandom};
use benthic_s3::lifecycle::{self, Calendar, DAY_MS, Lifecycle, RunResult, RunStats};
use benthic_s3::sal::{
    Attributes, Bucket, Finish, Id, ListedVersion, Lock, Object, Retention, RetentionMode, Sal, Versioning,
};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use futures::executor::block_on;
use s3s::dto::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, ExpirationStatus, LifecycleExpiration,
    LifecycleRule, LifecycleRuleAndOperator, LifecycleRuleFilter, NoncurrentVersionExpiration,
    NoncurrentVersionTransition, Tag, Timestamp, Transition, TransitionStorageClass,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A day of the rules in these tests.
const SHORT: Calendar = Calendar { day_ms: 1_000 };

fn rule() -> LifecycleRule {
    LifecycleRule {
        abort_incomplete_multipart_upload: None,
        expiration: None,
        filter: Some(LifecycleRuleFilter::default()),
        id: None,
        noncurrent_version_expiration: None,
        noncurrent_version_transitions: None,
        prefix: None,
        status: ExpirationStatus::from_static(ExpirationStatus::ENABLED),
        transitions: None,
    }
}

fn expire_after(days: i32) -> LifecycleRule {
    let expiration = LifecycleExpiration { days: Some(days), ..LifecycleExpiration::default() };
    LifecycleRule { expiration: Some(expiration), ..rule() }
}

fn remove_noncurrent_after(days: i32) -> LifecycleRule {
    let noncurrent =
        NoncurrentVersionExpiration { noncurrent_days: Some(days), newer_noncurrent_versions: None };
    LifecycleRule { noncurrent_version_expiration: Some(noncurrent), ..rule() }
}

fn class(name: &str) -> Option<TransitionStorageClass> {
    Some(TransitionStorageClass::from(name.to_owned()))
}

fn moves(transitions: &[(i32, &str)]) -> Vec<Transition> {
    let transition =
        |(days, name): &(i32, &str)| Transition { date: None, days: Some(*days), storage_class: class(name) };
    transitions.iter().map(transition).collect()
}

fn noncurrent_move(days: i32, newer: u64, name: &str) -> NoncurrentVersionTransition {
    NoncurrentVersionTransition {
        newer_noncurrent_versions: (newer > 0).then_some(newer as i32),
        noncurrent_days: Some(days),
        storage_class: class(name),
    }
}

fn move_after(transitions: &[(i32, &str)]) -> LifecycleRule {
    LifecycleRule { transitions: Some(moves(transitions)), ..rule() }
}

fn with_rules(case: &Case, bucket: &Bucket, rules: Vec<LifecycleRule>) -> Bucket {
    let text = serde_json::to_vec(&BucketLifecycleConfiguration { rules }).unwrap();
    let mut new = bucket.clone();
    new.attributes.insert(lifecycle::ATTRIBUTE.to_owned(), Bytes::from(text));
    block_on(case.sal.update_bucket(bucket, &new)).unwrap()
}

fn try_run(
    case: &Case,
    sal: &dyn Sal,
    bucket: &Bucket,
    calendar: Calendar,
) -> benthic_core::Result<RunResult> {
    let environment = Environment { clock: case.clock.clone(), random: Arc::new(SystemRandom) };
    block_on(Lifecycle { sal, environment: &environment, calendar }.run(bucket))
}

fn run(case: &Case, bucket: &Bucket, calendar: Calendar) -> RunStats {
    match try_run(case, case.sal.as_ref(), bucket, calendar).unwrap() {
        RunResult::Finished(stats) => stats,
        other => panic!("{other:?}"),
    }
}

fn tag(value: &str) -> Attributes {
    Attributes::from([("tags".into(), Bytes::from(format!(r#"[["t","{value}"]]"#)))])
}

fn keys(case: &Case, bucket: &Bucket) -> Vec<String> {
    case.names(bucket, "", "", 100)
}

#[test]
fn objects_expire_at_the_midnight_after_their_days() {
    let case = Case::new(&in_memory(), "lifecycle");
    let bucket = case.bucket("b", Versioning::Off);
    let bucket = with_rules(&case, &bucket, vec![expire_after(2)]);
    let began_ms = case.clock.monotonic_ms();
    case.put(&bucket, "k", b"1");
    let midnight_ms = (began_ms + 2 * DAY_MS).div_ceil(DAY_MS) * DAY_MS;
    assert_ne!(midnight_ms, began_ms + 2 * DAY_MS, "the test starts in the middle of a day");
    case.clock.advance_ms(midnight_ms - began_ms - 1);
    assert_eq!(run(&case, &bucket, Calendar::default()), RunStats { versions: 1, ..RunStats::default() });
    case.clock.advance_ms(1);
    let stats = run(&case, &bucket, Calendar::default());
    assert_eq!(stats, RunStats { versions: 1, expired: 1, ..RunStats::default() });
    assert_eq!(keys(&case, &bucket), Vec::<String>::new());
    case.finish(&[&bucket]);
}

#[test]
fn uploads_are_aborted_and_locked_versions_stay() {
    let case = Case::new(&in_memory(), "lifecycle");
    let bucket = case.bucket("b", Versioning::Enabled);
    let abort = AbortIncompleteMultipartUpload { days_after_initiation: Some(3) };
    let abort = LifecycleRule { abort_incomplete_multipart_upload: Some(abort), ..rule() };
    let bucket = with_rules(&case, &bucket, vec![abort, remove_noncurrent_after(1)]);
    let old = case.upload(&bucket, "old");
    case.put_part(&bucket, "old", old, 1, b"part");
    let until_ms = case.clock.monotonic_ms() + 10_000;
    let retention = Some(Retention { mode: RetentionMode::Compliance, until_ms });
    let locked = Finish { lock: Lock { retention, legal_hold: None }, ..finish(b"1") };
    put(case.sal.as_ref(), &bucket, "k", b"1", locked).unwrap();
    case.put(&bucket, "k", b"2");
    case.clock.advance_ms(2_000);
    let young = case.upload(&bucket, "young");
    case.clock.advance_ms(1_000);
    let stats = run(&case, &bucket, SHORT);
    assert_eq!((stats.aborted_uploads, stats.locked, stats.removed), (1, 1, 0));
    assert!(block_on(case.sal.upload(&bucket, "old", old)).is_err());
    assert!(block_on(case.sal.upload(&bucket, "young", young)).is_ok());
    case.clock.advance_ms(10_000);
    assert_eq!(run(&case, &bucket, SHORT).removed, 1);
    assert_eq!(case.versions(&bucket).len(), 1);
    case.finish(&[&bucket]);
}

#[test]
fn a_run_goes_through_many_pages() {
    let case = Case::new(&in_memory(), "lifecycle");
    let bucket = case.bucket("b", Versioning::Enabled);
    let bucket = with_rules(&case, &bucket, vec![remove_noncurrent_after(1), expire_after(5)]);
    for key in 0..700 {
        case.put(&bucket, &format!("a/{key}"), b"1");
    }
    // The versions of one key do not fit in a page.
    for _ in 0..1_500 {
        case.put(&bucket, "b", b"1");
    }
    case.put(&bucket, "c", b"1");
    case.clock.advance_ms(1_000);
    let stats = run(&case, &bucket, SHORT);
    assert_eq!((stats.versions, stats.removed, stats.expired), (2_201, 1_499, 0));
    case.clock.advance_ms(5_000);
    let stats = run(&case, &bucket, SHORT);
    assert_eq!((stats.versions, stats.removed, stats.expired), (702, 0, 702));
    assert_eq!(keys(&case, &bucket), Vec::<String>::new());
}

/// A run dies in a late page. The next one continues with the keys after the last page that was
/// done.
#[test]
fn a_run_continues_where_another_stopped() {
    let case = Case::new(&in_memory(), "lifecycle");
    let bucket = case.bucket("b", Versioning::Off);
    let filter = LifecycleRuleFilter { prefix: Some("due/".into()), ..LifecycleRuleFilter::default() };
    let bucket = with_rules(&case, &bucket, vec![LifecycleRule { filter: Some(filter), ..expire_after(1) }]);
    for number in 0..2_000 {
        case.put(&bucket, &format!("a/{number:04}"), b"1");
    }
    for number in 0..600 {
        case.put(&bucket, &format!("due/{number:04}"), b"1");
    }
    case.clock.advance_ms(1_000);
    let plan = FaultPlan::new(300, Last::Refused);
    let dying = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
    assert!(try_run(&case, dying.as_ref(), &bucket, SHORT).is_err());
    let died_with = 2_600 - keys(&case, &bucket).len();
    assert!((1..600).contains(&died_with), "{died_with}");
    case.clock.advance_ms(10 * 60 * 1_000);
    let stats = run(&case, &bucket, SHORT);
    assert_eq!(keys(&case, &bucket).len(), 2_000);
    // The first run had saved at least one page, which the second one did not read again.
    assert!(stats.versions <= 2 * 2_600 - 1_000, "{stats:?}");
}

/// The owner removes the rules, or turns versioning on, at each call of a run.
#[test]
fn a_run_follows_the_settings_of_its_bucket() {
    for call in 1..=8 {
        let case = Arc::new(Case::new(&in_memory(), "lifecycle"));
        let bucket = case.bucket("b", Versioning::Off);
        let bucket = with_rules(&case, &bucket, vec![expire_after(1)]);
        for number in 0..1_500 {
            case.put(&bucket, &format!("{number:04}"), b"1");
        }
        case.clock.advance_ms(1_000);
        let (owner, old) = (Arc::clone(&case), bucket.clone());
        let plan = FaultPlan::interrupted(call, move || {
            let mut new = old.clone();
            new.attributes.remove(lifecycle::ATTRIBUTE);
            block_on(owner.sal.update_bucket(&old, &new)).unwrap();
        });
        let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
        assert_eq!(try_run(&case, sal.as_ref(), &bucket, SHORT).unwrap(), RunResult::NoRules, "{call}");
        // The second page stays.
        assert!(case.versions(&bucket).len() >= 500, "{call}");
    }
}

#[test]
fn one_run_at_a_time_holds_a_bucket() {
    let case = Case::new(&in_memory(), "lifecycle");
    let bucket = case.bucket("b", Versioning::Off);
    assert_eq!(try_run(&case, case.sal.as_ref(), &bucket, SHORT).unwrap(), RunResult::NoRules);
    let bucket = with_rules(&case, &bucket, vec![expire_after(1)]);
    case.put(&bucket, "k", b"1");
    case.clock.advance_ms(1_000);
    // The first run dies after it has taken the bucket.
    let plan = FaultPlan::new(5, Last::Refused);
    let dying = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
    assert!(try_run(&case, dying.as_ref(), &bucket, SHORT).is_err());
    assert_eq!(try_run(&case, case.sal.as_ref(), &bucket, SHORT).unwrap(), RunResult::Held);
    let task = block_on(lifecycle::task(case.sal.as_ref(), &bucket)).unwrap().unwrap();
    assert!(task.began_ms.is_some() && task.finished_ms.is_none());
    case.clock.advance_ms(10 * 60 * 1_000);
    assert_eq!(run(&case, &bucket, SHORT).expired, 1);
    let task = block_on(lifecycle::task(case.sal.as_ref(), &bucket)).unwrap().unwrap();
    assert!(task.began_ms.is_none() && task.finished_ms.is_some());
    // A new bucket of the same name starts anew.
    block_on(case.sal.delete_bucket("b")).unwrap();
    let bucket = case.bucket("b", Versioning::Off);
    let bucket = with_rules(&case, &bucket, vec![expire_after(1)]);
    assert_eq!(block_on(lifecycle::task(case.sal.as_ref(), &bucket)).unwrap(), None);
    assert_eq!(run(&case, &bucket, SHORT), RunStats::default());
}

#[test]
fn a_version_moves_from_class_to_class_until_it_expires() {
    let case = Case::new(&in_memory(), "lifecycle");
    case.offer(&["STANDARD_IA", "GLACIER_IR", "OWN"]);
    let bucket = case.bucket("b", Versioning::Enabled);
    let noncurrent = vec![noncurrent_move(0, 0, "OWN")];
    let noncurrent = LifecycleRule { noncurrent_version_transitions: Some(noncurrent), ..rule() };
    let steps = move_after(&[(1, "STANDARD_IA"), (3, "GLACIER_IR")]);
    let bucket = with_rules(&case, &bucket, vec![steps, noncurrent, expire_after(5)]);
    case.put(&bucket, "k", b"old");
    case.put(&bucket, "k", b"1");
    let mut seen = Vec::new();
    for day in 0..=5 {
        let stats = run(&case, &bucket, SHORT);
        let classes = case.versions(&bucket).into_iter().map(|version| version.class.unwrap_or_default());
        seen.push((day, stats.moved, stats.expired, classes.collect::<Vec<_>>().join(" ")));
        case.clock.advance_ms(1_000);
    }
    let seen: Vec<_> =
        seen.iter().map(|(day, moved, expired, text)| (*day, *moved, *expired, text.as_str())).collect();
    let expected = [
        (0, 1, 0, " OWN"),
        (1, 1, 0, "STANDARD_IA OWN"),
        (2, 0, 0, "STANDARD_IA OWN"),
        (3, 1, 0, "GLACIER_IR OWN"),
        (4, 0, 0, "GLACIER_IR OWN"),
        (5, 0, 1, " GLACIER_IR OWN"),
    ];
    assert_eq!(seen, expected);
    // An object that a client puts into a later class does not go back.
    let bucket = with_rules(&case, &bucket, vec![move_after(&[(0, "STANDARD_IA")])]);
    case.put(&bucket, "late", b"2");
    assert_eq!(run(&case, &bucket, SHORT).moved, 1);
    let bucket = with_rules(&case, &bucket, vec![move_after(&[(0, "GLACIER_IR")])]);
    assert_eq!(run(&case, &bucket, SHORT).moved, 1);
    let bucket = with_rules(&case, &bucket, vec![move_after(&[(0, "STANDARD_IA")])]);
    assert_eq!(run(&case, &bucket, SHORT).moved, 0);
    // A class that is no longer offered is a failure, and stops nothing else.
    block_on(case.operator().withdraw_storage_class("OWN")).unwrap();
    let bucket = with_rules(&case, &bucket, vec![move_after(&[(0, "OWN")]), remove_noncurrent_after(1)]);
    let stats = run(&case, &bucket, SHORT);
    assert_eq!((stats.moved, stats.failed, stats.removed), (0, 1, 2));
    assert_eq!(case.get(&bucket, "late"), b"2");
    case.finish(&[&bucket]);
}

#[test]
fn wrong_transitions_are_refused() {
    let midnight =
        |day: u64| Timestamp::from(std::time::UNIX_EPOCH + std::time::Duration::from_millis(day * DAY_MS));
    let dated = |day, name| Transition { date: Some(midnight(day)), days: None, storage_class: class(name) };
    let of = |transitions| LifecycleRule { transitions: Some(transitions), ..rule() };
    let noncurrent = |list| LifecycleRule { noncurrent_version_transitions: Some(list), ..rule() };
    let no_days = NoncurrentVersionTransition { noncurrent_days: None, ..noncurrent_move(1, 0, "IA") };
    let both = Transition { days: Some(1), ..dated(1, "IA") };
    let cases = [
        (of(moves(&[(0, "STANDARD_IA"), (9, "GLACIER")])), None),
        (of(vec![dated(20_000, "GLACIER")]), None),
        (noncurrent(vec![noncurrent_move(0, 100, "IA")]), None),
        (of(moves(&[(-1, "IA")])), Some("InvalidArgument")),
        (of(moves(&[(1, "STANDARD")])), Some("MalformedXML")),
        (of(vec![Transition { storage_class: None, ..both.clone() }]), Some("MalformedXML")),
        (of(vec![both]), Some("MalformedXML")),
        (of(moves(&[(1, "IA"), (2, "IA")])), Some("InvalidRequest")),
        (of([moves(&[(1, "IA")]), vec![dated(20_000, "GLACIER")]].concat()), Some("InvalidRequest")),
        (of(moves(&[(9, "STANDARD_IA"), (9, "GLACIER")])), Some("InvalidArgument")),
        (
            LifecycleRule { transitions: Some(moves(&[(5, "IA")])), ..expire_after(5) },
            Some("InvalidArgument"),
        ),
        (noncurrent(vec![no_days]), Some("MalformedXML")),
        (noncurrent(vec![noncurrent_move(1, 101, "IA")]), Some("InvalidArgument")),
    ];
    for (rule, code) in cases {
        let text = format!("{rule:?}");
        let parsed = lifecycle::Rules::parse(&BucketLifecycleConfiguration { rules: vec![rule] });
        assert_eq!(parsed.err().map(|error| error.code().as_str().to_owned()).as_deref(), code, "{text}");
    }
}

/// Six keys with versions of several ages, and rules for all of them.
fn prepare(case: &Case, versioning: Versioning) -> Bucket {
    let bucket = case.bucket("b", versioning);
    case.offer(&["COLD"]);
    let noncurrent = vec![noncurrent_move(1, 0, "COLD")];
    let moves =
        LifecycleRule { noncurrent_version_transitions: Some(noncurrent), ..move_after(&[(3, "COLD")]) };
    let bucket = with_rules(case, &bucket, vec![remove_noncurrent_after(3), expire_after(4), moves]);
    for round in 0..3 {
        for key in ["a", "b", "c", "d", "e", "f"].iter().skip(round) {
            case.put(&bucket, key, key.as_bytes());
        }
        case.delete(&bucket, "d", None);
        case.clock.advance_ms(1_000);
    }
    case.clock.advance_ms(2_000);
    bucket
}

fn state(case: &Case, bucket: &Bucket) -> Vec<(String, bool, Option<String>)> {
    case.versions(bucket).into_iter().map(|version| (version.key, version.marker, version.class)).collect()
}

#[test]
fn a_run_dies_anywhere_and_another_does_the_rest() {
    for versioning in [Versioning::Off, Versioning::Enabled] {
        let expected = {
            let case = Case::new(&in_memory(), "lifecycle");
            let bucket = prepare(&case, versioning);
            let stats = run(&case, &bucket, SHORT);
            assert!(stats.moved > 0 && stats.expired > 0, "{stats:?}");
            state(&case, &bucket)
        };
        for last in [Last::Refused, Last::Done] {
            for operations in 0.. {
                let case = Case::new(&in_memory(), "lifecycle");
                let bucket = prepare(&case, versioning);
                let plan = FaultPlan::new(operations, last);
                let Ok(dying) = case.on(&FaultyPool::pools(&case.pools, &plan)) else { continue };
                let died = try_run(&case, dying.as_ref(), &bucket, SHORT).is_err();
                if died {
                    // Only the lease ends. A younger object must not become due meanwhile.
                    let clock_ms = 10 * 60 * 1_000;
                    let later = case.ahead_of(clock_ms);
                    let environment =
                        Environment { clock: later_clock(&case, clock_ms), random: Arc::new(SystemRandom) };
                    let calendar = Calendar { day_ms: DAY_MS };
                    let continued = Lifecycle { sal: later.as_ref(), environment: &environment, calendar };
                    block_on(continued.run(&bucket)).unwrap();
                    run(&case, &bucket, SHORT);
                }
                assert_eq!(state(&case, &bucket), expected, "{versioning:?} {last:?} {operations}");
                case.finish(&[&bucket]);
                if !died {
                    break;
                }
            }
        }
    }
}

fn later_clock(case: &Case, by_ms: u64) -> Arc<dyn Clock> {
    let clock = benthic_core::ManualClock::default();
    clock.advance_ms(case.clock.monotonic_ms() + by_ms);
    Arc::new(clock)
}

/// At each call of a run, a client makes an old version the current one, or writes an object again.
#[test]
fn a_run_removes_nothing_that_a_client_has_changed_meanwhile() {
    for versioning in [Versioning::Off, Versioning::Enabled] {
        for call in 1.. {
            let case = Arc::new(Case::new(&in_memory(), "lifecycle"));
            let bucket = case.bucket("b", versioning);
            let of_tag = LifecycleRuleFilter {
                tag: Some(Tag { key: Some("t".into()), value: Some("drop".into()) }),
                ..LifecycleRuleFilter::default()
            };
            let of_tag = LifecycleRule { filter: Some(of_tag), ..expire_after(1) };
            let of_key = |key: &str, rule| {
                let filter =
                    LifecycleRuleFilter { prefix: Some(key.into()), ..LifecycleRuleFilter::default() };
                LifecycleRule { filter: Some(filter), ..rule }
            };
            let rules = vec![remove_noncurrent_after(2), of_key("written", expire_after(2)), of_tag];
            let bucket = with_rules(&case, &bucket, rules);
            let finish = Finish { attributes: tag("drop"), ..finish(b"tagged") };
            put(case.sal.as_ref(), &bucket, "tagged", b"tagged", finish).unwrap();
            case.put(&bucket, "restored", b"old");
            let newest = case.put(&bucket, "restored", b"new").version;
            case.put(&bucket, "written", b"same");
            case.clock.advance_ms(2_000);
            if versioning == Versioning::Enabled {
                // So that only the rule for versions that are not current applies to this key.
                case.put(&bucket, "restored", b"young");
            }
            let versions = case.versions(&bucket);
            let top = versions.iter().find(|version| version.key == "restored").unwrap().version;
            let (client, at) = (Arc::clone(&case), bucket.clone());
            let interrupted = Arc::new(AtomicBool::new(false));
            let notice = Arc::clone(&interrupted);
            let plan = FaultPlan::interrupted(call, move || {
                notice.store(true, SeqCst);
                client.put(&at, "written", b"same");
                // By then the object has another tag, or is gone.
                if let Ok(old) = block_on(client.sal.object(&at, "tagged", None))
                    && !old.marker
                {
                    let new = Object { attributes: tag("keep"), ..old.clone() };
                    block_on(client.sal.update_object(&at, &old, &new, false)).unwrap();
                }
                if versioning == Versioning::Enabled {
                    client.delete(&at, "restored", Some(top));
                }
            });
            let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
            try_run(&case, sal.as_ref(), &bucket, SHORT).unwrap();
            if !interrupted.load(SeqCst) {
                break;
            }
            assert_eq!(case.get(&bucket, "written"), b"same", "{versioning:?} {call}");
            let was_removed = case.is_missing(&bucket, "restored", Some(newest));
            if versioning == Versioning::Enabled {
                // Either the run removed the version before, or it is current and stays.
                let current = block_on(case.sal.object(&bucket, "restored", None));
                match current {
                    Ok(current) => assert!(current.version == newest && !was_removed, "{call}"),
                    Err(error) => assert!(error.kind() == ErrorKind::NotFound && was_removed, "{call}"),
                }
            }
            if let Ok(tagged) = block_on(case.sal.object(&bucket, "tagged", None))
                && !tagged.marker
            {
                assert_eq!(tagged.attributes, tag("keep"), "{versioning:?} {call}");
            } else {
                // The run expired the object before the client changed it; in the first calls it
                // only looks at the bucket.
                assert!(call > 5, "{versioning:?} {call}");
            }
            case.check(&bucket);
        }
    }
}

/// At each call of a run that moves an object, a client gives it another tag or writes it again.
#[test]
fn a_run_moves_nothing_that_a_client_has_changed_meanwhile() {
    for call in 1.. {
        let case = Arc::new(Case::new(&in_memory(), "lifecycle"));
        case.offer(&["COLD"]);
        let bucket = case.bucket("b", Versioning::Off);
        let tagged = LifecycleRuleFilter {
            tag: Some(Tag { key: Some("t".into()), value: Some("move".into()) }),
            ..LifecycleRuleFilter::default()
        };
        let rule = LifecycleRule { filter: Some(tagged), ..move_after(&[(1, "COLD")]) };
        let bucket = with_rules(&case, &bucket, vec![rule]);
        for key in ["tagged", "written"] {
            let finish = Finish { attributes: tag("move"), ..finish(b"data") };
            put(case.sal.as_ref(), &bucket, key, b"data", finish).unwrap();
        }
        case.clock.advance_ms(1_000);
        let (client, at) = (Arc::clone(&case), bucket.clone());
        let was_cold: Arc<std::sync::Mutex<Option<bool>>> = Arc::default();
        let notice = Arc::clone(&was_cold);
        let plan = FaultPlan::interrupted(call, move || {
            client.put(&at, "written", b"again");
            let old = client.object(&at, "tagged");
            let new = Object { attributes: tag("keep"), ..old.clone() };
            block_on(client.sal.update_object(&at, &old, &new, false)).unwrap();
            *notice.lock().unwrap() = Some(client.object(&at, "tagged").class.is_some());
        });
        let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
        try_run(&case, sal.as_ref(), &bucket, SHORT).unwrap();
        let Some(was_cold) = *was_cold.lock().unwrap() else {
            assert!(call > 8, "{call}");
            break;
        };
        assert_eq!(case.object(&bucket, "tagged").class.is_some(), was_cold, "{call}");
        assert_eq!(case.get(&bucket, "tagged"), b"data");
        assert_eq!(
            (case.object(&bucket, "written").class, case.get(&bucket, "written")),
            (None, b"again".to_vec())
        );
        case.finish(&[&bucket]);
    }
}

/// A rule as the oracle understands it.
#[derive(Clone, Debug)]
struct Wanted {
    enabled: bool,
    prefix: &'static str,
    tag: Option<u64>,
    under_bytes: Option<u64>,
    days: Option<u64>,
    removes_markers: bool,
    noncurrent: Option<(u64, u64)>,
    /// Days and class of a move of the current version.
    moves: Option<(u64, &'static str)>,
    /// Days, number of newer versions, and class of a move of another version.
    noncurrent_moves: Option<(u64, u64, &'static str)>,
}

impl Wanted {
    fn random(rng: &mut Rng) -> Wanted {
        let mut rule = Wanted {
            enabled: !rng.one_in(5),
            prefix: ["", "a", "ab"][rng.below(3)],
            tag: rng.one_in(3).then(|| rng.number() % 2),
            under_bytes: rng.one_in(3).then_some(3),
            days: rng.one_in(2).then(|| 1 + rng.number() % 4),
            removes_markers: false,
            noncurrent: rng.one_in(2).then(|| (1 + rng.number() % 4, rng.number() % 3)),
            moves: None,
            noncurrent_moves: None,
        };
        rule.removes_markers = rule.days.is_none() && rule.tag.is_none() && rng.one_in(2);
        if rule.days.is_none() && !rule.removes_markers && rule.noncurrent.is_none() {
            rule.days = Some(2);
        }
        // A rule moves before it removes.
        let class = |rng: &mut Rng| ["COLD", "ICE"][rng.below(2)];
        if rng.one_in(2) {
            rule.moves = Some((rng.number() % rule.days.unwrap_or(3), class(rng)));
        }
        if rng.one_in(2) {
            let days = rng.number() % rule.noncurrent.map_or(3, |(days, _)| days);
            rule.noncurrent_moves = Some((days, rng.number() % 3, class(rng)));
        }
        rule
    }

    fn rule(&self) -> LifecycleRule {
        let and = LifecycleRuleAndOperator {
            prefix: Some(self.prefix.to_owned()),
            tags: self.tag.map(|tag| vec![Tag { key: Some("t".into()), value: Some(tag.to_string()) }]),
            object_size_less_than: self.under_bytes.map(|bytes| bytes as i64),
            ..LifecycleRuleAndOperator::default()
        };
        let expiration = LifecycleExpiration {
            days: self.days.map(|days| days as i32),
            expired_object_delete_marker: self.removes_markers.then_some(true),
            ..LifecycleExpiration::default()
        };
        let noncurrent = self.noncurrent.map(|(days, newer)| NoncurrentVersionExpiration {
            noncurrent_days: Some(days as i32),
            newer_noncurrent_versions: (newer > 0).then_some(newer as i32),
        });
        let moves = self.moves.map(|(days, name)| moves(&[(days as i32, name)]));
        let noncurrent_moves =
            self.noncurrent_moves.map(|(days, newer, name)| vec![noncurrent_move(days as i32, newer, name)]);
        let status = if self.enabled { ExpirationStatus::ENABLED } else { ExpirationStatus::DISABLED };
        LifecycleRule {
            expiration: (self.days.is_some() || self.removes_markers).then_some(expiration),
            filter: Some(LifecycleRuleFilter { and: Some(and), ..LifecycleRuleFilter::default() }),
            noncurrent_version_expiration: noncurrent,
            noncurrent_version_transitions: noncurrent_moves,
            transitions: moves,
            status: ExpirationStatus::from_static(status),
            ..rule()
        }
    }

    fn fits(&self, version: &ListedVersion, tag: Option<u64>) -> bool {
        self.enabled
            && version.key.starts_with(self.prefix)
            && (self.tag.is_none() || self.tag == tag)
            && (version.marker || self.under_bytes.is_none_or(|limit| version.size_bytes < limit))
    }

    /// Since when the rule moves version `index` of a key, and to which class.
    fn moves_to(
        &self,
        versions: &[(&ListedVersion, Option<u64>)],
        index: usize,
        now_ms: u64,
    ) -> Option<(u64, &'static str)> {
        let (version, tag) = versions[index];
        if version.marker || !self.fits(version, tag) {
            return None;
        }
        let (since_ms, name) = if index == 0 {
            let (days, name) = self.moves?;
            (version.modified_ms + days * SHORT.day_ms, name)
        } else {
            let (days, newer, name) = self.noncurrent_moves?;
            if index as u64 <= newer {
                return None;
            }
            (versions[index - 1].0.modified_ms + days * SHORT.day_ms, name)
        };
        (since_ms <= now_ms).then_some((since_ms, name))
    }

    /// Whether the rule removes version `index` of a key, counted from the newest.
    fn removes(&self, versions: &[(&ListedVersion, Option<u64>)], index: usize, now_ms: u64) -> bool {
        let (version, tag) = versions[index];
        if !self.fits(version, tag) {
            return false;
        }
        let is_past = |start_ms: u64, days: u64| start_ms + days * SHORT.day_ms <= now_ms;
        match (index, version.marker) {
            (0, false) => self.days.is_some_and(|days| is_past(version.modified_ms, days)),
            (0, true) => {
                versions.len() == 1
                    && (self.removes_markers
                        || self.days.is_some_and(|days| is_past(version.modified_ms, days)))
            }
            _ => self.noncurrent.is_some_and(|(days, newer)| {
                index as u64 > newer && is_past(versions[index - 1].0.modified_ms, days)
            }),
        }
    }
}

#[test]
fn random_rules_remove_what_the_oracle_removes() {
    for seed in 0..60 {
        let rng = &mut Rng(seed);
        let case = Case::new(&in_memory(), "lifecycle");
        let versioning = [Versioning::Off, Versioning::Suspended, Versioning::Enabled][rng.below(3)];
        case.offer(&["COLD", "ICE"]);
        let bucket = case.bucket("b", versioning);
        let rules: Vec<Wanted> = (0..1 + rng.below(3)).map(|_| Wanted::random(rng)).collect();
        let bucket = with_rules(&case, &bucket, rules.iter().map(Wanted::rule).collect());
        let mut tags: BTreeMap<Id, u64> = BTreeMap::new();
        for _ in 0..40 {
            let key = ["a", "a1", "ab", "b", "c"][rng.below(5)];
            match rng.below(8) {
                0 => drop(case.delete(&bucket, key, None)),
                1 => {
                    run_and_compare(&case, &bucket, &rules, &tags, seed);
                }
                2 => remove_any(&case, &bucket, rng),
                _ => {
                    let tag = rng.one_in(2).then(|| rng.number() % 2);
                    let text = tag.map(|tag| format!(r#"[["t","{tag}"]]"#));
                    let attributes = text
                        .map(|text| ("tags".to_owned(), Bytes::from(text)))
                        .into_iter()
                        .collect::<Attributes>();
                    let data = vec![7; rng.below(6)];
                    let finish = Finish { attributes, ..finish(&data) };
                    let written = put(case.sal.as_ref(), &bucket, key, &data, finish).unwrap();
                    tags.extend(tag.map(|tag| (written.write, tag)));
                }
            }
            case.clock.advance_ms(rng.number() % 700);
        }
        run_and_compare(&case, &bucket, &rules, &tags, seed);
        case.finish(&[&bucket]);
    }
}

fn remove_any(case: &Case, bucket: &Bucket, rng: &mut Rng) {
    let versions = case.versions(bucket);
    if !versions.is_empty() {
        let version = &versions[rng.below(versions.len())];
        case.delete(bucket, &version.key, Some(version.version));
    }
}

fn run_and_compare(case: &Case, bucket: &Bucket, rules: &[Wanted], tags: &BTreeMap<Id, u64>, seed: u64) {
    let before = case.versions(bucket);
    let now_ms = case.clock.monotonic_ms();
    let mut kept: BTreeSet<Id> = BTreeSet::new();
    let mut expired: BTreeSet<&str> = BTreeSet::new();
    let mut classes: BTreeMap<Id, Option<String>> = BTreeMap::new();
    let mut by_key: BTreeMap<&str, Vec<(&ListedVersion, Option<u64>)>> = BTreeMap::new();
    for version in &before {
        by_key.entry(&version.key).or_default().push((version, tags.get(&version.write).copied()));
    }
    for (key, versions) in &by_key {
        for (index, (version, _)) in versions.iter().enumerate() {
            let is_removed = rules.iter().any(|rule| rule.removes(versions, index, now_ms));
            let expires = is_removed && index == 0 && !version.marker;
            if expires {
                expired.insert(key);
            }
            let last = rules.iter().filter_map(|rule| rule.moves_to(versions, index, now_ms)).max();
            let class = last.filter(|_| !is_removed).map(|(_, name)| name.to_owned());
            classes.insert(version.write, class.or_else(|| version.class.clone()));
            if !is_removed || expires && bucket.versioning == Versioning::Enabled {
                kept.insert(version.write);
            }
        }
    }
    let stats = run(case, bucket, SHORT);
    assert_eq!(stats.expired, expired.len() as u64, "seed {seed}");
    let after = case.versions(bucket);
    let known: BTreeSet<Id> = before.iter().map(|version| version.write).collect();
    let (old, new): (Vec<_>, Vec<_>) = after.iter().partition(|version| known.contains(&version.write));
    assert_eq!(
        old.iter().map(|version| version.write).collect::<BTreeSet<_>>(),
        kept,
        "seed {seed}: {rules:?}"
    );
    for version in &old {
        assert_eq!(version.class, classes[&version.write], "seed {seed} {}: {rules:?}", version.key);
    }
    // In a bucket with versions, a new delete marker hides an expired object.
    let markers: BTreeSet<&str> = new
        .iter()
        .filter(|version| version.marker && version.current)
        .map(|version| version.key.as_str())
        .collect();
    let wanted = if bucket.versioning == Versioning::Off { BTreeSet::new() } else { expired };
    assert_eq!((markers, new.len()), (wanted.clone(), wanted.len()), "seed {seed}");
}
