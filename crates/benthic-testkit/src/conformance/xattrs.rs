//! Attributes.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{ErrorKind, ReadOp, WriteOp};

pub(super) async fn attributes_are_set_replaced_and_removed(case: &Case<'_>) {
    let object = case.object("o");
    let op = WriteOp::new().set_xattr("a", "1").set_xattr("b", "2");
    case.pool.write(&object, op).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::default().xattr("a", "1").xattr("b", "2")));
    let op = WriteOp::new().set_xattr("a", "longer").remove_xattr("b").set_xattr("c", "3");
    case.pool.write(&object, op).await.unwrap();
    assert_eq!(
        case.state(&object).await,
        Some(ObjectContent::default().xattr("a", "longer").xattr("c", "3"))
    );
    assert_eq!(case.pool.get_xattr(&object, "a").await.unwrap(), "longer");
}

pub(super) async fn a_missing_attribute_is_not_found(case: &Case<'_>) {
    let object = case.make_full("o").await;
    assert_eq!(kind(case.pool.get_xattr(&object, "missing").await), ErrorKind::NotFound);
    case.pool.write(&object, WriteOp::new().remove_xattr("X")).await.unwrap();
    assert_eq!(kind(case.pool.get_xattr(&object, "X").await), ErrorKind::NotFound);
    // Removing a missing attribute succeeds.
    case.pool.write(&object, WriteOp::new().remove_xattr("X")).await.unwrap();
}

pub(super) async fn an_empty_value_is_a_value(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().set_xattr("empty", "")).await.unwrap();
    assert_eq!(case.pool.get_xattr(&object, "empty").await.unwrap(), "");
    assert_eq!(case.state(&object).await, Some(ObjectContent::default().xattr("empty", "")));
}

pub(super) async fn an_object_without_attributes_lists_none(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "data").await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("data")));
}

pub(super) async fn names_are_text_and_values_are_bytes(case: &Case<'_>) {
    let object = case.object("o");
    let value: Vec<u8> = (0..=255).collect();
    // An OSD stores every attribute name with a leading underscore, so names that begin with one
    // need a test.
    let names = ["a", "A", "_", "_a", "a b", "é", "日本", "\u{1}", "user.x", "snapset", "hinfo_key"];
    let op = names.iter().fold(WriteOp::new(), |op, name| op.set_xattr(*name, value.clone()));
    case.pool.write(&object, op).await.unwrap();
    let state = case.state(&object).await.unwrap();
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    assert_eq!(state.xattrs.keys().collect::<Vec<_>>(), sorted);
    assert!(state.xattrs.values().all(|stored| *stored == value));
}

pub(super) async fn many_attributes_are_kept(case: &Case<'_>) {
    let object = case.object("o");
    for start in [0, 100, 200] {
        let op = (start..start + 100)
            .fold(WriteOp::new(), |op, index| op.set_xattr(format!("name{index}"), format!("value{index}")));
        case.pool.write(&object, op).await.unwrap();
    }
    let xattrs = case.state(&object).await.unwrap().xattrs;
    assert_eq!(xattrs.len(), 300);
    for index in [0, 99, 100, 299] {
        assert_eq!(xattrs[&format!("name{index}")], format!("value{index}"));
    }
}

pub(super) async fn a_missing_attribute_fails_the_whole_read(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = ReadOp::new().read(0, 3).get_xattr("missing").stat();
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::NotFound);
}
