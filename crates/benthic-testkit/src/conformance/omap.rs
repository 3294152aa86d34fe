//! The omap: ordered keys and values.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{ErrorKind, Fetch, ObjectId, OmapPage, ReadOp, WriteOp, limits};
use bytes::Bytes;

async fn range(
    case: &Case<'_>,
    object: &ObjectId,
    after: Option<&[u8]>,
    prefix: &[u8],
    max: usize,
) -> OmapPage {
    let after = after.map(Bytes::copy_from_slice);
    let range = Fetch::omap_range(after, Bytes::copy_from_slice(prefix), max);
    case.pool.fetch(object, range).await.unwrap().0
}

async fn get(case: &Case<'_>, object: &ObjectId, keys: &[&'static str]) -> OmapPage {
    case.pool.fetch(object, Fetch::omap_get(keys.iter().copied())).await.unwrap().0
}

fn keys(page: &OmapPage) -> Vec<&[u8]> {
    page.entries.iter().map(|(key, _)| key.as_ref()).collect()
}

pub(super) async fn entries_are_set_replaced_and_removed(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().omap_set([("a", "1"), ("b", "2"), ("c", "3")])).await.unwrap();
    let op = WriteOp::new().omap_set([("b", "two"), ("d", "")]).omap_remove(["a", "missing"]);
    case.pool.write(&object, op).await.unwrap();
    let expected = ObjectContent::default().entry("b", "two").entry("c", "3").entry("d", "");
    assert_eq!(case.state(&object).await, Some(expected));
    case.pool.write(&object, WriteOp::new().omap_clear()).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::default()));
    // Clearing an empty omap and removing a missing key both succeed.
    case.pool.write(&object, WriteOp::new().omap_clear().omap_remove(["a"])).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::default()));
}

pub(super) async fn get_returns_the_keys_that_exist(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().omap_set([("a", "1"), ("b", ""), ("c", "3")])).await.unwrap();
    let page = get(case, &object, &["c", "missing", "a", "b"]).await;
    let expected = [("a", "1"), ("b", ""), ("c", "3")].map(|(k, v)| (Bytes::from(k), Bytes::from(v)));
    assert_eq!(page, OmapPage { entries: expected.to_vec(), more: false }, "in key order");
    assert_eq!(get(case, &object, &["missing"]).await, OmapPage::default());
    assert_eq!(get(case, &object, &[]).await, OmapPage::default());
    assert_eq!(keys(&get(case, &object, &["a", "a"]).await), [b"a"]);
}

pub(super) async fn an_object_without_omap_has_no_entries(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "data").await.unwrap();
    assert_eq!(range(case, &object, None, b"", 10).await, OmapPage::default());
    assert_eq!(range(case, &object, Some(b"a"), b"a", 10).await, OmapPage::default());
    assert_eq!(get(case, &object, &["a"]).await, OmapPage::default());
}

pub(super) async fn keys_are_bytes_in_bytewise_order(case: &Case<'_>) {
    let object = case.object("o");
    let mut all: Vec<&[u8]> = vec![
        b"\0",
        b"\0\0",
        b"\x01",
        b"B",
        b"a",
        b"ab",
        b"b",
        b"b\0",
        b"b\0\0",
        b"ba",
        b"b\x7f",
        b"b\xff",
        b"b\xff\xff",
        b"c",
        b"\x7f",
        b"\x80",
        b"\xc3\xa9",
        b"\xff",
        b"\xff\xff",
    ];
    let op = all
        .iter()
        .rev()
        .fold(WriteOp::new(), |op, key| op.omap_set([(Bytes::from_static(key), Bytes::from_static(key))]));
    case.pool.write(&object, op).await.unwrap();
    all.sort_unstable();
    let page = range(case, &object, None, b"", 100).await;
    assert_eq!(keys(&page), all);
    assert!(page.entries.iter().all(|(key, value)| key == value));
    assert_eq!(keys(&range(case, &object, Some(b"b"), b"b", 2).await), [&b"b\0"[..], b"b\0\0"]);
    assert_eq!(keys(&range(case, &object, Some(b"b\xff"), b"b", 9).await), [&b"b\xff\xff"[..]]);
    assert_eq!(keys(&range(case, &object, None, b"\xff", 9).await), [&b"\xff"[..], b"\xff\xff"]);
    assert_eq!(keys(&range(case, &object, Some(b"\xff\xff"), b"", 9).await), [&b""[..]; 0]);
    case.pool.write(&object, WriteOp::new().omap_remove([&b"b\0"[..], b"\xff"])).await.unwrap();
    assert_eq!(keys(&range(case, &object, None, b"b\0", 9).await), [b"b\0\0"]);
}

pub(super) async fn ranges_begin_after_the_given_key_and_keep_to_the_prefix(case: &Case<'_>) {
    let object = case.object("o");
    let entries = ["B", "a", "ab", "b", "ba", "bb", "bc", "c"].map(|key| (key, "v"));
    case.pool.write(&object, WriteOp::new().omap_set(entries)).await.unwrap();
    // `more` is exact: it says whether another key with the prefix follows.
    for (after, prefix, max, expected, more) in [
        (None, "", 100, "B a ab b ba bb bc c", false),
        (None, "", 8, "B a ab b ba bb bc c", false),
        (None, "", 7, "B a ab b ba bb bc", true),
        (None, "", 1, "B", true),
        (Some("a"), "", 2, "ab b", true),
        (Some("aa"), "", 2, "ab b", true),
        (Some("c"), "", 2, "", false),
        (Some("zzz"), "", 2, "", false),
        (None, "b", 100, "b ba bb bc", false),
        (None, "b", 4, "b ba bb bc", false),
        (None, "b", 3, "b ba bb", true),
        (Some("a"), "b", 3, "b ba bb", true),
        (Some("b"), "b", 3, "ba bb bc", false),
        (Some("bb"), "b", 100, "bc", false),
        (Some("bc"), "b", 100, "", false),
        (Some("c"), "b", 100, "", false),
        (None, "bb", 100, "bb", false),
        (None, "zz", 100, "", false),
        (None, "a", 2, "a ab", false),
    ] {
        let page = range(case, &object, after.map(str::as_bytes), prefix.as_bytes(), max).await;
        let found: Vec<_> = keys(&page).into_iter().map(|key| str::from_utf8(key).unwrap()).collect();
        assert_eq!((found.join(" "), page.more), (expected.to_owned(), more), "{after:?} {prefix:?} {max}");
    }
}

