//! Guards: conditions on the state of the object before the operation.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{Compare, ErrorKind, ObjectId, ReadOp, WriteOp};

const ALL: [Compare; 6] = [Compare::Eq, Compare::Ne, Compare::Gt, Compare::Ge, Compare::Lt, Compare::Le];

/// A stored value, a given value, and the comparisons for which `stored OP given` holds.
const COMPARISONS: [(&str, &str, &[Compare]); 10] = [
    ("b", "b", &[Compare::Eq, Compare::Ge, Compare::Le]),
    ("b", "a", &[Compare::Ne, Compare::Gt, Compare::Ge]),
    ("b", "c", &[Compare::Ne, Compare::Lt, Compare::Le]),
    // Values compare bytewise, neither by length nor as numbers.
    ("b", "ab", &[Compare::Ne, Compare::Gt, Compare::Ge]),
    ("b", "ba", &[Compare::Ne, Compare::Lt, Compare::Le]),
    ("10", "9", &[Compare::Ne, Compare::Lt, Compare::Le]),
    ("b", "", &[Compare::Ne, Compare::Gt, Compare::Ge]),
    ("é", "z", &[Compare::Ne, Compare::Gt, Compare::Ge]),
    ("b\0", "b", &[Compare::Ne, Compare::Gt, Compare::Ge]),
    ("é", "é", &[Compare::Eq, Compare::Ge, Compare::Le]),
];

/// Checks that a guarded write and a guarded read both succeed, or that both fail with `Conflict`.
async fn holds_or_conflicts(
    case: &Case<'_>,
    object: &ObjectId,
    write: WriteOp,
    read: ReadOp,
    holds: bool,
    what: &str,
) {
    let (write, read) = (case.pool.write(object, write).await, case.pool.read(object, read).await);
    if holds {
        write.unwrap();
        read.unwrap();
    } else {
        assert_eq!(kind(write), ErrorKind::Conflict, "{what}");
        assert_eq!(kind(read), ErrorKind::Conflict, "{what}");
    }
}

pub(super) async fn attributes_compare_bytewise(case: &Case<'_>) {
    for (index, (stored, given, holding)) in COMPARISONS.into_iter().enumerate() {
        let object = case.object(&index.to_string());
        case.pool.write(&object, WriteOp::new().set_xattr("a", stored)).await.unwrap();
        for compare in ALL {
            let write = WriteOp::new().cmp_xattr("a", compare, given).write_full("x");
            let read = ReadOp::new().cmp_xattr("a", compare, given).stat();
            let what = format!("{stored:?} {compare:?} {given:?}");
            holds_or_conflicts(case, &object, write, read, holding.contains(&compare), &what).await;
        }
    }
}

/// Equality is the only omap comparison that an OSD performs on arbitrary bytes.
pub(super) async fn omap_values_compare_bytewise_for_equality(case: &Case<'_>) {
    for (index, (stored, given, holding)) in COMPARISONS.into_iter().enumerate() {
        let object = case.object(&index.to_string());
        case.pool.write(&object, WriteOp::new().omap_set([("k", stored)])).await.unwrap();
        let write = WriteOp::new().cmp_omap("k", given).write_full("x");
        let read = ReadOp::new().cmp_omap("k", given).stat();
        let what = format!("{stored:?} {given:?}");
        holds_or_conflicts(case, &object, write, read, holding.contains(&Compare::Eq), &what).await;
    }
}

pub(super) async fn a_missing_value_compares_as_empty(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for guarded in [
        WriteOp::new().cmp_xattr("missing", Compare::Eq, ""),
        WriteOp::new().cmp_xattr("missing", Compare::Ge, ""),
        WriteOp::new().cmp_xattr("missing", Compare::Ne, "1"),
        WriteOp::new().cmp_xattr("missing", Compare::Lt, "1"),
        WriteOp::new().cmp_omap("missing", ""),
    ] {
        case.pool.write(&object, guarded.clone().set_xattr("X", "1")).await.unwrap();
        let read = ReadOp { guards: guarded.guards, steps: ReadOp::new().stat().steps };
        case.pool.read(&object, read).await.unwrap();
    }
    for guarded in [
        WriteOp::new().cmp_xattr("missing", Compare::Eq, "1"),
        WriteOp::new().cmp_xattr("missing", Compare::Ne, ""),
        WriteOp::new().cmp_xattr("missing", Compare::Gt, ""),
        WriteOp::new().cmp_omap("missing", "v"),
    ] {
        let write = guarded.clone().write_full("x");
        assert_eq!(kind(case.pool.write(&object, write).await), ErrorKind::Conflict, "{guarded:?}");
        let read = ReadOp { guards: guarded.guards.clone(), steps: ReadOp::new().stat().steps };
        assert_eq!(kind(case.pool.read(&object, read).await), ErrorKind::Conflict, "{guarded:?}");
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn only_the_exact_version_passes(case: &Case<'_>) {
    let object = case.object("o");
    let old = case.pool.write_full(&object, "1").await.unwrap().version;
    let version = case.pool.write_full(&object, "2").await.unwrap().version;
    for wrong in [old, version - 1, version + 1, u64::MAX] {
        let write = WriteOp::new().assert_version(wrong).write_full("3");
        assert_eq!(kind(case.pool.write(&object, write).await), ErrorKind::Conflict, "{wrong} {version}");
        let read = ReadOp::new().assert_version(wrong).read(0, 1);
        assert_eq!(kind(case.pool.read(&object, read).await), ErrorKind::Conflict, "{wrong} {version}");
    }
    case.pool.read(&object, ReadOp::new().assert_version(version).read(0, 1)).await.unwrap();
    case.pool.write(&object, WriteOp::new().assert_version(version).write_full("3")).await.unwrap();
    let write = WriteOp::new().assert_version(version).write_full("4");
    assert_eq!(kind(case.pool.write(&object, write).await), ErrorKind::Conflict);
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("3")));
}

