use super::events::{events, new_events};
use super::{Case, data, etag, finish, kind, put, put_part, rest};
use benthic_core::{ErrorKind, Result};
use benthic_s3::sal::encryption::ENCRYPTION;
use benthic_s3::sal::{
    Attributes, Bucket, Condition, DataKey, Entry, EventState, Finish, ListKind, Lock, Object, PartId,
    PartRef, Retention, RetentionMode, Sal, Seen, Transition, Versioning,
};
use bytes::Bytes;
use futures::executor::block_on;

const MIB: usize = 1 << 20;
const QUEUE: &str = "crash";

/// Moves the current version of a key.
pub fn move_to(case: &Case, sal: &dyn Sal, bucket: &Bucket, key: &str, class: Option<&str>) -> Result<()> {
    block_on(sal.transition(bucket, &transition(&case.object(bucket, key), class)))
}

pub fn transition(object: &Object, class: Option<&str>) -> Transition {
    Transition {
        key: object.key.clone(),
        version: object.version,
        condition: Condition::Current(Seen { write: object.write, revision: object.revision }),
        from: object.class.clone(),
        class: class.map(str::to_owned),
        due_ms: None,
        events: new_events(QUEUE),
    }
}

fn put_in(case: &Case, bucket: &Bucket, key: &str, data: &[u8], class: &str) {
    block_on(async {
        let size_bytes = Some(data.len() as u64);
        let mut writer = case.sal.write(bucket, key, None, size_bytes, Some(class), None).await.unwrap();
        writer.write(Bytes::copy_from_slice(data)).await.unwrap();
        writer.finish(finish(data)).await.unwrap();
    });
}

pub fn data_go_to_the_pool_of_their_class(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    assert!(!block_on(case.sal.has_storage_class("COLD")).unwrap());
    case.offer(&["COLD", "STANDARD_IA"]);
    for (class, is_offered) in
        [("COLD", true), ("STANDARD_IA", true), ("OTHER", false), ("not a name", false)]
    {
        assert_eq!(block_on(case.sal.has_storage_class(class)).unwrap(), is_offered, "{class}");
    }
    let wanted = data(1, 5 * MIB);
    put_in(case, &bucket, "k", &wanted, "COLD");
    put_in(case, &bucket, "empty", b"", "STANDARD_IA");
    case.put(&bucket, "warm", b"warm");
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (2, 1));
    let classes: Vec<_> = case.versions(&bucket).into_iter().map(|version| version.class).collect();
    assert_eq!(classes, [Some("STANDARD_IA".to_owned()), Some("COLD".to_owned()), None]);
    let object = case.object(&bucket, "k");
    assert_eq!(object.class.as_deref(), Some("COLD"));
    for _ in 0..2 {
        assert!(case.get_with_prefetch(&bucket, "k").unwrap().2 == wanted);
    }
    case.check(&bucket);
    // The data of a replaced object are removed from their pool.
    case.put(&bucket, "k", b"new");
    assert!(case.read(&bucket, &object) == wanted, "replaced data stay readable");
    case.finish(&[&bucket]);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (0, 2));
    // So are those of a writer that has died.
    let mut writer = block_on(case.sal.write(&bucket, "k", None, None, Some("COLD"), None)).unwrap();
    block_on(writer.write(wanted.into())).unwrap();
    block_on(writer.preview(&Attributes::new())).unwrap();
    drop(writer);
    assert_eq!(case.cold_objects(&bucket).len(), 2);
    case.finish(&[&bucket]);
    assert_eq!(case.cold_objects(&bucket).len(), 0);
}

