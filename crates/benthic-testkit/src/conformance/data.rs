//! Reading and writing data.

use super::Case;
use super::support::{FULL_BYTES, ObjectContent, kind, pattern};
use crate::random::Rng;
use benthic_core::{ErrorKind, ReadOp, WriteOp};

pub(super) async fn reads_are_short_at_the_end_and_empty_after_it(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "0123456789").await.unwrap();
    for (offset_bytes, len_bytes, expected) in [
        (0, 10, "0123456789"),
        (0, 1, "0"),
        (3, 4, "3456"),
        (0, 11, "0123456789"),
        (5, 1_000_000, "56789"),
        (9, 1, "9"),
        (10, 1, ""),
        (11, 5, ""),
        (1_000_000, 5, ""),
    ] {
        let data = case.pool.read_range(&object, offset_bytes, len_bytes).await.unwrap();
        assert_eq!(data, expected, "{offset_bytes}+{len_bytes}");
    }
}

/// In the OSD protocol, length 0 means "to the end". In the contract it means no bytes.
pub(super) async fn a_read_of_no_bytes_is_empty(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for offset_bytes in [0, 50, FULL_BYTES, FULL_BYTES + 1] {
        assert_eq!(case.pool.read_range(&object, offset_bytes, 0).await.unwrap(), "", "{offset_bytes}");
    }
}

pub(super) async fn an_empty_object_has_no_data(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().create(true)).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::default()));
    assert_eq!(case.pool.read_range(&object, 0, 10).await.unwrap(), "");
    assert_eq!(case.size(&object).await, 0);
}

pub(super) async fn holes_read_as_zeros(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().write(100_000, "x")).await.unwrap();
    assert_eq!(case.size(&object).await, 100_001);
    case.pool.write(&object, WriteOp::new().write(50_000, "y").write(200_000, "z")).await.unwrap();
    let mut expected = vec![0; 200_001];
    (expected[50_000], expected[100_000], expected[200_000]) = (b'y', b'x', b'z');
    assert_eq!(case.state(&object).await.unwrap().data, expected);
    assert_eq!(case.pool.read_range(&object, 49_999, 3).await.unwrap(), "\0y\0");
    assert_eq!(case.pool.read_range(&object, 150_000, 5).await.unwrap(), "\0\0\0\0\0");
}

pub(super) async fn writes_overwrite_and_extend(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().write(0, "0123456789")).await.unwrap();
    for (offset_bytes, data, expected) in [
        (2, "ab", "01ab456789"),
        (0, "X", "X1ab456789"),
        (9, "yz", "X1ab45678yz"),
        (11, "!", "X1ab45678yz!"),
        (14, "?", "X1ab45678yz!\0\0?"),
        (1, "1", "X1ab45678yz!\0\0?"),
    ] {
        case.pool.write(&object, WriteOp::new().write(offset_bytes, data)).await.unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::data(expected)), "{offset_bytes} {data}");
    }
}

/// An empty write never extends the object. An OSD would set the size to the offset, and may report
/// the object as damaged afterwards. The Ceph engine therefore sends `create` instead.
pub(super) async fn an_empty_write_only_creates_the_object(case: &Case<'_>) {
    for offset_bytes in [0, 10] {
        let object = case.object(&format!("missing {offset_bytes}"));
        case.pool.write(&object, WriteOp::new().write(offset_bytes, "")).await.unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::default()), "{offset_bytes}");
    }
    let object = case.make_full("o").await;
    for offset_bytes in [0, 50, FULL_BYTES, 500] {
        case.pool.write(&object, WriteOp::new().write(offset_bytes, "")).await.unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()), "{offset_bytes}");
    }
}

pub(super) async fn append_writes_at_the_end(case: &Case<'_>) {
    let object = case.object("o");
    for (data, expected) in [("ab", "ab"), ("", "ab"), ("c", "abc")] {
        case.pool.write(&object, WriteOp::new().append(data)).await.unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::data(expected)));
    }
    case.pool.write(&object, WriteOp::new().truncate(5)).await.unwrap();
    case.pool.write(&object, WriteOp::new().append("d")).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("abc\0\0d")));
}

