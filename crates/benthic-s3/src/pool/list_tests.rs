use super::{Cursor, Entry, List, ListPosition, end_early};
use crate::sal::{KeyPosition, ListKind};
use benthic_core::ObjectId;

fn cursor(entries: &[&str], after: Option<ListPosition>) -> Cursor {
    Cursor {
        shard: ObjectId::new("shard").expect("a valid name"),
        entries: entries.iter().map(|prefix| Entry::Prefix((*prefix).to_owned())).collect(),
        at_end: after.is_none(),
        after,
        page_entries: 10,
        taken: 0,
    }
}

#[test]
fn a_page_that_ends_early_lists_a_prefix_once() {
    let list = List {
        kind: ListKind::Objects,
        prefix: String::new(),
        delimiter: "/".into(),
        after: None,
        entries_max: 10,
    };
    let hidden = |key: &str| Some(ListPosition { key: key.into(), within: Some(KeyPosition::Hidden) });
    let behind = |prefix: &str| Some(ListPosition { key: prefix.into(), within: None });
    // One shard still searches inside a prefix that another shard has returned: the search can
    // stop.
    let mut cursors = [cursor(&["a/", "b/"], None), cursor(&[], hidden("a/5"))];
    let mut out = Vec::new();
    assert_eq!(end_early(&mut cursors, &mut out, 10, &list), behind("a/"));
    assert_eq!(out, [Entry::Prefix("a/".into())]);
    // No shard has returned that prefix: the listing continues inside it, and later entries wait.
    let mut cursors = [cursor(&["b/"], None), cursor(&[], hidden("a/5")), cursor(&[], hidden("a/7"))];
    let mut out = Vec::new();
    assert_eq!(end_early(&mut cursors, &mut out, 10, &list), hidden("a/5"));
    assert_eq!(out, []);
    // The page is full.
    let mut cursors = [cursor(&["a/", "b/"], None), cursor(&[], hidden("c"))];
    assert_eq!(end_early(&mut cursors, &mut out, 1, &list), behind("a/"));
}
