use super::{Case, GRACE_MS, LEASE_MS, data, finish, kind, put, rest};
use benthic_core::ErrorKind;
use benthic_s3::sal::{Attributes, Bucket, Delete, Finish, Object, Versioning, limits};
use bytes::Bytes;
use futures::executor::block_on;

const MIB: usize = 1 << 20;

pub fn data_of_every_size_are_read_back(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    for (seed, size) in (0..).zip([0, 1, 1_000, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB]) {
        let wanted = data(seed, size);
        // Write in pieces of several sizes; the declared size is right, absent or wrong.
        for (piece, known) in [(size.max(1), Some(size)), (100_003, None), (3 * MIB, Some(size / 2))] {
            let mut writer =
                block_on(case.sal.write(&bucket, "k", None, known.map(|size| size as u64), None, None))
                    .unwrap();
            for piece in wanted.chunks(piece) {
                block_on(writer.write(Bytes::copy_from_slice(piece))).unwrap();
            }
            let written = block_on(writer.finish(finish(&wanted))).unwrap();
            assert_eq!(written.size_bytes, size as u64);
            let object = case.object(&bucket, "k");
            assert_eq!((object.size_bytes, object.etag), (size as u64, finish(&wanted).etag));
            assert!(case.get(&bucket, "k") == wanted, "size={size} piece={piece}");
        }
    }
    case.finish(&[&bucket]);
}

pub fn a_range_returns_exactly_its_bytes(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let size = 9 * MIB;
    let wanted = data(1, size);
    case.put(&bucket, "k", &wanted);
    // Data that are pending are not prefetched.
    case.drain();
    let object = case.object(&bucket, "k");
    // Read with and without a prefetch, which some ranges cannot use.
    case.get_with_prefetch(&bucket, "k").unwrap();
    let read = |range: std::ops::Range<u64>| {
        block_on(async {
            let data = rest(case.sal.read(&bucket, &object, range.clone(), None, None).await?).await?;
            let (_, ahead) = case.sal.object_with_prefetch(&bucket, "k").await?;
            assert!(ahead.is_some());
            let with_ahead = rest(case.sal.read(&bucket, &object, range, ahead, None).await?).await?;
            assert!(with_ahead == data);
            Ok(data)
        })
    };
    for (start, end) in
        [(0, 0), (0, 1), (size - 1, size), (size, size), (4 * MIB - 1, 4 * MIB + 1), (1, size - 1)]
    {
        assert!(read(start as u64..end as u64).unwrap() == wanted[start..end], "{start}..{end}");
    }
    for (start, end) in [(0, size + 1), (size + 1, size + 1), (2, 1)] {
        let range = std::ops::Range { start: start as u64, end: end as u64 };
        assert_eq!(kind(read(range)), ErrorKind::InvalidArgument);
    }
    case.finish(&[&bucket]);
}

pub fn a_prefetch_belongs_to_the_version_that_is_found(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let another = case.another();
    for (seed, size) in (0..).zip([1_000, 256 << 10, 9 * MIB, 300_000]) {
        let wanted = data(seed, size);
        // Another gateway replaces the object in this gateway's cache, and the old data are
        // collected.
        put(another.as_ref(), &bucket, "k", &wanted, finish(&wanted)).unwrap();
        case.clock.advance_ms(GRACE_MS);
        block_on(case.sal.collect()).unwrap();
        for is_known in [false, true] {
            let (object, prefetched_bytes, found) = case.get_with_prefetch(&bucket, "k").unwrap();
            assert!(found == wanted && object.etag == finish(&wanted).etag, "size={size}");
            let expected = is_known.then_some(size.min(256 << 10) as u64);
            assert_eq!(prefetched_bytes, expected, "an object at its known location is prefetched");
        }
    }
    // A copy shares the data objects of its source.
    let there = case.bucket("there", Versioning::Enabled);
    let object = case.object(&bucket, "k");
    let finish = Finish { etag: object.etag.clone(), ..Finish::default() };
    block_on(case.sal.copy((&bucket, &object), &there, "copy", finish)).unwrap();
    let (_, _, wanted) = case.get_with_prefetch(&there, "copy").unwrap();
    let (_, prefetched_bytes, found) = case.get_with_prefetch(&there, "copy").unwrap();
    assert!(prefetched_bytes.is_some() && found == wanted && wanted == data(3, 300_000));
    // Empty, hidden and deleted objects have no prefetch.
    put(another.as_ref(), &bucket, "k", b"", super::finish(b"")).unwrap();
    let (object, prefetched_bytes, found) = case.get_with_prefetch(&bucket, "k").unwrap();
    assert_eq!((object.size_bytes, prefetched_bytes, found), (0, None, vec![]));
    let delete = |bucket: &Bucket, key: &str| {
        let delete = Delete { key: key.into(), ..Delete::default() };
        block_on(another.delete(bucket, &delete)).unwrap();
    };
    delete(&there, "copy");
    let (object, prefetched_bytes, _) = case.get_with_prefetch(&there, "copy").unwrap();
    assert!(object.marker && prefetched_bytes.is_none());
    put(another.as_ref(), &bucket, "k", b"new", super::finish(b"new")).unwrap();
    assert_eq!(case.get_with_prefetch(&bucket, "k").unwrap().2, b"new");
    delete(&bucket, "k");
    assert_eq!(kind(case.get_with_prefetch(&bucket, "k")), ErrorKind::NotFound);
    case.finish(&[&bucket, &there]);
}

