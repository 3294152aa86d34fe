//! Joins with a hash table for each partition. The filter of such a join is a CASE, which selects
//! the keys of a row's partition by a hash.
//!
//! DataFusion makes one hash table for all partitions if the rows of a side have less than 1 MiB,
//! so both tables are larger. Without pushdown, our limit is larger, so the first rows of each
//! comparison come from a join with one hash table.

use crate::fixtures::{answer, append, create, memory_store, pool, session};
use crate::support::{ALL, metric, rows};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use benthic_core::Store;
use benthic_core::pushdown::Pushdown;
use benthic_sql::session::Settings;
use benthic_table::Definition;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

const OBJECTS: i64 = 4;
const OBJECT_ROWS: i64 = 18_000;
const PROBE_ROWS: i64 = OBJECTS * OBJECT_ROWS;
const BUILD_ROWS: i64 = 60_000;

/// A number for each row of the probe side, in no order, and few nulls.
fn key(row: i64) -> Option<i64> {
    (row % 7_997 > 0).then_some(scattered(row))
}

fn scattered(row: i64) -> i64 {
    row * 7_919 % 1_000_003
}

/// The keys of `count` rows of the probe side, each many times, and nulls.
fn keys(row: i64, count: i64) -> Option<i64> {
    (row % 13 > 0).then_some(scattered(row % count * (PROBE_ROWS / count)))
}

fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

/// Both zeros, which are equal, and numbers that only one side has.
fn zeros(rows: Range<i64>, every: i64, sign: f64) -> ArrayRef {
    let zero = |row: i64| if row % 3 == 0 { -0.0 } else { 0.0 };
    let value = |row: i64| if row % every == 0 { zero(row) } else { sign * row as f64 };
    Arc::new(Float64Array::from_iter_values(rows.map(value)))
}

fn probe(rows: Range<i64>) -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("id", numbers(rows.clone().map(Some))),
        ("n", numbers(rows.clone().map(key))),
        ("v", numbers(rows.clone().map(|row| Some(row % 100)))),
        ("x", zeros(rows, 500, 1.0)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn build() -> RecordBatch {
    let all = 0..BUILD_ROWS;
    let columns: [(&str, ArrayRef); 7] = [
        ("id", numbers(all.clone().map(Some))),
        ("n", numbers(all.clone().map(|row| keys(row, 500)))),
        ("few", numbers(all.clone().map(|row| keys(row, 40)))),
        ("one", numbers(all.clone().map(|row| keys(row, 1).map(|_| scattered(42))))),
        ("none", numbers(all.clone().map(|_| None))),
        ("v", numbers(all.clone().map(|row| Some(row % 100)))),
        ("x", zeros(all, 50, -1.0)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).unwrap()
}

async fn store() -> Arc<dyn Store> {
    let store = memory_store();
    let pool = pool(&store, "p").await;
    let big = create(&pool, "big", &Definition::new(&probe(0..1).schema()).unwrap()).await;
    for object in 0..OBJECTS {
        append(&big, &[probe(object * OBJECT_ROWS..(object + 1) * OBJECT_ROWS)]).await;
    }
    let keys = create(&pool, "keys", &Definition::new(&build().schema()).unwrap()).await;
    append(&keys, &[build()]).await;
    store
}

/// The rows of a query, which are the same in all modes, and the plan of a query that pushes.
async fn same(store: &Arc<dyn Store>, sql: &str) -> (Vec<String>, String) {
    let session_of = |pushdown| session(store, Settings { pushdown, partitions: 3, ..Settings::default() });
    let mut first = None;
    for pushdown in ALL {
        let found = rows(&answer(&session_of(pushdown), sql).await.unwrap().1);
        assert_eq!(&found, first.get_or_insert(found.clone()), "{pushdown:?}: {sql}");
    }
    let sql = format!("EXPLAIN ANALYZE {sql}");
    let plan = rows(&answer(&session_of(Pushdown::Always), &sql).await.unwrap().1).join("\n");
    assert!(plan.contains("HashJoinExec: mode=Partitioned"), "{sql}: {plan}");
    (first.unwrap_or_default(), plan)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_all_partitions_go_to_the_objects() {
    let store = store().await;
    let partners: HashSet<i64> = (0..PROBE_ROWS).filter_map(key).collect();
    // No two rows of the probe side have the same key.
    let joined = |of: fn(i64) -> Option<i64>| {
        Some((0..BUILD_ROWS).filter_map(of).filter(|key| partners.contains(key)).count())
    };
    for (on, filter, count) in [
        ("b.n = f.n", "membership_filter(", joined(|row| keys(row, 500))),
        ("b.n = f.few", " IN (SET) (", joined(|row| keys(row, 40))),
        ("b.n = f.one", " IN (SET) (", joined(|row| keys(row, 1).map(|_| scattered(42)))),
        ("b.n = f.none", "", Some(0)),
        ("b.n = f.n AND b.v = f.v", "membership_filter(", None),
        ("b.n % 1000 = f.few % 1000 AND b.v = f.v", "membership_filter(", None),
        ("b.n IS NOT DISTINCT FROM f.n", "IS NULL OR", None),
        ("b.n IS NOT DISTINCT FROM f.none", "IS NULL OR", Some(10 * BUILD_ROWS as usize)),
        ("(b.n IS NOT DISTINCT FROM f.few) AND (b.v IS NOT DISTINCT FROM f.v)", "IS NULL OR", None),
        ("b.x = f.x", "", Some((PROBE_ROWS / 500 * (BUILD_ROWS / 50)) as usize)),
    ] {
        let sql = format!(
            "SELECT count(*), sum(b.id + b.v), sum(b.n), sum(f.id + f.v) FROM p.big b JOIN p.keys f ON {on}"
        );
        let (found, plan) = same(&store, &sql).await;
        let found = found[0].split('|').next().unwrap_or_default();
        match count {
            Some(count) => assert_eq!(found, count.to_string(), "{on}"),
            None => assert_ne!(found, "0", "{on}"),
        }
        assert!(plan.contains(filter), "{on}: {plan}");
        if filter.starts_with("membership") {
            // Far fewer rows than the probe side has.
            assert!(metric(&plan, "rows_selected") < 7_200, "{on}: {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_of_partitioned_joins_keep_their_rows() {
    let store = store().await;
    let sums = "count(*), sum(b.id + b.v), sum(b.n), sum(f.id + f.v)";
    let mut queries: Vec<String> = ["LEFT", "RIGHT", "FULL"]
        .map(|kind| format!("SELECT {sums} FROM p.big b {kind} JOIN p.keys f ON b.n = f.n"))
        .into();
    for exists in ["EXISTS", "NOT EXISTS"] {
        let keys = "SELECT 1 FROM p.keys f WHERE f.n = b.n AND f.v = b.v AND f.id <> b.id";
        queries.push(format!("SELECT count(*), sum(b.id), sum(b.n) FROM p.big b WHERE {exists} ({keys})"));
    }
    for operator in ["INTERSECT", "EXCEPT"] {
        let of = |table: &str| format!("SELECT n, v, id % 2 FROM p.{table}");
        let (big, keys) = (of("big"), of("keys"));
        queries.push(format!("SELECT count(*), sum(n), sum(v) FROM ({big} {operator} {keys})"));
    }
    for sql in queries {
        let (found, _) = same(&store, &sql).await;
        assert!(!found[0].starts_with("0|"), "{sql}: {found:?}");
    }
}