/// No object has version 0, so the guard is an invalid argument and not a failed condition. An OSD
/// agrees.
pub(super) async fn version_0_is_refused(case: &Case<'_>) {
    for object in [case.make_full("o").await, case.object("missing")] {
        let write = WriteOp::new().assert_version(0).write_full("x");
        assert_eq!(kind(case.pool.write(&object, write).await), ErrorKind::InvalidArgument);
        let read = ReadOp::new().assert_version(0).stat();
        assert_eq!(kind(case.pool.read(&object, read).await), ErrorKind::InvalidArgument);
    }
    assert_eq!(case.state(&case.object("missing")).await, None);
}

pub(super) async fn the_exists_guard_passes_on_an_object(case: &Case<'_>) {
    let object = case.make_full("o").await;
    case.pool.write(&object, WriteOp::new().assert_exists().write(0, "b")).await.unwrap();
    case.pool.read(&object, ReadOp::new().assert_exists().stat()).await.unwrap();
    assert_eq!(case.state(&object).await.unwrap().data[..2], *b"ba");
}

pub(super) async fn every_guard_must_hold(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    let op = || {
        let op = WriteOp::new().assert_exists().assert_version(version).cmp_xattr("X", Compare::Eq, "1");
        op.cmp_omap("K", "V")
    };
    for failing in [
        op().cmp_xattr("X", Compare::Eq, "2"),
        op().cmp_omap("K", "W"),
        op().assert_version(version + 1),
        WriteOp::new().cmp_xattr("X", Compare::Eq, "2").assert_exists(),
    ] {
        assert_eq!(kind(case.pool.write(&object, failing.write_full("x")).await), ErrorKind::Conflict);
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    case.pool.write(&object, op().set_xattr("X", "2")).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::full().xattr("X", "2")));
}

/// All guards are evaluated before the first step, so none sees the changes of the operation.
pub(super) async fn guards_see_the_object_before_the_operation(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = WriteOp::new().set_xattr("X", "2").omap_set([("K", "W")]);
    let op = op.cmp_xattr("X", Compare::Eq, "1").cmp_omap("K", "V");
    case.pool.write(&object, op.clone()).await.unwrap();
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::Conflict);
    let removing = WriteOp::new().remove().cmp_xattr("X", Compare::Eq, "2");
    case.pool.write(&object, removing).await.unwrap();
    // A guard fails on a missing object even if the operation creates the object.
    let creating = WriteOp::new().create(false).set_xattr("X", "1").cmp_xattr("X", Compare::Eq, "1");
    assert_eq!(kind(case.pool.write(&object, creating).await), ErrorKind::NotFound);
    assert_eq!(case.state(&object).await, None);
}

pub(super) async fn a_guard_that_fails_comes_before_a_step_that_fails(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = WriteOp::new().create(true).cmp_xattr("X", Compare::Eq, "2");
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::Conflict);
    let op = ReadOp::new().get_xattr("missing").cmp_xattr("X", Compare::Eq, "2");
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::Conflict);
}

pub(super) async fn guards_alone_change_nothing(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    let op = WriteOp::new().assert_exists().cmp_xattr("X", Compare::Eq, "1");
    assert_eq!(case.pool.write(&object, op).await.unwrap().version, version);
    let op = WriteOp::new().cmp_xattr("X", Compare::Eq, "2");
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::Conflict);
    let reply = case.pool.read(&object, ReadOp::new().cmp_omap("K", "V")).await.unwrap();
    assert_eq!((reply.version, reply.outputs), (version, Vec::new()));
    assert_eq!(case.version(&object).await, version);
}