pub fn an_object_is_replaced_as_a_whole(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    for size in [5 * MIB, 10, 0, 6 * MIB] {
        let wanted = data(size as u64, size);
        case.put(&bucket, "k", &wanted);
        assert!(case.get(&bucket, "k") == wanted);
    }
    assert_eq!(case.data_objects(&bucket).len(), 2 + 1 + 2);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 2, "only current data are left");
    case.delete(&bucket, "k", None);
    assert!(case.is_missing(&bucket, "k", None));
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

fn attributes(entries: &[(&str, usize)]) -> Attributes {
    entries.iter().map(|(name, len)| ((*name).to_owned(), Bytes::from(data(1, *len)))).collect()
}

fn try_attributes(case: &Case, bucket: &Bucket, attributes: Attributes) -> benthic_core::Result<()> {
    let finish = Finish { attributes, ..finish(b"x") };
    put(case.sal.as_ref(), bucket, "k", b"x", finish).map(|_| ())
}

pub fn attributes_are_read_back_and_have_limits(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let max = limits::ATTRIBUTES_BYTES_MAX;
    // The index entry holds small attributes; large ones are stored beside it.
    for wanted in [attributes(&[]), attributes(&[("a", 0), ("b", 3)]), attributes(&[("tags", max - 4)])] {
        try_attributes(case, &bucket, wanted.clone()).unwrap();
        assert_eq!(case.object(&bucket, "k").attributes, wanted);
    }
    assert_eq!(kind(try_attributes(case, &bucket, attributes(&[("tags", max)]))), ErrorKind::LimitExceeded);
    let many = (0..=limits::ATTRIBUTES_MAX).map(|n| (n.to_string(), Bytes::new())).collect();
    assert_eq!(kind(try_attributes(case, &bucket, many)), ErrorKind::LimitExceeded);
    let etag = Finish { etag: "e".repeat(limits::ETAG_BYTES_MAX + 1), ..Finish::default() };
    assert_eq!(kind(put(case.sal.as_ref(), &bucket, "k", b"x", etag)), ErrorKind::LimitExceeded);
    case.finish(&[&bucket]);
}

pub fn attributes_change_by_compare_and_swap(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    case.put(&bucket, "k", b"1");
    let old = case.object(&bucket, "k");
    case.put(&bucket, "k", b"2");
    let set = |object: &Object, attributes| {
        let new = Object { attributes, ..object.clone() };
        block_on(case.sal.update_object(&bucket, object, &new, false))
    };
    let of = |version| block_on(case.sal.object(&bucket, "k", Some(version))).unwrap();
    for (round, len) in [10, 5_000, 0, 6_000].into_iter().enumerate() {
        for version in [old.version, case.object(&bucket, "k").version] {
            let before = of(version);
            let wanted = attributes(&[("tags", len)]);
            set(&before, wanted.clone()).unwrap();
            let after = of(version);
            assert_eq!((&after.attributes, after.revision), (&wanted, round as u32 + 1));
            assert_eq!((after.etag, after.modified_ms), (before.etag.clone(), before.modified_ms));
            let late = set(&before, attributes(&[("other", 1)]));
            assert_eq!(kind(late), ErrorKind::Conflict);
        }
    }
    assert_eq!(case.read(&bucket, &of(old.version)), b"1");
    let current = case.object(&bucket, "k");
    case.delete(&bucket, "k", Some(current.version));
    assert_eq!(kind(set(&current, Attributes::new())), ErrorKind::NotFound);
    case.finish(&[&bucket]);
}

