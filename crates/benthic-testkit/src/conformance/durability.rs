//! Durable and buffered writes, as far as a suite can test them without cutting the power. The
//! tests of each engine cover power cuts.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{ErrorKind, WriteOp};

pub(super) async fn a_buffered_write_is_visible_at_once(case: &Case<'_>) {
    let object = case.object("o");
    let first = case.pool.write(&object, WriteOp::new().write_full("1").buffered()).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("1")));
    assert_eq!(case.version(&object).await, first.version);
    let second = case.pool.write(&object, WriteOp::new().append("2").buffered()).await.unwrap();
    assert!(second.version > first.version);
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("12")));
    case.pool.write(&object, WriteOp::new().remove().buffered()).await.unwrap();
    assert_eq!(case.state(&object).await, None);
}

pub(super) async fn buffered_and_durable_writes_keep_their_order(case: &Case<'_>) {
    let object = case.object("o");
    let mut last = 0;
    for index in 0..20 {
        let op = WriteOp::new().append(format!("{index} "));
        let op = if index % 3 == 0 { op } else { op.buffered() };
        let version = case.pool.write(&object, op).await.unwrap().version;
        assert!(version > last);
        last = version;
    }
    let expected: String = (0..20).map(|index| format!("{index} ")).collect();
    assert_eq!(case.state(&object).await, Some(ObjectContent::data(expected)));
}

pub(super) async fn a_buffered_operation_is_all_or_nothing(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = WriteOp::new().write_full("x").set_xattr("X", "2").create(true).buffered();
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::AlreadyExists);
    let op = WriteOp::new().exec("hello", "fail_after_writing", "").write_full("x").buffered();
    assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::InvalidArgument);
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}

pub(super) async fn flush_succeeds_with_and_without_buffered_writes(case: &Case<'_>) {
    case.store.flush().await.unwrap();
    let object = case.object("o");
    for index in 0..50 {
        let op = WriteOp::new().omap_set([(format!("{index:02}"), vec![index; 1_000])]).buffered();
        case.pool.write(&object, op).await.unwrap();
    }
    case.store.flush().await.unwrap();
    case.store.flush().await.unwrap();
    let omap = case.state(&object).await.unwrap().omap;
    assert_eq!(omap.len(), 50);
    assert!(omap.values().zip(0..50).all(|(value, index)| *value == vec![index; 1_000]));
}
