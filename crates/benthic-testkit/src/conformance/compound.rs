//! Write operations of several steps: the steps run in order, and either all take effect or none.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{Compare, ErrorKind, ReadOp, ReadOutput, WriteOp};

pub(super) async fn steps_on_a_missing_object_see_earlier_steps(case: &Case<'_>) {
    let ops = [
        (WriteOp::new().write(0, "abc").append("d").truncate(2), Some(ObjectContent::data("ab"))),
        (WriteOp::new().append("abc").append("d"), Some(ObjectContent::data("abcd"))),
        (WriteOp::new().create(true).create(false), Some(ObjectContent::default())),
        (WriteOp::new().create(true).truncate(3), Some(ObjectContent::data("\0\0\0"))),
        (WriteOp::new().create(true).zero(0, 10), Some(ObjectContent::default())),
        (
            WriteOp::new().create(true).remove_xattr("a").omap_remove(["k"]).omap_clear(),
            Some(ObjectContent::default()),
        ),
        (WriteOp::new().truncate(10).write(0, "x"), Some(ObjectContent::data("x"))),
        (WriteOp::new().create(true).remove(), None),
        (WriteOp::new().write(0, "x").remove(), None),
        (WriteOp::new().write(0, "x").remove().append("y"), Some(ObjectContent::data("y"))),
        (WriteOp::new().set_xattr("a", "1").remove().create(true), Some(ObjectContent::default())),
    ];
    for (index, (op, expected)) in ops.into_iter().enumerate() {
        case.check_write(&case.object(&index.to_string()), op, expected).await;
    }
}

pub(super) async fn steps_on_an_object_see_earlier_steps(case: &Case<'_>) {
    let full = ObjectContent::full;
    let with_data = |data: String| ObjectContent { data: data.into(), ..ObjectContent::full() };
    let ops = [
        (WriteOp::new().truncate(50).truncate(60), with_data("a".repeat(50) + &"\0".repeat(10))),
        (WriteOp::new().write_full("zz").append("y"), with_data("zzy".into())),
        (WriteOp::new().write(0, "zz").write_full("q"), with_data("q".into())),
        (WriteOp::new().write(98, "bcd").zero(100, 5), with_data("a".repeat(98) + "bc")),
        (WriteOp::new().append("b").write(100, "c"), with_data("a".repeat(100) + "c")),
        (WriteOp::new().set_xattr("a", "1").remove_xattr("a"), full()),
        (WriteOp::new().remove_xattr("X").set_xattr("X", "2"), full().xattr("X", "2")),
        (WriteOp::new().omap_set([("n", "1")]).omap_remove(["n"]), full()),
        (WriteOp::new().omap_remove(["K"]).omap_set([("K", "W")]), full().entry("K", "W")),
        (
            WriteOp::new().omap_clear().omap_set([("n", "1")]),
            ObjectContent { omap: [].into(), ..full() }.entry("n", "1"),
        ),
        (WriteOp::new().omap_set([("n", "1")]).omap_clear(), ObjectContent { omap: [].into(), ..full() }),
    ];
    for (index, (op, expected)) in ops.into_iter().enumerate() {
        case.check_write(&case.make_full(&index.to_string()).await, op, Some(expected)).await;
    }
}

pub(super) async fn a_recreated_object_is_empty(case: &Case<'_>) {
    let ops = [
        (WriteOp::new().remove().create(true), Some(ObjectContent::default())),
        (WriteOp::new().remove().create(false), Some(ObjectContent::default())),
        (WriteOp::new().remove().write(2, "x"), Some(ObjectContent::data("\0\0x"))),
        (WriteOp::new().remove().append("x"), Some(ObjectContent::data("x"))),
        (WriteOp::new().remove().set_xattr("n", "1"), Some(ObjectContent::default().xattr("n", "1"))),
        (WriteOp::new().remove().omap_set([("n", "1")]), Some(ObjectContent::default().entry("n", "1"))),
        (WriteOp::new().remove().truncate(10), None),
        (WriteOp::new().remove().zero(0, 10), None),
        (WriteOp::new().remove().create(true).truncate(3), Some(ObjectContent::data("\0\0\0"))),
    ];
    for (index, (op, expected)) in ops.into_iter().enumerate() {
        case.check_write(&case.make_full(&index.to_string()).await, op, expected).await;
    }
}