pub fn an_unfinished_write_is_invisible(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"old");
    let begin = || {
        let mut writer = block_on(case.sal.write(&bucket, "k", None, None, None, None)).unwrap();
        block_on(writer.write(data(1, 5 * MIB).into())).unwrap();
        writer
    };
    drop(begin());
    block_on(begin().abort()).unwrap();
    assert_eq!(case.get(&bucket, "k"), b"old");
    assert_eq!(case.names(&bucket, "", "", 10), ["k"]);
    case.check(&bucket);
    // The data of an aborted write are collected at once, those of a dropped writer after its
    // lease.
    block_on(case.sal.collect()).unwrap();
    assert_eq!(case.data_objects(&bucket).len(), 2);
    case.clock.advance_ms(LEASE_MS);
    let collected = block_on(case.sal.collect()).unwrap();
    assert_eq!((collected.expired_writes, collected.data_objects), (1, 1));
    assert_eq!(case.data_objects(&bucket).len(), 1);
    case.finish(&[&bucket]);
}

pub fn a_reader_continues_while_its_object_is_replaced(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let old = data(1, 30 * MIB);
    case.put(&bucket, "k", &old);
    let object = case.object(&bucket, "k");
    let mut reader = block_on(case.sal.read(&bucket, &object, object.all(), None, None)).unwrap();
    let mut found = block_on(reader.next()).unwrap().unwrap().to_vec();
    case.put(&bucket, "k", b"new");
    case.clock.advance_ms(GRACE_MS - 1);
    block_on(case.sal.collect()).unwrap();
    while let Some(piece) = block_on(reader.next()).unwrap() {
        found.extend_from_slice(&piece);
    }
    assert!(found == old, "the reader returns the version that it began to read");
    // A reader that takes longer gets an error, never other data.
    let mut reader = block_on(case.sal.read(&bucket, &object, object.all(), None, None)).unwrap();
    block_on(reader.next()).unwrap();
    case.clock.advance_ms(GRACE_MS);
    block_on(case.sal.collect()).unwrap();
    let error = loop {
        match block_on(reader.next()) {
            Ok(piece) => assert!(piece.is_some(), "the reader does not end early without an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    case.finish(&[&bucket]);
}

pub fn a_writer_without_a_lease_fails(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    // The writer notices the lost lease by its own clock.
    let mut writer = block_on(case.sal.write(&bucket, "k", None, Some(9 * MIB as u64), None, None)).unwrap();
    block_on(writer.write(data(1, 5 * MIB).into())).unwrap();
    case.clock.advance_ms(LEASE_MS);
    assert_eq!(kind(block_on(writer.write(data(1, 4 * MIB).into()))), ErrorKind::Unavailable);
    drop(writer);
    // If all data are written, the index refuses the commit.
    let mut writer = block_on(case.sal.write(&bucket, "k", None, Some(4 * MIB as u64), None, None)).unwrap();
    block_on(writer.write(data(1, 4 * MIB).into())).unwrap();
    case.clock.advance_ms(LEASE_MS);
    block_on(case.another().collect()).unwrap();
    assert_eq!(kind(block_on(writer.finish(finish(b"")))), ErrorKind::Unavailable);
    assert!(case.is_missing(&bucket, "k", None));
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket), Vec::<String>::new());
}

pub fn a_long_write_renews_its_lease(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let wanted = data(1, 21 * MIB);
    let mut writer =
        block_on(case.sal.write(&bucket, "k", None, Some(wanted.len() as u64), None, None)).unwrap();
    for piece in wanted.chunks(4 * MIB) {
        block_on(writer.write(Bytes::copy_from_slice(piece))).unwrap();
        case.clock.advance_ms(LEASE_MS - 1);
        // Another gateway keeps collecting.
        block_on(case.another().collect()).unwrap();
    }
    // Finishing writes the remaining data, which also renews the lease.
    block_on(writer.finish(finish(&wanted))).unwrap();
    assert!(case.get(&bucket, "k") == wanted);
    case.finish(&[&bucket]);
}
