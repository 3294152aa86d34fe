use super::faulty::{FaultPlan, FaultyPool};
use super::{Case, data, finish, kind};
use benthic_core::{ErrorKind, Result};
use benthic_s3::sal::{Attributes, Bucket, Finish, Object, Versioning, WriteResult};
use bytes::Bytes;
use futures::executor::block_on;

fn copy(case: &Case, from: &Bucket, object: &Object, to: &Bucket, key: &str) -> Result<WriteResult> {
    let finish = Finish { etag: object.etag.clone(), ..Finish::default() };
    block_on(case.sal.copy((from, object), to, key, finish))
}

pub fn a_copy_outlives_its_source(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    for (round, size) in [0, 100, 5 << 20].into_iter().enumerate() {
        let wanted = data(7, size);
        case.put(&bucket, "k", &wanted);
        let source = case.object(&bucket, "k");
        let copies: Vec<String> = (0..5).map(|n| format!("copy{round}.{n}")).collect();
        for key in &copies {
            let before = case.data_objects(&bucket).len();
            assert_eq!(copy(case, &bucket, &source, &bucket, key).unwrap().size_bytes, size as u64);
            assert_eq!(case.data_objects(&bucket).len(), before, "a copy moves no data");
        }
        case.delete(&bucket, "k", None);
        case.finish(&[&bucket]);
        for (at, key) in copies.iter().enumerate() {
            assert!(case.get(&bucket, key) == wanted);
            case.delete(&bucket, key, None);
            case.finish(&[&bucket]);
            let there = !case.data_objects(&bucket).is_empty();
            assert_eq!(there, at + 1 < copies.len() && size > 0, "the data go with the last copy");
        }
    }
}

pub fn a_copy_of_a_copy_shares_the_data(case: &Case) {
    let one = case.bucket("one", Versioning::Off);
    let two = case.bucket("two", Versioning::Enabled);
    // Use an object of several parts, and so of several segments.
    let upload = case.upload(&one, "k");
    let parts =
        [1, 2].map(|number| case.put_part(&one, "k", upload, number, &data(u64::from(number), 1_000)));
    case.complete(&one, "k", upload, &parts).unwrap();
    let wanted = case.get(&one, "k");
    copy(case, &one, &case.object(&one, "k"), &two, "copy").unwrap();
    let copied = case.object(&two, "copy");
    case.delete(&one, "k", None);
    case.settle();
    copy(case, &two, &copied, &one, "back").unwrap();
    case.delete(&two, "copy", Some(copied.version));
    case.finish(&[&one, &two]);
    assert!(case.get(&one, "back") == wanted);
    assert_eq!((case.data_objects(&one).len(), case.data_objects(&two).len()), (2, 0));
    case.put(&one, "back", b"other");
    case.finish(&[&one, &two]);
    assert_eq!(case.data_objects(&one).len(), 1);
}

pub fn a_copy_onto_itself_changes_its_attributes(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", &data(1, 1_000));
    for round in 0..4_u8 {
        let source = case.object(&bucket, "k");
        let attributes = Attributes::from([("round".into(), Bytes::from(vec![round]))]);
        let finish = Finish { attributes: attributes.clone(), ..finish(b"") };
        block_on(case.sal.copy((&bucket, &source), &bucket, "k", finish)).unwrap();
        assert_eq!(case.object(&bucket, "k").attributes, attributes);
        if round % 2 == 1 {
            case.settle();
        }
        assert!(case.get(&bucket, "k") == data(1, 1_000));
        case.check(&bucket);
    }
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 1);
}

pub fn copying_a_deleted_object_fails(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"1");
    let source = case.object(&bucket, "k");
    case.put(&bucket, "k", b"2");
    assert_eq!(kind(copy(case, &bucket, &source, &bucket, "copy")), ErrorKind::NotFound);
    assert!(case.is_missing(&bucket, "copy", None));
    // A shared group stays as long as any version refers to it.
    let source = case.object(&bucket, "k");
    copy(case, &bucket, &source, &bucket, "first").unwrap();
    let first = case.object(&bucket, "first");
    case.delete(&bucket, "k", None);
    copy(case, &bucket, &first, &bucket, "second").unwrap();
    case.delete(&bucket, "first", None);
    case.delete(&bucket, "second", None);
    case.settle();
    assert_eq!(kind(copy(case, &bucket, &first, &bucket, "third")), ErrorKind::NotFound);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn a_copy_outlives_the_bucket_of_its_source(case: &Case) {
    let one = case.bucket("one", Versioning::Off);
    let two = case.bucket("two", Versioning::Off);
    case.put(&one, "k", &data(1, 1_000));
    copy(case, &one, &case.object(&one, "k"), &two, "copy").unwrap();
    case.delete(&one, "k", None);
    block_on(case.sal.delete_bucket("one")).unwrap();
    for _ in 0..3 {
        case.clock.advance_ms(super::GRACE_MS + super::LEASE_MS);
        block_on(case.sal.collect()).unwrap();
    }
    assert!(case.get(&two, "copy") == data(1, 1_000));
    // Removing the last reference also removes the shard that holds the group.
    case.delete(&two, "copy", None);
    case.settle();
    case.finish(&[&two]);
    assert_eq!(case.data_objects(&one), Vec::<String>::new());
    assert_eq!(case.index_objects().len(), 1 + two.shards as usize);
}

pub fn a_late_copy_leaves_nothing(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"1");
    let source = case.object(&bucket, "k");
    // In each round, a gateway whose clock is ahead collects after another operation of the copy,
    // and so expires the copy's lease.
    let ahead = case.ahead_of(10 * super::LEASE_MS);
    for operation in 1..=3 {
        let ahead = std::sync::Arc::clone(&ahead);
        let plan = FaultPlan::interrupted(operation, move || {
            block_on(ahead.collect()).unwrap();
        });
        let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
        let key = format!("copy{operation}");
        let result = block_on(sal.copy((&bucket, &source), &bucket, &key, finish(b"1")));
        // The copy is complete after its third operation.
        let wanted = if operation < 3 { Err(ErrorKind::Unavailable) } else { Ok(()) };
        assert_eq!(result.map(|_| ()).map_err(|error| error.kind()), wanted);
        assert_eq!(case.is_missing(&bucket, &key, None), operation < 3);
        case.check(&bucket);
    }
    case.delete(&bucket, "k", None);
    case.delete(&bucket, "copy3", None);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}