pub(super) async fn a_step_that_fails_undoes_the_operation(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let version = case.version(&object).await;
    let everything = || {
        let op = WriteOp::new().write(0, "zz").append("zz").set_xattr("X", "2").set_xattr("n", "1");
        op.omap_set([("K", "W"), ("n", "1")]).omap_remove(["K"]).truncate(1_000)
    };
    for (failing, expected) in [
        (everything().create(true), ErrorKind::AlreadyExists),
        (everything().remove().remove(), ErrorKind::NotFound),
        (WriteOp::new().remove().remove_xattr("X"), ErrorKind::NotFound),
        (WriteOp::new().remove().omap_clear(), ErrorKind::NotFound),
        (WriteOp::new().remove().omap_remove(["K"]), ErrorKind::NotFound),
        (WriteOp::new().omap_clear().create(true), ErrorKind::AlreadyExists),
        (WriteOp::new().remove().create(true).create(true), ErrorKind::AlreadyExists),
        (everything().cmp_xattr("X", Compare::Eq, "2"), ErrorKind::Conflict),
    ] {
        assert_eq!(kind(case.pool.write(&object, failing.clone()).await), expected, "{failing:?}");
        assert_eq!(case.state(&object).await, Some(ObjectContent::full()), "{failing:?}");
        assert_eq!(case.version(&object).await, version, "{failing:?}");
    }
}

pub(super) async fn a_step_that_fails_undoes_the_creation(case: &Case<'_>) {
    let object = case.object("o");
    for (failing, expected) in [
        (WriteOp::new().write_full("x").create(true), ErrorKind::AlreadyExists),
        (WriteOp::new().create(true).create(true), ErrorKind::AlreadyExists),
        (WriteOp::new().write_full("x").set_xattr("a", "1").remove().remove(), ErrorKind::NotFound),
    ] {
        assert_eq!(kind(case.pool.write(&object, failing.clone()).await), expected, "{failing:?}");
        assert_eq!(case.state(&object).await, None, "{failing:?}");
    }
    case.pool.write(&object, WriteOp::new().create(true)).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::default()));
}

pub(super) async fn create_exclusive_fails_on_an_object_that_exists(case: &Case<'_>) {
    let object = case.make_full("o").await;
    assert_eq!(kind(case.pool.write(&object, WriteOp::new().create(true)).await), ErrorKind::AlreadyExists);
    case.pool.write(&object, WriteOp::new().create(false)).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn many_steps_are_one_operation(case: &Case<'_>) {
    let object = case.object("o");
    let op = (0..1_000).fold(WriteOp::new().create(true), |op, index| match index % 3 {
        0 => op.append("x"),
        1 => op.set_xattr("count", index.to_string()),
        _ => op.omap_set([(format!("{index:04}"), "")]),
    });
    let reply = case.pool.write(&object, op).await.unwrap();
    let state = case.state(&object).await.unwrap();
    assert_eq!((state.data.len(), state.omap.len()), (334, 333));
    assert_eq!(state.xattrs["count"], "997");
    assert_eq!(case.version(&object).await, reply.version);
}

pub(super) async fn a_read_operation_sees_one_object(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = ReadOp::new().omap_get(["K"]).list_xattrs().omap_range(None, "", 1).read(0, 2).get_xattr("X");
    let outputs = case.pool.read(&object, op).await.unwrap().outputs;
    let full = ObjectContent::full();
    let page = benthic_core::OmapPage { entries: full.omap.into_iter().collect(), more: false };
    let expected = [
        ReadOutput::Omap(page.clone()),
        ReadOutput::Xattrs(full.xattrs),
        ReadOutput::Omap(page),
        ReadOutput::Data("aa".into()),
        ReadOutput::Xattr("1".into()),
    ];
    assert_eq!(outputs, expected);
}
