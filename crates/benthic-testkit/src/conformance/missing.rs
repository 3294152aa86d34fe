//! Missing objects: the operations that fail, that do nothing, and that create the object.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{Compare, ErrorKind, ReadOp, WriteOp};

pub(super) async fn reads_are_not_found(case: &Case<'_>) {
    let object = case.object("o");
    for op in [
        ReadOp::new(),
        ReadOp::new().read(0, 10),
        ReadOp::new().read(0, 0),
        ReadOp::new().stat(),
        ReadOp::new().get_xattr("a"),
        ReadOp::new().list_xattrs(),
        ReadOp::new().omap_get(["k"]),
        ReadOp::new().omap_get(Vec::<&str>::new()),
        ReadOp::new().omap_range(None, "", 10),
    ] {
        assert_eq!(kind(case.pool.read(&object, op.clone()).await), ErrorKind::NotFound, "{op:?}");
    }
}

pub(super) async fn steps_that_create(case: &Case<'_>) {
    let nothing: [(&str, &str); 0] = [];
    let steps = [
        (WriteOp::new().create(false), ObjectContent::default()),
        (WriteOp::new().create(true), ObjectContent::default()),
        (WriteOp::new().write(0, "ab"), ObjectContent::data("ab")),
        (WriteOp::new().write(2, "ab"), ObjectContent::data("\0\0ab")),
        (WriteOp::new().write_full("ab"), ObjectContent::data("ab")),
        (WriteOp::new().write_full(""), ObjectContent::default()),
        (WriteOp::new().append("ab"), ObjectContent::data("ab")),
        (WriteOp::new().append(""), ObjectContent::default()),
        (WriteOp::new().set_xattr("a", "1"), ObjectContent::default().xattr("a", "1")),
        (WriteOp::new().omap_set([("k", "v")]), ObjectContent::default().entry("k", "v")),
        (WriteOp::new().omap_set(nothing), ObjectContent::default()),
    ];
    for (index, (op, expected)) in steps.into_iter().enumerate() {
        case.check_write(&case.object(&index.to_string()), op, Some(expected)).await;
    }
}

pub(super) async fn steps_that_do_nothing(case: &Case<'_>) {
    let object = case.object("o");
    for op in [
        WriteOp::new(),
        WriteOp::new().truncate(0),
        WriteOp::new().truncate(100),
        WriteOp::new().zero(0, 10),
        WriteOp::new().zero(10, 10).truncate(5),
    ] {
        case.check_write(&object, op, None).await;
    }
    // These operations also leave no state behind for a later object of that name.
    let op = WriteOp::new().truncate(100).append("x");
    case.check_write(&object, op, Some(ObjectContent::data("x"))).await;
}

pub(super) async fn steps_that_need_the_object(case: &Case<'_>) {
    let object = case.object("o");
    for op in [
        WriteOp::new().remove(),
        WriteOp::new().remove_xattr("a"),
        WriteOp::new().omap_remove(["k"]),
        WriteOp::new().omap_remove(Vec::<&str>::new()),
        WriteOp::new().omap_clear(),
        // A later step that creates the object does not change the error.
        WriteOp::new().remove().create(true),
        WriteOp::new().omap_clear().omap_set([("k", "v")]),
    ] {
        assert_eq!(kind(case.pool.write(&object, op.clone()).await), ErrorKind::NotFound, "{op:?}");
        assert_eq!(case.state(&object).await, None, "{op:?}");
    }
}

/// Guards are evaluated on the object before the operation. No guard holds for a missing object.
pub(super) async fn guards_are_not_found(case: &Case<'_>) {
    let object = case.object("o");
    for op in [
        WriteOp::new().assert_exists(),
        WriteOp::new().assert_version(1),
        WriteOp::new().cmp_xattr("a", Compare::Eq, ""),
        WriteOp::new().cmp_xattr("a", Compare::Ne, "1"),
        WriteOp::new().cmp_omap("k", ""),
    ] {
        let with_step = op.clone().create(false).write_full("x");
        let reading = ReadOp { guards: op.guards.clone(), steps: ReadOp::new().stat().steps };
        assert_eq!(kind(case.pool.write(&object, op.clone()).await), ErrorKind::NotFound, "{op:?}");
        assert_eq!(kind(case.pool.write(&object, with_step).await), ErrorKind::NotFound, "{op:?}");
        assert_eq!(kind(case.pool.read(&object, reading).await), ErrorKind::NotFound, "{op:?}");
        assert_eq!(case.state(&object).await, None, "{op:?}");
    }
}
