//! Aggregates that a query contains several times.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use benthic_sql::common_subplan::SharingPlanner;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROWS: usize = 10_000;
const NAMED_TWICE: &str = "WITH sums AS (SELECT g, sum(counted(v)) AS s FROM t GROUP BY g) \
    SELECT a.g, a.s, b.s FROM sums a JOIN sums b ON a.g = b.g + 1 ORDER BY 1";

/// A session with a table `t` of three partitions, and the number of rows that its function
/// `counted` has seen.
fn session(planner: Option<SharingPlanner>) -> (SessionContext, Arc<AtomicUsize>) {
    let mut state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(3).with_batch_size(100));
    if let Some(planner) = planner {
        state = state.with_query_planner(Arc::new(planner));
    }
    let session = SessionContext::new_with_state(state.build());
    let schema =
        Arc::new(Schema::new(["g", "v"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
    let part = |part: usize| {
        let numbers = (part..ROWS).step_by(3).map(|number| number as i64);
        let groups: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n * n % 97)));
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        vec![RecordBatch::try_new(Arc::clone(&schema), vec![groups, values]).unwrap()]
    };
    let table = MemTable::try_new(Arc::clone(&schema), (0..3).map(part).collect()).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let counted = move |args: &[ColumnarValue]| {
        if let ColumnarValue::Array(values) = &args[0] {
            counter.fetch_add(values.len(), Ordering::Relaxed);
        }
        Ok(args[0].clone())
    };
    let long = DataType::Int64;
    let counted = create_udf("counted", vec![long.clone()], long, Volatility::Immutable, Arc::new(counted));
    session.register_udf(counted);
    (session, seen)
}

async fn rows(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn plan(session: &SessionContext, sql: &str) -> String {
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test]
async fn an_aggregate_that_a_query_names_twice_runs_once() {
    let (plain, seen) = session(None);
    let expected = rows(&plain, NAMED_TWICE).await;
    assert!(expected.lines().count() > 15, "{expected}");
    assert_eq!(seen.load(Ordering::Relaxed), 2 * ROWS);
    let (sharing, seen) = session(Some(SharingPlanner::default()));
    assert_eq!(rows(&sharing, NAMED_TWICE).await, expected);
    assert_eq!(seen.load(Ordering::Relaxed), ROWS);
    // Each query has rows of its own.
    assert_eq!(rows(&sharing, NAMED_TWICE).await, expected);
    assert_eq!(seen.load(Ordering::Relaxed), 2 * ROWS);
}

#[tokio::test]
async fn each_copy_runs_if_the_rows_take_too_much_memory() {
    let (plain, _) = session(None);
    let expected = rows(&plain, NAMED_TWICE).await;
    let (small, seen) = session(Some(SharingPlanner::new(0)));
    assert_eq!(rows(&small, NAMED_TWICE).await, expected);
    assert!(seen.load(Ordering::Relaxed) >= 2 * ROWS);
}

#[tokio::test]
async fn queries_have_the_same_rows_as_without_shared_aggregates() {
    let queries = [
        "WITH a AS (SELECT g, count(*) c FROM t GROUP BY g) \
         SELECT * FROM a WHERE c = (SELECT max(c) FROM a) ORDER BY g",
        "WITH a AS (SELECT g, avg(v) m FROM t WHERE v > 20 GROUP BY g) \
         SELECT * FROM a x WHERE m > (SELECT avg(m) FROM a) ORDER BY g",
        "WITH a AS (SELECT g, sum(v) s FROM t GROUP BY g), b AS (SELECT s % 7 r, count(*) c FROM a GROUP BY r) \
         SELECT x.r, x.c, y.c, (SELECT count(*) FROM a) n FROM b x JOIN b y ON x.r = y.r ORDER BY 1",
        "SELECT * FROM (SELECT g FROM t GROUP BY g ORDER BY g LIMIT 5) UNION ALL \
         SELECT * FROM (SELECT g FROM t GROUP BY g ORDER BY g DESC LIMIT 5) ORDER BY 1",
        "SELECT DISTINCT g FROM t INTERSECT SELECT DISTINCT g FROM t ORDER BY 1",
        "WITH a AS (SELECT v % 4000 k, min(g) m FROM t GROUP BY k) \
         SELECT count(*), sum(x.m), sum(y.m) FROM a x JOIN a y ON x.k = y.k JOIN a z ON z.k = x.k",
    ];
    let (plain, _) = session(None);
    for bytes_max in [0, 10_000, usize::MAX] {
        let (sharing, _) = session(Some(SharingPlanner::new(bytes_max)));
        for sql in queries {
            assert!(plan(&sharing, sql).await.contains("CommonSubplanExec"), "{sql}");
            assert_eq!(rows(&sharing, sql).await, rows(&plain, sql).await, "{sql} {bytes_max}");
        }
    }
}

#[tokio::test]
async fn aggregates_that_may_differ_stay_apart() {
    let (sharing, _) = session(Some(SharingPlanner::default()));
    for sql in [
        "WITH a AS (SELECT g, count(*) c FROM t WHERE random() < 0.5 GROUP BY g) \
         SELECT * FROM a x JOIN a y ON x.g = y.g",
        "SELECT * FROM (SELECT g, sum(v) FROM t GROUP BY g) x JOIN (SELECT g, min(v) FROM t GROUP BY g) y \
         ON x.g = y.g",
        "SELECT a.s, b.s FROM (SELECT sum(value) s FROM generate_series(1, 10)) a, \
         (SELECT sum(value) s FROM generate_series(1, 20)) b",
        "WITH a AS (SELECT g, count(*) c FROM (SELECT g FROM t ORDER BY v LIMIT 2000) GROUP BY g) \
         SELECT * FROM a x JOIN a y ON x.g = y.g",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT m + 1 FROM (SELECT max(n) AS m FROM r) \
         WHERE m < 5) SELECT count(*) FROM r a JOIN r b ON a.n = b.n",
    ] {
        let plan = plan(&sharing, sql).await;
        assert!(!plan.contains("CommonSubplanExec"), "{plan}");
    }
}

#[tokio::test]
async fn the_limit_counts_each_byte_once() {
    let (sharing, seen) = session(Some(SharingPlanner::new(300_000)));
    let sql = "WITH a AS (SELECT counted(v) k, min(g) m FROM t GROUP BY k) \
         SELECT count(*) FROM a x JOIN a y ON x.k = y.k + 1";
    assert!(rows(&sharing, sql).await.contains("9999"));
    assert_eq!(seen.load(Ordering::Relaxed), ROWS, "10,000 groups of two numbers take 160 kB");
}

#[tokio::test]
async fn an_error_of_a_shared_aggregate_ends_the_query() {
    let (sharing, _) = session(Some(SharingPlanner::default()));
    let sql = "WITH a AS (SELECT g, sum(1 / (v - 5)) s FROM t GROUP BY g) \
         SELECT * FROM a x JOIN a y ON x.g = y.g";
    let error = sharing.sql(sql).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("Divide by zero"), "{error}");
}