pub fn an_upload_has_the_class_of_its_object(case: &Case) {
    case.offer(&["COLD"]);
    let bucket = case.bucket("b", Versioning::Off);
    let begin = || {
        block_on(case.sal.create_upload(&bucket, "k", Attributes::new(), Lock::default(), Some("COLD")))
            .unwrap()
    };
    let upload = begin();
    let part = |upload, number, data: &[u8]| {
        block_on(async {
            let part = Some(PartId { upload, number });
            let mut writer = case.sal.write(&bucket, "k", part, None, Some("COLD"), None).await?;
            writer.write(Bytes::copy_from_slice(data)).await?;
            let written = writer.finish(finish(data)).await?;
            Ok::<_, benthic_core::Error>(PartRef { number, write: written.write })
        })
    };
    part(upload, 1, &data(1, 1_000)).unwrap();
    let parts = [part(upload, 1, &data(2, 5 * MIB)).unwrap(), part(upload, 2, &data(3, 1_000)).unwrap()];
    part(upload, 3, b"dropped").unwrap();
    let other = put_part(case.sal.as_ref(), &bucket, "k", PartId { upload, number: 4 }, b"other class");
    assert_eq!(kind(other), ErrorKind::InvalidArgument);
    assert_eq!(block_on(case.sal.upload(&bucket, "k", upload)).unwrap().class.as_deref(), Some("COLD"));
    let listed = case.list_all(&bucket, ListKind::Uploads, "", "", 10);
    assert!(matches!(&listed[..], [Entry::Upload(listed)] if listed.class.as_deref() == Some("COLD")));
    case.check(&bucket);
    let preview =
        block_on(case.sal.preview_upload(&bucket, "k", upload, &parts, &Attributes::new())).unwrap();
    let wanted = [data(2, 5 * MIB), data(3, 1_000)].concat();
    assert!(case.read(&bucket, &preview) == wanted);
    case.complete(&bucket, "k", upload, &parts).unwrap();
    let object = case.object(&bucket, "k");
    assert_eq!(object.class.as_deref(), Some("COLD"));
    assert!(case.read(&bucket, &object) == wanted);
    // A copy shares the data, and so the class.
    block_on(case.sal.copy((&bucket, &object), &bucket, "copy", finish(b""))).unwrap();
    case.delete(&bucket, "k", None);
    case.finish(&[&bucket]);
    assert_eq!(case.object(&bucket, "copy").class.as_deref(), Some("COLD"));
    assert!(case.get(&bucket, "copy") == wanted);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (3, 0));
    let aborted = begin();
    part(aborted, 1, b"aborted").unwrap();
    block_on(case.sal.abort_upload(&bucket, "k", aborted)).unwrap();
    case.delete(&bucket, "copy", None);
    case.finish(&[&bucket]);
    assert_eq!(case.cold_objects(&bucket).len(), 0);
}

/// The properties that a transition must not change.
fn described(object: &Object) -> String {
    format!("{:?}", Object { class: None, location: std::sync::Arc::new(()), ..object.clone() })
}

pub fn a_transition_changes_only_the_class(case: &Case) {
    case.offer(&["COLD"]);
    let bucket = case.bucket("b", Versioning::Enabled);
    // Two segments, the first of them in two data objects.
    let upload = case.upload(&bucket, "k");
    let wanted = [data(1, 5 * MIB), data(2, 1_000)].concat();
    let parts = [
        case.put_part(&bucket, "k", upload, 1, &wanted[..5 * MIB]),
        case.put_part(&bucket, "k", upload, 2, &wanted[5 * MIB..]),
    ];
    let until_ms = case.clock_ms() + 1_000_000_000;
    let lock = Lock {
        retention: Some(Retention { mode: RetentionMode::Compliance, until_ms }),
        legal_hold: Some(true),
    };
    let attributes = Attributes::from([("meta".into(), Bytes::from(vec![7; 3_000]))]);
    let written = Finish { attributes, lock, ..finish(b"whole") };
    block_on(case.sal.complete_upload(&bucket, "k", upload, &parts, written)).unwrap();
    case.put(&bucket, "empty", b"");
    let (object, usage) = (case.object(&bucket, "k"), block_on(case.sal.usage(&bucket)).unwrap());
    let mut reader = block_on(case.sal.read(&bucket, &object, object.all(), None, None)).unwrap();
    let first = block_on(reader.next()).unwrap().unwrap();
    case.clock.advance_ms(1_000);
    for key in ["k", "empty"] {
        move_to(case, case.sal.as_ref(), &bucket, key, Some("COLD")).unwrap();
    }
    let moved = case.object(&bucket, "k");
    assert_eq!(moved.class.as_deref(), Some("COLD"));
    assert_eq!(case.object(&bucket, "empty").class.as_deref(), Some("COLD"));
    assert_eq!(described(&moved), described(&object), "nothing else has changed");
    assert_eq!(block_on(case.sal.usage(&bucket)).unwrap(), usage);
    assert!([first.to_vec(), block_on(rest(reader)).unwrap()].concat() == wanted, "a reader continues");
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (3, 3));
    // A repetition changes nothing.
    move_to(case, case.sal.as_ref(), &bucket, "k", Some("COLD")).unwrap();
    case.finish(&[&bucket]);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (3, 0));
    for range in [0..moved.size_bytes, 4_000_000..5_242_900, 5_242_880..5_243_000] {
        let reader = block_on(case.sal.read(&bucket, &moved, range.clone(), None, None)).unwrap();
        assert!(block_on(rest(reader)).unwrap() == wanted[range.start as usize..range.end as usize]);
    }
    let stored = events(case.sal.as_ref(), &bucket, QUEUE, EventState::Waiting);
    assert_eq!(stored.iter().filter(|(_, event)| event.name == "moved").count(), 2);
    // And back.
    move_to(case, case.sal.as_ref(), &bucket, "k", None).unwrap();
    case.finish(&[&bucket]);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (0, 3));
    assert!(case.get(&bucket, "k") == wanted);
}

