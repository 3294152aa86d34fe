//! Queries of tables with indexes: the rows and objects that they skip, and the effect of damage.

use crate::fixtures::{answer, append, build_indexes, create, memory_store, options, pool, session};
use crate::support::{ALL, metric, rows};
use arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{ErrorKind, Pool, Store, WriteOp};
use benthic_embedded::EmbeddedStore;
use benthic_index::page_key;
use benthic_sql::session::Settings;
use benthic_table::{Definition, FileEntry, SnapshotSelector, Table};
use futures::TryStreamExt;
use std::sync::Arc;

const OBJECTS: i64 = 10;
const OBJECT_ROWS: i64 = 2_000;

/// Scatters numbers over the rows; each number occurs once.
fn scattered(row: i64) -> i64 {
    row * 7_919 % (OBJECTS * OBJECT_ROWS)
}

fn some(object: i64) -> RecordBatch {
    let ids = object * OBJECT_ROWS..(object + 1) * OBJECT_ROWS;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(scattered)));
    let kinds: ArrayRef =
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("kind {:03}", id % 250))));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(ids.clone().map(|id| match id % 1_000 {
        0 => f64::NAN,
        1 => -0.0,
        part => part as f64 / 4.0,
    })));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter([("id", ids), ("k", numbers), ("kind", kinds), ("f", floats)]).unwrap()
}

/// Creates a table whose writer indexes half of the objects, while the other half is indexed later.
async fn table(pool: &Arc<dyn Pool>) -> Table {
    let table = create(pool, "t", &Definition::new(&some(0).schema()).unwrap()).await;
    for object in 0..OBJECTS {
        append(&table, &[some(object)]).await;
        if object == OBJECTS / 2 {
            for columns in [&["k"][..], &["kind", "k"], &["f"]] {
                table.add_index(columns).await.unwrap();
            }
        }
    }
    build_indexes(&table).await;
    table
}

async fn store_with_table() -> (Arc<dyn Store>, Arc<dyn Pool>, Table) {
    let store = memory_store();
    let pool = pool(&store, "p").await;
    let table = table(&pool).await;
    (store, pool, table)
}

fn settings(pushdown: Pushdown, index: bool) -> Settings {
    Settings { pushdown, index, pruning: index, partitions: 2, ..Settings::default() }
}

