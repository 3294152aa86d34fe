use super::{Case, GRACE_MS, LEASE_MS, data, finish, kind};
use benthic_core::ErrorKind;
use benthic_s3::sal::{
    Attributes, Condition, Finish, Id, Lock, PartRef, Usage, VersionId, Versioning, limits,
};
use bytes::Bytes;
use futures::executor::block_on;

const PART: usize = 5 << 20;

pub fn parts_become_an_object(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let attributes = Attributes::from([("type".into(), Bytes::from("x"))]);
    let upload =
        block_on(case.sal.create_upload(&bucket, "k", attributes.clone(), Lock::default(), None)).unwrap();
    assert_eq!(block_on(case.sal.upload(&bucket, "k", upload)).unwrap().attributes, attributes);
    let parts = [(7, PART + 1), (2, 0), (10_000, 100), (1, PART), (5, 10)];
    let mut written: Vec<(PartRef, Vec<u8>)> = parts
        .iter()
        .map(|(number, size)| {
            let data = data(u64::from(*number), *size);
            (case.put_part(&bucket, "k", upload, *number, &data), data)
        })
        .collect();
    written.sort_by_key(|(part, _)| part.number);
    assert!(case.is_missing(&bucket, "k", None), "the object is invisible before completion");
    // Complete with all parts but one, which is dropped.
    written.retain(|(part, _)| part.number != 5);
    let named: Vec<PartRef> = written.iter().map(|(part, _)| *part).collect();
    case.complete(&bucket, "k", upload, &named).unwrap();
    let wanted: Vec<u8> = written.iter().flat_map(|(_, data)| data.clone()).collect();
    let object = case.object(&bucket, "k");
    assert_eq!((object.size_bytes, object.write), (wanted.len() as u64, upload));
    assert!(case.read(&bucket, &object) == wanted);
    assert_eq!(object.part_bytes, [PART as u64, PART as u64 + 1, 100], "the sizes of the parts are known");
    let usage = block_on(case.sal.usage(&bucket)).unwrap();
    assert_eq!(usage, Usage { objects: 1, versions: 1, bytes: wanted.len() as u64, ..Usage::default() });
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 2 + 2 + 1);
}

pub fn a_part_is_replaced(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = case.upload(&bucket, "k");
    let old = case.put_part(&bucket, "k", upload, 1, b"old");
    let new = case.put_part(&bucket, "k", upload, 1, b"newer");
    assert_eq!(block_on(case.sal.usage(&bucket)).unwrap().part_bytes, 5);
    assert_eq!(kind(case.complete(&bucket, "k", upload, &[old])), ErrorKind::InvalidArgument);
    case.complete(&bucket, "k", upload, &[new]).unwrap();
    assert_eq!(case.get(&bucket, "k"), b"newer");
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 1);
}

