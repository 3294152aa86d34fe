use super::classes::transition;
use super::faulty::{FaultPlan, FaultyPool};
use super::{Case, data, etag, finish, kind, names, rest};
use benthic_core::{ErrorKind, Result};
use benthic_s3::sal::encryption::{ENCRYPTION, FRAME_BYTES};
use benthic_s3::sal::{
    Attributes, Bucket, Condition, DataKey, Finish, ListKind, Object, Transition, Versioning, WriteResult,
};
use bytes::Bytes;
use futures::executor::block_on;
use futures::future::join_all;
use std::sync::{Arc, Mutex};

fn append_with(
    case: &Case,
    bucket: &Bucket,
    object: &Object,
    added: &[u8],
    finish: Finish,
    key: Option<&DataKey>,
) -> Result<WriteResult> {
    block_on(async {
        let mut writer = case.sal.append(bucket, object, Some(added.len() as u64), key).await?;
        writer.write(Bytes::copy_from_slice(added)).await?;
        writer.finish(finish).await
    })
}

fn append(case: &Case, bucket: &Bucket, object: &Object, added: &[u8]) -> Result<WriteResult> {
    append_with(case, bucket, object, added, finish(added), None)
}

pub fn data_are_appended(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let mut wanted = Vec::new();
    case.put(&bucket, "k", &wanted);
    for (number, size) in [1, 70_000, 5 << 20, 17].into_iter().enumerate() {
        let added = data(number as u64, size);
        let before = case.object(&bucket, "k");
        let old = wanted.clone();
        wanted.extend_from_slice(&added);
        let written = append(case, &bucket, &before, &added).unwrap();
        assert_eq!((written.size_bytes, written.write), (wanted.len() as u64, before.write));
        let object = case.object(&bucket, "k");
        assert_eq!((object.size_bytes, &object.etag), (wanted.len() as u64, &etag(&added)));
        assert!(object.revision > before.revision, "nobody takes the object for unchanged");
        assert!(case.read(&bucket, &object) == wanted);
        // A reader of the old state reads it to the end.
        assert!(case.read(&bucket, &before) == old);
        let (_, _, read) = case.get_with_prefetch(&bucket, "k").unwrap();
        assert!(read == wanted);
    }
    assert_eq!(case.object(&bucket, "k").part_bytes, [1, 70_000, 5 << 20, 17]);
    let range = 69_990..70_010;
    let object = case.object(&bucket, "k");
    let reader = block_on(case.sal.read(&bucket, &object, range.clone(), None, None)).unwrap();
    assert!(block_on(rest(reader)).unwrap() == wanted[range.start as usize..range.end as usize]);
    case.finish(&[&bucket]);
    assert!(case.get(&bucket, "k") == wanted);
    // The object is one version, and all of its data go with it.
    assert_eq!(names(&case.list_all(&bucket, ListKind::Versions, "", "", 10)), ["k"]);
    case.delete(&bucket, "k", None);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn one_of_many_appends_wins(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"log:");
    let object = case.object(&bucket, "k");
    let added: Vec<Vec<u8>> = (0..8).map(|number| data(number, 100)).collect();
    let (sal, target, seen) = (&case.sal, &bucket, &object);
    let appends = added.iter().map(|added| async move {
        let mut writer = sal.append(target, seen, None, None).await?;
        writer.write(Bytes::copy_from_slice(added)).await?;
        writer.finish(finish(added)).await
    });
    let results = block_on(join_all(appends));
    let won: Vec<usize> = (0..8).filter(|number| results[*number].is_ok()).collect();
    assert_eq!(won.len(), 1);
    assert!(results.into_iter().filter_map(Result::err).all(|error| error.kind() == ErrorKind::Conflict));
    assert_eq!(case.get(&bucket, "k"), [b"log:".as_slice(), &added[won[0]]].concat());
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 2, "the others leave nothing");
}

pub fn an_append_needs_the_object_that_it_has_seen(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"one");
    let object = case.object(&bucket, "k");
    case.put(&bucket, "k", b"two");
    assert_eq!(kind(append(case, &bucket, &object, b"more")), ErrorKind::Conflict);
    let object = case.object(&bucket, "k");
    // Attributes count, too.
    let attributes = Attributes::from([("a".to_owned(), Bytes::from_static(b"1"))]);
    let new = Object { attributes, ..object.clone() };
    block_on(case.sal.update_object(&bucket, &object, &new, false)).unwrap();
    assert_eq!(kind(append(case, &bucket, &object, b"more")), ErrorKind::Conflict);
    let object = case.object(&bucket, "k");
    case.delete(&bucket, "k", None);
    assert_eq!(kind(append(case, &bucket, &object, b"more")), ErrorKind::Conflict);
    case.put(&bucket, "k", b"three");
    let object = case.object(&bucket, "k");
    assert_eq!(kind(append(case, &bucket, &object, b"")), ErrorKind::InvalidArgument);
    let conditional = Finish { condition: Condition::Exists, ..finish(b"more") };
    let refused = append_with(case, &bucket, &object, b"more", conditional, None);
    assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    assert_eq!(case.get(&bucket, "k"), b"three");
    let versioned = case.bucket("v", Versioning::Enabled);
    case.put(&versioned, "k", b"one");
    let object = case.object(&versioned, "k");
    assert_eq!(kind(append(case, &versioned, &object, b"more")), ErrorKind::Unsupported);
    case.finish(&[&bucket, &versioned]);
}

