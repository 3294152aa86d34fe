//! Queries of tables with column groups: what they read, and where they run.

use crate::fixtures::{answer, append, build_indexes, create, memory_store, pool, session, ways};
use crate::support::{metric, rows};
use arrow::array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use benthic_core::Store;
use benthic_core::pushdown::Pushdown;
use benthic_sql::session::Settings;
use benthic_table::{Definition, FileEntry, Snapshot, SnapshotSelector, Table};
use benthic_testkit::random::Rng;
use futures::TryStreamExt;
use std::sync::Arc;

const ROWS: i64 = 600;
/// Bytes of a value of the large column.
const IMAGE_BYTES: usize = 16 * 1024;

/// Rows with a large column that does not compress.
fn photos(ids: std::ops::Range<i64>) -> RecordBatch {
    let mut random = Rng(ids.start as u64 + 1);
    let images: ArrayRef =
        Arc::new(BinaryArray::from_iter_values(ids.clone().map(|_| random.bytes(IMAGE_BYTES))));
    let places = ids.clone().map(|id| format!("place {}", id % 50));
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("image", images),
        ("place", Arc::new(StringArray::from_iter_values(places))),
        ("score", Arc::new(Float64Array::from_iter_values(ids.clone().map(|id| id as f64 / 3.0)))),
        ("label", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("label {}", id % 7))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).unwrap()
}

/// The tables `plain`, and `grouped` with the groups (image) and (score, label).
async fn tables(store: &Arc<dyn Store>) -> [Table; 2] {
    let pool = pool(store, "t").await;
    let batch = photos(0..ROWS);
    let mut tables = Vec::new();
    for name in ["plain", "grouped"] {
        let mut definition = Definition::new(&batch.schema()).unwrap();
        if name == "grouped" {
            definition.layout.groups = vec![vec![2], vec![4, 5]];
        }
        let table = create(&pool, name, &definition).await;
        append(&table, std::slice::from_ref(&batch)).await;
        tables.push(table);
    }
    tables.try_into().ok().unwrap()
}

async fn snapshot(table: &Table) -> Snapshot {
    table.snapshot(SnapshotSelector::Current).await.unwrap()
}

async fn texts(store: &Arc<dyn Store>, settings: &Settings, sql: &str) -> Vec<String> {
    rows(&answer(&session(store, settings.clone()), sql).await.unwrap().1)
}

