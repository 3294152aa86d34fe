//! Tables that record access.

use crate::fixtures::{answer, append, build_indexes, create, memory_store, pool, session};
use crate::support::ALL;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Pool, Store};
use benthic_sql::record::Recording;
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
    // Nothing is known about the conditions of queries with a limit.
    let unknown = [(2, ConditionKind::Other), (3, ConditionKind::Other)];
    let (mut queries, mut limited) = (0, 0);
    for (shape, sums) in &found {
        if shape.conditions == unknown.into() {
            assert_eq!(
                AccessSums { last_ms: 0, ..*sums },
                AccessSums { queries: sums.queries, ..AccessSums::default() }
            );
            limited += sums.queries;
            continue;
        }
        assert_eq!(shape.conditions, conditions.into(), "{shape:?}");
        assert!(shape.columns.contains(&2) && shape.columns.contains(&3) && shape.indexes.is_empty());
        // Two objects, whose statistics exclude nothing.
        assert_eq!((sums.objects, sums.rows), (2 * sums.queries, 2 * ROWS as u64 * sums.queries));
        assert!(sums.bytes_read > 0 && sums.last_ms > 0, "{sums:?}");
        queries += sums.queries;
    }
    assert_eq!((queries, limited), (6, 3));
    // 50 of 4,000 rows have a name, and half or a quarter of them the number, in each object.
    let selected: u64 = found.values().map(|sums| sums.rows_selected).sum();
    let expected = async |condition: &str| {
        let counted = session(&store, settings(Pushdown::Never));
        let sql = format!("SELECT id FROM p.t WHERE {condition} LIMIT 100000");
        let rows: usize = answer(&counted, &sql).await.unwrap().1.iter().map(RecordBatch::num_rows).sum();
        rows as u64
    };
    let one = expected("name = 'name 7' AND k < 2000").await + expected("name = 'name 8' AND k < 1000").await;
    assert_eq!(selected, 3 * one);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_do_not_depend_on_the_values_of_conditions() {
    let mut encoded = Vec::new();
    for (name, least) in [("name 7", 9), ("name 8", 3_999)] {
        let (store, table) = store_with_table().await;
        table.record_access(true).await.unwrap();
        let sql = format!("SELECT id FROM p.t WHERE name = '{name}' AND k <> {least} AND id >= 0");
        answer(&session(&store, settings(Pushdown::Never)), &sql).await.unwrap();
        let mut access = table.access().await.unwrap().unwrap();
        access.since_ms = 0;
        assert_eq!(access.queries(), 1);
        // Of the numbers, these depend on the rows and the time.
        access.shapes.values_mut().for_each(|sums| (sums.last_ms, sums.rows_selected) = (0, 0));
        encoded.push(access.encode());
    }
    assert_eq!(encoded[0], encoded[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_dynamic_filters_hide_what_the_conditions_select() {
    let (store, table) = store_with_table().await;
    for pushdown in ALL {
        for sql in [
            "SELECT id FROM p.t WHERE k < 100 LIMIT 1",
            "SELECT id FROM p.t WHERE k < 100 ORDER BY id LIMIT 1",
            "SELECT DISTINCT name FROM p.t WHERE k < 100 LIMIT 1",
            "SELECT id FROM p.t WHERE k < 100 AND random() < 2 LIMIT 1",
            "SELECT a.id FROM p.t a JOIN p.t b ON a.id = b.id WHERE a.k < 100 AND b.k < 90 LIMIT 1",
        ] {
            table.record_access(true).await.unwrap();
            answer(&session(&store, settings(pushdown)), sql).await.unwrap();
            let found = recorded(&table).await;
            assert!(!found.is_empty(), "{pushdown:?} {sql}");
            for (shape, sums) in found {
                assert!(
                    shape.conditions.iter().all(|(_, kind)| *kind == ConditionKind::Other),
                    "{sql} {shape:?}"
                );
                assert_eq!((sums.rows, sums.rows_selected, sums.bytes_read), (0, 0, 0), "{pushdown:?} {sql}");
            }
            table.record_access(false).await.unwrap();
        }
        // The side of a join that a dynamic filter selects.
        table.record_access(true).await.unwrap();
        let sql = "SELECT a.id FROM p.t a JOIN p.t b ON a.k = b.id WHERE a.name = 'name 3' AND b.k = 5";
        answer(&session(&store, settings(pushdown)), sql).await.unwrap();
        let is_of_names = |shape: &AccessShape| shape.columns.contains(&3);
        for (shape, sums) in recorded(&table).await {
            if is_of_names(&shape) && sums.rows > 0 {
                assert_eq!(sums.rows_selected, 2 * ROWS as u64 / 40, "{pushdown:?} {shape:?}");
            }
        }
        table.record_access(false).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_partial_reads_are_not_recorded() {
    let (store, table) = store_with_table().await;
    let session = session(&store, settings(Pushdown::Never));
    answer(&session, "SELECT id FROM p.t WHERE k = 1").await.unwrap();
    assert!(recorded(&table).await.is_empty(), "recording is off");
    table.record_access(true).await.unwrap();
    answer(&session, "EXPLAIN SELECT id FROM p.t WHERE k = 1").await.unwrap();
    answer(&session, "SELECT 1 / (id - id) FROM p.t WHERE k < 100").await.unwrap_err();
    let mut rows = session.query("SELECT id FROM p.t WHERE k >= 0").await.unwrap();
    rows.try_next().await.unwrap();
    drop(rows);
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    let entries: Vec<_> = snapshot.entries().try_collect().await.unwrap();
    let part = Selection { objects: Some(vec![entries[0].object.to_string()]), ..Selection::default() };
    session.select(snapshot.clone(), part).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
    let off = Settings { recording: Recording::Off, ..settings(Pushdown::Never) };
    answer(&session.with_settings(off), "SELECT id FROM p.t WHERE k = 1").await.unwrap();
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
    let (_, batches) = answer(&session, "SELECT id FROM p.t WHERE k = 1").await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
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
    // The next query writes the records that waited when the last writer stopped.
    answer(&session, "SELECT id FROM p.t WHERE k = 3").await.unwrap();
    let queries: u64 = recorded(&table).await.values().map(|sums| sums.queries).sum();
    assert_eq!(queries, 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_the_rows_before_the_query_is_recorded() {
    let (store, table) = store_with_table().await;
    table.record_access(true).await.unwrap();
    let settings = Settings { recording: Recording::InBackground, ..settings(Pushdown::Never) };
    answer(&session(&store, settings), "SELECT id FROM p.t WHERE k = 1").await.unwrap();
    let is_recorded = async {
        while recorded(&table).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), is_recorded).await.unwrap();
}