pub fn a_transition_keeps_encrypted_data_readable(case: &Case) {
    case.offer(&["COLD"]);
    let bucket = case.bucket("b", Versioning::Off);
    let key = DataKey::from_bytes([7; 32]);
    let wanted = data(1, 5 * MIB);
    let attributes = Attributes::from([(ENCRYPTION.to_owned(), Bytes::from_static(b"how"))]);
    block_on(async {
        let mut writer = case.sal.write(&bucket, "k", None, None, None, Some(&key)).await.unwrap();
        writer.write(wanted.clone().into()).await.unwrap();
        writer.finish(Finish { attributes, ..finish(&wanted) }).await.unwrap();
    });
    for class in [Some("COLD"), None] {
        move_to(case, case.sal.as_ref(), &bucket, "k", class).unwrap();
        case.finish(&[&bucket]);
        let object = case.object(&bucket, "k");
        for range in [0..object.size_bytes, 4_194_000..4_195_000] {
            let reader = block_on(case.sal.read(&bucket, &object, range.clone(), None, Some(&key))).unwrap();
            assert!(block_on(rest(reader)).unwrap() == wanted[range.start as usize..range.end as usize]);
        }
    }
}

pub fn a_transition_needs_the_version_that_was_seen(case: &Case) {
    case.offer(&["COLD"]);
    let bucket = case.bucket("b", Versioning::Enabled);
    case.put(&bucket, "k", b"old");
    let old = case.object(&bucket, "k");
    let seen = transition(&old, Some("COLD"));
    let refused = |transition: &Transition| kind(block_on(case.sal.transition(&bucket, transition)));
    let not_due = Transition { due_ms: Some(case.clock_ms() + 1), ..seen.clone() };
    assert_eq!(refused(&not_due), ErrorKind::Conflict);
    let tagged = Object { attributes: Attributes::from([("tag".into(), "1".into())]), ..old.clone() };
    block_on(case.sal.update_object(&bucket, &old, &tagged, false)).unwrap();
    assert_eq!(refused(&seen), ErrorKind::Conflict, "the attributes have changed");
    let old = case.object(&bucket, "k");
    case.put(&bucket, "k", b"new");
    assert_eq!(refused(&transition(&old, Some("COLD"))), ErrorKind::Conflict, "the version is not current");
    let condition = Condition::Replaced(Seen { write: old.write, revision: old.revision });
    let replaced = Transition { condition, ..transition(&old, Some("COLD")) };
    block_on(case.sal.transition(&bucket, &replaced)).unwrap();
    case.delete(&bucket, "k", None);
    let marker =
        Transition { condition: Condition::Always, ..transition(&case.object(&bucket, "k"), Some("COLD")) };
    assert_eq!(refused(&marker), ErrorKind::NotFound);
    assert_eq!(refused(&Transition { key: "missing".into(), ..replaced }), ErrorKind::NotFound);
    case.finish(&[&bucket]);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (1, 1));
}

