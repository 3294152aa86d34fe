//! The choice between index and scan: estimates from the manifest, and rows that do not depend on
//! them.

use crate::fixtures::{answer, append, build_indexes, create, memory_store, pool, session};
use crate::support::{ALL, metric, rows};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Pool, Store};
use benthic_sql::session::Settings;
use benthic_table::{Definition, Distribution, SnapshotSelector, Table};
use futures::TryStreamExt;
use std::sync::Arc;

const OBJECTS: i64 = 6;
const OBJECT_ROWS: i64 = 10_000;

/// `k` is scattered over the rows; `run` is the same in 50 rows, one after the other; `kind` has
/// few values.
fn some(object: i64) -> RecordBatch {
    let ids = object * OBJECT_ROWS..(object + 1) * OBJECT_ROWS;
    let all = OBJECTS * OBJECT_ROWS;
    let numbers = |of: fn(i64, i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| of(id, all))))
    };
    let kinds: ArrayRef =
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("kind {}", id % 4))));
    RecordBatch::try_from_iter([
        ("id", numbers(|id, _| id)),
        ("k", numbers(|id, all| id * 7_919 % all)),
        ("run", numbers(|id, all| id / 50 * 7_919 % all)),
        ("kind", kinds),
    ])
    .unwrap()
}

async fn store_with_table() -> (Arc<dyn Store>, Table) {
    let store = memory_store();
    let pool: Arc<dyn Pool> = pool(&store, "p").await;
    let table = create(&pool, "t", &Definition::new(&some(0).schema()).unwrap()).await;
    for object in 0..OBJECTS {
        append(&table, &[some(object)]).await;
    }
    for columns in [&["k"][..], &["run"], &["kind"]] {
        table.add_index(columns).await.unwrap();
    }
    build_indexes(&table).await;
    (store, table)
}

fn settings(pushdown: Pushdown, index: bool) -> Settings {
    Settings { pushdown, index, pruning: index, partitions: 2, ..Settings::default() }
}

/// Checks that a query has the same rows with and without indexes, in every mode. Returns the
/// output of EXPLAIN ANALYZE of each mode.
async fn explained(store: &Arc<dyn Store>, condition: &str) -> Vec<String> {
    let sql = format!("SELECT id, kind FROM p.t WHERE {condition}");
    let run = async |settings, sql: &str| rows(&answer(&session(store, settings), sql).await.unwrap().1);
    let expected = run(settings(Pushdown::Never, false), &sql).await;
    let mut plans = Vec::new();
    for pushdown in ALL {
        assert_eq!(run(settings(pushdown, true), &sql).await, expected, "{pushdown:?} {condition}");
        plans.push(run(settings(pushdown, true), &format!("EXPLAIN ANALYZE {sql}")).await.join("\n"));
    }
    plans
}

/// The estimate in a plan.
fn estimated(plan: &str) -> f64 {
    let (_, after) = plan.split_once("index_rows_estimated=").unwrap_or_else(|| panic!("{plan}"));
    after.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_decides_whether_an_index_is_looked_up() {
    let (store, table) = store_with_table().await;
    for (condition, is_used, share) in [
        ("k = 4711", true, 0.0),
        ("k BETWEEN 100 AND 140", true, 0.0),
        // Scattered rows: a scan of them takes longer than a scan of all.
        ("k < 9000", false, 0.15),
        ("k > 50000 AND kind = 'kind 1'", false, 0.04),
        ("kind = 'kind 1'", false, 0.25),
        // As many rows in runs.
        ("run < 9000", true, 0.15),
        ("run < 45000", false, 0.75),
        ("k IN (1, 2, 3) AND kind = 'kind 1'", true, 0.0),
        ("k = 7 OR run = 0", true, 0.0),
    ] {
        for plan in explained(&store, condition).await {
            assert_eq!(plan.contains("index=("), is_used, "{condition} {plan}");
            assert_eq!(plan.contains("index_not_used=("), !is_used, "{condition} {plan}");
            let estimate = estimated(&plan) / (OBJECTS * OBJECT_ROWS) as f64;
            assert!((estimate - share).abs() < 0.05, "{condition} {estimate} {plan}");
            assert_eq!(metric(&plan, "index_pages") > 0, is_used, "{condition} {plan}");
        }
    }
    // A change of rows keeps the estimates.
    let changed = answer(&session(&store, Settings::default()), "DELETE FROM p.t WHERE id % 10 = 3").await;
    assert_eq!(changed.unwrap().1[0].num_rows(), 1);
    assert_eq!(distributions(&table).await, OBJECTS as usize);
    let plans = explained(&store, "k < 9000").await;
    assert!(plans.iter().all(|plan| plan.contains("index_not_used=(k)")), "{plans:?}");
}

/// How many objects have a distribution of `k` that can be decoded.
async fn distributions(table: &Table) -> usize {
    use arrow::array::AsArray;
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    let batches: Vec<RecordBatch> = snapshot.files_with(&[], &["k"]).unwrap().try_collect().await.unwrap();
    let columns = batches
        .iter()
        .map(|batch| batch.column_by_name("distribution_2").unwrap().as_binary::<i32>().clone());
    let columns: Vec<_> = columns.collect();
    columns
        .iter()
        .flat_map(|column| column.iter().flatten())
        .filter(|encoded| Distribution::decode(encoded).is_ok())
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_that_merge_lists_keep_the_distributions() {
    let store = memory_store();
    let pool: Arc<dyn Pool> = pool(&store, "p").await;
    let table = create(&pool, "t", &Definition::new(&some(0).schema()).unwrap()).await;
    for number in 0..40 {
        append(&table, &[some(0).slice(number * 10, 10)]).await;
    }
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    assert!(snapshot.lists().len() <= 33, "lists were merged");
    assert_eq!(distributions(&table).await, 40);
}