pub fn an_append_and_copies_keep_their_data(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"old,");
    let source = case.object(&bucket, "k");
    let copied = Finish { etag: source.etag.clone(), ..Finish::default() };
    block_on(case.sal.copy((&bucket, &source), &bucket, "copy", copied)).unwrap();
    append(case, &bucket, &source, b"new").unwrap();
    assert_eq!((case.get(&bucket, "k"), case.get(&bucket, "copy")), (b"old,new".to_vec(), b"old,".to_vec()));
    // The data of a copy belong to another version.
    let copy = case.object(&bucket, "copy");
    assert_eq!(kind(append(case, &bucket, &copy, b"new")), ErrorKind::Unsupported);
    case.delete(&bucket, "k", None);
    case.finish(&[&bucket]);
    assert_eq!(case.get(&bucket, "copy"), b"old,");
    case.delete(&bucket, "copy", None);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn an_append_during_a_transition_loses_nothing(case: &Case) {
    case.offer(&["COLD"]);
    let bucket = case.bucket("b", Versioning::Off);
    let (mut appended, mut conflicts) = (0, 0);
    for call in 1.. {
        let key = format!("k{call}");
        case.put(&bucket, &key, b"old,");
        let result = Arc::new(Mutex::new(None));
        let (other, to, outcome) = (case.ahead_of(0), bucket.clone(), Arc::clone(&result));
        let name = key.clone();
        let append = async move || {
            let object = other.object(&to, &name, None).await?;
            let mut writer = other.append(&to, &object, Some(3), None).await?;
            writer.write(Bytes::from_static(b"new")).await?;
            writer.finish(finish(b"new")).await
        };
        let plan = FaultPlan::interrupted(call, move || {
            *outcome.lock().unwrap() = Some(block_on(append()).map(drop));
        });
        let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
        let transition = Transition {
            condition: Condition::Always,
            ..transition(&case.object(&bucket, &key), Some("COLD"))
        };
        let moved = block_on(sal.transition(&bucket, &transition));
        let outcome = result.lock().unwrap().take();
        match outcome {
            None => break,
            Some(Ok(())) => {
                assert_eq!(case.get(&bucket, &key), b"old,new");
                appended += 1;
                conflicts += usize::from(moved.is_err_and(|error| error.kind() == ErrorKind::Conflict));
            }
            Some(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                assert_eq!(case.get(&bucket, &key), b"old,");
            }
        }
    }
    // An append between the copy and the last call of the transition makes it fail.
    assert!(appended >= 2 && conflicts >= 1, "{appended} {conflicts}");
    case.finish(&[&bucket]);
}

pub fn an_append_to_an_upload_adds_pieces(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = case.upload(&bucket, "k");
    let part = case.put_part(&bucket, "k", upload, 1, b"x");
    case.complete(&bucket, "k", upload, &[part]).unwrap();
    for _ in 0..3 {
        let object = case.object(&bucket, "k");
        append(case, &bucket, &object, b"y").unwrap();
    }
    let object = case.object(&bucket, "k");
    assert_eq!(object.part_bytes, [1, 1, 1, 1]);
    assert_eq!(case.get(&bucket, "k"), b"xyyy");
    case.finish(&[&bucket]);
}

pub fn encrypted_data_are_appended(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let key = DataKey::from_bytes([7; 32]);
    let attributes = Attributes::from([(ENCRYPTION.to_owned(), Bytes::from_static(b"how"))]);
    let (one, two) = (data(1, FRAME_BYTES as usize + 5), data(2, 3 * FRAME_BYTES as usize));
    block_on(async {
        let mut writer = case.sal.write(&bucket, "k", None, None, None, Some(&key)).await.unwrap();
        writer.write(Bytes::from(one.clone())).await.unwrap();
        writer.finish(Finish { attributes: attributes.clone(), ..finish(&one) }).await.unwrap();
    });
    let object = case.object(&bucket, "k");
    let with_mark = Finish { attributes, ..finish(&two) };
    let plain = append_with(case, &bucket, &object, &two, with_mark.clone(), None);
    assert_eq!(kind(plain), ErrorKind::InvalidArgument);
    append_with(case, &bucket, &object, &two, with_mark, Some(&key)).unwrap();
    let object = case.object(&bucket, "k");
    let reader = block_on(case.sal.read(&bucket, &object, object.all(), None, Some(&key))).unwrap();
    assert!(block_on(rest(reader)).unwrap() == [one, two].concat());
    case.finish(&[&bucket]);
}
