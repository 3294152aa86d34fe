//! Filters in fragments: the keys of joins, regular expressions, paths in JSON; and the reads that
//! the Bloom filters of objects save there.

use crate::fixtures::{answer, append, create, memory_store, pool, session, ways};
use crate::support::{metric, rows};
use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::Store;
use benthic_core::pushdown::Pushdown;
use benthic_sql::join_filter::sendable;
use benthic_sql::session::Settings;
use benthic_table::{Definition, TableSchema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CaseExpr, binary, col, lit};
use std::sync::Arc;

const OBJECTS: i64 = 4;
const OBJECT_ROWS: i64 = 10_000;

/// Numbers in no order, so that the bounds of an object exclude none of them.
fn scattered(row: i64) -> i64 {
    row * 7_919 % 1_000_003
}

fn some(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let numbers = || ids.clone().map(scattered);
    let decimals = Decimal128Array::from_iter_values(numbers().map(|n| i128::from(n) * 25));
    let columns: [(&str, ArrayRef); 6] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("n", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("day", Arc::new(Date32Array::from_iter_values(numbers().map(|n| n as i32)))),
        ("price", Arc::new(decimals.with_precision_and_scale(15, 2).unwrap())),
        ("name", Arc::new(StringArray::from_iter_values(numbers().map(|n| format!("customer {n:07}"))))),
        (
            "doc",
            Arc::new(StringArray::from_iter_values(
                ids.map(|id| format!(r#"{{"kind": {}, "id": {id}}}"#, id % 50)),
            )),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A table of many rows in several objects, and one of every 80th of them.
async fn store(bloom: &[&str]) -> Arc<dyn Store> {
    let store = memory_store();
    let pool = pool(&store, "p").await;
    let mut definition = Definition::new(&some(0..1).schema()).unwrap();
    let id = |schema: &TableSchema, name: &&str| schema.by_name(name).unwrap().id;
    definition.layout.bloom = bloom.iter().map(|name| id(&definition.schema, name)).collect();
    let big = create(&pool, "big", &definition).await;
    for object in 0..OBJECTS {
        append(&big, &[some(object * OBJECT_ROWS..(object + 1) * OBJECT_ROWS)]).await;
    }
    let few = create(&pool, "few", &Definition::new(&some(0..1).schema()).unwrap()).await;
    append(&few, &[some((0..OBJECTS * OBJECT_ROWS + 5_000).step_by(80))]).await;
    store
}

/// The rows of a query, which are the same in all ways.
async fn same(store: &Arc<dyn Store>, sql: &str) -> Vec<String> {
    let mut first = None;
    for (way, settings) in ways() {
        let found = rows(&answer(&session(store, settings), sql).await.unwrap().1);
        assert_eq!(&found, first.get_or_insert(found.clone()), "{way}: {sql}");
    }
    first.unwrap_or_default()
}

async fn explained(store: &Arc<dyn Store>, pushdown: Pushdown, sql: &str) -> String {
    let settings = Settings { pushdown, partitions: 2, ..Settings::default() };
    let sql = format!("EXPLAIN ANALYZE {sql}");
    rows(&answer(&session(store, settings), &sql).await.unwrap().1).join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_a_join_go_to_the_objects() {
    let store = store(&[]).await;
    for on in [
        "b.n = f.n",
        "b.day = f.day",
        "b.price = f.price",
        "b.name = f.name",
        "b.n = f.n AND b.name = f.name",
        "b.n % 1000 = f.n % 1000 AND b.day = f.day",
    ] {
        let sql = format!("SELECT count(*), sum(f.id), min(b.doc) FROM p.big b JOIN p.few f ON {on}");
        let found = same(&store, &sql).await;
        assert!(found[0].starts_with("500|9980000|"), "{on}: {found:?}");
        let plan = explained(&store, Pushdown::Always, &sql).await;
        assert!(plan.contains("only") && plan.contains("membership_filter("), "{on}: {plan}");
        assert_eq!(metric(&plan, "objects_pushed"), OBJECTS as u64, "{on}: {plan}");
        // The rows of both sides.
        assert!(metric(&plan, "input_rows") < 563 + 2_000, "{on}: {plan}");
    }
    // A list of few keys stays a list, which an index and bounds can use.
    let sql = "SELECT count(*) FROM p.big b JOIN p.few f ON b.n = f.n WHERE f.id < 2000";
    assert_eq!(same(&store, sql).await, ["25"]);
    let plan = explained(&store, Pushdown::Always, sql).await;
    assert!(plan.contains(" IN (SET) (") && !plan.contains("membership_filter("), "{plan}");
    // Most numbers between the bounds are keys, so a filter would not help.
    let sql = "SELECT count(*) FROM p.big b JOIN (SELECT id FROM p.big WHERE id % 4 < 3) f ON b.id = f.id";
    assert_eq!(same(&store, sql).await, ["30000"]);
    let plan = explained(&store, Pushdown::Always, sql).await;
    assert!(!plan.contains("membership_filter("), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_that_keep_rows_without_a_partner_keep_them() {
    let store = store(&[]).await;
    for (sql, rows) in [
        ("SELECT count(*), count(f.id) FROM p.big b LEFT JOIN p.few f ON b.n = f.n", "40000|500"),
        ("SELECT count(*), count(b.id) FROM p.big b RIGHT JOIN p.few f ON b.n = f.n", "563|500"),
        ("SELECT count(*) FROM p.big WHERE n NOT IN (SELECT n FROM p.few)", "39500"),
        ("SELECT count(*) FROM p.big b WHERE EXISTS (SELECT 1 FROM p.few f WHERE f.name = b.name)", "500"),
        (
            "SELECT count(*) FROM (SELECT CASE WHEN id % 2 = 0 THEN n END AS n FROM p.big INTERSECT \
             SELECT CASE WHEN id < 20000 THEN n END FROM p.few)",
            "251",
        ),
    ] {
        assert_eq!(same(&store, sql).await, [rows], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_on_texts_go_to_the_objects() {
    let store = store(&[]).await;
    let ids = || 0..OBJECTS * OBJECT_ROWS;
    let count = |wanted: fn(i64) -> bool| ids().filter(|id| wanted(scattered(*id))).count().to_string();
    let of_kind: Vec<i64> = ids().filter(|id| id % 50 == 7).collect();
    for (sql, answer) in [
        (
            "SELECT count(*) FROM p.big WHERE name ~ ' 0+[1-9]{2}$'",
            count(|n| (11..100).contains(&n) && n % 10 > 0),
        ),
        ("SELECT count(*) FROM p.big WHERE name !~* 'CUSTOMER 0[0-8]'", count(|n| n >= 900_000)),
        (
            "SELECT count(*), sum(json_get_int(doc, 'id')) FROM p.big WHERE doc ->> 'kind' = '7'",
            format!("{}|{}", of_kind.len(), of_kind.iter().sum::<i64>()),
        ),
        ("SELECT count(*) FROM p.big WHERE json_get_float(doc, 'kind') > 48.5", "800".to_owned()),
    ] {
        let found = same(&store, sql).await;
        let plan = explained(&store, Pushdown::Always, sql).await;
        assert_eq!(metric(&plan, "objects_pushed"), OBJECTS as u64, "{sql}: {plan}");
        assert!(plan.contains("beside each: AggregateExec: mode=Partial"), "{sql}: {plan}");
        assert_eq!(found, [answer], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bloom_filters_save_reads() {
    let (plain, filtered) = (store(&[]).await, store(&["n", "name", "price"]).await);
    let some = scattered(12_345);
    for (condition, columns) in [
        (format!("n = {some}"), "n, doc"),
        (format!("name IN ('customer {some:07}', 'customer x')"), "name, doc"),
        (format!("price = {:.2}", some as f64 / 4.0), "price, doc"),
    ] {
        let sql = format!("SELECT {columns} FROM p.big WHERE {condition}");
        assert_eq!(same(&plain, &sql).await, same(&filtered, &sql).await);
        assert_eq!(same(&filtered, &sql).await.len(), 1, "{sql}");
        let read = async |store, pushdown, name: &str| metric(&explained(store, pushdown, &sql).await, name);
        let (all, few) = (
            read(&plain, Pushdown::Always, "bytes_read_there").await,
            read(&filtered, Pushdown::Always, "bytes_read_there").await,
        );
        assert!(few * 2 < all, "{sql}: {few} of {all} bytes beside the objects");
        let plan = explained(&filtered, Pushdown::Never, &sql).await;
        assert!(plan.contains("row_groups_pruned_bloom_filter=4 total → 1 matched"), "{plan}");
    }
}

/// All null keys of a join's build side are in one partition, which may have no other key.
#[test]
fn partitions_of_null_keys_exclude_nothing() {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let key = || col("n", &schema).unwrap();
    let bound = |operator, value: Option<i64>| {
        binary(key(), operator, lit(ScalarValue::Int64(value)), &schema).unwrap()
    };
    let filter = |bounds: &[(Option<i64>, Option<i64>)]| {
        let partition = |(place, (least, greatest)): (usize, &(Option<i64>, Option<i64>))| {
            let (least, greatest) = (bound(Operator::GtEq, *least), bound(Operator::LtEq, *greatest));
            (lit(place as u64), binary(least, Operator::And, greatest, &schema).unwrap())
        };
        let partitions = bounds.iter().enumerate().map(partition).collect();
        let case: Arc<dyn PhysicalExpr> =
            Arc::new(CaseExpr::try_new(Some(lit(0_u64)), partitions, Some(lit(false))).unwrap());
        sendable(&case, &schema, 0).unwrap().map(|sent| sent.to_string())
    };
    let (null, some) = ((None, None), (Some(3), Some(5)));
    let wider = (Some(-1), Some(4));
    assert_eq!(filter(&[some, wider]).unwrap(), "n@0 >= -1 AND n@0 <= 5");
    for bounds in [&[null, some][..], &[some, null], &[null, some, null]] {
        assert_eq!(filter(bounds).unwrap(), "n@0 >= 3 AND n@0 <= 5");
    }
    assert_eq!(filter(&[null, null]), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_of_floats_find_both_zeros() {
    let store = memory_store();
    let pool = pool(&store, "p").await;
    let floats = |values: Vec<f64>| {
        let places: ArrayRef = Arc::new(Int64Array::from_iter_values(0..values.len() as i64));
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        RecordBatch::try_from_iter([("place", places), ("x", values)]).unwrap()
    };
    let many = (0..2_000).map(|place| if place % 2 == 0 { -0.0 } else { f64::from(place) }).collect();
    for (name, values) in [("probe", many), ("build", vec![0.0])] {
        let batch = floats(values);
        let table = create(&pool, name, &Definition::new(&batch.schema()).unwrap()).await;
        append(&table, &[batch]).await;
    }
    let joined = "SELECT count(*) FROM p.probe b JOIN p.build f ON b.x = f.x";
    assert_eq!(same(&store, joined).await, ["1000"]);
}

/// The keys' filter runs below the query's own conditions, so it must not fail for other rows.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_conditions_protect_do_not_fail() {
    let store = store(&[]).await;
    let pool = pool(&store, "p").await;
    let code = |row: i64| if row % 2 == 0 { row.to_string() } else { "abc".to_owned() };
    let codes: ArrayRef = Arc::new(StringArray::from_iter_values((0..4_000).map(code)));
    let batch = RecordBatch::try_from_iter([("code", codes)]).unwrap();
    let table = create(&pool, "codes", &Definition::new(&batch.schema()).unwrap()).await;
    append(&table, &[batch]).await;
    let sql = "SELECT count(*) FROM p.codes b JOIN (SELECT id FROM p.few WHERE id < 1600) f \
               ON CAST(b.code AS BIGINT) = f.id WHERE b.code ~ '^[0-9]+$'";
    assert_eq!(same(&store, sql).await, ["20"]);
}