pub(super) async fn write_full_replaces_the_data_and_nothing_else(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for data in ["zz", "", "something longer than it was"] {
        case.pool.write_full(&object, data).await.unwrap();
        assert_eq!(
            case.state(&object).await,
            Some(ObjectContent { data: data.into(), ..ObjectContent::full() })
        );
    }
}

pub(super) async fn truncate_cuts_and_extends_with_zeros(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for (size_bytes, expected) in [
        (100, "a".repeat(100)),
        (50, "a".repeat(50)),
        // Bytes cut off by a truncate do not reappear when the object grows again.
        (70, "a".repeat(50) + &"\0".repeat(20)),
        (0, String::new()),
        (3, "\0\0\0".to_owned()),
    ] {
        case.pool.write(&object, WriteOp::new().truncate(size_bytes)).await.unwrap();
        let expected = ObjectContent { data: expected.into(), ..ObjectContent::full() };
        assert_eq!(case.state(&object).await, Some(expected), "{size_bytes}");
    }
}

pub(super) async fn zero_inside_keeps_the_size(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "0123456789").await.unwrap();
    case.pool.write(&object, WriteOp::new().zero(2, 3)).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("01\0\0\x0056789")));
    case.pool.write(&object, WriteOp::new().zero(0, 9)).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("\0\0\0\0\0\0\0\0\x009")));
}

pub(super) async fn zero_up_to_the_end_truncates(case: &Case<'_>) {
    for (offset_bytes, len_bytes, left) in [(90, 10, 90), (90, 1_000, 90), (99, 1, 99), (0, 100, 0)] {
        let object = case.make_full(&format!("{offset_bytes}+{len_bytes}")).await;
        case.pool.write(&object, WriteOp::new().zero(offset_bytes, len_bytes)).await.unwrap();
        let expected = ObjectContent { data: "a".repeat(left).into(), ..ObjectContent::full() };
        assert_eq!(case.state(&object).await, Some(expected), "{offset_bytes}+{len_bytes}");
    }
}

pub(super) async fn zero_after_the_end_does_nothing(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for (offset_bytes, len_bytes) in [(100, 1), (100, 1_000), (200, 10)] {
        case.pool.write(&object, WriteOp::new().zero(offset_bytes, len_bytes)).await.unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()), "{offset_bytes}+{len_bytes}");
    }
}

/// An OSD aborts on this operation.
pub(super) async fn zero_of_no_bytes_is_refused(case: &Case<'_>) {
    let (object, missing) = (case.make_full("o").await, case.object("missing"));
    for offset_bytes in [0, 50, 100, 200] {
        let op = WriteOp::new().create(false).zero(offset_bytes, 0);
        assert_eq!(kind(case.pool.write(&object, op.clone()).await), ErrorKind::InvalidArgument);
        assert_eq!(kind(case.pool.write(&missing, op).await), ErrorKind::InvalidArgument);
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    assert_eq!(case.state(&missing).await, None);
}

pub(super) async fn remove_deletes_data_attributes_and_omap(case: &Case<'_>) {
    let object = case.make_full("o").await;
    case.pool.remove(&object).await.unwrap();
    assert_eq!(case.state(&object).await, None);
    assert_eq!(kind(case.pool.remove(&object).await), ErrorKind::NotFound);
    case.pool.write(&object, WriteOp::new().create(true)).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::default()));
}

pub(super) async fn stat_returns_size_and_time(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "abc").await.unwrap();
    let (first, _) = case.pool.stat(&object).await.unwrap();
    assert_eq!(first.size_bytes, 3);
    // The time is after 2001. A value in seconds or milliseconds would fail this check.
    assert!(first.modified_unix_ns > 1_000_000_000_000_000_000, "{first:?}");
    assert_eq!(case.pool.stat(&object).await.unwrap().0, first, "reading changes nothing");
    case.pool.write(&object, WriteOp::new().set_xattr("a", "b")).await.unwrap();
    let (second, _) = case.pool.stat(&object).await.unwrap();
    assert_eq!(second.size_bytes, 3);
    assert!(second.modified_unix_ns >= first.modified_unix_ns, "{second:?} before {first:?}");
}

