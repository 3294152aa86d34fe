use super::{Case, data, etag, finish, kind, put, put_part, read};
use benthic_core::ErrorKind;
use benthic_s3::sal::{
    Attributes, Bucket, Change, Condition, DataKey, Delete, Event, EventState, Finish, NewEvent, PartId,
    PartRef, QueuePlace, QueueState, Sal, Settle, Versioning, encryption,
};
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::BTreeMap;

const QUEUE: &str = "target/ada/web";

/// An event for each kind of change.
pub fn new_events(queue: &str) -> Vec<NewEvent> {
    let event = |change, name: &str| NewEvent {
        change,
        queue: queue.to_owned(),
        name: name.to_owned(),
        rule: "rule".to_owned(),
        detail: Bytes::from("detail"),
    };
    vec![
        event(Change::Created, "created"),
        event(Change::MarkerCreated, "hidden"),
        event(Change::Removed, "removed"),
        event(Change::Moved, "moved"),
    ]
}

fn with_events(data: &[u8]) -> Finish {
    Finish { events: new_events(QUEUE), ..finish(data) }
}

/// All events of a queue, by place and in order.
pub fn events(sal: &dyn Sal, bucket: &Bucket, queue: &str, kind: EventState) -> Vec<(QueuePlace, Event)> {
    let mut all = Vec::new();
    for (place, _) in block_on(sal.queues(bucket)).unwrap() {
        if place.queue != queue {
            continue;
        }
        let mut after = None;
        loop {
            let (page, more) = block_on(sal.events(bucket, &place, kind, after, 2)).unwrap();
            assert!(page.is_sorted_by(|one, next| one.number < next.number));
            after = page.last().map(|event| event.number).or(after);
            all.extend(page.into_iter().map(|event| (place.clone(), event)));
            if !more {
                break;
            }
        }
    }
    all
}

/// The names and the entity tags of a key's waiting events.
fn of_key(case: &Case, bucket: &Bucket, key: &str) -> Vec<(String, String)> {
    let all = events(case.sal.as_ref(), bucket, QUEUE, EventState::Waiting).into_iter();
    let of_key = all.map(|(_, event)| event).filter(|event| event.key == key);
    of_key.map(|event| (event.name, event.etag)).collect()
}

fn total(case: &Case, bucket: &Bucket) -> QueueState {
    let mut total = QueueState::default();
    for (_, QueueState { waiting, dead, lost }) in block_on(case.sal.queues(bucket)).unwrap() {
        total.waiting += waiting;
        total.dead += dead;
        total.lost += lost;
    }
    total
}

fn numbers(all: &[(QueuePlace, Event)]) -> BTreeMap<QueuePlace, Vec<u64>> {
    let mut numbers: BTreeMap<QueuePlace, Vec<u64>> = BTreeMap::new();
    for (place, event) in all {
        numbers.entry(place.clone()).or_default().push(event.number);
    }
    numbers
}

fn settle(case: &Case, bucket: &Bucket, place: &QueuePlace, settle: &Settle) {
    // A repetition changes nothing.
    for _ in 0..2 {
        block_on(case.sal.settle(bucket, place, settle)).unwrap();
    }
}

pub fn each_change_stores_its_events_in_order(case: &Case) {
    for versioning in [Versioning::Off, Versioning::Enabled] {
        let name = format!("b{versioning:?}").to_lowercase();
        let bucket = case.bucket(&name, versioning);
        assert_eq!(block_on(case.sal.queues(&bucket)).unwrap(), []);
        let sal = case.sal.as_ref();
        let mut written = put(sal, &bucket, "k", b"1", with_events(b"1")).unwrap();
        for text in [b"2", b"3"] {
            written = put(sal, &bucket, "k", text, with_events(text)).unwrap();
        }
        let object = case.object(&bucket, "k");
        block_on(sal.copy((&bucket, &object), &bucket, "copy", with_events(b"3"))).unwrap();
        let upload =
            block_on(sal.create_upload(&bucket, "k", Attributes::new(), Default::default(), None)).unwrap();
        let part = put_part(sal, &bucket, "k", PartId { upload, number: 1 }, b"part").unwrap();
        let part = PartRef { number: 1, write: part.write };
        for _ in 0..2 {
            block_on(sal.complete_upload(&bucket, "k", upload, &[part], with_events(b"part"))).unwrap();
        }
        let delete = Delete { key: "k".into(), events: new_events(QUEUE), ..Delete::default() };
        block_on(sal.delete(&bucket, &delete)).unwrap();
        let created = |text: &[u8]| ("created".to_owned(), etag(text));
        let mut expected = vec![created(b"1"), created(b"2"), created(b"3"), created(b"part")];
        if versioning == Versioning::Off {
            expected.push(("removed".to_owned(), etag(b"part")));
            // There is nothing to remove any more.
            block_on(sal.delete(&bucket, &delete)).unwrap();
        } else {
            expected.push(("hidden".to_owned(), String::new()));
            let delete = Delete { version: Some(written.version), ..delete };
            for _ in 0..2 {
                block_on(sal.delete(&bucket, &delete)).unwrap();
            }
            expected.push(("removed".to_owned(), etag(b"3")));
        }
        assert_eq!(of_key(case, &bucket, "k"), expected);
        assert_eq!(of_key(case, &bucket, "copy"), [created(b"3")]);
        let all = events(sal, &bucket, QUEUE, EventState::Waiting);
        assert_eq!(total(case, &bucket).waiting, all.len() as u64);
        let (_, first) = &all.iter().find(|(_, event)| event.key == "k").unwrap();
        assert_eq!((first.rule.as_str(), &first.detail[..]), ("rule", &b"detail"[..]));
        assert_eq!((first.size_bytes, first.reason.as_str()), (1, ""));
        assert_eq!(first.time_ms, case.clock_ms());
        // The store's clock counts, too, so that no gateway with a wrong clock stores an event that
        // is too old.
        assert!(first.queued_ms > case.clock_ms());
        case.finish(&[&bucket]);
    }
}