pub fn a_late_transition_moves_nothing_back(case: &Case) {
    case.offer(&["COLD", "COLDER"]);
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"data");
    let late = transition(&case.object(&bucket, "k"), Some("COLD"));
    move_to(case, case.sal.as_ref(), &bucket, "k", Some("COLD")).unwrap();
    block_on(case.sal.transition(&bucket, &late)).unwrap();
    move_to(case, case.sal.as_ref(), &bucket, "k", Some("COLDER")).unwrap();
    assert_eq!(kind(block_on(case.sal.transition(&bucket, &late))), ErrorKind::Conflict);
    assert_eq!(case.object(&bucket, "k").class.as_deref(), Some("COLDER"));
}

pub fn copies_move_independently(case: &Case) {
    case.offer(&["COLD"]);
    let bucket = case.bucket("b", Versioning::Off);
    let wanted = data(1, 1_000);
    case.put(&bucket, "k", &wanted);
    let copy = |source: &Object, key: &str| {
        let finish = Finish { etag: etag(&wanted), ..Finish::default() };
        block_on(case.sal.copy((&bucket, source), &bucket, key, finish))
    };
    let before = case.object(&bucket, "k");
    copy(&before, "warm").unwrap();
    move_to(case, case.sal.as_ref(), &bucket, "k", Some("COLD")).unwrap();
    // A copy that looked the source up before the move has nothing to share, and may try again.
    case.delete(&bucket, "warm", None);
    case.finish(&[&bucket]);
    assert_eq!(kind(copy(&before, "late")), ErrorKind::Unavailable);
    let moved = case.object(&bucket, "k");
    copy(&moved, "cold").unwrap();
    copy(&case.object(&bucket, "cold"), "colder").unwrap();
    assert_eq!(case.cold_objects(&bucket).len(), 1);
    move_to(case, case.sal.as_ref(), &bucket, "cold", None).unwrap();
    case.delete(&bucket, "k", None);
    case.finish(&[&bucket]);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (1, 1));
    for key in ["cold", "colder"] {
        assert!(case.get(&bucket, key) == wanted);
        case.delete(&bucket, key, None);
    }
    case.finish(&[&bucket]);
    assert_eq!((case.cold_objects(&bucket).len(), case.data_objects(&bucket).len()), (0, 0));
}

pub fn a_class_keeps_its_pool(case: &Case) {
    let operator = case.operator();
    let set = |class: &str, pool: &str| block_on(operator.set_storage_class(class, pool));
    let cold = case.pools.cold.name();
    assert_eq!(kind(set("COLD", "no such pool")), ErrorKind::NotFound);
    for name in ["STANDARD", "", "cold", "A B", &"A".repeat(65)] {
        assert!(set(name, cold).is_err(), "{name}");
    }
    set("COLD", cold).unwrap();
    assert_eq!(kind(set("COLD", case.pools.data.name())), ErrorKind::Conflict);
    let bucket = case.bucket("b", Versioning::Off);
    put_in(case, &bucket, "k", b"cold", "COLD");
    put(case.sal.as_ref(), &bucket, "warm", b"warm", finish(b"warm")).unwrap();
    block_on(operator.withdraw_storage_class("COLD")).unwrap();
    assert_eq!(kind(block_on(operator.withdraw_storage_class("COLD"))), ErrorKind::NotFound);
    assert!(!block_on(case.sal.has_storage_class("COLD")).unwrap());
    assert_eq!(
        kind(move_to(case, case.sal.as_ref(), &bucket, "warm", Some("COLD"))),
        ErrorKind::InvalidArgument
    );
    // Another gateway reads the data, too.
    assert_eq!(super::read(case.another().as_ref(), &bucket, &case.object(&bucket, "k")).unwrap(), b"cold");
    let classes = block_on(operator.storage_classes()).unwrap();
    assert!(
        matches!(&classes[..], [(name, class)] if name == "COLD" && class.pool == cold && !class.offered)
    );
    set("COLD", cold).unwrap();
    assert!(block_on(case.sal.has_storage_class("COLD")).unwrap());
    case.finish(&[&bucket]);
}