/// Sizes around powers of two, where engines split data into blocks and extents.
pub(super) async fn data_of_every_size_reads_back(case: &Case<'_>) {
    for power in [0, 6, 9, 12, 16, 20, 22] {
        for len_bytes in [(1_usize << power) - 1, 1 << power, (1 << power) + 1] {
            let object = case.object(&len_bytes.to_string());
            let data = pattern(len_bytes);
            case.pool.write_full(&object, data.clone()).await.unwrap();
            let read = case.pool.read_range(&object, 0, len_bytes as u64 + 10).await.unwrap();
            assert!(read == data, "{len_bytes} bytes read back otherwise");
            let half = len_bytes / 2;
            let read = case.pool.read_range(&object, half as u64, 5_000).await.unwrap();
            assert!(read == data[half..len_bytes.min(half + 5_000)], "a range of {len_bytes} bytes differs");
        }
    }
}

/// The access pattern of a block image or a file that is edited in place.
pub(super) async fn overwrites_of_a_large_object_change_only_their_range(case: &Case<'_>) {
    let object = case.object("o");
    let mut expected = pattern(5 * 1024 * 1024 + 123);
    case.pool.write_full(&object, expected.clone()).await.unwrap();
    let mut random = Rng(1);
    for round in 0..120_u8 {
        let offset = random.below(expected.len());
        let len = 1 + random.below(if round % 10 == 0 { 300_000 } else { 9_000 });
        let end = expected.len().min(offset + len);
        expected[offset..end].fill(round);
        let data = vec![round; end - offset];
        case.pool.write(&object, WriteOp::new().write(offset as u64, data).buffered()).await.unwrap();

        let (from, len) = (random.below(expected.len()), random.below(100_000));
        let read = case.pool.read_range(&object, from as u64, len as u64).await.unwrap();
        assert!(
            read == expected[from..expected.len().min(from + len)],
            "round {round}: {from}+{len} differs"
        );
    }
    let read = case.pool.read_range(&object, 0, 64 * 1024 * 1024).await.unwrap();
    assert!(read == expected, "the whole object differs");
}

pub(super) async fn truncates_and_zeros_of_a_large_object_keep_the_rest(case: &Case<'_>) {
    let object = case.object("o");
    let mut expected = pattern(3 * 1024 * 1024);
    case.pool.write_full(&object, expected.clone()).await.unwrap();
    let mib = 1024 * 1024;
    expected[mib - 5_000..mib + 70_000].fill(0);
    case.pool.write(&object, WriteOp::new().zero(mib as u64 - 5_000, 75_000)).await.unwrap();
    expected.truncate(2 * mib + 777);
    case.pool.write(&object, WriteOp::new().truncate(2 * mib as u64 + 777)).await.unwrap();
    expected.resize(3 * mib, 0);
    case.pool.write(&object, WriteOp::new().truncate(3 * mib as u64)).await.unwrap();
    expected.extend_from_slice(b"end");
    case.pool.write(&object, WriteOp::new().append("end")).await.unwrap();
    let read = case.pool.read_range(&object, 0, 4 * mib as u64).await.unwrap();
    assert!(read == expected, "the object differs");
}

pub(super) async fn a_read_operation_answers_every_step_in_order(case: &Case<'_>) {
    use benthic_core::ReadOutput::{Data, Stat, Xattr};
    let object = case.make_full("o").await;
    let op = ReadOp::new().read(98, 10).stat().read(0, 1).get_xattr("X").read(100, 1);
    let reply = case.pool.read(&object, op).await.unwrap();
    let (stat, version) = case.pool.stat(&object).await.unwrap();
    assert_eq!(reply.version, version);
    let expected = [Data("aa".into()), Stat(stat), Data("a".into()), Xattr("1".into()), Data("".into())];
    assert_eq!(reply.outputs, expected);
}