pub fn a_failed_change_stores_no_event(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let sal = case.sal.as_ref();
    case.put(&bucket, "k", b"1");
    let absent = Finish { condition: Condition::Absent, ..with_events(b"2") };
    assert_eq!(kind(put(sal, &bucket, "k", b"2", absent)), ErrorKind::Conflict);
    let condition = Condition::Matches("other".into());
    let delete = Delete { key: "k".into(), condition, events: new_events(QUEUE), ..Delete::default() };
    assert_eq!(kind(block_on(sal.delete(&bucket, &delete))), ErrorKind::Conflict);
    let mut writer = block_on(sal.write(&bucket, "k", None, Some(1), None, None)).unwrap();
    block_on(writer.write(Bytes::from("3"))).unwrap();
    block_on(writer.abort()).unwrap();
    assert_eq!(block_on(sal.queues(&bucket)).unwrap(), []);
    // A part is no change of an object.
    let upload =
        block_on(sal.create_upload(&bucket, "k", Attributes::new(), Default::default(), None)).unwrap();
    let mut writer =
        block_on(sal.write(&bucket, "k", Some(PartId { upload, number: 1 }), Some(1), None, None)).unwrap();
    block_on(writer.write(Bytes::from("4"))).unwrap();
    assert_eq!(kind(block_on(writer.finish(with_events(b"4")))), ErrorKind::InvalidArgument);
    block_on(sal.abort_upload(&bucket, "k", upload)).unwrap();
    case.finish(&[&bucket]);
}

pub fn events_wait_until_they_are_settled(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let sal = case.sal.as_ref();
    for number in 0..9 {
        let text = number.to_string();
        put(sal, &bucket, &format!("k{number}"), text.as_bytes(), with_events(text.as_bytes())).unwrap();
    }
    let all = events(sal, &bucket, QUEUE, EventState::Waiting);
    assert_eq!(all.len(), 9);
    case.clock.advance_ms(1_000);
    // The first of each place becomes dead, the others are done.
    for (place, numbers) in numbers(&all) {
        let dead = vec![(numbers[0], "the target refused it".to_owned())];
        settle(case, &bucket, &place, &Settle { dead, done: numbers[1..].to_vec(), ..Settle::default() });
    }
    let dead = events(sal, &bucket, QUEUE, EventState::Dead);
    let places = numbers(&dead).len() as u64;
    assert_eq!(dead.len() as u64, places);
    assert!(dead.iter().all(|(_, event)| event.reason == "the target refused it"));
    assert_eq!(total(case, &bucket), QueueState { waiting: 0, dead: places, lost: 0 });
    // They are delivered again, and wait since now.
    for (place, numbers) in numbers(&dead) {
        settle(case, &bucket, &place, &Settle { revived: numbers, ..Settle::default() });
    }
    let revived = events(sal, &bucket, QUEUE, EventState::Waiting);
    assert_eq!(numbers(&revived), numbers(&dead));
    for (_, event) in &revived {
        assert!(event.queued_ms > case.clock_ms() && event.reason.is_empty());
        assert_eq!(event.time_ms, case.clock_ms() - 1_000);
    }
    // New events come after them.
    put(sal, &bucket, "k0", b"new", with_events(b"new")).unwrap();
    assert_eq!(of_key(case, &bucket, "k0").last(), Some(&("created".to_owned(), etag(b"new"))));
    let left = events(sal, &bucket, QUEUE, EventState::Waiting);
    for (place, numbers) in numbers(&left) {
        let dead = numbers.iter().map(|number| (*number, String::new())).collect();
        settle(case, &bucket, &place, &Settle { dead, ..Settle::default() });
        // Dead events can be removed, too.
        settle(case, &bucket, &place, &Settle { done: numbers, ..Settle::default() });
    }
    assert_eq!(total(case, &bucket), QueueState::default());
    case.finish(&[&bucket]);
}

