//! Object versions.

use super::Case;
use super::support::kind;
use benthic_core::{ErrorKind, ObjectId, ReadOp, WriteOp};

/// Checks that an operation raises the version above `last`, and returns the new version.
async fn check_raised(case: &Case<'_>, object: &ObjectId, op: WriteOp, last: u64) -> u64 {
    let version = case.pool.write(object, op.clone()).await.unwrap().version;
    assert!(version > last, "{op:?}: {version} after {last}");
    assert_eq!(case.version(object).await, version, "{op:?}");
    version
}

/// A write raises the version by at least one, not by exactly one: an OSD counts versions per
/// placement group, not per object.
pub(super) async fn every_write_raises_the_version(case: &Case<'_>) {
    let object = case.object("o");
    let mut last = case.pool.write(&object, WriteOp::new().create(true)).await.unwrap().version;
    assert!(last > 0);
    for op in [
        WriteOp::new().write(0, "ab"),
        WriteOp::new().write_full("ab"),
        WriteOp::new().append("c"),
        WriteOp::new().truncate(2),
        WriteOp::new().zero(0, 1),
        WriteOp::new().set_xattr("a", "1"),
        WriteOp::new().remove_xattr("a"),
        WriteOp::new().omap_set([("k", "v")]),
        WriteOp::new().omap_remove(["k"]),
        WriteOp::new().omap_set([("k", "v")]),
        WriteOp::new().omap_clear(),
        WriteOp::new().write(0, "x").set_xattr("a", "1").omap_set([("k", "v")]),
        WriteOp::new().remove().create(true),
    ] {
        last = check_raised(case, &object, op, last).await;
    }
}

/// A write of identical content is still a write.
pub(super) async fn a_write_of_the_same_content_raises_the_version(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let mut last = case.version(&object).await;
    for op in [
        WriteOp::new().create(false),
        WriteOp::new().write(0, "a"),
        WriteOp::new().append(""),
        WriteOp::new().truncate(100),
        WriteOp::new().set_xattr("X", "1"),
        WriteOp::new().remove_xattr("missing"),
        WriteOp::new().omap_set([("K", "V")]),
        WriteOp::new().omap_remove(["missing"]),
    ] {
        last = check_raised(case, &object, op, last).await;
    }
}

pub(super) async fn an_operation_that_writes_nothing_keeps_the_version(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    for op in [
        WriteOp::new(),
        WriteOp::new().assert_exists(),
        WriteOp::new().assert_version(version),
        WriteOp::new().zero(100, 10),
        WriteOp::new().zero(200, 10),
    ] {
        assert_eq!(case.pool.write(&object, op.clone()).await.unwrap().version, version, "{op:?}");
        assert_eq!(case.version(&object).await, version, "{op:?}");
    }
}

pub(super) async fn an_operation_that_fails_keeps_the_version(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    for (op, expected) in [
        (WriteOp::new().append("x").create(true), ErrorKind::AlreadyExists),
        (WriteOp::new().append("x").assert_version(version + 1), ErrorKind::Conflict),
        (WriteOp::new().append("x").remove().remove(), ErrorKind::NotFound),
        (WriteOp::new().exec("hello", "fail_after_writing", "").append("x"), ErrorKind::InvalidArgument),
    ] {
        assert_eq!(kind(case.pool.write(&object, op.clone()).await), expected, "{op:?}");
        assert_eq!(case.version(&object).await, version, "{op:?}");
    }
}

pub(super) async fn reading_keeps_and_returns_the_version(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    for op in [
        ReadOp::new(),
        ReadOp::new().read(0, 10),
        ReadOp::new().read(0, 0),
        ReadOp::new().read(500, 10),
        ReadOp::new().stat().list_xattrs(),
        ReadOp::new().omap_range(None, "", 10),
        ReadOp::new().assert_version(version),
        ReadOp::new().exec("hello", "say", ""),
    ] {
        assert_eq!(case.pool.read(&object, op.clone()).await.unwrap().version, version, "{op:?}");
    }
}

pub(super) async fn versions_grow_over_removal_and_creation(case: &Case<'_>) {
    let object = case.object("o");
    let mut last = 0;
    for round in 0..5 {
        let created = case.pool.write_full(&object, "x").await.unwrap().version;
        assert!(created > last, "round {round}: {created} after {last}");
        let removed = case.pool.write(&object, WriteOp::new().remove()).await.unwrap().version;
        assert!(removed > created, "round {round}: {removed} after {created}");
        last = removed;
    }
    // A version guard therefore never matches a removed predecessor of the object.
    let version = case.pool.write_full(&object, "x").await.unwrap().version;
    case.pool.remove(&object).await.unwrap();
    case.pool.write_full(&object, "x").await.unwrap();
    let op = WriteOp::new().assert_version(version).write_full("y");
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::Conflict);
}
