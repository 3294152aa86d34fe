use super::{Case, data, finish, kind, rest};
use benthic_core::{ErrorKind, ListRequest, Namespaces, ObjectId, Result};
use benthic_s3::sal::encryption::{ENCRYPTION, FRAME_BYTES};
use benthic_s3::sal::{
    Attributes, Bucket, DataKey, Finish, Lock, Object, PartId, PartRef, Versioning, Writer,
};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use futures::executor::block_on;
use std::ops::Range;

const MIB: usize = 1 << 20;
const FRAME: usize = FRAME_BYTES as usize;

fn key(seed: u8) -> DataKey {
    DataKey::from_bytes([seed; 32])
}

fn mark() -> Attributes {
    Attributes::from([(ENCRYPTION.to_owned(), Bytes::from_static(b"how"))])
}

fn write(mut writer: Box<dyn Writer>, data: &[u8], attributes: Attributes) -> Result<PartRef> {
    block_on(async {
        for piece in data.chunks(100_003) {
            writer.write(Bytes::copy_from_slice(piece)).await?;
        }
        let written = writer.finish(Finish { attributes, ..finish(data) }).await?;
        Ok(PartRef { number: 1, write: written.write })
    })
}

fn put(case: &Case, bucket: &Bucket, name: &str, data: &[u8], key: &DataKey) {
    let writer =
        block_on(case.sal.write(bucket, name, None, Some(data.len() as u64), None, Some(key))).unwrap();
    write(writer, data, mark()).unwrap();
}

fn read(case: &Case, bucket: &Bucket, object: &Object, range: Range<u64>, key: &DataKey) -> Result<Vec<u8>> {
    block_on(async { rest(case.sal.read(bucket, object, range, None, Some(key)).await?).await })
}

fn read_all(case: &Case, bucket: &Bucket, name: &str, key: &DataKey) -> Result<Vec<u8>> {
    let object = case.object(bucket, name);
    read(case, bucket, &object, object.all(), key)
}

/// The data objects of a bucket, with their content.
fn stored(case: &Case, bucket: &Bucket) -> Vec<(ObjectId, Bytes)> {
    let namespace = format!("{}.{}", case.options.namespace, bucket.id);
    let request = ListRequest { namespaces: Namespaces::One(namespace), ..ListRequest::default() };
    let page = block_on(case.pools.data.list(request)).unwrap();
    let read = |object: ObjectId| {
        let (stat, _) = block_on(case.pools.data.stat(&object)).unwrap();
        let content = block_on(case.pools.data.read_range(&object, 0, stat.size_bytes)).unwrap();
        (object, content)
    };
    page.objects.into_iter().map(read).collect()
}

pub fn encrypted_data_are_read_back(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let mut rng = Rng(11);
    for size in [0, 1, FRAME - 1, FRAME, FRAME + 1, 4 * MIB - 1, 4 * MIB, 9 * MIB + 7] {
        let wanted = data(size as u64, size);
        put(case, &bucket, "k", &wanted, &key(1));
        let object = case.object(&bucket, "k");
        assert_eq!((object.size_bytes, object.is_encrypted()), (size as u64, true));
        assert!(read(case, &bucket, &object, object.all(), &key(1)).unwrap() == wanted, "size={size}");
        for _ in 0..8 {
            let start = rng.below(size + 1);
            let end = start + rng.below(size - start + 1);
            let found = read(case, &bucket, &object, start as u64..end as u64, &key(1)).unwrap();
            assert!(found == wanted[start..end], "size={size} {start}..{end}");
        }
        // The second lookup fetches the beginning ahead.
        for lookup in 0..2 {
            let (object, ahead) = block_on(case.sal.object_with_prefetch(&bucket, "k")).unwrap();
            assert_eq!(ahead.is_some(), lookup == 1 && size > 0);
            let read = async {
                rest(case.sal.read(&bucket, &object, object.all(), ahead, Some(&key(1))).await?).await
            };
            assert!(block_on(read).unwrap() == wanted);
        }
        assert_eq!(block_on(case.sal.usage(&bucket)).unwrap().bytes, size as u64, "without tags");
        assert!(block_on(case.sal.whole_data(&bucket, &object)).unwrap().is_none());
    }
    case.finish(&[&bucket]);
}

pub fn the_store_has_no_plain_data_and_no_data_twice(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let wanted = vec![b'x'; 3 * FRAME];
    for name in ["one", "two"] {
        put(case, &bucket, name, &wanted, &key(1));
    }
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for (_, content) in stored(case, &bucket) {
        assert_eq!(content.len(), 3 * (FRAME + 16));
        assert!(!content.windows(32).any(|window| window == &wanted[..32]));
        frames.extend(content.chunks(FRAME + 16).map(<[u8]>::to_vec));
    }
    assert_eq!(frames.len(), 6);
    frames.sort();
    frames.dedup();
    assert_eq!(frames.len(), 6, "equal data differ at each place, and in each write");
    case.finish(&[&bucket]);
}

