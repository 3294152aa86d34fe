//! Limits: a value at the limit works; a value one above it is refused and changes nothing.

use super::Case;
use super::misbehaviour::assert_explains;
use super::support::{ObjectContent, kind, pattern};
use benthic_core::{Compare, ErrorKind, ObjectId, ReadOp, WriteOp, limits};
use bytes::Bytes;

const MIB: u64 = 1024 * 1024;

pub(super) async fn names_at_their_limits_work(case: &Case<'_>) {
    let name = "n".repeat(limits::OBJECT_NAME_BYTES_MAX);
    let fill = limits::NAMESPACE_BYTES_MAX - case.namespace().len();
    let namespace = format!("{}{}", case.namespace(), "s".repeat(fill));
    let object = ObjectId::in_namespace(namespace.clone(), name.clone()).unwrap();
    let xattr = "x".repeat(limits::XATTR_NAME_BYTES_MAX);
    let op = WriteOp::new().write_full("data").set_xattr(xattr.clone(), "1").omap_set([("k", "v")]);
    case.pool.write(&object, op).await.unwrap();
    assert_eq!(
        case.state(&object).await,
        Some(ObjectContent::data("data").xattr(&xattr, "1").entry("k", "v"))
    );
    let op = WriteOp::new().cmp_xattr(xattr.clone(), Compare::Eq, "1").remove_xattr(xattr);
    case.pool.write(&object, op).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("data").entry("k", "v")));
    assert_eq!(kind(ObjectId::in_namespace(namespace.clone(), name.clone() + "n")), ErrorKind::LimitExceeded);
    assert_eq!(kind(ObjectId::in_namespace(namespace + "s", name)), ErrorKind::LimitExceeded);
}

pub(super) async fn invalid_names_are_refused(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let over = "x".repeat(limits::XATTR_NAME_BYTES_MAX + 1);
    for (name, expected) in [
        (over.as_str(), ErrorKind::LimitExceeded),
        ("", ErrorKind::InvalidArgument),
        ("a\0b", ErrorKind::InvalidArgument),
    ] {
        for op in [
            WriteOp::new().write_full("x").set_xattr(name, ""),
            WriteOp::new().write_full("x").remove_xattr(name),
            WriteOp::new().write_full("x").cmp_xattr(name, Compare::Eq, ""),
        ] {
            assert_eq!(kind(case.pool.write(&object, op).await), expected, "{name:?}");
        }
        for op in [ReadOp::new().get_xattr(name), ReadOp::new().cmp_xattr(name, Compare::Eq, "")] {
            assert_eq!(kind(case.pool.read(&object, op).await), expected, "{name:?}");
        }
    }
    let over = "c".repeat(limits::CLASS_NAME_BYTES_MAX + 1);
    for (class, method, expected) in [
        ("", "say", ErrorKind::InvalidArgument),
        ("hello", "", ErrorKind::InvalidArgument),
        ("hel\0lo", "say", ErrorKind::InvalidArgument),
        (&over, "say", ErrorKind::LimitExceeded),
        ("hello", &over, ErrorKind::LimitExceeded),
    ] {
        let op = WriteOp::new().exec(class, method, "").write_full("x");
        assert_eq!(kind(case.pool.write(&object, op).await), expected, "{class:?} {method:?}");
        let op = ReadOp::new().exec(class, method, "");
        assert_eq!(kind(case.pool.read(&object, op).await), expected, "{class:?} {method:?}");
        assert_eq!(kind(case.exec(&object, class, method, "").await), expected, "{class:?} {method:?}");
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn attribute_values_have_a_limit(case: &Case<'_>) {
    let object = case.object("o");
    let largest = Bytes::from(pattern(limits::XATTR_VALUE_BYTES_MAX));
    case.pool.write(&object, WriteOp::new().set_xattr("a", largest.clone())).await.unwrap();
    assert_eq!(case.pool.get_xattr(&object, "a").await.unwrap(), largest);
    let over = Bytes::from(vec![1; limits::XATTR_VALUE_BYTES_MAX + 1]);
    let op = WriteOp::new().write_full("x").set_xattr("a", over.clone());
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::LimitExceeded);
    let op = WriteOp::new().write_full("x").cmp_xattr("a", Compare::Ne, over);
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::LimitExceeded);
    assert_eq!(case.pool.get_xattr(&object, "a").await.unwrap(), largest);
    assert_eq!(case.size(&object).await, 0);
}

