//! Creating, listing, opening and removing pools.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{ClassCall, ErrorKind, Fetch, ListRequest, Namespaces, ReadOp, WriteOp};

pub(super) async fn a_pool_is_created_listed_opened_and_removed(case: &Case<'_>) {
    let store = case.store;
    let name = case.pool_name("p");
    assert_eq!(kind(store.open_pool(&name).await.map(|_| ())), ErrorKind::NotFound);
    store.create_pool(&name).await.unwrap();
    let pools = store.list_pools().await.unwrap();
    assert!(pools.contains(&name), "{pools:?}");
    assert!(pools.is_sorted(), "{pools:?}");
    let pool = store.open_pool(&name).await.unwrap();
    assert_eq!(pool.name(), name);
    let object = case.object("o");
    pool.write_full(&object, "data").await.unwrap();
    assert_eq!(pool.read_range(&object, 0, 10).await.unwrap(), "data");
    store.remove_pool(&name).await.unwrap();
    assert!(!store.list_pools().await.unwrap().contains(&name));
    assert_eq!(kind(store.open_pool(&name).await.map(|_| ())), ErrorKind::NotFound);
}

pub(super) async fn a_pool_is_created_once_and_removed_once(case: &Case<'_>) {
    let store = case.store;
    let name = case.pool_name("p");
    assert_eq!(kind(store.remove_pool(&name).await), ErrorKind::NotFound);
    store.create_pool(&name).await.unwrap();
    let object = case.object("o");
    let pool = store.open_pool(&name).await.unwrap();
    pool.write_full(&object, "data").await.unwrap();
    assert_eq!(kind(store.create_pool(&name).await), ErrorKind::AlreadyExists);
    assert_eq!(pool.read_range(&object, 0, 10).await.unwrap(), "data");
    store.remove_pool(&name).await.unwrap();
    assert_eq!(kind(store.remove_pool(&name).await), ErrorKind::NotFound);
}

pub(super) async fn pools_are_separate(case: &Case<'_>) {
    let store = case.store;
    let name = case.pool_name("p");
    store.create_pool(&name).await.unwrap();
    let other = store.open_pool(&name).await.unwrap();
    let object = case.make_full("o").await;
    assert_eq!(kind(other.stat(&object).await), ErrorKind::NotFound);
    other.write_full(&object, "other").await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    case.pool.remove(&object).await.unwrap();
    assert_eq!(case.pool.list(case.list_request()).await.unwrap().objects, []);
    assert_eq!(other.list(case.list_request()).await.unwrap().objects, std::slice::from_ref(&object));
    assert_eq!(other.read_range(&object, 0, 10).await.unwrap(), "other");
    store.remove_pool(&name).await.unwrap();
}

pub(super) async fn two_handles_of_a_pool_are_one_pool(case: &Case<'_>) {
    let again = case.store.open_pool(case.pool.name()).await.unwrap();
    let object = case.make_full("o").await;
    again
        .write(&object, WriteOp::new().cmp_xattr("X", benthic_core::Compare::Eq, "1").append("b"))
        .await
        .unwrap();
    assert_eq!(case.size(&object).await, 101);
}

pub(super) async fn a_removed_pool_returns_not_found(case: &Case<'_>) {
    let store = case.store;
    let name = case.pool_name("p");
    store.create_pool(&name).await.unwrap();
    let pool = store.open_pool(&name).await.unwrap();
    let object = case.object("o");
    pool.write_full(&object, "data").await.unwrap();
    store.remove_pool(&name).await.unwrap();
    let call = |method: &str| ClassCall::new("hello", method, "");
    assert_eq!(kind(pool.read(&object, ReadOp::new().stat()).await), ErrorKind::NotFound);
    assert_eq!(kind(pool.write(&object, WriteOp::new().create(false)).await), ErrorKind::NotFound);
    assert_eq!(kind(pool.exec(&object, call("say")).await), ErrorKind::NotFound);
    assert_eq!(kind(pool.exec(&object, call("record")).await), ErrorKind::NotFound);
    assert_eq!(kind(pool.list(ListRequest::default()).await), ErrorKind::NotFound);
}

/// A new pool with the name of a removed pool is empty, and handles of the removed pool cannot
/// access it.
pub(super) async fn a_recreated_pool_is_empty(case: &Case<'_>) {
    let store = case.store;
    let name = case.pool_name("p");
    let object = case.object("o");
    store.create_pool(&name).await.unwrap();
    let old = store.open_pool(&name).await.unwrap();
    let op = WriteOp::new().write_full(vec![1; 100_000]).set_xattr("a", "1").omap_set([("k", "v")]);
    old.write(&object, op).await.unwrap();
    store.remove_pool(&name).await.unwrap();
    store.create_pool(&name).await.unwrap();
    let new = store.open_pool(&name).await.unwrap();
    assert_eq!(kind(new.stat(&object).await), ErrorKind::NotFound);
    let all = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
    assert_eq!(new.list(all).await.unwrap().objects, []);
    assert_eq!(kind(old.write(&object, WriteOp::new().create(false)).await), ErrorKind::NotFound);
    new.write(&object, WriteOp::new().create(true)).await.unwrap();
    let rest = Fetch::list_xattrs().and(Fetch::omap_range(None, "", 10));
    assert_eq!(new.fetch(&object, rest).await.unwrap().0, Default::default());
    store.remove_pool(&name).await.unwrap();
}

pub(super) async fn bad_pool_names_are_refused(case: &Case<'_>) {
    let store = case.store;
    for name in ["", "a/b", "a:b", ".", "..", ".a", "-a", "a\0b", "a\nb"] {
        assert_eq!(kind(store.create_pool(name).await), ErrorKind::InvalidArgument, "{name:?}");
    }
    assert_eq!(kind(store.create_pool(&"p".repeat(129)).await), ErrorKind::LimitExceeded);
    let longest = format!("{:p<128}", case.pool_name(""));
    store.create_pool(&longest).await.unwrap();
    assert!(store.list_pools().await.unwrap().contains(&longest));
    store.remove_pool(&longest).await.unwrap();
}
