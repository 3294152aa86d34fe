//! Listing a pool page by page.

use super::Case;
use super::support::kind;
use benthic_core::{ErrorKind, ListPage, ListRequest, ListToken, Namespaces, ObjectId, WriteOp};
use std::collections::BTreeSet;

/// Returns the names on the pages and checks that no object appears twice.
fn names(pages: &[ListPage]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for object in pages.iter().flat_map(|page| &page.objects) {
        assert!(names.insert(object.name().to_owned()), "{object} is listed twice");
    }
    names
}

async fn create(case: &Case<'_>, names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut created = BTreeSet::new();
    for name in names {
        case.pool.write(&case.object(&name), WriteOp::new().create(true).buffered()).await.unwrap();
        created.insert(name);
    }
    created
}

pub(super) async fn every_object_is_listed_once_at_every_page_size(case: &Case<'_>) {
    let created = create(case, (0..45).map(|index| format!("object {index}"))).await;
    for objects_max in [1, 2, 7, 44, 45, 46, 10_000] {
        let request = ListRequest { objects_max, ..case.list_request() };
        let pages = case.list_pages(&request, None).await;
        assert_eq!(names(&pages), created, "{objects_max} a page");
        assert!(
            pages.iter().flat_map(|page| &page.objects).all(|object| object.namespace() == case.namespace())
        );
    }
}

pub(super) async fn a_prefix_selects_objects(case: &Case<'_>) {
    let created = ["a", "ab", "abc", "abd", "b", "ba", "A", "a/b", "a/", "é", "é1", "\u{10ffff}"];
    create(case, created.map(str::to_owned)).await;
    for prefix in ["", "a", "ab", "abc", "abcd", "a/", "b", "B", "é", "\u{10ffff}", "z"] {
        for objects_max in [1, 3, 100] {
            let request = ListRequest { prefix: prefix.to_owned(), objects_max, ..case.list_request() };
            let expected: BTreeSet<_> = created
                .iter()
                .filter(|name| name.starts_with(prefix))
                .map(|name| (*name).to_owned())
                .collect();
            assert_eq!(names(&case.list_pages(&request, None).await), expected, "{prefix:?} {objects_max}");
        }
    }
}

pub(super) async fn an_unused_namespace_is_empty(case: &Case<'_>) {
    assert_eq!(names(&case.list_pages(&case.list_request(), None).await), BTreeSet::new());
}

pub(super) async fn a_listing_continues_after_its_token(case: &Case<'_>) {
    let created = create(case, (0..30).map(|index| index.to_string())).await;
    let request = ListRequest { objects_max: 4, ..case.list_request() };
    let all = case.list_pages(&request, None).await;
    for split in 0..all.len() - 1 {
        let token = ListToken(all[split].next.clone().unwrap().0.to_vec().into());
        let first = names(&all[..=split]);
        for objects_max in [4, 1, 1_000] {
            let request = ListRequest { objects_max, ..case.list_request() };
            let rest = names(&case.list_pages(&request, Some(token.clone())).await);
            assert!(first.is_disjoint(&rest), "split {split}");
            assert_eq!(&first | &rest, created, "split {split}");
        }
    }
}

/// Of engines that list in another order, [`Pool::token_after`](benthic_core::Pool::token_after)
/// has no token.
pub(super) async fn a_listing_in_the_order_of_names_continues_after_any_name(case: &Case<'_>) {
    let created = ["a", "a/", "a/b", "a/\u{10ffff}", "a0", "ab", "b", "é", "\u{ffff}", "\u{10000}"];
    let created = create(case, created.map(str::to_owned)).await;
    for name in
        created.iter().map(String::as_str).chain(["A", "a/a", "a/\u{10ffff}\u{10ffff}", "z", "\u{10ffff}"])
    {
        let Some(token) = case.pool.token_after(&case.object(name)) else { continue };
        for objects_max in [1, 4, 100] {
            let request = ListRequest { objects_max, ..case.list_request() };
            let pages = case.list_pages(&request, Some(token.clone())).await;
            let listed: Vec<_> = pages.iter().flat_map(|page| &page.objects).map(ObjectId::name).collect();
            let expected: Vec<_> = created.iter().filter(|other| other.as_str() > name).collect();
            assert_eq!(listed, expected, "after {name:?}");
        }
    }
}

pub(super) async fn changes_are_visible_at_once(case: &Case<'_>) {
    let mut created = create(case, (0..10).map(|index| index.to_string())).await;
    for name in ["3", "0", "9"] {
        case.pool.remove(&case.object(name)).await.unwrap();
        created.remove(name);
        assert_eq!(names(&case.list_pages(&case.list_request(), None).await), created);
    }
    case.pool.write_full(&case.object("new"), "x").await.unwrap();
    created.insert("new".to_owned());
    assert_eq!(names(&case.list_pages(&case.list_request(), None).await), created);
}

/// A listing contains every object that exists for its whole duration, regardless of concurrent
/// creates and removals.
pub(super) async fn changes_during_a_listing_do_not_disturb_it(case: &Case<'_>) {
    let kept = create(case, (0..40).map(|index| format!("kept {index:02}"))).await;
    create(case, (0..40).map(|index| format!("gone {index:02}"))).await;
    let request = ListRequest { objects_max: 3, ..case.list_request() };
    let mut listed = Vec::new();
    let mut after = None;
    for round in 0.. {
        let page = case.pool.list(ListRequest { after, ..request.clone() }).await.unwrap();
        // One of the removed objects may be the one that the list token refers to.
        let going = page.objects.iter().filter(|object| object.name().starts_with("gone"));
        for object in going.cloned().collect::<Vec<_>>() {
            case.pool.remove(&object).await.unwrap();
        }
        case.pool.write_full(&case.object(&format!("added {round}")), "").await.unwrap();
        after = page.next.clone();
        listed.push(page);
        if after.is_none() {
            break;
        }
    }
    let listed = names(&listed);
    assert!(listed.is_superset(&kept), "missing: {:?}", &kept - &listed);
}

pub(super) async fn an_invalid_token_is_refused(case: &Case<'_>) {
    create(case, ["a".to_owned()]).await;
    for token in [&b""[..], b"?", b"\xff\xff\xff\xff", b"not a token of any pool"] {
        let request = ListRequest { after: Some(ListToken(token.into())), ..case.list_request() };
        assert_eq!(kind(case.pool.list(request).await), ErrorKind::InvalidArgument, "{token:?}");
    }
}

pub(super) async fn a_bad_namespace_is_refused(case: &Case<'_>) {
    for (namespace, expected) in
        [("n".repeat(257), ErrorKind::LimitExceeded), ("a\0b".to_owned(), ErrorKind::InvalidArgument)]
    {
        let request = ListRequest { namespaces: Namespaces::One(namespace), ..ListRequest::default() };
        assert_eq!(kind(case.pool.list(request).await), expected);
    }
}

pub(super) async fn hundreds_of_objects_are_listed_in_pages(case: &Case<'_>) {
    let created = create(case, (0..600).map(|index| format!("{:x}/{index}", index * 7_919 % 600))).await;
    let request = ListRequest { objects_max: 100, ..case.list_request() };
    assert_eq!(names(&case.list_pages(&request, None).await), created);
    let object = case.object("none of them");
    assert_eq!(kind(case.pool.stat(&object).await), ErrorKind::NotFound);
}