pub(super) async fn omap_keys_and_values_have_limits(case: &Case<'_>) {
    let object = case.object("o");
    let key = Bytes::from(pattern(limits::OMAP_KEY_BYTES_MAX));
    let value = Bytes::from(pattern(limits::OMAP_VALUE_BYTES_MAX));
    case.pool.write(&object, WriteOp::new().omap_set([(key.clone(), value.clone())])).await.unwrap();
    let pages = case.omap_pages(&object, "", 10).await;
    assert!(pages == [[(key.clone(), value.clone())]], "the entry differs");

    let long_key = Bytes::from(pattern(limits::OMAP_KEY_BYTES_MAX + 1));
    let long_value = Bytes::from(pattern(limits::OMAP_VALUE_BYTES_MAX + 1));
    for op in [
        WriteOp::new().write_full("x").omap_set([(long_key.clone(), Bytes::new())]),
        WriteOp::new().write_full("x").omap_set([(key.clone(), long_value.clone())]),
        WriteOp::new().write_full("x").omap_remove([long_key.clone()]),
        WriteOp::new().write_full("x").cmp_omap(long_key.clone(), ""),
        WriteOp::new().write_full("x").cmp_omap(key.clone(), long_value),
    ] {
        assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::LimitExceeded);
    }
    for op in [
        ReadOp::new().omap_get([long_key.clone()]),
        ReadOp::new().omap_range(Some(long_key.clone()), "", 1),
        ReadOp::new().omap_range(None, long_key, 1),
    ] {
        assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::LimitExceeded);
    }
    assert_eq!(case.size(&object).await, 0);
    let pages = case.omap_pages(&object, "", 10).await;
    assert!(pages == [[(key, value)]], "the entry differs");
}

pub(super) async fn one_step_gets_a_limited_number_of_omap_keys(case: &Case<'_>) {
    let object = case.object("o");
    let keys = |count: usize| (0..count).map(|index| Bytes::from(format!("{index:05}"))).collect::<Vec<_>>();
    let max = limits::OMAP_PAGE_ENTRIES_MAX;
    let op = WriteOp::new().omap_set(keys(max + 1).into_iter().map(|key| (key, Bytes::new())));
    case.pool.write(&object, op).await.unwrap();
    let (page, _) = case.pool.fetch(&object, benthic_core::Fetch::omap_get(keys(max))).await.unwrap();
    assert_eq!(page.entries.len(), max);
    let op = ReadOp::new().omap_get(keys(max + 1));
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::LimitExceeded);
}

pub(super) async fn an_operation_has_a_limited_number_of_steps_and_guards(case: &Case<'_>) {
    let object = case.object("o");
    let steps = |count| (0..count).fold(WriteOp::new(), |op, _| op.append("x"));
    let max = limits::OPERATION_STEPS_MAX;
    assert_eq!(kind(case.pool.write(&object, steps(max + 1)).await), ErrorKind::LimitExceeded);
    assert_eq!(case.state(&object).await, None);
    case.pool.write(&object, steps(max)).await.unwrap();
    let op = steps(max).assert_exists();
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::LimitExceeded);
    assert_eq!(case.size(&object).await, max as u64);
    let op = (0..=max).fold(ReadOp::new(), |op, _| op.stat());
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::LimitExceeded);
}

pub(super) async fn an_operation_carries_at_most_64_mib(case: &Case<'_>) {
    let object = case.object("o");
    let data = Bytes::from(pattern(limits::OPERATION_BYTES_MAX as usize));
    for over in [
        WriteOp::new().write_full(data.clone()).append("x"),
        WriteOp::new().write_full(data.clone()).set_xattr("a", ""),
        WriteOp::new().write_full(data.clone()).omap_set([("k", "")]),
        WriteOp::new().exec("hello", "record", "x").write_full(data.clone()),
        WriteOp::new().write(0, data.slice(1..)).write(0, "ab"),
        WriteOp::new().write_full(data.slice(1..)).set_xattr("ab", ""),
    ] {
        assert_eq!(kind(case.pool.write(&object, over).await), ErrorKind::LimitExceeded);
    }
    assert_eq!(case.state(&object).await, None);
    case.pool.write_full(&object, data.clone()).await.unwrap();
    let read = case.pool.read_range(&object, 0, limits::OPERATION_BYTES_MAX).await.unwrap();
    assert!(read == data, "the data differs");
    // The limit applies to the requested length, not to the length of the data.
    for over in [
        ReadOp::new().read(0, limits::OPERATION_BYTES_MAX + 1),
        ReadOp::new().read(0, 1).read(0, limits::OPERATION_BYTES_MAX),
        ReadOp::new().read(0, u64::MAX),
    ] {
        assert_eq!(kind(case.pool.read(&object, over).await), ErrorKind::LimitExceeded);
    }
    case.pool.remove(&object).await.unwrap();
}

