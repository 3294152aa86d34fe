use super::{Compare, ReadOp, WriteOp, check_object_size};
use crate::{ErrorKind, limits};
use bytes::Bytes;

fn kind<T>(result: crate::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn an_operation_is_limited_to_64_mib() {
    let half = Bytes::from(vec![0; 32 * 1024 * 1024]);
    assert_eq!(kind(WriteOp::new().write(0, half.clone()).append(half.clone()).check()), None);
    let over = WriteOp::new().write(0, half.clone()).append(half).set_xattr("a", "b");
    assert_eq!(kind(over.check()), Some(ErrorKind::LimitExceeded));
    assert_eq!(kind(ReadOp::new().read(0, limits::OPERATION_BYTES_MAX).check()), None);
    assert_eq!(kind(ReadOp::new().read(0, u64::MAX).read(0, 1).check()), Some(ErrorKind::LimitExceeded));
    let steps = (0..1_025).fold(WriteOp::new(), |op, _| op.create(false));
    assert_eq!(kind(steps.check()), Some(ErrorKind::LimitExceeded));
}

#[test]
fn the_size_of_an_operation_counts_all_its_data() {
    let entry = limits::ENTRY_BYTES;
    let guarded = WriteOp::new().cmp_omap("key", "value").cmp_xattr("a", Compare::Eq, "12");
    assert_eq!(guarded.check().unwrap(), 10 + entry);
    assert_eq!(WriteOp::new().set_xattr("name", "value").check().unwrap(), 9);
    assert_eq!(WriteOp::new().write(7, "data").omap_remove(["key", "k"]).check().unwrap(), 8 + 2 * entry);
    assert_eq!(WriteOp::new().exec("c", "m", "input").omap_set([("k", "v")]).check().unwrap(), 7 + entry);
    assert_eq!(ReadOp::new().read(0, 100).omap_get(["key"]).stat().check().unwrap(), 103 + entry);
}

#[test]
fn an_object_is_limited_to_128_mib() {
    assert_eq!(kind(check_object_size(limits::OBJECT_BYTES_MAX)), None);
    assert_eq!(kind(check_object_size(limits::OBJECT_BYTES_MAX + 1)), Some(ErrorKind::LimitExceeded));
    assert_eq!(kind(WriteOp::new().write(u64::MAX, "x").check()), Some(ErrorKind::LimitExceeded));
    assert_eq!(
        kind(WriteOp::new().truncate(limits::OBJECT_BYTES_MAX + 1).check()),
        Some(ErrorKind::LimitExceeded)
    );
    assert_eq!(kind(WriteOp::new().zero(1, u64::MAX).check()), Some(ErrorKind::LimitExceeded));
}

#[test]
fn names_and_values_have_limits() {
    let name = "n".repeat(101);
    assert_eq!(kind(WriteOp::new().set_xattr(name.clone(), "").check()), Some(ErrorKind::LimitExceeded));
    assert_eq!(kind(ReadOp::new().get_xattr("").check()), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(ReadOp::new().cmp_xattr(name, Compare::Eq, "").check()), Some(ErrorKind::LimitExceeded));
    let key = vec![b'k'; limits::OMAP_KEY_BYTES_MAX + 1];
    assert_eq!(kind(WriteOp::new().omap_set([(key.clone(), "")]).check()), Some(ErrorKind::LimitExceeded));
    assert_eq!(kind(WriteOp::new().omap_remove([key]).check()), Some(ErrorKind::LimitExceeded));
    assert_eq!(kind(ReadOp::new().exec("", "m", "").check()), Some(ErrorKind::InvalidArgument));
}

#[test]
fn operations_that_an_osd_mishandles_are_rejected() {
    for op in [
        WriteOp::new().zero(0, 0),
        WriteOp::new().create(false).exec("c", "m", ""),
        WriteOp::new().exec("c", "m", "").exec("c", "m", ""),
        WriteOp::new().omap_set([("", "v")]),
        WriteOp::new().assert_version(0),
    ] {
        assert_eq!(kind(op.check()), Some(ErrorKind::InvalidArgument), "{op:?}");
    }
    assert_eq!(kind(WriteOp::new().exec("c", "m", "").write(0, "x").check()), None);
    assert_eq!(
        kind(WriteOp::new().truncate(limits::OBJECT_BYTES_MAX).check()),
        Some(ErrorKind::LimitExceeded)
    );
    assert_eq!(kind(ReadOp::new().omap_range(None, "", 0).check()), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(ReadOp::new().omap_range(Some("".into()), "", 1).check()), None);
}

#[test]
fn comparisons_are_bytewise() {
    for (compare, stored, given, holds) in [
        (Compare::Eq, "a", "a", true),
        (Compare::Ne, "a", "a", false),
        (Compare::Gt, "b", "ab", true),
        (Compare::Ge, "a", "a", true),
        (Compare::Lt, "", "a", true),
        (Compare::Le, "b", "a", false),
    ] {
        assert_eq!(compare.holds(stored.as_bytes(), given.as_bytes()), holds, "{stored} {compare:?} {given}");
    }
}