/// The bytes that a query moves to the client, and the objects that fragments ran beside.
async fn moved(store: &Arc<dyn Store>, pushdown: Pushdown, sql: &str) -> (u64, u64) {
    let settings = Settings { pushdown, ..Settings::default() };
    let session = session(store, settings);
    loop {
        let plan = answer(&session, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap().1;
        let plan = rows(&plan).join("\n");
        if metric(&plan, "refused_busy") == 0 {
            let scanned = if plan.contains("FragmentExec") { "bytes_moved" } else { "bytes_scanned" };
            return (metric(&plan, scanned), metric(&plan, "objects_pushed"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "it prints its measurements")]
async fn queries_move_the_columns_that_they_need() {
    let store = memory_store();
    let [plain, _] = tables(&store).await;
    let image_bytes = ROWS as u64 * IMAGE_BYTES as u64;
    assert!(snapshot(&plain).await.data_bytes() > image_bytes);
    let of = |sql: &str| ["plain", "grouped"].map(|table| sql.replace("FROM t", &format!("FROM t.{table}")));
    // Columns of no group: never more bytes than without groups. Objects have the same rows.
    for sql in ["SELECT sum(id), max(place) FROM t", "SELECT id FROM t WHERE place = 'place 7'"] {
        let [plain, grouped] = of(sql);
        for pushdown in [Pushdown::Never, Pushdown::Always] {
            let (before, after) =
                (moved(&store, pushdown, &plain).await, moved(&store, pushdown, &grouped).await);
            println!("{pushdown:?} {sql}: {before:?} {after:?}");
            assert!(
                after.0 <= before.0 + 1_024 && after.1 == before.1,
                "{pushdown:?} {sql} {before:?} {after:?}"
            );
        }
    }
    // All columns in one group: the fragment runs beside the companion.
    let [plain, grouped] = of("SELECT sum(score) FROM t WHERE label = 'label 3'");
    let (before, after) =
        (moved(&store, Pushdown::Always, &plain).await, moved(&store, Pushdown::Always, &grouped).await);
    assert!(after.1 > 0 && after.1 == before.1 && after.0 < 64 * 1_024, "{before:?} {after:?}");
    // A few values of the large column: the client reads only their pages.
    let [_, grouped] = of("SELECT image FROM t WHERE place = 'place 7' AND id < 300");
    let (bytes, pushed) = moved(&store, Pushdown::Never, &grouped).await;
    println!("{grouped}: {bytes}");
    assert!(
        bytes > 6 * IMAGE_BYTES as u64 && bytes < image_bytes / 2 && pushed == 0,
        "{bytes} {image_bytes}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_have_the_same_answers_with_groups_as_without() {
    let store = memory_store();
    let [plain, grouped] = tables(&store).await;
    let queries = [
        "SELECT count(*), min(id), max(place) FROM t",
        "SELECT count(*) FROM t WHERE score > 100.5 AND label <> 'label 2'",
        "SELECT id, image, label FROM t WHERE place = 'place 7' AND score < 200",
        "SELECT image FROM t WHERE id IN (3, 77, 599)",
        "SELECT place, count(*), sum(score) FROM t WHERE id % 3 = 0 GROUP BY place",
        "SELECT id, label FROM t ORDER BY score DESC LIMIT 5",
        "SELECT count(*) FROM t WHERE image IS NOT NULL AND score IS NOT NULL",
        "SELECT a.id, b.label FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.place = 'place 9' AND b.score > 50",
        "SELECT count(*) FROM t WHERE NOT (score > 3 AND id > 5)",
    ];
    let same = async || {
        for (way, settings) in ways() {
            for sql in queries {
                let [plain, grouped] = ["plain", "grouped"].map(|table| {
                    sql.replace("FROM t", &format!("FROM t.{table}"))
                        .replace("JOIN t", &format!("JOIN t.{table}"))
                });
                assert_eq!(
                    texts(&store, &settings, &grouped).await,
                    texts(&store, &settings, &plain).await,
                    "{way}: {sql}"
                );
            }
        }
    };
    same().await;
    for table in [&plain, &grouped] {
        table.add_index(&["id"]).await.unwrap();
        table.add_index(&["label", "id"]).await.unwrap();
        build_indexes(table).await;
    }
    same().await;
    let settings = Settings::default();
    for statement in [
        "UPDATE t SET score = score + 1, label = 'new' WHERE id BETWEEN 10 AND 20 OR place = 'place 3'",
        "DELETE FROM t WHERE label = 'label 4' AND score > 90",
        "MERGE INTO t USING (SELECT 5 AS id UNION ALL SELECT 5000) s ON t.id = s.id
         WHEN MATCHED THEN UPDATE SET place = 'merged' WHEN NOT MATCHED THEN INSERT (id, label) VALUES (s.id, 'added')",
        "ALTER",
        "DELETE FROM t WHERE id >= 250",
    ] {
        for table in [&plain, &grouped] {
            if statement == "ALTER" {
                let rename = benthic_table::Alter::Rename { from: "place".to_owned(), to: "city".to_owned() };
                let back = benthic_table::Alter::Rename { from: "city".to_owned(), to: "place".to_owned() };
                table.alter(&[rename, back]).await.unwrap();
                continue;
            }
            let name = format!("t.{}", table.name());
            let statement = statement
                .replacen("UPDATE t", &format!("UPDATE {name} AS t"), 1)
                .replacen("FROM t", &format!("FROM {name} AS t"), 1)
                .replacen("INTO t", &format!("INTO {name} AS t"), 1);
            texts(&store, &settings, &statement).await;
        }
    }
    same().await;
    assert_eq!(snapshot(&grouped).await.grouped_objects(), snapshot(&grouped).await.objects());
}

/// Queries of columns in no group read no companion, wherever they run.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_needs_no_companion_of_other_columns() {
    let store = memory_store();
    let [_, table] = tables(&store).await;
    let snapshot = snapshot(&table).await;
    let entries: Vec<FileEntry> = snapshot.entries().try_collect().await.unwrap();
    for entry in &entries {
        let image = entry.parts().nth(1).unwrap().object;
        table.pool().remove(&image.object_id(table.id()).unwrap()).await.unwrap();
    }
    for (way, settings) in ways() {
        let count =
            texts(&store, &settings, "SELECT count(*), count(label) FROM t.grouped WHERE score >= 0").await;
        assert_eq!(count, ["600|600"], "{way}");
        let found =
            texts(&store, &settings, "SELECT id, label FROM t.grouped WHERE place = 'place 8' AND id < 60");
        assert_eq!(found.await, ["58|label 2", "8|label 1"], "{way}");
        let lost = answer(&session(&store, settings), "SELECT max(image) FROM t.grouped").await.unwrap_err();
        assert!(lost.to_string().contains("is lost"), "{way}: {lost}");
    }
}