pub fn queues_do_not_mix_and_have_limits(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let sal = case.sal.as_ref();
    let queues = ["a", "ab", "a/b", QUEUE];
    let events_of_all = queues.iter().flat_map(|queue| new_events(queue)).collect();
    put(sal, &bucket, "k", b"1", Finish { events: events_of_all, ..finish(b"1") }).unwrap();
    for queue in queues {
        let found = events(sal, &bucket, queue, EventState::Waiting);
        assert_eq!(found.len(), 1, "{queue}");
        settle(case, &bucket, &found[0].0, &Settle { done: vec![found[0].1.number], ..Settle::default() });
    }
    assert_eq!(total(case, &bucket), QueueState::default());
    let [event, ..] = &new_events(QUEUE)[..] else { panic!("there are three") };
    let long = |len| "x".repeat(len);
    for (changed, expected) in [
        (NewEvent { queue: String::new(), ..event.clone() }, ErrorKind::InvalidArgument),
        (NewEvent { queue: "a\0b".into(), ..event.clone() }, ErrorKind::InvalidArgument),
        (NewEvent { queue: "a b".into(), ..event.clone() }, ErrorKind::InvalidArgument),
        (NewEvent { queue: long(257), ..event.clone() }, ErrorKind::LimitExceeded),
        (NewEvent { name: long(513), ..event.clone() }, ErrorKind::LimitExceeded),
        (NewEvent { rule: long(513), ..event.clone() }, ErrorKind::LimitExceeded),
        (NewEvent { detail: Bytes::from(long(2_049)), ..event.clone() }, ErrorKind::LimitExceeded),
    ] {
        let finish = Finish { events: vec![changed.clone()], ..finish(b"2") };
        assert_eq!(kind(put(sal, &bucket, "k", b"2", finish)), expected, "{changed:?}");
    }
    let many = Finish { events: vec![event.clone(); 201], ..finish(b"2") };
    assert_eq!(kind(put(sal, &bucket, "k", b"2", many)), ErrorKind::LimitExceeded);
    assert_eq!(case.get(&bucket, "k"), b"1");
    let place = QueuePlace { queue: QUEUE.into(), shard: 0 };
    let many = Settle { done: (0..1_001).collect(), ..Settle::default() };
    assert_eq!(kind(block_on(sal.settle(&bucket, &place, &many))), ErrorKind::LimitExceeded);
    case.finish(&[&bucket]);
}

/// A method that decides whether an object may be written reads its data first.
pub fn data_are_read_before_they_are_visible(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let sal = case.sal.as_ref();
    let key = DataKey::from_bytes([7; 32]);
    let marked = Attributes::from([(encryption::ENCRYPTION.to_owned(), Bytes::from("sealed"))]);
    for (size_bytes, is_encrypted) in [(0, false), (5, false), (9 << 20, false), (5, true), (9 << 20, true)] {
        let text = data(size_bytes as u64, size_bytes);
        let (key, attributes) =
            if is_encrypted { (Some(&key), marked.clone()) } else { (None, Attributes::new()) };
        let mut writer = block_on(sal.write(&bucket, "k", None, None, None, key)).unwrap();
        block_on(writer.write(Bytes::from(text.clone()))).unwrap();
        let object = block_on(writer.preview(&attributes)).unwrap();
        let reader = block_on(sal.read(&bucket, &object, object.all(), None, key)).unwrap();
        assert_eq!(block_on(super::rest(reader)).unwrap(), text);
        let in_one_piece = block_on(sal.whole_data(&bucket, &object)).unwrap().is_some();
        assert_eq!(in_one_piece, size_bytes == 5 && !is_encrypted);
        assert!(case.is_missing(&bucket, "k", None));
        // More data would follow a short piece.
        assert_eq!(kind(block_on(writer.write(Bytes::from("more")))), ErrorKind::Internal);
        block_on(writer.finish(Finish { attributes, ..finish(&text) })).unwrap();
        let object = case.object(&bucket, "k");
        assert_eq!(object.size_bytes, size_bytes as u64);
        case.delete(&bucket, "k", None);
    }
    let upload =
        block_on(sal.create_upload(&bucket, "k", Attributes::new(), Default::default(), None)).unwrap();
    let mut parts = Vec::new();
    for number in [1, 3, 7] {
        let part =
            put_part(sal, &bucket, "k", PartId { upload, number }, &data(number.into(), 1_000)).unwrap();
        parts.push(PartRef { number, write: part.write });
    }
    let object = block_on(sal.preview_upload(&bucket, "k", upload, &parts[1..], &Attributes::new())).unwrap();
    assert_eq!(read(sal, &bucket, &object).unwrap(), [data(3, 1_000), data(7, 1_000)].concat());
    put_part(sal, &bucket, "k", PartId { upload, number: 3 }, b"replaced").unwrap();
    let stale = block_on(sal.preview_upload(&bucket, "k", upload, &parts, &Attributes::new()));
    assert_eq!(kind(stale), ErrorKind::InvalidArgument);
    block_on(sal.abort_upload(&bucket, "k", upload)).unwrap();
    case.finish(&[&bucket]);
}
