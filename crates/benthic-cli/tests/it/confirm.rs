//! Removal of pools: only after a confirmation, unless nothing would be lost.

use crate::support::{Home, printed};
use benthic_core::{ObjectId, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use futures::StreamExt;
use futures::executor::block_on;

const RM: [&str; 3] = ["pool", "rm", "p"];

/// A store with the empty pool `empty` and the pool `p`, which has five objects. One of them is the
/// head of a table, and one is the directory of two S3 buckets.
fn home() -> Home {
    let home = Home::with_pool();
    home.ok(&["pool", "create", "empty"]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("p")).unwrap();
    for (namespace, name) in
        [("", "plain"), ("ns", "own"), ("benthic.tables", "trips"), ("benthic.table.1", "d")]
    {
        let object = ObjectId::in_namespace(namespace, name).unwrap();
        block_on(pool.write_full(&object, "data")).unwrap();
    }
    let directory = ObjectId::in_namespace("benthic.s3", "directory").unwrap();
    let entries = [("aada", ""), ("bphotos", "x"), ("bvideo", "x"), ("oada\0photos", "x")];
    block_on(pool.write(&directory, WriteOp::new().omap_set(entries))).unwrap();
    store.close().unwrap();
    home
}

/// Checks that no object was removed.
#[track_caller]
fn nothing_is_gone(home: &Home) {
    assert_eq!(home.ok(&["ls", "p", "--all-namespaces", "--hidden"]).lines().count(), 5);
}

#[test]
fn without_a_confirmation_the_contents_are_listed_and_stay() {
    let home = home();
    assert_eq!(
        home.fails(2, &RM),
        "benthic: this would delete pool p for good: 5 objects with 16 B, 1 table (trips), 2 S3 buckets (photos, \
         video); add --yes p to confirm\n"
    );
    let error = home.fails_with("usage", &RM);
    assert!(error["message"].as_str().unwrap().contains("1 table (trips)"), "{error}");
    assert!(home.fails(2, &["pool", "rm", "p", "--not-ours"]).contains("add --yes p to confirm"));
    nothing_is_gone(&home);
}

#[test]
fn only_the_right_name_confirms() {
    let home = home();
    for name in ["P", "empty", "p/", ""] {
        let refused = home.fails(2, &["pool", "rm", "p", "--yes", name]);
        assert!(
            refused.contains(r#"the name of the pool is "p", not "#) && refused.contains("nothing was"),
            "{refused}"
        );
    }
    home.fails(2, &["pool", "rm", "empty", "--yes", "p"]);
    nothing_is_gone(&home);
    assert_eq!(home.ok(&["pool", "rm", "p", "--yes", "p"]), "removed pool p\n");
    assert_eq!(home.ok(&["pool", "ls"]), "empty\n");
    assert_eq!(home.ok(&["pool", "rm", "empty"]), "removed pool empty\n", "nothing is lost");
}

#[test]
fn on_a_terminal_the_name_is_typed_again() {
    let home = home();
    for typed in ["y\n", "yes\n", "pp\n", "\n", ""] {
        let shown = home.on_terminal(&RM, typed);
        let text = String::from_utf8_lossy(&shown.stdout);
        assert_eq!(shown.status.code(), Some(2), "{typed:?}: {text}");
        assert!(text.contains(r#"the name of the pool is "p", not "#), "{typed:?}: {text}");
    }
    let shown = home.on_terminal(&["--json", "pool", "rm", "p"], "p\n");
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.code() == Some(2) && text.contains(r#""kind":"usage""#), "{text}");
    nothing_is_gone(&home);
    let shown = printed(&home.on_terminal(&RM, "p\n"), &RM);
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    for line in ["This deletes pool p for good:", "5 objects with 16 B", "1 table (trips)", "removed pool p"]
    {
        assert!(lines.iter().any(|shown| shown.ends_with(line)), "{line}: {shown}");
    }
    assert_eq!(home.ok(&["pool", "ls"]), "empty\n");
}

#[test]
fn the_count_of_a_large_pool_ends_early() {
    let home = Home::with_pool();
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("p")).unwrap();
    let write = |number| {
        let pool = std::sync::Arc::clone(&pool);
        async move { pool.write_full(&ObjectId::new(format!("{number}")).unwrap(), "x").await.unwrap() }
    };
    let writes = futures::stream::iter(0..10_200).map(write).buffer_unordered(256);
    block_on(writes.for_each(|_| std::future::ready(())));
    store.close().unwrap();
    let refused = home.fails(2, &RM);
    assert!(refused.contains("at least 10001 objects with at least 9.8 KiB"), "{refused}");
}

#[test]
fn a_missing_pool_is_not_created_to_remove_something() {
    let home = home();
    home.ok(&["pool", "create", "photos"]);
    for (pool, hint) in [("photo", "did you mean \"photos\"?"), ("nope", "`benthic pool ls` lists the pools")]
    {
        for args in
            [&["pool", "rm", pool][..], &["pool", "rm", pool, "--yes", pool], &["rm", &format!("{pool}/o")]]
        {
            let error = home.fails(3, args);
            assert!(error.contains(hint) && !error.contains("create"), "{args:?}: {error}");
        }
    }
    home.fails(6, &["pool", "rm", "p/plain"]);
    home.fails(6, &["pool", "rm", ".mgr"]);
    home.ok(&["pool", "rm", "photos", "--not-ours"]);
}