pub fn completing_with_missing_parts_fails(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = case.upload(&bucket, "k");
    let one = case.put_part(&bucket, "k", upload, 1, b"1");
    let two = case.put_part(&bucket, "k", upload, 2, b"2");
    let missing = PartRef { number: 3, write: one.write };
    for parts in [&[][..], &[missing], &[one, missing], &[two, one], &[one, one]] {
        assert_eq!(kind(case.complete(&bucket, "k", upload, parts)), ErrorKind::InvalidArgument, "{parts:?}");
    }
    let nobody = Id::default();
    assert_eq!(kind(case.complete(&bucket, "k", nobody, &[one])), ErrorKind::NotFound);
    assert_eq!(kind(case.complete(&bucket, "other", upload, &[one])), ErrorKind::NotFound);
    for number in [0, 10_001] {
        let part = case.try_put_part(&bucket, "k", upload, number, b"1");
        assert_eq!(kind(part), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(case.try_put_part(&bucket, "k", nobody, 1, b"1")), ErrorKind::NotFound);
    case.complete(&bucket, "k", upload, &[one, two]).unwrap();
    assert_eq!(case.get(&bucket, "k"), b"12");
    case.finish(&[&bucket]);
}

pub fn a_repeated_completion_changes_nothing(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let upload = case.upload(&bucket, "k");
    let part = case.put_part(&bucket, "k", upload, 1, b"1");
    let version = case.complete(&bucket, "k", upload, &[part]).unwrap();
    assert_eq!(case.complete(&bucket, "k", upload, &[part]).unwrap(), version);
    // A repeated completion succeeds at any time while the object is current.
    case.settle();
    assert_eq!(case.complete(&bucket, "k", upload, &[part]).unwrap(), version);
    assert_eq!(case.versions(&bucket).len(), 1);
    let newer = case.put(&bucket, "k", b"2").version;
    assert_eq!(kind(case.complete(&bucket, "k", upload, &[part])), ErrorKind::NotFound);
    assert_eq!(case.object(&bucket, "k").version, newer);
    // After a newer write it succeeds until the outcome expires.
    let upload = case.upload(&bucket, "k");
    let part = case.put_part(&bucket, "k", upload, 1, b"3");
    let version = case.complete(&bucket, "k", upload, &[part]).unwrap();
    case.put(&bucket, "k", b"4");
    assert_eq!(case.complete(&bucket, "k", upload, &[part]).unwrap(), version);
    assert_eq!(case.get(&bucket, "k"), b"4");
    assert_eq!(kind(block_on(case.sal.abort_upload(&bucket, "k", upload))), ErrorKind::NotFound);
    case.finish(&[&bucket]);
}

pub fn an_aborted_upload_is_gone(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = case.upload(&bucket, "k");
    let part = case.put_part(&bucket, "k", upload, 1, &data(1, PART));
    let mut late = {
        let of = benthic_s3::sal::PartId { upload, number: 2 };
        block_on(case.sal.write(&bucket, "k", Some(of), None, None, None)).unwrap()
    };
    block_on(late.write(data(2, PART).into())).unwrap();
    block_on(case.sal.abort_upload(&bucket, "k", upload)).unwrap();
    assert_eq!(kind(block_on(late.finish(finish(b"")))), ErrorKind::NotFound);
    assert_eq!(kind(case.complete(&bucket, "k", upload, &[part])), ErrorKind::NotFound);
    assert_eq!(kind(block_on(case.sal.abort_upload(&bucket, "k", upload))), ErrorKind::NotFound);
    assert_eq!(kind(block_on(case.sal.list_parts(&bucket, "k", upload, 0, 10))), ErrorKind::NotFound);
    assert_eq!(kind(case.try_put_part(&bucket, "k", upload, 3, b"3")), ErrorKind::NotFound);
    case.check(&bucket);
    // Parts have no readers, so the collector need not wait.
    block_on(case.sal.collect()).unwrap();
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
    case.finish(&[&bucket]);
}

pub fn either_completion_or_abort_wins(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    for round in 0..8 {
        let key = format!("k{round}");
        let upload = case.upload(&bucket, &key);
        let part = case.put_part(&bucket, &key, upload, 1, b"1");
        let (completed, aborted) = std::thread::scope(|scope| {
            let other = case.another();
            let (bucket, key) = (&bucket, &key);
            let aborted = scope.spawn(move || block_on(other.abort_upload(bucket, key, upload)));
            (case.complete(bucket, key, upload, &[part]), aborted.join().unwrap())
        });
        assert_ne!(completed.is_ok(), aborted.is_ok());
        let lost = completed.as_ref().err().or(aborted.as_ref().err()).unwrap();
        assert_eq!(lost.kind(), ErrorKind::NotFound, "{lost}");
        assert_eq!(case.is_missing(&bucket, &key, None), completed.is_err());
    }
    case.finish(&[&bucket]);
}

pub fn parts_are_listed_by_pages(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = case.upload(&bucket, "k");
    let mut numbers = vec![9_999, 3, 256, 1, 255, 10_000];
    for number in &numbers {
        case.put_part(&bucket, "k", upload, *number, &vec![0; usize::from(*number % 7)]);
    }
    numbers.sort_unstable();
    let (mut after, mut found) = (0, Vec::new());
    loop {
        let (parts, more) = block_on(case.sal.list_parts(&bucket, "k", upload, after, 4)).unwrap();
        for (number, part) in &parts {
            assert_eq!(part.size_bytes, u64::from(number % 7));
            found.push(*number);
        }
        after = *found.last().unwrap();
        if !more {
            break;
        }
    }
    assert_eq!(found, numbers);
    block_on(case.sal.abort_upload(&bucket, "k", upload)).unwrap();
    case.finish(&[&bucket]);
}

pub fn parts_have_limits(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = case.upload(&bucket, "k");
    let put = |number, len| {
        let attributes = Attributes::from([("a".into(), Bytes::from(vec![0; len]))]);
        let part = benthic_s3::sal::PartId { upload, number };
        block_on(async {
            let writer = case.sal.write(&bucket, "k", Some(part), None, None, None).await?;
            writer.finish(Finish { attributes, ..finish(b"") }).await
        })
    };
    put(1, limits::PART_ATTRIBUTES_BYTES_MAX - 1).unwrap();
    assert_eq!(kind(put(2, limits::PART_ATTRIBUTES_BYTES_MAX)), ErrorKind::LimitExceeded);
    block_on(case.sal.abort_upload(&bucket, "k", upload)).unwrap();
    case.finish(&[&bucket]);
}

pub fn an_upload_has_conditions_and_versions(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    case.put(&bucket, "k", b"0");
    let upload = case.upload(&bucket, "k");
    let part = case.put_part(&bucket, "k", upload, 1, b"1");
    let complete = |condition| {
        let finish = Finish { condition, ..finish(b"1") };
        block_on(case.sal.complete_upload(&bucket, "k", upload, &[part], finish))
    };
    assert_eq!(kind(complete(Condition::Absent)), ErrorKind::Conflict);
    assert_eq!(kind(complete(Condition::Matches("other".into()))), ErrorKind::Conflict);
    // A failed condition leaves the upload unchanged, for any length of time.
    case.clock.advance_ms(2 * (LEASE_MS + GRACE_MS));
    block_on(case.sal.collect()).unwrap();
    let version = complete(Condition::Exists).unwrap();
    assert!(matches!(version, VersionId::Seq(_)));
    assert_eq!(case.versions(&bucket).len(), 2);
    assert_eq!(case.get(&bucket, "k"), b"1");
    case.finish(&[&bucket]);
}