/// Checks that a query gives the same rows with and without indexes; returns the rows, and the
/// output of EXPLAIN ANALYZE for each mode.
async fn explained(store: &Arc<dyn Store>, sql: &str) -> (Vec<String>, Vec<String>) {
    let sorted = |mut rows: Vec<String>| {
        rows.sort_unstable();
        rows
    };
    let run = async |settings, sql: &str| rows(&answer(&session(store, settings), sql).await.unwrap().1);
    let expected = sorted(run(settings(Pushdown::Never, false), sql).await);
    let mut plans = Vec::new();
    for pushdown in ALL {
        assert_eq!(sorted(run(settings(pushdown, true), sql).await), expected, "{pushdown:?} {sql}");
        let plan = run(settings(pushdown, true), &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
        plans.push(plan);
    }
    (expected, plans)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_is_read_from_the_one_object_that_has_it() {
    let (store, ..) = store_with_table().await;
    let (rows, plans) = explained(&store, "SELECT id, kind FROM p.t WHERE k = 4711").await;
    assert_eq!(rows.len(), 1);
    for plan in plans {
        assert!(plan.contains("index=(k), index_ranges=1"), "{plan}");
        assert_eq!(metric(&plan, "objects_left_out_by_index"), 9, "{plan}");
        assert_eq!(metric(&plan, "rows_by_index"), 1, "{plan}");
        assert_eq!(metric(&plan, "index_pages"), 10, "{plan}");
    }
    // If no row can match, the query reads no data object.
    let (rows, plans) = explained(&store, "SELECT id FROM p.t WHERE kind = 'kind 007' AND k = 10008").await;
    assert_eq!(rows.len(), 0);
    for plan in plans {
        assert_eq!(metric(&plan, "objects_left_out_by_index"), 10, "{plan}");
        let read = ["bytes_scanned", "bytes_read_there"].map(|name| metric(&plan, name));
        assert_eq!(read, [0, 0], "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_find_their_index() {
    let (store, ..) = store_with_table().await;
    for (condition, index, ranges, found) in [
        ("k = 17", "k", 1, 1),
        ("17 = k", "k", 1, 1),
        ("k IN (1, 5, 9, 12, 70000)", "k", 5, 4),
        ("k = 1 OR k = 3", "k", 2, 2),
        ("k BETWEEN 100 AND 119", "k", 1, 20),
        // The manifest tells that most rows have such an `f`.
        ("k > 19989 AND k < 19995 AND f >= 0", "k", 1, 5),
        ("k > 19989 AND k < 19995 AND f < 9", "k) and (f", 3, 0),
        ("NOT k > 5 OR f = 1", "k) or (f", 2, 26),
        ("kind = 'kind 003' AND k < 4000", "kind, k", 1, 16),
        ("kind LIKE 'kind 00_' AND kind <> 'kind 001'", "kind, k", 1, 720),
        ("kind IN ('kind 001', 'kind 002') AND k IN (1, 2, 3, 4, 5, 6)", "kind, k", 12, 0),
        ("k = 1 AND k = 2", "", 0, 0),
        ("f = 0.0", "f", 1, 0),
        ("f > 249.4", "f", 1, 60),
        ("f < -1", "f", 2, 0),
        ("f = CAST('NaN' AS DOUBLE)", "f", 1, 20),
    ] {
        let sql = format!("SELECT id, k FROM p.t WHERE {condition}");
        let (rows, plans) = explained(&store, &sql).await;
        if found > 0 {
            assert_eq!(rows.len(), found, "{condition}");
        }
        let expected = format!("index=({index}), index_ranges={ranges}");
        for plan in plans.iter().filter(|_| ranges > 0) {
            assert!(plan.contains(&expected), "{condition} {expected}\n{plan}");
            assert!(metric(plan, "rows_by_index") < 2_000, "{condition}\n{plan}");
        }
    }
    for condition in ["k <> 3", "k = id", "k = 3 OR id = 3", "k % 2 = 0"] {
        let (_, plans) = explained(&store, &format!("SELECT id FROM p.t WHERE {condition}")).await;
        assert!(plans.iter().all(|plan| !plan.contains("index=(")), "{condition} {plans:?}");
    }
}

/// The tags of a row: none for some, and nulls among them.
fn tags(row: i64) -> Option<[Option<String>; 2]> {
    let other = (row % 3 > 0).then(|| format!("tag {}", 200 + row % 193));
    (row % 20 > 0).then(|| [Some(format!("tag {}", row % 197)), other])
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_an_index_of_their_elements() {
    let store = memory_store();
    let pool = pool(&store, "p").await;
    let some = |object: i64| {
        let ids = object * OBJECT_ROWS..(object + 1) * OBJECT_ROWS;
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in ids.clone() {
            for tag in tags(row).iter().flatten() {
                lists.values().append_option(tag.as_deref());
            }
            lists.append(tags(row).is_some());
        }
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        let lists: ArrayRef = Arc::new(lists.finish());
        RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("tags", lists, true)]).unwrap()
    };
    let table = create(&pool, "t", &Definition::new(&some(0).schema()).unwrap()).await;
    for object in 0..OBJECTS {
        append(&table, &[some(object)]).await;
        if object == OBJECTS / 2 {
            table.add_index(&["tags"]).await.unwrap();
        }
    }
    build_indexes(&table).await;
    let count = |matches: &dyn Fn(&[&str]) -> bool| {
        let lists = (0..OBJECTS * OBJECT_ROWS).filter_map(tags);
        lists.filter(|tags| matches(&tags.iter().flatten().map(String::as_str).collect::<Vec<_>>())).count()
    };
    for (condition, ranges, found) in [
        ("array_has(tags, 'tag 7')", 1, count(&|tags| tags.contains(&"tag 7"))),
        (
            "array_has_any(tags, ['tag 7', 'tag 300'])",
            2,
            count(&|tags| tags.contains(&"tag 7") || tags.contains(&"tag 300")),
        ),
        ("array_has_all(tags, ['tag 7', 'tag 207'])", 2, 1),
        ("array_has(tags, 'no tag')", 1, 0),
    ] {
        let (rows, plans) = explained(&store, &format!("SELECT id, tags FROM p.t WHERE {condition}")).await;
        assert_eq!(rows.len(), found, "{condition}");
        for plan in plans {
            assert!(plan.contains(&format!("index=(tags), index_ranges={ranges}")), "{condition}\n{plan}");
            assert!(metric(&plan, "rows_by_index") < 300, "{condition}\n{plan}");
        }
    }
    let (_, plans) = explained(&store, "SELECT id FROM p.t WHERE NOT array_has(tags, 'tag 7')").await;
    assert!(plans.iter().all(|plan| !plan.contains("index=(")), "{plans:?}");
    table.drop_index(&["tags"]).await.unwrap();
    let (rows, plans) = explained(&store, "SELECT id FROM p.t WHERE array_has(tags, 'tag 7')").await;
    assert!(!rows.is_empty() && plans.iter().all(|plan| !plan.contains("index=(")), "{plans:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_limits_and_joins_have_the_same_rows() {
    let (store, ..) = store_with_table().await;
    for sql in [
        "SELECT count(*), sum(id), min(kind) FROM p.t WHERE k = 4711",
        "SELECT count(*), max(id) FROM p.t WHERE k = -5",
        "SELECT kind, count(*) FROM p.t WHERE k < 300 GROUP BY kind",
        "SELECT count(*) FROM (SELECT id FROM p.t WHERE k < 50 LIMIT 7)",
        "SELECT k FROM p.t WHERE kind = 'kind 100' ORDER BY k LIMIT 3",
        "SELECT a.id, b.id FROM p.t a JOIN p.t b ON a.id = b.k WHERE a.k IN (3, 4711)",
        "SELECT id FROM p.t WHERE k IN (SELECT k FROM p.t WHERE id < 3)",
    ] {
        explained(&store, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_finds_most_rows_is_left_alone() {
    let (store, ..) = store_with_table().await;
    for condition in ["k > 1000", "f < 100", "kind > 'kind 1'"] {
        let (_, plans) = explained(&store, &format!("SELECT count(*) FROM p.t WHERE {condition}")).await;
        for plan in plans {
            assert_eq!(metric(&plan, "rows_by_index"), 0, "{condition} {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_are_an_error_that_names_table_and_object() {
    let (store, pool, table) = store_with_table().await;
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    let entry: FileEntry = snapshot.entries().try_next().await.unwrap().unwrap();
    let object = entry.object.object_id(table.id()).unwrap();
    for damage in [
        WriteOp::new().omap_set([(page_key(0, 0), "\u{1}nonsense")]),
        WriteOp::new().omap_remove([page_key(0, 0)]),
    ] {
        pool.write(&object, damage).await.unwrap();
        for pushdown in ALL {
            let error =
                answer(&session(&store, settings(pushdown, true)), "SELECT id FROM p.t WHERE k = 1").await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            for word in ["table=p/t".to_owned(), format!("object={}", entry.object), "--rebuild".to_owned()] {
                assert!(error.to_string().contains(&word), "{word} {error}");
            }
            // Queries that do not need the index still work.
            answer(&session(&store, settings(pushdown, false)), "SELECT id FROM p.t WHERE k = 1")
                .await
                .unwrap();
        }
    }
    snapshot.build_indexes(true).try_collect::<Vec<_>>().await.unwrap();
    explained(&store, "SELECT id FROM p.t WHERE k = 1").await;
}

/// The embedded engine takes the omap from its key-value store.
#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_engine_finds_the_same() {
    let dir = tempfile::TempDir::new().unwrap();
    let store: Arc<dyn Store> = EmbeddedStore::open(dir.path(), true, options()).unwrap();
    let pool = pool(&store, "p").await;
    table(&pool).await;
    let (rows, plans) = explained(&store, "SELECT id FROM p.t WHERE k IN (1, 4711)").await;
    assert_eq!(rows.len(), 2);
    assert!(plans.iter().all(|plan| metric(plan, "rows_by_index") == 2), "{plans:?}");
}
