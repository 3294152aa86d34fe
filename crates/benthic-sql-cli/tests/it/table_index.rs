//! `benthic table index` and `benthic table fsck`.

use crate::files::{parquet, trips};
use crate::home::Home;
use benthic_core::{Environment, Store, WriteOp};
use benthic_index::page_key;
use benthic_table::{FileEntry, SnapshotSelector, Table};
use futures::TryStreamExt;
use serde_json::json;

fn home() -> Home {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..1_000)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    home.ok(&["append", "lake/t", "a.parquet"]);
    home
}

#[test]
fn an_index_is_made_shown_used_and_dropped() {
    let home = home();
    assert_eq!(home.ok(&["index", "lake/t", "id"]), "lake/t: 2 index parts built in 2 of 2 objects\n");
    assert_eq!(home.ok(&["index", "lake/t", "id"]), "lake/t: 0 index parts built in 0 of 2 objects\n");
    let told = home.json(&["index", "lake/t", "name,id"]).remove(0);
    assert_eq!(
        told,
        json!({ "pool": "lake", "table": "t", "objects": 2, "objects_indexed": 2, "parts_built": 2, "parts_too_large": 0 })
    );
    assert!(home.ok(&["show", "lake/t"]).contains("indexes          (id), (name, id)\n"));
    assert_eq!(home.json(&["show", "lake/t"])[0]["indexes"], json!([["id"], ["name", "id"]]));
    home.ok(&["append", "lake/t", "a.parquet"]);
    assert_eq!(home.ok(&["index", "lake/t"]), "lake/t: 0 index parts built in 0 of 3 objects\n");
    assert_eq!(home.ok(&["index", "lake/t", "--rebuild"]), "lake/t: 6 index parts built in 3 of 3 objects\n");
    let told = home.json(&["fsck", "lake/t"]).remove(0);
    assert_eq!(
        (&told["findings"], &told["parts_missing"], &told["rows"]),
        (&json!([]), &json!(0), &json!(3_000))
    );
    assert_eq!(home.ok(&["index", "lake/t", "--drop", "name,id"]), "lake/t: index dropped\n");
    assert_eq!(home.json(&["index", "lake/t", "--drop", "id"])[0]["dropped"], json!(["id"]));
    assert_eq!(home.json(&["show", "lake/t"])[0]["indexes"], json!([]));
    home.ok(&["fsck", "lake/t"]);
    home.ok(&["drop", "lake/t", "--yes", "lake/t"]);
    assert!(home.objects().is_empty());
}

#[test]
fn a_text_index_is_made_shown_used_and_dropped() {
    let home = home();
    assert_eq!(
        home.ok(&["index", "lake/t", "--text", "name"]),
        "lake/t: 2 index parts built in 2 of 2 objects\n"
    );
    home.ok(&["index", "lake/t", "name"]);
    assert!(home.ok(&["show", "lake/t"]).contains("indexes          (name), text(name)\n"));
    let shown = home.json(&["show", "lake/t"]).remove(0);
    assert_eq!((&shown["indexes"], &shown["text_indexes"]), (&json!([["name"]]), &json!(["name"])));
    home.ok(&["append", "lake/t", "a.parquet"]);
    assert_eq!(home.json(&["fsck", "lake/t"])[0]["parts_missing"], json!(0));
    let error = home.fails(3, &["index", "lake/t", "--drop-text", "id"]);
    assert!(error.contains("no such index"), "{error}");
    assert_eq!(home.json(&["index", "lake/t", "--drop-text", "name"])[0]["dropped_text"], json!("name"));
    assert_eq!(home.json(&["show", "lake/t"])[0]["indexes"], json!([["name"]]));
    let error = home.fails(7, &["index", "lake/t", "--text", "id"]);
    assert!(error.contains("needs a column of type utf8"), "{error}");
}

#[test]
fn invalid_index_commands_are_refused() {
    let home = home();
    for (status, args, word) in [
        (6, &["index", "lake/t", "ID"][..], "did you mean \"id\""),
        (6, &["index", "lake/t", "id,id"], "twice"),
        (2, &["index", "lake/t"], "name the columns"),
        (3, &["index", "lake/t", "--drop", "id"], "no such index"),
        (3, &["index", "lake/missing", "id"], "no such table"),
        (2, &["index", "lake/t", "id", "--drop", "id"], "cannot be used with"),
        (2, &["index", "lake/t", "id", "--text", "name"], "cannot be used with"),
        (2, &["index", "lake/t", "--drop", "id", "--drop-text", "name"], "cannot be used with"),
        (6, &["index", "lake/t", "--text", "NAME"], "did you mean \"name\""),
        (3, &["fsck", "lake/missing"], "no such table"),
    ] {
        let error = home.fails(status, args);
        assert!(error.contains(word), "{args:?} {error}");
    }
    home.ok(&["index", "lake/t", "name"]);
    let error = home.fails(6, &["alter", "lake/t", "--drop", "name"]);
    assert!(error.contains("drop the index first"), "{error}");
}

#[test]
fn fsck_tells_what_is_damaged_and_repairs_indexes() {
    let home = home();
    home.ok(&["index", "lake/t", "id"]);
    let harm = |op: WriteOp| {
        home.with_store(async |store| {
            let pool = store.open_pool("lake").await.unwrap();
            let table = Table::open(pool.clone(), "t", Environment::default()).await.unwrap();
            let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
            let entry: FileEntry = snapshot.entries().try_next().await.unwrap().unwrap();
            let object = entry.object.object_id(table.id()).unwrap();
            pool.write(&object, op).await.unwrap();
            entry.object.to_string()
        })
    };
    let object = harm(WriteOp::new().omap_remove([page_key(0, 0)]));
    let run = home.run(&["fsck", "lake/t"]);
    let (told, error) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert_eq!(run.status.code(), Some(12), "{told}{error}");
    assert!(told.contains(&format!("object={object}")) && told.contains("1 finding\n"), "{told}");
    assert!(error.contains("--repair") && error.contains("findings=1"), "{error}");
    let told = home.ok(&["fsck", "lake/t", "--repair"]);
    assert!(told.ends_with("1 finding, 1 index part rebuilt\n"), "{told}");
    home.ok(&["fsck", "lake/t"]);
    // Rows are stored only once, so fsck cannot repair them.
    harm(WriteOp::new().truncate(1_000));
    let error = home.fails(12, &["fsck", "lake/t", "--repair"]);
    assert!(error.contains("load the data"), "{error}");
}