pub(super) async fn thousands_of_entries_are_read_in_pages(case: &Case<'_>) {
    let object = case.object("o");
    let key = |index: usize| {
        Bytes::from(format!("{}{:05}", if index.is_multiple_of(2) { "even" } else { "odd" }, index))
    };
    let value = |index: usize| Bytes::from(format!("value {index}"));
    for start in [0, 1_500] {
        let op = WriteOp::new().omap_set((start..start + 2_000).map(|index| (key(index), value(index))));
        case.pool.write(&object, op).await.unwrap();
    }
    let mut expected: Vec<_> = (0..3_500).map(|index| (key(index), value(index))).collect();
    expected.sort();

    let whole = case.omap_pages(&object, "", usize::MAX).await;
    let lens: Vec<_> = whole.iter().map(Vec::len).collect();
    assert_eq!(lens, [1_024, 1_024, 1_024, 428], "a page holds {} at most", limits::OMAP_PAGE_ENTRIES_MAX);
    assert_eq!(whole.concat(), expected);
    assert_eq!(case.omap_pages(&object, "", 999).await.concat(), expected);
    let odd = case.omap_pages(&object, "odd", 500).await;
    assert_eq!(odd.iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 500, 250]);
    assert_eq!(odd.concat(), expected[1_750..]);

    let op = WriteOp::new().omap_remove((0..3_500).filter(|index| index % 7 != 0).map(key));
    case.pool.write(&object, op).await.unwrap();
    expected.retain(|(_, value)| {
        str::from_utf8(&value[6..]).unwrap().parse::<usize>().unwrap().is_multiple_of(7)
    });
    assert_eq!(case.omap_pages(&object, "", 100).await.concat(), expected);
    case.pool.write(&object, WriteOp::new().omap_clear()).await.unwrap();
    assert_eq!(range(case, &object, None, b"", 10).await, OmapPage::default());
}

/// An OSD stores the empty key but never lists it, because a range from the start begins after the
/// empty key.
pub(super) async fn the_empty_key_is_refused(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for op in [
        WriteOp::new().omap_set([("", "v")]),
        WriteOp::new().omap_set([("k", "v"), ("", "v")]),
        WriteOp::new().omap_remove([""]),
        WriteOp::new().cmp_omap("", "").write_full("x"),
    ] {
        assert_eq!(kind(case.pool.write(&object, op).await), ErrorKind::InvalidArgument);
    }
    let op = ReadOp::new().omap_get([""]);
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::InvalidArgument);
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    assert_eq!(keys(&range(case, &object, Some(b""), b"", 9).await), [b"K"], "all other keys come after it");
}

pub(super) async fn a_range_of_no_entries_is_refused(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let op = ReadOp::new().omap_range(None, "", 0);
    assert_eq!(kind(case.pool.read(&object, op).await), ErrorKind::InvalidArgument);
}

/// A page ends at a byte limit, but holds at least one entry. Paging skips no entry.
pub(super) async fn pages_of_large_values_are_shorter(case: &Case<'_>) {
    let object = case.object("o");
    let value = Bytes::from(vec![7; limits::OMAP_VALUE_BYTES_MAX]);
    let key = |index: usize| Bytes::from(format!("{index:02}"));
    for start in [0, 11, 22, 33] {
        let entries = (start..start + 11).map(|index| (key(index), value.clone()));
        case.pool.write(&object, WriteOp::new().omap_set(entries).buffered()).await.unwrap();
    }
    let pages = case.omap_pages(&object, "", 1_000).await;
    for page in &pages {
        let len_bytes: usize = page.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(len_bytes <= limits::OMAP_PAGE_BYTES_MAX + value.len() + 2, "{} entries", page.len());
    }
    assert!(pages.len() <= 3, "pages are not short without need: {}", pages.len());
    let entries = pages.concat();
    assert!(entries.iter().map(|(key, _)| key.clone()).eq((0..44).map(key)), "the keys differ");
    assert!(entries.iter().all(|(_, stored)| *stored == value), "a value differs");
    case.pool.remove(&object).await.unwrap();
}

pub(super) async fn objects_do_not_see_each_others_entries(case: &Case<'_>) {
    let names = ["o", "o1", "o\u{1}", "o/"];
    for name in names {
        case.pool.write(&case.object(name), WriteOp::new().omap_set([("k", name)])).await.unwrap();
    }
    for name in names {
        assert_eq!(case.state(&case.object(name)).await, Some(ObjectContent::default().entry("k", name)));
    }
    case.pool.write(&case.object("o"), WriteOp::new().omap_clear()).await.unwrap();
    assert_eq!(case.state(&case.object("o1")).await, Some(ObjectContent::default().entry("k", "o1")));
}