pub(super) async fn an_object_holds_at_most_128_mib(case: &Case<'_>) {
    let max = limits::OBJECT_BYTES_MAX;
    let object = case.object("o");
    let half = Bytes::from(pattern((max / 2) as usize));
    case.pool.write(&object, WriteOp::new().write(max / 2, half.clone()).buffered()).await.unwrap();
    case.pool.write(&object, WriteOp::new().write(0, half.clone())).await.unwrap();
    let version = case.version(&object).await;
    for over in [
        WriteOp::new().append("x"),
        WriteOp::new().set_xattr("a", "1").append("x"),
        WriteOp::new().write(max, "x"),
        WriteOp::new().write(max - 1, "xy"),
        WriteOp::new().write(u64::MAX, "x"),
        WriteOp::new().truncate(max + 1),
        WriteOp::new().truncate(u64::MAX),
        WriteOp::new().zero(max, 1),
        WriteOp::new().zero(1, u64::MAX),
        WriteOp::new().exec("hello", "old_and_new", "x"),
    ] {
        assert_eq!(kind(case.pool.write(&object, over.clone()).await), ErrorKind::LimitExceeded, "{over:?}");
        assert_eq!(case.pool.stat(&object).await.unwrap().1, version, "{over:?}");
    }
    assert_eq!(case.size(&object).await, max);
    let read = case.pool.read_range(&object, max - 5, 10).await.unwrap();
    assert_eq!(read, half[half.len() - 5..]);
    for start in [0, max / 2 - MIB, max - MIB] {
        let read = case.pool.read_range(&object, start, MIB).await.unwrap();
        let expected = half.iter().chain(&half).skip(start as usize).take(MIB as usize);
        assert!(read.iter().eq(expected), "the data behind {start} differs");
    }
    case.pool.write(&object, WriteOp::new().truncate(max - 1).append("z")).await.unwrap();
    assert_eq!(case.size(&object).await, max);
    assert_eq!(case.pool.read_range(&object, max - 1, 10).await.unwrap(), "z");
    case.pool.remove(&object).await.unwrap();
}

pub(super) async fn an_object_that_would_be_too_large_is_not_stored(case: &Case<'_>) {
    let object = case.object("o");
    let max = limits::OBJECT_BYTES_MAX;
    for over in [
        WriteOp::new().write(max, "x"),
        WriteOp::new().create(true).set_xattr("a", "1").write(max - 1, "xy"),
        WriteOp::new().create(true).truncate(max + 1),
        WriteOp::new().write(max - 1, "x").append("y"),
    ] {
        assert_eq!(kind(case.pool.write(&object, over.clone()).await), ErrorKind::LimitExceeded, "{over:?}");
        assert_eq!(case.state(&object).await, None, "{over:?}");
    }
}

/// An OSD treats the new size as an offset, and an offset of 128 MiB exceeds its limit. An object
/// of that size can be written, but a truncate cannot cut or extend an object to it.
pub(super) async fn truncate_stops_one_byte_short_of_128_mib(case: &Case<'_>) {
    let max = limits::OBJECT_BYTES_MAX;
    let object = case.make_full("o").await;
    let op = WriteOp::new().truncate(max);
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::LimitExceeded);
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    case.pool.write(&object, WriteOp::new().truncate(max - 1)).await.unwrap();
    assert_eq!(case.size(&object).await, max - 1);
    case.pool.write(&object, WriteOp::new().write(max - 1, "z")).await.unwrap();
    assert_eq!(case.pool.read_range(&object, max - 2, 5).await.unwrap(), "\0z");
    case.pool.remove(&object).await.unwrap();
}

/// Data and omap pages count towards one limit.
pub(super) async fn an_answer_over_64_mib_is_refused(case: &Case<'_>) {
    let object = case.object("o");
    let value = Bytes::from(vec![7; limits::OMAP_VALUE_BYTES_MAX]);
    let entries = (0..17).map(|index: u32| (Bytes::from(format!("{index:02}")), value.clone()));
    let op = WriteOp::new().omap_set(entries).truncate(32 * MIB);
    case.pool.write(&object, op).await.unwrap();
    let page = || ReadOp::new().omap_range(None, "", 17);
    case.pool.read(&object, page().read(0, 32 * MIB)).await.unwrap();
    let over = page().read(0, 32 * MIB).read(0, 31 * MIB);
    assert_eq!(kind(case.pool.read(&object, over).await), ErrorKind::LimitExceeded);
    case.pool.remove(&object).await.unwrap();
}

/// Not in `misbehaviour`, whose cases also run on WebAssembly modules: a module may reach another
/// limit first.
pub(super) async fn a_method_learns_which_limit_it_exceeded(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for (method, text) in
        [("spin", "the method ran longer than its deadline"), ("flood", "the method's output is too large")]
    {
        assert_explains(case, &object, method, "", ErrorKind::LimitExceeded, text).await;
    }
}