pub fn changed_swapped_and_truncated_data_are_refused(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let wanted = data(5, 3 * FRAME + 100);
    for name in ["one", "two"] {
        put(case, &bucket, name, &wanted, &key(1));
    }
    let [(one, of_one), (_, of_two)] = &stored(case, &bucket)[..] else {
        panic!("there are two data objects")
    };
    let is_refused = |content: Bytes, what: &str| {
        block_on(case.pools.data.write_full(one, content)).unwrap();
        let failed: Vec<_> = ["one", "two"]
            .into_iter()
            .filter_map(|name| read_all(case, &bucket, name, &key(1)).err())
            .map(|error| error.kind())
            .collect();
        assert_eq!(failed, [ErrorKind::Corrupt], "{what}");
    };
    let mut rng = Rng(3);
    for _ in 0..50 {
        let mut content = of_one.to_vec();
        content[rng.below(of_one.len())] ^= 1 << rng.below(8);
        is_refused(content.into(), "a changed bit");
    }
    let frame = FRAME + 16;
    let swapped = [&of_one[frame..2 * frame], &of_one[..frame], &of_one[2 * frame..]].concat();
    is_refused(swapped.into(), "two frames swapped");
    is_refused(of_two.clone(), "the data of another object with the same key");
    is_refused(of_one.slice(..of_one.len() - 1), "a byte less");
    is_refused(of_one.slice(..3 * frame), "a frame less");
    block_on(case.pools.data.write_full(one, of_one.clone())).unwrap();
    assert!(read_all(case, &bucket, "one", &key(1)).unwrap() == wanted);
    case.finish(&[&bucket]);
}

pub fn encrypted_data_need_their_key(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    put(case, &bucket, "k", b"secret", &key(1));
    case.put(&bucket, "plain", b"plain");
    let object = case.object(&bucket, "k");
    assert_eq!(kind(read(case, &bucket, &object, object.all(), &key(2))), ErrorKind::Corrupt);
    let without = block_on(case.sal.read(&bucket, &object, object.all(), None, None));
    assert_eq!(kind(without), ErrorKind::InvalidArgument);
    assert_eq!(kind(read_all(case, &bucket, "plain", &key(1))), ErrorKind::InvalidArgument);
    // The mark and the key belong together.
    let writer = |key: Option<DataKey>| {
        block_on(case.sal.write(&bucket, "other", None, None, None, key.as_ref())).unwrap()
    };
    let unmarked = write(writer(Some(key(1))), b"data", Attributes::new());
    assert_eq!(kind(unmarked), ErrorKind::InvalidArgument);
    assert_eq!(kind(write(writer(None), b"data", mark())), ErrorKind::InvalidArgument);
    let copy = |source: &Object, attributes| {
        let finish = Finish { etag: source.etag.clone(), attributes, ..Finish::default() };
        block_on(case.sal.copy((&bucket, source), &bucket, "copy", finish))
    };
    assert_eq!(kind(copy(&object, Attributes::new())), ErrorKind::InvalidArgument);
    assert_eq!(kind(copy(&case.object(&bucket, "plain"), mark())), ErrorKind::InvalidArgument);
    assert!(case.is_missing(&bucket, "other", None) && case.is_missing(&bucket, "copy", None));
    copy(&object, mark()).unwrap();
    assert_eq!(read_all(case, &bucket, "copy", &key(1)).unwrap(), b"secret");
    case.finish(&[&bucket]);
}

pub fn parts_of_an_upload_share_a_key(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let upload = block_on(case.sal.create_upload(&bucket, "k", mark(), Lock::default(), None)).unwrap();
    let parts = [5 * MIB + 3, 0, 7 * FRAME, 1].map(|size| data(size as u64, size));
    let refs: Vec<PartRef> = (1..)
        .zip(&parts)
        .map(|(number, part)| {
            let id = PartId { upload, number };
            let writer = block_on(case.sal.write(&bucket, "k", Some(id), None, None, Some(&key(1)))).unwrap();
            PartRef { number, ..write(writer, part, mark()).unwrap() }
        })
        .collect();
    case.check(&bucket);
    let finish = Finish { attributes: mark(), ..finish(b"whole") };
    block_on(case.sal.complete_upload(&bucket, "k", upload, &refs, finish)).unwrap();
    let wanted = parts.concat();
    let object = case.object(&bucket, "k");
    assert!(read(case, &bucket, &object, object.all(), &key(1)).unwrap() == wanted);
    let border = parts[0].len() as u64;
    for (start, end) in [(border - 1, border + 1), (border, border + 70_000), (1, wanted.len() as u64)] {
        let found = read(case, &bucket, &object, start..end, &key(1)).unwrap();
        assert!(found == wanted[start as usize..end as usize], "{start}..{end}");
    }
    case.finish(&[&bucket]);
}
