//! Tables that record access.

use crate::fixtures::{answer, append, build_indexes, create, memory_store, pool, session};
use crate::support::ALL;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Pool, Store};
use benthic_sql::session::{Selection, Settings};
use benthic_table::{AccessShape, AccessSums, ConditionKind, Definition, SnapshotSelector, Table};
use futures::TryStreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: i64 = 4_000;

fn some() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id * 7_919 % ROWS)));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|id| format!("name {}", id % 40))));
    RecordBatch::try_from_iter([("id", ids), ("k", numbers), ("name", names)]).unwrap()
}

async fn store_with_table() -> (Arc<dyn Store>, Table) {
    let store = memory_store();
    let pool: Arc<dyn Pool> = pool(&store, "p").await;
    let table = create(&pool, "t", &Definition::new(&some().schema()).unwrap()).await;
    append(&table, &[some()]).await;
    append(&table, &[some()]).await;
    (store, table)
}

async fn recorded(table: &Table) -> BTreeMap<AccessShape, AccessSums> {
    table.access().await.unwrap().unwrap_or_default().shapes
}

fn settings(pushdown: Pushdown) -> Settings {
    Settings { pushdown, partitions: 2, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_records_the_same_rows_and_no_values() {
    let (store, table) = store_with_table().await;
    table.record_access(true).await.unwrap();
    for pushdown in ALL {
        let session = session(&store, settings(pushdown));
        for sql in [
            "SELECT id FROM p.t WHERE name = 'name 7' AND k < 2000",
            "SELECT count(*), sum(k) FROM p.t WHERE name = 'name 8' AND k < 1000",
            "SELECT id FROM p.t WHERE k < 2000 AND name = 'name 9' ORDER BY id LIMIT 3",
        ] {
            answer(&session, sql).await.unwrap();
        }
    }
    let found = recorded(&table).await;
    let conditions = [(2, ConditionKind::Range), (3, ConditionKind::Equal)];
    let mut queries = 0;
    for (shape, sums) in &found {
        assert_eq!(shape.conditions, conditions.into(), "{shape:?}");
        assert!(shape.columns.contains(&2) && shape.columns.contains(&3) && shape.indexes.is_empty());
        // Two objects, whose statistics exclude nothing.
        assert_eq!((sums.objects, sums.rows), (2 * sums.queries, 2 * ROWS as u64 * sums.queries));
        assert!(sums.bytes_read > 0 && sums.last_ms > 0, "{sums:?}");
        queries += sums.queries;
    }
    assert_eq!(queries, 9);
    // 50 of 4,000 rows have a name, and half or a quarter of them the number, in each object.
    let selected: u64 = found.values().map(|sums| sums.rows_selected).sum();
    let expected = async |condition: &str| {
        let counted = session(&store, settings(Pushdown::Never));
        let sql = format!("SELECT id FROM p.t WHERE {condition} LIMIT 100000");
        let rows: usize = answer(&counted, &sql).await.unwrap().1.iter().map(RecordBatch::num_rows).sum();
        rows as u64
    };
    let one = expected("name = 'name 7' AND k < 2000").await
        + expected("name = 'name 8' AND k < 1000").await
        + expected("k < 2000 AND name = 'name 9'").await;
    assert_eq!(selected, 3 * one);
    // The records name no value of a condition.
    let bytes = table.access().await.unwrap().unwrap().encode();
    assert!(!bytes.windows(4).any(|window| window == b"name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_failures_and_partial_reads_are_not_recorded() {
    let (store, table) = store_with_table().await;
    let session = session(&store, settings(Pushdown::Never));
    answer(&session, "SELECT id FROM p.t WHERE k = 1").await.unwrap();
    assert!(recorded(&table).await.is_empty(), "recording is off");
    table.record_access(true).await.unwrap();
    answer(&session, "SELECT id FROM p.t WHERE k < 100 LIMIT 1").await.unwrap();
    answer(&session, "EXPLAIN SELECT id FROM p.t WHERE k = 1").await.unwrap();
    answer(&session, "SELECT 1 / (id - id) FROM p.t WHERE k < 100").await.unwrap_err();
    let mut rows = session.query("SELECT id FROM p.t WHERE k >= 0").await.unwrap();
    rows.try_next().await.unwrap();
    drop(rows);
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    let entries: Vec<_> = snapshot.entries().try_collect().await.unwrap();
    let part = Selection { objects: Some(vec![entries[0].object.to_string()]), ..Selection::default() };
    session.select(snapshot.clone(), part).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
    assert!(recorded(&table).await.is_empty());
    // Another way to read a table is recorded.
    let whole = Selection { sql: Some("k < 100".to_owned()), ..Selection::default() };
    session.select(snapshot, whole).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(recorded(&table).await.values().map(|sums| sums.rows_selected).collect::<Vec<_>>(), [200]);
    table.record_access(false).await.unwrap();
    answer(&session, "SELECT id FROM p.t WHERE k = 1").await.unwrap();
    assert!(recorded(&table).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_names_the_index_that_it_used() {
    let (store, table) = store_with_table().await;
    let index = table.add_index(&["k"]).await.unwrap();
    build_indexes(&table).await;
    table.record_access(true).await.unwrap();
    for pushdown in ALL {
        answer(&session(&store, settings(pushdown)), "SELECT id FROM p.t WHERE k = 17").await.unwrap();
    }
    let found = recorded(&table).await;
    let [(shape, sums)] = &found.iter().collect::<Vec<_>>()[..] else { panic!("{found:?}") };
    assert_eq!((shape.indexes.clone(), sums.queries, sums.rows_selected), ([index.number].into(), 3, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_records_do_not_disturb_queries() {
    let (store, table) = store_with_table().await;
    table.record_access(true).await.unwrap();
    let object = benthic_core::ObjectId::in_namespace(table.id().namespace(), "access").unwrap();
    table.pool().write_full(&object, "nonsense").await.unwrap();
    let session = session(&store, settings(Pushdown::Never));
    assert_eq!(answer(&session, "SELECT id FROM p.t WHERE k = 1").await.unwrap().1[0].num_rows(), 1);
    table.access().await.unwrap_err();
    // Removed records, as if the recording ended in the middle of a query.
    table.pool().remove(&object).await.unwrap();
    answer(&session, "SELECT id FROM p.t WHERE k = 1").await.unwrap();
    assert_eq!(table.access().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_at_the_same_time_are_all_recorded_by_one_session() {
    let (store, table) = store_with_table().await;
    table.record_access(true).await.unwrap();
    let session = Arc::new(session(&store, settings(Pushdown::Never)));
    let queries = (0..20).map(|number| {
        let session = Arc::clone(&session);
        tokio::spawn(async move {
            answer(&session, &format!("SELECT id FROM p.t WHERE k = {number}")).await.unwrap();
        })
    });
    futures::future::join_all(queries).await.into_iter().for_each(|done| done.unwrap());
    // What waited when the last writer stopped is written with the next query.
    answer(&session, "SELECT id FROM p.t WHERE k = 3").await.unwrap();
    let queries: u64 = recorded(&table).await.values().map(|sums| sums.queries).sum();
    assert_eq!(queries, 21);
}
